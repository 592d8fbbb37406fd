//! The order in which the containers of a pod start: init containers one after the other with sidecars among them, then
//! the main ones beside each other. PURE.

use super::containers::Story;
use super::renewal;
use super::rules::Rule;
use crate::facts::members::{Member, MemberKind};
use crate::facts::restarts::Restart;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;
use crate::facts::world::World;
use crate::plan::case::PodCase;

/// For each container, in the same order: whether it may run now, and start where it does not.
pub fn turns(pod: PodCase<'_>, stories: &[Story<'_>], sandbox: u32) -> Vec<bool> {
    let in_order = pod.case.rules.hold(Rule::InitContainersComeFirst);
    let initialized = is_initialized_in(pod.wanted, pod.runs, Some(sandbox), pod.renewal.number);
    let mut open = true;
    let mut turn = |story: &Story<'_>| {
        let (turn, opens_next) = match story.member.kind {
            // It does not start again beside the main containers.
            MemberKind::Init => (!initialized && !story.done_in(sandbox), story.done_in(sandbox)),
            MemberKind::Sidecar if !pod.case.rules.hold(Rule::SidecarsComeUpFirst) => (true, true),
            MemberKind::Sidecar if story.stale => (true, false),
            MemberKind::Sidecar => (true, has_started(pod.case.world, &story.member, story.newest, sandbox)),
            MemberKind::Main | MemberKind::Ephemeral => (true, true),
        };
        let turn = turn && open;
        open &= opens_next || initialized || !in_order;
        turn
    };
    stories.iter().map(&mut turn).collect()
}

/// Whether the init containers are over: a main container was made in the newest sandbox, since all were started anew.
pub fn is_initialized(wanted: &Wanted, runs: &[Run<'_>], restart: Restart) -> bool {
    let round = renewal::of(wanted, runs, restart.round).number;
    is_initialized_in(wanted, runs, runs.iter().map(|run| run.tag.sandbox).max(), round)
}

fn is_initialized_in(wanted: &Wanted, runs: &[Run<'_>], sandbox: Option<u32>, round: u32) -> bool {
    let is_main =
        |run: &Run<'_>| wanted.member(&run.tag.container).is_some_and(|member| member.kind == MemberKind::Main);
    let made = |run: &Run<'_>| Some(run.tag.sandbox) == sandbox && run.tag.renewal == round && is_main(run);
    wanted.pod.spec.init_containers.is_empty() || seen::members(runs).any(made)
}

/// It runs, and its startup probe has passed.
pub fn is_up(world: &World, member: &Member<'_>, run: &Run<'_>) -> bool {
    let id = &run.seen.id;
    let hooks = &world.memory;
    let passed = member.spec.startup_probe.is_none() || world.verdicts.get(id).is_some_and(|verdict| verdict.started);
    run.seen.lives() && passed && !hooks.hooks_running.contains(id) && !hooks.hooks_failed.contains_key(id)
}

fn has_started(world: &World, member: &Member<'_>, newest: Option<&Run<'_>>, sandbox: u32) -> bool {
    newest.is_some_and(|run| run.tag.sandbox == sandbox && is_up(world, member, run))
}
