//! The resources allocated to a running pod, apart from the pod's current requests: a resize waits until the node has
//! room. PURE.

use coracle_api::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::resize;
use crate::facts::members::MemberKind;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;

/// The resources of a pod and of each of its containers, by their lists and names.
pub fn of(wanted: &Wanted) -> Value {
    let mut containers = Map::new();
    for member in wanted.members().filter(|member| member.kind != MemberKind::Ephemeral) {
        containers.insert(member.spec.name.clone(), wanted.document_of(&member)["resources"].clone());
    }
    json!({"pod": wanted.document["spec"]["resources"], "containers": containers})
}

/// The same pod with other resources. None: they are its own.
pub fn with(wanted: &Wanted, allocation: &Value) -> Option<Wanted> {
    if of(wanted) == *allocation {
        return None;
    }
    let mut document = wanted.document.clone();
    let set = |place: &mut Value, resources: &Value| match (place.as_object_mut(), resources.is_null()) {
        (Some(fields), true) => drop(fields.remove("resources")),
        (Some(fields), false) => drop(fields.insert("resources".to_owned(), resources.clone())),
        (None, _) => {}
    };
    for member in wanted.members().filter(|member| member.kind != MemberKind::Ephemeral) {
        if let Some(resources) = allocation["containers"].get(&member.spec.name) {
            set(&mut document["spec"][member.kind.list()][member.index], resources);
        }
    }
    set(&mut document["spec"], &allocation["pod"]);
    Wanted::new(wanted.name.source, document).ok()
}

/// The resources of a pod without a known allocation, from the limits that the engine reports for each running
/// container.
///
/// Of memory that is asked for and not limited the engine says nothing: it counts as had.
pub fn observed(wanted: &Wanted, runs: &[Run<'_>]) -> Value {
    let mut allocation = of(wanted);
    for member in wanted.members().filter(|member| member.kind != MemberKind::Ephemeral) {
        let run = seen::members(runs).find(|run| run.seen.lives() && run.tag.container == member.spec.name);
        let Some((asked, has)) = run.and_then(|run| Some((resize::wanted_of(wanted, &member, run)?, run.seen.limits?)))
        else {
            continue;
        };
        let resources = &mut allocation["containers"][&member.spec.name];
        if asked.cpu_shares != has.cpu_shares {
            // Shares are rounded down.
            resources["requests"]["cpu"] =
                Quantity::from_milli((has.cpu_shares * 1000 + 1023) / 1024).to_string().into();
        }
        if asked.cpu_quota_us != has.cpu_quota_us {
            let milli = (has.cpu_quota_us > 0).then(|| has.cpu_quota_us * 1000 / has.cpu_period_us.max(1));
            set_limit(resources, "cpu", milli.map(|milli| Quantity::from_milli(milli).to_string()));
        }
        if asked.memory_bytes != has.memory_bytes {
            set_limit(resources, "memory", (has.memory_bytes > 0).then(|| memory(has.memory_bytes)));
            let request = member.spec.resources.requests.get("memory").map(|request| request.value());
            if has.memory_bytes > 0 && request.is_some_and(|request| request > has.memory_bytes) {
                resources["requests"]["memory"] = memory(has.memory_bytes).into();
            }
        }
    }
    allocation
}

fn set_limit(resources: &mut Value, name: &str, amount: Option<String>) {
    match amount {
        Some(amount) => resources["limits"][name] = amount.into(),
        None => {
            if let Some(limits) = resources.get_mut("limits").and_then(Value::as_object_mut) {
                limits.remove(name);
            }
        }
    }
}

fn memory(bytes: i64) -> String {
    if bytes % (1 << 20) == 0 { format!("{}Mi", bytes >> 20) } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;

    fn wanted(cpu: &str) -> Wanted {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}, {"name": "d"}]});
        let document = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": spec});
        Wanted::new(Source::Master, document).unwrap()
    }

    #[test]
    fn a_pod_with_the_resources_that_it_has() {
        let (small, large) = (wanted("1"), wanted("2"));
        assert_eq!(with(&small, &of(&small)), None);
        let back = with(&large, &of(&small)).unwrap();
        assert_eq!(back.document, small.document);
    }
}
