//! Dead containers of pods that live. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::round::{ActionKind, PodPlan};
use super::rules::Rule;
use super::seen::Run;
use super::world::Case;

/// Of each container the last two starts stay: what runs, or how it ended, and the one before for lastState and its
/// log.
const STARTS_KEPT: usize = 2;

/// Dead containers of a pod that lives. Of sandboxes only the newest has anything to tell: how often it failed.
pub fn dead(case: Case<'_>, part: &mut PodPlan, runs: &[Run<'_>], sandbox: Option<u32>) {
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut useless = Vec::new();
    let mut numbers = BTreeSet::new();
    for run in runs {
        // Somebody made it beside the one of this number.
        if !numbers.insert((run.tag.container.as_str(), run.tag.attempt)) {
            useless.push(run);
            continue;
        }
        let count = starts.entry(&run.tag.container).or_default();
        *count += 1;
        let kept = if run.tag.is_sandbox() { if sandbox.is_some() { 1 } else { 0 } } else { STARTS_KEPT };
        let outlived = run.tag.is_sandbox() && sandbox.is_some_and(|attempt| run.tag.attempt < attempt);
        if *count > kept || outlived {
            useless.push(run);
        }
    }
    remove(case, part, &useless, "newer ones have taken its place");
}

/// Those of them that do not run.
pub fn remove(case: Case<'_>, part: &mut PodPlan, runs: &[&Run<'_>], reason: &str) {
    for run in runs {
        if !run.seen.runs() && case.rules.hold(Rule::GarbageIsRemoved) {
            part.act(ActionKind::Remove { id: run.seen.id.clone(), container: run.tag.container.clone() }, reason);
        }
    }
}
