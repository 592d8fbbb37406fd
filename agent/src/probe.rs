//! Probes: each container that runs and asks for one has a task for each of its probes, which ends with it.
//!
//!     Shown -> which probes are due on which containers -> tasks -> results -> verdicts -> the loop
//!
//! A verdict belongs to the engine's container id, so a restart begins anew. Unknown (the engine could not be asked) changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::pod::Probe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::events::now;
use crate::naming::Tag;
use crate::plan::checks::check_of;
use crate::plan::{Verdict, Verdicts};
use crate::runtime::{Check, Failure, Outcome, Runtime, State};
use crate::sync::{Happening, Shown, Subject};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Liveness,
    Readiness,
}

/// Everything that one probe of one container needs.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    check: Check,
    delay: Duration,
    /// The delay counts from here, so that a new agent does not wait for it again.
    started_ms: i64,
    period: Duration,
    limit: Duration,
    successes: u32,
    failures: u32,
    /// The pod and container, for events.
    about: Happening,
}

type Wanted = BTreeMap<(String, Kind), Plan>;

/// Never ends.
pub async fn run<R: Runtime + 'static>(
    runtime: Arc<R>,
    mut shown: watch::Receiver<Arc<Shown>>,
    verdicts: Arc<watch::Sender<Arc<Verdicts>>>,
    happenings: mpsc::Sender<Happening>,
) {
    let mut tasks: BTreeMap<(String, Kind), (Plan, JoinHandle<()>)> = BTreeMap::new();
    loop {
        let wanted = wanted(&shown.borrow_and_update());
        tasks.retain(|key, (plan, task)| {
            let stays = wanted.get(key) == Some(plan);
            if !stays {
                task.abort();
            }
            stays
        });
        verdicts.send_if_modified(|was| {
            let gone: Vec<&String> = was.keys().filter(|id| !wanted.keys().any(|(other, _)| other == *id)).collect();
            if gone.is_empty() {
                return false;
            }
            let kept = was.iter().filter(|(id, _)| !gone.contains(id)).map(|(id, verdict)| (id.clone(), verdict.clone())).collect();
            *was = Arc::new(kept);
            false // A verdict on what is gone is read by nobody.
        });
        for (key, plan) in wanted {
            let (id, kind) = key.clone();
            tasks.entry(key).or_insert_with(|| {
                let task = probe(runtime.clone(), id, kind, plan.clone(), verdicts.clone(), happenings.clone());
                (plan, tokio::task::spawn_local(task))
            });
        }
        if shown.changed().await.is_err() {
            return;
        }
    }
}

fn wanted(shown: &Shown) -> Wanted {
    let world = &shown.world;
    let tagged: Vec<_> = world.containers.iter().filter_map(|seen| Some((seen, Tag::read(&seen.name, &seen.labels)?))).collect();
    let mut plans = Wanted::new();
    for (seen, tag) in tagged.iter().filter(|(seen, tag)| seen.runs() && !tag.is_sandbox()) {
        let Some(wanted) = shown.desired.pods.get(&tag.pod.uid) else { continue };
        let Some(container) = wanted.pod.spec.containers.iter().find(|container| container.name == tag.container) else { continue };
        let sandbox = tagged.iter().find(|(seen, other)| seen.runs() && other.is_sandbox() && other.pod.uid == tag.pod.uid);
        let address = if wanted.pod.spec.host_network {
            Some(world.node.address.clone())
        } else {
            sandbox.and_then(|(sandbox, _)| sandbox.ip.clone())
        };
        for (kind, probe) in [(Kind::Liveness, &container.liveness_probe), (Kind::Readiness, &container.readiness_probe)] {
            let Some(probe) = probe else { continue };
            let Some(check) = check_of(&probe.action, container) else { continue };
            let Some(check) = at(check, address.as_deref()) else { continue };
            let about = Happening {
                subject: Subject::Pod(tag.pod.source),
                namespace: tag.pod.namespace.clone(),
                name: tag.pod.name.clone(),
                uid: tag.pod.uid.clone(),
                container: Some(tag.container.clone()),
                warning: true,
                reason: "Unhealthy".to_owned(),
                message: String::new(),
            };
            plans.insert((seen.id.clone(), kind), plan(probe, check, kind, started_ms(&seen.state), about));
        }
    }
    plans
}

/// An empty host means the pod; None while its address is not known.
fn at(check: Check, address: Option<&str>) -> Option<Check> {
    let filled = |host: String| if host.is_empty() { address.map(str::to_owned) } else { Some(host) };
    Some(match check {
        Check::Exec { command } => Check::Exec { command },
        Check::Http { scheme, host, port, path, headers } => Check::Http { scheme, host: filled(host)?, port, path, headers },
        Check::Tcp { host, port } => Check::Tcp { host: filled(host)?, port },
    })
}

fn started_ms(state: &State) -> i64 {
    match state {
        State::Running { started_ms } => *started_ms,
        State::Created { .. } | State::Exited { .. } => 0,
    }
}

/// Of the delay: between nothing and all of it, whatever the clock did.
fn left(delay: Duration, started_ms: i64, now_ms: i64) -> Duration {
    delay.saturating_sub(Duration::from_millis(u64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or(0)))
}

fn plan(probe: &Probe, check: Check, kind: Kind, started_ms: i64, about: Happening) -> Plan {
    let or = |value: i32, default: u32| u32::try_from(value).ok().filter(|value| *value > 0).unwrap_or(default);
    let seconds = |value: u32| Duration::from_secs(u64::from(value));
    Plan {
        check,
        delay: seconds(or(probe.initial_delay_seconds, 0)),
        started_ms,
        period: seconds(or(probe.period_seconds, 10)),
        limit: seconds(or(probe.timeout_seconds, 1)),
        successes: if kind == Kind::Liveness { 1 } else { or(probe.success_threshold, 1) },
        failures: or(probe.failure_threshold, 3),
        about,
    }
}

async fn probe<R: Runtime>(
    runtime: Arc<R>,
    id: String,
    kind: Kind,
    plan: Plan,
    verdicts: Arc<watch::Sender<Arc<Verdicts>>>,
    happenings: mpsc::Sender<Happening>,
) {
    sleep(left(plan.delay, plan.started_ms, now().seconds().saturating_mul(1000))).await;
    let mut row = Row::default();
    let mut next = Instant::now();
    loop {
        sleep_until(next).await;
        next = (next + plan.period).max(Instant::now());
        let outcome = runtime.check(&id, &plan.check, plan.limit).await;
        if let Ok(outcome) = &outcome
            && !outcome.passed
        {
            let probe = if kind == Kind::Liveness { "Liveness" } else { "Readiness" };
            let message = format!("{probe} probe failed: {}", outcome.output);
            // A full queue loses the event, not the verdict.
            let _ = happenings.try_send(Happening { message, ..plan.about.clone() });
        }
        if let Some(result) = row.take(outcome, &plan) {
            verdicts.send_if_modified(|was| {
                let verdict = apply(was.get(&id), kind, result);
                if was.get(&id) == Some(&verdict) {
                    return false;
                }
                Arc::make_mut(was).insert(id.clone(), verdict);
                true
            });
        }
    }
}

/// Results of one kind in a row.
#[derive(Default)]
struct Row {
    passed: u32,
    failed: u32,
}

impl Row {
    /// Some when a threshold is reached: that it passes, or the words of the last failure.
    fn take(&mut self, outcome: Result<Outcome, Failure>, plan: &Plan) -> Option<Result<(), String>> {
        let outcome = outcome.ok()?;
        if outcome.passed {
            *self = Row { passed: self.passed.saturating_add(1), failed: 0 };
            (self.passed >= plan.successes).then_some(Ok(()))
        } else {
            *self = Row { passed: 0, failed: self.failed.saturating_add(1) };
            (self.failed >= plan.failures).then_some(Err(outcome.output))
        }
    }
}

fn apply(was: Option<&Verdict>, kind: Kind, result: Result<(), String>) -> Verdict {
    let mut verdict = was.cloned().unwrap_or_default();
    match (kind, result) {
        (Kind::Readiness, result) => verdict.ready = Some(result.is_ok()),
        (Kind::Liveness, result) => verdict.dead = result.err(),
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Source;

    #[test]
    fn a_delay_counts_from_the_start_of_the_container() {
        let check = |now_ms: i64, left_s: u64| assert_eq!(left(Duration::from_secs(5), 10_000, now_ms), Duration::from_secs(left_s));
        check(10_000, 5);
        check(13_000, 2);
        check(99_000, 0);
        // A clock that was set back.
        check(0, 5);
    }

    fn check(successes: u32, failures: u32, results: &str, expected: &str) {
        let about = Happening {
            subject: Subject::Pod(Source::Master),
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
            container: None,
            warning: true,
            reason: String::new(),
            message: String::new(),
        };
        let second = Duration::from_secs(1);
        let check = Check::Exec { command: Vec::new() };
        let plan = Plan { check, delay: second, started_ms: 0, period: second, limit: second, successes, failures, about };
        let mut row = Row::default();
        let found: String = results
            .chars()
            .map(|result| {
                let outcome = match result {
                    '?' => Err(Failure::Unavailable(String::new())),
                    result => Ok(Outcome { passed: result == '+', exit_code: None, output: String::new() }),
                };
                match row.take(outcome, &plan) {
                    None => '.',
                    Some(Ok(())) => '+',
                    Some(Err(_)) => '-',
                }
            })
            .collect();
        assert_eq!(found, expected, "{results}");
    }

    #[test]
    fn thresholds_count_in_a_row_and_unknown_counts_for_nothing() {
        check(1, 3, "--+---", "..+..-");
        check(2, 1, "+-++", ".-.+");
        check(1, 3, "--?-", "...-");
    }
}
