//! As much of a DaemonSet as its controller reads. PURE.

use super::super::replicas::{Parent, ParentKind, TemplateView};
use super::super::shelf::View;
use super::super::template;
use super::super::view::{Selector, document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::Resource;
use coracle_api::workload::{DaemonSet, DaemonSetStatus};
use serde_json::Value;
use std::time::Duration;

const DAEMON_SETS: Resource = of_group("apps", "daemonsets");
const KIND: ParentKind =
    ParentKind { api_version: "apps/v1", kind: "DaemonSet", source: "daemonset-controller", claims_finished: true };
/// The annotation with the template's generation; the API strategy of DaemonSets counts the generations.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Clone, Debug)]
pub struct DaemonSetView {
    pub template: TemplateView,
    /// A hash of the template's content.
    pub identity: u64,
    pub generation: i64,
    pub template_generation: Option<String>,
    pub min_ready: Duration,
    pub on_delete: bool,
    /// Numbers, or shares of the nodes.
    pub surge: Value,
    pub unavailable: Value,
    pub history: Option<i32>,
    pub status: DaemonSetStatus,
}

impl Parent for DaemonSetView {
    fn template(&self) -> &TemplateView {
        &self.template
    }
}

impl View for DaemonSetView {
    const OF: &'static [Resource] = &[DAEMON_SETS];

    fn read(stored: &Stored, _: Option<&DaemonSetView>, _: Duration) -> Option<DaemonSetView> {
        let DaemonSet { metadata, spec, status } = read(stored)?;
        let template_generation = metadata.annotations.get(TEMPLATE_GENERATION);
        let rolling = spec.update_strategy.rolling_update;
        let template =
            TemplateView::of(&KIND, stored, &metadata, Selector::Rules(spec.selector), spec.template.metadata.labels);
        Some(DaemonSetView {
            template,
            identity: template::identity(&document(stored)["spec"]["template"]),
            generation: metadata.generation,
            template_generation: template_generation.filter(|text| text.parse::<i64>().is_ok()).cloned(),
            min_ready: Duration::from_secs(spec.min_ready_seconds.try_into().unwrap_or_default()),
            on_delete: spec.update_strategy.kind == "OnDelete",
            surge: rolling.max_surge,
            unavailable: rolling.max_unavailable,
            history: spec.revision_history_limit,
            status,
        })
    }
}
