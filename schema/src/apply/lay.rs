//! Server-side apply: merges a configuration into the live object. A field that the applier set before and no longer
//! sets is removed, unless a different manager owns the field. A new value for a different manager's field is a
//! conflict, unless the apply is forced.

use super::fields::Fields;
use super::managed::{Entry, Managed, Moved, NOBODYS, Owner, updated};
use super::writer::Writer;
use super::{check, compare, merge, shape};
use crate::types::Types;
use serde_json::Value;
use std::mem::take;

/// The manager of all fields that an object had before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The annotation with the configuration that kubectl applied before the server could.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Only applies by this manager read and write the annotation.
const KUBECTL: &str = "kubectl";
/// All annotations of an object together; a longer text is left out.
const LAST_APPLIED_BYTES_MAX: usize = 256 << 10;

/// The outcome of an apply.
#[derive(Debug, PartialEq)]
pub struct Applied {
    /// Not decoded yet: nulls stand where something was taken away.
    pub object: Value,
    pub managed: Managed,
}

/// A field that the apply would change although a different manager owns the field.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub owner: Owner,
    /// `.spec.replicas`
    pub path: String,
}

/// Why an apply was not done.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// The configuration has a wrong `kind` or `apiVersion`, or sets `managedFields`.
    Malformed(String),
    /// The configuration does not fit its type.
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
        let paths = |(owner, fields): &(Owner, Fields)| {
            fields.paths().into_iter().map(|path| Conflict { owner: owner.clone(), path }).collect()
        };
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
    let at = managed.find(&owner).unwrap_or_else(|| {
        managed.entries.push(Entry { owner: owner.clone(), time: None, fields: Fields::default() });
        managed.entries.len() - 1
    });
    let last = std::mem::replace(&mut managed.entries[at].fields, said);
    // It may have applied in the other version.
    let form = writer.other_of(&managed.entries[at].owner);
    managed.entries[at].owner = owner.clone();
    let laid = merge::merge(types, name, live, config);
    let object = match form {
        _ if last.is_empty() => laid,
        None => pruned(types, writer, &laid, &managed, &last),
        Some(form) => form.tell_back(&pruned(types, writer.turned(form), &form.tell(&laid), &managed, &last)),
    };
    let moved = Moved::of(types, live, &object, &managed, writer);
    let is_other = |entry: &Entry| !entry.owner.is(&owner);
    if !force {
        let others = managed.entries.iter().filter(|entry| is_other(entry));
        let clashes = others.map(|entry| (entry.owner.clone(), moved.taken(entry)));
        let conflicts: Conflicts = clashes.filter(|(_, fields)| !fields.is_empty()).collect();
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    managed.entries.iter_mut().filter(|entry| is_other(entry)).for_each(|entry| moved.take_from(entry));
    let own = &mut managed.entries[at];
    own.fields = take(&mut own.fields).difference(&NOBODYS);
    if object != *live {
        own.time = Some(writer.now.to_owned());
    }
    Ok(Applied { object, managed: managed.without_empty() })
}

/// Without what the applier said last and nobody says now. `writer`: in the version in which that was said.
fn pruned(types: &Types, writer: Writer<'_>, laid: &Value, managed: &Managed, last: &Fields) -> Value {
    let name = writer.type_name;
    let fields = |document: &Value| merge::with_names(types, name, &compare::fields_of(types, name, document));
    let last = merge::with_names(types, name, last);
    let cut = merge::removed(types, name, laid, &last);
    // What somebody owns comes back, and what the cut took along without being asked to.
    let (there, here): (Vec<&Entry>, Vec<&Entry>) =
        managed.entries.iter().partition(|entry| writer.other_of(&entry.owner).is_some());
    let cut = kept(types, name, laid, &cut, &here);
    let cut = match writer.other.filter(|_| !there.is_empty()) {
        Some(form) => form.tell_back(&kept(types, form.type_name, &form.tell(laid), &form.tell(&cut), &there)),
        None => cut,
    };
    merge::removed(types, name, laid, &fields(laid).difference(&fields(&cut)).intersection(&last))
}

/// The merged document without the fields that were cut and that none of these owners has.
fn kept(types: &Types, name: &str, laid: &Value, cut: &Value, owners: &[&Entry]) -> Value {
    let fields = |document: &Value| merge::with_names(types, name, &compare::fields_of(types, name, document));
    let owned = owners.iter().fold(Fields::default(), |all, entry| all.union(&entry.fields));
    let owned = merge::with_names(types, name, &owned);
    merge::removed(types, name, laid, &fields(laid).difference(&fields(cut).union(&owned)))
}

/// Fields that kubectl applied by itself before and that nobody changed since are no conflict; the rest is.
fn conflicts_left(types: &Types, live: &Value, conflicts: Conflicts, writer: Writer<'_>) -> Conflicts {
    let allowed = live["metadata"]["annotations"][LAST_APPLIED].as_str().and_then(|text| {
        let applied: Value = serde_json::from_str(text).ok()?;
        let fits = applied["apiVersion"] == writer.api_version
            && check::problems(types, writer.type_name, &applied).is_empty();
        let differences = fits.then(|| compare::compare(types, writer.type_name, &applied, live))?;
        let fields = compare::fields_of(types, writer.type_name, &applied);
        Some(fields.difference(&differences.changed).difference(&differences.added).difference(&differences.removed))
    });
    let allowed = allowed.unwrap_or_default();
    let left = conflicts.into_iter().map(|(owner, fields)| (owner, fields.difference(&allowed)));
    left.filter(|(_, fields)| !fields.is_empty()).collect()
}

/// Writes the applied configuration into kubectl's own annotation, if the object has the annotation.
fn note_applied(object: &mut Value, config: &Value) {
    let Some(note) =
        object.pointer_mut("/metadata/annotations").and_then(|annotations| annotations.get_mut(LAST_APPLIED))
    else {
        return;
    };
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
