//! The sandbox of a pod: the pause container that holds its network and IPC. PURE.

use super::rules::Rule;
use super::{contents, stops};
use crate::facts::backoff::{restart_wait_ms, words};
use crate::facts::engine::{ContainerConfig, State};
use crate::facts::memory::Lost;
use crate::facts::naming::SANDBOX;
use crate::facts::ports::{TakenPorts, host_ports};
use crate::facts::resolv;
use crate::facts::restarts::Restart;
use crate::facts::round::{ActionKind, Begin, PodPlan, Start, StopReason};
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::plan::case::{Case, PodCase};
use crate::spec::{container, runtime_class, volumes};

/// A sandbox that members can join.
pub enum Sandbox {
    /// Up, or started by the actions so far. The address is empty where it is not known yet.
    Up { attempt: u32, address: String },
    /// Not in this round.
    Waits,
}

/// The sandbox that runs and is as it was asked for.
fn current<'a>(pod: PodCase<'a>) -> Option<&'a Run<'a>> {
    let newest = seen::of(pod.runs, SANDBOX).next()?;
    let fits = newest.tag.hash == pod.wanted.sandbox_hash || !pod.case.rules.hold(Rule::EditsReplaceTheSandbox);
    let restarted = restart(pod).replaces(newest.tag.attempt) || newest.tag.attempt < pod.sandbox_min();
    (newest.seen.lives() && fits && !restarted).then_some(newest)
}

/// The restart of the pod that somebody asked for.
fn restart(pod: PodCase<'_>) -> Restart {
    pod.case.world.restart(&pod.wanted.name.uid)
}

/// Ends the containers of earlier sandboxes, then brings the sandbox up.
pub fn bring_up(pod: PodCase<'_>, part: &mut PodPlan, ports: &mut TakenPorts) -> Sandbox {
    let PodCase { case, wanted, runs, address, .. } = pod;
    let current = current(pod);
    if let Some(run) = current {
        return match end_others(pod, part, Some(run.tag.attempt), StopReason::SandboxGone) {
            true => Sandbox::Waits,
            false => {
                contents::refresh(pod, part);
                Sandbox::Up { attempt: run.tag.attempt, address: address.to_owned() }
            }
        };
    }
    let why = match seen::of(runs, SANDBOX).next() {
        Some(run) if run.tag.attempt < pod.sandbox_min() => StopReason::Updated,
        Some(run) if restart(pod).replaces(run.tag.attempt) => StopReason::Restarted,
        Some(run) if run.seen.lives() => StopReason::SandboxEdited,
        _ => StopReason::SandboxGone,
    };
    let wants = host_ports(&wanted.pod.spec);
    if end_others(pod, part, None, why) {
        // Its ports stay its own while the old ones end: a pod that waited for one must not slip in between.
        if ports.clash(&wanted.name, &wants).is_none() {
            ports.take(&wanted.name, &wants);
        }
        return Sandbox::Waits;
    }
    if let Some(clash) = ports.clash(&wanted.name, &wants)
        && case.rules.hold(Rule::PortsAreTaken)
    {
        part.waits.pod = Some(Waiting::new(WaitReason::HostPortTaken, clash.shown_in(&wanted.name.namespace)));
        return Sandbox::Waits;
    }
    start(pod, part, ports)
}

/// Removals before additions: true while containers of any other sandbox run. Nothing new starts until then.
fn end_others(pod: PodCase<'_>, part: &mut PodPlan, current: Option<u32>, why: StopReason) -> bool {
    let PodCase { case, runs, address, .. } = pod;
    let strays: Vec<&Run> = seen::members(runs).filter(|run| Some(run.tag.sandbox) != current).collect();
    let old: Vec<&Run> =
        seen::of(runs, SANDBOX).filter(|run| Some(run.tag.attempt) != current || run.seen.beside.undead).collect();
    let mut alive = false;
    if case.rules.hold(Rule::MembersFollowTheirSandbox) {
        alive = stops::stop_in_turns(case, part, &strays, None, address, &why);
    }
    if !alive {
        alive = stops::stop(case, part, &old, None, address, why);
    }
    alive && case.rules.hold(Rule::RemovalsFirst)
}

/// With the runtime and the names that the pod asks for.
fn named(case: Case<'_>, wanted: &Wanted, config: ContainerConfig) -> Result<ContainerConfig, Waiting> {
    let runtime = runtime_class::handler(case.desired, wanted)?;
    container::with_names(ContainerConfig { runtime, ..config }, &case.world.node, wanted, &case.desired.dns)
}

/// One that was made and never begun is begun, or goes where it is not what is wanted now.
fn half_made(pod: PodCase<'_>, part: &mut PodPlan, ports: &mut TakenPorts, newest: &Run<'_>, address: &str) -> Sandbox {
    let wanted = pod.wanted;
    if newest.tag.hash == wanted.sandbox_hash && newest.tag.attempt >= pod.sandbox_min() {
        ports.take(&wanted.name, &newest.tag.host_ports);
        let begin = Begin { id: newest.seen.id.clone(), container: SANDBOX.to_owned(), post_start: None };
        part.act(ActionKind::Begin(Box::new(begin)), "it was made and not started");
        return Sandbox::Up { attempt: newest.tag.attempt, address: address.to_owned() };
    }
    part.act(
        ActionKind::Remove { id: newest.seen.id.clone(), container: SANDBOX.to_owned() },
        "it was made for what is no longer wanted",
    );
    Sandbox::Waits
}

/// How the last start went.
struct LastStart<'a> {
    step: u32,
    /// When it ended.
    at_ms: i64,
    ran_fine: bool,
    hash: &'a str,
    /// The reason for the end, if the engine reports a reason.
    text: Option<String>,
}

fn last_start<'a>(case: Case<'_>, newest: Option<&'a Run<'_>>, lost: Option<&'a Lost>) -> Option<LastStart<'a>> {
    if let Some(Lost { step, at_ms, hash, text, .. }) = lost {
        return Some(LastStart { step: *step, at_ms: *at_ms, ran_fine: false, hash, text: Some(text.clone()) });
    }
    let run = newest?;
    let death = case.world.memory.lives.get(&run.seen.id).and_then(|life| life.death);
    let text = match &run.seen.state {
        State::Created { refused: Some(text) } => Some(text.clone()),
        _ => None,
    };
    let (at_ms, ran_fine) = death.map_or((case.now.mono_ms, false), |death| (death.at_ms, death.ran_fine));
    Some(LastStart { step: run.tag.step, at_ms, ran_fine, hash: run.tag.hash.as_str(), text })
}

fn start(pod: PodCase<'_>, part: &mut PodPlan, ports: &mut TakenPorts) -> Sandbox {
    let PodCase { case, wanted, runs, .. } = pod;
    let node = &case.world.node;
    // On the host's network the address is known before it is up.
    let address = seen::address(&[], wanted.pod.spec.host_network, &node.address).unwrap_or_default().to_owned();
    let hash = wanted.sandbox_hash.clone();
    let newest = seen::of(runs, SANDBOX).next();
    if let Some(run) = newest
        && run.seen.state == (State::Created { refused: None })
        && case.rules.hold(Rule::HalfMadeIsBegun)
    {
        return half_made(pod, part, ports, run, &address);
    }
    let lost = case.world.memory.lost.get(&(wanted.name.uid.clone(), SANDBOX.to_owned()));
    let lost = lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt));
    // Containers of a removed sandbox still carry its number in their labels: this keeps a number from being used
    // twice.
    let used = runs.iter().map(|run| run.tag.sandbox).chain(lost.map(|lost| lost.attempt));
    let highest = used.chain(restart(pod).sandbox).max();
    let (mut step, mut reason) = (0, "it is wanted".to_owned());
    if newest.is_some_and(|run| restart(pod).replaces(run.tag.attempt)) {
        reason = StopReason::Restarted.to_string();
    } else if let Some(LastStart { step: last_step, at_ms, ran_fine, hash: last_hash, text }) =
        last_start(case, newest, lost)
        && last_hash == hash
        && highest.is_some_and(|highest| highest >= pod.sandbox_min())
    {
        let wait_ms = if ran_fine { 0 } else { restart_wait_ms(last_step) };
        step = if ran_fine { 1 } else { last_step.saturating_add(1) };
        if case.now.mono_ms < at_ms.saturating_add(wait_ms) && case.rules.hold(Rule::RestartsBackOff) {
            part.wake_at(at_ms.saturating_add(wait_ms));
            let text = text.unwrap_or_else(|| "the sandbox ended".to_owned());
            part.waits.pod = Some(Waiting::new(
                WaitReason::SandboxBackOff,
                format!("back-off {} starting the sandbox: {text}", words(wait_ms)),
            ));
            return Sandbox::Waits;
        }
        reason = "its sandbox ended".to_owned();
    }
    let attempt = highest.map_or(0, |highest| highest.saturating_add(1)).max(pod.sandbox_min());
    let (Some(bound), Some(contents)) = (contents::claimed(pod, part), contents::all(pod, part)) else {
        return Sandbox::Waits;
    };
    let resolver = resolv::of_pod(&wanted.pod.spec, &wanted.name.namespace, &case.desired.dns);
    for message in resolver.trouble {
        part.act(ActionKind::Warn { reason: "DNSConfigForming", message }, "its wishes for names do not fit");
    }
    let config = container::sandbox_config(node, wanted, &bound, attempt, step, hash);
    let config = match named(case, wanted, config) {
        Ok(config) => config,
        Err(waiting) => {
            part.waits.pod = Some(waiting);
            return Sandbox::Waits;
        }
    };
    let config = container::with_resolver(config, node, &wanted.name.uid, resolver.text);
    let mut volumes = volumes::needed(&bound, &volumes::Home::of(node, wanted));
    volumes.extend(contents);
    if !volumes.is_empty() {
        part.act(ActionKind::MakeVolumes { volumes }, "its containers mount them");
    }
    ports.take(&wanted.name, &host_ports(&wanted.pod.spec));
    let start = Start {
        pod: wanted.name.clone(),
        container: SANDBOX.to_owned(),
        attempt,
        step,
        config,
        post_start: None,
        present: false,
    };
    part.act(ActionKind::Start(Box::new(start)), reason);
    Sandbox::Up { attempt, address }
}
