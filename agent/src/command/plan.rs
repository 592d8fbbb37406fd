//! A plan in words. PURE.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::report::Report;
use crate::facts::desired::Desired;
use crate::facts::naming::PodName;
use crate::facts::round::{Round, words};
use crate::facts::seen;
use crate::facts::waiting::Waits;
use crate::facts::world::World;

/// `notes`: what could not be read, and what is not known here.
pub fn report(round: &Round, desired: &Desired, world: &World, notes: &[String]) -> Report {
    let here = seen::group(&world.containers);
    let mut names: BTreeMap<&str, &PodName> = here.iter().map(|(uid, pod)| (uid.as_str(), &pod.name)).collect();
    names.extend(desired.pods.iter().map(|(uid, wanted)| (uid.as_str(), &wanted.name)));
    let pulled = round.pulls.iter().map(|pull| pull.pod.uid.as_str());
    let uids: BTreeSet<&str> = round.pods.keys().chain(round.waits.keys()).map(String::as_str).chain(pulled).collect();
    let mut ordered: Vec<(String, &str)> =
        uids.into_iter().map(|uid| (shown(names.get(uid).copied(), uid), uid)).collect();
    ordered.sort();
    let (mut lines, mut items): (Vec<String>, Vec<Value>) = (Vec::new(), Vec::new());
    for (pod, uid) in ordered {
        let actions = round.pods.get(uid).into_iter().flatten();
        let mut doing: Vec<(String, String)> =
            actions.map(|action| (words(&action.what), action.reason.clone())).collect();
        let pulls = round.pulls.iter().filter(|pull| pull.pod.uid == uid);
        doing.extend(pulls.map(|pull| {
            let from = if pull.never { "look in archives for" } else { "pull" };
            (format!("{from} {} for {}", pull.image, pull.container), pull.reason.clone())
        }));
        let waits = round.waits.get(uid).map(waits).unwrap_or_default();
        if doing.is_empty() && waits.is_empty() {
            continue;
        }
        lines.push(pod.clone());
        lines.extend(doing.iter().map(|(what, why)| format!("    {what}: {why}")));
        lines.extend(waits.iter().map(|wait| format!("    waits: {wait}")));
        let doing: Vec<Value> = doing.iter().map(|(what, why)| json!({"action": what, "reason": why})).collect();
        items.push(json!({"pod": pod, "uid": uid, "actions": doing, "waits": waits}));
    }
    if items.is_empty() {
        let wanted = match desired.pods.len() {
            1 => "1 pod is".to_owned(),
            count => format!("{count} pods are"),
        };
        lines.push(format!("nothing to do: {wanted} wanted, and all is as it should be"));
    }
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    Report { lines, document: json!({"pods": items, "notes": notes}), well: true }
}

fn shown(name: Option<&PodName>, uid: &str) -> String {
    name.map_or_else(
        || format!("a pod that nobody wants (uid {uid})"),
        |pod| format!("{}/{} ({})", pod.namespace, pod.name, pod.source),
    )
}

/// Waits without a message are left out: a person can do nothing about the wait, and the planned actions resolve the
/// wait.
fn waits(waits: &Waits) -> Vec<String> {
    let mut lines = Vec::new();
    if waits.undecided {
        lines.push("whether this node takes it is known when the master answers".to_owned());
    }
    if let Some(dismissal) = &waits.dismissed {
        lines.push(format!("it has failed: {}: {}", dismissal.reason, dismissal.message));
    }
    let of_pod = waits.pod.iter().map(|waiting| (String::new(), waiting));
    let containers = waits.containers.iter().map(|(name, waiting)| (format!("{name}: "), waiting));
    let notes = waits.notes.values().map(|waiting| (String::new(), waiting));
    let worth = of_pod.chain(containers).chain(notes).filter(|(_, waiting)| !waiting.message.is_empty());
    lines.extend(worth.map(|(whose, waiting)| format!("{whose}{}: {}", waiting.reason, waiting.message)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::backoff::Now;
    use crate::facts::engine::Image;
    use crate::facts::naming::Source;
    use crate::facts::wanted::Wanted;
    use crate::plan::{Case, Rules, plan};
    use std::sync::Arc;

    fn report_of(image: Option<Image>) -> Report {
        let pod = json!({"metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
        let mut desired = Desired::default();
        desired.pods.insert("u".to_owned(), Arc::new(Wanted::new(Source::File, pod).unwrap()));
        let world = World { images: BTreeMap::from([("x:1".to_owned(), image)]), ..World::default() };
        let now = Now { wall_ms: 1_767_225_600_000, mono_ms: 0 };
        let round = plan(Case { desired: &desired, world: &world, now, rules: Rules::default() });
        report(&round, &desired, &world, &["n".to_owned()])
    }

    #[test]
    fn what_would_be_done_and_why() {
        let text = report_of(Some(Image::default())).lines.join("\n");
        assert!(
            text.starts_with("default/web (file)\n    start the sandbox (0): ") && text.ends_with("note: n"),
            "{text}"
        );
        let text = report_of(None).lines.join("\n");
        assert!(text.contains("    pull x:1 for c: it is not here"), "{text}");
        let nothing = report(&Round::default(), &Desired::default(), &World::default(), &[]);
        assert_eq!(nothing.lines, ["nothing to do: 0 pods are wanted, and all is as it should be"]);
    }
}
