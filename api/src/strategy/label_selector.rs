//! Label selectors as documents hold them: `matchLabels` and `matchExpressions`.

use super::checks::full;
use super::doc::{entries, is_empty, list, text};
use super::meta::labels;
use super::rules::Rules;
use super::{inner, names};
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Every problem of a selector; a missing one has none.
pub fn validate(selector: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = labels(selector, "matchLabels", path, rules);
    for (at, rule) in list(selector, "matchExpressions").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(expression(rule, &path.field("matchExpressions").index(at), false));
    }
    found
}

/// A problem of a selector as a whole.
pub fn problem(selector: &Value, path: &Path, words: impl Into<String>) -> Problem {
    Problem::invalid(path, selector.clone(), words).showing(inner::shown("LabelSelector", selector))
}

/// Whether a rule has values as its operator needs them. `later`: operators that are not known here are let through.
pub fn operator(rule: &Value, path: &Path, later: bool) -> Option<Problem> {
    let none = list(rule, "values").is_empty();
    match text(rule, "operator") {
        "In" | "NotIn" if none => {
            Some(Problem::required(&path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "Exists" | "DoesNotExist" if !none => Some(Problem::forbidden(
            &path.field("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        other => (!later).then(|| Problem::invalid(&path.field("operator"), other, "not a valid selector operator")),
    }
}

/// Every problem of one rule.
pub fn expression(rule: &Value, path: &Path, later: bool) -> Vec<Problem> {
    let mut found: Vec<Problem> = operator(rule, path, later).into_iter().collect();
    found.extend(names::problems(&path.field("key"), text(rule, "key"), names::qualified(text(rule, "key"))));
    for (at, value) in list(rule, "values").iter().enumerate() {
        if full(&found) {
            break;
        }
        let value = value.as_str().unwrap_or_default();
        found.extend(names::problems(&path.field("values").index(at), value, names::label_value(value)));
    }
    found
}

/// Whether the selector is empty: an empty selector selects all objects. A missing selector selects nothing instead.
pub fn selects_all(selector: &Value) -> bool {
    selector.is_object() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"])
}

/// Whether labels are selected by a selector without problems.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    selects(selector, |key| labels[key].as_str())
}

/// The same for labels that are held in another form.
pub fn selects<'l>(selector: &Value, has: impl Fn(&str) -> Option<&'l str>) -> bool {
    selector.is_object()
        && entries(selector, "matchLabels").all(|(key, value)| has(key) == value.as_str())
        && list(selector, "matchExpressions").iter().all(|rule| {
            let held = has(text(rule, "key"));
            let among = held.is_some_and(|held| list(rule, "values").iter().any(|value| value == held));
            match text(rule, "operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => held.is_some(),
                "DoesNotExist" => held.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_select() {
        fn check(selector: Value, selected: bool) {
            assert_eq!(matches(&selector, &json!({"app": "web", "tier": "1"})), selected, "{selector}");
        }
        check(json!({}), true);
        check(Value::Null, false);
        check(json!({"matchLabels": {"app": "web"}}), true);
        check(json!({"matchLabels": {"app": "db"}}), false);
        for (key, operator, values, selected) in [
            ("app", "In", json!(["web", "db"]), true),
            ("app", "In", json!(["db"]), false),
            ("no", "NotIn", json!(["x"]), true),
            ("app", "NotIn", json!(["web"]), false),
            ("app", "Exists", json!([]), true),
            ("no", "Exists", json!([]), false),
            ("no", "DoesNotExist", json!([]), true),
            ("app", "Near", json!([]), false),
        ] {
            check(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}), selected);
        }
    }
}
