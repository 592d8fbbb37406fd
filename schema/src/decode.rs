//! Makes a JSON document a document of its type, or says why it is none: types are checked, values are brought into the
//! one form in which they are stored, what the type does not know is taken out and listed.
//!
//! Follows Go's decoder where that shows: an explicit null is a missing field (an empty entry in a list or map), field
//! names mind their case, a number with a point or an exponent is no integer, and messages read as Kubernetes' do.

use crate::base64;
use crate::problem::Path;
use crate::quantity;
use crate::time;
use crate::trail::{DEPTH_MAX, Step, Trail};
use crate::types::{Container, Element, Field, Types, short};
use serde_json::{Map, Value};

/// Problems that are told; a document has one or many, and nobody reads a hundred.
const FAULTS_MAX: usize = 20;
/// Unknown fields that are listed; all are taken out.
const UNKNOWN_MAX: usize = 200;

/// The findings of decoding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// Wrong JSON types and values that are no value of their type. Any of them makes the document worthless.
    pub faults: Vec<Fault>,
    /// Fields that the type does not have; they are gone from the document.
    pub unknown: Vec<Path>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub path: Path,
    /// `json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string`
    pub message: String,
    /// The same where a document is put together of what stands and a strategic patch:
    /// `cannot restore struct from: string`
    pub restored: String,
}

impl Decoded {
    /// The message of a 400 behind `Pod in version "v1" cannot be handled as a Pod: `: the first fault, as Go's reader
    /// does; none without any.
    pub fn message(&self) -> Option<String> {
        self.faults.first().map(|fault| fault.message.clone())
    }
}

/// Brings `value` into the form of the type called `name`. A type that is not there takes anything: it is the caller's
/// table that names it, not the document.
pub fn decode(types: &Types, name: &str, value: &mut Value) -> Decoded {
    let mut decoder = Decoder { types, found: Decoded::default() };
    match value {
        Value::Object(object) => decoder.object(name, object, &Trail::root()),
        Value::Null => *value = Value::Object(Map::new()),
        other => {
            let message =
                format!("json: cannot unmarshal {} into Go value of type {}", json_kind(other), go_name(name));
            let restored = format!("cannot restore struct from: {}", json_kind(other));
            decoder.found.faults.push(Fault { path: Path::root(), message, restored });
        }
    }
    decoder.found
}

struct Decoder<'t> {
    types: &'t Types,
    found: Decoded,
}

impl Decoder<'_> {
    fn object(&mut self, type_name: &str, object: &mut Map<String, Value>, trail: &Trail<'_>) {
        if trail.depth > DEPTH_MAX {
            return self.fault(trail, format!("nested deeper than {DEPTH_MAX} levels"), String::new());
        }
        let types = self.types;
        let Some(row) = types.get(type_name) else { return };
        object.retain(|key, value| {
            let here = trail.then(Step::Field(key));
            match row.field(key) {
                None => self.unknown(&here),
                Some(_) if value.is_null() => false,
                Some(field) => {
                    self.field(type_name, field, value, &here);
                    // A time that is none.
                    !value.is_null()
                }
            }
        });
    }

    fn field(&mut self, owner: &str, field: &Field, value: &mut Value, trail: &Trail<'_>) {
        match (field.container, value) {
            (Container::One, value) => self.element(owner, field, value, trail),
            (Container::List, Value::Array(list)) => {
                for (at, entry) in list.iter_mut().enumerate() {
                    self.entry(owner, field, entry, &trail.then(Step::Index(at)));
                }
            }
            (Container::Map, Value::Object(map)) => {
                for (key, entry) in map.iter_mut() {
                    self.entry(owner, field, entry, &trail.then(Step::Key(key)));
                }
            }
            (Container::MapOfLists, Value::Object(map)) => {
                for (key, list) in map.iter_mut() {
                    self.list_in_map(owner, field, list, &trail.then(Step::Key(key)));
                }
            }
            (container, value) => self.mismatch(owner, trail, value, Wanted { container, element: &field.element }),
        }
    }

    fn list_in_map(&mut self, owner: &str, field: &Field, list: &mut Value, trail: &Trail<'_>) {
        match list {
            Value::Null => *list = Value::Array(Vec::new()),
            Value::Array(entries) => {
                for (at, entry) in entries.iter_mut().enumerate() {
                    self.entry(owner, field, entry, &trail.then(Step::Index(at)));
                }
            }
            other => self.mismatch(owner, trail, other, Wanted { container: Container::List, element: &field.element }),
        }
    }

    fn entry(&mut self, owner: &str, field: &Field, entry: &mut Value, trail: &Trail<'_>) {
        if entry.is_null() {
            *entry = empty(&field.element);
        }
        self.element(owner, field, entry, trail);
    }

    fn element(&mut self, owner: &str, field: &Field, value: &mut Value, trail: &Trail<'_>) {
        let right = match (&field.element, &mut *value) {
            (Element::Any, _) => true,
            (Element::Text, Value::String(_)) | (Element::Bool, Value::Bool(_)) => true,
            (Element::Float, Value::Number(_)) | (Element::IntOrText, Value::String(_)) => true,
            (Element::Int64, Value::Number(number)) => number.is_i64(),
            (Element::Int32 | Element::IntOrText, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Element::Named(name), Value::Object(object)) => {
                self.object(name, object, trail);
                true
            }
            (Element::Bytes, Value::String(text)) => return self.text(text, canonical_bytes, trail),
            (Element::Time, Value::String(text)) => {
                self.text(text, time::canonical_time, trail);
                return no_time(value);
            }
            (Element::MicroTime, Value::String(text)) => {
                self.text(text, time::canonical_micro_time, trail);
                return no_time(value);
            }
            (Element::Quantity, value) => return self.quantity(value, trail),
            _ => false,
        };
        if !right {
            self.mismatch(owner, trail, value, Wanted { container: Container::One, element: &field.element });
        }
    }

    fn text(&mut self, text: &mut String, canonical: fn(&str) -> Result<String, String>, trail: &Trail<'_>) {
        match canonical(text) {
            Ok(good) => *text = good,
            Err(why) => self.fault(trail, why.clone(), why),
        }
    }

    fn quantity(&mut self, value: &mut Value, trail: &Trail<'_>) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => {
                let why = quantity::QuantityError::Format.to_string();
                return self.fault(trail, why.clone(), why);
            }
        };
        match quantity::canonical(&text) {
            Ok(good) => *value = Value::String(good.into_owned()),
            Err(why) => self.fault(trail, why.to_string(), why.to_string()),
        }
    }

    fn mismatch(&mut self, owner: &str, trail: &Trail<'_>, found: &Value, wanted: Wanted<'_>) {
        let whole = matches!(wanted.element, Element::Int32 | Element::Int64 | Element::IntOrText);
        let kind = match found {
            Value::Number(number) if whole && wanted.container == Container::One => format!("number {number}"),
            other => json_kind(other).to_owned(),
        };
        let (owner, place, go) = (short(owner), trail.fields(), wanted.go());
        let message = format!("json: cannot unmarshal {kind} into Go struct field {owner}.{place} of type {go}");
        self.fault(trail, message, wanted.restored_from(found));
    }

    fn fault(&mut self, trail: &Trail<'_>, message: String, restored: String) {
        if self.found.faults.len() < FAULTS_MAX {
            self.found.faults.push(Fault { path: trail.path(), message, restored });
        }
    }

    /// Never kept.
    fn unknown(&mut self, trail: &Trail<'_>) -> bool {
        if self.found.unknown.len() < UNKNOWN_MAX {
            self.found.unknown.push(trail.path());
        }
        false
    }
}

/// The expected value of a place.
struct Wanted<'t> {
    container: Container,
    element: &'t Element,
}

impl Wanted<'_> {
    /// As Go's messages about JSON call it.
    fn go(&self) -> String {
        let element = go_type(self.element);
        match self.container {
            Container::One => element,
            Container::List => format!("[]{element}"),
            Container::Map => format!("map[string]{element}"),
            Container::MapOfLists => format!("map[string][]{element}"),
        }
    }

    /// The message of Kubernetes' own converter about another value.
    fn restored_from(&self, found: &Value) -> String {
        let kind = match found {
            Value::Array(_) => "slice",
            Value::Object(_) => "map",
            Value::Number(number) if number.is_i64() => "int64",
            Value::Number(_) => "float64",
            other => json_kind(other),
        };
        match (self.container, self.element) {
            (Container::List, _) => format!("cannot restore slice from {kind}"),
            (Container::Map | Container::MapOfLists, _) => format!("cannot restore map from {kind}"),
            (Container::One, Element::Named(_)) => format!("cannot restore struct from: {kind}"),
            (Container::One, Element::IntOrText) => {
                format!("json: cannot unmarshal {} into Go value of type int32", json_kind(found))
            }
            (Container::One, Element::Text) if kind == "int64" => "cannot convert int64 to string".to_owned(),
            (Container::One, element @ (Element::Int32 | Element::Int64)) if kind == "float64" => {
                format!("cannot convert float64 to {}", go_type(element))
            }
            (Container::One, element) => format!("unrecognized type: {}", go_type(element)),
        }
    }
}

/// The first second of all is what Go's and .NET's clients write for none.
fn no_time(value: &mut Value) {
    if matches!(value.as_str(), Some("0001-01-01T00:00:00Z" | "0001-01-01T00:00:00.000000Z")) {
        *value = Value::Null;
    }
}

/// Base64 without line ends.
fn canonical_bytes(text: &str) -> Result<String, String> {
    match base64::decode(text) {
        Ok(_) if !text.contains(['\r', '\n']) => Ok(text.to_owned()),
        Ok(bytes) => Ok(base64::encode(&bytes)),
        Err(at) => Err(format!("illegal base64 data at input byte {at}")),
    }
}

/// A value's type as messages about JSON call it.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type as Go's messages call it.
fn go_type(element: &Element) -> String {
    match element {
        Element::Text | Element::Time | Element::MicroTime => "string".to_owned(),
        Element::Bool => "bool".to_owned(),
        Element::Int32 | Element::IntOrText => "int32".to_owned(),
        Element::Int64 => "int64".to_owned(),
        Element::Float => "float64".to_owned(),
        Element::Bytes => "[]uint8".to_owned(),
        Element::Quantity => "resource.Quantity".to_owned(),
        Element::Any => "interface {}".to_owned(),
        Element::Named(name) => go_name(name),
    }
}

/// `v1.Pod`, `v2.MetricTarget`.
fn go_name(name: &str) -> String {
    let version = name.rsplit('.').nth(1).unwrap_or("v1");
    format!("{version}.{}", short(name))
}

/// The value of a null in a list or a map.
pub(crate) fn empty(element: &Element) -> Value {
    match element {
        Element::Text | Element::Bytes => Value::from(""),
        Element::Bool => Value::from(false),
        Element::Int32 | Element::Int64 | Element::Float | Element::IntOrText => Value::from(0),
        Element::Quantity => Value::from("0"),
        Element::Named(_) => Value::Object(Map::new()),
        Element::Time | Element::MicroTime | Element::Any => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "
[Pod]
  kind 0 string
  metadata 1 Meta
  spec 2 Spec
[Meta]
  labels 1 {string}
  made 2 time
  seen 3 microtime
[Spec]
  containers 1 [Container]
  replicas 2 int32
  deadline 3 int64
  on 4 bool
  extra 5 any
[Container]
  name 1 string
  args 2 [string]
  port 3 intorstring
  limits 4 {quantity}
  inner 5 Spec
";

    fn check(document: Value, expected: Value, faults: &[&str], unknown: &[&str]) {
        let types = Types::parse(TEXT, &Types::default()).unwrap();
        let mut value = document.clone();
        let decoded = decode(&types, "Pod", &mut value);
        assert_eq!(decoded.faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>(), faults, "{document}");
        assert_eq!(decoded.unknown.iter().map(Path::as_str).collect::<Vec<_>>(), unknown, "{document}");
        if faults.is_empty() {
            assert_eq!(value, expected, "{document}");
        }
    }

    #[test]
    fn good_documents() {
        check(
            json!({
                "kind": "Pod", "metadata": {"labels": {"a": "b", "n": null}, "made": "2020-01-01T02:00:00.5+02:00"},
                "spec": null,
            }),
            json!({"kind": "Pod", "metadata": {"labels": {"a": "b", "n": ""}, "made": "2020-01-01T00:00:00Z"}}),
            &[],
            &[],
        );
        check(
            json!({"spec": {"containers": [{"name": "a", "args": [null], "port": 80,
                "limits": {"cpu": 0.25, "memory": "1024Mi"}}, null],
                "extra": {"any": null}}}),
            json!({"spec": {"containers": [{"name": "a", "args": [""], "port": 80,
                "limits": {"cpu": "250m", "memory": "1Gi"}}, {}],
                "extra": {"any": null}}}),
            &[],
            &[],
        );
        check(
            json!({"Kind": "x", "spec": {"containers": [{"Name": "a", "name": "b"}], "replica": 1}}),
            json!({"spec": {"containers": [{"name": "b"}]}}),
            &[],
            &["Kind", "spec.containers[0].Name", "spec.replica"],
        );
        check(Value::Null, json!({}), &[], &[]);
        check(
            json!({"metadata": {"made": "0001-01-01T00:00:00Z", "seen": "0001-01-01T00:00:00.000000Z"}}),
            json!({"metadata": {}}),
            &[],
            &[],
        );
    }

    #[test]
    fn faults() {
        for (document, fault) in [
            (json!([]), "json: cannot unmarshal array into Go value of type v1.Pod"),
            (
                json!({"metadata": "x"}),
                "json: cannot unmarshal string into Go struct field Pod.metadata of type v1.Meta",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field Meta.metadata.labels of type string",
            ),
            (
                json!({"metadata": {"labels": []}}),
                "json: cannot unmarshal array into Go struct field Meta.metadata.labels of type map[string]string",
            ),
            (
                json!({"metadata": {"made": 5}}),
                "json: cannot unmarshal number into Go struct field Meta.metadata.made of type string",
            ),
            (
                json!({"metadata": {"made": "yesterday"}}),
                "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
            ),
            (
                json!({"spec": {"containers": [{"name": 1}]}}),
                "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
            ),
            (
                json!({"spec": {"containers": {}}}),
                "json: cannot unmarshal object into Go struct field Spec.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"replicas": 30.0}}),
                "json: cannot unmarshal number 30.0 into Go struct field Spec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 2147483648u32}}),
                "json: cannot unmarshal number 2147483648 into Go struct field Spec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"deadline": u64::MAX}}),
                "json: cannot unmarshal number 18446744073709551615 into Go struct field Spec.spec.deadline of type \
                 int64",
            ),
            (
                json!({"spec": {"on": "true"}}),
                "json: cannot unmarshal string into Go struct field Spec.spec.on of type bool",
            ),
            (
                json!({"spec": {"containers": [{"limits": {"cpu": true}}]}}),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ] {
            check(document, Value::Null, &[fault], &[]);
        }
    }

    #[test]
    fn depth_ends() {
        let types = Types::parse(TEXT, &Types::default()).unwrap();
        let mut value = json!({});
        for _ in 0..60 {
            value = json!({"containers": [{"inner": value}]});
        }
        let decoded = decode(&types, "Pod", &mut json!({"spec": value}));
        assert_eq!(decoded.faults.len(), 1);
        assert_eq!(decoded.message().as_deref(), Some("nested deeper than 100 levels"));
    }

    #[test]
    fn lists_of_findings_are_bounded() {
        let types = Types::parse(TEXT, &Types::default()).unwrap();
        let mut value: Value = (0..1000).map(|n| (format!("f{n}"), json!(1))).collect::<Map<_, _>>().into();
        value["metadata"] = json!({"labels": (0..1000).map(|n| (format!("l{n}"), json!(1))).collect::<Map<_, _>>()});
        let decoded = decode(&types, "Pod", &mut value);
        assert_eq!((decoded.faults.len(), decoded.unknown.len()), (FAULTS_MAX, UNKNOWN_MAX));
        assert_eq!(value.as_object().unwrap().len(), 1, "all unknown fields are out");
    }
}
