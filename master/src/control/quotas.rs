//! The quotas of a namespace: their use is counted anew when something has gone, or uses something else than before.
//! PURE.
//!
//! Counting is no decision, for it must not run beside a write that is being charged.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Lookup};
use super::shelf::View;
use super::view::{PodView, ServiceView};
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use std::time::Duration;

const QUOTAS: Resource = Resource::core("resourcequotas");

/// A quota is there.
#[derive(Clone, Copy, Debug)]
pub struct QuotaView;

impl View for QuotaView {
    const OF: &'static [Resource] = &[QUOTAS];

    fn read(_: &Stored, _: Option<&QuotaView>, _: Duration) -> Option<QuotaView> {
        Some(QuotaView)
    }
}

/// All quotas of a namespace: one key of this controller.
fn key(namespace: &str) -> Key {
    Key { resource: QUOTAS, namespace: namespace.to_owned(), name: String::new() }
}

pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.all::<QuotaView>().map(|(quota, _)| key(&quota.namespace)).collect()
}

pub fn any(cluster: &Cluster) -> bool {
    cluster.all::<QuotaView>().next().is_some()
}

/// A quota has come, or was changed.
pub fn itself(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    vec![key(&change.key.namespace)]
}

/// Something has gone.
pub fn by_departure(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let quota = cluster.within::<QuotaView>(&change.key.namespace).next();
    quota.map(|_| key(&change.key.namespace)).into_iter().collect()
}

/// A service was made.
pub fn by_service(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    if change.was::<ServiceView>().is_none() { by_departure(cluster, change) } else { Vec::new() }
}

/// A pod was made, or is over.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let was: Option<&PodView> = change.was();
    let same = was.is_some() && was.map(PodView::terminal) == cluster.pod(change.key).map(PodView::terminal);
    if same { Vec::new() } else { by_departure(cluster, change) }
}

pub fn decide(look: &Look<'_>) -> Decision {
    Decision::errand(Lookup::Recount(look.key.namespace.clone()))
}
