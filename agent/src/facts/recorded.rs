//! Reads from a pod's status whether a container was started, and whether the container has ended for good. PURE.

use serde_json::Value;

use crate::facts::members::{Member, MemberKind};

/// A container's part of a pod's status.
pub fn status_of<'a>(status: &'a Value, member: &Member<'_>) -> Option<&'a Value> {
    let statuses = status[member.kind.statuses()].as_array().into_iter().flatten();
    statuses.into_iter().find(|status| status["name"] == member.spec.name.as_str())
}

/// A container's part of a status that says that it has ended, and will not be started again.
pub fn ended_for_good<'a>(status: &'a Value, policy: &str, member: &Member<'_>) -> Option<&'a Value> {
    status_of(status, member).filter(|status| exit_code(status).is_some_and(|code| is_final(member, policy, code)))
}

/// An init container that has succeeded runs again in a new sandbox, where its master takes such a word.
fn is_final(member: &Member<'_>, policy: &str, code: i32) -> bool {
    match member.kind {
        MemberKind::Init => !member.spec.starts_again(policy, code),
        MemberKind::Ephemeral | MemberKind::Sidecar | MemberKind::Main => !starts_again(member, policy, code),
    }
}

pub(crate) fn starts_again(member: &Member<'_>, policy: &str, exit_code: i32) -> bool {
    match member.kind {
        MemberKind::Ephemeral => false,
        MemberKind::Sidecar => true,
        MemberKind::Init => exit_code != 0 && member.spec.starts_again(policy, exit_code),
        MemberKind::Main => member.spec.starts_again(policy, exit_code),
    }
}

/// The exit code of a container that has ended.
pub(crate) fn exit_code(status: &Value) -> Option<i32> {
    let ended = status["state"]["terminated"].as_object()?;
    Some(ended.get("exitCode").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(0))
}

pub(crate) fn was_started(status: &Value) -> bool {
    !status["state"]["waiting"].is_object() && status["containerID"].is_string()
}
