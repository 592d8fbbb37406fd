//! A pod as the checks of the Pod Security Standards look at it, and the words that the checks share. PURE.

use coracle_api::strategy::doc::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// A pod, or a template of pods, as the checks look at it.
#[derive(Clone, Copy)]
pub struct PodView<'a> {
    pub annotations: &'a Value,
    pub spec: &'a Value,
}

/// Why a pod does not meet a level.
#[derive(Debug, PartialEq)]
pub struct Violation {
    pub reason: String,
    pub detail: String,
}

/// The violations as one text, with their details.
pub fn told(violations: &[Violation]) -> String {
    let each = violations.iter().map(|Violation { reason, detail }| match detail.as_str() {
        "" => reason.clone(),
        detail => format!("{reason} ({detail})"),
    });
    each.collect::<Vec<_>>().join(", ")
}

impl<'a> PodView<'a> {
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |field| list(self.spec, field))
    }

    /// The names of the containers that are bad.
    pub(super) fn bad(self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(|container| text(container, "name")).collect()
    }

    pub(super) fn is_windows(self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// The users of such a pod are others than the users of the host.
    pub(super) fn has_own_users(self) -> bool {
        self.spec["hostUsers"] == false
    }
}

pub(super) fn violation(reason: impl Into<String>, detail: impl Into<String>) -> Option<Violation> {
    Some(Violation { reason: reason.into(), detail: detail.into() })
}

pub(super) fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect::<Vec<_>>().join(", ")
}

/// `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// `pod and container "a"`: where a field stands that must not be set. None: nowhere.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    let own = pod.then(|| "pod".to_owned());
    let all: Vec<String> = own.into_iter().chain((!names.is_empty()).then(|| containers(names))).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// The bad values of a field of security contexts: whether the pod's own is bad, the names of the containers with a
/// bad one, and the values.
pub(super) fn bad_values<'a>(
    pod: PodView<'a>,
    value: impl Fn(&'a Value) -> Option<&'a str>,
    is_bad: impl Fn(&str) -> bool,
) -> (bool, Vec<&'a str>, BTreeSet<&'a str>) {
    let bad = |holder: &'a Value| value(&holder["securityContext"]).filter(|value| is_bad(value));
    let own = bad(pod.spec);
    let names = pod.bad(|container| bad(container).is_some());
    let values = own.into_iter().chain(pod.containers().filter_map(bad)).collect();
    (own.is_some(), names, values)
}
