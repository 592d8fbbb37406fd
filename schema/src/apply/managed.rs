//! `metadata.managedFields`: who set which field, and what a write does to that.
//!
//!     any write   what it adds or changes becomes the writer's and nobody else's; what it takes away is nobody's
//!     apply       laid over what stands; fields that the applier said before and says no more go, unless somebody else owns
//!                 them; a field of somebody else with another value is a conflict, unless forced
//!
//! Nobody owns what every object has (its name, uid, times), nor what a path cannot change (`ignored`). Times move only when
//! something is moved. An object that nobody is known to own is not begun to be watched over by a plain write: the first apply
//! does that, for `before-first-apply`.

use super::fields::Fields;
use super::{check, compare, merge, shape};
use crate::types::Types;
use serde_json::{Map, Value, json};

/// Plain writers of one object; the oldest are put together as one.
pub const UPDATERS_MAX: usize = 10;
/// Who those become.
const ANCIENT: &str = "ancient-changes";
/// Who owned what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// What kubectl applied before the server could, in an annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager of which that annotation speaks, and for whom alone it is looked at.
const KUBECTL: &str = "kubectl";
/// All annotations of an object together; a longer text is left out.
const LAST_APPLIED_BYTES_MAX: usize = 256 << 10;
/// What every object has and nobody owns.
const NOBODYS: [&str; 12] = [
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
];

/// Who writes what kind of document, when, through which path.
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
}

/// The sets of all who write an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managed {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    owner: Owner,
    /// None: what it owns it found there.
    time: Option<String>,
    fields: Fields,
}

/// What tells one entry from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub manager: String,
    pub applies: bool,
    /// Of an applier's entry it says nothing: whatever version it applies in next, it is the same one.
    pub api_version: String,
    pub subresource: String,
}

impl Owner {
    fn of(writer: Writer<'_>, applies: bool) -> Owner {
        let manager = if writer.manager.is_empty() { "unknown" } else { writer.manager };
        Owner {
            manager: manager.to_owned(),
            applies,
            api_version: writer.api_version.to_owned(),
            subresource: writer.subresource.to_owned(),
        }
    }

    fn is(&self, other: &Owner) -> bool {
        let version = self.applies || self.api_version == other.api_version;
        version && self.manager == other.manager && self.applies == other.applies && self.subresource == other.subresource
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
    /// None: it is no list of entries.
    pub fn read(list: &Value) -> Option<Managed> {
        let entries = list.as_array()?.iter().map(entry).collect::<Option<Vec<Entry>>>()?;
        Some(Managed { entries })
    }

    /// Of an object as it stands.
    pub fn of(object: &Value) -> Managed {
        Managed::read(&object["metadata"]["managedFields"]).unwrap_or_default()
    }

    /// What a write leaves of it before it is counted itself: a client may set the list; an empty one, or one with an empty
    /// entry, takes all away; nonsense, and nothing, leaves it.
    pub fn sent(sent: &Value, standing: &Value) -> Managed {
        match sent.as_array().map(Vec::as_slice) {
            Some([]) => Managed::default(),
            Some([only]) if only.as_object().is_some_and(Map::is_empty) => Managed::default(),
            Some(_) => Managed::read(sent).unwrap_or_else(|| Managed::of(standing)),
            None => Managed::of(standing),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
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

    fn find(&self, owner: &Owner) -> Option<usize> {
        self.entries.iter().position(|entry| entry.owner.is(owner))
    }

    fn without_empty(mut self) -> Managed {
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
            let (fields, time) = (std::mem::take(&mut self.entries[at].fields), self.entries[at].time.take());
            let bucket = &mut self.entries[*bucket];
            bucket.owner = Owner { manager: ANCIENT.to_owned(), applies: false, api_version: version, subresource: String::new() };
            bucket.fields = bucket.fields.union(&fields);
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
            "fieldsV1": self.fields.to_value(),
        });
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
    let owner = Owner { manager: text("manager"), applies, api_version: text("apiVersion"), subresource: text("subresource") };
    if owner.api_version.is_empty() || value["fieldsType"] != "FieldsV1" {
        return None;
    }
    let fields = if value["fieldsV1"].is_null() { Some(Fields::default()) } else { Fields::read(&value["fieldsV1"]) };
    Some(Entry { owner, time: value["time"].as_str().map(str::to_owned), fields: fields? })
}

/// What a plain write makes of the sets. `old`: what stood there, or `zero` of the type. `fresh`: nothing did.
pub fn track(types: &Types, old: &Value, new: &Value, managed: Managed, writer: Writer<'_>, fresh: bool) -> Managed {
    if managed.is_empty() && !fresh {
        return managed;
    }
    updated(types, old, new, managed, writer).capped()
}

fn updated(types: &Types, old: &Value, new: &Value, managed: Managed, writer: Writer<'_>) -> Managed {
    let differences = compare::compare(types, writer.type_name, old, new).without(writer.ignored);
    let taken = differences.new_values();
    let mut managed = managed;
    for entry in &mut managed.entries {
        entry.fields = entry.fields.difference(&taken).difference(&differences.removed);
    }
    let own = taken.difference(&Fields::named(&NOBODYS));
    let mut managed = managed.without_empty();
    if own.is_empty() {
        return managed;
    }
    let (owner, time) = (Owner::of(writer, false), Some(writer.now.to_owned()));
    match managed.find(&owner) {
        Some(at) => {
            let entry = &mut managed.entries[at];
            (entry.fields, entry.time) = (entry.fields.union(&own), time);
        }
        None => managed.entries.push(Entry { owner, time, fields: own }),
    }
    managed
}

/// What an apply comes to.
#[derive(Debug, PartialEq)]
pub struct Applied {
    /// Not decoded yet: nulls stand where something was taken away.
    pub object: Value,
    pub managed: Managed,
}

/// A field that somebody else owns and has another value for.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub owner: Owner,
    /// `.spec.replicas`
    pub path: String,
}

/// Why an apply was not done.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// It is about another kind of object, or sets the list itself.
    Malformed(String),
    /// It does not fit its type.
    Mistyped(String),
    Conflicts(Vec<Conflict>),
}

/// Lays a configuration over what stands (`zero` of the type where nothing does).
pub fn apply(types: &Types, live: &Value, config: &Value, writer: Writer<'_>, force: bool) -> Result<Applied, Refusal> {
    fitting(types, config, writer)?;
    let mut managed = Managed::of(live);
    if managed.is_empty() {
        let zero = shape::zero(types, writer.type_name);
        managed = updated(types, &zero, live, managed, Writer { manager: BEFORE_FIRST_APPLY, ..writer });
    }
    let outcome = laid_over(types, live, config, managed.clone(), writer, force);
    let outcome = match outcome {
        Err(conflicts) if writer.manager == KUBECTL => match conflicts_left(types, live, conflicts, writer) {
            left if left.is_empty() => laid_over(types, live, config, managed, writer, true),
            left => Err(left),
        },
        outcome => outcome,
    };
    let mut applied = outcome.map_err(|conflicts| {
        let paths =
            |(owner, fields): &(Owner, Fields)| fields.paths().into_iter().map(|path| Conflict { owner: owner.clone(), path }).collect();
        Refusal::Conflicts(conflicts.iter().flat_map(|one| -> Vec<Conflict> { paths(one) }).collect())
    })?;
    if writer.manager == KUBECTL {
        note_applied(&mut applied.object, config);
    }
    Ok(applied)
}

fn fitting(types: &Types, config: &Value, writer: Writer<'_>) -> Result<(), Refusal> {
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version != writer.api_version || kind != writer.kind {
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Refusal::Malformed(format!("invalid object type: {version}, Kind={kind}")));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Refusal::Malformed("metadata.managedFields must be nil".to_owned()));
    }
    let problems = check::problems(types, writer.type_name, config);
    if problems.is_empty() { Ok(()) } else { Err(Refusal::Mistyped(check::message(problems))) }
}

type Conflicts = Vec<(Owner, Fields)>;

fn laid_over(
    types: &Types,
    live: &Value,
    config: &Value,
    mut managed: Managed,
    writer: Writer<'_>,
    force: bool,
) -> Result<Applied, Conflicts> {
    let name = writer.type_name;
    let said = compare::fields_of(types, name, config).without(writer.ignored);
    let owner = Owner::of(writer, true);
    let (at, last) = match managed.find(&owner) {
        Some(at) => (at, std::mem::replace(&mut managed.entries[at].fields, said)),
        None => {
            managed.entries.push(Entry { owner: owner.clone(), time: None, fields: said });
            (managed.entries.len() - 1, Fields::default())
        }
    };
    managed.entries[at].owner = owner.clone();
    let laid = merge::merge(types, name, live, config);
    let object = if last.is_empty() { laid } else { pruned(types, name, &laid, &managed, &last) };
    let differences = compare::compare(types, name, live, &object).without(writer.ignored);
    let taken = differences.new_values();
    let others = |entry: &&mut Entry| !entry.owner.is(&owner);
    if !force {
        let clashes = managed.entries.iter_mut().filter(others).map(|entry| (entry.owner.clone(), entry.fields.intersection(&taken)));
        let conflicts: Conflicts = clashes.filter(|(_, fields)| !fields.is_empty()).collect();
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    for entry in managed.entries.iter_mut().filter(others) {
        entry.fields = entry.fields.difference(&taken).difference(&differences.removed);
    }
    let own = &mut managed.entries[at];
    own.fields = own.fields.difference(&Fields::named(&NOBODYS));
    if object != *live {
        own.time = Some(writer.now.to_owned());
    }
    Ok(Applied { object, managed: managed.without_empty() })
}

/// Without what the applier said last and nobody says now.
fn pruned(types: &Types, name: &str, laid: &Value, managed: &Managed, last: &Fields) -> Value {
    let fields = |document: &Value| merge::with_names(types, name, &compare::fields_of(types, name, document));
    let last = merge::with_names(types, name, last);
    let cut = merge::removed(types, name, laid, &last);
    let all = managed.entries.iter().fold(Fields::default(), |all, entry| all.union(&entry.fields));
    let (laid_fields, owned) = (fields(laid), merge::with_names(types, name, &all));
    // What somebody owns comes back, and what the cut took along without being asked to.
    let cut = merge::removed(types, name, laid, &laid_fields.difference(&fields(&cut).union(&owned)));
    merge::removed(types, name, laid, &laid_fields.difference(&fields(&cut)).intersection(&last))
}

/// What kubectl applied by itself before, and nobody changed since, it may take over; the rest stays a conflict.
fn conflicts_left(types: &Types, live: &Value, conflicts: Conflicts, writer: Writer<'_>) -> Conflicts {
    let allowed = live["metadata"]["annotations"][LAST_APPLIED].as_str().and_then(|text| {
        let applied: Value = serde_json::from_str(text).ok()?;
        let fits = applied["apiVersion"] == writer.api_version && check::problems(types, writer.type_name, &applied).is_empty();
        let differences = fits.then(|| compare::compare(types, writer.type_name, &applied, live))?;
        let fields = compare::fields_of(types, writer.type_name, &applied);
        Some(fields.difference(&differences.changed).difference(&differences.added).difference(&differences.removed))
    });
    let allowed = allowed.unwrap_or_default();
    let left = conflicts.into_iter().map(|(owner, fields)| (owner, fields.difference(&allowed)));
    left.filter(|(_, fields)| !fields.is_empty()).collect()
}

/// kubectl's own note of what it applied is kept true where there is one.
fn note_applied(object: &mut Value, config: &Value) {
    let Some(note) = object.pointer_mut("/metadata/annotations").and_then(|annotations| annotations.get_mut(LAST_APPLIED)) else { return };
    if note.as_str().is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{config}\n");
    *note = if text.len() > LAST_APPLIED_BYTES_MAX { "" } else { &text }.into();
}

/// Whether two states of an object differ in nothing but times of `managedFields` and the revision: then the older one stays.
pub fn same_but_times(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut managed = Managed::of(object);
        managed.entries.iter_mut().for_each(|entry| entry.time = None);
        let mut entries = managed.entries;
        entries.sort_by_cached_key(|entry| entry.to_value().to_string());
        entries
    };
    let field = |object: &Value, name: &str| object["metadata"][name].clone();
    if field(old, "managedFields") == field(new, "managedFields") || bare(old) != bare(new) {
        return false;
    }
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
        }
        object
    };
    rest(old) == rest(new)
}

#[cfg(test)]
mod tests;
