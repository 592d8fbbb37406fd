//! `kube_deployment_*`, `kube_replicaset_*`, `kube_replicationcontroller_*`, `kube_statefulset_*`, `kube_daemonset_*`.
//! PURE.

use super::text::{Label, Text, named, seconds, truth};
use crate::problems::objects::Objects;
use coracle_api::meta::ObjectMeta;
use coracle_api::workload::{DaemonSet, Deployment, ReplicaSet, StatefulSet};

/// A family without labels of its own: its name, its help and its value.
type Row<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const DEPLOYMENT: &[Row<Deployment>] = &[
    ("kube_deployment_created", "Unix creation timestamp", |one| seconds(one.metadata.creation_timestamp)),
    ("kube_deployment_spec_replicas", "Number of desired pods for a deployment.", |one| {
        Some(f64::from(one.spec.replicas.unwrap_or(1)))
    }),
    ("kube_deployment_spec_paused", "Whether the deployment is paused.", |one| Some(truth(one.spec.paused))),
    ("kube_deployment_metadata_generation", "Sequence number of the desired state.", |one| generation(&one.metadata)),
    ("kube_deployment_status_observed_generation", "The generation observed by the controller.", |one| {
        Some(one.status.observed_generation as f64)
    }),
    ("kube_deployment_status_replicas", "The number of replicas per deployment.", |one| count(one.status.replicas)),
    ("kube_deployment_status_replicas_ready", "The number of ready replicas per deployment.", |one| {
        count(one.status.ready_replicas)
    }),
    ("kube_deployment_status_replicas_available", "The number of available replicas per deployment.", |one| {
        count(one.status.available_replicas)
    }),
    ("kube_deployment_status_replicas_unavailable", "The number of unavailable replicas per deployment.", |one| {
        count(one.status.unavailable_replicas)
    }),
    ("kube_deployment_status_replicas_updated", "The number of updated replicas per deployment.", |one| {
        count(one.status.updated_replicas)
    }),
];

const REPLICA_SET: &[Row<ReplicaSet>] = &[
    ("kube_replicaset_created", "Unix creation timestamp", |one| seconds(one.metadata.creation_timestamp)),
    ("kube_replicaset_spec_replicas", "Number of desired pods for a ReplicaSet.", |one| {
        count(one.spec.replicas.unwrap_or(1))
    }),
    ("kube_replicaset_metadata_generation", "Sequence number of the desired state.", |one| generation(&one.metadata)),
    ("kube_replicaset_status_observed_generation", "The generation observed by the controller.", |one| {
        Some(one.status.observed_generation as f64)
    }),
    ("kube_replicaset_status_replicas", "The number of replicas per ReplicaSet.", |one| count(one.status.replicas)),
    ("kube_replicaset_status_ready_replicas", "The number of ready replicas per ReplicaSet.", |one| {
        count(one.status.ready_replicas)
    }),
];

const REPLICATION_CONTROLLER: &[Row<ReplicaSet>] = &[
    ("kube_replicationcontroller_spec_replicas", "Number of desired pods for a ReplicationController.", |one| {
        count(one.spec.replicas.unwrap_or(1))
    }),
    ("kube_replicationcontroller_status_replicas", "The number of replicas per ReplicationController.", |one| {
        count(one.status.replicas)
    }),
    ("kube_replicationcontroller_status_ready_replicas", "The number of ready replicas.", |one| {
        count(one.status.ready_replicas)
    }),
    ("kube_replicationcontroller_status_available_replicas", "The number of available replicas.", |one| {
        count(one.status.available_replicas)
    }),
];

const STATEFUL_SET: &[Row<StatefulSet>] = &[
    ("kube_statefulset_created", "Unix creation timestamp", |one| seconds(one.metadata.creation_timestamp)),
    ("kube_statefulset_replicas", "Number of desired pods for a StatefulSet.", |one| {
        count(one.spec.replicas.unwrap_or(1))
    }),
    ("kube_statefulset_metadata_generation", "Sequence number of the desired state.", |one| generation(&one.metadata)),
    ("kube_statefulset_status_observed_generation", "The generation observed by the controller.", |one| {
        Some(one.status.observed_generation as f64)
    }),
    ("kube_statefulset_status_replicas", "The number of replicas per StatefulSet.", |one| count(one.status.replicas)),
    ("kube_statefulset_status_replicas_ready", "The number of ready replicas per StatefulSet.", |one| {
        count(one.status.ready_replicas)
    }),
    ("kube_statefulset_status_replicas_available", "The number of available replicas per StatefulSet.", |one| {
        count(one.status.available_replicas)
    }),
    ("kube_statefulset_status_replicas_current", "The number of current replicas per StatefulSet.", |one| {
        count(one.status.current_replicas)
    }),
    ("kube_statefulset_status_replicas_updated", "The number of updated replicas per StatefulSet.", |one| {
        count(one.status.updated_replicas)
    }),
];

const DAEMON_SET: &[Row<DaemonSet>] = &[
    ("kube_daemonset_created", "Unix creation timestamp", |one| seconds(one.metadata.creation_timestamp)),
    ("kube_daemonset_metadata_generation", "Sequence number of the desired state.", |one| generation(&one.metadata)),
    ("kube_daemonset_status_observed_generation", "The generation observed by the controller.", |one| {
        Some(one.status.observed_generation as f64)
    }),
    ("kube_daemonset_status_desired_number_scheduled", "The number of nodes that should run the daemon pod.", |one| {
        count(one.status.desired_number_scheduled)
    }),
    (
        "kube_daemonset_status_current_number_scheduled",
        "The number of nodes that have a daemon pod and should.",
        |one| count(one.status.current_number_scheduled),
    ),
    ("kube_daemonset_status_number_available", "The number of nodes with an available daemon pod.", |one| {
        count(one.status.number_available)
    }),
    ("kube_daemonset_status_number_unavailable", "The number of nodes without an available daemon pod.", |one| {
        count(one.status.number_unavailable)
    }),
    ("kube_daemonset_status_number_ready", "The number of nodes with a ready daemon pod.", |one| {
        count(one.status.number_ready)
    }),
    ("kube_daemonset_status_number_misscheduled", "The number of nodes that run a daemon pod and should not.", |one| {
        count(one.status.number_misscheduled)
    }),
    ("kube_daemonset_status_updated_number_scheduled", "The number of nodes with an updated daemon pod.", |one| {
        count(one.status.updated_number_scheduled)
    }),
];

pub fn write(objects: &Objects, text: &mut Text) {
    rows(DEPLOYMENT, &objects.deployments, "deployment", |one| &one.metadata, text);
    deployment_conditions(&objects.deployments, text);
    rows(REPLICA_SET, &objects.replica_sets, "replicaset", |one| &one.metadata, text);
    owners(&objects.replica_sets, text);
    let controllers = &objects.replication_controllers;
    rows(REPLICATION_CONTROLLER, controllers, "replicationcontroller", |one| &one.metadata, text);
    rows(STATEFUL_SET, &objects.stateful_sets, "statefulset", |one| &one.metadata, text);
    revisions(&objects.stateful_sets, text);
    rows(DAEMON_SET, &objects.daemon_sets, "daemonset", |one| &one.metadata, text);
}

fn rows<T>(rows: &[Row<T>], all: &[T], kind: &'static str, metadata: fn(&T) -> &ObjectMeta, text: &mut Text) {
    for (name, help, value) in rows {
        text.family(name, "gauge", help);
        all.iter().for_each(|one| text.known(&named(metadata(one), kind), value(one)));
    }
}

fn count(count: i32) -> Option<f64> {
    Some(f64::from(count))
}

fn generation(metadata: &ObjectMeta) -> Option<f64> {
    Some(metadata.generation as f64)
}

fn deployment_conditions(all: &[Deployment], text: &mut Text) {
    text.family("kube_deployment_status_condition", "gauge", "The current status conditions of a deployment.");
    for one in all {
        let [namespace, name] = named(&one.metadata, "deployment");
        for said in &one.status.conditions {
            let labels = [namespace, name, ("reason", said.reason.as_str()), ("condition", said.kind.as_str())];
            text.condition(&labels, ("status", &said.status));
        }
    }
}

fn owners(all: &[ReplicaSet], text: &mut Text) {
    text.family("kube_replicaset_owner", "gauge", "Information about the ReplicaSet's owner.");
    for one in all {
        text.owners(&named(&one.metadata, "replicaset"), &one.metadata);
    }
}

fn revisions(all: &[StatefulSet], text: &mut Text) {
    text.family("kube_statefulset_status_current_revision", "gauge", "The version of pods before an update.");
    let line = |one: &StatefulSet, revision: &str, text: &mut Text| {
        let [namespace, name] = named(&one.metadata, "statefulset");
        let labels: [Label<'_>; 3] = [namespace, name, ("revision", revision)];
        text.line(&labels, 1.0);
    };
    all.iter().for_each(|one| line(one, &one.status.current_revision, text));
    text.family("kube_statefulset_status_update_revision", "gauge", "The version of pods after an update.");
    all.iter().for_each(|one| line(one, &one.status.update_revision, text));
}
