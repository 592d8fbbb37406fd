//! As much of StatefulSets and of claims as their controller reads. PURE.

use super::super::replicas::{Parent, ParentKind, TemplateView};
use super::super::shelf::View;
use super::super::view::{Selector, of_group, read};
use crate::store::Stored;
use coracle_api::meta::{ObjectMeta, OwnerReference, Resource, Revision};
use coracle_api::workload::{StatefulSet, StatefulSetStatus};
use serde::Deserialize;
use std::time::Duration;

pub const STATEFUL_SETS: Resource = of_group("apps", "statefulsets");
pub const CLAIMS: Resource = Resource::core("persistentvolumeclaims");
const KIND: ParentKind =
    ParentKind { api_version: "apps/v1", kind: "StatefulSet", source: "statefulset-controller", claims_finished: true };

#[derive(Clone, Debug)]
pub struct StatefulSetView {
    pub template: TemplateView,
    pub generation: i64,
    pub replicas: i32,
    /// The lowest number.
    pub start: i64,
    pub min_ready: Duration,
    pub parallel: bool,
    pub on_delete: bool,
    /// Pods below it are not updated. `None`: no rolling update was asked for by its numbers.
    pub partition: Option<i64>,
    pub history: Option<i32>,
    pub service: String,
    /// The names of the set's claim templates.
    pub claims: Vec<String>,
    /// What becomes of a claim when the set is deleted, and when it is scaled down.
    pub deletes_on_deletion: bool,
    pub deletes_on_scaling: bool,
    pub status: StatefulSetStatus,
}

impl StatefulSetView {
    /// Whether it is to have a pod of this number.
    pub fn wants(&self, nth: i64) -> bool {
        (self.start..self.start + i64::from(self.replicas)).contains(&nth)
    }
}

impl Parent for StatefulSetView {
    fn template(&self) -> &TemplateView {
        &self.template
    }
}

impl View for StatefulSetView {
    const OF: &'static [Resource] = &[STATEFUL_SETS];

    fn read(stored: &Stored, _: Option<&StatefulSetView>, _: Duration) -> Option<StatefulSetView> {
        let StatefulSet { metadata, spec, status } = read(stored)?;
        let template =
            TemplateView::of(&KIND, stored, &metadata, Selector::Rules(spec.selector), spec.template.metadata.labels);
        let retention = spec.persistent_volume_claim_retention_policy;
        Some(StatefulSetView {
            template,
            generation: metadata.generation,
            replicas: spec.replicas.unwrap_or(1).max(0),
            start: i64::from(spec.ordinals.start),
            min_ready: Duration::from_secs(spec.min_ready_seconds.try_into().unwrap_or_default()),
            parallel: spec.pod_management_policy == "Parallel",
            on_delete: spec.update_strategy.kind == "OnDelete",
            partition: spec.update_strategy.rolling_update.map(|rolling| i64::from(rolling.partition)),
            history: spec.revision_history_limit,
            service: spec.service_name,
            claims: spec.volume_claim_templates.into_iter().map(|claim| claim.metadata.name).collect(),
            deletes_on_deletion: retention.when_deleted == "Delete",
            deletes_on_scaling: retention.when_scaled == "Delete",
            status,
        })
    }
}

/// A claim, by its owners.
#[derive(Clone, Debug)]
pub struct OwnedClaimView {
    pub revision: Revision,
    pub deleting: bool,
    pub owners: Vec<OwnerReference>,
    pub document: Stored,
}

impl View for OwnedClaimView {
    const OF: &'static [Resource] = &[CLAIMS];

    fn read(stored: &Stored, _: Option<&OwnedClaimView>, _: Duration) -> Option<OwnedClaimView> {
        #[derive(Deserialize)]
        struct Claim {
            metadata: ObjectMeta,
        }
        let Claim { metadata } = read(stored)?;
        let deleting = metadata.deletion_timestamp.is_some();
        Some(OwnedClaimView {
            revision: stored.revision,
            deleting,
            owners: metadata.owner_references,
            document: stored.clone(),
        })
    }
}
