//! The cluster as the controllers see it: views of objects, indexed and fed by events. PURE.

use super::balanced::BalancedView;
use super::happened::{Happened, Happening};
use super::kept_events::{Came, Events};
use super::labelled::Labelled;
use super::pod_garbage::Ended;
use super::readings::Readings;
use super::references::References;
use super::rules::ControlRule;
use super::settings::Settings;
use super::shelf::{Shelf, Shelves, View};
use super::storage::view::{CLAIMS, CLASSES, CSI_NODES, VOLUMES};
use super::usage::NodeUsage;
use super::view::{
    self, EVENTS, LEASES, Labels, NODE_LEASES, NODES, NodeView, PODS, PodView, SERVICES, Selector, node_key,
};
use crate::store::{Event, Stored};
use coracle_api::meta::Key;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub struct Cluster {
    pub settings: Settings,
    pods: Shelf<Box<PodView>>,
    /// The keys of the pods on each node. The empty name stands for no node.
    pods_by_node: BTreeMap<String, BTreeSet<Arc<Key>>>,
    labelled: Labelled,
    pub ended: Ended,
    /// The summed requests of the pods on each node.
    usage: BTreeMap<String, NodeUsage>,
    /// Pods that want other pods near or far, and have a node.
    related: BTreeSet<Arc<Key>>,
    /// What pods may have waited for.
    pub happened: Happened,
    pub nodes: BTreeMap<String, NodeView>,
    pub events: Events,
    /// The views of the followed kinds besides pods, nodes and events.
    shelves: Shelves,
    pub references: References,
    pub readings: Readings,
    /// Objects that exist and cannot be read: they are not absent.
    pub damaged: BTreeSet<Key>,
    /// Nodes whose deletion was seen while pods were bound to them, and the uptime then.
    pub removed_nodes: BTreeMap<String, Duration>,
    /// By node: the uptime of the last sign of life.
    heard: BTreeMap<String, Duration>,
}

/// A change that was taken in: the object as it was before, and objects that it concerns by reference.
#[derive(Default)]
pub struct Before {
    pub views: Vec<Box<dyn Any>>,
    /// The object cannot be read, or could not before.
    pub unreadable: bool,
    pub references: BTreeSet<Key>,
}

impl Cluster {
    pub fn new(settings: Settings, references: References, shelves: Shelves) -> Cluster {
        Cluster {
            settings,
            references,
            shelves,
            pods: Shelf::default(),
            pods_by_node: BTreeMap::new(),
            labelled: Labelled::default(),
            ended: Ended::default(),
            usage: BTreeMap::new(),
            related: BTreeSet::new(),
            happened: Happened::default(),
            readings: Readings::default(),
            nodes: BTreeMap::new(),
            events: Events::default(),
            damaged: BTreeSet::new(),
            removed_nodes: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    pub fn holds(&self, rule: ControlRule) -> bool {
        self.settings.rules.hold(rule)
    }

    /// Applies a change of an object to the views.
    pub fn apply(&mut self, event: &Event, uptime: Duration) -> Before {
        let (key, new) = (&event.key, event.new.as_ref());
        let was_damaged = self.damaged.remove(&**key);
        self.references.apply(event);
        let (views, read) = if key.resource == PODS {
            self.apply_pod(key, new, uptime)
        } else if key.resource == NODES {
            self.apply_node(&key.name, new, uptime, was_damaged)
        } else if key.resource == EVENTS {
            let came = |stored: &Stored| Came { revision: stored.revision, at: uptime, bytes: stored.json.len() };
            self.events.put(key, new.map(came));
            (Vec::new(), true)
        } else {
            if [CLAIMS, VOLUMES, CLASSES, CSI_NODES].contains(&key.resource) {
                self.happened.note(Happening::Storage);
            }
            if key.resource == LEASES && key.namespace == NODE_LEASES && new.is_some() {
                self.hear(&key.name, uptime);
            }
            let (views, read) = self.shelves.put(key, new, uptime);
            if key.resource == SERVICES {
                let was = views.iter().find_map(|view| view.downcast_ref());
                if was.is_some() && BalancedView::leaves(was, self.get(key)) {
                    self.happened.note(Happening::PortsLeft);
                }
            }
            (views, read)
        };
        // A document that makes no sense to us is there all the same: unknown is not absent.
        if !read {
            self.damaged.insert(Key::clone(key));
        }
        Before { views, unreadable: was_damaged || !read, references: self.references.changed() }
    }

    fn apply_pod(&mut self, key: &Arc<Key>, new: Option<&Stored>, uptime: Duration) -> (Vec<Box<dyn Any>>, bool) {
        let (was, read) = self.pods.put(key, new, uptime);
        self.count(key, was.as_deref());
        let labels = |pod: &PodView| pod.document.labels.clone();
        let is = self.pods.get(key).map(|pod| labels(pod));
        self.labelled.put(key, was.as_deref().map(labels).as_ref(), is.as_ref());
        let node = |pod: &PodView| pod.node.clone();
        let (left, joined) = (was.as_deref().map(node), self.pod(key).map(node));
        if left != joined {
            self.index(key, left, joined.clone());
        }
        // A pod that becomes ready is a sign of life: its node's agent reported this, even without a heartbeat.
        let ready = |pod: Option<&PodView>| pod.and_then(|pod| pod.ready);
        if let Some(node) = joined
            && (ready(was.as_deref()), ready(self.pod(key))) == (Some(false), Some(true))
        {
            self.hear(&node, uptime);
        }
        (was.map(|was| was as Box<dyn Any>).into_iter().collect(), read)
    }

    /// Updates the node's usage, the ended pods and the happenings after a change of a pod.
    fn count(&mut self, key: &Arc<Key>, was: Option<&PodView>) {
        let is = self.pods.get(key).map(|pod| &**pod);
        self.happened.of_pod(was, is);
        self.ended.put(key, was, is);
        if let Some(was) = was.filter(|pod| pod.takes_room())
            && let Some(usage) = self.usage.get_mut(&was.node)
        {
            usage.remove(was);
            if usage.pods == 0 {
                self.usage.remove(&was.node);
            }
        }
        if let Some(is) = is.filter(|pod| pod.takes_room()) {
            self.usage.entry(is.node.clone()).or_default().add(is);
        }
        if is.is_some_and(|pod| pod.related && pod.takes_room()) {
            self.related.insert(key.clone());
        } else {
            self.related.remove(key);
        }
    }

    /// The summed requests of the pods on a node. `None`: no pod takes room there.
    pub fn usage(&self, node: &str) -> Option<&NodeUsage> {
        self.usage.get(node)
    }

    /// Pods with a node that want other pods near or far.
    pub fn related_pods(&self) -> impl Iterator<Item = (&Key, &PodView)> {
        self.related.iter().filter_map(|key| Some((&**key, &**self.pods.get(key)?)))
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

    fn apply_node(
        &mut self,
        name: &str,
        new: Option<&Stored>,
        uptime: Duration,
        was_damaged: bool,
    ) -> (Vec<Box<dyn Any>>, bool) {
        let was = self.nodes.remove(name);
        let view = new.map(view::node);
        let read = !matches!(view, Some(None));
        if let Some(view) = view.flatten() {
            self.nodes.insert(name.to_owned(), view);
        }
        self.happened.of_node(name, was.as_ref(), self.nodes.get(name));
        let uid = |node: Option<&NodeView>| node.map(|node| node.uid.clone());
        if new.is_none() {
            self.heard.remove(name);
            if (was.is_some() || was_damaged) && self.pods_by_node.contains_key(name) {
                self.removed_nodes.insert(name.to_owned(), uptime);
            }
        } else {
            self.removed_nodes.remove(name);
            // A new node with this name counts as heard at its registration.
            if was.is_none() || uid(was.as_ref()) != uid(self.nodes.get(name)) {
                self.heard.insert(name.to_owned(), uptime);
            }
        }
        (was.map(|was| Box::new(was) as Box<dyn Any>).into_iter().collect(), read)
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

    pub fn pod(&self, key: &Key) -> Option<&PodView> {
        self.pods.get(key).map(|pod| &**pod)
    }

    pub fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        self.pods.within(namespace).map(|(key, pod)| (key, &**pod))
    }

    /// The pods of a namespace with all these labels; without any label, no pods.
    pub fn pods_labelled<'a>(
        &'a self,
        namespace: &'a str,
        wanted: &'a Labels,
    ) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        let pairs: Vec<_> = wanted.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.pods_with(namespace, &pairs).filter(move |(_, pod)| view::selects(wanted, pod.labels()))
    }

    /// Candidates for the pods of a namespace that have all of these labels; without one, none.
    pub fn pods_with<'a>(
        &'a self,
        namespace: &'a str,
        wanted: &[(&str, &str)],
    ) -> impl Iterator<Item = (&'a Key, &'a PodView)> + use<'a> {
        let candidates = self.labelled.candidates(namespace, wanted).filter_map(|key| Some((&**key, self.pod(key)?)));
        candidates.filter(move |(key, _)| key.namespace == namespace)
    }

    /// The pods of a namespace that a selector selects.
    pub fn pods_selected<'a>(&'a self, namespace: &'a str, selector: &Selector) -> Vec<(&'a Key, &'a PodView)> {
        let pairs = selector.pairs();
        let selects = |(_, pod): &(&Key, &PodView)| selector.selects(pod.labels());
        if pairs.is_empty() {
            return self.pods_in(namespace).filter(selects).collect();
        }
        self.pods_with(namespace, &pairs).filter(selects).collect()
    }

    /// The pods that this object acts on.
    pub fn pods_of<'a>(&'a self, key: &'a Key, uid: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        let pods = self.references.dependents(key).filter_map(|key| Some((key, self.pod(key)?)));
        pods.filter(move |(_, pod)| pod.owner.as_deref() == Some(uid))
    }

    /// Pods of a namespace that no owner acts on.
    pub fn orphaned_pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a PodView)> {
        self.pods.orphans_in(namespace).map(|(key, pod)| (key, &**pod))
    }

    pub fn pods(&self) -> impl Iterator<Item = (&Key, &PodView)> {
        self.pods.iter().map(|(key, pod)| (key, &**pod))
    }

    /// Pods of a namespace that exist and cannot be read.
    pub fn damaged_pods<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        self.damaged.iter().filter(move |key| key.resource == PODS && key.namespace == namespace)
    }

    pub fn get<V: View>(&self, key: &Key) -> Option<&V> {
        self.shelves.shelf().get(key)
    }

    /// With its key, which lives as long as the cluster is not changed.
    pub fn entry<V: View>(&self, key: &Key) -> Option<(&Key, &V)> {
        self.shelves.shelf().entry(key)
    }

    pub fn all<V: View>(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.shelves.shelf().iter()
    }

    /// The dependents of an object that are read as this view.
    pub fn dependents<'a, V: View>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a Key, &'a V)> {
        let of = |key: &&Key| V::OF.contains(&key.resource);
        self.references.dependents(key).filter(of).filter_map(|key| Some((key, self.get(key)?)))
    }

    pub fn orphans_in<'a, V: View>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a V)> {
        self.shelves.shelf().orphans_in(namespace)
    }

    pub fn within<'a, V: View>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a V)> {
        self.shelves.shelf().within(namespace)
    }

    /// Candidates in a namespace whose selectors may match these labels; no object besides the candidates matches.
    pub fn selecting<'a, 'l, V: View>(
        &'a self,
        namespace: &'l str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
    ) -> impl Iterator<Item = (&'a Key, &'a V)> {
        self.shelves.shelf().selecting(namespace, labels)
    }

    /// Whether a pod with a node uses a claim of its namespace; an ended pod counts until its object is gone.
    pub fn uses(&self, claim: &Key) -> bool {
        let names = |key: &Key, pod: &PodView| {
            let document = view::document(&pod.document);
            let volumes = document["spec"]["volumes"].as_array().into_iter().flatten();
            // The claim of an ephemeral volume goes with its pod.
            let own = |volume: &serde_json::Value| {
                let name = volume["name"].as_str().unwrap_or_default();
                !pod.ending && volume["ephemeral"].is_object() && claim.name == format!("{}-{name}", key.name)
            };
            volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == *claim.name || own(volume))
        };
        // An unreadable pod may use any claim.
        let unknown = self.damaged_pods(&claim.namespace).next().is_some();
        unknown
            || self.pods_in(&claim.namespace).any(|(key, pod)| pod.claims && !pod.node.is_empty() && names(key, pod))
    }

    /// The names of the nodes that pods are bound to.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.pods_by_node.keys().map(String::as_str).filter(|name| !name.is_empty())
    }

    /// An empty name: those on no node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodView)> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| Some((&**key, &**self.pods.get(key)?)))
    }

    /// All there is has been seen. A node that does not exist and yet has pods of controllers was deleted before this
    /// process began: nobody but the scheduler puts such pods on nodes.
    pub fn complete(&mut self) {
        let absent = |name: &&String| {
            !name.is_empty() && !self.nodes.contains_key(*name) && !self.damaged.contains(&node_key(name))
        };
        let owned = |name: &&String| self.pods_on(name).any(|(_, pod)| pod.owner.is_some());
        let removed: Vec<String> = self.pods_by_node.keys().filter(absent).filter(owned).cloned().collect();
        self.removed_nodes.extend(removed.into_iter().map(|name| (name, Duration::ZERO)));
    }

    /// Takes over what was learned by watching, from a cluster that has missed something. What has vanished meanwhile
    /// was deleted.
    pub fn inherit(&mut self, old: Cluster, uptime: Duration) {
        for (name, heard) in old.heard {
            let uid = |nodes: &BTreeMap<String, NodeView>| nodes.get(&name).map(|node| node.uid.clone());
            if uid(&self.nodes).is_some() && uid(&self.nodes) == uid(&old.nodes) {
                self.heard.insert(name, heard);
            }
        }
        let gone = old.nodes.into_keys().map(|name| (name, uptime)).chain(old.removed_nodes);
        for (name, at) in gone {
            if !self.nodes.contains_key(&name)
                && !self.damaged.contains(&node_key(&name))
                && self.pods_by_node.contains_key(&name)
            {
                self.removed_nodes.insert(name, at);
            }
        }
        self.events.inherit(old.events);
    }
}
