//! The identity of the pods of a StatefulSet: their names, labels and claims. PURE.

use super::super::cluster::Cluster;
use super::super::controller::ObservedChange;
use super::super::replicas::{self, Pod};
use super::super::revisions::{self, Revision};
use super::super::view::document;
use super::seen::Seen;
use super::view::{CLAIMS, OwnedClaimView, STATEFUL_SETS, StatefulSetView};
use coracle_api::meta::Key;
use serde_json::{Value, json};

const NAME: &str = "statefulset.kubernetes.io/pod-name";
const NTH: &str = "apps.kubernetes.io/pod-index";
/// The revision that a pod was made of.
pub const REVISION: &str = "controller-revision-hash";

/// The set that a name belongs to, and the number in it.
fn parsed(name: &str) -> Option<(&str, i64)> {
    let (set, digits) = name.rsplit_once('-')?;
    let nth = digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<i32>().ok())??;
    Some((set, i64::from(nth)))
}

/// The ordinal in the name of a set's pod. `None` for a number with a different spelling, such as leading zeros.
pub fn ordinal(key: &Key, pod: &Key) -> Option<i64> {
    parsed(&pod.name).filter(|(set, nth)| *set == key.name && pod.name == name(key, *nth)).map(|(_, nth)| nth)
}

pub fn name(key: &Key, nth: i64) -> String {
    format!("{}-{nth}", key.name)
}

pub fn claim_key(key: &Key, template: &str, nth: i64) -> Key {
    Key { resource: CLAIMS, namespace: key.namespace.clone(), name: format!("{template}-{}-{nth}", key.name) }
}

/// The sets that a pod concerns: also the set that only the pod's name refers to.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let mut keys = replicas::by_pod::<StatefulSetView>(cluster, change);
    if let Some((set, _)) = parsed(&change.key.name) {
        let key = Key { resource: STATEFUL_SETS, namespace: change.key.namespace.clone(), name: set.to_owned() };
        keys.extend(cluster.get::<StatefulSetView>(&key).is_some().then_some(key));
    }
    keys
}

pub fn by_claim(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let Some((front, _)) = parsed(&change.key.name) else { return Vec::new() };
    let owns = |key: &Key, set: &StatefulSetView| {
        set.claims
            .iter()
            .any(|claim| front.strip_prefix(claim.as_str()).and_then(|rest| rest.strip_prefix('-')) == Some(&key.name))
    };
    let sets = cluster.within::<StatefulSetView>(&change.key.namespace);
    sets.filter(|(key, set)| owns(key, set)).map(|(key, _)| key.clone()).collect()
}

/// The revision that a new pod of this number is made of.
pub fn revision_for<'c>(seen: &Seen<'c>, nth: i64) -> Revision<'c> {
    let set = seen.set;
    let below = match set.partition {
        Some(partition) => set.start + partition,
        None if set.on_delete => i64::MIN,
        None => set.start + i64::from(set.status.current_replicas),
    };
    if nth < below { seen.current } else { seen.update }
}

/// A new pod of this number.
pub fn pod(seen: &Seen<'_>, nth: i64) -> Value {
    let (key, set) = (seen.key, seen.set);
    let (revision_key, revision) = revision_for(seen, nth);
    let mut pod = replicas::of_template(key, &set.template, &revisions::template_of(revision));
    let name = name(key, nth);
    pod["metadata"]["name"] = name.as_str().into();
    label(&mut pod, &name, nth);
    pod["metadata"]["labels"][REVISION] = revision_key.name.as_str().into();
    pod["spec"]["hostname"] = name.into();
    if set.service.is_empty() {
        pod["spec"].as_object_mut().map(|spec| spec.remove("subdomain"));
    } else {
        pod["spec"]["subdomain"] = set.service.as_str().into();
    }
    mount(&mut pod, key, set, nth);
    pod
}

fn label(pod: &mut Value, name: &str, nth: i64) {
    pod["metadata"]["labels"][NAME] = name.into();
    pod["metadata"]["labels"][NTH] = nth.to_string().into();
}

/// Adds a volume for each claim, in place of the template's volume with the same name.
fn mount(pod: &mut Value, key: &Key, set: &StatefulSetView, nth: i64) {
    if set.claims.is_empty() {
        return;
    }
    let of_claim = |claim: &String| {
        json!({
            "name": claim, "persistentVolumeClaim": {"claimName": claim_key(key, claim, nth).name},
        })
    };
    let mut volumes: Vec<Value> = set.claims.iter().map(of_claim).collect();
    let others = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let others = others.filter(|volume| !set.claims.iter().any(|claim| volume["name"] == **claim));
    volumes.extend(others.cloned());
    pod["spec"]["volumes"] = volumes.into();
}

/// A pod as it would be with its labels and claims, if it is not.
pub fn repaired(seen: &Seen<'_>, nth: i64, (key, pod): Pod<'_>) -> Option<Value> {
    let labelled = pod.labels().get(NAME) == Some(&key.name);
    if labelled && seen.set.claims.is_empty() {
        return None;
    }
    let mut object = document(&pod.document);
    let volumes = object["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let mounted = seen.set.claims.iter().all(|claim| {
        let name = claim_key(seen.key, claim, nth).name;
        volumes.iter().any(|volume| volume["name"] == **claim && volume["persistentVolumeClaim"]["claimName"] == name)
    });
    if labelled && mounted {
        return None;
    }
    if !labelled {
        label(&mut object, &key.name, nth);
    }
    if !mounted {
        mount(&mut object, seen.key, seen.set, nth);
    }
    Some(object)
}

/// The claims of a pod: each by its template's name, with the claim if it is there.
pub fn claims<'c>(seen: &Seen<'c>, nth: i64) -> Vec<(Key, Option<&'c OwnedClaimView>)> {
    let key = |claim: &String| claim_key(seen.key, claim, nth);
    seen.set
        .claims
        .iter()
        .map(key)
        .map(|key| (seen.cluster.get::<OwnedClaimView>(&key), key))
        .map(|(view, key)| (key, view))
        .collect()
}

/// A claim of a template, with the labels that the set selects by.
pub fn new_claim(seen: &Seen<'_>, key: &Key) -> Value {
    let spec = &document(&seen.set.template.document)["spec"];
    let templates = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let nth = parsed(&key.name).map(|(_, nth)| nth).unwrap_or_default();
    let ours =
        |template: &&Value| claim_key(seen.key, template["metadata"]["name"].as_str().unwrap_or_default(), nth) == *key;
    let template = templates.into_iter().find(ours).cloned().unwrap_or_default();
    let mut metadata = json!({"name": key.name});
    if !template["metadata"]["annotations"].is_null() {
        metadata["annotations"] = template["metadata"]["annotations"].clone();
    }
    let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.extend(spec["selector"]["matchLabels"].as_object().cloned().unwrap_or_default());
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals() {
        let key = |name: &str| Key { resource: STATEFUL_SETS, namespace: "n".to_owned(), name: name.to_owned() };
        for (pod, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-012", None),
            ("web-x", None),
            ("web-", None),
            ("web", None),
            ("a-web-1", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(ordinal(&key("web"), &key(pod)), expected, "{pod}");
        }
        assert_eq!(claim_key(&key("web"), "data", 3).name, "data-web-3");
    }
}
