//! What processes of the engine in memory do: how they end by themselves, and what the engine keeps of it.

use super::super::{Beside, EndBefore, State};
use super::{FakeContainer, Inner};
use crate::naming::{LABEL_CONTAINER, LABEL_HASH, LABEL_POD_UID};

impl Inner {
    /// How a container that starts now ends by itself.
    pub(super) fn own_end(&self, held: &FakeContainer) -> Option<i32> {
        let label = |label: &str| held.seen.labels.get(label).map(String::as_str).unwrap_or_default();
        let first = self.starts_of(label(LABEL_POD_UID), label(LABEL_CONTAINER), label(LABEL_HASH)) <= 1;
        let kind = held.config.image.split(':').next().unwrap_or_default();
        let code = |prefix: &str| kind.strip_prefix(prefix)?.parse::<i32>().ok();
        match kind {
            "crash" => Some(1),
            "done" => Some(0),
            _ => code("exit")
                .or_else(|| code("try").map(|code| if first { code } else { 0 }))
                .or_else(|| code("heal").filter(|_| first)),
        }
    }
}

/// Of a process that ends the engine keeps the time, as long as another one runs.
pub(super) fn run(held: &mut FakeContainer, started_ms: i64) {
    if let State::Exited { finished_ms, .. } = held.seen.state {
        held.seen.beside.ended = Some(EndBefore { finished_ms, exit_code: None });
        held.seen.beside.restarts = 1;
    }
    held.seen.state = State::Running { started_ms };
}

pub(super) fn end(held: &mut FakeContainer, exit_code: i32, finished_ms: i64) {
    let started_ms = match held.seen.state {
        State::Running { started_ms } => started_ms,
        _ => finished_ms,
    };
    held.ends = None;
    held.seen.ip = None;
    held.seen.beside = Beside::default();
    held.seen.state = State::Exited { exit_code, out_of_memory: false, started_ms, finished_ms };
}
