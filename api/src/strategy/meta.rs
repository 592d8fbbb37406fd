//! The rules of metadata that all kinds share.

use super::doc::{copy, default_to, has, list, map_at, remove, text};
use super::{Deleting, Deletion, Making, Rules, creation_token_problem};
use coracle_schema::Problem;
use serde_json::Value;

/// Longest base of a generated name; what is longer is cut, so that five random characters fit in a label.
pub const GENERATED_BASE_BYTES_MAX: usize = 58;
/// All annotations of an object together, keys and values.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Metadata of an object that is made now. `generation`: the kind counts generations.
pub fn create(object: &mut Value, making: &mut Making<'_>, generation: bool) {
    let uid = making.uid.clone();
    let now = making.now.to_string();
    let meta = map_at(object, "metadata");
    for wiped in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation"] {
        meta.remove(wiped);
    }
    meta.insert("uid".into(), uid.into());
    meta.insert("creationTimestamp".into(), now.into());
    if generation {
        meta.insert("generation".into(), 1.into());
    }
    drop_empty(object);
    let base = text(&object["metadata"], "generateName");
    if !base.is_empty() && text(&object["metadata"], "name").is_empty() {
        let cut = (0..=GENERATED_BASE_BYTES_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        let name = format!("{}{}", &base[..cut], (making.suffix)());
        object["metadata"]["name"] = name.into();
    }
}

/// Metadata of an object that replaces another: what only the server says stays as it was, and the generation grows
/// when `changed` and the kind counts them.
pub fn update(new: &mut Value, old: &Value, changed: bool) {
    map_at(new, "metadata");
    let (was, meta) = (&old["metadata"], &mut new["metadata"]);
    // A uid that is given and differs stays, so that validation can name it.
    default_to(meta, "uid", was["uid"].clone());
    for kept in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        copy(meta, was, kept);
    }
    if was["generateName"].is_string() {
        default_to(meta, "generateName", was["generateName"].clone());
    }
    remove(meta, "selfLink");
    remove(meta, "managedFields");
    if changed && let Some(generation) = was["generation"].as_i64() {
        meta["generation"] = (generation + 1).into();
    }
    drop_empty(new);
}

/// An update of status only: everything else as it was.
pub fn status_update(new: &mut Value, old: &Value) {
    let status = new["status"].take();
    let version = new["metadata"]["resourceVersion"].take();
    let uid = new["metadata"]["uid"].take();
    *new = old.clone();
    if status.is_null() {
        remove(new, "status");
    } else {
        new["status"] = status;
    }
    for (field, value) in [("resourceVersion", version), ("uid", uid)] {
        if !value.is_null() {
            new["metadata"][field] = value;
        }
    }
}

/// The base for names of what an owner makes: `frontendController` -> `frontendcontroller-`. Ids of 2014 may hold upper
/// case and underscores; the names of their pods may not.
pub fn generated_base(owner: &str) -> String {
    let plain = owner.chars().map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '.' => c,
        _ => '-',
    });
    let plain: String = plain.collect();
    format!("{}-", plain.trim_start_matches(['-', '.']))
}

/// What a DELETE does to an object without a life of its own: finalizers hold it.
pub fn delete(object: &Value, deleting: Deleting) -> Deletion {
    if list(&object["metadata"], "finalizers").is_empty() {
        return Deletion::Remove;
    }
    if has(&object["metadata"], "deletionTimestamp") {
        return Deletion::Mark(object.clone());
    }
    Deletion::Mark(marked(object, deleting.now, 0))
}

/// The object with its deletion's time (now and the grace) written down, a generation later.
pub fn marked(object: &Value, now: crate::meta::Time, grace_s: i64) -> Value {
    let mut marked = object.clone();
    let meta = &mut marked["metadata"];
    let at = crate::meta::Time::from_seconds(now.seconds().saturating_add(grace_s)).unwrap_or(now);
    meta["deletionTimestamp"] = at.to_string().into();
    meta["deletionGracePeriodSeconds"] = grace_s.into();
    if let Some(generation) = meta["generation"].as_i64() {
        meta["generation"] = (generation + 1).into();
    }
    marked
}

/// Whether an object being deleted may go now: its grace is over and nothing holds it. For updates that take the last finalizer.
pub fn is_released(object: &Value) -> bool {
    let meta = &object["metadata"];
    has(meta, "deletionTimestamp") && meta["deletionGracePeriodSeconds"].as_i64() == Some(0) && list(meta, "finalizers").is_empty()
}

/// Every problem of an object's metadata.
pub fn validate(object: &Value, _rules: Rules) -> Vec<Problem> {
    creation_token_problem(object).into_iter().collect()
}

fn drop_empty(object: &mut Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if super::doc::is_empty(&object["metadata"][field]) {
            remove(&mut object["metadata"], field);
        }
    }
}
