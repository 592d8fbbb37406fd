//! The processes in the engine in memory: how they end by themselves, and what the engine records.

use super::{FakeContainer, Inner};
use crate::facts::engine::{Beside, EndBefore, Network, State};
use crate::facts::naming::{LABEL_CONTAINER, LABEL_HASH, LABEL_POD_UID};

impl Inner {
    /// The reason why the engine would refuse to start it.
    pub(super) fn refusal(&self, held: &FakeContainer) -> Option<String> {
        if held.config.image.starts_with("bad") {
            return Some("exec: \"nope\": executable file not found in $PATH".to_owned());
        }
        if let Network::Join(name) = &held.config.network
            && !self.containers.values().any(|other| other.seen.name == *name && other.seen.runs())
        {
            return Some(format!("cannot join network of a non running container: {name}"));
        }
        if let Some(name) = &held.config.processes_of
            && !self.containers.values().any(|other| other.seen.name == *name && other.seen.runs())
        {
            return Some(format!("cannot join PID of a non running container: {name}"));
        }
        let clash = held.config.ports.iter().find(|port| {
            let others = self.containers.values().filter(|other| other.seen.runs() && other.seen.id != held.seen.id);
            others.flat_map(|other| &other.config.ports).any(|taken| taken.host_port == port.host_port)
        })?;
        Some(format!("Bind for 0.0.0.0:{} failed: port is already allocated", clash.host_port))
    }

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

/// Starts a process. While it runs, the engine keeps the end time of the previous process.
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
