//! PURE. The least that a start must read of an object that claims nothing.

use super::summary::{self, Sketch};
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Durable, Key, Revision};

/// Where a document has none it has no status either.
const STATUS: &[u8] = b"\"status\":";

/// The fields of an object that the store must know if the object claims nothing.
pub struct Outline {
    pub said: Option<Revision>,
    pub durable: Durable,
    pub labels: LabelSet,
}

/// The facts about a text that are known before it is read.
#[derive(Clone, Copy, PartialEq)]
pub enum Trust {
    Nothing,
    /// The store has written it.
    File,
}

/// None: it is not as the store writes the object of this key, or has to be read whole.
pub fn outline(
    compact: &[u8],
    key: &Key,
    (api_version, kind): (&str, &str),
    durable_by_sketch: &dyn Fn(&Key, &Sketch) -> Option<Durable>,
    trust: Trust,
) -> Option<Outline> {
    let is_about = |sketch: &Sketch| sketch.metadata.name == key.name && sketch.metadata.namespace == key.namespace;
    let front = match trust {
        Trust::Nothing => false,
        Trust::File => memchr::memmem::find(compact, STATUS).is_none(),
    };
    let sketch = if front { Sketch::of_front(compact, api_version, kind).filter(is_about) } else { None };
    let whole =
        || Some(compact).filter(|text| summary::leads(text, api_version, kind)).and_then(Sketch::of).filter(is_about);
    let sketch = sketch.or_else(whole)?;
    let durable = durable_by_sketch(key, &sketch)?;
    Some(Outline { said: sketch.revision(), durable, labels: sketch.labels() })
}
