//! The rules that a ClusterRole gathers from others: `aggregationRule`. PURE.

use coracle_api::labels::LabelSet;
use coracle_api::strategy::label_selector;
use serde_json::Value;

/// The rules of all ClusterRoles that the selectors of a role match, each rule once, as Kubernetes gathers them.
/// `others`: name, labels and the way to the document of every ClusterRole, in the order of their names. None: the role
/// gathers nothing.
pub fn gathered<'a, R: Fn() -> Value>(
    name: &str,
    role: &Value,
    others: impl Iterator<Item = (&'a str, &'a LabelSet, R)>,
) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut by_selector = vec![Vec::new(); selectors.len()];
    for (_, labels, read) in others.filter(|(other, ..)| *other != name) {
        let matching: Vec<usize> = (0..selectors.len())
            .filter(|at| label_selector::selects(&selectors[*at], |label| labels.get(label)))
            .collect();
        if matching.is_empty() {
            continue;
        }
        let rules = read()["rules"].as_array().cloned().unwrap_or_default();
        matching.iter().for_each(|at| by_selector[*at].extend(rules.iter().cloned()));
    }
    let mut all: Vec<Value> = Vec::new();
    for rule in by_selector.into_iter().flatten() {
        if !all.contains(&rule) {
            all.push(rule);
        }
    }
    Some(all)
}

const JOINS: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The roles of every cluster that gather the rules of a role by its labels.
pub fn joined(role: &Value) -> impl Iterator<Item = &str> {
    let labels = role["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(label, _)| label.strip_prefix(JOINS))
}

pub fn joins(role: &Value) -> bool {
    joined(role).next().is_some()
}

/// Whether a role has exactly these rules.
pub fn has_rules(role: &Value, rules: &[Value]) -> bool {
    role["rules"].as_array().map(Vec::as_slice).unwrap_or_default() == rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_role_gathers() {
        let rule = |resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
        let labelled = |labels: &[(&str, &str)]| labels.iter().copied().collect::<LabelSet>();
        let others = [
            ("a", labelled(&[("to", "x")]), json!({"rules": [rule("pods"), rule("nodes")]})),
            ("b", labelled(&[("to", "y")]), json!({"rules": [rule("secrets")]})),
            ("c", labelled(&[("to", "x"), ("also", "1")]), json!({"rules": [rule("nodes"), rule("events")]})),
            ("x", labelled(&[("to", "x")]), json!({"rules": [rule("own")]})),
            ("z", labelled(&[("to", "x")]), json!({})),
        ];
        let check = |selectors: Value, expected: Option<&[&str]>| {
            let role = json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
            let all = others.iter().map(|(name, labels, role)| (*name, labels, || role.clone()));
            let found = gathered("x", &role, all);
            let expected = expected.map(|names| names.iter().map(|name| rule(name)).collect::<Vec<_>>());
            assert_eq!(found, expected, "{role}");
        };
        check(json!([{"matchLabels": {"to": "x"}}]), Some(&["pods", "nodes", "events"]));
        check(
            json!([{"matchLabels": {"also": "1"}}, {"matchLabels": {"to": "x"}}]),
            Some(&["nodes", "events", "pods"]),
        );
        check(json!([{"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]}]), Some(&["secrets"]));
        check(json!([{"matchLabels": {"to": "nobody"}}]), Some(&[]));
        check(json!([]), Some(&[]));
        check(Value::Null, None);
    }
}
