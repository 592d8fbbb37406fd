//! Field selectors: `spec.nodeName=n1,status.phase!=Running`. Only the fields that the kind's row names.

use crate::kinds::Kind;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// All requirements hold. None: everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    path: Vec<String>,
    /// What a document without the field holds.
    missing: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    pub fn parse(text: &str, kind: &Kind) -> Result<FieldSelector, String> {
        let mut requirements = Vec::new();
        for part in parts(text) {
            if part.is_empty() {
                continue;
            }
            let (label, equal, value) = operator(part).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value = unescape(value)?;
            let field = kind.fields.iter().find(|field| field.label == label);
            let field = field.ok_or_else(|| unknown(label, kind))?;
            let path = field.path.split('.').map(str::to_owned).collect();
            requirements.push(Requirement { path, missing: field.missing.to_string(), equal, value });
        }
        Ok(FieldSelector { requirements })
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, document: &Value) -> bool {
        self.requirements.iter().all(|requirement| {
            let found = requirement.path.iter().try_fold(document, |value, field| value.get(field));
            requirement.holds(found.and_then(text_of))
        })
    }

    /// Against a document as JSON, of which only the way to each field is read.
    pub fn matches_json(&self, json: &[u8]) -> bool {
        self.matches_found(|path| read_field(json, path))
    }

    /// The same, where somebody knows what stands at the end of a path: whoever asks many selectors about one document reads it once.
    pub fn matches_found(&self, find: impl Fn(&[String]) -> Option<String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(find(&requirement.path)))
    }
}

/// The one field of a document as JSON that stands at the end of a path, as selectors compare it.
pub fn read_field(json: &[u8], path: &[String]) -> Option<String> {
    Walk(path).deserialize(&mut serde_json::Deserializer::from_slice(json)).ok().flatten()
}

impl Requirement {
    fn holds(&self, found: Option<String>) -> bool {
        let found = found.filter(|found| !found.is_empty());
        (found.as_ref().unwrap_or(&self.missing) == &self.value) == self.equal
    }
}

/// Kubernetes has one text for kinds with fields of their own, one for jobs, and one for all others.
fn unknown(label: &str, kind: &Kind) -> String {
    if kind.fields.iter().all(|field| field.label.starts_with("metadata.")) {
        return format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    match &*kind.resource.group {
        "batch" => format!("field label {label:?} not supported for batchv1.{}", kind.kind),
        _ => format!("field label not supported: {label}"),
    }
}

/// Split at commas that no backslash escapes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b',' && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// Label, whether it must be equal, value.
fn operator(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
    let (label, rest) = part.split_at(at);
    let (equal, value) = match rest.strip_prefix("!=") {
        Some(value) => (false, value),
        None => (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?),
    };
    Some((label, equal, value))
}

/// `\\`, `\,` and `\=` stand for themselves; a bare `=` or `,` in a value is a mistake.
fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // The number of the character, as Kubernetes prints it.
            '=' | ',' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        _ => None,
    }
}

/// Reads one field of a document and skips everything else.
struct Walk<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match self.0 {
                [first, rest @ ..] if *first == key => found = map.next_value_seed(Walk(rest))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<String>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| text.to_owned()))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| yes.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use serde_json::json;

    /// The two pods of the recorded conversation `list/field-selectors-pods`.
    fn check(text: &str, expected: &[usize]) {
        let kinds = Kinds::builtin();
        let selector = FieldSelector::parse(text, kinds.by_kind("v1", "Pod").unwrap()).unwrap();
        let spec = json!({"schedulerName": "default-scheduler", "serviceAccountName": "default", "restartPolicy": "Always"});
        let mut pods = [
            json!({"kind": "Pod", "metadata": {"name": "p0", "labels": {"a": "b\"c"}}, "spec": spec, "status": {"phase": "Running", "podIP": "10.1.2.3"}}),
            json!({"kind": "Pod", "metadata": {"name": "p1"}, "spec": spec, "status": {"phase": "Pending"}}),
        ];
        pods[0]["spec"]["nodeName"] = json!("n1");
        pods[1]["spec"]["restartPolicy"] = json!("Never");
        let found = |test: &dyn Fn(&Value) -> bool| (0..pods.len()).filter(|n| test(&pods[*n])).collect::<Vec<_>>();
        assert_eq!(found(&|pod| selector.matches(pod)), expected, "{text}");
        assert_eq!(found(&|pod| selector.matches_json(pod.to_string().as_bytes())), expected, "{text}");
    }

    #[test]
    fn selected() {
        for (text, expected) in [
            ("", &[0, 1][..]),
            ("spec.nodeName=n1", &[0]),
            ("spec.nodeName=", &[1]),
            ("spec.nodeName!=", &[0]),
            ("status.phase==Running", &[0]),
            ("status.phase!=Running", &[1]),
            ("spec.restartPolicy=Never", &[1]),
            ("spec.schedulerName=default-scheduler", &[0, 1]),
            ("spec.serviceAccountName=default", &[0, 1]),
            ("status.podIP=10.1.2.3", &[0]),
            ("spec.hostNetwork=false", &[0, 1]),
            ("status.nominatedNodeName=", &[0, 1]),
            ("metadata.name=p0,status.phase=Running", &[0]),
            ("metadata.name=p\\,0", &[]),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn refused_with_the_words_of_kubernetes() {
        let kinds = Kinds::builtin();
        for (text, expected) in [
            ("data.k=x", "field label not supported: data.k"),
            ("metadata.uid=x", "field label not supported: metadata.uid"),
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("metadata.name=b=c", "invalid field selector: unescaped character in value: 61"),
            ("=b", "field label not supported: "),
            ("metadata.name in (a)", "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'"),
            ("metadata.name>a", "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
            ("metadata.name=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ] {
            let selector = FieldSelector::parse(text, kinds.by_kind("v1", "Pod").unwrap());
            assert_eq!(selector, Err(expected.to_owned()), "{text}");
        }
        let of_jobs = FieldSelector::parse("a=b", kinds.by_kind("batch/v1", "Job").unwrap());
        assert_eq!(of_jobs, Err("field label \"a\" not supported for batchv1.Job".to_owned()));
    }

    #[test]
    fn broken_json_selects_as_if_the_field_were_missing() {
        let kinds = Kinds::builtin();
        let selector = FieldSelector::parse("spec.nodeName=n1", kinds.by_kind("v1", "Pod").unwrap()).unwrap();
        assert!(!selector.matches_json(b"{\"spec\":"));
    }
}
