//! The cluster as the controllers see it: narrow views of the objects, indexed, fed by events. PURE.

use super::Owner;
use super::garbage::Garbage;
use super::namespaces;
use super::own::{self, Own, RangeView};
use super::view::{self, BudgetView, ControllerView, EndpointsView, NodeView, PodView, ScaleView, ServiceView, SliceView};
use crate::store::{Event, Stored};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::strategy::furniture::is_root;
use coracle_api::strategy::namespace::is_ending;
use serde_json::Value;
use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What is looked at whole. Of everything else only what becomes of it when its owner goes.
const FOLLOWED: [&str; 6] = ["pods", "replicationcontrollers", "services", "endpoints", "nodes", "events"];

pub const SLICES: Resource = of("discovery.k8s.io", "endpointslices");
pub const BUDGETS: Resource = of("policy", "poddisruptionbudgets");
/// They say how many pods there are to be: budgets are shares of that.
const SCALED: [Resource; 3] = [of("apps", "deployments"), of("apps", "replicasets"), of("apps", "statefulsets")];

const fn of(group: &'static str, plural: &'static str) -> Resource {
    Resource { group: Cow::Borrowed(group), plural: Cow::Borrowed(plural) }
}

pub fn is_followed(resource: &Resource) -> bool {
    let core = resource.group.is_empty() && FOLLOWED.contains(&&*resource.plural);
    core || *resource == SLICES || *resource == BUDGETS || SCALED.contains(resource)
}

#[derive(Default)]
pub struct Cluster {
    /// Apart: the nodes of a map that is filled in order stay half empty.
    pub pods: BTreeMap<Arc<Key>, Box<PodView>>,
    /// Pods by the node that they are on, the empty one included.
    pods_by_node: BTreeMap<String, BTreeSet<Arc<Key>>>,
    pub nodes: BTreeMap<String, NodeView>,
    pub controllers: BTreeMap<Key, ControllerView>,
    pub services: BTreeMap<Key, ServiceView>,
    pub endpoints: BTreeMap<Key, EndpointsView>,
    pub slices: BTreeMap<Key, SliceView>,
    pub budgets: BTreeMap<Key, BudgetView>,
    scales: BTreeMap<Key, ScaleView>,
    pub events: Events,
    /// Every namespace, and whether it ends.
    pub namespaces: BTreeMap<String, bool>,
    pub quotas: BTreeSet<Key>,
    /// What every namespace should hold, and whether it is as it should be.
    pub furniture: BTreeMap<Key, (Revision, bool)>,
    /// The cluster's own range of service addresses.
    pub range: Option<RangeView>,
    /// What this master was started with. None: it keeps nothing of the cluster's own.
    pub own: Option<Arc<Own>>,
    /// What `kube-root-ca.crt` should say. None: this master does not know who it is.
    pub authority: Option<Arc<str>>,
    /// Objects that exist and cannot be read: they are not absent.
    pub damaged: BTreeSet<Key>,
    /// Nodes whose deletion was seen while pods were bound to them, and when that was, by uptime.
    pub removed_nodes: BTreeMap<String, Duration>,
    pub garbage: Garbage,
    /// When each node last gave a sign of life, by uptime.
    heard: BTreeMap<String, Duration>,
    /// What was last complained about, so that it is said once.
    complaints: BTreeMap<Owner, String>,
}

/// Events by age.
#[derive(Default)]
pub struct Events {
    came: BTreeMap<Arc<Key>, Came>,
    by_age: BTreeSet<(Duration, Arc<Key>)>,
    bytes: usize,
}

#[derive(Clone, Copy)]
pub struct Came {
    pub revision: Revision,
    /// The uptime then.
    pub at: Duration,
    pub bytes: usize,
}

impl Events {
    fn put(&mut self, key: &Arc<Key>, new: Option<Came>) {
        let old = match new {
            Some(new) => self.came.insert(key.clone(), new),
            None => self.came.remove(key),
        };
        if let Some(old) = old {
            self.by_age.remove(&(old.at, key.clone()));
            self.bytes -= old.bytes;
        }
        if let Some(new) = new {
            self.by_age.insert((new.at, key.clone()));
            self.bytes += new.bytes;
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.came.len()
    }

    /// The oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = (&Key, Came)> {
        self.by_age.iter().filter_map(|(_, key)| Some((&**key, *self.came.get(key)?)))
    }
}

/// Complaints that are remembered; more keys than this fail only when everything does.
const COMPLAINTS_MAX: usize = 1000;

impl Cluster {
    pub fn of(kinds: &Kinds) -> Cluster {
        Cluster { garbage: Garbage::of(kinds), ..Cluster::default() }
    }

    /// One change of one object.
    pub fn apply(&mut self, event: &Event, uptime: Duration) {
        let key = &event.key;
        let new = event.new.as_ref();
        let was_damaged = self.damaged.remove(&**key);
        self.garbage.apply(event);
        let plural = if is_followed(&key.resource) || namespaces::concerns(key) || own::concerns(key) { &*key.resource.plural } else { "" };
        let read = match plural {
            "pods" => self.apply_pod(key, new, uptime),
            "replicationcontrollers" => put(&mut self.controllers, &**key, new, view::controller),
            "services" => put(&mut self.services, &**key, new, view::service),
            "endpoints" => put(&mut self.endpoints, &**key, new, view::endpoints),
            "endpointslices" => put(&mut self.slices, &**key, new, view::slice),
            "poddisruptionbudgets" => put(&mut self.budgets, &**key, new, view::budget),
            "deployments" | "replicasets" | "statefulsets" => put(&mut self.scales, &**key, new, view::scale),
            "nodes" => self.apply_node(key, new, uptime, was_damaged),
            "events" => {
                let came = |stored: &Stored| Came { revision: stored.revision, at: uptime, bytes: stored.json.len() };
                self.events.put(key, new.map(came));
                true
            }
            "resourcequotas" => {
                match new {
                    Some(_) => self.quotas.insert(Key::clone(key)),
                    None => self.quotas.remove(key),
                };
                true
            }
            "namespaces" => {
                match new {
                    Some(stored) => self.namespaces.insert(key.name.clone(), is_ending(&document(stored))),
                    None => self.namespaces.remove(&key.name),
                };
                true
            }
            "servicecidrs" if own::concerns(key) => {
                self.range = new.map(|stored| RangeView { revision: stored.revision, document: document(stored) });
                true
            }
            "serviceaccounts" if namespaces::concerns(key) => put(&mut self.furniture, key, new, |stored| Some((stored.revision, true))),
            "configmaps" if namespaces::concerns(key) => {
                let authority = self.authority.clone();
                let right = |map: &Value| authority.as_deref().is_none_or(|authority| is_root(map, authority));
                put(&mut self.furniture, key, new, |stored| Some((stored.revision, right(&document(stored)))))
            }
            _ => true,
        };
        // A document that makes no sense to us is there all the same: unknown is not absent.
        if !read {
            self.damaged.insert(Key::clone(key));
        }
        if new.is_none() {
            self.complaints.retain(|owner, _| !owner.is(key));
        }
    }

    fn apply_pod(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> bool {
        let was = self.pods.remove(key);
        let now = new.map(|stored| view::pod(stored, was.as_deref(), uptime));
        let read = !matches!(now, Some(None));
        let now = now.flatten().map(Box::new);
        let node = |pod: &Option<Box<PodView>>| pod.as_ref().map(|pod| pod.node.clone());
        if node(&was) != node(&now) {
            self.index(key, node(&was), node(&now));
        }
        let Some(pod) = now else { return read };
        // Somebody on its node has seen it, even if that node says nothing of itself.
        if pod.ready == Some(true) && was.is_some_and(|was| was.ready == Some(false)) {
            self.hear(&pod.node, uptime);
        }
        self.pods.insert(key.clone(), pod);
        read
    }

    fn index(&mut self, key: &Arc<Key>, from: Option<String>, to: Option<String>) {
        if let Some(node) = from
            && let Some(pods) = self.pods_by_node.get_mut(&node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_by_node.remove(&node);
                self.removed_nodes.remove(&node);
            }
        }
        if let Some(node) = to {
            self.pods_by_node.entry(node).or_default().insert(key.clone());
        }
    }

    fn apply_node(&mut self, key: &Key, new: Option<&Stored>, uptime: Duration, was_damaged: bool) -> bool {
        let name = &key.name;
        let was = self.nodes.get(name).map(|node| node.uid.clone());
        let read = put(&mut self.nodes, name, new, view::node);
        match new {
            None => {
                self.heard.remove(name);
                if (was.is_some() || was_damaged) && self.pods_by_node.contains_key(name) {
                    self.removed_nodes.insert(name.clone(), uptime);
                }
            }
            Some(_) => {
                self.removed_nodes.remove(name);
                // Another node of this name begins with its registration.
                if was.is_none() || was.as_ref() != self.nodes.get(name).map(|node| &node.uid) {
                    self.heard.insert(name.clone(), uptime);
                }
            }
        }
        read
    }

    /// A sign of life; true if it came after a silence that has been noticed.
    pub fn hear(&mut self, node: &str, uptime: Duration) -> bool {
        let Some(view) = self.nodes.get(node) else { return false };
        self.heard.insert(node.to_owned(), uptime);
        view.silent()
    }

    pub fn heard(&self, node: &str) -> Option<Duration> {
        self.heard.get(node).copied()
    }

    pub fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        inside(&self.pods, Resource::core("pods"), namespace).map(|(key, pod)| (key, &**pod))
    }

    pub fn controllers_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a ControllerView)> {
        inside(&self.controllers, Resource::core("replicationcontrollers"), namespace)
    }

    pub fn services_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a ServiceView)> {
        inside(&self.services, Resource::core("services"), namespace)
    }

    pub fn slices_of<'a>(&'a self, service: &'a Key) -> impl Iterator<Item = (&'a Key, &'a SliceView)> {
        inside(&self.slices, SLICES, &service.namespace).filter(|(_, slice)| slice.service == service.name)
    }

    pub fn budgets_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a BudgetView)> {
        inside(&self.budgets, BUDGETS, namespace)
    }

    /// Whether objects of a kind say how many pods there are to be.
    pub fn is_scaled(resource: &Resource) -> bool {
        SCALED.contains(resource) || *resource == Resource::core("replicationcontrollers")
    }

    /// Who keeps pods in number: its uid, how many, and the uid of who decides on that.
    pub fn scales_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a str, (i64, Option<&'a str>))> {
        let scales = SCALED.into_iter().flat_map(move |resource| inside(&self.scales, resource, namespace));
        let scales = scales.map(|(_, scale)| (scale.uid.as_str(), (scale.replicas, scale.owner.as_deref())));
        scales.chain(self.controllers_in(namespace).map(|(_, controller)| (controller.uid.as_str(), (controller.replicas, None))))
    }

    /// Whether a pod that may run uses a claim of its namespace.
    pub fn uses(&self, claim: &Key) -> bool {
        let named = format!("\"claimName\":{:?}", claim.name);
        let names = |pod: &PodView| std::str::from_utf8(&pod.document.json).is_ok_and(|text| text.contains(&named));
        // One that cannot be read may use anything.
        let unknown = self.damaged.iter().any(|key| &*key.resource.plural == "pods" && key.namespace == claim.namespace);
        unknown || self.pods_in(&claim.namespace).any(|(_, pod)| !pod.node.is_empty() && !pod.terminal() && names(pod))
    }

    /// An empty name: those on no node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodView)> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| Some((&**key, &**self.pods.get(key)?)))
    }

    /// All there is has been seen. A node that does not exist and yet has pods of controllers was deleted before this process began: nobody
    /// but the scheduler puts such pods on nodes.
    pub fn complete(&mut self) {
        let absent = |name: &&String| !name.is_empty() && !self.nodes.contains_key(*name) && !self.damaged.contains(&node_key(name));
        let owned = |name: &&String| self.pods_on(name).any(|(_, pod)| pod.owner.is_some());
        let removed: Vec<String> = self.pods_by_node.keys().filter(absent).filter(owned).cloned().collect();
        self.removed_nodes.extend(removed.into_iter().map(|name| (name, Duration::ZERO)));
    }

    /// Takes over what was learned by watching, from a cluster that has missed something. What has vanished meanwhile was deleted.
    pub fn inherit(&mut self, old: Cluster, uptime: Duration) {
        for (name, heard) in old.heard {
            let uid = |nodes: &BTreeMap<String, NodeView>| nodes.get(&name).map(|node| node.uid.clone());
            if uid(&self.nodes).is_some() && uid(&self.nodes) == uid(&old.nodes) {
                self.heard.insert(name, heard);
            }
        }
        let gone = old.nodes.into_keys().map(|name| (name, uptime)).chain(old.removed_nodes);
        for (name, at) in gone {
            if !self.nodes.contains_key(&name) && !self.damaged.contains(&node_key(&name)) && self.pods_by_node.contains_key(&name) {
                self.removed_nodes.insert(name, at);
            }
        }
        for (key, was) in old.events.came {
            if let Some(is) = self.events.came.get(&key).copied() {
                self.events.put(&key, Some(Came { at: was.at, ..is }));
            }
        }
        self.complaints = old.complaints;
    }

    /// What was last complained about.
    pub fn complaint(&self, owner: &Owner) -> Option<&str> {
        self.complaints.get(owner).map(String::as_str)
    }

    /// There is nothing to complain about any more; true if there was.
    pub fn content(&mut self, owner: &Owner) -> bool {
        self.complaints.remove(owner).is_some()
    }

    /// Whether this is said for the first time.
    pub fn complain(&mut self, owner: &Owner, why: &str) -> bool {
        if self.complaints.get(owner).is_some_and(|said| said == why) {
            return false;
        }
        if self.complaints.len() >= COMPLAINTS_MAX {
            self.complaints.clear();
        }
        self.complaints.insert(owner.clone(), why.to_owned());
        true
    }
}

pub fn node_key(name: &str) -> Key {
    Key { resource: Resource::core("nodes"), namespace: String::new(), name: name.to_owned() }
}

/// The keys are in order of their namespaces.
fn inside<'a, K: Borrow<Key> + Ord, V>(
    map: &'a BTreeMap<K, V>,
    resource: Resource,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a V)> {
    let first = Key { resource, namespace: namespace.to_owned(), name: String::new() };
    map.range::<Key, _>(first..).map(|(key, view)| (key.borrow(), view)).take_while(move |(key, _)| key.namespace == namespace)
}

fn document(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.json).unwrap_or_default()
}

/// False: the document makes no sense; what was known of the object is forgotten.
fn put<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, new: Option<&Stored>, view: impl FnOnce(&Stored) -> Option<V>) -> bool {
    map.remove(key);
    let Some(stored) = new else { return true };
    let Some(view) = view(stored) else { return false };
    map.insert(key.clone(), view);
    true
}
