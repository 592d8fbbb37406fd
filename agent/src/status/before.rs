//! How the start of a container before its newest ended. PURE.

use serde_json::{Value, json};

use super::member::{StatusCase, terminated};
use crate::facts::members::Member;
use crate::facts::memory::{KILLED_CODE, Lost};
use crate::facts::recorded::status_of;
use crate::facts::seen::{self, Run};
use crate::plan::renewal;

/// The end of the start before the newest. If that container is gone, the last reported end counts.
pub(super) fn start_before(
    case: &StatusCase<'_>,
    runs: &[Run<'_>],
    member: &Member<'_>,
    newest: Option<&Run<'_>>,
) -> Value {
    if let Some(run) = seen::of(runs, &member.spec.name).nth(1) {
        let anew = case.wanted.restarts_all() && newest.is_some_and(|newest| run.tag.renewal < newest.tag.renewal);
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

/// The least count of restarts of a container whose ID is `id` now, after the status `shown`. A container that the
/// shown status does not name is a further start.
pub fn least_restarts(id: Option<&str>, shown: &Value) -> u64 {
    let count = shown["restartCount"].as_u64().unwrap_or(0);
    let named = |id: &Value| id.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let before = named(&shown["lastState"]["terminated"]["containerID"]);
    let another =
        |id: &&str| named(&shown["containerID"]).is_some_and(|shown| shown != **id) && before.as_deref() != Some(*id);
    count + u64::from(id.filter(|id| !id.is_empty()).as_ref().is_some_and(another))
}

/// The restart count: the starts of the process, less one. The count never falls below the reported count, even after
/// containers were removed.
pub(super) fn restarts(value: &Value, told: Option<&Value>, newest: Option<&Run<'_>>, lost: Option<&Lost>) -> u64 {
    let begun = lost.filter(|lost| lost.exit_code.is_some()).map(|lost| lost.attempt);
    let known = begun.or(newest.map(Run::restarts)).unwrap_or(0);
    let least = told.map_or(0, |told| least_restarts(value["containerID"].as_str(), told));
    u64::from(known).max(least)
}

/// The reported start time of a container. A restart of its process by another program does not change the time, and an
/// agent that was down in between knows only the second start from the engine.
pub(super) fn told_start<'a>(told: &'a Value, run: &Run<'_>) -> Option<&'a Value> {
    let own = |id: &Value| id.as_str().and_then(|id| id.strip_prefix("docker://")) == Some(run.seen.id.as_str());
    let runs = Some((&told["containerID"], &told["state"]["running"]));
    let ended = [&told["state"]["terminated"], &told["lastState"]["terminated"]].map(|end| (&end["containerID"], end));
    let starts = runs.into_iter().chain(ended).filter(|(id, _)| own(id)).map(|(_, state)| &state["startedAt"]);
    starts.into_iter().find(|start| start.is_string())
}
