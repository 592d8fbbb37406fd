//! Probes: each running container has a task for each of its probes. The task ends with the container.
//!
//! The startup probe goes first, and the others begin when it has passed.
//!
//!     Shown -> the probes that are due, by container -> tasks -> results -> verdicts -> the loop
//!
//! A verdict belongs to the engine's container id, so a restart begins anew. Unknown (the engine could not be asked)
//! changes nothing. A new agent takes the states "started" and "ready" over from the master's pod status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_api::pod::Probe;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::facts::checks::{ProbeKind, check_of};
use crate::facts::clock::now;
use crate::facts::engine::{Check, CheckOutcome, Failure, Purpose, State};
use crate::facts::happening::{Event, Happening};
use crate::facts::heard::MasterPods;
use crate::facts::members::MemberKind;
use crate::facts::naming::{PodName, Tag};
use crate::facts::seen;
use crate::facts::shown::Shown;
use crate::facts::view::ViewPart;
use crate::facts::world::{Dead, Verdict, Verdicts};
use crate::figures::probes::{ProbeResult, Tallies};
use crate::runtime::Runtime;

/// No probe is waited for any longer, whatever it asks for: each that waits holds a connection.
const LIMIT_MAX: Duration = Duration::from_secs(60);
/// The number of probes of a pod that run at once. Further probes wait for their turn.
const AT_ONCE: usize = 16;
/// A probe that could not be run is told after so long: a container that has ended is heard of by then.
const TOLD_AFTER: Duration = Duration::from_millis(500);

/// The settings of a container's probe.
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
    /// For events.
    pod: PodName,
    container: String,
}

/// By the engine's container id.
type Plans = BTreeMap<(String, ProbeKind), Plan>;

/// The receivers of probe results.
#[derive(Clone)]
pub struct Listeners {
    pub happenings: mpsc::Sender<Happening>,
    pub tallies: Arc<Tallies>,
}

/// Never ends.
pub async fn run<R: Runtime + 'static>(
    runtime: Arc<R>,
    mut shown: watch::Receiver<Arc<Shown>>,
    mut heard: ViewPart<MasterPods>,
    verdicts: Arc<watch::Sender<Arc<Verdicts>>>,
    listeners: Listeners,
) {
    let mut tasks: BTreeMap<(String, ProbeKind), (Plan, JoinHandle<()>)> = BTreeMap::new();
    let mut places: BTreeMap<String, Arc<Semaphore>> = BTreeMap::new();
    loop {
        let (seen, known) = (shown.borrow_and_update().clone(), heard.now().unwrap_or_default());
        let carried = carried_over(&seen, &known, &verdicts.borrow());
        if !carried.is_empty() {
            verdicts.send_modify(|verdicts| Arc::make_mut(verdicts).extend(carried));
        }
        listeners.tallies.keep(|uid| seen.desired.pods.contains_key(uid));
        places.retain(|uid, _| seen.desired.pods.contains_key(uid));
        let wanted = plans(&seen, &verdicts.borrow());
        tasks.retain(|key, (plan, task)| {
            let stays = wanted.get(key) == Some(plan);
            if !stays {
                task.abort();
            }
            stays
        });
        verdicts.send_if_modified(|was| {
            // One that has started needs no probe any more and keeps its verdict as long as it runs.
            let running: BTreeSet<&String> =
                seen.world.containers.iter().filter(|seen| seen.lives()).map(|seen| &seen.id).collect();
            if was.keys().any(|id| !running.contains(id)) {
                Arc::make_mut(was).retain(|id, _| running.contains(id));
            }
            false // A verdict on what is gone is read by nobody.
        });
        for (key, plan) in wanted {
            let (id, kind) = key.clone();
            let place = places.entry(plan.pod.uid.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
            tasks.entry(key).or_insert_with(|| {
                let asked = Asked { id, kind, plan: plan.clone(), place: place.clone() };
                let task = probe(runtime.clone(), asked, verdicts.clone(), listeners.clone());
                (plan, tokio::task::spawn_local(task))
            });
        }
        tokio::select! {
            // No chance in it: a seed of the simulation replays its history.
            biased;
            changed = shown.changed() => if changed.is_err() { return },
            // Without a master nothing is ever heard.
            Ok(()) = heard.changed() => {}
        }
    }
}

/// The probes of all running containers. A probe over the network waits until the pod's address is known.
fn plans(shown: &Shown, verdicts: &Verdicts) -> Plans {
    let mut plans = Plans::new();
    for (uid, pod) in seen::group(&shown.world.containers) {
        let Some(wanted) = shown.desired.pods.get(&uid) else { continue };
        let address = seen::address(&pod.runs, wanted.pod.spec.host_network, &shown.world.node.address);
        for run in seen::members(&pod.runs).filter(|run| run.seen.lives()) {
            let Some(member) = wanted.member(&run.tag.container).filter(|member| member.kind.stays()) else { continue };
            let started = member.spec.startup_probe.is_none()
                || verdicts.get(&run.seen.id).is_some_and(|verdict| verdict.started);
            for kind in ProbeKind::ALL.into_iter().filter(|kind| (*kind == ProbeKind::Startup) != started) {
                let Some(probe) = kind.of(member.spec) else { continue };
                let Some(check) = check_of(&probe.action, member.spec) else { continue };
                if check.is_for_pod() && address.is_none() {
                    continue;
                }
                let check = check.at(address.unwrap_or_default());
                let (pod, container) = (run.tag.pod.clone(), run.tag.container.clone());
                let plan = plan(probe, check, kind, started_ms(&run.seen.state), pod, container);
                plans.insert((run.seen.id.clone(), kind), plan);
            }
        }
    }
    plans
}

/// The verdicts for containers that the master shows as started or ready and whose probe has no result yet, as after a
/// restart of the agent. They hold until the first result, because every new agent would otherwise take such containers
/// out of their services for a moment. Pure.
pub fn carried_over(shown: &Shown, heard: &MasterPods, verdicts: &Verdicts) -> Verdicts {
    let statuses: BTreeMap<String, &Value> = heard.pods.values().flat_map(|pod| container_statuses(pod)).collect();
    let mut carried = Verdicts::new();
    for run in shown.world.containers.iter().filter(|seen| seen.lives() && statuses.contains_key(&seen.id)) {
        let Some(tag) = Tag::read(&run.name, &run.labels) else { continue };
        let member = shown.desired.pods.get(&tag.pod.uid).and_then(|wanted| wanted.member(&tag.container));
        let Some(member) = member.filter(|member| member.kind.stays()) else { continue };
        let was = verdicts.get(&run.id).cloned().unwrap_or_default();
        let mut verdict = was.clone();
        let says = |field: &str| statuses[&run.id][field] == true;
        verdict.started |= member.spec.startup_probe.is_some() && says("started");
        if member.spec.readiness_probe.is_some() && says("ready") {
            verdict.ready.get_or_insert(true);
        }
        if verdict != was {
            carried.insert(run.id.clone(), verdict);
        }
    }
    carried
}

/// The statuses of one pod's containers, by the engine's id.
fn container_statuses(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    let lists = [MemberKind::Main, MemberKind::Sidecar].map(|kind| pod["status"][kind.statuses()].as_array());
    let statuses = lists.into_iter().flatten().flatten();
    statuses.filter_map(|status| Some((status["containerID"].as_str()?.strip_prefix("docker://")?.to_owned(), status)))
}

fn started_ms(state: &State) -> i64 {
    match state {
        State::Running { started_ms } => *started_ms,
        State::Created { .. } | State::Exited { .. } => 0,
    }
}

/// The remaining delay: at least zero and at most the whole delay, even after a clock jump.
fn left(delay: Duration, started_ms: i64, now_ms: i64) -> Duration {
    delay.saturating_sub(Duration::from_millis(u64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or(0)))
}

fn plan(probe: &Probe, check: Check, kind: ProbeKind, started_ms: i64, pod: PodName, container: String) -> Plan {
    let or = |value: i32, default: u32| u32::try_from(value).ok().filter(|value| *value > 0).unwrap_or(default);
    let seconds = |value: u32| Duration::from_secs(u64::from(value));
    Plan {
        check,
        delay: seconds(or(probe.initial_delay_seconds, 0)),
        started_ms,
        period: seconds(or(probe.period_seconds, 10)),
        limit: seconds(or(probe.timeout_seconds, 1)).min(LIMIT_MAX),
        successes: if kind == ProbeKind::Readiness { or(probe.success_threshold, 1) } else { 1 },
        failures: or(probe.failure_threshold, 3),
        pod,
        container,
    }
}

/// The parameters of a probe's task.
struct Asked {
    id: String,
    kind: ProbeKind,
    plan: Plan,
    /// Shared by all probes of the pod.
    place: Arc<Semaphore>,
}

async fn probe<R: Runtime>(
    runtime: Arc<R>,
    asked: Asked,
    verdicts: Arc<watch::Sender<Arc<Verdicts>>>,
    listeners: Listeners,
) {
    let Asked { id, kind, plan, place } = asked;
    sleep(left(plan.delay, plan.started_ms, now().seconds().saturating_mul(1000))).await;
    let mut row = Row::default();
    let mut next = Instant::now();
    loop {
        sleep_until(next).await;
        next = (next + plan.period).max(Instant::now());
        let outcome = {
            let _place = place.acquire().await;
            runtime.check(&id, &plan.check, Purpose::Probe, plan.limit).await
        };
        listeners.tallies.count(&plan.pod, &plan.container, kind, found(&outcome));
        if outcome.is_err() {
            sleep(TOLD_AFTER).await;
        }
        if let Some(event) = told(kind, &outcome) {
            // A full queue loses the event, not the verdict.
            let _ = listeners.happenings.try_send(Happening::of_pod(&plan.pod, Some(&plan.container), event));
        }
        if let Some(result) = row.take(outcome, &plan) {
            // A container found dead needs no further probe: its next start gets new probes.
            let dead = result.is_err() && kind != ProbeKind::Readiness;
            verdicts.send_if_modified(|was| {
                let verdict = apply(was.get(&id), kind, result);
                if was.get(&id) == Some(&verdict) {
                    return false;
                }
                Arc::make_mut(was).insert(id.clone(), verdict);
                true
            });
            if dead {
                return;
            }
        }
    }
}

/// The event that reports a result.
fn told(kind: ProbeKind, outcome: &Result<CheckOutcome, Failure>) -> Option<Event> {
    let probe = kind.name();
    match outcome {
        Ok(CheckOutcome { passed: true, note, .. }) => Some(Event::ProbeWarning { probe, text: note.clone()? }),
        Ok(outcome) => Some(Event::Unhealthy { probe, output: outcome.output.clone() }),
        Err(failure) => Some(Event::ProbeErrored { probe, text: failure.to_string() }),
    }
}

fn found(outcome: &Result<CheckOutcome, Failure>) -> ProbeResult {
    match outcome {
        Ok(outcome) if outcome.passed => ProbeResult::Passed,
        Ok(_) => ProbeResult::Failed,
        Err(_) => ProbeResult::Unknown,
    }
}

/// Equal results in a row.
#[derive(Default)]
struct Row {
    passed: u32,
    failed: u32,
}

impl Row {
    /// Some when a threshold is reached: success, or the output of the last failure.
    fn take(&mut self, outcome: Result<CheckOutcome, Failure>, plan: &Plan) -> Option<Result<(), String>> {
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

fn apply(was: Option<&Verdict>, kind: ProbeKind, result: Result<(), String>) -> Verdict {
    let mut verdict = was.cloned().unwrap_or_default();
    match (kind, result) {
        (ProbeKind::Readiness, Ok(())) => (verdict.ready, verdict.unready) = (Some(true), None),
        (ProbeKind::Readiness, Err(output)) => {
            verdict.ready = Some(false);
            verdict.unready.get_or_insert(output);
        }
        (ProbeKind::Startup, Ok(())) => verdict.started = true,
        (probe, result) => verdict.dead = result.err().map(|output| Dead { probe, output }),
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::engine::{Image, SeenContainer};
    use crate::facts::naming::Source;
    use crate::facts::wanted::Wanted;
    use crate::facts::world::{Node, World};
    use crate::spec::container::{Instance, member_config};
    use serde_json::json;

    #[test]
    fn a_delay_counts_from_the_start_of_the_container() {
        let check = |now_ms: i64, left_s: u64| {
            assert_eq!(left(Duration::from_secs(5), 10_000, now_ms), Duration::from_secs(left_s))
        };
        check(10_000, 5);
        check(13_000, 2);
        check(99_000, 0);
        // A clock that was set back.
        check(0, 5);
    }

    #[test]
    fn a_new_agent_takes_nobody_out_of_service() {
        let document = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"hostNetwork": true, "containers": [
                {"name": "c", "image": "i", "readinessProbe": {"tcpSocket": {"port": 80}}},
                {"name": "d", "image": "i"}]},
        });
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let runs = |index: usize, id: &str| {
            let instance = Instance {
                attempt: 0,
                sandbox: 0,
                step: 0,
                renewal: 0,
                hash: String::new(),
                processes_of: None,
                address: String::new(),
            };
            let spec = &wanted.pod.spec.containers[index];
            let config =
                member_config(&Node::default(), &Desired::default(), &wanted, spec, &Image::default(), instance)
                    .unwrap();
            let state = State::Running { started_ms: 0 };
            let (name, labels) = (config.name, config.labels);
            SeenContainer {
                id: id.into(),
                name,
                labels,
                image: "i".into(),
                image_id: "".into(),
                created_ms: 0,
                state,
                ip: None,
                limits: None,
                message: None,
                beside: Default::default(),
            }
        };
        let mut shown = Shown::default();
        Arc::make_mut(&mut shown.desired).pods.insert("u".to_owned(), Arc::new(wanted.clone()));
        shown.world = Arc::new(World { containers: vec![runs(0, "1"), runs(1, "2")], ..World::default() });
        let check = |id: &str, ready: bool, verdicts: &Verdicts, expected: &[&str]| {
            let statuses = json!([{"name": "c", "containerID": format!("docker://{id}"), "ready": ready}]);
            let pod = json!({"metadata": {"uid": "u"}, "status": {"containerStatuses": statuses}});
            let heard = MasterPods { pods: BTreeMap::from([("u".to_owned(), Arc::new(pod))]), listed: true };
            assert_eq!(carried_over(&shown, &heard, verdicts).keys().collect::<Vec<_>>(), expected, "{id} {ready}");
        };
        let failed = Verdict { ready: Some(false), ..Verdict::default() };
        check("1", true, &Verdicts::new(), &["1"]);
        check("1", false, &Verdicts::new(), &[]);
        check("1", true, &Verdicts::from([("1".to_owned(), failed)]), &[]);
        check("2", true, &Verdicts::new(), &[]);
        check("another start", true, &Verdicts::new(), &[]);
    }

    fn check(successes: u32, failures: u32, results: &str, expected: &str) {
        let pod = PodName { source: Source::Master, namespace: String::new(), name: String::new(), uid: String::new() };
        let second = Duration::from_secs(1);
        let check = Check::Exec { command: Vec::new() };
        let plan = Plan {
            check,
            delay: second,
            started_ms: 0,
            period: second,
            limit: second,
            successes,
            failures,
            pod,
            container: String::new(),
        };
        let mut row = Row::default();
        let found: String = results
            .chars()
            .map(|result| {
                let outcome = match result {
                    '?' => Err(Failure::Unavailable(String::new())),
                    result => Ok(CheckOutcome { passed: result == '+', ..CheckOutcome::default() }),
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

    #[test]
    fn what_is_told_of_results() {
        let message = |outcome: Result<CheckOutcome, Failure>| {
            let event = told(ProbeKind::Liveness, &outcome)?;
            let pod =
                PodName { source: Source::Master, namespace: String::new(), name: String::new(), uid: String::new() };
            let Happening { reason, message, warning, .. } = Happening::of_pod(&pod, Some("c"), event);
            assert!(warning);
            Some(format!("{reason}: {message}"))
        };
        let outcome = |passed: bool, output: &str, note: Option<&str>| {
            message(Ok(CheckOutcome { passed, exit_code: None, output: output.into(), note: note.map(str::to_owned) }))
        };
        assert_eq!(outcome(true, "fine", None), None);
        assert_eq!(outcome(false, "no", None).as_deref(), Some("Unhealthy: Liveness probe failed: no"));
        assert_eq!(
            outcome(true, "", Some("redirected")).as_deref(),
            Some("ProbeWarning: Liveness probe warning: redirected")
        );
        assert_eq!(
            message(Err(Failure::Conflict("it is paused".into()))).as_deref(),
            Some("Unhealthy: Liveness probe errored and resulted in unknown state: it is paused")
        );
    }

    #[test]
    fn no_probe_is_waited_for_without_end() {
        let limit = |seconds: i32| {
            let probe = Probe { timeout_seconds: seconds, ..Probe::default() };
            let pod =
                PodName { source: Source::Master, namespace: String::new(), name: String::new(), uid: String::new() };
            let check = Check::Exec { command: Vec::new() };
            plan(&probe, check, ProbeKind::Liveness, 0, pod, String::new()).limit.as_secs()
        };
        assert_eq!([limit(0), limit(5), limit(60), limit(61), limit(i32::MAX)], [1, 5, 60, 60, 60]);
    }
}
