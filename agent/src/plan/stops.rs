//! Ends what has to end: preStop and the signal, then SIGKILL when the grace is over. PURE.
//!
//! A stop under way is two times in `memory`; so a shorter grace that comes later counts at once, and an agent that starts in
//! the middle sends the signal once more.

use super::round::{Part, Stop, StopReason, What};
use super::rules::Rule;
use super::seen::Run;
use super::world::Case;

/// Whatever preStop took, the process has this long after its signal.
pub const AFTER_SIGNAL_MS_MIN: i64 = 2_000;
/// SIGKILL is sent again where it did not help: the engine may have lost it.
pub const KILL_AGAIN_MS: i64 = 10_000;
/// A sandbox holds nothing and ends at once.
pub const SANDBOX_GRACE_MS: i64 = 2_000;

/// All of them get their signal together. Those that do not run are left out; the answer is whether any still does.
pub fn stop(case: Case<'_>, part: &mut Part, runs: &[&Run<'_>], grace_s: Option<u64>, address: &str, why: StopReason) -> bool {
    let mut stops = Vec::new();
    let mut alive = false;
    for run in runs.iter().filter(|run| run.seen.runs()) {
        alive = true;
        let grace_ms = if run.tag.is_sandbox() {
            SANDBOX_GRACE_MS
        } else {
            // A grace of 0 is one second, as the kubelet has it.
            i64::try_from(grace_s.unwrap_or(run.tag.grace_s)).unwrap_or(i64::MAX / 1000).clamp(1, i64::MAX / 1000) * 1000
        };
        match case.world.memory.stops.get(&run.seen.id) {
            None => stops.push(Stop {
                id: run.seen.id.clone(),
                container: run.tag.container.clone(),
                pre_stop: run.tag.pre_stop.clone().map(|check| check.at(address)),
                signal: run.tag.stop_signal.clone(),
                grace_ms,
            }),
            Some(stopping) => {
                let signalled_ms = stopping.signalled_ms.unwrap_or(stopping.since_ms);
                let kill_at_ms = match stopping.killed_ms {
                    Some(killed_ms) => killed_ms.saturating_add(KILL_AGAIN_MS),
                    None => stopping.since_ms.saturating_add(grace_ms).max(signalled_ms.saturating_add(AFTER_SIGNAL_MS_MIN.min(grace_ms))),
                };
                if !case.rules.hold(Rule::GraceEnds) {
                    continue;
                }
                if case.now.mono_ms >= kill_at_ms {
                    part.act(
                        What::Kill { id: run.seen.id.clone(), container: run.tag.container.clone() },
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
        part.act(What::Stop { stops, why }, reason);
    }
    alive
}
