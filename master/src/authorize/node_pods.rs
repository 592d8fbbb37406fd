//! The node authorizer over the store: the pods of each node, never older than an answered write.
//!
//! A pod is parsed once after each of its changes. Nothing is looked at before a node asks.

use super::node::{self, NodeObjects, PodReferences};
use super::{Attributes, Authorizer, Decision, RuleList, node_of};
use crate::store::{Store, Stored, locked};
use coracle_api::meta::{Key, Resource, Revision};
use coracle_http::Identity;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

const PODS: Resource = Resource::core("pods");

/// Allows each node what its pods need.
pub struct NodeAuthorizer {
    store: Arc<dyn Store>,
    known: Mutex<KnownPods>,
}

#[derive(Default)]
struct KnownPods {
    /// The last change of any pod that was taken in.
    changed: Option<Revision>,
    /// The pods that are bound to a node, as they were at a revision.
    pods: HashMap<Arc<Key>, (Revision, Bound)>,
    by_node: BTreeMap<Arc<str>, Arc<Vec<Arc<PodReferences>>>>,
}

/// None: no node runs it.
type Bound = Option<(Arc<str>, Arc<PodReferences>)>;

impl NodeAuthorizer {
    pub fn new(store: Arc<dyn Store>) -> NodeAuthorizer {
        NodeAuthorizer { store, known: Mutex::default() }
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision {
        match node_of(identity) {
            None => Decision::NoOpinion(String::new()),
            Some("") => Decision::NoOpinion(format!("unknown node for user {:?}", identity.user)),
            Some(node) => node::decide(self, node, attributes),
        }
    }

    fn rules(&self, identity: &Identity, _namespace: &str) -> RuleList {
        let error = "node authorizer does not support user rule resolution".to_owned();
        node_of(identity).map_or_else(RuleList::default, |_| RuleList {
            incomplete: true,
            error,
            ..RuleList::default()
        })
    }
}

impl NodeObjects for NodeAuthorizer {
    fn pods(&self, node: &str) -> Arc<Vec<Arc<PodReferences>>> {
        let mut known = locked(&self.known);
        // Before the pods are read: a write in between makes the next caller look again.
        let changed = self.store.changed(&PODS);
        if known.changed != Some(changed) {
            known.take(self.store.list(&PODS, None).items, changed);
        }
        known.by_node.get(node).cloned().unwrap_or_default()
    }

    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let key = Key { resource: resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
        let stored = self.store.get(&key).ok()??;
        serde_json::from_slice(&stored.json).ok()
    }
}

impl KnownPods {
    fn take(&mut self, items: Vec<Stored>, changed: Revision) {
        let mut before = std::mem::take(&mut self.pods);
        let mut by_node: BTreeMap<Arc<str>, Vec<Arc<PodReferences>>> = BTreeMap::new();
        for stored in items {
            let bound = match before.remove(&stored.key) {
                Some((revision, bound)) if revision == stored.revision => bound,
                _ => read(&stored),
            };
            if let Some((node, references)) = &bound {
                by_node.entry(node.clone()).or_default().push(references.clone());
            }
            self.pods.insert(stored.key.clone(), (stored.revision, bound));
        }
        self.by_node = by_node.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect();
        self.changed = Some(changed);
    }
}

fn read(stored: &Stored) -> Bound {
    let pod: Value = serde_json::from_slice(&stored.json).ok()?;
    let (node, references) = PodReferences::of(&stored.key.namespace, &pod)?;
    Some((node.into(), Arc::new(references)))
}
