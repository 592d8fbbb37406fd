//! ClusterRoles that gather the rules of others: their rules follow the roles that their selectors match. PURE.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::shelf::View;
use super::view::{document, of_group};
use crate::authorize::{aggregate, binding_id};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use serde_json::Value;
use std::time::Duration;

/// A ClusterRole, of whatever rules.
pub struct ClusterRoleView {
    gathers: bool,
    id: String,
    document: Stored,
}

impl View for ClusterRoleView {
    const OF: &'static [Resource] = &[of_group("rbac.authorization.k8s.io", "clusterroles")];

    fn read(stored: &Stored, _: Option<&ClusterRoleView>, _: Duration) -> Option<ClusterRoleView> {
        let role = document(stored);
        let uid = role["metadata"]["uid"].as_str().unwrap_or_default();
        let (gathers, id) = (role["aggregationRule"].is_object(), binding_id("", &stored.key.name, uid));
        Some(ClusterRoleView { gathers, id, document: stored.clone() })
    }
}

/// The roles that gather.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    let gathering = cluster.all::<ClusterRoleView>().filter(|(_, role)| role.gathers);
    gathering.map(|(key, _)| key.clone()).collect()
}

/// Any role may be gathered, or was.
pub fn by_role(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    all(cluster)
}

pub fn decide(look: &Look<'_>) -> Decision {
    let role = look.cluster.get::<ClusterRoleView>(look.key).filter(|role| role.gathers);
    let Some(role) = role else { return Decision::default() };
    let mut object = document(&role.document);
    // Whoever made a role before access rules counted had no right to give its rules to others.
    let unadopted = &look.cluster.settings.unadopted;
    let others = look.cluster.all::<ClusterRoleView>().filter(|(_, other)| !unadopted.contains(&other.id));
    let others = others.map(|(key, other)| (&*key.name, &other.document.labels, || document(&other.document)));
    let Some(rules) = aggregate::gathered(&look.key.name, &object, others) else { return Decision::default() };
    if aggregate::has_rules(&object, &rules) {
        return Decision::default();
    }
    object["rules"] = Value::Array(rules);
    Decision::of(vec![Intent::Update { key: look.key.clone(), seen: role.document.revision, object }])
}
