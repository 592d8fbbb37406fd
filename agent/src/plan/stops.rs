//! Ends what has to end: preStop and the signal, then SIGKILL when the grace is over. PURE.
//!
//! A stop under way is two times in `memory`; so a shorter grace that comes later counts at once, and an agent that starts in
//! the middle sends the signal once more.

use super::seen::Run;
use super::{Case, Part, Rule, Stop, What};
use crate::runtime::Check;

/// Whatever preStop took, the process has this long after its signal.
pub const AFTER_SIGNAL_MS_MIN: i64 = 2_000;
/// SIGKILL is sent again where it did not help: the engine may have lost it.
pub const KILL_AGAIN_MS: i64 = 10_000;
/// A sandbox holds nothing and ends at once.
pub const SANDBOX_GRACE_MS: i64 = 2_000;

/// How reasons begin that the Killing event has words of its own for. What its policy leaves dead only stops.
pub const SICK: &str = "its liveness probe failed: ";
pub const SICK_FOR_GOOD: &str = "its liveness probe failed for good: ";
pub const HOOK_FAILED: &str = "its postStart hook failed";

/// In the kubelet's words.
pub fn killing(container: &str, reason: &str) -> String {
    if reason.starts_with(SICK) {
        format!("Container {container} failed liveness probe, will be restarted")
    } else if reason.starts_with(HOOK_FAILED) {
        "FailedPostStartHook".to_owned()
    } else {
        format!("Stopping container {container}")
    }
}

/// All of them get their signal together. Those that do not run are left out; the answer is whether any still does.
pub fn stop(case: Case<'_>, part: &mut Part, runs: &[&Run<'_>], grace_s: Option<u64>, pod_ip: &str, reason: &str) -> bool {
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
                pre_stop: run.tag.pre_stop.clone().map(|check| at_pod(check, pod_ip)),
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
        part.act(What::Stop(stops), reason);
    }
    alive
}

/// A check without a host is for the pod itself.
pub fn at_pod(check: Check, pod_ip: &str) -> Check {
    match check {
        Check::Http { scheme, host, port, path, headers } if host.is_empty() => {
            Check::Http { scheme, host: pod_ip.to_owned(), port, path, headers }
        }
        Check::Tcp { host, port } if host.is_empty() => Check::Tcp { host: pod_ip.to_owned(), port },
        other => other,
    }
}
