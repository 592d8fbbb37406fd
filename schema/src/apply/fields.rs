//! Sets of fields in the form of `fieldsV1`, the field list in each entry of `managedFields`.
//!
//!     {"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}},
//!      "f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}
//!
//! A step is kept as it is written: `f:NAME` a field or key, `k:{..}` an entry by its keys, `v:..` an entry of a set,
//! `i:N` one by its place. A point stands for the field itself where something inside is in the set, too.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Deepest set that is read: documents are no deeper.
const LEVELS_MAX: usize = 128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<Box<str>, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    inside: Fields,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.inside.is_empty()
    }
}

impl Fields {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `fieldsV1`. None: it is none.
    pub fn read(value: &Value) -> Option<Fields> {
        read(value, 0)
    }

    pub fn to_value(&self) -> Value {
        Value::Object(self.map())
    }

    fn map(&self) -> Map<String, Value> {
        let entries = self.0.iter().map(|(step, node)| {
            let mut map = node.inside.map();
            if node.member && !map.is_empty() {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (step.to_string(), Value::Object(map))
        });
        entries.collect()
    }

    pub fn insert<'s>(&mut self, path: impl IntoIterator<Item = &'s str>) {
        let mut path = path.into_iter().peekable();
        let mut here = self;
        while let Some(step) = path.next() {
            let node = here.0.entry(step.into()).or_default();
            if path.peek().is_none() {
                node.member = true;
                return;
            }
            here = &mut node.inside;
        }
    }

    /// The set of fields with these dotted names: `metadata.labels`.
    pub fn named(paths: &[&str]) -> Fields {
        let mut fields = Fields::default();
        for path in paths {
            let steps: Vec<String> = path.split('.').map(field).collect();
            fields.insert(steps.iter().map(String::as_str));
        }
        fields
    }

    pub fn has(&self, step: &str) -> bool {
        self.0.get(step).is_some_and(|node| node.member)
    }

    /// The part of the set below a step.
    pub fn inside(&self, step: &str) -> Option<&Fields> {
        self.0.get(step).map(|node| &node.inside).filter(|inside| !inside.is_empty())
    }

    pub(super) fn take(&mut self, step: impl Into<Box<str>>, member: bool, inside: Fields) {
        if member || !inside.is_empty() {
            self.0.insert(step.into(), Node { member, inside });
        }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = (&str, bool, &Fields)> {
        self.0.iter().map(|(step, node)| (&**step, node.member, &node.inside))
    }

    pub fn union(mut self, other: &Fields) -> Fields {
        self.add(other);
        self
    }

    fn add(&mut self, other: &Fields) {
        for (step, node) in &other.0 {
            match self.0.get_mut(step) {
                None => drop(self.0.insert(step.clone(), node.clone())),
                Some(here) => {
                    here.member |= node.member;
                    here.inside.add(&node.inside);
                }
            }
        }
    }

    pub fn intersection(&self, other: &Fields) -> Fields {
        let both = self.0.iter().filter_map(|(step, node)| {
            let with = other.0.get(step)?;
            let both = Node { member: node.member && with.member, inside: node.inside.intersection(&with.inside) };
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Fields(both.collect())
    }

    /// Without the other's fields, but with what is inside them.
    pub fn difference(mut self, other: &Fields) -> Fields {
        self.lose(other, false);
        self
    }

    /// Without the other's fields and everything inside them.
    pub fn without(mut self, other: &Fields) -> Fields {
        self.lose(other, true);
        self
    }

    /// `whole`: with what is inside a field that goes.
    fn lose(&mut self, other: &Fields, whole: bool) {
        for (step, lost) in &other.0 {
            let Some(node) = self.0.get_mut(step) else { continue };
            node.inside.lose(&lost.inside, whole);
            if lost.member {
                node.member = false;
            }
            if node.is_empty() || (whole && lost.member) {
                self.0.remove(step);
            }
        }
    }

    /// Every field as messages show it: `.spec.containers[name="web"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.show(&mut String::new(), &mut all);
        all
    }

    fn show(&self, way: &mut String, all: &mut Vec<String>) {
        for (step, node) in &self.0 {
            let before = way.len();
            way.push_str(&shown(step));
            if node.member {
                all.push(way.clone());
            }
            node.inside.show(way, all);
            way.truncate(before);
        }
    }
}

fn read(value: &Value, depth: usize) -> Option<Fields> {
    let map = value.as_object().filter(|_| depth <= LEVELS_MAX)?;
    let mut fields = Fields::default();
    for (step, inside) in map {
        if step == "." {
            continue;
        }
        let member = inside.as_object().is_some_and(|inside| inside.is_empty() || inside.contains_key("."));
        fields.take(canonical(step)?, member, read(inside, depth + 1)?);
    }
    Some(fields)
}

/// A step as we write it ourselves.
fn canonical(step: &str) -> Option<String> {
    let (mark, rest) = step.split_once(':')?;
    match mark {
        "f" => Some(step.to_owned()),
        "k" => Some(format!("k:{}", serde_json::from_str::<Map<String, Value>>(rest).map(Value::Object).ok()?)),
        "v" => Some(format!("v:{}", serde_json::from_str::<Value>(rest).ok()?)),
        "i" => rest.parse::<u64>().ok().map(|at| format!("i:{at}")),
        _ => None,
    }
}

/// The step to a field, or to a key of a map.
pub fn field(name: &str) -> String {
    ["f:", name].concat()
}

/// A step as messages show it: `.image`, `[name="web"]`, `[="a"]`, `[3]`.
pub fn shown(step: &str) -> String {
    match step.split_at(step.len().min(2)) {
        ("f:", name) => format!(".{name}"),
        ("k:", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        ("v:", value) => format!("[={value}]"),
        (_, place) => format!("[{place}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::patch::tests::Chance;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_read_is_written_again() {
        let value = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:a": {}},
            "f:metadata": {"f:finalizers": {"v:\"a.io/1\"": {}}, "f:list": {"i:3": {}}}});
        let fields = Fields::read(&value).unwrap();
        assert_eq!(fields.to_value(), value);
        let paths = [
            ".metadata.finalizers[=\"a.io/1\"]",
            ".metadata.list[3]",
            ".spec.a",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
        ];
        assert_eq!(fields.paths(), paths);
        let spaced = json!({"f:x": {"k:{ \"b\": 1, \"a\": \"y\" }": {}}});
        assert_eq!(Fields::read(&spaced).unwrap().to_value(), json!({"f:x": {"k:{\"a\":\"y\",\"b\":1}": {}}}));
        for bad in
            [json!({"x": {}}), json!({"q:x": {}}), json!({"f:x": 1}), json!({"k:x": {}}), json!({"i:x": {}}), json!([])]
        {
            assert_eq!(Fields::read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn sets() {
        let read = |value: Value| Fields::read(&value).unwrap();
        let (a, b) = (
            read(json!({"f:x": {".": {}, "f:y": {}, "f:z": {}}, "f:w": {}})),
            read(json!({"f:x": {".": {}, "f:y": {}}})),
        );
        assert_eq!(a.clone().difference(&b), read(json!({"f:x": {"f:z": {}}, "f:w": {}})));
        assert_eq!(a.clone().without(&b), read(json!({"f:w": {}})));
        assert_eq!(a.intersection(&b), b);
        assert_eq!(
            Fields::named(&["status", "metadata.labels"]),
            read(json!({"f:status": {}, "f:metadata": {"f:labels": {}}}))
        );
        assert!(
            a.clone().difference(&a).is_empty()
                && a.has("f:x")
                && !a.inside("f:x").unwrap().is_empty()
                && a.inside("f:w").is_none()
        );
    }

    fn any(chance: &mut Chance) -> Fields {
        let mut fields = Fields::default();
        for _ in 0..chance.below(6) {
            let path: Vec<String> = (0..1 + chance.below(3)).map(|_| field(["a", "b", "c"][chance.below(3)])).collect();
            fields.insert(path.iter().map(String::as_str));
        }
        fields
    }

    #[test]
    fn laws_of_sets() {
        let mut chance = Chance(9);
        for _ in 0..5_000 {
            let (a, b) = (any(&mut chance), any(&mut chance));
            assert_eq!(Fields::read(&a.to_value()), Some(a.clone()));
            assert_eq!(a.clone().union(&b), b.clone().union(&a));
            assert_eq!(a.clone().difference(&b).union(&a.intersection(&b)), a);
            assert!(a.clone().difference(&b).intersection(&b).is_empty());
            assert_eq!(a.clone().without(&b).difference(&a), Fields::default());
        }
    }
}
