//! What somebody did to a container beside this agent, with the engine's own commands. PURE.

use super::{SeenContainer, State};

/// The engine's part is in `paused`, `ended` and `restarts`; `plan::again` finds the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    pub paused: bool,
    /// The container runs again after an end.
    pub ended: Option<EndBefore>,
    /// How often its process began again, as far as the engine alone knows it.
    pub restarts: u32,
    /// The same with what this agent saw.
    pub again: u32,
    /// The process runs, but the container counts as ended: another program started the ended container again, or the
    /// container is a copy. `state` shows the end instead of the run.
    pub undead: bool,
    /// An earlier container had the same attempt number.
    pub copy: bool,
}

/// The previous end of a running container.
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
