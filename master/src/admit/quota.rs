//! Resource quotas: what an object uses, which quotas it falls under, and whether that is too much. PURE.

use coracle_api::annotations::STORAGE_CLASS;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Resource, Time};
use coracle_api::strategy::qos::{self, Amounts, add, add_all, amounts};
use coracle_schema::Sum;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Each container has to say what it asks of these where a quota counts them. An old mistake of Kubernetes that clients
/// rely on.
const TO_BE_SAID: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
/// Counted by their plural, besides by `count/`.
const COUNTED: [&str; 6] =
    ["configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"];
const CLASS: &str = ".storageclass.storage.k8s.io/";

/// The resources of a pod's containers, plus the overhead of the runtime. `which`: requests or limits.
fn pod_amounts(pod: &Value, which: &str) -> Amounts {
    let mut sum = qos::of_pod(&pod["spec"], which);
    for (name, amount) in amounts(&pod["spec"]["overhead"]) {
        if which == "requests" || sum.contains_key(&name) {
            add(&mut sum, &name, amount);
        }
    }
    sum
}

/// Whether a pod takes room: it is not over, and its end is not overdue.
fn takes_room(pod: &Value, now: Time) -> bool {
    let meta = &pod["metadata"];
    let end = meta["deletionTimestamp"].as_str().and_then(Time::parse);
    let overdue = match (end, meta["deletionGracePeriodSeconds"].as_i64()) {
        (Some(end), Some(grace_s)) => now.seconds() > end.seconds().saturating_add(grace_s),
        _ => false,
    };
    !overdue && !matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

fn of_containers(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            add(&mut used, name, *amount);
        }
        add(&mut used, &format!("requests.{name}"), *amount);
    }
    limits
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage"))
        .for_each(|(name, amount)| add(&mut used, &format!("limits.{name}"), *amount));
    used
}

/// What an object uses, by every name that a quota may count it by.
pub fn usage(kind: &Kind, object: &Value, now: Time) -> Amounts {
    let (resource, one) = (&kind.resource, Sum::of_count(1));
    let mut used = Amounts::from([(format!("count/{resource}"), one)]);
    if resource.group.is_empty() && COUNTED.contains(&&*resource.plural) {
        add(&mut used, &resource.plural, one);
    }
    match (&*resource.group, &*resource.plural) {
        ("", "pods") if takes_room(object, now) => {
            add(&mut used, "pods", one);
            add_all(&mut used, &of_containers(&pod_amounts(object, "requests"), &pod_amounts(object, "limits")));
        }
        ("", "services") => of_service(object, &mut used),
        ("", "persistentvolumeclaims") => of_claim(object, &mut used),
        _ => {}
    }
    used
}

fn of_service(service: &Value, used: &mut Amounts) {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let balanced = spec["type"] == "LoadBalancer";
    let node_ports = match spec["type"].as_str() {
        Some("NodePort") => ports.len(),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count()
        }
        Some("LoadBalancer") => ports.len(),
        _ => 0,
    };
    add(used, "services.nodeports", Sum::of_count(node_ports.try_into().unwrap_or(i64::MAX)));
    add(used, "services.loadbalancers", Sum::of_count(balanced.into()));
}

fn of_claim(claim: &Value, used: &mut Amounts) {
    let asked = claim["spec"]["resources"]["requests"]["storage"].as_str().and_then(Sum::of_text).unwrap_or_default();
    let given = claim["status"]["allocatedResources"]["storage"].as_str().and_then(Sum::of_text).unwrap_or_default();
    let storage = asked.or_more(given);
    add(used, "requests.storage", storage);
    let annotated = claim["metadata"]["annotations"][STORAGE_CLASS].as_str();
    if let Some(class) = annotated.or(claim["spec"]["storageClassName"].as_str()).filter(|class| !class.is_empty()) {
        add(used, &format!("{class}{CLASS}persistentvolumeclaims"), Sum::of_count(1));
        add(used, &format!("{class}{CLASS}requests.storage"), storage);
    }
}

/// Whose objects are counted under a name. None: nobody's.
fn counts(name: &str) -> Option<Resource> {
    let core = |plural: &'static str| Some(Resource::core(plural));
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(Resource { group: group.to_owned().into(), plural: plural.to_owned().into() });
    }
    if name == "requests.storage" || name.contains(CLASS) {
        return core("persistentvolumeclaims");
    }
    match name {
        "services.nodeports" | "services.loadbalancers" => core("services"),
        "pods" | "cpu" | "memory" | "ephemeral-storage" => core("pods"),
        name if name.starts_with("requests.") || name.starts_with("limits.") || name.starts_with("hugepages-") => {
            core("pods")
        }
        name => COUNTED.iter().find(|counted| **counted == name).map(|plural| Resource::core(plural)),
    }
}

fn hard(quota: &Value) -> impl Iterator<Item = (&String, &Value)> {
    quota["spec"]["hard"].as_object().into_iter().flatten()
}

/// Everything that a quota counts.
pub fn counted(quota: &Value) -> BTreeSet<Resource> {
    hard(quota).filter_map(|(name, _)| counts(name)).collect()
}

/// Whether an object is within a quota's scopes.
fn in_scope(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain =
        spec["scopes"].as_array().into_iter().flatten().map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let chosen = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned();
    let pods = kind.resource == Resource::core("pods");
    plain.chain(chosen).all(|scope| match scope["scopeName"].as_str() {
        Some("VolumeAttributesClass") if kind.resource == Resource::core("persistentvolumeclaims") => {
            chosen_by(&scope, object["spec"]["volumeAttributesClassName"].as_str())
        }
        Some(name) => pods && pod_in_scope(name, &scope, object),
        None => false,
    })
}

fn pod_in_scope(name: &str, scope: &Value, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let ends = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match name {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => qos::class(pod) == "BestEffort",
        "NotBestEffort" => qos::class(pod) != "BestEffort",
        "PriorityClass" => chosen_by(scope, spec["priorityClassName"].as_str()),
        "CrossNamespacePodAffinity" => {
            ["podAffinity", "podAntiAffinity"].iter().any(|which| reaches_out(&spec["affinity"][which]))
        }
        _ => false,
    }
}

fn chosen_by(scope: &Value, name: Option<&str>) -> bool {
    let name = name.filter(|name| !name.is_empty());
    let listed = || scope["values"].as_array().into_iter().flatten().any(|value| value.as_str() == name);
    match scope["operator"].as_str() {
        Some("In") => name.is_some() && listed(),
        Some("NotIn") => name.is_none() || !listed(),
        Some("DoesNotExist") => name.is_none(),
        _ => name.is_some(),
    }
}

fn reaches_out(affinity: &Value) -> bool {
    let terms = |field: &str| affinity[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution").iter().map(|one| &one["podAffinityTerm"]);
    let mut all = terms("requiredDuringSchedulingIgnoredDuringExecution").iter().chain(preferred);
    all.any(|term| {
        term["namespaces"].as_array().is_some_and(|names| !names.is_empty()) || term["namespaceSelector"].is_object()
    })
}

/// What of a quota an object uses, and did not as it was before.
pub fn charge(quota: &Value, kind: &Kind, new: &Value, old: Option<&Value>, now: Time) -> Amounts {
    if !in_scope(quota, kind, new) {
        return Amounts::new();
    }
    let before = old.filter(|old| in_scope(quota, kind, old)).map(|old| usage(kind, old, now)).unwrap_or_default();
    let more = usage(kind, new, now).into_iter().filter(|(name, _)| !quota["spec"]["hard"][name].is_null());
    let more = more.map(|(name, amount)| {
        let before = before.get(&name).copied().unwrap_or_default();
        (name, amount.minus(before))
    });
    more.filter(|(_, amount)| amount.amount() > Sum::default().amount()).collect()
}

/// What a pod's containers have to say and do not, because a quota counts it. Not where the pod says it as a whole.
pub fn unsaid(quota: &Value, kind: &Kind, pod: &Value) -> Result<(), String> {
    if kind.resource != Resource::core("pods") || qos::is_whole(&pod["spec"]) || !in_scope(quota, kind, pod) {
        return Ok(());
    }
    let needed: BTreeSet<&str> =
        hard(quota).map(|(name, _)| name.as_str()).filter(|name| TO_BE_SAID.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers =
        ["containers", "initContainers"].into_iter().flat_map(|field| pod["spec"][field].as_array()).flatten();
    for container in containers {
        let resources = &container["resources"];
        let said = of_containers(&amounts(&resources["requests"]), &amounts(&resources["limits"]));
        for name in needed.iter().filter(|name| !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(container["name"].as_str().unwrap_or_default());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let amounts: Vec<String> = missing
        .iter()
        .map(|(name, who)| format!("{name} for: {}", who.iter().copied().collect::<Vec<_>>().join(",")))
        .collect();
    Err(format!("failed quota: {}: must specify {}", quota_name(quota), amounts.join("; ")))
}

fn quota_name(quota: &Value) -> &str {
    quota["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds the usage of an object to `used`, if the object is in the scope of the quota.
pub fn count(quota: &Value, kind: &Kind, object: &Value, now: Time, used: &mut Amounts) {
    if in_scope(quota, kind, object) {
        let counted = |name: &str| {
            !quota["spec"]["hard"][name].is_null() && counts(name).is_some_and(|counted| counted == kind.resource)
        };
        let own = usage(kind, object, now).into_iter().filter(|(name, _)| counted(name));
        own.for_each(|(name, amount)| add(used, &name, amount));
    }
}

/// Whether so much more is too much.
pub fn exceeded(quota: &Value, used: &Amounts, more: &Amounts) -> Result<(), String> {
    let of = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or_default();
    let most = |name: &str| quota["spec"]["hard"][name].as_str().and_then(Sum::of_text).unwrap_or_default();
    let over: Vec<&String> =
        more.keys().filter(|name| of(used, name).plus(of(more, name)).amount() > most(name).amount()).collect();
    if over.is_empty() {
        return Ok(());
    }
    let listed = |amount: &dyn Fn(&str) -> Sum| {
        over.iter().map(|name| format!("{name}={}", amount(name))).collect::<Vec<_>>().join(",")
    };
    let (requested, used, limited) = (listed(&|name| of(more, name)), listed(&|name| of(used, name)), listed(&most));
    Err(format!("exceeded quota: {}, requested: {requested}, used: {used}, limited: {limited}", quota_name(quota)))
}

/// The status of a quota with the given usage.
pub fn status(quota: &Value, used: &Amounts) -> Value {
    let amount = |name: &String| used.get(name).copied().unwrap_or_default().to_string().into();
    let known: Map<String, Value> =
        hard(quota).filter(|(name, _)| counts(name).is_some()).map(|(name, _)| (name.clone(), amount(name))).collect();
    json!({"hard": quota["spec"]["hard"].as_object().cloned().unwrap_or_default(), "used": known})
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::kinds::Kinds;

    fn now() -> Time {
        Time::from_seconds(1_600_000_000).expect("a time")
    }

    fn kind(plural: &'static str) -> Kind {
        Kinds::builtin().by_resource(&Resource::core(plural)).expect("a row").clone()
    }

    fn quota(hard: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
    }

    fn shown(amounts: &Amounts) -> String {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }

    fn pod(requests: Value, limits: Value) -> Value {
        json!({"spec": {"containers": [{"name": "web", "resources": {"requests": requests, "limits": limits}}]}})
    }

    #[test]
    fn what_is_used() {
        let check = |plural, object: Value, expected: &str| {
            assert_eq!(shown(&usage(&kind(plural), &object, now())), expected, "{object}")
        };
        check("secrets", json!({}), "count/secrets=1,secrets=1");
        check("endpoints", json!({}), "count/endpoints=1");
        let all = "count/pods=1,cpu=600m,limits.memory=512Mi,pods=1,requests.cpu=600m";
        check("pods", pod(json!({"cpu": "600m"}), json!({"memory": "512Mi"})), all);
        let mut over = pod(json!({"cpu": "1"}), json!({}));
        over["status"]["phase"] = "Failed".into();
        check("pods", over, "count/pods=1");
        let mut going = pod(json!({}), json!({}));
        going["metadata"] = json!({"deletionTimestamp": "2020-09-13T12:26:09Z", "deletionGracePeriodSeconds": 30});
        check("pods", going.clone(), "count/pods=1");
        going["metadata"]["deletionTimestamp"] = "2020-09-13T12:26:10Z".into();
        check("pods", going, "count/pods=1,pods=1");
        let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30001}]);
        let service = |kind: &str| json!({"spec": {"type": kind, "ports": ports}});
        let counts = |balancers, ports| {
            format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}")
        };
        check("services", service("ClusterIP"), &counts(0, 0));
        check("services", service("NodePort"), &counts(0, 2));
        check("services", service("LoadBalancer"), &counts(1, 2));
        let mut few = service("LoadBalancer");
        few["spec"]["allocateLoadBalancerNodePorts"] = false.into();
        check("services", few, &counts(1, 1));
        let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        let all = "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
                   fast.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi";
        check("persistentvolumeclaims", claim, all);
    }

    #[test]
    fn pods_as_a_whole() {
        let quota = quota(json!({"requests.cpu": "2", "limits.cpu": "2"}));
        let check = |spec: Value, expected: &str, expected_unsaid: Result<(), &str>| {
            let pod = json!({"spec": spec});
            assert_eq!(shown(&charge(&quota, &kind("pods"), &pod, None, now())), expected, "{pod}");
            assert_eq!(unsaid(&quota, &kind("pods"), &pod), expected_unsaid.map_err(str::to_owned), "{pod}");
        };
        let one = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
        let unsaid = Err("failed quota: q: must specify limits.cpu for: c");
        check(json!({"containers": one, "overhead": {"cpu": "250m", "memory": "1Mi"}}), "requests.cpu=1250m", unsaid);
        let whole = json!({"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}});
        let counted = "limits.cpu=2250m,requests.cpu=1750m";
        check(json!({"containers": one, "resources": whole, "overhead": {"cpu": "250m"}}), counted, Ok(()));
    }

    #[test]
    fn too_much() {
        let check = |hard: Value, used: &[(&str, &str)], more: &[(&str, &str)], expected: Result<(), &str>| {
            let of = |list: &[(&str, &str)]| {
                list.iter().map(|(name, text)| ((*name).to_owned(), Sum::of_text(text).unwrap())).collect()
            };
            assert_eq!(exceeded(&quota(hard), &of(used), &of(more)), expected.map_err(str::to_owned));
        };
        let hard = || json!({"limits.memory": "1Gi", "pods": "3", "requests.cpu": "1"});
        let why = "exceeded quota: q, requested: limits.memory=768Mi,requests.cpu=600m, used: \
                   limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1";
        let used = [("limits.memory", "512Mi"), ("requests.cpu", "600m"), ("pods", "1")];
        check(hard(), &used, &[("limits.memory", "768Mi"), ("requests.cpu", "600m"), ("pods", "1")], Err(why));
        check(hard(), &used, &[("limits.memory", "512Mi"), ("requests.cpu", "400m"), ("pods", "1")], Ok(()));
        check(
            json!({"secrets": "0"}),
            &[],
            &[("secrets", "1")],
            Err("exceeded quota: q, requested: secrets=1, used: secrets=0, limited: secrets=0"),
        );
    }

    #[test]
    fn what_is_charged() {
        let quota = quota(json!({"services": "2", "services.nodeports": "1"}));
        let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 1}]}});
        let check = |new: Value, old: Option<Value>, expected: &str| {
            assert_eq!(shown(&charge(&quota, &kind("services"), &new, old.as_ref(), now())), expected, "{new} {old:?}");
        };
        check(service("NodePort"), None, "services=1,services.nodeports=1");
        check(service("NodePort"), Some(service("ClusterIP")), "services.nodeports=1");
        check(service("ClusterIP"), Some(service("NodePort")), "");
        assert_eq!(shown(&charge(&quota, &kind("secrets"), &json!({}), None, now())), "");
    }

    #[test]
    fn scopes() {
        let check = |spec: Value, pod: &Value, expected: bool| {
            assert_eq!(in_scope(&json!({"spec": spec}), &kind("pods"), pod), expected, "{spec} {pod}");
            assert!(!in_scope(&json!({"spec": spec}), &kind("secrets"), pod), "{spec}: only pods have scopes");
        };
        let (plain, asking) = (pod(json!({}), json!({})), pod(json!({"cpu": "1"}), json!({})));
        check(json!({"scopes": ["BestEffort"]}), &plain, true);
        check(json!({"scopes": ["BestEffort"]}), &asking, false);
        check(json!({"scopes": ["NotBestEffort", "NotTerminating"]}), &asking, true);
        check(json!({"scopes": ["Terminating"]}), &json!({"spec": {"activeDeadlineSeconds": 5}}), true);
        let by_class = |operator: &str| {
            json!({
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}],
                },
            })
        };
        let high = json!({"spec": {"priorityClassName": "high"}});
        for (operator, of_high, of_none) in
            [("In", true, false), ("NotIn", false, true), ("Exists", true, false), ("DoesNotExist", false, true)]
        {
            check(by_class(operator), &high, of_high);
            check(by_class(operator), &plain, of_none);
        }
        let out = json!({
            "spec": {
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]},
                },
            },
        });
        check(json!({"scopes": ["CrossNamespacePodAffinity"]}), &out, true);
        check(json!({"scopes": ["CrossNamespacePodAffinity"]}), &plain, false);
    }

    #[test]
    fn what_has_to_be_said() {
        let quota = quota(json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "3"}));
        let check = |pod: Value, expected: Result<(), &str>| {
            assert_eq!(unsaid(&quota, &kind("pods"), &pod), expected.map_err(str::to_owned));
        };
        check(
            pod(json!({}), json!({})),
            Err("failed quota: q: must specify limits.memory for: web; requests.cpu for: web"),
        );
        check(pod(json!({"cpu": "1"}), json!({})), Err("failed quota: q: must specify limits.memory for: web"));
        check(pod(json!({"cpu": "1"}), json!({"memory": "1Mi"})), Ok(()));
        assert_eq!(unsaid(&quota, &kind("secrets"), &json!({})), Ok(()));
    }

    #[test]
    fn what_is_shown() {
        let quota = quota(json!({"secrets": "2", "count/leases.coordination.k8s.io": "1", "strange": "5"}));
        let mut used = Amounts::new();
        [json!({}), json!({})].iter().for_each(|secret| count(&quota, &kind("secrets"), secret, now(), &mut used));
        let expected =
            json!({"hard": quota["spec"]["hard"], "used": {"secrets": "2", "count/leases.coordination.k8s.io": "0"}});
        assert_eq!(status(&quota, &used), expected);
        assert_eq!(counted(&quota).len(), 2);
    }
}
