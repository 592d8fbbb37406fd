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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::in_memory;
    use crate::store::Write;
    use coracle_api::meta::Durable;
    use serde_json::json;

    fn key(name: &str) -> Key {
        Key { resource: PODS, namespace: "ns".to_owned(), name: name.to_owned() }
    }

    fn pod(name: &str, node: &str, secret: &str) -> Value {
        let volumes = json!([{"name": "v", "secret": {"secretName": secret}}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"nodeName": node, "volumes": volumes}})
    }

    #[test]
    fn an_answer_is_never_older_than_a_write() {
        let store = in_memory().store.clone();
        let authorizer = NodeAuthorizer::new(store.clone());
        let may = |node: &str, secret: &str| {
            let groups = vec!["system:nodes".to_owned()];
            let identity = Identity { user: format!("system:node:{node}"), groups, ..Identity::default() };
            let asked = Attributes::resource("get", &Resource::core("secrets"), "", ("ns", secret));
            authorizer.authorize(&asked, &identity).allows()
        };
        let write = |write: Write| store.write(write).expect("it is written").revision;
        assert!(!may("n1", "s"));
        let create = |name: &str, node: &str, secret: &str| {
            let (durable, claims) = (Durable::Nothing, Vec::new());
            write(Write::Create { key: key(name), object: pod(name, node, secret), durable, claims })
        };
        let waits = create("waits", "", "s");
        assert!(!may("n1", "s"), "no node runs it yet");
        let (durable, claims) = (Durable::Nothing, Vec::new());
        let bound =
            write(Write::Update { key: key("waits"), object: pod("waits", "n1", "s"), seen: waits, durable, claims });
        assert!(may("n1", "s") && !may("n2", "s"));
        for n in 0..50 {
            create(&format!("p{n}"), "n2", &format!("s{n}"));
            assert!(may("n2", &format!("s{n}")) && may("n1", "s") && !may("n1", &format!("s{n}")), "{n}");
        }
        write(Write::Delete { key: key("waits"), seen: bound });
        assert!(!may("n1", "s") && may("n2", "s7"));
        assert!(locked(&authorizer.known).pods.len() == 50, "what is gone is forgotten");
    }

    #[test]
    fn who_is_no_node_is_not_its_business() {
        let authorizer = NodeAuthorizer::new(in_memory().store.clone());
        let asked = Attributes::resource("list", &Resource::core("services"), "", ("", ""));
        let decide = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let identity = Identity { user: user.to_owned(), groups, ..Identity::default() };
            (authorizer.authorize(&asked, &identity), authorizer.rules(&identity, "ns").incomplete)
        };
        let nothing = |why: &str| Decision::NoOpinion(why.to_owned());
        assert_eq!(decide("system:node:n1", &["system:nodes"]), (Decision::Allowed(String::new()), true));
        assert_eq!(decide("system:node:n1", &[]), (nothing(""), false));
        assert_eq!(decide("eve", &["system:nodes"]), (nothing(""), false));
        let unnamed = nothing("unknown node for user \"system:node:\"");
        assert_eq!(decide("system:node:", &["system:nodes"]), (unnamed, true));
    }
}
