//! Notes about the actions of the engine in memory.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::facts::engine::SeenContainer;
use crate::facts::happening::Happening;

/// What a container did, or had done to it.
#[derive(Clone, Debug)]
pub struct Note {
    pub at: Instant,
    /// The container as it was right after; None for a volume.
    pub seen: Option<SeenContainer>,
    pub what: Noted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// `again`: it has run before, which only an engine with a conditional start could prevent.
    Started {
        again: bool,
    },
    Ended {
        code: i32,
    },
    Signalled {
        signal: String,
    },
    /// A hook or a probe, by the first word of its command: begun, and over.
    Asked {
        check: String,
    },
    Answered {
        check: String,
        passed: bool,
    },
    Resized,
    Filled {
        path: String,
        /// By their paths.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// An event to report, as the loop says it.
    Told(Happening),
}
