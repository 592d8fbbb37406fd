//! Tells the master about this node and its pods.
//!
//!     every 10 s, when a condition or this host's address changed, when a master answers that does not know the node:
//!         the node's status
//!     each pod of the master: compare our status with what its watch shows
//!         -> PATCH where they differ; deleted and ended -> DELETE
//!     each pod of a file: a mirror pod, its status; a mirror whose file is gone -> DELETE
//!
//! A status is a patch that names nothing else: a PUT would say of labels, annotations and finalizers, too, that there
//! are none. Compared is with what the master shows, not with what was sent: a status that it lost comes back by
//! itself.

mod mirror;
mod said;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_api::annotations::MIRROR;
use coracle_http::Method;
use coracle_http::client::{CallError, Client, Reply};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use self::mirror::{is_contradicted, mirror, owned};
pub use self::said::pod_status;
use self::said::{agrees, follows};
use crate::desired::refusals::{Refusals, refusal, words};
use crate::facts::clock::now;
use crate::facts::heard::MasterPods;
use crate::facts::naming::{CONFIG_FILE, Source, Tag, mirror_name, mirrored_name};
use crate::facts::shown::Shown;
use crate::facts::view::ViewPart;
use crate::facts::wanted::Wanted;
use crate::running::probe::carried_over;
use crate::status::is_final;
use crate::telling::node::{Condition, NodeFacts, node_document, node_status, own_conditions};

/// Between two heartbeats; the master calls a node lost after several.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Changes of many pods at once make one pass.
const SETTLE: Duration = Duration::from_millis(10);
/// Leaves what it does not say, in lists by their keys: what others say of a node or a pod stays, their conditions too.
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

struct Report {
    client: Client,
    refusals: Refusals,
    about: NodeFacts,
    registered: bool,
    /// Of the Node, as the master said it last.
    node_uid: String,
    /// As they were said last.
    conditions: Vec<Condition>,
    /// By uid: the sent status, and the status that the master stored. While a pod shows the stored status, the same
    /// status is not sent again.
    sent: BTreeMap<String, (Value, Value)>,
    /// The messages that were logged already.
    said: BTreeSet<String>,
}

/// A request that must go to the master.
#[derive(Debug, PartialEq)]
pub enum Call {
    Status { uid: String, namespace: String, name: String, status: Value, patch: Value },
    Delete { uid: String, namespace: String, name: String },
    Mirror { namespace: String, name: String, document: Value },
}

/// Never ends.
pub async fn run(
    (client, refusals): (Client, Refusals),
    about: NodeFacts,
    mut shown: watch::Receiver<Arc<Shown>>,
    mut heard: ViewPart<MasterPods>,
) {
    let mut report = Report {
        client,
        refusals,
        about,
        registered: false,
        node_uid: String::new(),
        conditions: Vec::new(),
        sent: BTreeMap::new(),
        said: BTreeSet::new(),
    };
    let mut heartbeat = Instant::now();
    // Before the first look there is nothing to say about the engine, unless it is known to be in trouble.
    let can_say = |shown: &Shown| shown.looked || shown.engine_trouble.is_some();
    loop {
        let speaks = can_say(&shown.borrow());
        tokio::select! {
            () = sleep_until(heartbeat), if speaks => {}
            changed = shown.changed() => if changed.is_err() { return },
            changed = heard.changed() => if changed.is_err() { return },
            Ok(()) = report.about.address.changed() => heartbeat = Instant::now(),
            // The node is told anew: only a status is sent as long as it is registered.
            Ok(()) = report.about.pod_cidr.changed() => (report.registered, heartbeat) = (false, Instant::now()),
        }
        sleep(SETTLE).await;
        let (seen, known) = (shown.borrow_and_update().clone(), heard.now().unwrap_or_default());
        let states = |all: &[Condition]| -> Vec<bool> { all.iter().map(|one| one.holds).collect() };
        let differs = !report.conditions.is_empty() && states(&report.conditions) != states(&own_conditions(&seen));
        // A master that came later than its agent hears of the node as soon as it answers.
        let unknown = !report.registered && known.listed;
        if can_say(&seen) && (Instant::now() >= heartbeat || differs || unknown) {
            report.node(&seen).await;
            heartbeat = Instant::now() + HEARTBEAT;
        }
        if report.registered && known.listed {
            report.pods(&seen, &known).await;
        }
    }
}

impl Report {
    async fn node(&mut self, shown: &Shown) {
        let mut conditions = own_conditions(shown);
        for condition in &mut conditions {
            let was = self.conditions.iter().find(|was| was.kind == condition.kind && was.holds == condition.holds);
            condition.since = was.map_or_else(|| now().to_string(), |was| was.since.clone());
        }
        let document = node_document(&self.about, &conditions);
        self.conditions = conditions;
        if !self.registered {
            self.registered = self.register(&document).await;
            return;
        }
        let path = format!("/api/v1/nodes/{}/status", self.about.name);
        let Some(reply) = self.patch(&path, STRATEGIC_PATCH, &node_status(&document)).await else { return };
        self.note_node(&reply);
        self.learn_uid(&reply);
        if reply.status.as_u16() == 404 {
            // The master is new or was emptied: the node must be registered again.
            self.registered = self.register(&document).await;
        }
    }

    fn note_node(&self, reply: &Reply) {
        self.refusals.note(&format!("report node {}", self.about.name), refusal(reply));
    }

    fn learn_uid(&mut self, reply: &Reply) {
        let node: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if let Some(uid) = node["metadata"]["uid"].as_str().filter(|_| reply.status.is_success()) {
            uid.clone_into(&mut self.node_uid);
        }
    }

    async fn register(&mut self, document: &Value) -> bool {
        let name = self.about.name.clone();
        let Some(reply) = self.call(Method::POST, "/api/v1/nodes", Some(document)).await else { return false };
        let code = reply.status.as_u16();
        if code == 409 {
            return self.meet_own(document).await;
        }
        self.note_node(&reply);
        if !reply.status.is_success() {
            self.say_once(format!("register node {name}: {}", words(&reply)));
            return false;
        }
        self.learn_uid(&reply);
        log::info!("registered node {name} with the master at {}", self.client.target());
        true
    }

    /// The node exists already: the agent updates its own fields, and keeps the fields of other writers.
    async fn meet_own(&mut self, document: &Value) -> bool {
        let path = format!("/api/v1/nodes/{}", self.about.name);
        let Some(reply) = self.call(Method::GET, &path, None).await else { return false };
        self.learn_uid(&reply);
        let Ok(mut node) = serde_json::from_slice::<Value>(&reply.body) else { return false };
        let mut document = document.clone();
        self.keep_since(&node, &mut document);
        let before = node.clone();
        for (key, value) in document["metadata"]["labels"].as_object().into_iter().flatten() {
            node["metadata"]["labels"][key] = value.clone();
        }
        if let Some(pods) = document["spec"].get("podCIDR") {
            node["spec"]["podCIDR"] = pods.clone();
        }
        if node != before {
            let Some(reply) = self.call(Method::PUT, &path, Some(&node)).await else { return false };
            self.note_node(&reply);
            if !reply.status.is_success() {
                self.say_once(format!("update node {}: {}", self.about.name, words(&reply)));
                return false;
            }
        }
        let path = format!("{path}/status");
        let Some(reply) = self.patch(&path, STRATEGIC_PATCH, &node_status(&document)).await else { return false };
        self.note_node(&reply);
        reply.status.is_success()
    }

    /// An agent that started again was as it is all the time, if the node says so.
    fn keep_since(&mut self, node: &Value, document: &mut Value) {
        for (index, own) in self.conditions.iter_mut().enumerate() {
            let mut stored = node["status"]["conditions"].as_array().into_iter().flatten();
            let same = stored.find(|stored| stored["type"] == own.kind && (stored["status"] == "True") == own.holds);
            let Some(text) = same.and_then(|stored| stored["lastTransitionTime"].as_str()) else { continue };
            text.clone_into(&mut own.since);
            for time in ["lastHeartbeatTime", "lastTransitionTime"] {
                document["status"]["conditions"][index][time] = text.into();
            }
        }
    }

    async fn pods(&mut self, shown: &Shown, heard: &MasterPods) {
        self.sent.retain(|uid, _| heard.pods.contains_key(uid));
        // The probes' room takes them over, and the statuses that follow from it come with the next look.
        if !carried_over(shown, heard, &shown.world.verdicts).is_empty() {
            return;
        }
        let mut refused = None;
        for call in calls(shown, heard, &self.about.name, &self.sent) {
            let reply = match &call {
                Call::Status { uid, namespace, name, status, patch } => {
                    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
                    let reply = self.patch(&path, STRATEGIC_PATCH, patch).await;
                    if let Some(reply) = reply.as_ref().filter(|reply| reply.status.is_success()) {
                        let stored: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                        self.sent.insert(uid.clone(), (status.clone(), stored["status"].clone()));
                    }
                    reply
                }
                Call::Delete { uid, namespace, name } => {
                    let body = json!({
                        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                        "preconditions": { "uid": uid },
                    });
                    self.call(Method::DELETE, &format!("/api/v1/namespaces/{namespace}/pods/{name}"), Some(&body)).await
                }
                Call::Mirror { namespace, document, .. } => {
                    let document = owned(document.clone(), &self.about.name, &self.node_uid);
                    self.call(Method::POST, &format!("/api/v1/namespaces/{namespace}/pods"), Some(&document)).await
                }
            };
            let Some(reply) = reply else { return };
            refused = refused.or(refusal(&reply));
            // 404 and 409 mean that the pod was replaced or removed; the watch will show the new state.
            let expected = !matches!(call, Call::Mirror { .. }) && matches!(reply.status.as_u16(), 404 | 409);
            if !reply.status.is_success() && !expected {
                let (what, namespace, name) = match &call {
                    Call::Status { namespace, name, .. } => ("report the status of", namespace, name),
                    Call::Delete { namespace, name, .. } => ("end", namespace, name),
                    Call::Mirror { namespace, name, .. } => ("mirror", namespace, name),
                };
                self.say_once(format!("{what} pod {namespace}/{name}: {}", words(&reply)));
            }
        }
        self.refusals.note("report pods", refused);
    }

    /// None: the master could not be asked; the followers say so.
    async fn call(&mut self, method: Method, path: &str, body: Option<&Value>) -> Option<Reply> {
        answered(path, self.client.call(method, path, body.map(|body| body.to_string().into())).await)
    }

    async fn patch(&self, path: &str, language: &'static str, patch: &Value) -> Option<Reply> {
        answered(path, self.client.patch(path, language, patch.to_string().into()).await)
    }

    fn say_once(&mut self, text: String) {
        const SAID_MAX: usize = 1000;
        if self.said.len() > SAID_MAX {
            self.said.clear();
        }
        if self.said.insert(text.clone()) {
            log::warn!("{text}");
        }
    }
}

fn answered(path: &str, reply: Result<Reply, CallError>) -> Option<Reply> {
    reply.map_err(|error| log::debug!("{path}: {error}")).ok()
}

/// All requests to the master for the present state. Pure. `sent`, by uid: the sent status, and the status that the
/// master stored.
pub fn calls(shown: &Shown, heard: &MasterPods, node_name: &str, sent: &BTreeMap<String, (Value, Value)>) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut mirrored: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for pod in heard.pods.values() {
        if let Some(hash) = pod["metadata"]["annotations"].get(MIRROR) {
            mirrored.insert((text(pod, "namespace"), text(pod, "name")), hash);
        }
    }
    // A pod of the API shows its own status; a mirror shows the status of the pod from the file.
    let mut files: BTreeMap<(String, String), &str> = BTreeMap::new();
    for (uid, wanted) in shown.desired.pods.iter().filter(|(_, wanted)| wanted.name.source == Source::File) {
        let name = mirror_name(&wanted.name.name, node_name);
        let key = (wanted.name.namespace.clone(), name.clone());
        if !mirrored.contains_key(&key) {
            let file = shown.desired.files.of.get(uid).map(String::as_str);
            let document = mirror(&wanted.document, &name, node_name, file);
            calls.push(Call::Mirror { namespace: key.0.clone(), name, document });
        }
        files.insert(key, uid);
    }
    for (uid, pod) in &heard.pods {
        let key = (text(pod, "namespace"), text(pod, "name"));
        let delete = || Call::Delete { uid: uid.clone(), namespace: key.0.clone(), name: key.1.clone() };
        let local = match mirrored.get(&key) {
            None => uid.as_str(),
            Some(hash) => match files.get(&key) {
                Some(file) => {
                    // A mirror with a requested deletion goes at once, and the file gets a new mirror.
                    if **hash != shown.desired.pods[*file].manifest_hash.as_str() || deleted(pod) {
                        calls.push(delete());
                        continue;
                    }
                    file
                }
                None => {
                    let file = pod["metadata"]["annotations"][CONFIG_FILE].as_str();
                    let name = mirrored_name(&key.1, node_name).unwrap_or(&key.1);
                    if shown.desired.lacks_file(&key.0, name, file) {
                        calls.push(delete());
                    }
                    continue;
                }
            },
        };
        let Some(status) = shown.statuses.get(local) else {
            // Nothing of it was ever here, and nothing may come.
            if is_over(shown, local, pod) {
                calls.push(delete());
            }
            continue;
        };
        let shows = &pod["status"];
        let status = &follows(status, shows);
        // The master refuses a status that contradicts the end of the mirror: a new mirror replaces the old mirror.
        if mirrored.contains_key(&key) && is_contradicted(&shown.desired.pods[local], shows, status) {
            calls.push(delete());
            continue;
        }
        // A client has ended the pod, and the loop is about to hear of the end.
        if is_final(shows) && status["phase"] != shows["phase"] {
            continue;
        }
        let same = agrees(status, shows)
            || is_echo(shown, uid, shows)
            || sent.get(uid).is_some_and(|(was, made)| was == status && agrees(made, shows));
        if !same {
            let (patch, status) = (pod_status(uid, status, shows), status.clone());
            calls.push(Call::Status { uid: uid.clone(), namespace: key.0.clone(), name: key.1.clone(), status, patch });
        } else if is_over(shown, local, pod) {
            calls.push(delete());
        }
    }
    calls
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

fn deleted(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// The pod has ended, and the agent's fields of the loop's status equal the older record that the loop has heard: the
/// loop has not heard the shown record yet. Sending the older record would let both records replace each other for
/// ever.
fn is_echo(shown: &Shown, uid: &str, shows: &Value) -> bool {
    let record = shown.desired.pods.get(uid).map(|wanted| &wanted.document["status"]);
    let says = |record| shown.statuses.get(uid).is_some_and(|status| agrees(status, record));
    is_final(shows) && record.is_some_and(|record| is_final(record) && says(record))
}

/// The pod's deletion was requested, the loop has heard of the deletion and starts nothing of the pod any more, the
/// engine was asked, and nothing of the pod runs or is being worked on: the name is free for a new pod.
fn is_over(shown: &Shown, uid: &str, pod: &Value) -> bool {
    let of_pod = |tag: &Tag| tag.pod.uid == uid;
    let runs = || {
        shown
            .world
            .containers
            .iter()
            .any(|seen| seen.runs() && Tag::read(&seen.name, &seen.labels).as_ref().is_some_and(of_pod))
    };
    let heard = || match shown.desired.pods.get(uid) {
        // A mirror is deleted, and not the file.
        Some(wanted) if wanted.name.source == Source::File => true,
        Some(wanted) => deleted(&wanted.document),
        // What cannot be read is never wanted.
        None => Wanted::new(Source::Master, pod.clone()).is_err(),
    };
    deleted(pod)
        && shown.looked
        && shown.engine_trouble.is_none()
        && !shown.world.busy.contains(uid)
        && !runs()
        && heard()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::source_state::FilesSeen;

    fn file_pod() -> Wanted {
        let document =
            json!({"metadata": {"namespace": "default", "name": "web", "uid": "f1"}, "spec": {"containers": []}});
        Wanted::new(Source::File, document).unwrap()
    }

    fn shown(pods: Vec<Wanted>, statuses: &[(&str, Value)]) -> Shown {
        let pods = pods.into_iter().map(|wanted| (wanted.name.uid.clone(), Arc::new(wanted))).collect();
        let statuses = statuses.iter().map(|(uid, status)| ((*uid).to_owned(), status.clone())).collect();
        Shown { desired: Arc::new(Desired { pods, ..Desired::default() }), statuses, looked: true, ..Shown::default() }
    }

    fn heard(pods: Vec<Value>) -> MasterPods {
        MasterPods { pods: pods.into_iter().map(|pod| (text(&pod, "uid"), Arc::new(pod))).collect(), listed: true }
    }

    fn check(shown: &Shown, heard: &MasterPods, expected: &[&str]) {
        let short = |call: Call| match call {
            Call::Status { name, .. } => format!("status {name}"),
            Call::Delete { name, .. } => format!("delete {name}"),
            Call::Mirror { name, .. } => format!("mirror {name}"),
        };
        let found: Vec<String> = calls(shown, heard, "n1", &BTreeMap::new()).into_iter().map(short).collect();
        assert_eq!(found, expected);
    }

    fn pod(name: &str, uid: &str, status: Value) -> Value {
        json!({"metadata": {"namespace": "default", "name": name, "uid": uid}, "status": status})
    }

    #[test]
    fn a_status_is_sent_where_the_watch_shows_another() {
        let running = json!({"phase": "Running", "podIP": null});
        check(
            &shown(vec![], &[("u", running.clone())]),
            &heard(vec![pod("a", "u", json!({"phase": "Pending"}))]),
            &["status a"],
        );
        let theirs = json!({"phase": "Running", "qosClass": "BestEffort"});
        check(&shown(vec![], &[("u", running)]), &heard(vec![pod("a", "u", theirs)]), &[]);
    }

    #[test]
    fn conditions_of_others_stay() {
        let ready = json!({"type": "Ready", "status": "True"});
        let doomed = json!({"type": "DisruptionTarget", "status": "True"});
        let shows = json!({"conditions": [{"type": "Ready", "status": "False"}, doomed]});
        let ours = shown(vec![], &[("u", json!({"conditions": [ready]}))]);
        check(&ours, &heard(vec![pod("a", "u", shows)]), &["status a"]);
        check(&ours, &heard(vec![pod("a", "u", json!({"conditions": [ready, doomed]}))]), &[]);
    }

    #[test]
    fn a_final_phase_is_never_left() {
        let check = |shows: &str, says: &str, expected: &[&str]| {
            let (shows, says) = (json!({"phase": shows}), json!({"phase": says}));
            check(&shown(vec![], &[("u", says.clone())]), &heard(vec![pod("a", "u", shows.clone())]), expected);
            let mut mirror = mirror(&file_pod().document, "web-n1", "n1", None);
            (mirror["metadata"]["uid"], mirror["status"]) = ("m1".into(), shows);
            let expected: Vec<&str> = if expected.is_empty() { vec!["delete web-n1"] } else { vec!["status web-n1"] };
            self::check(&self::shown(vec![file_pod()], &[("f1", says)]), &heard(vec![mirror]), &expected);
        };
        for ended in ["Succeeded", "Failed"] {
            check("Running", ended, &["status a"]);
            check(ended, "Running", &[]);
            check(ended, "Pending", &[]);
        }
        check("Succeeded", "Failed", &[]);
        check("Failed", "Succeeded", &[]);
    }

    /// An unreadable file keeps only its own mirror.
    #[test]
    fn a_mirror_goes_with_its_file() {
        let check = |unread: &[&str], whole: bool, gone: bool, file: Option<&str>, goes: bool| {
            let mut mirror = mirror(&file_pod().document, "web-n1", "n1", file);
            mirror["metadata"]["uid"] = "m1".into();
            let name = ("default".to_owned(), "web".to_owned());
            let files = FilesSeen {
                whole,
                unread: unread.iter().map(|name| (*name).to_owned()).collect(),
                gone: gone.then_some(name).into_iter().collect(),
                ..FilesSeen::default()
            };
            let unknown = if unread.is_empty() && whole { vec![] } else { vec![Source::File] };
            let unknown = unknown.into_iter().collect();
            let desired = Desired { files: Arc::new(files), unknown, ..Desired::default() };
            let seen = Shown { desired: Arc::new(desired), looked: true, ..Shown::default() };
            let expected: &[&str] = if goes { &["delete web-n1"] } else { &[] };
            self::check(&seen, &heard(vec![mirror]), expected);
        };
        check(&[], true, false, None, true);
        check(&["README"], true, true, None, true);
        check(&["README"], true, false, Some("web.yaml"), true);
        check(&["web.yaml"], true, false, Some("web.yaml"), false);
        // An earlier agent made the mirror, without the name of the file: the unreadable file may be the mirror's file.
        check(&["README"], true, false, None, false);
        check(&[], false, false, Some("web.yaml"), false);
    }

    /// The master refuses a status in which a finally ended container runs again: the agent replaces the mirror.
    #[test]
    fn a_mirror_that_is_contradicted_is_made_anew() {
        let check = |policy: &str, state: Value, expected: &[&str]| {
            let spec = json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]});
            let document = json!({"metadata": {"namespace": "default", "name": "web", "uid": "f1"}, "spec": spec});
            let wanted = Wanted::new(Source::File, document).unwrap();
            let of = |state: Value| json!({"containerStatuses": [{"name": "c", "state": state}]});
            let mut mirror = mirror(&wanted.document, "web-n1", "n1", None);
            mirror["metadata"]["uid"] = "m1".into();
            mirror["status"] = of(json!({"terminated": {"exitCode": 0}}));
            check(&shown(vec![wanted], &[("f1", of(state))]), &heard(vec![mirror]), expected);
        };
        check("Never", json!({"waiting": {}}), &["delete web-n1"]);
        check("OnFailure", json!({"running": {}}), &["delete web-n1"]);
        check("Always", json!({"running": {}}), &["status web-n1"]);
        check("Never", json!({"terminated": {"exitCode": 1}}), &["status web-n1"]);
    }

    #[test]
    fn a_deleted_pod_goes_when_its_end_was_shown() {
        let failed = json!({"phase": "Failed"});
        let mut gone = pod("a", "u", json!({"phase": "Running"}));
        gone["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
        let wanted = |pod: &Value| Wanted::new(Source::Master, pod.clone()).unwrap();
        let before = wanted(&gone);
        gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let knows = |pods: Vec<Wanted>, status: &Value| shown(pods, &[("u", status.clone())]);
        check(&knows(vec![wanted(&gone)], &failed), &heard(vec![gone.clone()]), &["status a"]);
        gone["status"] = failed.clone();
        check(&knows(vec![wanted(&gone)], &failed), &heard(vec![gone.clone()]), &["delete a"]);
        let mut blind = knows(vec![wanted(&gone)], &failed);
        blind.engine_trouble = Some(("down".into(), 0));
        check(&blind, &heard(vec![gone.clone()]), &[]);
        // A loop that has not heard of the deletion may start the pod in this very moment.
        check(&knows(vec![before], &failed), &heard(vec![gone.clone()]), &[]);
        check(&shown(vec![], &[]), &heard(vec![gone.clone()]), &[]);
        check(&shown(vec![wanted(&gone)], &[]), &heard(vec![gone.clone()]), &["delete a"]);
        gone["spec"]["containers"] = "none".into();
        check(&shown(vec![], &[]), &heard(vec![gone]), &["delete a"]);
    }

    #[test]
    fn a_record_is_not_sent_for_a_later_one() {
        let document = |status: &Value| {
            let mut pod = pod("a", "u", status.clone());
            pod["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
            pod
        };
        let check = |record: &Value, says: &Value, shows: &Value, expected: &[&str]| {
            let wanted = Wanted::new(Source::Master, document(record)).unwrap();
            check(&shown(vec![wanted], &[("u", says.clone())]), &heard(vec![document(shows)]), expected);
        };
        let (first, second) = (json!({"phase": "Failed", "message": "first"}), json!({"phase": "Failed"}));
        check(&first, &first, &second, &[]);
        let doomed = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let with = |status: &Value| json!({"phase": "Failed", "message": status["message"], "conditions": doomed});
        check(&with(&first), &first, &with(&second), &[]);
        // A new status of the loop is sent, and a record that the master has lost is sent again.
        check(&json!({}), &second, &first, &["status a"]);
        check(&first, &second, &first, &["status a"]);
        check(&first, &first, &json!({"phase": "Pending"}), &["status a"]);
    }

    #[test]
    fn files_have_mirrors() {
        let seen = shown(vec![file_pod()], &[("f1", json!({"phase": "Running"}))]);
        check(&seen, &heard(vec![]), &["mirror web-n1"]);
        let mut document = mirror(&file_pod().document, "web-n1", "n1", None);
        document["metadata"]["uid"] = "m1".into();
        check(&seen, &heard(vec![document.clone()]), &["status web-n1"]);
        document["status"] = json!({"phase": "Running"});
        check(&seen, &heard(vec![document.clone()]), &[]);
        check(&shown(vec![], &[]), &heard(vec![document.clone()]), &["delete web-n1"]);
        let mut of_another = document.clone();
        of_another["metadata"]["annotations"][MIRROR] = "old".into();
        check(&seen, &heard(vec![of_another]), &["delete web-n1"]);
        document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        check(&seen, &heard(vec![document]), &["delete web-n1"]);
    }
}
