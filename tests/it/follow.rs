//! What may never be seen of a pod through the API, whoever looks and whoever wrote it: a witness of both simulations
//! follows each status on the one before.
//!
//! A final phase is never left. Counts of restarts do not fall. The start of an attempt does not move, nor that of the
//! pod; since when a condition is as it is moves only with the condition. What is ready has started. The end of a grace
//! never moves later.

use std::collections::BTreeMap;

use serde_json::Value;

const LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// How a time of a condition that moved is told.
const SINCE: &str = "and now since";

/// The pods of one watcher, by uid.
#[derive(Default)]
pub struct Followed {
    pods: BTreeMap<String, Value>,
    /// By pod and the engine's id: when it started. An id means one attempt, however often it is told. None: an agent
    /// that is new knows the container from the engine alone.
    starts: BTreeMap<(String, String), Option<String>>,
    /// Words of a pod get lost: a condition that changed twice in between was told once.
    pub gaps: bool,
}

impl Followed {
    /// Another pod may come under this uid.
    pub fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// An agent that is new knows of a container what the engine tells: when its process began last. Somebody may have
    /// started the process again beside the agent before.
    pub fn forget_starts(&mut self) {
        self.starts.values_mut().for_each(|known| *known = None);
    }

    /// What is wrong with the next word of a pod.
    pub fn take(&mut self, pod: &Value) -> Vec<String> {
        let name = format!("{}/{}", text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]));
        let mut wrongs = standing(&pod["status"]);
        for (id, at) in started(&pod["status"]) {
            let place = (text(&pod["metadata"]["uid"]).to_owned(), id.clone());
            let known = self.starts.entry(place).or_insert_with(|| Some(at.clone()));
            if let Some(known) = known.as_ref().filter(|known| **known != at) {
                wrongs.push(format!("{id} started at {known}, and now at {at}"));
            }
        }
        if let Some(before) = self.pods.insert(text(&pod["metadata"]["uid"]).to_owned(), pod.clone()) {
            wrongs.extend(
                moved(&before["status"], &pod["status"])
                    .into_iter()
                    .filter(|wrong| !self.gaps || !wrong.contains(SINCE)),
            );
            wrongs.extend(postponed(&before["metadata"], &pod["metadata"]));
        }
        wrongs.into_iter().map(|wrong| format!("{name}: {wrong}")).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list<'a>(status: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    status[field].as_array().into_iter().flatten()
}

fn is_final(status: &Value) -> bool {
    matches!(text(&status["phase"]), "Succeeded" | "Failed")
}

/// What is wrong with a status in itself.
fn standing(status: &Value) -> Vec<String> {
    let mut wrongs = Vec::new();
    for one in LISTS.into_iter().flat_map(|field| list(status, field)) {
        // An init container that has succeeded is ready.
        let ended = one["state"]["terminated"].is_object();
        if one["ready"] == true && one["started"] != true && !ended {
            wrongs.push(format!("{} is ready and has not started", one["name"]));
        }
    }
    wrongs
}

/// What is wrong with a status that follows on another.
pub fn moved(before: &Value, now: &Value) -> Vec<String> {
    let mut wrongs = Vec::new();
    if is_final(before) && before["phase"] != now["phase"] {
        wrongs.push(format!("its phase was {}, and now is {}", before["phase"], now["phase"]));
    }
    if before["startTime"].is_string() && now["startTime"].is_string() && before["startTime"] != now["startTime"] {
        wrongs.push(format!("it started at {}, and now at {}", before["startTime"], now["startTime"]));
    }
    for field in LISTS {
        for was in list(before, field) {
            let Some(is) = list(now, field).find(|is| is["name"] == was["name"]) else { continue };
            let count = |status: &Value| status["restartCount"].as_u64().unwrap_or(0);
            if count(is) < count(was) {
                wrongs.push(format!("{} was restarted {} times, and now {}", was["name"], count(was), count(is)));
            }
        }
    }
    for was in list(before, "conditions") {
        let same = |is: &&Value| is["type"] == was["type"] && is["status"] == was["status"];
        let Some(is) = list(now, "conditions").find(same) else { continue };
        let since = |condition: &Value| condition["lastTransitionTime"].clone();
        if since(was).is_string() && since(is) != since(was) {
            wrongs.push(format!("{} is {} since {}, {SINCE} {}", was["type"], was["status"], since(was), since(is)));
        }
    }
    wrongs
}

/// By the engine's ids, when containers started that run or have ended.
fn started(status: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for one in LISTS.into_iter().flat_map(|field| list(status, field)) {
        let runs = (&one["containerID"], &one["state"]["running"]["startedAt"]);
        let ended = [&one["state"]["terminated"], &one["lastState"]["terminated"]];
        let ended = ended.map(|ended| (&ended["containerID"], &ended["startedAt"]));
        let all = [runs].into_iter().chain(ended).filter(|(id, at)| id.is_string() && at.is_string());
        found.extend(all.map(|(id, at)| (text(id).to_owned(), text(at).to_owned())));
    }
    found
}

/// Times of one form are in their order as texts.
fn postponed(before: &Value, now: &Value) -> Option<String> {
    let (was, is) = (text(&before["deletionTimestamp"]), text(&now["deletionTimestamp"]));
    (!was.is_empty() && (is.is_empty() || is > was)).then(|| format!("its end was to be at {was}, and now at {is:?}"))
}

mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, now: Value, expected: &str) {
        let mut followed = Followed::default();
        let pod = |of: Value| json!({"metadata": {"uid": "u", "deletionTimestamp": of["ends"]}, "status": of});
        assert_eq!(followed.take(&pod(before)), Vec::<String>::new());
        let wrongs = followed.take(&pod(now)).join(", ");
        assert_eq!((wrongs.contains(expected), wrongs.is_empty()), (true, expected.is_empty()), "{wrongs}");
    }

    #[test]
    fn what_may_never_be_seen() {
        let phase = |phase: &str| json!({"phase": phase});
        check(phase("Running"), phase("Failed"), "");
        check(phase("Failed"), phase("Running"), "its phase was");
        check(phase("Succeeded"), phase("Failed"), "its phase was");
        check(phase("Succeeded"), json!({}), "its phase was");
        let of = |one: Value| json!({"containerStatuses": [one]});
        let counted = |count: u64| of(json!({"name": "c", "restartCount": count}));
        check(counted(1), counted(2), "");
        check(counted(2), counted(1), "was restarted 2 times, and now 1");
        check(counted(2), json!({}), "");
        let runs = |at: &str| of(json!({"name": "c", "containerID": "1", "state": {"running": {"startedAt": at}}}));
        let ended = |at: &str| {
            let ended = json!({"containerID": "1", "startedAt": at});
            of(json!({"name": "c", "containerID": "2", "lastState": {"terminated": ended}}))
        };
        check(runs("5"), ended("5"), "");
        check(runs("5"), ended("6"), "1 started at 5, and now at 6");
        let ready = |ready: bool, started: bool| of(json!({"name": "c", "ready": ready, "started": started}));
        check(ready(false, false), ready(true, true), "");
        check(ready(false, true), ready(true, false), "is ready and has not started");
        let condition = |status: &str, at: &str| {
            let one = json!({"type": "Ready", "status": status, "lastTransitionTime": at});
            json!({"conditions": [one]})
        };
        check(condition("True", "1"), condition("False", "2"), "");
        check(condition("True", "1"), condition("True", "2"), "now since \"2\"");
        check(json!({"ends": "2"}), json!({"ends": "1"}), "");
        check(json!({"ends": "1"}), json!({"ends": "2"}), "its end was to be");
        check(json!({"ends": "1"}), json!({}), "its end was to be");
    }
}
