//! Counts passed and failed probes of containers since the agent began, for `/metrics/probes`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::facts::checks::ProbeKind;
use crate::facts::naming::PodName;

/// A container's probe; its pod by the uid.
type Key = (String, String, ProbeKind);

/// How one check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    Passed,
    Failed,
    /// The engine could not be asked.
    Unknown,
}

impl ProbeResult {
    pub const ALL: [ProbeResult; 3] = [ProbeResult::Passed, ProbeResult::Failed, ProbeResult::Unknown];

    pub fn name(self) -> &'static str {
        match self {
            ProbeResult::Passed => "successful",
            ProbeResult::Failed => "failed",
            ProbeResult::Unknown => "unknown",
        }
    }
}

/// The counts of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub pod: PodName,
    pub container: String,
    pub kind: ProbeKind,
    /// In the order of `ProbeResult::ALL`.
    pub counts: [u64; 3],
}

/// The probe counts of the pods that are to run on this host.
#[derive(Debug, Default)]
pub struct Tallies(Mutex<BTreeMap<Key, Tally>>);

impl Tallies {
    pub fn count(&self, pod: &PodName, container: &str, kind: ProbeKind, found: ProbeResult) {
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Tally { pod: pod.clone(), container: container.to_owned(), kind, counts: [0; 3] };
        tallies.entry((pod.uid.clone(), container.to_owned(), kind)).or_insert_with(new).counts[found as usize] += 1;
    }

    /// Forgets the counts of pods that are gone.
    pub fn keep(&self, is_here: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(uid, ..), _| is_here(uid));
    }

    pub fn all(&self) -> Vec<Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
