//! A document that is only read: its texts stand where they stood in the JSON, and its fields in a row. A tree of
//! values that own what they hold costs several times as much to make, and a table of a thousand rows is made of a
//! thousand documents.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

/// Skipped, because no cell shows field managers, and `managedFields` is half of many objects.
const UNREAD: &str = "managedFields";

/// A part of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reading<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Reading<'a>>),
    /// Entries in the order of the document.
    Map(Vec<(Cow<'a, str>, Reading<'a>)>),
}

/// A whole document.
#[derive(Debug)]
pub struct Document<'a> {
    pub reading: Reading<'a>,
    /// As it stands in the text; `null` where there is none.
    pub metadata: &'a str,
}

impl<'a> Document<'a> {
    pub fn read(json: &'a str) -> serde_json::Result<Document<'a>> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let document = reader.deserialize_map(Whole)?;
        reader.end()?;
        Ok(document)
    }
}

impl Reading<'_> {
    pub fn is_null(&self) -> bool {
        matches!(self, Reading::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Reading::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Reading::Bool(yes) = self { Some(*yes) } else { None }
    }

    pub fn as_i64(&self) -> Option<i64> {
        if let Reading::Number(number) = self { number.as_i64() } else { None }
    }
}

impl<'a> Reading<'a> {
    pub fn list(&self) -> &[Reading<'a>] {
        if let Reading::List(list) = self { list } else { &[] }
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, &Reading<'a>)> {
        let entries = if let Reading::Map(entries) = self { entries.as_slice() } else { &[] };
        entries.iter().map(|(name, value)| (&**name, value))
    }
}

static MISSING: Reading<'static> = Reading::Null;

impl<'a> Index<&str> for Reading<'a> {
    type Output = Reading<'a>;

    /// Nothing, where there is no such field.
    fn index(&self, name: &str) -> &Reading<'a> {
        self.entries().find(|(known, _)| *known == name).map_or(&MISSING, |(_, value)| value)
    }
}

impl<'a> Index<usize> for Reading<'a> {
    type Output = Reading<'a>;

    fn index(&self, at: usize) -> &Reading<'a> {
        self.list().get(at).unwrap_or(&MISSING)
    }
}

impl PartialEq<str> for Reading<'_> {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Reading<'_> {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == Some(text)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Document<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document<'de>, A::Error> {
        let (mut fields, mut metadata) = (Vec::new(), "null");
        while let Some(Name(name)) = map.next_key()? {
            let value = if name == "metadata" {
                metadata = map.next_value::<&RawValue>()?.get();
                let reader = &mut serde_json::Deserializer::from_str(metadata);
                Reader { without: UNREAD }.deserialize(reader).map_err(Error::custom)?
            } else {
                map.next_value()?
            };
            fields.push((name, value));
        }
        Ok(Document { reading: Reading::Map(fields), metadata })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Reading<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reading<'a>, D::Error> {
        Reader { without: "" }.deserialize(deserializer)
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads all but one field.
struct Reader {
    without: &'static str,
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Reading<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Reading<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Reading<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Reading<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            if name == self.without {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.push((name, map.next_value()?));
            }
        }
        Ok(Reading::Map(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Reading<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Reading::List(entries))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Reading<'de>, E> {
        Ok(Reading::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Reading<'de>, E> {
        Ok(Reading::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Reading<'de>, E> {
        Ok(Reading::Bool(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Reading<'de>, E> {
        Ok(Reading::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Reading<'de>, E> {
        Ok(Reading::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Reading<'de>, E> {
        Ok(Number::from_f64(number).map_or(Reading::Null, Reading::Number))
    }

    fn visit_unit<E>(self) -> Result<Reading<'de>, E> {
        Ok(Reading::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read() {
        let text = r#"{"kind":"Pod","metadata":{"labels":{"managedFields":"1"},"managedFields":[{"f:a":{}}],"name":"a\"b"},"spec":{"n":[1,-2.5,true,null,{}]}}"#;
        let Document { reading, metadata } = Document::read(text).expect("JSON");
        assert_eq!(metadata, r#"{"labels":{"managedFields":"1"},"managedFields":[{"f:a":{}}],"name":"a\"b"}"#);
        let meta = &reading["metadata"];
        assert_eq!((meta["name"].as_str(), meta["managedFields"].is_null()), (Some("a\"b"), true));
        assert_eq!(
            meta["labels"].entries().map(|(name, value)| (name, value.as_str())).collect::<Vec<_>>(),
            [("managedFields", Some("1"))]
        );
        let numbers = &reading["spec"]["n"];
        assert_eq!((numbers[0].as_i64(), numbers[1].as_i64(), numbers[2].as_bool()), (Some(1), None, Some(true)));
        assert_eq!(
            (numbers.list().len(), numbers[3].is_null(), numbers[9].is_null(), numbers["x"].is_null()),
            (5, true, true, true)
        );
        assert!(reading["kind"] == "Pod" && reading["spec"] != "Pod");
        assert_eq!(Document::read(r#"{"kind":"X"}"#).expect("JSON").metadata, "null");
    }
}
