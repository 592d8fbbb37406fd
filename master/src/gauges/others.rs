//! `kube_namespace_*`, `kube_persistentvolumeclaim_*`, `kube_horizontalpodautoscaler_*`, `kube_resourcequota`. PURE.

use super::pods::amount;
use super::text::{Text, named, seconds};
use crate::problems::objects::{AutoscalerLook, ClaimLook, Objects};

/// An old annotation counts before the field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub fn write(objects: &Objects, text: &mut Text) {
    text.family("kube_namespace_created", "gauge", "Unix creation timestamp");
    for one in &objects.namespaces {
        text.known(&[("namespace", &one.metadata.name)], seconds(one.metadata.creation_timestamp));
    }
    text.family("kube_namespace_status_phase", "gauge", "kubernetes namespace status phase.");
    for one in &objects.namespaces {
        text.phases(&[("namespace", &one.metadata.name)], &["Active", "Terminating"], &one.status.phase);
    }
    claims(&objects.claims, text);
    autoscalers(&objects.autoscalers, text);
    text.family("kube_resourcequota", "gauge", "Information about resource quota.");
    for one in &objects.quotas {
        let [namespace, name] = named(&one.metadata, "resourcequota");
        for (kind, amounts) in [("hard", &one.status.hard), ("used", &one.status.used)] {
            for (resource, value) in amounts {
                text.line(&[namespace, name, ("resource", resource), ("type", kind)], amount(*value));
            }
        }
    }
}

fn claims(all: &[ClaimLook], text: &mut Text) {
    text.family("kube_persistentvolumeclaim_info", "gauge", "Information about persistent volume claim.");
    for one in all {
        let [namespace, name] = named(&one.metadata, "persistentvolumeclaim");
        let class = one.metadata.annotations.get(BETA_CLASS).or(one.spec.storage_class_name.as_ref());
        let class = ("storageclass", class.map_or("", String::as_str));
        let volume = ("volumename", one.spec.volume_name.as_str());
        text.line(&[namespace, name, class, volume, ("volumemode", &one.spec.volume_mode)], 1.0);
    }
    text.family("kube_persistentvolumeclaim_created", "gauge", "Unix creation timestamp");
    for one in all {
        text.known(&named(&one.metadata, "persistentvolumeclaim"), seconds(one.metadata.creation_timestamp));
    }
    let help = "The phase the persistent volume claim is currently in.";
    text.family("kube_persistentvolumeclaim_status_phase", "gauge", help);
    for one in all.iter().filter(|one| !one.status.phase.is_empty()) {
        let labels = named(&one.metadata, "persistentvolumeclaim");
        text.phases(&labels, &["Lost", "Bound", "Pending"], &one.status.phase);
    }
    let help = "The capacity of storage requested by the persistent volume claim.";
    text.family("kube_persistentvolumeclaim_resource_requests_storage_bytes", "gauge", help);
    for one in all {
        let asked = one.spec.resources.requests.get("storage").map(|asked| amount(*asked));
        text.known(&named(&one.metadata, "persistentvolumeclaim"), asked);
    }
}

fn autoscalers(all: &[AutoscalerLook], text: &mut Text) {
    const KIND: &str = "horizontalpodautoscaler";
    text.family("kube_horizontalpodautoscaler_info", "gauge", "Information about this autoscaler.");
    for one in all {
        let [namespace, name] = named(&one.metadata, KIND);
        let target = &one.spec.scale_target_ref;
        let version = ("scaletargetref_api_version", target.api_version.as_str());
        let (kind, of) = (("scaletargetref_kind", &*target.kind), ("scaletargetref_name", &*target.name));
        text.line(&[namespace, name, version, kind, of], 1.0);
    }
    type Value = fn(&AutoscalerLook) -> Option<f64>;
    let mut family = |name: &'static str, help: &str, value: Value| {
        text.family(name, "gauge", help);
        all.iter().for_each(|one| text.known(&named(&one.metadata, KIND), value(one)));
    };
    family("kube_horizontalpodautoscaler_metadata_generation", "The generation observed by the controller.", |one| {
        Some(one.metadata.generation as f64)
    });
    family("kube_horizontalpodautoscaler_spec_min_replicas", "Lower limit for the number of pods.", |one| {
        Some(f64::from(one.spec.min_replicas.unwrap_or(1)))
    });
    family("kube_horizontalpodautoscaler_spec_max_replicas", "Upper limit for the number of pods.", |one| {
        Some(f64::from(one.spec.max_replicas))
    });
    family("kube_horizontalpodautoscaler_status_current_replicas", "Current number of replicas of pods.", |one| {
        Some(f64::from(one.status.current_replicas))
    });
    family("kube_horizontalpodautoscaler_status_desired_replicas", "Desired number of replicas of pods.", |one| {
        Some(f64::from(one.status.desired_replicas))
    });
    text.family("kube_horizontalpodautoscaler_status_condition", "gauge", "The condition of this autoscaler.");
    for one in all {
        let [namespace, name] = named(&one.metadata, KIND);
        for said in &one.status.conditions {
            text.condition(&[namespace, name, ("condition", &said.kind)], ("status", &said.status));
        }
    }
}
