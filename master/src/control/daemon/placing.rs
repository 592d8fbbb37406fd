//! On which nodes the pods of a DaemonSet are to be, and how each is bound to its own. PURE.

use super::super::cluster::Cluster;
use super::super::controller::{ObservedChange, all};
use super::super::replicas::Pod;
use super::super::view::{NodeView, document};
use super::DaemonSetView;
use coracle_api::meta::Key;
use coracle_api::placement;
use coracle_api::pod::Toleration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Taints that a DaemonSet's pods tolerate: daemons matter most on nodes that other pods must leave.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const BORNE_ON_ITS_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");
const FIELD: &str = "metadata.name";

/// The template's requirements on nodes.
pub struct Placing {
    spec: Value,
    tolerations: Vec<Toleration>,
}

/// What a node is to a DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeFit {
    pub should_run: bool,
    /// An existing pod may stay.
    pub may_stay: bool,
}

impl Placing {
    pub fn of_template(template: &Value) -> Placing {
        let mut spec = template["spec"].clone();
        bear(&mut spec);
        let tolerations = serde_json::from_value(spec["tolerations"].clone()).unwrap_or_default();
        Placing { spec, tolerations }
    }

    pub fn of(&self, name: &str, node: &NodeView) -> NodeFit {
        let named = self.spec["nodeName"].as_str().unwrap_or_default();
        if !(named.is_empty() || named == name) || !placement::suits(&self.spec, name, &node.labels) {
            return NodeFit::default();
        }
        let kept_away = |effects: &[&str]| placement::untolerated(&node.taints, &self.tolerations, effects).is_some();
        let should_run = !kept_away(&["NoSchedule", "NoExecute"]);
        NodeFit { should_run, may_stay: should_run || !kept_away(&["NoExecute"]) }
    }
}

/// Adds the tolerations that every pod of a DaemonSet has; one of the same key, effect and operator takes the place of
/// the template's.
fn bear(spec: &mut Value) {
    let own = spec["hostNetwork"].as_bool().unwrap_or_default().then_some(BORNE_ON_ITS_NETWORK);
    let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in BORNE.into_iter().chain(own) {
        let new = json!({"key": key, "operator": "Exists", "effect": effect});
        let same = |one: &Value| {
            ["key", "operator", "effect"].iter().all(|field| one[*field] == new[*field]) && one["value"].is_null()
        };
        match all.iter_mut().find(|one| same(one)) {
            Some(one) => *one = new,
            None => all.push(new),
        }
    }
    spec["tolerations"] = all.into();
}

/// Restricts a pod to a node: the scheduler must choose this node.
pub fn bind(spec: &mut Value, node: &str) {
    bear(spec);
    let terms = json!([{"matchFields": [{"key": FIELD, "operator": "In", "values": [node]}]}]);
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = terms;
}

/// The node that a pod is on, or is bound for.
fn target((_, pod): Pod<'_>) -> Option<String> {
    if !pod.node.is_empty() {
        return Some(pod.node.clone());
    }
    let document = document(&pod.document);
    let required = &document["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array()?;
    let mut fields = terms.iter().flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let field = fields.find(|field| field["key"] == FIELD && field["operator"] == "In")?;
    match field["values"].as_array()?.as_slice() {
        [one] => one.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Those on their nodes before those on their way, the oldest first.
pub fn by_target<'c>(pods: impl Iterator<Item = Pod<'c>>) -> BTreeMap<String, Vec<Pod<'c>>> {
    let mut by_node: BTreeMap<String, Vec<Pod<'c>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = target(pod) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_cached_key(|(key, pod)| {
            (pod.node.is_empty(), pod.created.map(|time| time.seconds()), key.name.clone())
        });
    }
    by_node
}

/// A node concerns all DaemonSets when it comes, goes, or says something else of itself than how it fares.
pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let (was, is) = (change.was::<NodeView>(), cluster.nodes.get(&change.key.name));
    let same =
        was.zip(is).is_some_and(|(was, is)| was.labels == is.labels && was.taints == is.taints && was.uid == is.uid);
    if same && !change.is_unreadable() { Vec::new() } else { all::<DaemonSetView>(cluster) }
}
