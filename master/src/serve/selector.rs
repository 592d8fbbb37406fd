//! The selectors of a call, in the words of its version.

use crate::call::{Call, Version};
use crate::fault::Fault;
use crate::store::Stored;
use coracle_api::kinds::Kind;
use coracle_api::selector::{FieldSelector, Grammar, LabelSelector, Selector};

/// Field labels of the older versions, of all their years, and what they are called today.
const OLD_LABELS: [(&str, &str); 11] = [
    ("ID", "metadata.name"),
    ("id", "metadata.name"),
    ("name", "metadata.name"),
    ("DesiredState.Host", "spec.nodeName"),
    ("Status.Host", "spec.nodeName"),
    ("spec.host", "spec.nodeName"),
    ("DesiredState.Status", "status.phase"),
    ("Status.Phase", "status.phase"),
    ("currentState.replicas", "status.replicas"),
    ("unschedulable", "spec.unschedulable"),
    ("involvedObject.id", "involvedObject.name"),
];
/// Phases of pods that the flat versions called otherwise.
const OLD_PHASES: [(&str, &str); 2] = [("Waiting", "Pending"), ("Terminated", "Failed")];

pub fn of(call: &Call) -> Result<Selector, Fault> {
    let options = &call.options;
    let (labels, fields) = match call.version {
        Version::V1 => {
            (LabelSelector::parse(&options.labels, Grammar::V1), FieldSelector::parse(&options.fields, call.shown))
        }
        Version::Old(old) => {
            let grammar = if old.is_flat() { Grammar::Old } else { Grammar::V1 };
            (LabelSelector::parse(&options.labels, grammar), old_fields(call.kind, &options.fields))
        }
    };
    Ok(Selector { labels: labels.map_err(Fault::bad_request)?, fields: fields.map_err(Fault::bad_request)? })
}

pub fn matches(selector: &Selector, stored: &Stored) -> bool {
    selector.is_everything() || selector.matches(&stored.key, &stored.labels, &stored.json)
}

fn old_fields(kind: &Kind, text: &str) -> Result<FieldSelector, String> {
    let parts: Vec<String> = text.split(',').map(today).collect();
    FieldSelector::parse(&parts.join(","), kind)
}

/// `DesiredState.Host!=a` -> `spec.nodeName!=a`.
fn today(part: &str) -> String {
    let end = part.find(['=', '!']).unwrap_or(part.len());
    let (label, test) = part.split_at(end);
    let Some((_, label)) = OLD_LABELS.iter().find(|(old, _)| *old == label.trim()) else { return part.to_owned() };
    let value = test.trim_start_matches(['=', '!']);
    let phase = OLD_PHASES.iter().find(|(old, _)| *label == "status.phase" && *old == value);
    let value = phase.map_or(value, |(_, today)| today);
    format!("{label}{}{value}", &test[..test.len() - test.trim_start_matches(['=', '!']).len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_2014() {
        for (old, expected) in [
            ("", ""),
            ("DesiredState.Host=", "spec.nodeName="),
            ("Status.Phase!=Waiting", "status.phase!=Pending"),
            ("DesiredState.Status==Terminated", "status.phase==Failed"),
            ("ID=Waiting", "metadata.name=Waiting"),
            ("reason=x", "reason=x"),
        ] {
            assert_eq!(today(old), expected);
        }
    }
}
