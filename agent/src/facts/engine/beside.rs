//! What somebody did to a container beside this agent, with the engine's own commands. PURE.

use super::{SeenContainer, State};

/// The engine's part is in `paused`, `ended` and `restarts`; `plan::again` finds the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    pub paused: bool,
    /// It runs, and its process had ended before.
    pub ended: Option<EndBefore>,
    /// How often its process began again, as far as the engine alone knows it.
    pub restarts: u32,
    /// The same with what this agent saw.
    pub again: u32,
    /// Its process runs again, or another one under its number, which counts for nothing: `state` is how it ended.
    pub undead: bool,
    /// Another container had its number first.
    pub copy: bool,
}

/// The end of a process that runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndBefore {
    pub finished_ms: i64,
    /// None: the engine does not tell it any more.
    pub exit_code: Option<i32>,
}

impl SeenContainer {
    /// It has a process, whether that counts or not.
    pub fn runs(&self) -> bool {
        self.lives() || self.beside.undead
    }

    /// It runs, and has never ended.
    pub fn lives(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}
