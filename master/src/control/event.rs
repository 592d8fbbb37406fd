//! What a controller tells, as the document of an event. PURE.

use super::controller::Now;
use super::intent::{About, EventDraft};
use coracle_api::meta::Revision;
use serde_json::{Value, json};

/// At most this much of an object's name goes into an event's name; the suffix makes the event's name unique.
const EVENT_NAME_BYTES_MAX: usize = 220;
/// Longest message of an event that says when it happened to the microsecond.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

pub fn namespace_of(tale: &EventDraft) -> String {
    // Events about cluster-scoped objects are kept in `default`, as in Kubernetes.
    if tale.about.namespace.is_empty() { "default".to_owned() } else { tale.about.namespace.clone() }
}

/// The beginning of a text that is too long.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

pub fn cut_message(message: &str) -> &str {
    cut(message, EVENT_MESSAGE_BYTES_MAX)
}

/// The moment of the nth event of this process; moments are unique.
pub fn moment(nth: u64, now: Now) -> u64 {
    u64::try_from(now.wall.0.as_nanosecond().unsigned_abs() + u128::from(nth)).unwrap_or(nth)
}

/// As Kubernetes calls them: by the moment.
pub fn name_of(tale: &EventDraft, moment: u64) -> String {
    format!("{}.{moment:016x}", cut(&tale.about.name, EVENT_NAME_BYTES_MAX))
}

pub fn document(tale: &EventDraft, (name, message, count): (&str, &str, u32), now: Now) -> Value {
    let about = &tale.about;
    let at = now.wall.to_string();
    let mut event = json!({
        "metadata": {"name": name, "namespace": namespace_of(tale)},
        "involvedObject": reference(about),
        "type": tale.severity, "reason": tale.reason, "message": cut_message(message),
        "source": {"component": tale.source},
        "eventTime": null, "reportingComponent": tale.source, "reportingInstance": "",
        "firstTimestamp": at, "lastTimestamp": at, "count": count,
    });
    // An event that has a time of its own says what was done, and where the reporter is.
    if let Some(action) = tale.action {
        event["eventTime"] = format!("{:.6}", now.wall.0).into();
        event["action"] = action.into();
        event["reportingInstance"] = tale.source.into();
    }
    if let Some(related) = &tale.related {
        event["related"] = reference(related);
    }
    event
}

/// Nothing is said of what is not known.
fn reference(about: &About) -> Value {
    let mut said = json!({"apiVersion": about.api_version, "kind": about.kind, "name": about.name});
    for (field, text) in [("namespace", &about.namespace), ("uid", &about.uid)] {
        if !text.is_empty() {
            said[field] = text.as_str().into();
        }
    }
    if about.revision > Revision(0) {
        said["resourceVersion"] = about.revision.to_string().into();
    }
    said
}
