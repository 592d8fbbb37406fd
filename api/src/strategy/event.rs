//! Events: what happened to an object. They live in memory only.

use super::doc::{has, text};
use super::meta::{self, Scope};
use super::{Rules, Strategy, general, names, nothing};
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Longest of the short texts of a new-style event, in characters.
const WORD_CHARS_MAX: usize = 128;
/// Longest message of a new-style event, in characters.
const MESSAGE_CHARS_MAX: usize = 1024;

pub static EVENT: Strategy = Strategy {
    validate,
    validate_update: |new, old, rules| general::changed(new, old, rules, validate),
    durable: nothing,
    ..general::strategy::<false, false>()
};

/// An event is called after its object, which may have a name of 2014.
fn validate(event: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(event, Scope::Namespaced, names::old_id, rules);
    let (namespace, of) = (text(&event["metadata"], "namespace"), text(&event["involvedObject"], "namespace"));
    // Events of what has no namespace, like nodes, live in the default one.
    if namespace != of && !(of.is_empty() && namespace == "default") {
        let path = Path::new("involvedObject.namespace");
        found.push(Problem::invalid(&path, of, "does not match event.namespace"));
    }
    if has(event, "eventTime") {
        found.extend(new_style(event));
    }
    found
}

/// Events with a precise time say who reports and what was done.
pub fn new_style(event: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    let root = Path::root();
    for field in ["reportingComponent", "reportingInstance", "action", "reason"] {
        let (path, word) = (root.field(field), text(event, field));
        if word.is_empty() {
            found.push(Problem::required(&path, ""));
        }
        if field == "reportingComponent" {
            found.extend(names::problems(&path, word, names::qualified(word)));
        } else if word.chars().count() > WORD_CHARS_MAX {
            found.push(Problem::invalid(&path, "", format!("can have at most {WORD_CHARS_MAX} characters")));
        }
    }
    if text(event, "message").chars().count() > MESSAGE_CHARS_MAX {
        found.push(Problem::invalid(&root.field("message"), "", format!("can have at most {MESSAGE_CHARS_MAX} characters")));
    }
    found
}
