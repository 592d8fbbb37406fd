//! Node selectors and tolerations of a pod: the nodes where the pod may run. PURE.
//!
//! A scheduler checks every node. An agent checks its own node again: no scheduler has seen a pod whose author set
//! `spec.nodeName`.

use crate::node::Taint;
use crate::pod::Toleration;
use serde_json::Value;
use std::collections::BTreeMap;

/// The labels of a node.
type Labels = BTreeMap<String, String>;

/// Whether a node with this name and these labels matches a pod's `nodeSelector` and the required part of the pod's
/// node affinity.
pub fn suits(spec: &Value, node: &str, labels: &Labels) -> bool {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let selected = selector.into_iter().all(|(name, value)| labels.get(name).map(String::as_str) == value.as_str());
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    selected && (required.is_null() || any_term(&required["nodeSelectorTerms"], node, labels))
}

/// Whether a pod asks anything of a node's labels or name.
pub fn is_choosy(spec: &Value) -> bool {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    spec["nodeSelector"].as_object().is_some_and(|selector| !selector.is_empty()) || !required.is_null()
}

/// Whether a term of a node selector holds. An empty term holds for no node, and a list without terms holds for no
/// node.
pub fn any_term(terms: &Value, node: &str, labels: &Labels) -> bool {
    terms.as_array().into_iter().flatten().any(|term| term_holds(term, node, labels))
}

/// Whether a term of a node selector, or of a preference, holds for a node.
pub fn term_holds(term: &Value, node: &str, labels: &Labels) -> bool {
    let of = |field: &str| term[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let (expressions, fields) = (of("matchExpressions"), of("matchFields"));
    let label =
        |wanted: &Value| holds(wanted, labels.get(wanted["key"].as_str().unwrap_or_default()).map(String::as_str));
    let field = |wanted: &Value| holds(wanted, (wanted["key"] == "metadata.name").then_some(node));
    !(expressions.is_empty() && fields.is_empty()) && expressions.iter().all(label) && fields.iter().all(field)
}

fn holds(wanted: &Value, found: Option<&str>) -> bool {
    let values = || wanted["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    let limit = || values().next().and_then(number);
    match wanted["operator"].as_str().unwrap_or_default() {
        "In" => found.is_some_and(|found| values().any(|value| value == found)),
        "NotIn" => found.is_none_or(|found| values().all(|value| value != found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => found.and_then(number).zip(limit()).is_some_and(|(found, limit)| found > limit),
        "Lt" => found.and_then(number).zip(limit()).is_some_and(|(found, limit)| found < limit),
        _ => false,
    }
}

/// Whether a taint does not keep a pod away that has this toleration.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |holds: fn(i64, i64) -> bool| {
        number(&taint.value).zip(number(&toleration.value)).is_some_and(|(taint, toleration)| holds(taint, toleration))
    };
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            "Lt" => compare(|taint, toleration| taint < toleration),
            "Gt" => compare(|taint, toleration| taint > toleration),
            _ => false,
        }
}

/// The first taint with one of these effects that no toleration tolerates.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration], effects: &[&str]) -> Option<&'a Taint> {
    let kept_away = |taint: &&Taint| {
        effects.contains(&taint.effect.as_str()) && !tolerations.iter().any(|one| tolerates(one, taint))
    };
    taints.iter().find(kept_away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels() -> Labels {
        [("zone", "a"), ("cores", "4")].into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn what_a_pod_asks_of_labels() {
        let check = |spec: Value, expected: bool| assert_eq!(suits(&spec, "n1", &labels()), expected, "{spec}");
        check(json!({}), true);
        check(json!({"nodeSelector": {"zone": "a"}}), true);
        check(json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), false);
        let required = |terms: Value| {
            json!({
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
                },
            })
        };
        check(required(json!([])), false);
        check(required(json!([{}])), false);
        let one = |key: &str, operator: &str, values: &[&str]| {
            required(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        check(one("zone", "In", &["b", "a"]), true);
        check(one("zone", "In", &["b"]), false);
        check(one("none", "In", &["b"]), false);
        check(one("zone", "NotIn", &["b"]), true);
        check(one("none", "NotIn", &["b"]), true);
        check(one("zone", "NotIn", &["a"]), false);
        check(one("zone", "Exists", &[]), true);
        check(one("none", "Exists", &[]), false);
        check(one("none", "DoesNotExist", &[]), true);
        check(one("cores", "Gt", &["3"]), true);
        check(one("cores", "Gt", &["4"]), false);
        check(one("cores", "Lt", &["5"]), true);
        check(one("zone", "Lt", &["5"]), false);
        check(one("zone", "Like", &["a"]), false);
        let name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(required(json!([name("n1")])), true);
        check(required(json!([name("n2"), {}])), false);
        check(required(json!([name("n2"), name("n1")])), true);
    }

    #[test]
    fn which_taints_it_bears() {
        let taint = |key: &str, value: &str, effect: &str| Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
            time_added: None,
        };
        let check = |toleration: Value, expected: bool| {
            let toleration: Toleration = serde_json::from_value(toleration).unwrap();
            assert_eq!(tolerates(&toleration, &taint("speed", "3", "NoExecute")), expected, "{toleration:?}");
        };
        check(json!({"operator": "Exists"}), true);
        check(json!({"operator": "Exists", "effect": "NoSchedule"}), false);
        check(json!({"key": "speed", "value": "3"}), true);
        check(json!({"key": "speed", "operator": "Equal", "value": "4"}), false);
        check(json!({"key": "speed", "operator": "Exists", "effect": "NoExecute"}), true);
        check(json!({"key": "other", "operator": "Exists"}), false);
        check(json!({"key": "speed", "operator": "Lt", "value": "4"}), true);
        check(json!({"key": "speed", "operator": "Gt", "value": "4"}), false);
        let taints = [taint("a", "", "NoSchedule"), taint("b", "", "NoExecute")];
        assert_eq!(untolerated(&taints, &[], &["NoExecute"]).map(|taint| taint.key.as_str()), Some("b"));
        let all = Toleration { operator: "Exists".into(), ..Toleration::default() };
        assert_eq!(untolerated(&taints, &[all], &["NoSchedule", "NoExecute"]), None);
    }
}
