//! As much of a Deployment as its controller reads. PURE.

use super::super::replicas::{Parent, ParentKind, TemplateView};
use super::super::shelf::View;
use super::super::template;
use super::super::view::{Labels, Selector, document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::Resource;
use coracle_api::workload::{Deployment, DeploymentStatus};
use serde_json::Value;
use std::time::Duration;

pub const DEPLOYMENTS: Resource = of_group("apps", "deployments");
const KIND: ParentKind =
    ParentKind { api_version: "apps/v1", kind: "Deployment", source: "deployment-controller", claims_finished: true };

#[derive(Clone, Debug)]
pub struct DeploymentView {
    pub template: TemplateView,
    /// A hash of the template's content.
    pub identity: u64,
    pub generation: i64,
    pub annotations: Labels,
    pub replicas: i32,
    pub min_ready_s: i32,
    pub paused: bool,
    /// Seconds without progress after which that is told. `None`: never.
    pub deadline_s: Option<i32>,
    /// Old sets that are kept. `None`: all.
    pub history: Option<i32>,
    pub recreate: bool,
    /// Pods that there may be too many, and that may be missing, during an update.
    pub surge: i32,
    pub unavailable: i32,
    pub status: DeploymentStatus,
}

impl Parent for DeploymentView {
    fn template(&self) -> &TemplateView {
        &self.template
    }
}

impl View for DeploymentView {
    const OF: &'static [Resource] = &[DEPLOYMENTS];

    fn read(stored: &Stored, _: Option<&DeploymentView>, _: Duration) -> Option<DeploymentView> {
        let Deployment { metadata, spec, status } = read(stored)?;
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let recreate = spec.strategy.kind == "Recreate";
        let (surge, unavailable) = if recreate { (0, 0) } else { bounds(&spec.strategy.rolling_update, replicas) };
        let template =
            TemplateView::of(&KIND, stored, &metadata, Selector::Rules(spec.selector), spec.template.metadata.labels);
        Some(DeploymentView {
            template,
            identity: template::meaning(&document(stored)["spec"]["template"]),
            generation: metadata.generation,
            annotations: metadata.annotations,
            replicas,
            min_ready_s: spec.min_ready_seconds,
            paused: spec.paused,
            deadline_s: spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX),
            history: spec.revision_history_limit.filter(|limit| *limit != i32::MAX),
            recreate,
            surge,
            unavailable,
            status,
        })
    }
}

/// Surge and unavailability of a rolling update. Where both come to nothing one pod may be missing: else nothing would
/// move.
fn bounds(rolling: &coracle_api::workload::RollingUpdate, replicas: i32) -> (i32, i32) {
    let surge = share(&rolling.max_surge, replicas, true);
    let unavailable = share(&rolling.max_unavailable, replicas, false);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    (surge, unavailable.min(replicas))
}

/// A number, or a share of a whole in percent.
pub fn share(value: &Value, whole: i32, up: bool) -> i32 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    let number = match percent {
        Some(percent) => {
            let parts = percent.saturating_mul(i64::from(whole));
            if up { parts.saturating_add(99) / 100 } else { parts / 100 }
        }
        None => value.as_i64().unwrap_or_default(),
    };
    i32::try_from(number.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::workload::RollingUpdate;
    use serde_json::json;

    #[test]
    fn shares() {
        let check = |surge: Value, unavailable: Value, replicas, expected| {
            let rolling = RollingUpdate { max_surge: surge, max_unavailable: unavailable, partition: 0 };
            assert_eq!(bounds(&rolling, replicas), expected);
        };
        check(json!("25%"), json!("25%"), 4, (1, 1));
        check(json!("25%"), json!("25%"), 1, (1, 0));
        check(json!(0), json!("1%"), 2, (0, 1));
        check(json!(3), json!(20), 10, (3, 10));
        check(json!("100%"), json!(0), 3, (3, 0));
        check(json!("25%"), json!("25%"), 0, (0, 0));
    }
}
