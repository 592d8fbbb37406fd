//! What a pod that runs was given of this node, beside what it asks for now: a resize waits until there is room. PURE.

use serde_json::{Map, Value, json};

use crate::desired::{Wanted, status_of};
use crate::members::Kind;

/// The resources of a pod and of each of its containers, by their lists and names.
pub fn of(wanted: &Wanted) -> Value {
    let mut containers = Map::new();
    for member in wanted.members().filter(|member| member.kind != Kind::Ephemeral) {
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
    for member in wanted.members().filter(|member| member.kind != Kind::Ephemeral) {
        if let Some(resources) = allocation["containers"].get(&member.spec.name) {
            set(&mut document["spec"][member.kind.list()][member.index], resources);
        }
    }
    set(&mut document["spec"], &allocation["pod"]);
    Wanted::new(wanted.name.source, document).ok()
}

/// Of a resize that waited when this agent started: what the master has on record.
pub fn recorded(wanted: &Wanted) -> Option<Value> {
    wanted.pod.status.condition("PodResizePending").filter(|condition| condition.status == "True")?;
    let mut allocation = of(wanted);
    for member in wanted.members().filter(|member| member.kind != Kind::Ephemeral) {
        let resources = status_of(&wanted.document["status"], &member).map(|status| &status["resources"]);
        if let Some(resources) = resources.filter(|resources| resources.is_object()) {
            allocation["containers"][&member.spec.name] = resources.clone();
        }
    }
    Some(allocation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::Source;

    fn wanted(cpu: &str, status: Value) -> Wanted {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}, {"name": "d"}]});
        let document = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": spec, "status": status});
        Wanted::new(Source::Master, document).unwrap()
    }

    #[test]
    fn a_pod_with_the_resources_that_it_has() {
        let (small, large) = (wanted("1", json!({})), wanted("2", json!({})));
        assert_eq!(with(&small, &of(&small)), None);
        let back = with(&large, &of(&small)).unwrap();
        assert_eq!(back.document, small.document);
    }

    #[test]
    fn what_waited_before_this_agent_started() {
        let status = |pending: &str| {
            let conditions = json!([{"type": "PodResizePending", "status": pending}]);
            json!({"conditions": conditions, "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}, {"name": "d"}]})
        };
        assert_eq!(recorded(&wanted("2", status("True"))), Some(of(&wanted("1", json!({})))));
        assert_eq!(recorded(&wanted("2", status("False"))), None);
        assert_eq!(recorded(&wanted("2", json!({}))), None);
    }
}
