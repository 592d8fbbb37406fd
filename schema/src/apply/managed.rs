//! `metadata.managedFields`: the managers of each field, and how a write changes the managers.
//!
//!     any write   what it adds or changes becomes the writer's and nobody else's; what it takes away is nobody's
//!
//! Nobody owns what every object has (its name, uid, times), nor what a path cannot change (`ignored`). Times move only
//! when something is moved. A plain write does not start tracking an object that has no managedFields: the first apply
//! does that, for `before-first-apply`.

use super::compare;
use super::fields::Fields;
use super::manager::manager_problems;
use super::writer::Writer;
use crate::types::Types;
use crate::{Path, Problem, Reason};
use serde_json::{Map, Value, json};
use std::mem::take;
use std::sync::LazyLock;

/// Plain writers of one object; the oldest are put together as one.
pub const UPDATERS_MAX: usize = 10;
/// The manager of such fields.
const ANCIENT: &str = "ancient-changes";
/// Longest name of a subresource in a list that a client sets.
const SUBRESOURCE_BYTES_MAX: usize = 256;
/// The fields that every object has and nobody owns.
pub(super) static NOBODYS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::named(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// The sets of all who write an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managed {
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// None: the apply changed no value, the write went to `scale`, or a client set the entry without a time.
    pub(super) time: Option<String>,
    pub(super) fields: Fields,
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub manager: String,
    pub applies: bool,
    /// No part of an applier's identity: an applier has one entry, with the version of the last apply.
    pub api_version: String,
    pub subresource: String,
}

impl Owner {
    pub(super) fn of(writer: Writer<'_>, applies: bool) -> Owner {
        let manager = if writer.manager.is_empty() { "unknown" } else { writer.manager };
        Owner {
            manager: manager.to_owned(),
            applies,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
        }
    }

    pub(super) fn is(&self, other: &Owner) -> bool {
        let version = self.applies || self.api_version == other.api_version;
        version
            && self.manager == other.manager
            && self.applies == other.applies
            && self.subresource == other.subresource
    }

    /// `"scaler" with subresource "scale" using apps/v1`
    pub fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applies {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

impl Managed {
    /// None: `list` is not a valid list of entries.
    pub fn read(list: &Value) -> Option<Managed> {
        let entries = list.as_array()?.iter().map(entry).collect::<Option<Vec<Entry>>>()?;
        Some(Managed { entries })
    }

    /// The owners in an object.
    pub fn of(object: &Value) -> Managed {
        Managed::read(&object["metadata"]["managedFields"]).unwrap_or_default()
    }

    /// The owners that a write leaves before it is counted itself: a client may set the list; an empty one, or one with
    /// an empty entry, takes all away; nonsense, and nothing, leaves it.
    pub fn sent(sent: &Value, standing: &Value) -> Managed {
        match sent.as_array().map(Vec::as_slice) {
            Some([]) => Managed::default(),
            Some([only]) if only.as_object().is_some_and(Map::is_empty) => Managed::default(),
            Some(_) => Managed::read(sent).unwrap_or_else(|| Managed::of(standing)),
            None => Managed::of(standing),
        }
    }

    /// The problems of the names in a client's `metadata.managedFields`. Nonsense is no list and changes nothing.
    pub fn problems(sent: &Value) -> Vec<Problem> {
        let entries = Managed::read(sent).unwrap_or_default().entries;
        let of_entry = |(at, Entry { owner, .. }): (usize, &Entry)| {
            let path = Path::new("metadata.managedFields").index(at);
            let mut found = manager_problems(&path.field("manager"), &owner.manager);
            if owner.subresource.len() > SUBRESOURCE_BYTES_MAX {
                let words = format!("may not be more than {SUBRESOURCE_BYTES_MAX} bytes");
                found.push(Problem::new(&path.field("subresource"), Reason::TooLong, None, words));
            }
            found
        };
        entries.iter().enumerate().flat_map(of_entry).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The owners of `here` become owners of `there`, the same field in a document of a different type (`Scale`). Each
    /// new entry holds `there` alone.
    pub fn through(&self, here: &Fields, there: &Fields, api_version: &str) -> Managed {
        let owns = |entry: &&Entry| !entry.fields.intersection(here).is_empty();
        let turned = |entry: &Entry| {
            let owner = Owner { api_version: api_version.to_owned(), ..entry.owner.clone() };
            Entry { owner, time: entry.time.clone(), fields: there.clone() }
        };
        Managed { entries: self.entries.iter().filter(owns).map(turned).collect() }
    }

    /// The reverse of `through`: the managers with fields in `there` become the only owners of `here`.
    pub fn back(&self, there: &Managed, here: &Fields, api_version: &str) -> Managed {
        let same = |one: &Owner, other: &Owner| {
            one.manager == other.manager && one.applies == other.applies && one.subresource == other.subresource
        };
        let mut found: Vec<&Entry> = there.entries.iter().filter(|entry| !entry.fields.is_empty()).collect();
        let mut managed = self.clone();
        for entry in managed.entries.iter_mut().filter(|entry| !entry.fields.intersection(here).is_empty()) {
            let before = found.len();
            found.retain(|other| !same(&other.owner, &entry.owner));
            if found.len() == before {
                entry.fields = take(&mut entry.fields).difference(here);
            }
        }
        let turned = |entry: &Entry| {
            let owner = Owner { api_version: api_version.to_owned(), ..entry.owner.clone() };
            Entry { owner, time: entry.time.clone(), fields: here.clone() }
        };
        managed.entries.extend(found.into_iter().map(turned));
        managed.without_empty()
    }

    /// Without the times of what was written through this path: Kubernetes keeps none of a scale.
    pub fn untimed(mut self, subresource: &str) -> Managed {
        for entry in
            self.entries.iter_mut().filter(|entry| entry.owner.subresource == subresource && !entry.owner.applies)
        {
            entry.time = None;
        }
        self
    }

    /// In Kubernetes' order: appliers first, then by time.
    pub fn to_value(&self) -> Value {
        let mut entries: Vec<&Entry> = self.entries.iter().filter(|entry| !entry.fields.is_empty()).collect();
        entries.sort_by(|a, b| {
            let key = |entry: &Entry| (!entry.owner.applies, entry.time.clone(), entry.owner.manager.clone());
            let rest = |entry: &Entry| (entry.owner.api_version.clone(), entry.owner.subresource.clone());
            key(a).cmp(&key(b)).then_with(|| rest(a).cmp(&rest(b)))
        });
        entries.into_iter().map(Entry::to_value).collect()
    }

    /// Writes it into an object.
    pub fn put(&self, object: &mut Value) {
        let list = self.to_value();
        let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if list.as_array().is_some_and(Vec::is_empty) {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".to_owned(), list);
        }
    }

    pub(super) fn find(&self, owner: &Owner) -> Option<usize> {
        self.entries.iter().position(|entry| entry.owner.is(owner))
    }

    pub(super) fn without_empty(mut self) -> Managed {
        self.entries.retain(|entry| !entry.fields.is_empty());
        self
    }

    /// The oldest plain writers are put together, by version, until they are few enough.
    fn capped(mut self) -> Managed {
        let mut updaters: Vec<usize> = (0..self.entries.len()).filter(|at| !self.entries[*at].owner.applies).collect();
        let mut left = updaters.len();
        updaters.sort_by_key(|at| (self.entries[*at].time.clone(), self.entries[*at].owner.manager.clone()));
        let mut first_of: Vec<(String, usize)> = Vec::new();
        for at in updaters {
            if left <= UPDATERS_MAX {
                break;
            }
            let version = self.entries[at].owner.api_version.clone();
            let Some((_, bucket)) = first_of.iter().find(|(known, _)| *known == version) else {
                first_of.push((version, at));
                continue;
            };
            let (fields, time) = (take(&mut self.entries[at].fields), self.entries[at].time.take());
            let bucket = &mut self.entries[*bucket];
            bucket.owner =
                Owner { manager: ANCIENT.to_owned(), applies: false, api_version: version, subresource: String::new() };
            bucket.fields = take(&mut bucket.fields).union(&fields);
            bucket.time = time;
            left -= 1;
        }
        self.without_empty()
    }
}

impl Entry {
    fn to_value(&self) -> Value {
        let mut value = json!({
            "manager": self.owner.manager,
            "operation": if self.owner.applies { "Apply" } else { "Update" },
            "apiVersion": self.owner.api_version,
            "fieldsType": "FieldsV1",
        });
        // Moved: the macro would write what it is given out anew.
        value["fieldsV1"] = self.fields.to_value();
        if let Some(time) = &self.time {
            value["time"] = time.clone().into();
        }
        if !self.owner.subresource.is_empty() {
            value["subresource"] = self.owner.subresource.clone().into();
        }
        value
    }
}

fn entry(value: &Value) -> Option<Entry> {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let applies = match value["operation"].as_str()? {
        "Apply" => true,
        "Update" => false,
        _ => return None,
    };
    let owner =
        Owner { manager: text("manager"), applies, api_version: text("apiVersion"), subresource: text("subresource") };
    if owner.api_version.is_empty() || value["fieldsType"] != "FieldsV1" {
        return None;
    }
    let fields = if value["fieldsV1"].is_null() { Some(Fields::default()) } else { Fields::read(&value["fieldsV1"]) };
    Some(Entry { owner, time: value["time"].as_str().map(str::to_owned), fields: fields? })
}

/// Updates the sets after a plain write. `old`: the earlier object, or `zero` of the type. `fresh`: there was none.
pub fn track(types: &Types, old: &Value, new: &Value, managed: Managed, writer: Writer<'_>, fresh: bool) -> Managed {
    if managed.is_empty() && !fresh {
        return managed;
    }
    updated(types, old, new, managed, writer).capped()
}

/// The fields that a write changes and removes, in each version in which somebody owns fields.
pub(super) struct Moved<'a> {
    here: (Fields, Fields),
    other: Option<(&'a str, (Fields, Fields))>,
}

impl<'a> Moved<'a> {
    pub(super) fn of(types: &Types, old: &Value, new: &Value, managed: &Managed, writer: Writer<'a>) -> Moved<'a> {
        let moved = |name: &str, old: &Value, new: &Value| {
            compare::compare(types, name, old, new).without(writer.ignored).set_and_removed()
        };
        let other =
            writer.other.filter(|form| managed.entries.iter().any(|entry| entry.owner.api_version == form.api_version));
        let other = other.map(|form| (form.api_version, moved(form.type_name, &form.tell(old), &form.tell(new))));
        Moved { here: moved(writer.type_name, old, new), other }
    }

    fn for_owner(&self, owner: &Owner) -> &(Fields, Fields) {
        self.other.as_ref().filter(|(version, _)| *version == owner.api_version).map_or(&self.here, |(_, moved)| moved)
    }

    /// The fields of an owner that the write changes.
    pub(super) fn taken(&self, entry: &Entry) -> Fields {
        entry.fields.intersection(&self.for_owner(&entry.owner).0)
    }

    /// Takes changed and removed fields from the owner.
    pub(super) fn take_from(&self, entry: &mut Entry) {
        let (taken, removed) = self.for_owner(&entry.owner);
        entry.fields = take(&mut entry.fields).difference(taken).difference(removed);
    }
}

pub(super) fn updated(types: &Types, old: &Value, new: &Value, mut managed: Managed, writer: Writer<'_>) -> Managed {
    let moved = Moved::of(types, old, new, &managed, writer);
    managed.entries.iter_mut().for_each(|entry| moved.take_from(entry));
    let mut managed = managed.without_empty();
    let own = moved.here.0.difference(&NOBODYS);
    if own.is_empty() {
        return managed;
    }
    let (owner, time) = (Owner::of(writer, false), Some(writer.now.to_owned()));
    match managed.find(&owner) {
        Some(at) => {
            let entry = &mut managed.entries[at];
            (entry.fields, entry.time) = (take(&mut entry.fields).union(&own), time);
        }
        None => managed.entries.push(Entry { owner, time, fields: own }),
    }
    managed
}

/// Whether two states of an object differ in nothing but times of `managedFields` and the revision: then the older one
/// stays.
pub fn same_but_times(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut managed = Managed::of(object);
        managed.entries.iter_mut().for_each(|entry| entry.time = None);
        let mut entries = managed.entries;
        entries.sort_by_cached_key(|entry| entry.to_value().to_string());
        entries
    };
    same_rest(old, new)
        && old["metadata"]["managedFields"] != new["metadata"]["managedFields"]
        && bare(old) == bare(new)
}

/// Whether two states of an object are the same but for its owners and revision.
fn same_rest(old: &Value, new: &Value) -> bool {
    let [one, other] = [old, new].map(Value::as_object);
    let [meta, other_meta] = [old, new].map(|object| object["metadata"].as_object());
    same_but(one, other, &["metadata"]) && same_but(meta, other_meta, &["managedFields", "resourceVersion"])
}

fn same_but(one: Option<&Map<String, Value>>, other: Option<&Map<String, Value>>, but: &[&str]) -> bool {
    let counts = |(name, _): &(&String, &Value)| !but.contains(&name.as_str());
    one.into_iter().flatten().filter(counts).eq(other.into_iter().flatten().filter(counts))
}

#[cfg(test)]
mod tests;
