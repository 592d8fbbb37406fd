//! One line on the state of the agent for `systemctl status`: "3 pods run, 1 waits: web: image not found". PURE.

use serde_json::Value;

use crate::facts::shown::Shown;

/// The limit for the reasons: they must fit a terminal.
const REASONS_MAX: usize = 3;
const REASON_CHARS_MAX: usize = 120;

pub fn line(shown: &Shown) -> String {
    if let Some((trouble, _)) = &shown.engine_trouble {
        return format!("the engine does not answer: {trouble}");
    }
    if !shown.looked {
        return "waits for the engine".to_owned();
    }
    let (mut run, mut ended, mut waiting) = (0, 0, Vec::new());
    for (uid, wanted) in &shown.desired.pods {
        let status = shown.statuses.get(uid).unwrap_or(&Value::Null);
        match (status["phase"].as_str(), trouble(status)) {
            (Some("Succeeded"), _) => ended += 1,
            (Some("Running"), None) => run += 1,
            (_, trouble) => {
                let trouble = trouble.unwrap_or_else(|| short(note(shown, uid).unwrap_or("starting")));
                waiting.push(format!("{}: {trouble}", wanted.name.name));
            }
        }
    }
    let count = |count: usize, verb: &str, verbs: &str| match count {
        1 => format!("1 pod {verb}"),
        count => format!("{count} pods {verbs}"),
    };
    let mut parts = vec![count(run, "runs", "run")];
    if ended > 0 {
        parts.push(format!("{ended} ended"));
    }
    if !waiting.is_empty() {
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        let more = if waiting.len() > REASONS_MAX { ", ..." } else { "" };
        parts.push(format!("{} {verb}: {}{more}", waiting.len(), waiting[..waiting.len().min(REASONS_MAX)].join(", ")));
    }
    parts.join(", ")
}

/// The pod's reason to wait that is not in the status: a kubelet reports the reason only in events.
pub fn note<'a>(shown: &'a Shown, uid: &str) -> Option<&'a str> {
    shown.waits.get(uid)?.notes.values().map(|waiting| waiting.message.as_str()).find(|message| !message.is_empty())
}

/// The first reason why a pod is not what it should be.
pub fn trouble(status: &Value) -> Option<String> {
    const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let containers = || {
        let lists = [("init container", "initContainerStatuses"), ("container", "containerStatuses")];
        lists.into_iter().flat_map(|(kind, list)| {
            status[list].as_array().into_iter().flatten().map(move |container| (kind, container))
        })
    };
    let waits = |(_, container): (&str, &Value)| {
        let state = &container["state"]["waiting"];
        let reason = state["reason"].as_str().filter(|reason| !USUAL.contains(reason))?;
        Some(state["message"].as_str().filter(|message| !message.is_empty()).unwrap_or(reason).to_owned())
    };
    let own = || status["message"].as_str().or_else(|| status["reason"].as_str()).filter(|text| !text.is_empty());
    let ended = |(kind, container): (&str, &Value)| {
        let code = container["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)?;
        Some(format!("{kind} {} ended with exit code {code}", container["name"].as_str().unwrap_or_default()))
    };
    let text =
        containers().find_map(waits).or_else(|| own().map(str::to_owned)).or_else(|| containers().find_map(ended))?;
    Some(short(&text))
}

fn short(text: &str) -> String {
    text.chars().take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::naming::Source;
    use crate::facts::waiting::{WaitReason, Waiting, Waits};
    use crate::facts::wanted::Wanted;
    use serde_json::json;
    use std::sync::Arc;

    fn check(pods: &[(&str, Value)], expected: &str) {
        let mut shown = Shown { looked: true, ..Shown::default() };
        let mut desired = Desired::default();
        for (name, status) in pods {
            let document = json!({"metadata": {"namespace": "default", "name": name, "uid": name}});
            desired.pods.insert((*name).to_owned(), Arc::new(Wanted::new(Source::File, document).unwrap()));
            shown.statuses.insert((*name).to_owned(), status.clone());
        }
        let missing = Waiting::new(WaitReason::FailedMount, "no secret \"s\"");
        let waits = Waits { notes: [("volume s".to_owned(), missing)].into(), ..Waits::default() };
        shown.waits.insert("noted".to_owned(), waits);
        shown.desired = Arc::new(desired);
        assert_eq!(line(&shown), expected);
    }

    #[test]
    fn in_words() {
        let running = json!({"phase": "Running"});
        let waits = json!({
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "image not found"}}}],
        });
        check(&[], "0 pods run");
        check(&[("a", running.clone())], "1 pod runs");
        check(&[("a", running.clone()), ("b", running), ("web", waits)], "2 pods run, 1 waits: web: image not found");
        check(&[("a", json!({"phase": "Pending"}))], "0 pods run, 1 waits: a: starting");
        check(&[("noted", json!({"phase": "Pending"}))], "0 pods run, 1 waits: noted: no secret \"s\"");
        let failed = json!({
            "phase": "Failed",
            "initContainerStatuses": [{"name": "fill", "state": {"terminated": {"exitCode": 5}}}],
            "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}],
        });
        check(&[("a", failed)], "0 pods run, 1 waits: a: init container fill ended with exit code 5");
    }
}
