//! Sets the fields of a pod that its service account, priority class and runtime class give it. PURE.

use super::{AdmissionRequest, ClusterView, PRIORITY_CLASSES, RUNTIME_CLASSES, resource, token_volume};
use coracle_api::annotations::MIRROR;
use coracle_api::meta::{Key, Resource};
use coracle_api::references;
use coracle_api::strategy::binding::PLACES;
use coracle_api::strategy::doc::{list, text};
use coracle_api::strategy::furniture::{ACCOUNT, ACCOUNTS};
use coracle_api::strategy::qos;
use coracle_schema::Quantity;
use serde_json::{Map, Value, json};

const PREEMPTION: &str = "PreemptLowerPriority";
const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Sets who the pod is to the API. A copy of a pod that its node runs anyway is nobody, whoever makes the copy.
pub fn account(
    view: &dyn ClusterView,
    namespace: &str,
    suffix: Option<&dyn Fn() -> String>,
    pod: &mut Value,
) -> Result<(), String> {
    if pod["metadata"]["annotations"][MIRROR].is_string() {
        return judge_mirror(pod);
    }
    let spec = &pod["spec"];
    let said =
        [text(spec, "serviceAccountName"), text(spec, "serviceAccount")].into_iter().find(|name| !name.is_empty());
    let name = said.unwrap_or(ACCOUNT).to_owned();
    let account = found_account(view, namespace, &name)?;
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = name.into();
    if let Some(suffix) = suffix.filter(|_| token_volume::is_wanted(&account, spec)) {
        token_volume::mount(spec, suffix);
    }
    let secrets = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty());
    if let Some(secrets) = secrets
        && spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
    {
        spec["imagePullSecrets"] = secrets.clone().into();
    }
    super::secrets::judge(&account, pod)
}

fn found_account(view: &dyn ClusterView, namespace: &str, name: &str) -> Result<Value, String> {
    let key = Key { resource: ACCOUNTS, namespace: namespace.to_owned(), name: name.to_owned() };
    let lost = |why: String| format!("error looking up service account {namespace}/{name}: {why}");
    let account = view.get(&key).map_err(|why| lost(format!("serviceaccount {name:?} is damaged: {why}")))?;
    account.ok_or_else(|| lost(format!("serviceaccount {name:?} not found")))
}

/// Such a pod has no account, whose Secrets it could use.
fn judge_mirror(pod: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    let may_not = |words: &str| Err(format!("a mirror pod may not {words}"));
    if ["serviceAccountName", "serviceAccount"].iter().any(|field| !text(spec, field).is_empty()) {
        return may_not("reference service accounts");
    }
    if !references::secrets(pod).is_empty() {
        return may_not("reference secrets");
    }
    let mut sources = list(spec, "volumes").iter().flat_map(|volume| list(&volume["projected"], "sources"));
    match sources.any(|source| source["serviceAccountToken"].is_object()) {
        true => may_not("use ServiceAccountToken volume projections"),
        false => Ok(()),
    }
}

/// The containers that are added to a running pod use the Secrets of its account, as all others.
pub fn added_containers(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), String> {
    let name = text(&pod["spec"], "serviceAccountName");
    if name.is_empty() {
        let pod = text(&pod["metadata"], "name");
        return Err(format!("no service account specified for pod {}/{pod}", request.namespace));
    }
    super::secrets::judge_added(&found_account(request.view, request.namespace, name)?, pod)
}

/// Copies the location labels of the node to a bound pod: the containers may read the labels.
pub fn place(view: &dyn ClusterView, pod: &mut Value) {
    let node = text(&pod["spec"], "nodeName").to_owned();
    let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node };
    let Ok(Some(node)) = view.get(&key) else { return };
    for place in PLACES {
        if let Some(value) = node["metadata"]["labels"][place].as_str() {
            pod["metadata"]["labels"][place] = value.into();
        }
    }
}

/// Sets the priority from the pod's PriorityClass, or else from the default PriorityClass.
pub fn priority(view: &dyn ClusterView, pod: &mut Value) -> Result<(), String> {
    let name = text(&pod["spec"], "priorityClassName").to_owned();
    let class = if name.is_empty() {
        // A class that cannot be read may be the default one; that is no reason to start no pod any more.
        default_class(view, "").unwrap_or_default()
    } else {
        let key = Key { resource: resource(PRIORITY_CLASSES), namespace: String::new(), name: name.clone() };
        let found = view.get(&key).map_err(|why| format!("PriorityClass {name} is damaged: {why}"))?;
        Some(found.ok_or_else(|| format!("no PriorityClass with name {name} was found"))?)
    };
    let priority = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or_default();
    let preemption = class
        .as_ref()
        .map(|class| text(class, "preemptionPolicy"))
        .filter(|policy| !policy.is_empty())
        .unwrap_or(PREEMPTION);
    let spec = &mut pod["spec"];
    let computed = "priority admission controller computed";
    if let Some(said) = spec["priority"].as_i64().filter(|said| *said != priority) {
        return Err(format!(
            "the integer value of priority ({said}) must not be provided in pod spec; {computed} {priority} from the \
             given PriorityClass name"
        ));
    }
    if let Some(said) = spec["preemptionPolicy"].as_str().filter(|said| *said != preemption) {
        return Err(format!(
            "the string value of PreemptionPolicy ({said}) must not be provided in pod spec; {computed} {preemption} \
             from the given PriorityClass name"
        ));
    }
    if let Some(class) = class.as_ref().filter(|_| name.is_empty()) {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
    }
    spec["priority"] = priority.into();
    spec["preemptionPolicy"] = preemption.into();
    Ok(())
}

/// The class of pods that name none; of several the least important, as Kubernetes has it.
fn default_class(view: &dyn ClusterView, but: &str) -> Result<Option<Value>, String> {
    let classes = view.list(&resource(PRIORITY_CLASSES), None)?;
    let is_default = |class: &&Value| class["globalDefault"] == true && text(&class["metadata"], "name") != but;
    Ok(classes.iter().filter(is_default).min_by_key(|class| class["value"].as_i64()).cloned())
}

/// Refuses a second default PriorityClass.
pub fn one_default(view: &dyn ClusterView, class: &Value) -> Result<(), String> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    match default_class(view, text(&class["metadata"], "name"))? {
        None => Ok(()),
        Some(other) => {
            let name = text(&other["metadata"], "name");
            Err(format!("PriorityClass {name} is already marked as default. Only one default can exist"))
        }
    }
}

fn class(view: &dyn ClusterView, pod: &Value) -> Result<Option<Value>, String> {
    let name = text(&pod["spec"], "runtimeClassName");
    if name.is_empty() {
        return Ok(None);
    }
    let key = Key { resource: resource(RUNTIME_CLASSES), namespace: String::new(), name: name.to_owned() };
    match view.get(&key).map_err(|why| format!("pod rejected: RuntimeClass {name:?} is damaged: {why}"))? {
        None => Err(format!("pod rejected: RuntimeClass {name:?} not found")),
        found => Ok(found),
    }
}

/// What its runtime needs for itself, and where that runtime is.
pub fn runtime(view: &dyn ClusterView, pod: &mut Value) -> Result<(), String> {
    let Some(class) = class(view, pod)? else { return Ok(()) };
    let (spec, fixed) = (&mut pod["spec"], &class["overhead"]["podFixed"]);
    if !is_empty(fixed) {
        if !is_empty(&spec["overhead"]) && !same(&spec["overhead"], fixed) {
            return Err(OTHER_OVERHEAD.to_owned());
        }
        spec["overhead"] = fixed.clone();
    }
    let scheduling = &class["scheduling"];
    for (key, wanted) in entries(&scheduling["nodeSelector"]) {
        match spec["nodeSelector"][key].as_str() {
            Some(said) if wanted != said => {
                let wanted = wanted.as_str().unwrap_or_default();
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = \
                     {said}"
                ));
            }
            _ => spec["nodeSelector"][key] = wanted.clone(),
        }
    }
    for toleration in scheduling["tolerations"].as_array().into_iter().flatten() {
        match spec["tolerations"].as_array_mut() {
            Some(all) if all.contains(toleration) => {}
            Some(all) => all.push(toleration.clone()),
            None => spec["tolerations"] = json!([toleration]),
        }
    }
    Ok(())
}

/// Nobody may claim an overhead that no runtime has.
pub fn overhead(view: &dyn ClusterView, pod: &Value) -> Result<(), String> {
    let said = &pod["spec"]["overhead"];
    let class = class(view, pod)?;
    match class.as_ref().map(|class| &class["overhead"]["podFixed"]).filter(|fixed| !is_empty(fixed)) {
        Some(fixed) if !same(said, fixed) => Err(OTHER_OVERHEAD.to_owned()),
        None if !is_empty(said) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_empty(amounts: &Value) -> bool {
    amounts.as_object().is_none_or(Map::is_empty)
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}

/// Whether two lists of amounts mean the same.
fn same(one: &Value, other: &Value) -> bool {
    let amount = |of: &Value| of.as_str().and_then(|text| Quantity::parse(text).ok());
    let count = |of: &Value| of.as_object().map_or(0, Map::len);
    count(one) == count(other)
        && entries(one).all(|(name, value)| other.get(name).is_some_and(|other| amount(other) == amount(value)))
}

/// Whether it asks for more or less than before.
pub(super) fn is_resized(pod: &Value, old: &Value) -> bool {
    let asked = |pod: &Value| ["requests", "limits"].map(|which| qos::of_pod(&pod["spec"], which));
    asked(pod) != asked(old)
}

/// Nobody is asked for more than the whole node has.
pub(super) fn fits_its_node(view: &dyn ClusterView, pod: &Value) -> Result<(), String> {
    let Some(name) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) else { return Ok(()) };
    let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: name.to_owned() };
    let node = view.get(&key)?.ok_or_else(|| format!("node {name:?} not found"))?;
    let asked = qos::of_pod(&pod["spec"], "requests");
    for resource in ["cpu", "memory"] {
        let of = |amount: Quantity| if resource == "cpu" { amount.milli() } else { amount.value() };
        let Some(has) =
            node["status"]["allocatable"][resource].as_str().and_then(|text| Quantity::parse(text).ok()).map(of)
        else {
            continue;
        };
        let wants = asked.get(resource).map_or(0, |sum| of(sum.amount()));
        if wants > has {
            return Err(format!(
                "node didn't have enough allocatable resources: {resource}, requested: {wants}, allocatable: {has}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Objects;
    use super::*;
    use std::sync::Arc;

    fn objects() -> Objects {
        let named = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace});
        let accounts = Resource::core("serviceaccounts");
        Objects::default()
            .with(accounts.clone(), json!({"metadata": named("default", "ns")}))
            .with(accounts, json!({"metadata": named("puller", "ns"), "imagePullSecrets": [{"name": "s"}]}))
            .with(
                resource(PRIORITY_CLASSES),
                json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}),
            )
            .with(
                resource(RUNTIME_CLASSES),
                json!({"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "250m"}},
                    "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm"}]}}),
            )
    }

    fn check(
        objects: &Objects,
        spec: Value,
        give: fn(&dyn ClusterView, &mut Value) -> Result<(), String>,
        expected: Result<Value, &str>,
    ) {
        let mut pod = json!({"metadata": {}, "spec": spec.clone()});
        let given = give(objects, &mut pod).map(|()| pod["spec"].take());
        assert_eq!(given, expected.map_err(str::to_owned), "{spec}");
    }

    #[test]
    fn accounts() {
        let objects = objects();
        let check = |spec: Value, expected| {
            check(&objects, spec, |view, pod| account(view, "ns", Some(&|| "abcde".to_owned()), pod), expected)
        };
        let with_token = |mut spec: Value| {
            token_volume::mount(&mut spec, &|| "abcde".to_owned());
            spec
        };
        check(json!({}), Ok(json!({"serviceAccountName": "default"})));
        let containers = json!({"containers": [{"name": "c"}]});
        let mut given = with_token(containers.clone());
        given["serviceAccountName"] = json!("default");
        check(containers, Ok(given));
        check(
            json!({"serviceAccount": "puller"}),
            Ok(json!({"serviceAccount": "puller", "serviceAccountName": "puller",
            "imagePullSecrets": [{"name": "s"}]})),
        );
        let own = json!({"serviceAccountName": "puller", "imagePullSecrets": [{"name": "own"}]});
        check(own.clone(), Ok(own));
        let why = "error looking up service account ns/nobody: serviceaccount \"nobody\" not found";
        check(json!({"serviceAccountName": "nobody"}), Err(why));
    }

    #[test]
    fn mirrors_are_nobody() {
        for (spec, why) in [
            (json!({"containers": []}), ""),
            (json!({"serviceAccountName": "nobody"}), "a mirror pod may not reference service accounts"),
            (json!({"imagePullSecrets": [{"name": "s"}]}), "a mirror pod may not reference secrets"),
            (
                json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
                "a mirror pod may not use ServiceAccountToken volume projections",
            ),
        ] {
            let mut mirror = json!({"metadata": {"annotations": {MIRROR: "x"}}, "spec": spec});
            let before = mirror.clone();
            let judged = account(&objects(), "ns", Some(&|| "abcde".to_owned()), &mut mirror);
            assert_eq!(judged.err().unwrap_or_default(), why, "{before}");
            assert_eq!(mirror, before, "nothing is added to it");
        }
    }

    #[test]
    fn priorities() {
        let objects = objects();
        let usual = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        check(&objects, json!({}), priority, Ok(usual.clone()));
        check(&objects, usual.clone(), priority, Ok(usual));
        let high = json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"});
        check(&objects, json!({"priorityClassName": "high"}), priority, Ok(high));
        check(
            &objects,
            json!({"priorityClassName": "nope"}),
            priority,
            Err("no PriorityClass with name nope was found"),
        );
        let why = "the integer value of priority (5) must not be provided in pod spec; priority admission controller \
                   computed 0 from the given PriorityClass name";
        check(&objects, json!({"priority": 5}), priority, Err(why));
        let why = "the string value of PreemptionPolicy (Maybe) must not be provided in pod spec; priority admission \
                   controller computed PreemptLowerPriority from the given PriorityClass name";
        check(&objects, json!({"preemptionPolicy": "Maybe"}), priority, Err(why));
        let low = json!({"metadata": {"name": "low"}, "value": -5, "globalDefault": true});
        let objects = objects.with(resource(PRIORITY_CLASSES), low.clone());
        let given = json!({"priorityClassName": "low", "priority": -5, "preemptionPolicy": "PreemptLowerPriority"});
        check(&objects, json!({}), priority, Ok(given));
        assert_eq!(one_default(&objects, &low), Ok(()));
        let why = "PriorityClass low is already marked as default. Only one default can exist";
        assert_eq!(
            one_default(&objects, &json!({"metadata": {"name": "x"}, "globalDefault": true})),
            Err(why.to_owned())
        );
    }

    /// Nothing can be read.
    struct Damaged;

    impl ClusterView for Damaged {
        fn get(&self, _: &Key) -> Result<Option<Value>, String> {
            Err("torn".to_owned())
        }

        fn list(&self, _: &Resource, _: Option<&str>) -> Result<Arc<Vec<Value>>, String> {
            Err("torn".to_owned())
        }
    }

    #[test]
    fn a_damaged_class_stops_only_who_names_it() {
        for (spec, expected) in [
            (json!({}), Ok(())),
            (json!({"priorityClassName": "high"}), Err("PriorityClass high is damaged: torn".to_owned())),
        ] {
            assert_eq!(priority(&Damaged, &mut json!({ "spec": spec })), expected);
        }
    }

    #[test]
    fn runtimes() {
        let objects = objects();
        check(&objects, json!({}), runtime, Ok(json!({})));
        check(
            &objects,
            json!({"runtimeClassName": "nope"}),
            runtime,
            Err("pod rejected: RuntimeClass \"nope\" not found"),
        );
        let given = json!({"runtimeClassName": "vm", "overhead": {"cpu": "250m"}, "nodeSelector": {"vm": "yes"},
            "tolerations": [{"key": "vm"}]});
        check(&objects, json!({"runtimeClassName": "vm", "overhead": {"cpu": "0.25"}}), runtime, Ok(given));
        check(&objects, json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}), runtime, Err(OTHER_OVERHEAD));
        let why = "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no";
        check(&objects, json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}), runtime, Err(why));
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        assert_eq!(overhead(&objects, &json!({"spec": {"overhead": {"cpu": "1"}}})), Err(why.to_owned()));
        assert_eq!(
            overhead(&objects, &json!({"spec": {"runtimeClassName": "vm", "overhead": {"cpu": "250m"}}})),
            Ok(())
        );
    }
}
