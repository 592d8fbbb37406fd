//! PURE. Reads the fields of an object that the store needs straight from its JSON: a start reads ten thousand.

use coracle_api::labels::LabelSet;
use coracle_api::meta::Revision;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Deserialize)]
pub struct Sketch<'a> {
    #[serde(borrow, rename = "apiVersion")]
    pub api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
    pub status: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub struct Metadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// Where it stands in the text: digits are never escaped.
    #[serde(borrow, rename = "resourceVersion")]
    resource_version: Option<&'a str>,
    #[serde(borrow, default)]
    pub labels: Texts<'a>,
    #[serde(borrow, default)]
    pub annotations: Texts<'a>,
}

/// A map of texts, in its order.
#[derive(Debug, Default)]
pub struct Texts<'a>(Vec<(Text<'a>, Text<'a>)>);

#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Sketch<'a> {
    /// None: it is not JSON, or something in it is not as the store writes it.
    pub fn of(text: &'a [u8]) -> Option<Sketch<'a>> {
        serde_json::from_str(std::str::from_utf8(text).ok()?).ok()
    }

    /// The summary of a text that the store wrote itself: the part behind its metadata is not read, and no status is
    /// seen.
    pub fn of_front(text: &'a [u8], api_version: &'a str, kind: &'a str) -> Option<Sketch<'a>> {
        let text = std::str::from_utf8(text).ok().filter(|text| leads(text.as_bytes(), api_version, kind))?;
        let mut metadata = None;
        // The reader stops behind the metadata, seldom at the end of the text.
        Front(&mut metadata).deserialize(&mut serde_json::Deserializer::from_str(text)).ok();
        Some(Sketch { api_version: api_version.into(), kind: kind.into(), metadata: metadata?, status: None })
    }

    pub fn revision(&self) -> Option<Revision> {
        self.metadata.resource_version?.parse().ok().map(Revision)
    }

    pub fn labels(&self) -> LabelSet {
        self.metadata.labels.iter().collect()
    }

    /// The text with another revision inside. None: it has none that could be replaced.
    pub fn with_revision(&self, text: &'a [u8], revision: Revision) -> Option<Vec<u8>> {
        let old = self.metadata.resource_version?;
        let from = (old.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let new = revision.to_string();
        // Exactly as much as it takes: thousands of these stay.
        let mut out = Vec::with_capacity(text.len() - old.len() + new.len());
        out.extend_from_slice(text.get(..from)?);
        out.extend_from_slice(new.as_bytes());
        out.extend_from_slice(text.get(from + old.len()..)?);
        Some(out)
    }
}

/// Whether a text begins as the store writes an object of this kind.
pub fn leads(text: &[u8], api_version: &str, kind: &str) -> bool {
    text.starts_with(format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",").as_bytes())
}

/// The apiVersion and kind with which a text begins, as the store writes it.
pub fn leading(text: &[u8]) -> Option<(&str, &str)> {
    // Words of Kubernetes: nothing in them is escaped.
    let word = |text: &'_ [u8]| memchr::memchr2(b'"', b'\\', text).filter(|end| text[*end] == b'"');
    let text = text.strip_prefix(b"{\"apiVersion\":\"")?;
    let (api_version, rest) = text.split_at(word(text)?);
    let rest = rest.strip_prefix(b"\",\"kind\":\"")?;
    let (kind, rest) = rest.split_at(word(rest)?);
    rest.starts_with(b"\",").then_some(())?;
    Some((std::str::from_utf8(api_version).ok()?, std::str::from_utf8(kind).ok()?))
}

/// Reads an object up to its metadata.
struct Front<'s, 'a>(&'s mut Option<Metadata<'a>>);

impl<'de> DeserializeSeed<'de> for Front<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Front<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == "metadata" {
                *self.0 = Some(map.next_value()?);
                break;
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl Texts<'_> {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.0.as_ref(), value.0.as_ref()))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Texts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts<'a>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Texts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts<'de>, A::Error> {
                let mut texts = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    texts.push(pair);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_must_know() {
        let text = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"\u00fc"},"labels":{"x":"y"},"name":"web","namespace":"ns","resourceVersion":"17"},"spec":{"deep":[1,{"status":2}]}}"#;
        let sketch = Sketch::of(text).expect("one of ours");
        assert_eq!(
            (sketch.api_version.as_ref(), sketch.kind.as_ref(), sketch.revision()),
            ("v1", "Pod", Some(Revision(17)))
        );
        assert_eq!((sketch.metadata.annotations.get("a"), sketch.labels().get("x")), (Some("ü"), Some("y")));
        assert!(sketch.status.is_none());
        let front = Sketch::of_front(text, "v1", "Pod").expect("one of ours");
        assert_eq!(
            (front.metadata.name.as_ref(), front.revision(), front.labels()),
            ("web", sketch.revision(), sketch.labels())
        );
        assert!(Sketch::of_front(text, "v1", "Node").is_none());
        let event =
            br#"{"apiVersion":"v1","kind":"Event","involvedObject":{"metadata":{"name":"p"}},"metadata":{"name":"e"},"reason":"r"}"#;
        assert_eq!(Sketch::of_front(event, "v1", "Event").expect("one of ours").metadata.name, "e");
        assert!(Sketch::of_front(br#"{"apiVersion":"v1","kind":"Event","reason":"r"}"#, "v1", "Event").is_none());
        let other = sketch.with_revision(text, Revision(1_000)).expect("it has one");
        assert_eq!(String::from_utf8_lossy(&other), String::from_utf8_lossy(text).replace("\"17\"", "\"1000\""));
    }

    #[test]
    fn what_is_not_as_the_store_writes_it_is_left_to_others() {
        for text in [
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":1}}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}"#,
            "[]",
        ] {
            assert!(Sketch::of(text.as_bytes()).is_none(), "{text}");
        }
        assert!(
            Sketch::of(b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"}")
                .is_none()
        );
    }
}
