//! Limit ranges: what containers get that ask for nothing, and how much containers, pods and claims may ask for. PURE.

use coracle_api::strategy::pod_defaults;
use coracle_api::strategy::qos::{self, Amounts, amounts};
use coracle_schema::Sum;
use serde_json::{Value, json};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest ratio that is compared in thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;

fn items<'a>(ranges: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let items = ranges.iter().flat_map(|range| range["spec"]["limits"].as_array().into_iter().flatten());
    items.filter(move |item| item["type"] == kind)
}

/// What a container leaves open, as each range says it.
pub fn complete(ranges: &[Value], pod: &mut Value) {
    if ranges.is_empty() {
        return;
    }
    // What the pod says counts before anything is given: a limit is a request as well, and it may ask as a whole.
    pod_defaults::requests(&mut pod["spec"]);
    for range in ranges {
        let mut notes = Vec::new();
        for (field, word) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = pod["spec"].get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                give(range, container, word, &mut notes);
            }
        }
        if !notes.is_empty() {
            if !pod["metadata"]["annotations"].is_object() {
                pod["metadata"]["annotations"] = json!({});
            }
            pod["metadata"]["annotations"][ANNOTATION] = format!("LimitRanger plugin set: {}", notes.join("; ")).into();
        }
    }
}

fn give(range: &Value, container: &mut Value, word: &str, notes: &mut Vec<String>) {
    let name = container["name"].as_str().unwrap_or_default().to_owned();
    if !container.is_object() {
        return;
    }
    for (from, to, what) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let mut set = Vec::new();
        for item in items(std::slice::from_ref(range), "Container") {
            for (resource, amount) in item[from].as_object().into_iter().flatten() {
                if container["resources"][to][resource].is_null() {
                    if !container["resources"].is_object() {
                        container["resources"] = json!({});
                    }
                    container["resources"][to][resource] = amount.clone();
                    set.push(resource.clone());
                }
            }
        }
        if !set.is_empty() {
            set.sort();
            notes.push(format!("{} {what} for {word} {name}", set.join(", ")));
        }
    }
}

pub fn judge_pod(ranges: &[Value], pod: &Value) -> Result<(), String> {
    for range in ranges {
        let range = std::slice::from_ref(range);
        let mut found = Vec::new();
        for item in items(range, "Container") {
            let containers =
                ["containers", "initContainers"].into_iter().flat_map(|field| pod["spec"][field].as_array());
            for container in containers.flatten() {
                let resources = &container["resources"];
                found.extend(broken(
                    item,
                    "Container",
                    &amounts(&resources["requests"]),
                    &amounts(&resources["limits"]),
                ));
            }
        }
        for item in items(range, "Pod") {
            found.extend(broken(
                item,
                "Pod",
                &qos::of_pod(&pod["spec"], "requests"),
                &qos::of_pod(&pod["spec"], "limits"),
            ));
        }
        together(found)?;
    }
    Ok(())
}

/// Of a claim only requests count.
pub fn judge_claim(ranges: &[Value], claim: &Value) -> Result<(), String> {
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    for range in ranges {
        let mut found = Vec::new();
        for item in items(std::slice::from_ref(range), "PersistentVolumeClaim") {
            found.extend(
                entries(item, "min")
                    .filter_map(|(name, least)| too_little("PersistentVolumeClaim", name, least, &requests, None)),
            );
            for (name, most) in entries(item, "max") {
                let head = format!("maximum {name} usage per PersistentVolumeClaim is {most}");
                match requests.get(name) {
                    None => found.push(format!("{head}.  No request is specified")),
                    Some(asked) if above(*asked, most) => found.push(format!("{head}, but request is {asked}")),
                    Some(_) => {}
                }
            }
        }
        together(found)?;
    }
    Ok(())
}

/// All that is wrong at once, as Kubernetes puts it together.
fn together(mut found: Vec<String>) -> Result<(), String> {
    let mut once: Vec<String> = Vec::new();
    found.drain(..).for_each(|one| {
        if !once.contains(&one) {
            once.push(one);
        }
    });
    match once.len() {
        0 => Ok(()),
        1 => Err(once.remove(0)),
        _ => Err(format!("[{}]", once.join(", "))),
    }
}

fn entries<'a>(item: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a str)> {
    item[field].as_object().into_iter().flatten().map(|(name, amount)| (name, amount.as_str().unwrap_or_default()))
}

fn above(amount: Sum, most: &str) -> bool {
    Sum::of_text(most).is_some_and(|most| amount.amount() > most.amount())
}

fn below(amount: Sum, least: &str) -> bool {
    Sum::of_text(least).is_some_and(|least| amount.amount() < least.amount())
}

fn broken(item: &Value, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut found: Vec<String> = entries(item, "min")
        .filter_map(|(name, least)| too_little(kind, name, least, requests, Some(limits)))
        .collect();
    for (name, most) in entries(item, "max") {
        let head = format!("maximum {name} usage per {kind} is {most}");
        match (requests.get(name), limits.get(name)) {
            (_, None) => found.push(format!("{head}.  No limit is specified")),
            (_, Some(limit)) if above(*limit, most) => found.push(format!("{head}, but limit is {limit}")),
            (Some(asked), _) if above(*asked, most) => found.push(format!("{head}, but request is {asked}")),
            _ => {}
        }
    }
    found.extend(
        entries(item, "maxLimitRequestRatio").filter_map(|(name, most)| too_wide(kind, name, most, requests, limits)),
    );
    found
}

fn too_little(kind: &str, name: &str, least: &str, requests: &Amounts, limits: Option<&Amounts>) -> Option<String> {
    let head = format!("minimum {name} usage per {kind} is {least}");
    match (requests.get(name), limits.and_then(|limits| limits.get(name))) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(asked), _) if below(*asked, least) => Some(format!("{head}, but request is {asked}")),
        (_, Some(limit)) if below(*limit, least) => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

fn too_wide(kind: &str, name: &str, most: &str, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {most}");
    let milli = |amounts: &Amounts| amounts.get(name).map(|sum| sum.amount().milli()).filter(|milli| *milli != 0);
    let Some(asked) = milli(requests) else {
        return Some(format!("{head}, but no request is specified or request is 0"));
    };
    let Some(limit) = milli(limits) else { return Some(format!("{head}, but no limit is specified or limit is 0")) };
    let ratio = limit as f64 / asked as f64;
    let most = Sum::of_text(most)?.amount();
    let too_wide =
        if most.value() <= MILLI_MAX { ratio * 1000.0 > most.milli() as f64 } else { ratio > most.value() as f64 };
    too_wide.then(|| format!("{head}, but provided ratio is {ratio:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m", "memory": "1Gi"}}]}});
        let check = |resources: Value, expected: Value, note: Option<&str>| {
            let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": resources}]}});
            complete(std::slice::from_ref(&range), &mut pod);
            assert_eq!(pod["spec"]["containers"][0]["resources"], expected);
            assert_eq!(pod["metadata"]["annotations"][ANNOTATION].as_str(), note);
            assert!(pod["spec"].get("initContainers").is_none(), "nothing is added that is not asked for");
        };
        let all = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}});
        check(
            json!({}),
            all.clone(),
            Some("LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"),
        );
        check(all.clone(), all, None);
        let expected = json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}});
        check(
            json!({"limits": {"cpu": "2"}}),
            expected,
            Some("LimitRanger plugin set: memory request for container c; memory limit for container c"),
        );
        let mut whole = json!({"spec": {"resources": {"limits": {"cpu": "2"}}, "containers": [{"name": "c"}]}});
        complete(std::slice::from_ref(&range), &mut whole);
        assert_eq!(whole["spec"]["resources"]["requests"], json!({"cpu": "2"}), "not what its container was given");
    }

    #[test]
    fn what_is_too_much() {
        let check = |limits: Value, spec: Value, expected: Result<(), &str>| {
            let range = json!({"spec": {"limits": [limits.clone()]}});
            assert_eq!(judge_pod(&[range], &json!({"spec": spec})), expected.map_err(str::to_owned), "{limits} {spec}");
        };
        let one = |resources: Value| json!({"containers": [{"name": "c", "resources": resources}]});
        let most = json!({"type": "Container", "max": {"cpu": "1"}});
        check(most.clone(), one(json!({"limits": {"cpu": "1"}})), Ok(()));
        check(
            most.clone(),
            one(json!({"limits": {"cpu": "2"}})),
            Err("maximum cpu usage per Container is 1, but limit is 2"),
        );
        check(most, one(json!({})), Err("maximum cpu usage per Container is 1.  No limit is specified"));
        let least = json!({"type": "Container", "min": {"cpu": "100m", "memory": "1Mi"}});
        let why = "[minimum cpu usage per Container is 100m, but request is 50m, \
                   minimum memory usage per Container is 1Mi.  No request is specified]";
        check(least, one(json!({"requests": {"cpu": "50m"}})), Err(why));
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        let why = "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000";
        check(ratio.clone(), one(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})), Err(why));
        check(ratio, one(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})), Ok(()));
        let pod = json!({"type": "Pod", "max": {"cpu": "1"}});
        let limits = json!({"limits": {"cpu": "600m"}});
        let two = json!({"containers": [{"resources": limits}, {"resources": limits}]});
        check(pod.clone(), two.clone(), Err("maximum cpu usage per Pod is 1, but limit is 1200m"));
        check(pod.clone(), json!({"containers": [{}], "resources": {"limits": {"cpu": "1"}}}), Ok(()));
        let whole = json!({"containers": [{}], "resources": {"limits": {"cpu": "2"}}});
        check(pod.clone(), whole, Err("maximum cpu usage per Pod is 1, but limit is 2"));
        check(pod, json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}], "overhead": {"cpu": "1"}}), Ok(()));
    }

    #[test]
    fn claims() {
        let range = json!({
            "spec": {
                "limits": [{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}],
            },
        });
        for (storage, expected) in [
            ("1Gi", Ok(())),
            ("3Gi", Err("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")),
            ("1Mi", Err("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")),
        ] {
            let claim = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
            assert_eq!(judge_claim(std::slice::from_ref(&range), &claim), expected.map_err(str::to_owned), "{storage}");
        }
    }
}
