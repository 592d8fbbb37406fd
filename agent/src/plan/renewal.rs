//! Restarts of all containers of a pod, because one of them ended with a code for which its rule is that: what ran
//! ends, and everything begins anew in the same sandbox, init containers first. PURE.
//!
//! Each container carries the number of its round. One of the newest round that ended so begins the next round:
//! whatever is of an earlier one ends, and then starts again (`anew`). So there is nothing to remember: an agent that
//! dies in the middle finds it all on the engine.

use crate::facts::engine::State;
use crate::facts::hash;
use crate::facts::members::MemberKind;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;

/// As a kubelet says it of each container that is to begin anew.
pub const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// The number of the round that is to run, and whether it is just beginning: nothing of it was made yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pub number: u32,
    pub begins: bool,
}

/// The round of a pod, by what there is of it.
pub fn of(wanted: &Wanted, runs: &[Run<'_>]) -> Renewal {
    let number = newest(wanted, runs).map(|run| run.tag.renewal).max().unwrap_or(0);
    let begins =
        wanted.restarts_all() && newest(wanted, runs).any(|run| run.tag.renewal == number && is_source(wanted, run));
    Renewal { number: number.saturating_add(u32::from(begins)), begins }
}

/// The newest start of each container that the pod itself has.
fn newest<'r, 'a>(wanted: &'r Wanted, runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r Run<'a>> {
    let own = wanted.members().filter(|member| member.kind != MemberKind::Ephemeral);
    own.filter_map(|member| seen::of(runs, &member.spec.name).next())
}

/// It ended with a code that restarts all. What was ended because it was edited did not end by itself.
pub fn is_source(wanted: &Wanted, run: &Run<'_>) -> bool {
    let State::Exited { exit_code, .. } = run.seen.state else { return false };
    let Some(member) = wanted.member(&run.tag.container) else { return false };
    member.spec.restarts_all(exit_code) && hash::same(&run.tag.hash, &wanted.hash_of(&member))
}
