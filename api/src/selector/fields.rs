//! Field selectors: `spec.nodeName=n1,status.phase!=Running`. Only the fields that the kind's row names.

use crate::kinds::Kind;
use crate::meta::Key;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Terms of one selector: clients ask of one or two fields, and no kind has twenty. Each is looked at for each object
/// of a list.
pub const FIELD_TERMS_MAX: usize = 64;

/// All terms of all fields must hold. None: everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector {
    asked: Vec<Asked>,
}

/// All terms about one field: an object is read once for the field, however many terms name the field.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    path: Vec<String>,
    /// The path that counts if the field is empty. Empty: none.
    or: Vec<String>,
    /// The value of a document without the field.
    missing: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    equal: bool,
    value: String,
}

/// A term of a field selector, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub equal: bool,
    pub value: String,
}

/// The terms of a field selector, before it is known whether the kind has such fields. `FieldSelector::parse` reads the
/// same terms.
pub fn field_terms(text: &str) -> Result<Vec<FieldTerm>, String> {
    let parts = parts(text).into_iter().filter(|part| !part.is_empty()).take(FIELD_TERMS_MAX + 1);
    let terms = parts.map(|part| {
        let (field, equal, value) =
            operator(part).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
        Ok(FieldTerm { field: field.to_owned(), equal, value: unescape(value)? })
    });
    terms.collect()
}

impl FieldSelector {
    pub fn parse(text: &str, kind: &Kind) -> Result<FieldSelector, String> {
        let mut asked: Vec<Asked> = Vec::new();
        let parts = parts(text);
        let terms = parts.iter().filter(|part| !part.is_empty()).count();
        if terms > FIELD_TERMS_MAX {
            return Err(format!("invalid field selector: {terms} terms, at most {FIELD_TERMS_MAX}"));
        }
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (label, equal, value) =
                operator(part).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value = unescape(value)?;
            let field = kind.fields.iter().find(|field| field.label == label);
            let field = field.ok_or_else(|| unknown(label, kind))?;
            let way = |path: &str| path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let (path, or, missing): (Vec<String>, Vec<String>, String) =
                (way(&field.path), way(&field.or), field.missing.to_string());
            let term = Term { equal, value };
            match asked.iter_mut().find(|asked| asked.path == path && asked.or == or && asked.missing == missing) {
                Some(asked) => asked.terms.push(term),
                None => asked.push(Asked { path, or, missing, terms: vec![term] }),
            }
        }
        Ok(FieldSelector { asked })
    }

    pub fn is_everything(&self) -> bool {
        self.asked.is_empty()
    }

    pub fn matches(&self, document: &Value) -> bool {
        self.matches_found(|path| path.iter().try_fold(document, |value, field| value.get(field)).and_then(text_of))
    }

    /// Against a document as JSON, of which only the way to each field is read.
    pub fn matches_json(&self, json: &[u8]) -> bool {
        self.matches_found(|path| read_field(json, path))
    }

    /// Against a stored object: name and namespace come from the key, not from the document.
    pub fn matches_stored(&self, key: &Key, json: &[u8]) -> bool {
        self.matches_found(|path| of_key(key, path).unwrap_or_else(|| read_field(json, path)))
    }

    /// The same, with a function that finds the value at a path: a caller with many selectors then reads a document
    /// only once.
    pub fn matches_found(&self, find: impl Fn(&[String]) -> Option<String>) -> bool {
        self.asked.iter().all(|asked| asked.holds(&find))
    }
}

impl FieldSelector {
    /// Whether an object may match of which the key alone is known.
    pub fn may_match(&self, key: &Key) -> bool {
        let mut of_keys = self.asked.iter().filter(|asked| of_key(key, &asked.path).is_some());
        of_keys.all(|asked| asked.holds(|path| of_key(key, path).flatten()))
    }
}

/// The value of the field at a path, as far as the key tells. None: it does not.
pub fn of_key(key: &Key, path: &[String]) -> Option<Option<String>> {
    match path {
        [metadata, name] if metadata == "metadata" && name == "name" => Some(Some(key.name.clone())),
        [metadata, namespace] if metadata == "metadata" && namespace == "namespace" => {
            Some(Some(key.namespace.clone()))
        }
        _ => None,
    }
}

/// The field at a path of a JSON document, as text for the comparison with a selector.
pub fn read_field(json: &[u8], path: &[String]) -> Option<String> {
    Walk(path).deserialize(&mut serde_json::Deserializer::from_slice(json)).ok().flatten()
}

impl Asked {
    fn holds(&self, find: impl Fn(&[String]) -> Option<String>) -> bool {
        let at = |path: &Vec<String>| {
            Some(path).filter(|path| !path.is_empty()).and_then(|path| find(path)).filter(|text| !text.is_empty())
        };
        let found = at(&self.path).or_else(|| at(&self.or));
        let found = found.as_ref().unwrap_or(&self.missing);
        self.terms.iter().all(|term| (*found == term.value) == term.equal)
    }
}

/// Kubernetes has different messages for kinds with fields of their own, for jobs, and for all further kinds.
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

/// Reads one field of a document and skips all further fields.
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
        let spec =
            json!({"schedulerName": "default-scheduler", "serviceAccountName": "default", "restartPolicy": "Always"});
        let mut pods = [
            json!({
                "kind": "Pod", "metadata": {"name": "p0", "labels": {"a": "b\"c"}}, "spec": spec,
                "status": {"phase": "Running", "podIP": "10.1.2.3"},
            }),
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
            (
                "metadata.name in (a)",
                "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
            ),
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
    fn terms_have_a_limit_and_a_field_is_read_once() {
        let kinds = Kinds::builtin();
        let parse = |terms: usize| {
            let text: Vec<String> = (0..terms).map(|at| format!("spec.nodeName!=b{at},metadata.name!=b{at}")).collect();
            FieldSelector::parse(&text.join(","), kinds.by_kind("v1", "Pod").unwrap())
        };
        let selector = parse(FIELD_TERMS_MAX / 2).unwrap();
        let read = std::cell::RefCell::new(Vec::new());
        let find = |path: &[String]| {
            read.borrow_mut().push(path.join("."));
            Some("a".to_owned())
        };
        assert!(selector.matches_found(find));
        assert_eq!(*read.borrow(), ["spec.nodeName", "metadata.name"]);
        assert_eq!(parse(FIELD_TERMS_MAX / 2 + 1), Err("invalid field selector: 66 terms, at most 64".to_owned()));
    }

    #[test]
    fn what_the_key_says_is_not_read() {
        let kinds = Kinds::builtin();
        let key = Key {
            resource: kinds.by_kind("v1", "Pod").unwrap().resource.clone(),
            namespace: "a".to_owned(),
            name: "p0".to_owned(),
        };
        for (text, expected) in [
            ("metadata.name=p0,metadata.namespace=a", true),
            ("metadata.name=p0,metadata.namespace=b", false),
            ("metadata.name!=p0", false),
            ("metadata.name=p1", false),
        ] {
            let selector = FieldSelector::parse(text, kinds.by_kind("v1", "Pod").unwrap()).unwrap();
            assert_eq!(selector.matches_stored(&key, b"no JSON"), expected, "{text}");
        }
    }

    #[test]
    fn broken_json_selects_as_if_the_field_were_missing() {
        let kinds = Kinds::builtin();
        let selector = FieldSelector::parse("spec.nodeName=n1", kinds.by_kind("v1", "Pod").unwrap()).unwrap();
        assert!(!selector.matches_json(b"{\"spec\":"));
    }
}
