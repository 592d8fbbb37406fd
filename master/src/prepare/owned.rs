//! Updates the owners of the fields of a write: `metadata.managedFields`. PURE.

use super::{Ownership, Part};
use coracle_api::kinds::Kind;
use coracle_api::meta::Time;
use coracle_api::types::MACHINERY;
use coracle_schema::Problem;
use coracle_schema::apply::{self, Fields, Managed, Writer};
use coracle_schema::types::Element;
use serde_json::{Map, Value};

/// What a client said, before the kind's strategy adds to it.
#[derive(Clone)]
pub struct ClientFields {
    /// The client's name, and the client's values in fields that the server sets or removes; None: the write tracks no
    /// owners.
    object: Option<Value>,
    managed: Value,
}

impl ClientFields {
    /// The problems in the field owners that a client sets.
    pub fn problems(&self, part: Part) -> Vec<Problem> {
        let sets = self.object.is_some() && part == Part::Main;
        if sets { Managed::problems(&self.managed) } else { Vec::new() }
    }
}

/// Takes the list of owners out of a document: no strategy has to mind it.
pub fn said(kind: &Kind, object: &mut Value, ownership: &Ownership<'_>) -> ClientFields {
    let meta = object.get_mut("metadata").and_then(Value::as_object_mut);
    let managed = meta.and_then(|meta| meta.remove("managedFields")).unwrap_or_default();
    if !matches!(ownership, Ownership::Written(..)) {
        return ClientFields { object: None, managed };
    }
    let mut asked = Value::Null;
    for path in ["metadata.name"].iter().chain(kind.given).chain(kind.given_unnamed).chain(kind.taken) {
        let steps = steps(path);
        if !is_unsaid(kind, object, &steps) {
            copy(object, &mut asked, &steps);
        }
    }
    ClientFields { object: Some(asked), managed }
}

fn steps<'p>(path: &'p &str) -> Vec<&'p str> {
    path.split(if path.contains('|') { '|' } else { '.' }).collect()
}

/// An empty text says nothing, but where its type tells it from none.
fn is_unsaid(kind: &Kind, object: &Value, path: &[&str]) -> bool {
    let (mut value, mut type_name, mut tells) = (object, &*kind.type_name, true);
    for name in path {
        value = &value[*name];
        let Some(field) = kind.types.get(type_name).and_then(|of| of.field(name)) else { return false };
        tells = field.rules.pointer;
        type_name = if let Element::Named(name) = &field.element { name } else { "" };
    }
    value.as_str() == Some("") && !tells
}

/// Copies the value at a path, and creates missing objects along the path.
fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    match (path, from) {
        ([name, rest @ ..], Value::Object(fields)) if *name != "*" => {
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            if let Some(inside) = fields.get(*name) {
                copy(inside, &mut to[*name], rest);
            }
        }
        _ => *to = from.clone(),
    }
}

/// Writes the owners into what will stand there. Where nothing else has changed, no time moves.
pub fn settle(
    kind: &Kind,
    part: Part,
    old: Option<&Value>,
    new: &mut Value,
    said: ClientFields,
    ownership: Ownership<'_>,
    now: Time,
) {
    let managed = match ownership {
        Ownership::Untold => {
            // As it stood, unread.
            if let Some(owners) = old.and_then(|old| old["metadata"].get("managedFields")) {
                new["metadata"]["managedFields"] = owners.clone();
            }
            return;
        }
        Ownership::Applied(managed) => managed,
        Ownership::Written(manager, shown) => {
            let zero = old.is_none().then(|| apply::zero(&kind.types, &kind.type_name));
            let before = old.or(zero.as_ref()).unwrap_or(&Value::Null);
            let mut counted = new.clone();
            let named = said
                .object
                .as_ref()
                .is_some_and(|said| said["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty()));
            let unnamed: &[&str] = if named { &[] } else { kind.given_unnamed };
            for path in kind.given.iter().chain(unnamed) {
                put_back(&mut counted, said.object.as_ref(), Some(before), &steps(path));
            }
            for path in kind.taken.iter().filter(|_| part == Part::Main) {
                say_again(&mut counted, said.object.as_ref(), &steps(path));
            }
            let managed = match part {
                Part::Main => Managed::sent(&said.managed, before),
                Part::Status | Part::Share(_) | Part::Scale => Managed::of(before),
            };
            match shown.and_then(|shown| Some((shown, shown.alias?))) {
                None => with_writer(kind, part, manager, now, |w| {
                    apply::track(&kind.types, before, &counted, managed, w, old.is_none())
                }),
                Some((shown, alias)) => {
                    let before = match old {
                        Some(old) => in_form(old.clone(), alias.show),
                        None => apply::zero(&shown.types, &shown.type_name),
                    };
                    let counted = in_form(counted, alias.show);
                    with_writer(shown, part, manager, now, |w| {
                        apply::track(&shown.types, &before, &counted, managed, w, old.is_none())
                    })
                }
            }
        }
    };
    let managed = if part == Part::Scale { managed.untimed(part.path()) } else { managed };
    managed.put(new);
    if let Some(old) = old.filter(|old| apply::same_but_times(old, new)) {
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
    }
}

fn in_form(mut object: Value, show: fn(&mut Value)) -> Value {
    show(&mut object);
    object
}

/// Who writes, as the rules of ownership need to know it.
pub fn with_writer<T>(kind: &Kind, part: Part, manager: &str, now: Time, then: impl FnOnce(Writer<'_>) -> T) -> T {
    let (api_version, now, ignored) = (kind.api_version(), now.to_string(), ignored(kind, part));
    then(Writer {
        manager,
        subresource: part.path(),
        api_version: &api_version,
        kind: &kind.kind,
        type_name: &kind.type_name,
        now: &now,
        ignored: &ignored,
        other: kind.other_form,
    })
}

/// The owners of an answer that is stored nowhere: a document of this type, of this part of an object.
pub fn answered(object: &mut Value, (type_name, part): (&str, &str), manager: &str, now: Time) {
    let before = apply::zero(&MACHINERY, type_name);
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind, now) = (text("apiVersion"), text("kind"), now.to_string());
    let ignored = Fields::named(&["status"]);
    let writer = Writer {
        manager,
        subresource: part,
        api_version: &api_version,
        kind: &kind,
        type_name,
        now: &now,
        ignored: &ignored,
        other: None,
    };
    let managed = apply::track(&MACHINERY, &before, object, Managed::default(), writer, true);
    managed.put(object);
}

/// The fields that a writer of this part cannot own: fields that the write leaves unchanged, and fields that have no
/// recorded owner.
fn ignored(kind: &Kind, part: Part) -> Fields {
    match part {
        Part::Share(_) => Fields::default(),
        Part::Main | Part::Scale => {
            let status = kind.subresource("status").map(|_| "status");
            Fields::named(&status.into_iter().chain(kind.unowned.iter().copied()).collect::<Vec<_>>())
        }
        Part::Status => {
            let fields = kind
                .types
                .get(&kind.type_name)
                .map(|row| row.fields.iter().map(|field| &*field.name))
                .into_iter()
                .flatten();
            let asked: Vec<&str> = fields.filter(|name| !matches!(*name, "status" | "metadata")).collect();
            let kept: Vec<String> = kind.status_keeps.iter().map(|field| format!("metadata.{field}")).collect();
            Fields::named(&asked).union(&Fields::named(&kept.iter().map(String::as_str).collect::<Vec<_>>()))
        }
    }
}

/// What the server gave and the client did not ask for is counted as it was before. A star is every entry of a list.
fn put_back(counted: &mut Value, said: Option<&Value>, before: Option<&Value>, path: &[&str]) {
    match path {
        [] => {}
        ["*", rest @ ..] => {
            for (at, entry) in counted.as_array_mut().into_iter().flatten().enumerate() {
                put_back(entry, said.and_then(|said| said.get(at)), None, rest);
            }
        }
        [name] => {
            let unsaid = said.and_then(|said| said.get(name)).is_none_or(Value::is_null);
            let emptied = said.and_then(|said| said.get(name)).and_then(Value::as_array).is_some_and(Vec::is_empty);
            let Some(fields) = counted.as_object_mut().filter(|_| unsaid || emptied) else { return };
            match before.filter(|_| unsaid).and_then(|before| before.get(name)) {
                Some(value) => drop(fields.insert((*name).to_owned(), value.clone())),
                None => drop(fields.remove(*name)),
            }
        }
        [name, rest @ ..] => {
            let (said, before) = (said.and_then(|said| said.get(name)), before.and_then(|before| before.get(name)));
            let Some(inside) = counted.get_mut(name) else { return };
            put_back(inside, said, before, rest);
            // A map that was made for what was given goes with it.
            let emptied =
                inside.as_object().is_some_and(Map::is_empty) && said.is_none_or(Value::is_null) && before.is_none();
            if let Some(fields) = counted.as_object_mut().filter(|_| emptied) {
                fields.remove(*name);
            }
        }
    }
}

/// What the client said and the server took out is counted as it was said.
fn say_again(counted: &mut Value, said: Option<&Value>, path: &[&str]) {
    let [name, rest @ ..] = path else { return };
    let Some(said) = said.and_then(|said| said.get(name)).filter(|said| !said.is_null()) else { return };
    match counted.get_mut(name) {
        Some(inside) if !rest.is_empty() => say_again(inside, Some(said), rest),
        Some(Value::Null) | None if rest.is_empty() => counted[*name] = said.clone(),
        _ => {}
    }
}
