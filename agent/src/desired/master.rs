//! The master: a source of pods, and of the services of the cluster.
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
use coracle_api::node::Node;
use coracle_api::service::{EndpointSlice, Service};
use coracle_api::strategy::amounts::is_extended;
use coracle_http::Method;
use coracle_http::client::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::assigned::Assigned;
use super::follow::{News, Voice, follow, get};
use super::former;
use super::given_up::is_given_up;
use super::last::LastAssignment;
use super::objects::door;
use super::objects::kept::Kept;
use super::shelf::{WatchShelf, text};
use super::unkept::Unkept;
use crate::facts::heard::{ClusterServices, MasterPods};
use crate::facts::naming::{PodName, Source, Tag, fit_uid};
use crate::facts::node_said::NodeSaid;
use crate::facts::objects::Objects;
use crate::facts::shown::Shown;
use crate::facts::source_state::SourceState;
use crate::facts::uid_set::UidSet;

/// Uids of ended pods; a uid matters only until the pod's containers are gone. Above this count, finished uids are
/// dropped.
const GONE_KEPT: usize = 32;
/// Between two looks whether a listing has been taken in.
const SETTLE: Duration = Duration::from_millis(100);

pub struct Outlets {
    pub objects: watch::Sender<Arc<Objects>>,
    pub pods: watch::Sender<Option<SourceState>>,
    pub heard: watch::Sender<Arc<MasterPods>>,
    /// None until both were listed.
    pub network: watch::Sender<Option<Arc<ClusterServices>>>,
    /// None: the master has not told anything about this node.
    pub node: watch::Sender<Option<Arc<NodeSaid>>>,
    /// Volumes of the class `local`, of any node, whose directories are to go.
    pub given_up: watch::Sender<GivenUp>,
    pub unkept: Unkept,
}

/// By name.
pub type GivenUp = BTreeMap<String, Value>;

/// The facts about this host that matter here.
#[derive(Clone, Copy, Debug)]
pub struct FollowFacts<'a> {
    pub node_name: &'a str,
    pub machine_id: &'a str,
    pub data_dir: &'a str,
    /// Whether Secrets may stand on this host's disk.
    pub secrets_on_disk: bool,
}

/// Never ends.
pub async fn run(client: Client, about: FollowFacts<'_>, shown: watch::Receiver<Arc<Shown>>, outlets: Outlets) {
    let FollowFacts { node_name, machine_id, data_dir, secrets_on_disk } = about;
    let voice = Voice::default();
    let pods = RefCell::new(Pods::open(&client, data_dir, shown, &outlets, node_name));
    pods.borrow_mut().publish();
    let former: Vec<String> = pods.borrow().assigned.former().iter().cloned().collect();
    let forget_former = async |name: &str| {
        // A listing is being taken in.
        while pods.try_borrow_mut().is_err() {
            sleep(SETTLE).await;
        }
        pods.borrow_mut().forget_former(name);
    };
    let services = RefCell::new(WatchShelf::new(|item| Service::read(item).ok()));
    let slices = RefCell::new(WatchShelf::new(|item| EndpointSlice::read(item).ok()));
    let publish = |services_changed: bool| {
        let (Some(of_services), Some(slices)) = (services.borrow().all(), slices.borrow().all()) else { return };
        let known = outlets.network.borrow().clone();
        let services = match known.filter(|known| known.heard && !services_changed) {
            Some(known) => known.services.clone(),
            None => Arc::new(of_services),
        };
        outlets.network.send_replace(Some(Arc::new(ClusterServices { services, slices, heard: true })));
    };
    let mine = format!("fieldSelector=spec.nodeName%3D{node_name}");
    let own = format!("fieldSelector=metadata.name%3D{node_name}");
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "only this closure borrows it, and a follower tells one thing at a time"
    )]
    let tell_pods = async |news| pods.borrow_mut().take(news).await;
    // None: it cannot be told whose list this is. An event is of the cluster that was listed.
    let cluster = async |news: &News| match news {
        News::Listed(_) => cluster_of(&client).await.map(Some),
        News::Event { .. } => Some(None),
    };
    let kept = Kept::open(data_dir, secrets_on_disk, outlets.unkept.clone());
    tokio::join!(
        door::run(client.clone(), voice.clone(), kept, outlets.pods.subscribe(), outlets.objects.clone()),
        write_again(&pods, &outlets.unkept),
        former::forget(&client, &voice, (former, machine_id), forget_former),
        follow(&client, &voice, "/api/v1/pods", &mine, tell_pods),
        follow(&client, &voice, "/api/v1/nodes", &own, async |news| {
            take_node(&outlets, news);
            true
        }),
        follow(&client, &voice, "/api/v1/persistentvolumes", "", async |news| {
            take_volumes(&outlets.given_up, news);
            true
        }),
        follow(&client, &voice, "/api/v1/services", "", async |news| {
            let Some(cluster) = cluster(&news).await else { return false };
            if services.borrow_mut().take(news, cluster) {
                publish(true);
            }
            true
        }),
        follow(&client, &voice, "/apis/discovery.k8s.io/v1/endpointslices", "", async |news| {
            let Some(cluster) = cluster(&news).await else { return false };
            if slices.borrow_mut().take(news, cluster) {
                publish(false);
            }
            true
        }),
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

/// Publishes labels, taints and extended resources of this node from the API.
fn take_node(outlets: &Outlets, news: News) {
    let node = match news {
        News::Listed(list) => list.into_iter().next(),
        News::Event { gone, object } => Some(object).filter(|_| !gone),
    };
    let Some(node) = node.and_then(|node| Node::deserialize(node).ok()) else { return };
    let extended = node.status.allocatable.into_iter().filter(|(name, _)| is_extended(name)).collect();
    let said = NodeSaid { labels: node.metadata.labels, taints: node.spec.taints, extended };
    outlets.node.send_if_modified(|was| {
        let differs = was.as_deref() != Some(&said);
        if differs {
            *was = Some(Arc::new(said));
        }
        differs
    });
}

/// Only volumes that are given up are kept.
fn take_volumes(given_up: &watch::Sender<GivenUp>, news: News) {
    let named = |volume: Value| (text(&volume, "name"), volume);
    given_up.send_if_modified(|volumes| {
        let before = volumes.clone();
        match news {
            News::Listed(list) => *volumes = list.into_iter().filter(is_given_up).map(named).collect(),
            News::Event { gone, object } if gone || !is_given_up(&object) => {
                drop(volumes.remove(&text(&object, "name")))
            }
            News::Event { object, .. } => drop(volumes.insert(text(&object, "name"), object)),
        }
        *volumes != before
    });
}

/// The uid of namespace kube-system; None if it cannot be told now.
pub(super) async fn cluster_of(client: &Client) -> Option<String> {
    let namespace = get(client, "/api/v1/namespaces/kube-system").await.ok()?;
    Some(text(&namespace, "uid")).filter(|uid| !uid.is_empty())
}

/// The pods of this node, over outages and changes of the master.
struct Pods<'a> {
    client: &'a Client,
    shown: watch::Receiver<Arc<Shown>>,
    outlets: &'a Outlets,
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
        client: &'a Client,
        data_dir: &str,
        shown: watch::Receiver<Arc<Shown>>,
        outlets: &'a Outlets,
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
        let (unkept, heard) = (outlets.unkept.clone(), MasterPods::default());
        Pods { client, shown, outlets, node_name, last, unkept, assigned, heard, foreign: None }
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
        let Some(cluster) = cluster_of(self.client).await else { return false };
        self.meet(&cluster);
        // The node is read before the pods: a pod may depend on labels, taints and resources of the node.
        if let Ok(node) = get(self.client, &format!("/api/v1/nodes/{}", self.node_name)).await {
            take_node(self.outlets, News::Listed(vec![node]));
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
        if !ended.is_empty() && cluster_of(self.client).await.as_deref() == Some(cluster) {
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
            self.outlets.pods.send_replace(Some(state));
        }
        self.outlets.heard.send_if_modified(|was| {
            let differs = **was != self.heard;
            if differs {
                *was = Arc::new(self.heard.clone());
            }
            differs
        });
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

    #[test]
    fn an_exchanged_master_keeps_the_ways_to_the_pods_that_go_on() {
        let object =
            |name: &str, cluster: &str| json!({"metadata": {"namespace": "default", "name": name}, "of": cluster});
        let mut shelf = WatchShelf::new(|object| Some((text(object, "name"), object["of"].as_str()?.to_owned())));
        assert!(shelf.all().is_none());
        shelf.take(News::Listed(vec![object("a", "1"), object("b", "1")]), Some("c1".into()));
        shelf.take(News::Event { gone: true, object: object("b", "1") }, None);
        shelf.take(News::Listed(vec![object("c", "2")]), Some("c2".into()));
        let pair = |name: &str, of: &str| Arc::new((name.to_owned(), of.to_owned()));
        assert_eq!(shelf.all().unwrap(), [pair("a", "1"), pair("c", "2")]);
        shelf.take(News::Event { gone: false, object: object("a", "2") }, None);
        assert_eq!(shelf.all().unwrap(), [pair("a", "2"), pair("c", "2")]);
        // What says the same again is no news.
        assert!(!shelf.take(News::Event { gone: false, object: object("a", "2") }, None));
        assert!(!shelf.take(News::Listed(vec![object("a", "2"), object("c", "2")]), Some("c2".into())));
        assert!(shelf.take(News::Event { gone: true, object: object("a", "2") }, None));
    }
}
