//! The volumes that the agent fills itself: all of them before the sandbox starts, and again when what they hold
//! changes. PURE.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_api::pod::Volume as PodVolume;

use super::round::{ActionKind, PodPlan};
use super::rules::Rule;
use super::waiting::{WaitReason, Waiting};
use super::world::PodCase;
use crate::claims;
use crate::desired::Desired;
use crate::plan::world::Node;
use crate::projection::{self, Missing};
use crate::runtime::{NamedVolume, Volume};
use crate::volumes::{Home, content_dir};

/// The paths that a look has to tell of.
pub fn paths(desired: &Desired, node: &Node) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for wanted in desired.pods.values() {
        let home = Home::of(node, wanted);
        let filled = wanted.pod.spec.volumes.iter().filter(|volume| projection::is_one(volume));
        paths.extend(filled.map(|volume| content_dir(volume, &home)));
    }
    paths
}

/// The pod's volumes, each claim with what it is bound to; None while one is not.
pub fn claimed(pod: PodCase<'_>, part: &mut PodPlan) -> Option<Vec<PodVolume>> {
    match claims::resolve_all(pod.wanted, pod.case.desired) {
        Ok(volumes) => Some(volumes),
        Err(Missing::Asked) => None,
        Err(Missing::Failed(text)) => {
            // One for all of them, as a kubelet tells it.
            part.waits.notes.insert("claims".to_owned(), Waiting::new(WaitReason::FailedMount, text));
            None
        }
    }
}

/// The volumes to write before the sandbox starts; None while something is missing.
pub fn all(pod: PodCase<'_>, part: &mut PodPlan) -> Option<Vec<NamedVolume>> {
    fill(pod, part, true)
}

/// Brings what a running pod mounts up to date. What is missing by now stays as it is.
pub fn refresh(pod: PodCase<'_>, part: &mut PodPlan) {
    if !pod.case.rules.hold(Rule::ContentsFollow) {
        return;
    }
    let volumes = fill(pod, part, false).unwrap_or_default();
    if !volumes.is_empty() {
        part.act(ActionKind::MakeVolumes { volumes }, "what it mounts has changed");
    }
}

/// `anew`: whatever there is, a power cut may have left half of it.
fn fill(pod: PodCase<'_>, part: &mut PodPlan, anew: bool) -> Option<Vec<NamedVolume>> {
    let PodCase { case, wanted, .. } = pod;
    let node = &case.world.node;
    let home = Home::of(node, wanted);
    let (mut volumes, mut whole) = (Vec::new(), true);
    for volume in wanted.pod.spec.volumes.iter().filter(|volume| projection::is_one(volume)) {
        let path = content_dir(volume, &home);
        let there = case.world.contents.get(&path);
        let failed = match projection::look(volume, wanted, case.desired, node) {
            Ok(found) if !anew && there.is_some_and(|there| found.kept || *there == found.stamp) => continue,
            Ok(found) => match found.content() {
                Ok(content) => {
                    let content = Volume::Content { path, content: Arc::new(content) };
                    volumes.push(NamedVolume { name: volume.name.clone(), volume: content });
                    continue;
                }
                Err(text) => Some(text),
            },
            Err(Missing::Failed(text)) => Some(text),
            Err(Missing::Asked) => None,
        };
        whole = false;
        if let Some(text) = failed {
            let text = format!("MountVolume.SetUp failed for volume \"{}\" : {text}", volume.name);
            part.waits.notes.insert(format!("volume {}", volume.name), Waiting::new(WaitReason::FailedMount, text));
        }
    }
    (whole || !anew || !case.rules.hold(Rule::ContentsComeFirst)).then_some(volumes)
}
