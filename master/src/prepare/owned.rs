//! Who owns the fields of a write: `metadata.managedFields`. PURE.

use super::{Ownership, Part, TYPES};
use coracle_api::kinds::Kind;
use coracle_api::meta::Time;
use coracle_schema::apply::{self, Fields, Managed, Writer};
use serde_json::Value;

/// What a client said, before the kind's strategy adds to it.
pub struct Said {
    /// None where nobody asks.
    object: Option<Value>,
    managed: Value,
}

/// Takes the list of owners out of a document: no strategy has to mind it.
pub fn said(object: &mut Value, ownership: &Ownership<'_>) -> Said {
    let meta = object.get_mut("metadata").and_then(Value::as_object_mut);
    let managed = meta.and_then(|meta| meta.remove("managedFields")).unwrap_or_default();
    Said { object: matches!(ownership, Ownership::Written(_)).then(|| object.clone()), managed }
}

/// Writes the owners into what will stand there. Where nothing else has changed, no time moves.
pub fn settle(kind: &Kind, part: Part, old: Option<&Value>, new: &mut Value, said: Said, ownership: Ownership<'_>, now: Time) {
    let managed = match ownership {
        Ownership::Untold => {
            // As it stood, unread.
            if let Some(owners) = old.and_then(|old| old["metadata"].get("managedFields")) {
                new["metadata"]["managedFields"] = owners.clone();
            }
            return;
        }
        Ownership::Applied(managed) => managed,
        Ownership::Written(manager) => {
            let zero = old.is_none().then(|| apply::zero(&TYPES, &kind.type_name));
            let before = old.or(zero.as_ref()).unwrap_or(&Value::Null);
            let mut counted = new.clone();
            for path in kind.given.iter() {
                let path: Vec<&str> = path.split('.').collect();
                put_back(&mut counted, said.object.as_ref(), Some(before), &path);
            }
            let managed = match part {
                Part::Main => Managed::sent(&said.managed, before),
                Part::Status => Managed::of(before),
            };
            with_writer(kind, part, manager, now, |writer| apply::track(&TYPES, before, &counted, managed, writer, old.is_none()))
        }
    };
    managed.put(new);
    if let Some(old) = old.filter(|old| apply::same_but_times(old, new)) {
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
    }
}

/// Who writes, as the rules of ownership need to know it.
pub fn with_writer<T>(kind: &Kind, part: Part, manager: &str, now: Time, then: impl FnOnce(Writer<'_>) -> T) -> T {
    let (api_version, now, ignored) = (kind.api_version(), now.to_string(), ignored(kind, part));
    then(Writer {
        manager,
        subresource: if part == Part::Status { "status" } else { "" },
        api_version: &api_version,
        kind: &kind.kind,
        type_name: &kind.type_name,
        now: &now,
        ignored: &ignored,
    })
}

/// What a write of this part leaves as it was.
fn ignored(kind: &Kind, part: Part) -> Fields {
    match part {
        Part::Main if kind.subresource("status").is_some() => Fields::named(&["status"]),
        Part::Main => Fields::default(),
        Part::Status => {
            let fields = TYPES.get(&kind.type_name).map(|row| row.fields.iter().map(|field| &*field.name)).into_iter().flatten();
            Fields::named(&fields.filter(|name| *name != "status").collect::<Vec<_>>())
        }
    }
}

/// What the server gave and the client did not ask for is counted as it was before. A star is every entry of a list.
fn put_back(counted: &mut Value, said: Option<&Value>, before: Option<&Value>, path: &[&str]) {
    match path {
        [] => {}
        ["*", rest @ ..] => {
            for (at, entry) in counted.as_array_mut().into_iter().flatten().enumerate() {
                put_back(entry, said.and_then(|said| said.get(at)), before.and_then(|before| before.get(at)), rest);
            }
        }
        [name] => {
            let unsaid = said.and_then(|said| said.get(name)).is_none_or(Value::is_null);
            let Some(fields) = counted.as_object_mut().filter(|_| unsaid) else { return };
            match before.and_then(|before| before.get(name)) {
                Some(value) => drop(fields.insert((*name).to_owned(), value.clone())),
                None => drop(fields.remove(*name)),
            }
        }
        [name, rest @ ..] => {
            if let Some(inside) = counted.get_mut(name) {
                put_back(inside, said.and_then(|said| said.get(name)), before.and_then(|before| before.get(name)), rest);
            }
        }
    }
}
