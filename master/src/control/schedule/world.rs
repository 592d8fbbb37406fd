//! The nodes as the scheduler counts them, with the pods that were placed in this look. PURE.

use super::super::balancer;
use super::super::cluster::Cluster;
use super::super::usage::NodeUsage;
use super::super::view::{HostPort, NodeView, PodView};
use super::ask::{Ask, Relations, Spread};
use coracle_api::meta::Key;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A node with its pods.
pub struct Room<'a> {
    pub name: &'a str,
    pub node: &'a NodeView,
    pub usage: NodeUsage,
    /// The node's ports that the balancer forwards to services.
    balanced: Vec<HostPort>,
    /// Pods that were placed here in this look.
    came: Vec<(&'a Key, &'a PodView)>,
    /// Uids of pods that are left out, as if they were deleted.
    gone: BTreeSet<&'a str>,
}

/// All nodes, in the order in which equals are chosen.
pub struct World<'a> {
    pub cluster: &'a Cluster,
    pub rooms: Vec<Room<'a>>,
    /// Of each node in `rooms`.
    places: BTreeMap<&'a str, usize>,
    /// The affinity of placed pods by uid: each pod is read once in a look.
    relations: RefCell<BTreeMap<&'a str, Rc<Relations>>>,
    /// Pods that wait for a node which was made free for them.
    pub nominated: Vec<(&'a Key, &'a PodView, String)>,
}

impl<'a> World<'a> {
    pub fn of(cluster: &'a Cluster) -> World<'a> {
        let none = NodeUsage::default();
        let room = |name: &'a String| {
            let usage = cluster.usage(name).unwrap_or(&none).clone();
            let node = &cluster.nodes[name];
            Room { name, node, usage, balanced: balancer::held(cluster, node), came: Vec::new(), gone: BTreeSet::new() }
        };
        let nominated = |(key, pod): (&'a Key, &'a PodView)| {
            let node = pod.unbound.as_ref().filter(|_| pod.active()).map(|unbound| unbound.nominated.clone())?;
            (!node.is_empty()).then_some((key, pod, node))
        };
        let nominated = cluster.pods_on("").filter_map(nominated).collect();
        let rooms: Vec<Room<'_>> = in_turn(cluster).into_iter().map(room).collect();
        let places = rooms.iter().enumerate().map(|(at, room)| (room.name, at)).collect();
        World { cluster, rooms, places, relations: RefCell::default(), nominated }
    }

    pub fn relations(&self, pod: &'a PodView) -> Rc<Relations> {
        let mut known = self.relations.borrow_mut();
        known.entry(pod.uid.as_str()).or_insert_with(|| Rc::new(Relations::of_pod(pod))).clone()
    }

    pub fn room(&self, node: &str) -> Option<usize> {
        self.places.get(node).copied()
    }

    /// All pods that stand, with the place of their node.
    pub fn pods(&self) -> impl Iterator<Item = (usize, &'a Key, &'a PodView)> + '_ {
        self.rooms
            .iter()
            .enumerate()
            .flat_map(|(at, room)| room.pods(self.cluster).map(move |(key, pod)| (at, key, pod)))
    }

    /// All placed pods with affinity or anti-affinity, with the place of their node.
    pub fn related(&self) -> impl Iterator<Item = (usize, &'a Key, &'a PodView)> + '_ {
        let standing = self.cluster.related_pods().filter_map(|(key, pod)| {
            let at = self.room(&pod.node)?;
            (!pod.terminal() && !self.rooms[at].gone.contains(pod.uid.as_str())).then_some((at, key, pod))
        });
        let came = self.rooms.iter().enumerate();
        let came = came.flat_map(|(at, room)| {
            room.came.iter().filter(|(_, pod)| pod.related).map(move |(key, pod)| (at, *key, *pod))
        });
        standing.chain(came)
    }

    /// The places of the nodes of the pods that a constraint of this pod counts. Only pods with the constraint's labels
    /// or owner are looked at.
    pub fn counted<'w>(&'w self, ask: &'w Ask<'a>, spread: &'w Spread) -> impl Iterator<Item = usize> + 'w {
        let (namespace, pairs) = (&ask.key.namespace, spread.pairs());
        let standing: Vec<(&Key, &PodView)> = match (pairs.as_slice(), spread.owner()) {
            ([], None) => self.cluster.pods_in(namespace).collect(),
            ([], Some((key, uid))) => self.cluster.pods_of(key, uid).collect(),
            (pairs, _) => self.cluster.pods_with(namespace, pairs).collect(),
        };
        let counts = |pod: &PodView| !pod.deleting && spread.counts(pod.labels(), pod.owner.as_ref());
        let standing = standing.into_iter().filter_map(move |(_, pod)| {
            let at = *self.places.get(pod.node.as_str()).filter(|_| counts(pod))?;
            (!pod.terminal() && !self.rooms[at].gone.contains(pod.uid.as_str())).then_some(at)
        });
        let came = self
            .rooms
            .iter()
            .enumerate()
            .flat_map(|(at, room)| room.came.iter().map(move |(key, pod)| (at, *key, *pod)));
        standing
            .chain(came.filter(move |(_, key, pod)| key.namespace == *namespace && counts(pod)).map(|(at, _, _)| at))
    }
}

impl<'a> Room<'a> {
    pub fn pods(&self, cluster: &'a Cluster) -> impl Iterator<Item = (&'a Key, &'a PodView)> + '_ {
        let standing =
            cluster.pods_on(self.name).filter(|(_, pod)| !pod.terminal() && !self.gone.contains(pod.uid.as_str()));
        standing.chain(self.came.iter().copied().filter(|(_, pod)| !self.gone.contains(pod.uid.as_str())))
    }

    pub fn take(&mut self, key: &'a Key, pod: &'a PodView) {
        self.usage.add(pod);
        if !self.gone.remove(pod.uid.as_str()) {
            self.came.push((key, pod));
        }
    }

    /// Thinks a pod away.
    pub fn leave(&mut self, pod: &'a PodView) {
        self.usage.remove(pod);
        if let Some(at) = self.came.iter().position(|(_, one)| one.uid == pod.uid) {
            self.came.remove(at);
        } else {
            self.gone.insert(pod.uid.as_str());
        }
    }

    /// Whether a service holds a port that a pod asks for: no pod that leaves helps.
    pub fn is_balanced(&self, wanted: &HostPort) -> bool {
        self.balanced.iter().any(|port| port.clashes(wanted))
    }

    pub fn has_port(&self, cluster: &'a Cluster, wanted: &HostPort) -> bool {
        self.pods(cluster).any(|(_, pod)| pod.host_ports.iter().any(|port| port.clashes(wanted)))
    }
}

/// Nodes by their age, one of each zone in turn.
fn in_turn(cluster: &Cluster) -> Vec<&String> {
    let mut nodes: Vec<(&String, &NodeView)> = cluster.nodes.iter().collect();
    nodes.sort_by_key(|(name, node)| (node.created.map(|created| created.seconds()), *name));
    let mut zones: Vec<(String, Vec<&String>)> = Vec::new();
    for (name, node) in nodes {
        let zone = node.zone();
        match zones.iter_mut().find(|(one, _)| *one == zone) {
            Some((_, all)) => all.push(name),
            None => zones.push((zone, vec![name])),
        }
    }
    let longest = zones.iter().map(|(_, all)| all.len()).max().unwrap_or_default();
    (0..longest).flat_map(|nth| zones.iter().filter_map(move |(_, all)| all.get(nth).copied())).collect()
}
