//! The number of an object's replicas, told and set apart from all the rest of it: `autoscaling/v1` Scale. PURE.

use super::checks::NOT_NEGATIVE;
use super::doc::{list, map_at, number, texts};
use super::meta::{self, Scope};
use super::rules::BuiltinStrategy;
use super::{general, names};
use crate::kinds::Scale;
use coracle_schema::{Path, Problem};
use serde_json::{Map, Value, json};

/// A scale is never stored: it is a way to look at its object.
pub static SCALE: BuiltinStrategy = BuiltinStrategy {
    validate: |scale, rules| {
        let mut found = meta::validate(scale, Scope::Namespaced, names::subdomain, rules);
        if let Some(negative) = number(&scale["spec"], "replicas").filter(|replicas| *replicas < 0) {
            found.push(Problem::invalid(&Path::new("spec.replicas"), negative, NOT_NEGATIVE));
        }
        found
    },
    ..general::strategy::<false, false>()
};

/// The scale of an object.
pub fn shown(places: &Scale, object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {}, "status": {}});
    let wanted = at(object, places.wanted).as_i64().unwrap_or_default();
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    scale["status"]["replicas"] = at(object, places.seen).as_i64().unwrap_or_default().into();
    let selector = selector_text(at(object, places.selector));
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// The object with the number that a scale says, for the revision that the scale is meant for.
pub fn over(places: &Scale, object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    let meta = map_at(&mut object, "metadata");
    for field in ["uid", "resourceVersion"] {
        match &scale["metadata"][field] {
            Value::Null => meta.remove(field),
            said => meta.insert(field.to_owned(), said.clone()),
        };
    }
    let mut place = &mut object;
    for field in places.wanted.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[field];
    }
    *place = number(&scale["spec"], "replicas").unwrap_or_default().into();
    object
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, field| &value[field])
}

/// A selector as query text: sorted by key, values in order. A plain map of labels is also accepted.
pub fn selector_text(selector: &Value) -> String {
    let is_whole = selector.get("matchLabels").is_some_and(Value::is_object)
        || selector.get("matchExpressions").is_some_and(Value::is_array);
    let wrapped = json!({"matchLabels": selector});
    let selector = if is_whole { selector } else { &wrapped };
    let mut parts: Vec<(String, String)> =
        texts(selector, "matchLabels").map(|(key, value)| (key.to_owned(), format!("{key}={value}"))).collect();
    for rule in list(selector, "matchExpressions") {
        let key = rule["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = list(rule, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match rule["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Scale =
        Scale { wanted: "spec.replicas", seen: "status.replicas", selector: "spec.selector", unread: None };

    #[test]
    fn there_and_back() {
        let meta = json!({"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}});
        let object = json!({
            "metadata": meta, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}}, "status": {},
        });
        let scale = shown(&PLACES, &object);
        let meta = json!({"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"});
        let expected = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta,
            "spec": {"replicas": 2},
            "status": {"replicas": 0, "selector": "app=web"}});
        assert_eq!(scale, expected);
        assert_eq!(over(&PLACES, &object, &scale), object);
        let changed = over(&PLACES, &object, &json!({"metadata": {"name": "d"}, "spec": {}}));
        assert_eq!((&changed["spec"]["replicas"], changed["metadata"].get("resourceVersion")), (&json!(0), None));
    }

    #[test]
    fn selectors() {
        let check = |selector: Value, expected: &str| assert_eq!(selector_text(&selector), expected, "{selector}");
        check(json!({"app": "web", "a": "b"}), "a=b,app=web");
        check(Value::Null, "");
        let rules =
            json!([{"key": "app", "operator": "In", "values": ["x", "web"]}, {"key": "z", "operator": "DoesNotExist"}]);
        check(json!({"matchExpressions": rules}), "app in (web,x),!z");
        let rules = json!([{"key": "b", "operator": "NotIn", "values": ["y"]}, {"key": "e", "operator": "Exists"}]);
        check(json!({"matchLabels": {"c": "d"}, "matchExpressions": rules}), "b notin (y),c=d,e");
    }
}
