//! Resource requests and limits of a pod, and its QoS class.

use super::doc::{entries, is_empty, list};
use coracle_schema::{Quantity, Sum};
use serde_json::Value;
use std::collections::BTreeMap;

/// The amount of each resource, by resource name.
pub type Amounts = BTreeMap<String, Sum>;

/// A list of amounts in a document.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Sum::of_text(amount.as_str()?)?))).collect()
}

pub fn add(to: &mut Amounts, name: &str, amount: Sum) {
    let entry = to.entry(name.to_owned()).or_default();
    *entry = entry.plus(amount);
}

pub fn add_all(to: &mut Amounts, more: &Amounts) {
    more.iter().for_each(|(name, amount)| add(to, name, *amount));
}

fn at_least(all: &mut Amounts, these: &Amounts) {
    for (name, amount) in these {
        let entry = all.entry(name.clone()).or_insert(*amount);
        *entry = entry.or_more(*amount);
    }
}

/// The amounts of a pod's containers together, or of one init container, whichever is more. `which`: requests or
/// limits.
pub fn of_containers(spec: &Value, which: &str) -> Amounts {
    let mut sum = Amounts::new();
    list(spec, "containers").iter().for_each(|container| add_all(&mut sum, &amounts(&container["resources"][which])));
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let own = amounts(&container["resources"][which]);
        // An init container that always restarts runs beside all later containers.
        if container["restartPolicy"] == "Always" {
            add_all(&mut beside, &own);
            at_least(&mut most, &beside);
        } else {
            let mut meanwhile = beside.clone();
            add_all(&mut meanwhile, &own);
            at_least(&mut most, &meanwhile);
        }
    }
    add_all(&mut sum, &beside);
    at_least(&mut sum, &most);
    sum
}

/// The amounts of a pod: the amounts in the pod's own resources, and the containers' amounts for all further resources.
pub fn of_pod(spec: &Value, which: &str) -> Amounts {
    let mut all = of_containers(spec, which);
    all.extend(amounts(&spec["resources"][which]));
    all
}

/// Whether a pod says as a whole what it asks for: then its containers need not.
pub fn is_whole(spec: &Value) -> bool {
    !is_empty(&spec["resources"]["requests"]) || !is_empty(&spec["resources"]["limits"])
}

/// `status.qosClass`: Guaranteed when every container's cpu and memory are limited to what it requests, BestEffort when
/// none says anything, else Burstable. Where the pod says it as a whole, that alone counts.
pub fn class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let containers = list(spec, "containers").iter().chain(list(spec, "initContainers"));
    let all: Vec<&Value> =
        if is_whole(spec) { vec![&spec["resources"]] } else { containers.map(|one| &one["resources"]).collect() };
    let says = |resources: &Value, which: &str| {
        entries(resources, which).any(|(name, amount)| matters(name) && is_some(amount))
    };
    if !all.iter().any(|resources| says(resources, "requests") || says(resources, "limits")) {
        return "BestEffort";
    }
    let guaranteed = all.iter().all(|resources| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = quantity(&resources["limits"][name]);
            limit > Quantity::ZERO && limit == quantity(&resources["requests"][name])
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// The amount that a document holds; zero when there is none that can be read.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or_default(),
        Value::Number(number) => Quantity::parse(&number.to_string()).unwrap_or_default(),
        _ => Quantity::ZERO,
    }
}

fn matters(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

fn is_some(amount: &Value) -> bool {
    quantity(amount) != Quantity::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes() {
        fn check(whole: &Value, resources: &[&Value], expected: &str) {
            let containers: Vec<Value> = resources.iter().map(|resources| json!({"resources": resources})).collect();
            let pod = json!({"spec": {"resources": whole, "containers": containers}});
            assert_eq!(class(&pod), expected, "{pod}");
        }
        let (full, none) = (
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}),
            json!({}),
        );
        let (one, less) = (
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m", "memory": "1"}}),
        );
        let (nothing, asking) = (json!({"limits": {"cpu": "0"}}), json!({"requests": {"cpu": "100m"}}));
        check(&Value::Null, &[&full], "Guaranteed");
        check(&none, &[&full, &full], "Guaranteed");
        check(&Value::Null, &[&full, &none], "Burstable");
        check(&Value::Null, &[&none], "BestEffort");
        check(&Value::Null, &[&nothing], "BestEffort");
        check(&Value::Null, &[&asking], "Burstable");
        check(&Value::Null, &[&one, &none], "Burstable");
        check(&Value::Null, &[&less], "Burstable");
        check(&full, &[&none, &asking], "Guaranteed");
        check(&asking, &[&full], "Burstable");
        check(&nothing, &[&full], "BestEffort");
    }

    #[test]
    fn sums() {
        fn check(spec: Value, expected: &str) {
            let shown: Vec<String> =
                of_pod(&spec, "requests").iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            assert_eq!(shown.join(","), expected, "{spec}");
        }
        let own = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut beside = own("1");
        beside["restartPolicy"] = "Always".into();
        check(json!({"containers": [own("1"), own("2")], "initContainers": [own("2")]}), "cpu=3");
        check(json!({"containers": [own("1")], "initContainers": [own("2"), own("1")]}), "cpu=2");
        check(json!({"containers": [own("1")], "initContainers": [beside, own("2")]}), "cpu=3");
        let whole = json!({"requests": {"memory": "1Gi"}});
        check(json!({"containers": [own("1"), own("2")], "resources": whole}), "cpu=3,memory=1Gi");
        check(json!({"containers": [own("1"), own("2")], "resources": {"requests": {"cpu": "4"}}}), "cpu=4");
    }
}
