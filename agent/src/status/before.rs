//! How the start of a container before its newest ended. PURE.

use serde_json::{Value, json};

use super::member::{StatusCase, terminated};
use crate::desired::status_of;
use crate::members::Member;
use crate::plan::memory::KILLED_CODE;
use crate::plan::renewal;
use crate::plan::seen::{self, Run};

/// Where nothing is left of it, as it was told while it was there.
pub(super) fn start_before(
    case: &StatusCase<'_>,
    runs: &[Run<'_>],
    member: &Member<'_>,
    newest: Option<&Run<'_>>,
) -> Value {
    if let Some(run) = seen::of(runs, &member.spec.name).nth(1) {
        let anew = newest.is_some_and(|newest| run.tag.renewal < newest.tag.renewal);
        return if anew { removed() } else { terminated(run, status_of(case.was, member)) };
    }
    let told = newest.zip(status_of(case.was, member)).filter(|(run, status)| {
        status["containerID"].as_str().and_then(|id| id.strip_prefix("docker://")) == Some(run.seen.id.as_str())
    });
    told.map_or(Value::Null, |(_, status)| status["lastState"]["terminated"].clone())
}

/// How a container ended that was ended, or had ended, when all began anew.
pub(super) fn removed() -> Value {
    json!({
        "exitCode": KILLED_CODE, "reason": "RestartingAllContainers", "message": renewal::MESSAGE, "startedAt": null,
        "finishedAt": null,
    })
}

/// When it started, as it was told: who starts its process again does not move that, and an agent that was not there
/// knows only the second start.
pub(super) fn told_start<'a>(told: &'a Value, run: &Run<'_>) -> Option<&'a Value> {
    let own = |id: &Value| id.as_str().and_then(|id| id.strip_prefix("docker://")) == Some(run.seen.id.as_str());
    let runs = Some((&told["containerID"], &told["state"]["running"]));
    let ended = [&told["state"]["terminated"], &told["lastState"]["terminated"]].map(|end| (&end["containerID"], end));
    let starts = runs.into_iter().chain(ended).filter(|(id, _)| own(id)).map(|(_, state)| &state["startedAt"]);
    starts.into_iter().find(|start| start.is_string())
}
