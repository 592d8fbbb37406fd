//! How the start of a container before its newest ended. PURE.

use serde_json::Value;

use super::member::{StatusCase, removed, terminated};
use crate::desired::status_of;
use crate::members::Member;
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
        return if anew { removed() } else { terminated(run) };
    }
    let told = newest.zip(status_of(case.was, member)).filter(|(run, status)| {
        status["containerID"].as_str().and_then(|id| id.strip_prefix("docker://")) == Some(run.seen.id.as_str())
    });
    told.map_or(Value::Null, |(_, status)| status["lastState"]["terminated"].clone())
}
