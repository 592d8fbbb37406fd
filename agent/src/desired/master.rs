//! The master: a source of pods.
//!
//!     last assignment -> Unknown pods of it ... -> the master answers: is it the same cluster?
//!       list and watch of this node's pods
//!         -> SourceState (never complete: an end is heard or asked for, not concluded)
//!
//! A pod ends on a deletion that was seen, or on a GET that answers 404 from the same cluster (the uid of namespace
//! kube-system tells). So a silent, emptied, damaged or exchanged master stops nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_api::annotations::MIRROR;
use coracle_http::Method;
use coracle_http::client::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::assigned::Assigned;
use super::follow::{News, Voice, follow, get};
use super::former;
use super::last::LastAssignment;
use super::shelf::text;
use super::unkept::Unkept;
use super::watched::{cluster_of, take_node};
use crate::facts::heard::MasterPods;
use crate::facts::naming::{PodName, Source, Tag, fit_uid};
use crate::facts::shown::Shown;
use crate::facts::uid_set::UidSet;
use crate::facts::view::ViewWriter;

/// Uids of ended pods; a uid matters only until the pod's containers are gone. Above this count, finished uids are
/// dropped.
const GONE_KEPT: usize = 32;
/// Between two looks whether a listing has been taken in.
const SETTLE: Duration = Duration::from_millis(100);

/// The facts about this host that matter here.
#[derive(Clone, Debug)]
pub struct FollowFacts {
    pub node_name: String,
    pub machine_id: String,
    pub data_dir: String,
    /// Whether Secrets may stand on this host's disk.
    pub secrets_on_disk: bool,
}

/// Never ends.
pub(super) async fn run(
    (client, voice): (&Client, &Voice),
    about: &FollowFacts,
    shown: watch::Receiver<Arc<Shown>>,
    view: &ViewWriter,
    unkept: &Unkept,
) {
    let FollowFacts { node_name, machine_id, data_dir, .. } = about;
    let pods = RefCell::new(Pods::open((client, voice), data_dir, shown, (view, unkept), node_name));
    pods.borrow_mut().publish();
    let former: Vec<String> = pods.borrow().assigned.former().iter().cloned().collect();
    let forget_former = async |name: &str| {
        // A listing is being taken in.
        while pods.try_borrow_mut().is_err() {
            sleep(SETTLE).await;
        }
        pods.borrow_mut().forget_former(name);
    };
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "only this closure borrows it, and a follower tells one thing at a time"
    )]
    let tell_pods = async |news| pods.borrow_mut().take(news).await;
    let mine = format!("fieldSelector=spec.nodeName%3D{node_name}");
    tokio::join!(
        write_again(&pods, unkept),
        former::forget(client, voice, (former, machine_id), forget_former),
        follow(client, voice, "/api/v1/pods", &mine, tell_pods),
    );
}

/// Writes the assignment again that the disk has not taken. Never ends.
async fn write_again(pods: &RefCell<Pods<'_>>, unkept: &Unkept) {
    let path = pods.borrow().last.path.clone();
    let mut attempts = 0;
    loop {
        unkept.due(&path, &mut attempts).await;
        if let Ok(mut pods) = pods.try_borrow_mut() {
            pods.publish();
        }
    }
}

/// Whether the name is another pod's by now, or the pod another node's: this host was that node before.
fn is_of_another(found: &Value, uid: &str, node_name: &str) -> bool {
    let node = found["spec"]["nodeName"].as_str().unwrap_or_default();
    let other_uid = !text(found, "uid").is_empty() && fit_uid(&text(found, "uid")) != fit_uid(uid);
    other_uid || !node.is_empty() && node != node_name
}

/// Forgets the ends that the loop knows of and has nothing left to do for.
fn forget(gone: &mut UidSet, shown: &Shown) {
    let Shown { desired, world, .. } = shown;
    let tags = world.containers.iter().filter_map(|seen| Tag::read(&seen.name, &seen.labels));
    let left: BTreeSet<String> =
        tags.map(|tag| tag.pod.uid).chain(world.volumes.iter().chain(&world.busy).cloned()).collect();
    gone.retain(|uid| left.contains(uid) || !desired.gone.contains(uid));
}

/// The pods of this node, over outages and changes of the master.
struct Pods<'a> {
    client: &'a Client,
    voice: &'a Voice,
    shown: watch::Receiver<Arc<Shown>>,
    view: &'a ViewWriter,
    node_name: &'a str,
    last: LastAssignment,
    unkept: Unkept,
    assigned: Assigned,
    heard: MasterPods,
    /// The uid of the foreign cluster that the log has warned of.
    foreign: Option<String>,
}

impl<'a> Pods<'a> {
    fn open(
        (client, voice): (&'a Client, &'a Voice),
        data_dir: &str,
        shown: watch::Receiver<Arc<Shown>>,
        (view, unkept): (&'a ViewWriter, &Unkept),
        node_name: &'a str,
    ) -> Pods<'a> {
        let last = LastAssignment::new(data_dir);
        let read = last.read();
        let told = read.former.clone();
        let assigned = Assigned::new(read, node_name);
        for name in assigned.former().difference(&told) {
            log::warn!(
                "this host was node {name} before and is {node_name} now: the pods of node {name} end here, and stay \
                 in the API until `kubectl delete node {name}`; --node-name {name} is the way back"
            );
        }
        let (unkept, heard) = (unkept.clone(), MasterPods::default());
        Pods { client, voice, shown, view, node_name, last, unkept, assigned, heard, foreign: None }
    }

    fn forget_former(&mut self, name: &str) {
        self.assigned.forget_former(name);
        self.publish();
    }

    async fn take(&mut self, news: News) -> bool {
        let go_on = match news {
            News::Listed(list) => self.listed(list).await,
            News::Event { gone, object } => {
                let uid = text(&object, "uid");
                if gone {
                    self.heard.pods.remove(&uid);
                    self.end(&uid);
                } else {
                    self.hear(uid, object);
                }
                true
            }
        };
        self.publish();
        go_on
    }

    /// False: whose list this is could not be told, so it says nothing about ends.
    async fn listed(&mut self, list: Vec<Value>) -> bool {
        let Some(cluster) = cluster_of((self.client, self.voice)).await else { return false };
        self.meet(&cluster);
        // The node is read before the pods: a pod may depend on labels, taints and resources of the node.
        if let Ok(node) = get((self.client, self.voice), &format!("/api/v1/nodes/{}", self.node_name)).await {
            take_node(self.view, News::Listed(vec![node]));
        }
        self.heard = MasterPods { pods: BTreeMap::new(), listed: true };
        for object in list {
            self.hear(text(&object, "uid"), object);
        }
        self.confirm_ends(&cluster).await;
        true
    }

    fn hear(&mut self, uid: String, object: Value) {
        if object["metadata"]["annotations"].get(MIRROR).is_none() {
            self.assigned.hear(&uid, &object);
        }
        self.heard.pods.insert(uid, Arc::new(object));
    }

    fn end(&mut self, uid: &str) {
        if self.assigned.gone.len() >= GONE_KEPT {
            let shown = self.shown.borrow().clone();
            forget(&mut self.assigned.gone, &shown);
        }
        self.assigned.end(uid);
    }

    /// The first cluster is ours. The pods of a later cluster run as well; the later cluster ends no pods of the first
    /// cluster.
    fn meet(&mut self, cluster: &str) {
        let Some((was, others)) = self.assigned.meet(cluster) else { return };
        if !was.is_empty() && self.foreign.as_deref() != Some(cluster) {
            log::warn!(
                "the master at {} is another cluster now (kube-system has uid {cluster}, was {was}): {others} pods of \
                 the old one go on; to let them go stop the agent, remove {} and start it again",
                self.client.target(),
                self.last.path.display()
            );
            self.foreign = Some(cluster.to_owned());
        }
    }

    /// Pods that this host has and the list does not show are asked for one by one.
    async fn confirm_ends(&mut self, cluster: &str) {
        let mut suspects: BTreeSet<(String, String, String)> = self.assigned.names().collect();
        let tags = self
            .shown
            .borrow()
            .world
            .containers
            .iter()
            .filter_map(|seen| Tag::read(&seen.name, &seen.labels))
            .collect::<Vec<_>>();
        for PodName { source, namespace, name, uid } in tags.into_iter().map(|tag| tag.pod) {
            if source == Source::Master && !self.assigned.is_of_another(&uid) {
                suspects.insert((uid, namespace, name));
            }
        }
        suspects.retain(|(uid, ..)| !self.heard.pods.contains_key(uid) && !self.assigned.gone.contains(uid));
        let mut ended = Vec::new();
        for (uid, namespace, name) in suspects {
            // A node may not ask for a pod that is gone, but it may list its own pods.
            let fields = format!("metadata.name%3D{name},spec.nodeName%3D{}", self.node_name);
            let path = format!("/api/v1/namespaces/{namespace}/pods?fieldSelector={fields}");
            match self.client.call(Method::GET, &path, None).await {
                Ok(reply) if reply.status.is_success() => {
                    let list: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                    let is_gone = |found: &[Value]| found.iter().all(|pod| is_of_another(pod, &uid, self.node_name));
                    if list["items"].as_array().is_some_and(|found| is_gone(found)) {
                        ended.push(uid);
                    }
                }
                Ok(reply) => log::warn!("pod {namespace}/{name}: the master says {}; it goes on", reply.status),
                Err(error) => log::debug!("pod {namespace}/{name}: {error}"),
            }
        }
        // The answers count only if the same cluster still answers.
        if !ended.is_empty() && cluster_of((self.client, self.voice)).await.as_deref() == Some(cluster) {
            for uid in ended {
                self.end(&uid);
            }
        }
    }

    /// Durable before it is acted on, unless the disk takes nothing.
    fn publish(&mut self) {
        if let Some(assignment) = self.assigned.take_unsaved() {
            let written = self.last.keep(&assignment);
            if !self.unkept.note(&self.last.path, "the pods of this node", written) {
                self.assigned.is_unsaved();
            }
        }
        if let Some(state) = self.assigned.take_unsaid() {
            self.view.replace(|view| &mut view.assigned, state);
        }
        if self.view.now().pods.as_deref() != Some(&self.heard) {
            self.view.replace(|view| &mut view.pods, self.heard.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::world::World;
    use serde_json::json;

    #[test]
    fn an_end_is_remembered_until_the_loop_has_seen_to_it() {
        let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
        let check = |knows: &[&str], volumes: &[&str], busy: &[&str], kept: &[&str]| {
            let set = |uids: &[&str]| uids.iter().copied().collect::<UidSet>();
            let desired = Arc::new(Desired { gone: set(knows), ..Desired::default() });
            let world = Arc::new(World { volumes: uids(volumes), busy: uids(busy), ..World::default() });
            let mut gone = set(&["a", "b"]);
            forget(&mut gone, &Shown { desired, world, looked: true, ..Shown::default() });
            assert_eq!(gone, set(kept), "{knows:?} {volumes:?} {busy:?}");
        };
        check(&[], &[], &[], &["a", "b"]);
        check(&["a"], &[], &[], &["b"]);
        check(&["a", "b"], &["a"], &[], &["a"]);
        check(&["a", "b"], &[], &["b"], &["b"]);
        check(&["a", "b"], &[], &[], &[]);
    }

    #[test]
    fn what_has_a_name_may_be_another_pod_or_another_nodes() {
        let check = |uid: &str, node: &str, expected: bool| {
            let found = json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
            assert_eq!(is_of_another(&found, "u", "n1"), expected, "{uid} {node}");
        };
        check("u", "n1", false);
        check("u", "", false);
        check("v", "n1", true);
        check("u", "n2", true);
        check("", "", false);
    }
}
