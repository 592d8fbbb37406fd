//! The writer of a document, and the versions in which documents are written.

use super::fields::Fields;
use super::managed::Owner;
use serde_json::Value;

/// The manager, kind, time and subresource of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// Empty: the object itself.
    pub subresource: &'a str,
    /// `apps/v1`
    pub api_version: &'a str,
    pub kind: &'a str,
    /// The name of its type.
    pub type_name: &'a str,
    /// RFC 3339.
    pub now: &'a str,
    /// Fields that this path does not write, whatever is said.
    pub ignored: &'a Fields,
    /// A second API version of these documents: a manager that wrote in the second version owns fields in its form.
    pub other: Option<Form<'a>>,
}

/// A second API version of a writer's documents.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    pub api_version: &'a str,
    pub type_name: &'a str,
    /// Converts a document from the writer's version to this version, `apiVersion` included.
    pub convert: fn(&mut Value),
    /// Converts a document from this version to the writer's version.
    pub back: fn(&mut Value),
}

impl Form<'_> {
    pub(super) fn tell(&self, document: &Value) -> Value {
        formed(document, self.convert)
    }

    pub(super) fn tell_back(&self, document: &Value) -> Value {
        formed(document, self.back)
    }
}

/// A field that is removed from a document may stand in it as a null, which no version passes on to another.
fn formed(document: &Value, form: fn(&mut Value)) -> Value {
    let mut document = without_nulls(document);
    form(&mut document);
    document
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let said = map.iter().filter(|(_, value)| !value.is_null());
            said.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

impl<'a> Writer<'a> {
    /// The same writer, as if it wrote in its other version.
    pub(super) fn turned(self, form: Form<'a>) -> Writer<'a> {
        let back =
            Form { api_version: self.api_version, type_name: self.type_name, convert: form.back, back: form.convert };
        Writer { api_version: form.api_version, type_name: form.type_name, other: Some(back), ..self }
    }

    /// The second version, if the owner wrote in the second version.
    pub(super) fn other_of(&self, owner: &Owner) -> Option<Form<'a>> {
        self.other.filter(|form| form.api_version == owner.api_version)
    }
}
