//! What a pod asks for and how strictly it is held to it.

use super::doc::{entries, list};
use coracle_schema::Quantity;
use serde_json::Value;

/// Sums of a pod's requests, as the scheduler counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    pub memory_bytes: i64,
}

/// What a pod asks for: its containers together, or its largest init container, whichever is more.
pub fn requests(pod: &Value) -> Requests {
    let mut sum = Requests::default();
    for container in list(&pod["spec"], "containers") {
        let one = of_container(container);
        sum.cpu_milli = sum.cpu_milli.saturating_add(one.cpu_milli);
        sum.memory_bytes = sum.memory_bytes.saturating_add(one.memory_bytes);
    }
    for container in list(&pod["spec"], "initContainers") {
        let one = of_container(container);
        sum.cpu_milli = sum.cpu_milli.max(one.cpu_milli);
        sum.memory_bytes = sum.memory_bytes.max(one.memory_bytes);
    }
    sum
}

/// `status.qosClass`: Guaranteed when every container's cpu and memory are limited to what it requests, BestEffort when
/// none says anything, else Burstable.
pub fn class(pod: &Value) -> &'static str {
    let containers = || list(&pod["spec"], "containers").iter().chain(list(&pod["spec"], "initContainers"));
    let says =
        |container: &Value, which: &str| entries(&container["resources"], which).any(|(name, amount)| matters(name) && is_some(amount));
    if !containers().any(|container| says(container, "requests") || says(container, "limits")) {
        return "BestEffort";
    }
    let guaranteed = containers().all(|container| {
        let resources = &container["resources"];
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

fn of_container(container: &Value) -> Requests {
    let requests = &container["resources"]["requests"];
    Requests { cpu_milli: quantity(&requests["cpu"]).milli(), memory_bytes: quantity(&requests["memory"]).value() }
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
    fn classes_and_sums() {
        fn check(resources: &[Value], expected: &str, cpu_milli: i64, memory_bytes: i64) {
            let containers: Vec<Value> = resources.iter().map(|resources| json!({"resources": resources})).collect();
            let pod = json!({"spec": {"containers": containers}});
            assert_eq!((class(&pod), requests(&pod)), (expected, Requests { cpu_milli, memory_bytes }), "{resources:?}");
        }
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        check(std::slice::from_ref(&full), "Guaranteed", 1000, 1 << 30);
        check(&[full.clone(), full.clone()], "Guaranteed", 2000, 2 << 30);
        check(&[full, json!({})], "Burstable", 1000, 1 << 30);
        check(&[json!({})], "BestEffort", 0, 0);
        check(&[json!({"limits": {"cpu": "0"}})], "BestEffort", 0, 0);
        check(&[json!({"requests": {"cpu": "100m"}})], "Burstable", 100, 0);
        check(&[json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), json!({})], "Burstable", 1000, 0);
        check(&[json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m", "memory": "1"}})], "Burstable", 500, 1);
        check(&[json!({"requests": {"cpu": 2, "memory": "1.5"}})], "Burstable", 2000, 2);
    }
}
