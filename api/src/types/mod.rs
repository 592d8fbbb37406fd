//! The types of the built-in kinds. The text of the types stands beside this file; the build script makes static tables
//! from the text.

use coracle_schema::Types;
use coracle_schema::order::MovedField;
use coracle_schema::types::{Container, Element, Field, Merge, Rule, Rules, Type};
use std::borrow::Cow;

include!(concat!(env!("OUT_DIR"), "/types.rs"));

/// The types of all built-in kinds and of the API machinery: `Pod`, `PodSpec`, `DeleteOptions`.
pub const fn builtin() -> Types {
    Types::of_static(&ROWS, PROSE)
}

/// The types of documents that belong to no kind: Status, DeleteOptions, the metadata of lists and objects.
pub static MACHINERY: Types = builtin();

/// Fields that stand in Go's types elsewhere than by their numbers, as far as messages show them.
pub const MOVED: [MovedField; 11] = [
    ("PodSpec", "initContainers", "volumes"),
    ("PodSpec", "ephemeralContainers", "containers"),
    ("PodSpec", "automountServiceAccountToken", "serviceAccount"),
    ("PodSpec", "shareProcessNamespace", "hostIPC"),
    ("Container", "envFrom", "ports"),
    ("Container", "resizePolicy", "resources"),
    ("Container", "restartPolicy", "resources"),
    ("Container", "restartPolicyRules", "resources"),
    ("Container", "volumeDevices", "volumeMounts"),
    ("Container", "startupProbe", "readinessProbe"),
    ("Container", "terminationMessagePolicy", "terminationMessagePath"),
];

#[cfg(test)]
mod tests;
