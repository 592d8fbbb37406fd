//! Containers that run and are to use more or less than they were made with. PURE.
//!
//! The engine changes the limits of a running container. A container is replaced, as after an edit, if its
//! `resizePolicy` asks for a restart, or if a limit is removed, because no engine can remove a limit.

use serde_json::{Value, json};

use super::containers::Story;
use super::rules::Rule;
use crate::facts::engine::Limits;
use crate::facts::members::{Member, MemberKind};
use crate::facts::round::{ActionKind, PodPlan, Resize};
use crate::facts::seen::Run;
use crate::facts::wanted::Wanted;
use crate::plan::case::PodCase;
use crate::spec::container::{CPU_SHARES_MIN, limits};

/// The new limits of a running container; None: they are as wanted, or unknown.
pub fn wanted_of(wanted: &Wanted, member: &Member<'_>, run: &Run<'_>) -> Option<Limits> {
    let now = run.seen.limits.filter(|_| run.seen.lives())?;
    let mut wanted = limits(&wanted.pod.spec, member.spec);
    // Earlier agents set no cpu shares where the pod requested none: their containers keep 0 and are not resized.
    if wanted.cpu_shares == CPU_SHARES_MIN && now.cpu_shares == 0 {
        wanted.cpu_shares = 0;
    }
    (wanted != now).then_some(wanted)
}

/// Whether what has changed can only be had by a new start.
pub fn restarts(wanted: &Wanted, member: &Member<'_>, run: &Run<'_>) -> bool {
    let Some((wanted, now)) = wanted_of(wanted, member, run).zip(run.seen.limits) else { return false };
    let cpu = (wanted.cpu_shares, wanted.cpu_quota_us) != (now.cpu_shares, now.cpu_quota_us);
    let memory = wanted.memory_bytes != now.memory_bytes;
    let asks = |name: &str| {
        member
            .spec
            .resize_policy
            .iter()
            .any(|one| one.resource_name == name && one.restart_policy == "RestartContainer")
    };
    let lost = wanted.cpu_quota_us == 0 && now.cpu_quota_us > 0 || wanted.memory_bytes == 0 && now.memory_bytes > 0;
    lost || cpu && asks("cpu") || memory && asks("memory")
}

/// Resizes all containers of the pod in a single action.
pub fn resize(pod: PodCase<'_>, part: &mut PodPlan, stories: &[Story<'_>]) {
    let resizes: Vec<Resize> = stories
        .iter()
        .filter(|story| {
            story.same && !pod.case.world.memory.stops.contains_key(story.newest.map_or("", |run| &run.seen.id))
        })
        .filter_map(|story| {
            let run = story.newest?;
            let limits = wanted_of(pod.wanted, &story.member, run)?;
            Some(Resize { id: run.seen.id.clone(), container: story.member.spec.name.clone(), limits })
        })
        .collect();
    if !resizes.is_empty() && pod.case.rules.hold(Rule::ResizesAreMade) {
        part.act(
            ActionKind::Resize { resizes, summary: summary(pod.wanted, None) },
            "they may use more or less than before",
        );
    }
}

/// As the events tell it.
pub fn summary(wanted: &Wanted, error: Option<&str>) -> String {
    let of = |kinds: &[MemberKind]| -> Vec<Value> {
        let members = wanted.members().filter(|member| kinds.contains(&member.kind));
        members
            .map(|member| json!({"name": member.spec.name, "resources": wanted.document_of(&member)["resources"]}))
            .collect()
    };
    let mut text = json!({"containers": of(&[MemberKind::Main]), "generation": wanted.pod.metadata.generation});
    let init = of(&[MemberKind::Init, MemberKind::Sidecar]);
    if !init.is_empty() {
        text["initContainers"] = init.into();
    }
    if wanted.document["spec"]["resources"].is_object() {
        text["resources"] = wanted.document["spec"]["resources"].clone();
    }
    if let Some(error) = error {
        text["error"] = error.into();
    }
    text.to_string()
}
