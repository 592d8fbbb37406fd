//! The certificates of nodes end with their Nodes. PURE.
//!
//!     a Node comes    the certificates of its name belong to it from now on      (an intent, which writes once)
//!     a Node goes     the certificates that belong to it end
//!
//! A node that has a certificate and no Node yet is about to join. A start ends the certificates of Nodes that went
//! while nobody looked, before it serves.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent, Memo};
use super::view::{NodeView, of_group};
use coracle_api::meta::{Key, Resource};

/// Stands in keys for nodes that were deleted.
const DEPARTED: Resource = of_group("certificates.k8s.io", "departednodes");

/// What went or came while nobody looked is settled by the start, from the list of certificates.
pub fn all(_: &Cluster) -> Vec<Key> {
    Vec::new()
}

/// The Node, and its name where a Node has gone or become another.
pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let (was, is) = (change.was::<NodeView>(), cluster.nodes.get(&change.key.name));
    let departed = Key { resource: DEPARTED, namespace: String::new(), name: change.key.name.clone() };
    let is_another = was.is_some_and(|was| is.is_none_or(|is| is.uid != was.uid));
    let has_left = change.gone || is_another;
    has_left.then_some(departed).into_iter().chain(is.map(|_| change.key.clone())).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let node = look.key.name.clone();
    if look.key.resource == DEPARTED {
        return Decision::of(vec![Intent::Revoke { node }]);
    }
    let Some(is) = look.cluster.nodes.get(&look.key.name) else { return Decision::default() };
    // The list of certificates is a file: it is looked at once for each Node.
    let is_settled = look.remembered::<String>() == is.uid && look.refusal.is_none();
    let settle = Intent::Settle { node, uid: is.uid.clone() };
    let intents = if is_settled { Vec::new() } else { vec![settle] };
    Decision { memo: Some(Memo::of(is.uid.clone())), ..Decision::of(intents) }
}
