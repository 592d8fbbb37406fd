//! Reads JSON and remembers what a plain reader forgets: fields that stand there twice. The last one counts.

use crate::problem::Path;
use crate::trail::{Step, Trail};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::fmt;

/// Fields that are listed; all but the last are out.
const DUPLICATES_MAX: usize = 200;
/// Values of one document. Of small objects, 3 MiB of text would take a hundred times as much memory, and what is
/// checked is copied.
const VALUES_MAX: usize = 200_000;
/// An object that is not empty takes as much as so many texts.
const OBJECT_VALUES: usize = 10;

/// A document, and the fields that it has more than once. Nothing may stand behind it; 128 levels are the deepest.
pub fn read(json: &[u8]) -> Result<(Value, Vec<Path>), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let found = read_from(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// The same as Go reads it into a type: of two objects at one place the second is laid over the first.
pub fn read_typed(json: &[u8]) -> Result<(Value, Vec<Path>), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut found = Found { typed: true, ..Found::default() };
    let value = Reader { trail: &Trail::root(), found: &mut found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found.duplicates))
}

/// Like `read`, for any format with types of its own: YAML. Keys that are not strings become strings.
pub fn read_from<'de, D: Deserializer<'de>>(reader: D) -> Result<(Value, Vec<Path>), D::Error> {
    let mut found = Found::default();
    let value = Reader { trail: &Trail::root(), found: &mut found }.deserialize(reader)?;
    Ok((value, found.duplicates))
}

/// Brings paths into the order in which their fields stand in a text; paths without a field in the text come last.
pub fn in_order(json: &[u8], paths: &mut [Path]) {
    in_order_of(json, paths, |_| 1);
}

/// Like `in_order`, but a path counts where its field appears for the nth time.
pub fn in_order_of(json: &[u8], paths: &mut [Path], nth: impl Fn(&Path) -> usize) {
    let wanted = paths.iter().map(|path| (path.as_str().to_owned(), nth(path))).collect();
    let mut order = Order { wanted, found: HashMap::new() };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let walk = Walk { trail: &Trail::root(), order: &mut order };
    // A broken text has been walked up to the error.
    let _ = walk.deserialize(&mut reader);
    paths.sort_by_key(|path| order.found.get(path.as_str()).copied().unwrap_or(usize::MAX));
}

struct Order {
    /// How often it has still to be met.
    wanted: HashMap<String, usize>,
    found: HashMap<String, usize>,
}

/// Goes over a text and notes where wanted paths stand.
struct Walk<'a> {
    trail: &'a Trail<'a>,
    order: &'a mut Order,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key_seed(Key)? {
            let here = self.trail.then(Step::Field(&key));
            let path = here.path();
            if let Some(left) = self.order.wanted.get_mut(path.as_str()) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    let next = self.order.found.len();
                    self.order.found.entry(path.as_str().to_owned()).or_insert(next);
                }
            }
            entries.next_value_seed(Walk { trail: &here, order: self.order })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        for at in 0.. {
            let here = self.trail.then(Step::Index(at));
            if entries.next_element_seed(Walk { trail: &here, order: self.order })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[derive(Default)]
struct Found {
    duplicates: Vec<Path>,
    values: usize,
    /// Two objects at one place are put together.
    typed: bool,
}

impl Found {
    fn count<E: Error>(&mut self, values: usize) -> Result<(), E> {
        self.values += values;
        if self.values > VALUES_MAX {
            Err(E::custom(format_args!("more than {VALUES_MAX} values, of which an object counts as ten")))
        } else {
            Ok(())
        }
    }
}

struct Reader<'a> {
    trail: &'a Trail<'a>,
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            let here = self.trail.then(Step::Field(&key));
            self.found.count(if map.is_empty() { OBJECT_VALUES } else { 1 })?;
            let value = entries.next_value_seed(Reader { trail: &here, found: self.found })?;
            if map.contains_key(&key) && self.found.duplicates.len() < DUPLICATES_MAX {
                self.found.duplicates.push(here.path());
            }
            match map.get_mut(&key).filter(|standing| self.found.typed && standing.is_object() && value.is_object()) {
                Some(standing) => lay(standing, value),
                None => drop(map.insert(key, value)),
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let here = self.trail.then(Step::Index(list.len()));
            match entries.next_element_seed(Reader { trail: &here, found: self.found })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
            self.found.count(1)?;
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Bool(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// As deep as the reader goes.
fn lay(standing: &mut Value, over: Value) {
    match (standing, over) {
        (Value::Object(standing), Value::Object(over)) => {
            for (key, value) in over {
                lay(standing.entry(key).or_insert(Value::Null), value);
            }
        }
        (standing, over) => *standing = over,
    }
}

/// The key of an entry, as a text.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that can be written as text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<String, E> {
        Ok(yes.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_a_plain_reader_but_for_what_is_there_twice() {
        for (json, duplicates) in [
            (r#"{"a": [1, -2, 1.5, "x\n", true, null, {}], "b": {"c": 18446744073709551615}}"#, &[][..]),
            (r#"{"data": {"a": 1, "a": 2}}"#, &["data.a"]),
            (r#"{"a": [{}, {"b": 1, "b": {"c": 1}, "b": 3}], "a": []}"#, &["a[1].b", "a[1].b", "a"]),
            ("5", &[]),
        ] {
            let (value, found) = read(json.as_bytes()).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(json).unwrap());
            assert_eq!(found.iter().map(Path::as_str).collect::<Vec<_>>(), duplicates, "{json}");
        }
    }

    #[test]
    fn two_objects_at_one_place() {
        let json =
            br#"{"data": {"a": "1", "a": "2", "m": {"x": 1}}, "data": {"b": "3", "m": {"y": 2}}, "l": [1], "l": [2]}"#;
        let (value, found) = read_typed(json).unwrap();
        let expected = r#"{"data": {"a": "2", "b": "3", "m": {"x": 1, "y": 2}}, "l": [2]}"#;
        assert_eq!(value, serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(found.iter().map(Path::as_str).collect::<Vec<_>>(), ["data.a", "data", "l"]);
        let (value, _) = read(json).unwrap();
        assert_eq!(value["data"], serde_json::from_str::<Value>(r#"{"b": "3", "m": {"y": 2}}"#).unwrap());
    }

    #[test]
    fn a_document_of_many_values_is_refused_before_they_take_much_memory() {
        for (json, taken) in [
            (format!("[{}0]", "0,".repeat(VALUES_MAX - 1)), true),
            (format!("[{}0]", "0,".repeat(VALUES_MAX)), false),
            (format!("[{}0]", r#"{"a":0},"#.repeat(VALUES_MAX / OBJECT_VALUES)), false),
        ] {
            assert_eq!(read(json.as_bytes()).is_ok(), taken, "{} bytes", json.len());
        }
    }

    #[test]
    fn paths_in_the_order_of_the_text() {
        let text = br#"{"b": {"x": [{}, {"z": 1}], "a": 1}, "a": 2, "c"#;
        let mut paths: Vec<Path> = ["a", "b.a", "b.x[1].z", "nowhere"].map(Path::new).into();
        in_order(text, &mut paths);
        assert_eq!(paths.iter().map(Path::as_str).collect::<Vec<_>>(), ["b.x[1].z", "b.a", "a", "nowhere"]);
    }

    #[test]
    fn bad_json_is_refused_as_by_a_plain_reader() {
        let deep = "[".repeat(100_000);
        for json in ["", "{", "{} {}", "{'a':1}", "[1,]", "nope", "\u{feff}{}", &deep] {
            let plain = serde_json::from_str::<Value>(json).unwrap_err().to_string();
            assert_eq!(read(json.as_bytes()).unwrap_err().to_string(), plain);
        }
        assert!(read(b"{\"a\": \"\xff\"}").is_err());
    }
}
