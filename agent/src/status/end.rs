//! The end of a pod that was told before. `Succeeded` and `Failed` are final: later states of the containers do not
//! change the phase. PURE.

use serde_json::Value;

use crate::facts::naming::Source;
use crate::facts::wanted::Wanted;

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodEnd {
    Succeeded,
    Failed,
}

impl PodEnd {
    pub(super) fn phase(self) -> &'static str {
        match self {
            PodEnd::Succeeded => "Succeeded",
            PodEnd::Failed => "Failed",
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            PodEnd::Succeeded => "PodCompleted",
            PodEnd::Failed => "PodFailed",
        }
    }
}

/// A final phase, and the status that has it.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) end: PodEnd,
    pub(super) status: &'a Value,
    /// The states of the containers cannot change this end. False for a pod of a file: the pod keeps its uid over an
    /// edit, and may run again.
    pub(super) for_good: bool,
}

impl<'a> Told<'a> {
    /// The status's `reason` and `message`, if present.
    pub(super) fn words(&self) -> impl Iterator<Item = (&'static str, &'a Value)> {
        let status = self.status;
        ["reason", "message"].into_iter().filter_map(|field| Some((field, status.get(field)?)))
    }
}

/// The recorded end: in the master's status, whoever wrote the status, or, for a pod of a file, on this host's disk
/// (`desired/ended`), where an edit of the file drops the record. Otherwise the end in the status shown before.
pub(super) fn told<'a>(wanted: &'a Wanted, was: &'a Value) -> Option<Told<'a>> {
    let told = |status: &'a Value, for_good| Some(Told { end: end_of(status)?, status, for_good });
    told(&wanted.document["status"], true).or_else(|| told(was, wanted.name.source == Source::Master))
}

fn end_of(status: &Value) -> Option<PodEnd> {
    match status["phase"].as_str()? {
        "Succeeded" => Some(PodEnd::Succeeded),
        "Failed" => Some(PodEnd::Failed),
        _ => None,
    }
}

/// Whether the pod of this status has ended for good.
pub fn is_final(status: &Value) -> bool {
    end_of(status).is_some()
}
