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

/// A disk near its end: the share that is free, in percent, when it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowDisk {
    pub path: String,
    /// Whether inodes are short. Else bytes are short.
    pub inodes: bool,
    pub percent: u64,
}

impl LowDisk {
    /// Below it a disk is near its end, and above it with `MARGIN` no longer.
    const PERCENT: u64 = 15;
    /// A share that moves by less is no news: a disk that swings around a number would be a change at each look.
    const MARGIN: u64 = 2;

    /// `percent`: the share that is free now. `was`: the last note of this disk.
    pub fn note(path: &str, inodes: bool, percent: u64, was: Option<&LowDisk>) -> Option<LowDisk> {
        let end = if was.is_some() { LowDisk::PERCENT + LowDisk::MARGIN } else { LowDisk::PERCENT };
        let noted = was.map(|was| was.percent).filter(|noted| noted.abs_diff(percent) < LowDisk::MARGIN);
        (percent < end).then(|| LowDisk { path: path.to_owned(), inodes, percent: noted.unwrap_or(percent) })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    /// Now, or a moment ago.
    pub short: BTreeSet<Short>,
    /// By uid: pods that have to end.
    pub evicted: BTreeMap<String, Dismissal>,
    /// Disks near their end, of the two that the agent looks at.
    pub low: Vec<LowDisk>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_swings_is_no_news() {
        let noted = |percent, was: Option<u64>| {
            let was = was.map(|percent| LowDisk { path: "/d".to_owned(), inodes: false, percent });
            LowDisk::note("/d", false, percent, was.as_ref()).map(|low| low.percent)
        };
        assert_eq!(noted(15, None), None);
        assert_eq!(noted(14, None), Some(14));
        assert_eq!(noted(15, Some(14)), Some(14));
        assert_eq!(noted(13, Some(14)), Some(14));
        assert_eq!(noted(12, Some(14)), Some(12));
        assert_eq!(noted(16, Some(14)), Some(16));
        assert_eq!(noted(17, Some(16)), None);
    }
}
