//! Claims that wait or lost their volume, and volumes that failed. PURE.

use super::context::{Context, Found, Words};
use super::objects::ClaimLook;
use coracle_keeper::problem::Subject;

/// The reasons of events about a claim that waits.
const WAITS: [&str; 2] = ["ProvisioningFailed", "FailedBinding"];

pub fn tell(context: &Context<'_>, found: &mut Found) {
    for claim in context.objects.claims.iter().filter(|claim| !context.goes(&claim.metadata)) {
        let metadata = &claim.metadata;
        let subject = || Subject::new("persistentvolumeclaim", &metadata.namespace, &metadata.name);
        let advice = format!("kubectl -n {} describe pvc {}", metadata.namespace, metadata.name);
        let since = metadata.creation_timestamp;
        match claim.status.phase.as_str() {
            "Bound" => {}
            "Lost" => {
                let why = format!("its volume {} is gone", claim.spec.volume_name);
                let what = "has lost its volume".to_owned();
                found.tell("ClaimLost", subject(), Words { what, why, advice, since: None });
            }
            _ if waits_for_pod(context, claim) && !is_used(context, claim) => {}
            _ => {
                let what = "waits for a volume".to_owned();
                found.tell("ClaimPending", subject(), Words { what, why: why(context, claim), advice, since });
            }
        }
    }
    for volume in context.objects.volumes.iter().filter(|volume| volume.status.phase == "Failed") {
        let name = &volume.metadata.name;
        let words = Words {
            what: "has failed".to_owned(),
            why: [volume.status.reason.as_str(), volume.status.message.as_str()].join(" ").trim().to_owned(),
            advice: format!("kubectl describe pv {name}"),
            since: None,
        };
        found.tell("VolumeFailed", Subject::new("persistentvolume", "", name), words);
    }
}

/// Whether a class makes the volume when a pod uses the claim.
fn waits_for_pod(context: &Context<'_>, claim: &ClaimLook) -> bool {
    let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
    let classes = context.objects.classes.iter();
    classes.filter(|one| one.metadata.name == class).any(|one| one.volume_binding_mode == "WaitForFirstConsumer")
}

fn is_used(context: &Context<'_>, claim: &ClaimLook) -> bool {
    context.objects.pods.iter().any(|pod| {
        pod.metadata.namespace == claim.metadata.namespace
            && !pod.status.terminal()
            && pod.spec.volumes.iter().any(|volume| {
                let named = volume.persistent_volume_claim.as_ref().map(|one| one.claim_name.as_str());
                let own = volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.metadata.name, volume.name));
                [named, own.as_deref()].contains(&Some(claim.metadata.name.as_str()))
            })
    })
}

fn why(context: &Context<'_>, claim: &ClaimLook) -> String {
    let warned = context.warned("PersistentVolumeClaim", &claim.metadata, &WAITS, None);
    match warned {
        Some(warned) => warned.message.to_owned(),
        None if waits_for_pod(context, claim) => "its pod has no node yet".to_owned(),
        None => String::new(),
    }
}
