//! Pressure of memory and disk on this host, and the pods that are evicted for it. PURE.
//!
//! `pressure` measures and finds it. What follows: a pod that is evicted ends (`pods`), and new ones are not taken
//! (`admission`).

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::waiting::Dismissal;

/// A kind of pressure on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Short {
    Memory,
    Disk,
    Processes,
}

impl Short {
    /// The type of the node's condition.
    pub fn condition(self) -> &'static str {
        match self {
            Short::Memory => "MemoryPressure",
            Short::Disk => "DiskPressure",
            Short::Processes => "PIDPressure",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    /// Now, or a moment ago.
    pub short: BTreeSet<Short>,
    /// By uid: pods that have to end.
    pub evicted: BTreeMap<String, Dismissal>,
}
