//! The kinds of workloads: controllers of pods, autoscalers and disruption budgets.

use super::kind::{Alias, Kind, SelectableField};
use super::row::{Group, field_or};
use crate::strategy::{self, advice, forms};
use coracle_schema::apply::Form;

const APPS: Group = Group { name: "apps", version: "v1", package: "apps" };
const BATCH: Group = Group { name: "batch", version: "v1", package: "batch" };
const SCALING: Group = Group { name: "autoscaling", version: "v2", package: "autoscaling" };
const POLICY: Group = Group { name: "policy", version: "v1", package: "policy" };

/// As Kubernetes words it.
const JOB_PARTING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
                           to remove them or set propagationPolicy=Orphan to suppress this warning";

pub fn rows() -> Vec<Kind> {
    vec![
        APPS.row("controllerrevisions", "controllerrevision", "ControllerRevision", &strategy::CONTROLLER_REVISION),
        APPS.row("daemonsets", "daemonset", "DaemonSet", &strategy::DAEMON_SET)
            .advised(advice::pods_of)
            .short(&["ds"])
            .in_all()
            .with_status(),
        APPS.row("deployments", "deployment", "Deployment", &strategy::DEPLOYMENT)
            .advised(advice::workload)
            .short(&["deploy"])
            .in_all()
            .with_scale("spec.selector", None)
            .with_status()
            .status_keeps(&["labels"]),
        APPS.row("replicasets", "replicaset", "ReplicaSet", &strategy::REPLICA_SET)
            .advised(advice::workload)
            .short(&["rs"])
            .in_all()
            .with_scale("spec.selector", Some("apps"))
            .with_status(),
        APPS.row("statefulsets", "statefulset", "StatefulSet", &strategy::STATEFUL_SET)
            .advised(advice::stateful_set)
            .short(&["sts"])
            .in_all()
            .with_scale("spec.selector", None)
            .with_status(),
        autoscalers(),
        autoscalers_v1(),
        BATCH
            .row("cronjobs", "cronjob", "CronJob", &strategy::CRON_JOB)
            .advised(advice::cron_job)
            .short(&["cj"])
            .in_all()
            .with_status(),
        BATCH
            .row("jobs", "job", "Job", &strategy::JOB)
            .given(&[
                "spec.selector",
                "metadata|labels|controller-uid",
                "metadata|labels|job-name",
                "metadata|labels|batch.kubernetes.io/controller-uid",
                "metadata|labels|batch.kubernetes.io/job-name",
                "spec.template.metadata.labels.controller-uid",
                "spec.template.metadata.labels.job-name",
                "spec|template|metadata|labels|batch.kubernetes.io/controller-uid",
                "spec|template|metadata|labels|batch.kubernetes.io/job-name",
            ])
            .advised(advice::workload)
            .in_all()
            .with_status()
            .selectable([SelectableField { path: "status.succeeded".into(), ..field_or("status.successful", "0") }])
            .orphans()
            .parting(JOB_PARTING),
        POLICY
            .row("poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", &strategy::DISRUPTION_BUDGET)
            .short(&["pdb"])
            .with_status()
            .put_names_revision(),
    ]
}

fn autoscalers() -> Kind {
    let row = SCALING.row(
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        &strategy::AUTOSCALER,
    );
    let (convert, back) = (forms::show_autoscaler, forms::read_autoscaler);
    let other_form = Some(Form {
        api_version: "autoscaling/v1",
        type_name: "autoscaling.v1.HorizontalPodAutoscaler",
        convert,
        back,
    });
    Kind { other_form, ..row.short(&["hpa"]).in_all().with_status() }
}

/// The first version, which knows only processor use.
fn autoscalers_v1() -> Kind {
    let group = Group { version: "v1", ..SCALING };
    let row = group.row(
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        &strategy::AUTOSCALER,
    );
    let of = ("autoscaling/v2", "HorizontalPodAutoscaler");
    let (convert, back) = (forms::read_autoscaler, forms::show_autoscaler);
    Kind {
        other_form: Some(Form {
            api_version: of.0,
            type_name: "autoscaling.v2.HorizontalPodAutoscaler",
            convert,
            back,
        }),
        alias: Some(Alias { of, read: forms::read_autoscaler, show: forms::show_autoscaler }),
        ..row.short(&["hpa"]).in_all().with_status()
    }
}
