//! The language in which each kind says what an older version can express and where that stands in v1.
//!
//! A `Shape` lists the fields of an object in the older version; each field names a place in the v1 object and the form
//! of the value. The same list reads a document (to v1), shows one (from v1), merges a PUT onto what is stored
//! (`merge.rs`) and names a v1 field in the version's words. A form that no list can express is an `Own`: three
//! functions.

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use super::amount::{read_amounts, show_amounts};
use super::place::{get, is_empty, put};
use super::reading::{Object, OldReading, brief};
use super::scalar::{port_or_name, revision, text, text_map, texts, whole};

/// An object in an older version. The fields stand in groups, because all kinds share the fields of the metadata.
pub(super) struct Shape(pub &'static [&'static [Field]]);

pub(super) struct Field {
    /// As the version shows it.
    pub name: &'static str,
    /// Other spellings, read when `name` is absent.
    pub also: &'static [&'static str],
    /// v1beta1 shows the other spellings too: clients of different years look for different ones.
    pub twins: bool,
    /// The place in the v1 object. Empty: the field's parts stand in the same object.
    pub at: &'static [&'static str],
    pub form: Form,
    pub blank: Blank,
    pub role: Role,
    /// A value that does not fit is dropped, not refused: the server does not act on a client's observations.
    pub lax: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Form {
    /// "" is unset. Numbers and booleans are taken as their text, as the YAML decoder of 2014 did.
    Text,
    /// As `Text`, in upper case.
    Upper,
    Flag,
    /// A whole number; 0 is unset.
    Number,
    /// A whole number; 0 is a value.
    Count,
    PortOrName,
    /// A number here, decimal text in v1; 0 is unset.
    Revision,
    /// A list of strings; a lone scalar is read as a list with a single entry.
    Texts,
    TextMap,
    /// Word by word (v1beta1, v1). Either is read in any case; an unknown word passes, for v1's validation to refuse.
    Word(&'static [(&'static str, &'static str)]),
    /// Leaves no trace when empty.
    Object(&'static Shape),
    /// Means something when empty: `emptyDir: {}`.
    Present(&'static Shape),
    /// Entries are matched by these v1 fields.
    List(&'static Shape, &'static [&'static str]),
    /// Amounts by name: cores and bytes as numbers here, quantities in v1.
    Amounts,
    /// Any value that v1 has at this place; the schema of v1 checks the value.
    Plain,
    /// Shown and never read.
    Said(fn(&Object) -> Option<Value>),
    /// Read and dropped without a warning: v1 has no such field, and no client needs the field.
    Ignored,
    Own(&'static Own),
}

/// The value that is shown when there is none.
#[derive(Clone, Copy)]
pub(super) enum Blank {
    Absent,
    Null,
    Text(&'static str),
    Zero,
    Map,
    False,
}

/// The side that counts in a PUT.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// The client's: absent is unset.
    Asked,
    /// Given by the server at creation: absent is as stored.
    Given,
    /// Not the business of a PUT at all.
    Observed,
}

/// Conversions that no list can express. `read` takes from the v1beta1 object into the v1 object, `show` the other way
/// round.
pub(super) struct Own {
    pub read: fn(&Object, &mut Object, &Path, &mut OldReading),
    pub show: fn(&Object, &mut Object),
    /// The places in v1 that these functions read and write.
    pub governs: &'static [&'static [&'static str]],
    /// The same as plain fields, to tell a v1 path in v1beta1's words.
    pub words: &'static [Field],
    /// How a PUT changes them: (stored, new). None: replaced unless both look the same.
    pub merge: Option<fn(&mut Object, &Object)>,
}

pub(super) const fn field(name: &'static str, at: &'static [&'static str], form: Form) -> Field {
    Field { name, also: &[], twins: false, at, form, blank: Blank::Absent, role: Role::Asked, lax: false }
}

/// Fields that are called as they are in v1: `same! { "server": Form::Text }`.
macro_rules! same {
    ($($name:literal: $form:expr),* $(,)?) => {
        &[$($crate::old::shape::field($name, &[$name], $form)),*]
    };
}
pub(super) use same;

pub(super) const fn own(name: &'static str, also: &'static [&'static str], own: &'static Own) -> Field {
    field(name, &[], Form::Own(own)).also(also)
}

pub(super) const fn said(name: &'static str, say: fn(&Object) -> Option<Value>) -> Field {
    field(name, &[], Form::Said(say))
}

pub(super) const fn ignored(name: &'static str) -> Field {
    field(name, &[], Form::Ignored)
}

impl Field {
    pub const fn also(mut self, also: &'static [&'static str]) -> Field {
        self.also = also;
        self
    }

    pub const fn twins(mut self, also: &'static [&'static str]) -> Field {
        self.also = also;
        self.twins = true;
        self
    }

    pub const fn blank(mut self, blank: Blank) -> Field {
        self.blank = blank;
        self
    }

    pub const fn given(mut self) -> Field {
        self.role = Role::Given;
        self
    }

    pub const fn observed(mut self) -> Field {
        self.role = Role::Observed;
        self
    }

    pub const fn lax(mut self) -> Field {
        self.lax = true;
        self
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.contains(&name)
    }

    /// The value under any spelling; null is absent, and two spellings that differ are a problem.
    fn find<'v>(&self, from: &'v Object, path: &Path, seen: &mut OldReading) -> Option<(&'static str, &'v Value)> {
        let mut found: Option<(&'static str, &'v Value)> = None;
        for name in std::iter::once(&self.name).chain(self.also) {
            let Some(value) = from.get(*name).filter(|value| !value.is_null()) else { continue };
            match found {
                None => found = Some((name, value)),
                Some((first, said)) if said != value && said != "" && value != "" => {
                    let detail = format!("differs from {first}: both are the same field, give one");
                    seen.problem(Problem::invalid(&path.field(name), brief(value), detail));
                }
                // Go shows an unset string as "".
                Some((_, said)) if said == "" => found = Some((name, value)),
                Some(_) => {}
            }
        }
        found
    }

    fn read(&self, from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
        if let Form::Own(own) = self.form {
            return (own.read)(from, into, path, seen);
        }
        if matches!(self.form, Form::Said(_) | Form::Ignored) {
            return;
        }
        let Some((name, value)) = self.find(from, path, seen) else { return };
        let path = path.field(name);
        if let (Form::Object(shape), []) = (self.form, self.at) {
            match value {
                Value::Object(from) => shape.read(from, into, &path, seen),
                other => seen.mistyped(&path, other, "must be a map"),
            }
            return;
        }
        if let Some(value) = self.form.read(value, &path, seen) {
            put(into, self.at, value);
        }
    }

    pub fn show(&self, v1: &Object, out: &mut Object) {
        let value = match self.form {
            Form::Own(own) => return (own.show)(v1, out),
            Form::Ignored => return,
            Form::Said(say) => say(v1),
            Form::Object(shape) if self.at.is_empty() => Some(Value::Object(shape.show(v1))),
            form => get(v1, self.at).and_then(|value| form.show(value)),
        };
        let Some(value) = value.or_else(|| self.blank.value()) else { return };
        if self.twins {
            for name in self.also {
                out.insert((*name).to_owned(), value.clone());
            }
        }
        out.insert(self.name.to_owned(), value);
    }
}

impl Blank {
    pub fn value(self) -> Option<Value> {
        match self {
            Blank::Absent => None,
            Blank::Null => Some(Value::Null),
            Blank::Text(text) => Some(json!(text)),
            Blank::Zero => Some(json!(0)),
            Blank::Map => Some(json!({})),
            Blank::False => Some(json!(false)),
        }
    }
}

impl Form {
    /// A v1beta1 value as v1 says it. None: unset, or a problem was noted.
    pub fn read(self, value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
        match self {
            Form::Text => text(value, path, seen).filter(|text| !text.is_empty()).map(Value::String),
            Form::Upper => {
                text(value, path, seen).filter(|text| !text.is_empty()).map(|text| json!(text.to_ascii_uppercase()))
            }
            Form::Word(words) => text(value, path, seen).filter(|text| !text.is_empty()).map(|text| {
                let known =
                    words.iter().find(|(old, new)| old.eq_ignore_ascii_case(&text) || new.eq_ignore_ascii_case(&text));
                json!(known.map_or(text.as_str(), |(_, new)| new))
            }),
            Form::Flag => match value {
                Value::Bool(_) => Some(value.clone()),
                other => {
                    seen.mistyped(path, other, "must be true or false");
                    None
                }
            },
            Form::Number => whole(value, path, seen).filter(|number| *number != 0).map(|number| json!(number)),
            Form::Count => whole(value, path, seen).map(|number| json!(number)),
            Form::PortOrName => port_or_name(value, path, seen),
            Form::Revision => revision(value, path, seen),
            Form::Texts => texts(value, path, seen),
            Form::TextMap => text_map(value, path, seen),
            Form::Object(shape) => {
                read_object(shape, value, path, seen).filter(|object| !object.is_empty()).map(Value::Object)
            }
            Form::Present(shape) => read_object(shape, value, path, seen).map(Value::Object),
            Form::List(shape, _) => read_list(shape, value, path, seen),
            Form::Amounts => read_amounts(value, path, seen),
            Form::Plain => Some(value.clone()).filter(|value| !is_empty(value)),
            Form::Said(_) | Form::Ignored | Form::Own(_) => None,
        }
    }

    /// A v1 value as v1beta1 says it. None: nothing to show.
    pub fn show(self, value: &Value) -> Option<Value> {
        let shown = match self {
            Form::Word(words) => match value.as_str() {
                Some(text) => json!(words.iter().find(|(_, new)| *new == text).map_or(text, |(old, _)| old)),
                None => return None,
            },
            Form::Revision => json!(value.as_str()?.parse::<u64>().ok()?),
            Form::Object(shape) => Value::Object(shape.show(value.as_object()?)),
            Form::Present(shape) => return Some(Value::Object(shape.show(value.as_object()?))),
            Form::List(shape, _) => value
                .as_array()?
                .iter()
                .filter_map(Value::as_object)
                .map(|entry| Value::Object(shape.show(entry)))
                .collect(),
            Form::Amounts => show_amounts(value)?,
            Form::Said(_) | Form::Ignored | Form::Own(_) => return None,
            Form::Count | Form::Flag => value.clone(),
            Form::Number => return (value.as_i64() != Some(0)).then(|| value.clone()).filter(|value| !value.is_null()),
            Form::Text | Form::Upper | Form::PortOrName | Form::Texts | Form::TextMap | Form::Plain => value.clone(),
        };
        (!is_empty(&shown)).then_some(shown)
    }
}

impl Shape {
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.0.iter().flat_map(|group| group.iter())
    }

    pub fn read(&self, from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
        for field in self.fields() {
            if field.lax {
                let mut apart = OldReading::default();
                field.read(from, into, path, &mut apart);
            } else {
                field.read(from, into, path, seen);
            }
        }
        for name in from.keys().filter(|name| !self.fields().any(|field| field.is_called(name))) {
            seen.unknown(path.field(name));
        }
    }

    /// Takes the second spellings out of what was shown.
    pub fn drop_twins(&self, shown: &mut Object) {
        for field in self.fields() {
            if field.twins {
                field.also.iter().for_each(|name| drop(shown.remove(*name)));
            }
            match (field.form, shown.get_mut(field.name)) {
                (Form::Object(shape) | Form::Present(shape), Some(Value::Object(inner))) => shape.drop_twins(inner),
                (Form::List(shape, _), Some(Value::Array(list))) => {
                    list.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| shape.drop_twins(entry))
                }
                _ => {}
            }
        }
    }

    pub fn show(&self, v1: &Object) -> Object {
        let mut out = Object::new();
        for field in self.fields() {
            field.show(v1, &mut out);
        }
        out
    }
}

fn read_object(shape: &Shape, value: &Value, path: &Path, seen: &mut OldReading) -> Option<Object> {
    let Value::Object(from) = value else {
        seen.mistyped(path, value, "must be a map");
        return None;
    };
    let mut into = Object::new();
    shape.read(from, &mut into, path, seen);
    Some(into)
}

fn read_list(shape: &Shape, value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    let Value::Array(from) = value else {
        seen.mistyped(path, value, "must be a list");
        return None;
    };
    let list: Vec<Value> = from
        .iter()
        .enumerate()
        .filter_map(|(at, value)| read_object(shape, value, &path.index(at), seen))
        .map(Value::Object)
        .collect();
    (!list.is_empty()).then_some(Value::Array(list))
}
