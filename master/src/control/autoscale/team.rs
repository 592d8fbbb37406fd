//! The target of an autoscaler, the target's pods, and all autoscalers of these pods. PURE.

use super::super::budgets::ScaleView;
use super::super::cluster::Cluster;
use super::super::shelf::View;
use super::super::view::{PodView, Selector, document};
use super::{AutoscalerView, Target};
use coracle_api::meta::Key;
use coracle_api::strategy::scale::selector_text;

/// The pods of a target, and all autoscalers of these pods.
pub(super) struct Team<'c> {
    pub(super) cluster: &'c Cluster,
    pub(super) namespace: &'c str,
    pub(super) pods: Vec<(&'c Key, &'c PodView)>,
    /// The same as a query.
    pub(super) selector: String,
    /// Namespace and name of each autoscaler; the autoscaler that is looked at is among them.
    pub(super) scaled_by: Vec<String>,
}

impl<'c> Team<'c> {
    pub(super) fn of(cluster: &'c Cluster, key: &'c Key, target: &Key, scale: &ScaleView) -> Team<'c> {
        let (selector, text) = selector(target, scale);
        let pods = cluster.pods_selected(&key.namespace, &selector);
        let selects = |other: &Key, autoscaler: &AutoscalerView| {
            let Scale::Found(target, scale) = self::scale(cluster, other, &autoscaler.target) else { return false };
            let (selector, _) = self::selector(&target, scale);
            pods.iter().any(|(_, pod)| selector.selects(pod.labels()))
        };
        let others = cluster
            .within::<AutoscalerView>(&key.namespace)
            .filter(|(other, view)| *other == key || selects(other, view));
        let scaled_by = others.map(|(other, _)| format!("{}/{}", other.namespace, other.name)).collect();
        Team { cluster, namespace: &key.namespace, pods, selector: text, scaled_by }
    }
}

/// The selector of a target, and as a query says it.
fn selector(target: &Key, scale: &ScaleView) -> (Selector, String) {
    let rules = document(&scale.document)["spec"]["selector"].take();
    let text = selector_text(&rules);
    // Those of the first days have labels alone.
    if target.resource.group.is_empty() {
        return (Selector::Labels(serde_json::from_value(rules).unwrap_or_default()), text);
    }
    (Selector::Rules(rules), text)
}

/// How many replicas the target is to have.
pub(super) enum Scale<'c> {
    Found(Key, &'c ScaleView),
    Missing(String),
    /// Its file cannot be read.
    Unknown,
}

pub(super) fn scale<'c>(cluster: &'c Cluster, key: &Key, target: &Target) -> Scale<'c> {
    let Some(resource) = cluster.references.resource(&target.api_version, &target.kind) else {
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
        return Scale::Missing(format!("no matches for kind {:?} in group {group:?}", target.kind));
    };
    if !ScaleView::OF.contains(resource) {
        return Scale::Missing("the server could not find the requested resource".to_owned());
    }
    let target = Key { resource: resource.clone(), namespace: key.namespace.clone(), name: target.name.clone() };
    match cluster.get::<ScaleView>(&target) {
        Some(scale) => Scale::Found(target, scale),
        None if cluster.damaged.contains(&target) => Scale::Unknown,
        None => Scale::Missing(format!("{resource} {:?} not found", target.name)),
    }
}
