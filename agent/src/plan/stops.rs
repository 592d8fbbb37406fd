//! Ends what has to end: preStop and the signal, then SIGKILL when the grace is over. PURE.
//!
//! A stop under way is two times in `memory`; so a shorter grace that comes later counts at once, and an agent that
//! starts in the middle sends the signal once more.

use std::collections::BTreeSet;

use super::rules::Rule;
use crate::facts::engine::{Check, State};
use crate::facts::round::{Action, ActionKind, PodPlan, Stop, StopReason};
use crate::facts::seen::Run;
use crate::facts::wanted::Wanted;
use crate::plan::case::Case;
use crate::spec::container;

/// Whatever preStop took, the process has this long after its signal.
pub const AFTER_SIGNAL_MS_MIN: i64 = 2_000;
/// SIGKILL is sent again where it did not help: the engine may have lost it.
pub const KILL_AGAIN_MS: i64 = 10_000;
/// Whatever the main containers took of the grace, a sidecar has this long.
const SIDECAR_GRACE_S_MIN: u64 = 2;
/// A sandbox holds nothing and ends at once.
pub const SANDBOX_GRACE_MS: i64 = 2_000;

/// Stops containers of a pod for a common reason: ordinary containers first, then the sidecars, one after the other.
/// True while any container runs.
pub fn stop_in_turns(
    case: Case<'_>,
    part: &mut PodPlan,
    runs: &[&Run<'_>],
    grace_s: Option<u64>,
    address: &str,
    why: &StopReason,
) -> bool {
    let turns: BTreeSet<u32> = runs.iter().map(|run| run.tag.end_turn).collect();
    let mut alive = false;
    for turn in turns {
        let members: Vec<&Run> = runs.iter().copied().filter(|run| run.tag.end_turn == turn).collect();
        let grace_s = if turn == 0 { grace_s } else { left_of(case, &members, grace_s) };
        alive |= stop(case, part, &members, grace_s, address, why.clone());
        if alive && case.rules.hold(Rule::SidecarsEndLast) {
            return true;
        }
    }
    alive
}

/// The rest of the grace period for a sidecar: the containers of a pod share a single grace period.
fn left_of(case: Case<'_>, sidecars: &[&Run<'_>], grace_s: Option<u64>) -> Option<u64> {
    let run = sidecars.first()?;
    let memory = &case.world.memory;
    let begun_ms = memory.stops.get(&run.seen.id).map_or(case.now.mono_ms, |stopping| stopping.since_ms);
    let spent_ms = memory.ending.get(&run.tag.pod.uid).map_or(0, |since_ms| begun_ms.saturating_sub(*since_ms));
    let grace_s = grace_s.unwrap_or(run.tag.grace_s);
    Some(grace_s.saturating_sub(u64::try_from(spent_ms / 1000).unwrap_or(0)).max(SIDECAR_GRACE_S_MIN.min(grace_s)))
}

/// One whose signal was lost is stopped anew: its hook has run.
fn pre_stop(case: Case<'_>, run: &Run<'_>) -> Option<Check> {
    let ran = case.world.memory.pre_stopped.contains(&run.seen.id) && case.rules.hold(Rule::PreStopRunsOnce);
    run.tag.pre_stop.clone().filter(|_| !ran && case.rules.hold(Rule::PreStopComesFirst))
}

/// Of a pod with an action in flight: the containers whose hook is waited for there, though they are to end, their
/// grace is over, or they have ended.
pub fn hooks_in_the_way(case: Case<'_>, runs: &[Run<'_>], actions: &[Action]) -> BTreeSet<String> {
    let memory = &case.world.memory;
    let mut ids: BTreeSet<String> = runs
        .iter()
        .filter(|run| matches!(run.seen.state, State::Exited { .. }))
        .map(|run| run.seen.id.clone())
        .collect();
    for action in actions {
        match &action.what {
            ActionKind::Stop { stops, .. } => {
                let starts = stops.iter().filter(|stop| memory.hooks_running.contains(&stop.id));
                ids.extend(starts.map(|stop| stop.id.clone()));
            }
            ActionKind::Kill { id, .. } => {
                let waits = memory.stops.get(id).is_some_and(|stopping| stopping.signalled_ms.is_none());
                ids.extend(waits.then(|| id.clone()));
            }
            _ => {}
        }
    }
    ids
}

/// Stops all running containers among `runs` at the same time. True while any container runs.
pub fn stop(
    case: Case<'_>,
    part: &mut PodPlan,
    runs: &[&Run<'_>],
    grace_s: Option<u64>,
    address: &str,
    why: StopReason,
) -> bool {
    let mut stops = Vec::new();
    let mut alive = false;
    for run in runs.iter().filter(|run| run.seen.runs()) {
        alive = true;
        let grace_ms = if run.tag.is_sandbox() {
            SANDBOX_GRACE_MS
        } else {
            // As in a kubelet, a grace period of 0 becomes 1 second.
            i64::try_from(grace_s.unwrap_or(run.tag.grace_s)).unwrap_or(i64::MAX / 1000).clamp(1, i64::MAX / 1000)
                * 1000
        };
        match case.world.memory.stops.get(&run.seen.id) {
            None => stops.push(Stop {
                id: run.seen.id.clone(),
                container: run.tag.container.clone(),
                paused: run.seen.beside.paused,
                pre_stop: pre_stop(case, run).filter(|_| why != StopReason::AllRestart).map(|check| check.at(address)),
                signal: run.tag.stop_signal.clone(),
                grace_ms,
            }),
            Some(stopping) => {
                let signalled_ms = stopping.signalled_ms.unwrap_or(stopping.since_ms);
                let kill_at_ms = match stopping.killed_ms {
                    Some(killed_ms) => killed_ms.saturating_add(KILL_AGAIN_MS),
                    None => stopping
                        .since_ms
                        .saturating_add(grace_ms)
                        .max(signalled_ms.saturating_add(AFTER_SIGNAL_MS_MIN.min(grace_ms))),
                };
                if !case.rules.hold(Rule::GraceEnds) {
                    continue;
                }
                if case.now.mono_ms >= kill_at_ms {
                    part.act(
                        ActionKind::Kill { id: run.seen.id.clone(), container: run.tag.container.clone() },
                        format!("its grace of {} s is over", grace_ms / 1000),
                    );
                } else {
                    part.wake_at(kill_at_ms);
                }
            }
        }
    }
    if !stops.is_empty() {
        let reason = why.to_string();
        part.act(ActionKind::Stop { stops, why }, reason);
    }
    alive
}

/// How long the containers of a pod have to end.
pub fn grace_s(wanted: &Wanted) -> u64 {
    let meta = &wanted.pod.metadata;
    let asked = meta.deletion_timestamp.and(meta.deletion_grace_period_seconds);
    let grace = asked.or(wanted.pod.spec.termination_grace_period_seconds).unwrap_or(container::GRACE_S_DEFAULT);
    u64::try_from(grace).unwrap_or(0)
}
