//! Helpers for cells of many kinds: fields of a document, and the text of lists, labels and selectors.

use super::age;
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

/// Fills one row, a cell a column.
pub type Cells = fn(&Reading, Time) -> Vec<Value>;

pub const NONE: &str = "<none>";
pub const UNSET: &str = "<unset>";

pub fn name(document: &Reading) -> Value {
    text(&document["metadata"]["name"]).into()
}

pub fn age(document: &Reading, now: Time) -> Value {
    age::since(&document["metadata"]["creationTimestamp"], now).into()
}

/// A text; empty where there is none.
pub fn text<'v>(value: &'v Reading<'_>) -> &'v str {
    value.as_str().unwrap_or_default()
}

/// A text, or a word for there being none.
pub fn text_or<'v>(value: &'v Reading<'_>, missing: &'v str) -> &'v str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(missing)
}

/// A whole number; zero where there is none.
pub fn number(value: &Reading) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub fn yes(value: &Reading) -> bool {
    value.as_bool().unwrap_or_default()
}

pub fn list<'v, 'a>(value: &'v Reading<'a>) -> &'v [Reading<'a>] {
    value.list()
}

/// The number of entries in a map or a list.
pub fn count(value: &Reading) -> usize {
    value.entries().count().max(list(value).len())
}

/// A number or a text, as it is written.
pub fn number_or_text(value: &Reading) -> String {
    match value {
        Reading::Number(number) => number.to_string(),
        other => text(other).to_owned(),
    }
}

/// The given field of each entry, separated by commas.
pub fn joined(entries: &Reading, field: &str) -> String {
    list(entries).iter().map(|entry| text(&entry[field])).collect::<Vec<_>>().join(",")
}

/// The texts of a list, with commas between.
pub fn texts(entries: &Reading) -> String {
    list(entries).iter().map(text).collect::<Vec<_>>().join(",")
}

/// Names and images of the containers of a pod's spec.
pub fn containers(spec: &Reading) -> [Value; 2] {
    [joined(&spec["containers"], "name").into(), joined(&spec["containers"], "image").into()]
}

/// The first few, and how many more there are.
pub fn first_of(shown: &[String], all: usize, separator: &str) -> String {
    let text = shown.join(separator);
    if all > shown.len() { format!("{text} + {} more...", all - shown.len()) } else { text }
}

/// Whether the condition with type `kind` is true.
pub fn holds(conditions: &Reading, kind: &str) -> bool {
    list(conditions).iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// `a=b,c=d`
pub fn labels(map: &Reading) -> String {
    let pairs: Vec<String> = map.entries().map(|(key, value)| format!("{key}={}", text(value))).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// `a=b,c in (d,e),!f`
pub fn selector(selector: &Reading) -> String {
    let equal = selector["matchLabels"].entries();
    let mut parts: Vec<(&str, String)> = equal.map(|(key, value)| (key, format!("{key}={}", text(value)))).collect();
    for requirement in list(&selector["matchExpressions"]) {
        let key = text(&requirement["key"]);
        let mut values: Vec<&str> = list(&requirement["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text(&requirement["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key, part));
    }
    parts.sort_by_key(|(key, _)| *key);
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
}
