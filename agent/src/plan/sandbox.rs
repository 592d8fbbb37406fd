//! The sandbox of a pod: the pause container that holds its network and IPC. PURE.

use super::backoff::{restart_wait_ms, words};
use super::ports::{Ports, host_ports};
use super::round::{Begin, Part, Start, StopReason, What};
use super::rules::Rule;
use super::seen::{self, Run};
use super::stops;
use super::waiting::{WaitReason, Waiting};
use super::world::PodCase;
use crate::container;
use crate::naming::SANDBOX;
use crate::runtime::State;
use crate::volumes;

/// What members can join.
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
    (newest.seen.runs() && fits).then_some(newest)
}

/// Brings the sandbox up; ends what belongs to another one before.
pub fn bring_up(pod: PodCase<'_>, part: &mut Part, ports: &mut Ports) -> Sandbox {
    let PodCase { case, wanted, runs, address } = pod;
    let current = current(pod);
    if let Some(run) = current {
        return match end_others(pod, part, Some(run.tag.attempt), StopReason::SandboxGone) {
            true => Sandbox::Waits,
            false => Sandbox::Up { attempt: run.tag.attempt, address: address.to_owned() },
        };
    }
    let why = match seen::of(runs, SANDBOX).next() {
        Some(run) if run.seen.runs() => StopReason::SandboxEdited,
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
        part.waits.pod = Some(Waiting::new(WaitReason::HostPortTaken, clash));
        return Sandbox::Waits;
    }
    start(pod, part, ports)
}

/// Removals before additions: true while anything of another sandbox than this attempt runs, so that nothing new
/// starts.
fn end_others(pod: PodCase<'_>, part: &mut Part, current: Option<u32>, why: StopReason) -> bool {
    let PodCase { case, runs, address, .. } = pod;
    let strays: Vec<&Run> = seen::members(runs).filter(|run| Some(run.tag.sandbox) != current).collect();
    let old: Vec<&Run> = seen::of(runs, SANDBOX).filter(|run| Some(run.tag.attempt) != current).collect();
    let mut alive = false;
    if case.rules.hold(Rule::MembersFollowTheirSandbox) {
        alive = stops::stop(case, part, &strays, None, address, why.clone());
    }
    if !alive {
        alive = stops::stop(case, part, &old, None, address, why);
    }
    alive && case.rules.hold(Rule::RemovalsFirst)
}

fn start(pod: PodCase<'_>, part: &mut Part, ports: &mut Ports) -> Sandbox {
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
        if run.tag.hash == hash {
            ports.take(&wanted.name, &run.tag.host_ports);
            let begin = Begin { id: run.seen.id.clone(), container: SANDBOX.to_owned(), post_start: None };
            part.act(What::Begin(Box::new(begin)), "it was made and not started");
            return Sandbox::Up { attempt: run.tag.attempt, address };
        }
        part.act(What::Remove { id: run.seen.id.clone(), container: SANDBOX.to_owned() }, "it was made for what is no longer wanted");
        return Sandbox::Waits;
    }
    let lost = case.world.memory.lost.get(&(wanted.name.uid.clone(), SANDBOX.to_owned()));
    let lost = lost.filter(|lost| newest.is_none_or(|run| lost.attempt > run.tag.attempt));
    // Containers whose sandbox was removed still say which one it was: no name is used twice.
    let highest = runs.iter().map(|run| run.tag.sandbox).chain(lost.map(|lost| lost.attempt)).max();
    let mut step = 0;
    let last = match (lost, newest) {
        (Some(lost), _) => Some((lost.step, lost.at_ms, false, lost.hash.as_str(), Some(lost.text.clone()))),
        (None, Some(run)) => {
            let death = case.world.memory.lives.get(&run.seen.id).and_then(|life| life.death);
            let text = match &run.seen.state {
                State::Created { refused: Some(text) } => Some(text.clone()),
                _ => None,
            };
            let (at_ms, ran_fine) = death.map_or((case.now.mono_ms, false), |death| (death.at_ms, death.ran_fine));
            Some((run.tag.step, at_ms, ran_fine, run.tag.hash.as_str(), text))
        }
        (None, None) => None,
    };
    let mut reason = "it is wanted".to_owned();
    if let Some((last_step, at_ms, ran_fine, last_hash, text)) = last
        && last_hash == hash
    {
        let wait_ms = if ran_fine { 0 } else { restart_wait_ms(last_step) };
        step = if ran_fine { 1 } else { last_step.saturating_add(1) };
        if case.now.mono_ms < at_ms.saturating_add(wait_ms) && case.rules.hold(Rule::RestartsBackOff) {
            part.wake_at(at_ms.saturating_add(wait_ms));
            let text = text.unwrap_or_else(|| "the sandbox ended".to_owned());
            part.waits.pod =
                Some(Waiting::new(WaitReason::SandboxBackOff, format!("back-off {} starting the sandbox: {text}", words(wait_ms))));
            return Sandbox::Waits;
        }
        reason = "its sandbox ended".to_owned();
    }
    let attempt = highest.map_or(0, |highest| highest.saturating_add(1));
    let config = container::sandbox_config(node, wanted, attempt, step, hash);
    let volumes = volumes::needed(&wanted.pod.spec, &volumes::Home { data_dir: &node.data_dir, uid: &wanted.name.uid });
    if !volumes.is_empty() {
        part.act(What::MakeVolumes { volumes }, "its containers mount them");
    }
    ports.take(&wanted.name, &host_ports(&wanted.pod.spec));
    let start = Start { pod: wanted.name.clone(), container: SANDBOX.to_owned(), attempt, step, config, post_start: None, present: false };
    part.act(What::Start(Box::new(start)), reason);
    Sandbox::Up { attempt, address }
}
