//! The master: a source of pods, and of the services of the cluster.
//!
//!     last assignment -> Unknown pods of it ... -> the master answers: is it the same cluster?
//!       list and watch of this node's pods -> SourceState (never complete: an end is heard or asked for, not concluded)
//!
//! A pod ends on a deletion that was seen, or on a GET that answers 404 from the same cluster (the uid of namespace kube-system
//! tells). So a silent, emptied, damaged or exchanged master stops nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_api::annotations::MIRROR;
use coracle_api::service::{Endpoints, Service};
use coracle_http::Method;
use coracle_http::client::Client;
use serde_json::Value;
use tokio::sync::watch;

use super::follow::{News, Voice, follow, get};
use super::last::{Assignment, Last, intent};
use super::{Source, SourceState, Wanted};
use crate::naming::{PodName, Tag, fit_uid};
use crate::sync::Shown;

/// Uids whose end was heard; they only matter until their containers are gone. Of more than these, those that are done with are forgotten.
const GONE_KEPT: usize = 256;

/// The pods of this node as the master shows them, status and mirrors included: what reports are compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    pub pods: BTreeMap<String, Value>,
    /// False until the first listing.
    pub listed: bool,
}

/// Services and endpoints; None until both were listed.
pub type Network = Option<(Vec<Service>, Vec<Endpoints>)>;

pub struct Outlets {
    pub pods: watch::Sender<Option<SourceState>>,
    pub heard: watch::Sender<Arc<Heard>>,
    pub network: watch::Sender<Network>,
}

/// Never ends.
pub async fn run(client: Client, node_name: &str, data_dir: &str, shown: watch::Receiver<Arc<Shown>>, outlets: Outlets) {
    let voice = Voice::default();
    let pods = RefCell::new(Pods::open(&client, data_dir, shown, &outlets));
    pods.borrow().publish();
    let (services, endpoints) = (RefCell::new(Shelf::default()), RefCell::new(Shelf::default()));
    let publish = || {
        let (services, endpoints) = (services.borrow(), endpoints.borrow());
        if let (Some(services), Some(endpoints)) = (services.all(), endpoints.all()) {
            let network = (
                services.values().filter_map(|item| Service::read(item).ok()).collect::<Vec<_>>(),
                endpoints.values().filter_map(|item| Endpoints::read(item).ok()).collect::<Vec<_>>(),
            );
            outlets.network.send_if_modified(|was| {
                let differs = was.as_ref() != Some(&network);
                if differs {
                    *was = Some(network);
                }
                differs
            });
        }
    };
    let mine = format!("fieldSelector=spec.nodeName%3D{node_name}");
    #[expect(clippy::await_holding_refcell_ref, reason = "only this closure borrows it, and a follower tells one thing at a time")]
    let tell_pods = async |news| pods.borrow_mut().take(news).await;
    let tell = async |shelf: &RefCell<Shelf>, news| {
        let listed = matches!(news, News::Listed(_));
        let cluster = if listed { cluster_of(&client).await } else { None };
        if listed && cluster.is_none() {
            return false;
        }
        shelf.borrow_mut().take(news, cluster);
        publish();
        true
    };
    tokio::join!(
        follow(&client, &voice, "/api/v1/pods", &mine, tell_pods),
        follow(&client, &voice, "/api/v1/services", "", async |news| tell(&services, news).await),
        follow(&client, &voice, "/api/v1/endpoints", "", async |news| tell(&endpoints, news).await),
    );
}

/// Forgets the ends that the loop knows of and has nothing left to do for.
fn forget(gone: &mut BTreeSet<String>, shown: &Shown) {
    let Shown { desired, world, .. } = shown;
    let tags = world.containers.iter().filter_map(|seen| Tag::read(&seen.name, &seen.labels));
    let left: BTreeSet<String> = tags.map(|tag| tag.pod.uid).chain(world.volumes.iter().chain(&world.busy).cloned()).collect();
    gone.retain(|uid| {
        let uid = fit_uid(uid);
        left.contains(&uid) || !desired.gone.contains(&uid)
    });
}

/// By namespace and name.
type Items = BTreeMap<(String, String), Value>;

/// One resource as it was heard last.
#[derive(Default)]
struct Shelf {
    cluster: String,
    items: Option<Items>,
    /// Of clusters that this master was before: their pods go on here, and so do the ways to them.
    kept: Items,
}

impl Shelf {
    fn take(&mut self, news: News, cluster: Option<String>) {
        if let Some(cluster) = cluster
            && self.cluster != cluster
        {
            self.kept.extend(self.items.take().unwrap_or_default());
            self.cluster = cluster;
        }
        let key = |object: &Value| (text(object, "namespace"), text(object, "name"));
        match news {
            News::Listed(list) => self.items = Some(list.into_iter().map(|object| (key(&object), object)).collect()),
            News::Event { gone: true, object } => {
                self.items.get_or_insert_default().remove(&key(&object));
            }
            News::Event { gone: false, object } => {
                self.items.get_or_insert_default().insert(key(&object), object);
            }
        }
    }

    /// None before the first listing. Of one name the present cluster's counts.
    fn all(&self) -> Option<Items> {
        let items = self.items.as_ref()?;
        let mut all = self.kept.clone();
        all.extend(items.clone());
        Some(all)
    }
}

/// The uid of namespace kube-system; None if it cannot be told now.
async fn cluster_of(client: &Client) -> Option<String> {
    let namespace = get(client, "/api/v1/namespaces/kube-system").await.ok()?;
    Some(text(&namespace, "uid")).filter(|uid| !uid.is_empty())
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

/// The pods of this node, over outages and changes of the master.
struct Pods<'a> {
    client: &'a Client,
    shown: watch::Receiver<Arc<Shown>>,
    outlets: &'a Outlets,
    last: Last,
    assignment: Assignment,
    heard: Heard,
    gone: BTreeSet<String>,
    /// A cluster that was warned of.
    foreign: Option<String>,
}

impl<'a> Pods<'a> {
    fn open(client: &'a Client, data_dir: &str, shown: watch::Receiver<Arc<Shown>>, outlets: &'a Outlets) -> Pods<'a> {
        let last = Last::open(data_dir);
        let assignment = last.assignment().clone();
        Pods { client, shown, outlets, last, assignment, heard: Heard::default(), gone: BTreeSet::new(), foreign: None }
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
        self.last.keep(self.assignment.clone());
        self.publish();
        go_on
    }

    /// False: whose list this is could not be told, so it says nothing about ends.
    async fn listed(&mut self, list: Vec<Value>) -> bool {
        let Some(cluster) = cluster_of(self.client).await else { return false };
        self.meet(&cluster);
        self.heard = Heard { pods: BTreeMap::new(), listed: true };
        for object in list {
            self.hear(text(&object, "uid"), object);
        }
        self.confirm_ends(&cluster).await;
        true
    }

    fn hear(&mut self, uid: String, object: Value) {
        if object["metadata"]["annotations"].get(MIRROR).is_none() {
            self.assignment.pods.insert(uid.clone(), intent(&object));
            self.assignment.others.remove(&uid);
            self.gone.remove(&uid);
        }
        self.heard.pods.insert(uid, object);
    }

    fn end(&mut self, uid: &str) {
        self.assignment.pods.remove(uid);
        if self.gone.len() >= GONE_KEPT {
            let shown = self.shown.borrow().clone();
            forget(&mut self.gone, &shown);
        }
        self.gone.insert(uid.to_owned());
    }

    /// The first cluster is ours. Another one later gets its pods run as well, and ends none of ours.
    fn meet(&mut self, cluster: &str) {
        if self.assignment.cluster == cluster {
            return;
        }
        let was = std::mem::replace(&mut self.assignment.cluster, cluster.to_owned());
        let pods = std::mem::take(&mut self.assignment.pods);
        if !was.is_empty() && self.foreign.as_deref() != Some(cluster) {
            log::warn!(
                "the master at {} is another cluster now (kube-system has uid {cluster}, was {was}): {} pods of the old one go on; \
                 to let them go stop the agent, remove {} and start it again",
                self.client.target(),
                pods.len() + self.assignment.others.len(),
                self.last.path.display()
            );
            self.foreign = Some(cluster.to_owned());
        }
        self.assignment.others.extend(pods);
    }

    /// What this host has and the list does not show: asked for one by one.
    async fn confirm_ends(&mut self, cluster: &str) {
        let known = self.assignment.pods.iter().map(|(uid, pod)| (uid.clone(), text(pod, "namespace"), text(pod, "name")));
        let mut suspects: BTreeSet<(String, String, String)> = known.collect();
        let tags = self.shown.borrow().world.containers.iter().filter_map(|seen| Tag::read(&seen.name, &seen.labels)).collect::<Vec<_>>();
        for PodName { source, namespace, name, uid } in tags.into_iter().map(|tag| tag.pod) {
            if source == Source::Master && !self.assignment.others.contains_key(&uid) {
                suspects.insert((uid, namespace, name));
            }
        }
        suspects.retain(|(uid, ..)| !self.heard.pods.contains_key(uid) && !self.gone.contains(uid));
        let mut ended = Vec::new();
        for (uid, namespace, name) in suspects {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            match self.client.call(Method::GET, &path, None).await {
                Ok(reply) if reply.status.as_u16() == 404 => ended.push(uid),
                // The name is another pod's by now.
                Ok(reply) if reply.status.is_success() => {
                    let found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                    if !text(&found, "uid").is_empty() && text(&found, "uid") != uid {
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

    fn publish(&self) {
        let documents = self.assignment.pods.values().chain(self.assignment.others.values());
        let mut pods = Vec::new();
        for document in documents {
            match Wanted::new(Source::Master, document.clone()) {
                Ok(wanted) => pods.push(wanted),
                Err(problem) => log::error!("pod {}/{}: {problem}", text(document, "namespace"), text(document, "name")),
            }
        }
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        let state = SourceState { pods, complete: false, gone: self.gone.clone() };
        self.outlets.pods.send_if_modified(|was| {
            let differs = was.as_ref() != Some(&state);
            if differs {
                *was = Some(state);
            }
            differs
        });
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
    use crate::desired::Desired;
    use crate::plan::World;
    use serde_json::json;

    #[test]
    fn an_end_is_remembered_until_the_loop_has_seen_to_it() {
        let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
        let check = |knows: &[&str], volumes: &[&str], busy: &[&str], kept: &[&str]| {
            let desired = Arc::new(Desired { gone: uids(knows), ..Desired::default() });
            let world = Arc::new(World { volumes: uids(volumes), busy: uids(busy), ..World::default() });
            let mut gone = uids(&["a", "b"]);
            forget(&mut gone, &Shown { desired, world, looked: true, ..Shown::default() });
            assert_eq!(gone, uids(kept), "{knows:?} {volumes:?} {busy:?}");
        };
        check(&[], &[], &[], &["a", "b"]);
        check(&["a"], &[], &[], &["b"]);
        check(&["a", "b"], &["a"], &[], &["a"]);
        check(&["a", "b"], &[], &["b"], &["b"]);
        check(&["a", "b"], &[], &[], &[]);
    }

    #[test]
    fn an_exchanged_master_keeps_the_ways_to_the_pods_that_go_on() {
        let object = |name: &str, cluster: &str| json!({"metadata": {"namespace": "default", "name": name}, "of": cluster});
        let mut shelf = Shelf::default();
        assert!(shelf.all().is_none());
        shelf.take(News::Listed(vec![object("a", "1"), object("b", "1")]), Some("c1".into()));
        shelf.take(News::Event { gone: true, object: object("b", "1") }, None);
        shelf.take(News::Listed(vec![object("c", "2")]), Some("c2".into()));
        let names = |shelf: &Shelf| shelf.all().unwrap().into_keys().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(&shelf), ["a", "c"]);
        shelf.take(News::Event { gone: false, object: object("a", "2") }, None);
        assert_eq!(shelf.all().unwrap()[&("default".to_owned(), "a".to_owned())]["of"], "2");
    }
}
