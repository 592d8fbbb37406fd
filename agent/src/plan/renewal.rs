//! Restarts all containers of a pod when a container exits with a code for which its restart rule says
//! `RestartAllContainers`: all containers end, and start again in the same sandbox, init containers first. PURE.
//!
//! Each container carries the number of its round. Such an exit in the newest round begins the next round: all
//! containers from earlier rounds end, and then start again (`anew`). The agent keeps no state for this: after a crash
//! in the middle, it reads the rounds from the engine. A person begins a round as well (`restart`).

use crate::facts::engine::State;
use crate::facts::hash;
use crate::facts::members::MemberKind;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;

/// As a kubelet says it of each container that is to begin anew.
pub const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// The number of the wanted round. `begins`: no container with this number has been made yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pub number: u32,
    pub begins: bool,
    /// A person asked for this round, which begins.
    pub asked: bool,
}

/// The round of a pod, derived from the labels and states of its containers. `asked`: the round that a person asked
/// for; 0: nobody did.
pub fn of(wanted: &Wanted, runs: &[Run<'_>], asked: u32) -> Renewal {
    let newest_round = newest(wanted, runs).map(|run| run.tag.renewal).max().unwrap_or(0);
    let mut of_newest = newest(wanted, runs).filter(|run| run.tag.renewal == newest_round);
    let exits = wanted.restarts_all() && of_newest.any(|run| is_source(wanted, run));
    let number = newest_round.saturating_add(u32::from(exits)).max(asked);
    Renewal { number, begins: number > newest_round, asked: asked > newest_round }
}

/// The newest start of each container that the pod itself has.
fn newest<'r, 'a>(wanted: &'r Wanted, runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r Run<'a>> {
    let own = wanted.members().filter(|member| member.kind != MemberKind::Ephemeral);
    own.filter_map(|member| seen::of(runs, &member.spec.name).next())
}

/// Whether the container exited with a code that restarts all. A container that was edited does not count.
pub fn is_source(wanted: &Wanted, run: &Run<'_>) -> bool {
    let State::Exited { exit_code, .. } = run.seen.state else { return false };
    let Some(member) = wanted.member(&run.tag.container) else { return false };
    member.spec.restarts_all(exit_code) && hash::same(&run.tag.hash, &wanted.hash_of(&member))
}
