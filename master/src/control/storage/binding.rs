//! Claims: each finds its volume, or says why it has none. PURE.

use super::super::cluster::Cluster;
use super::super::controller::{Look, Now, ObservedChange};
use super::super::intent::{About, Decision, EventDraft, Intent, Memo};
use super::super::schedule::claims;
use super::super::view::{PodView, document};
use super::matching::{Wish, misfit, smallest};
use super::provision;
use super::view::{
    BY_CONTROLLER, CLAIM_FINALIZER, COMPLETED, ClaimView, ClassView, VolumeView, claim_key, claim_ref, class_key,
    volume_key,
};
use coracle_api::meta::Key;
use coracle_api::quantity::Quantity;
use serde_json::json;
use std::time::Duration;

pub const SOURCE: &str = "persistentvolume-controller";
const EXPANDER: &str = "volume_expand";
const EXPANDING: &str = "waiting for an external controller to expand this PVC";
/// Who waits is told again of what has changed at such moments: pods come and go more often than that matters.
const ROUND: Duration = Duration::from_secs(15);

/// What was told last of a claim, and when.
#[derive(Clone, Default)]
struct LastTale {
    what: Option<(&'static str, String)>,
    at: Duration,
}

/// The claim of a volume, the claims that name this volume, and the claims that wait for a volume.
pub fn by_volume(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let views = change.was::<VolumeView>().into_iter().chain(cluster.get::<VolumeView>(change.key));
    let kept = views.filter_map(|volume| volume.claim.as_ref()).map(|of| claim_key(&of.namespace, &of.name));
    let name = change.key.name.as_str();
    let named = cluster
        .all::<ClaimView>()
        .filter(|(_, claim)| claim.volume == name || (claim.volume.is_empty() && !claim.complete));
    let mut keys: Vec<Key> = named.map(|(key, _)| key.clone()).chain(kept).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Claims that wait may get something from it, or it as their default.
pub fn by_class(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    cluster.all::<ClaimView>().filter(|(_, claim)| claim.volume.is_empty()).map(|(key, _)| key.clone()).collect()
}

/// The claims of a pod that found no node yet, or has found one.
pub fn by_pod(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let uses = |pod: &PodView| {
        if pod.claims { claims(change.key, &document(&pod.document)["spec"]) } else { Vec::new() }
    };
    let used = change.pods(cluster).flat_map(uses).map(|used| claim_key(&change.key.namespace, &used.name));
    used.filter(|key| cluster.get::<ClaimView>(key).is_some_and(|claim| claim.volume.is_empty())).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let Some(claim) = cluster.get::<ClaimView>(key) else { return Decision::default() };
    if !claim.protected && !claim.deleting {
        return Decision::of(vec![protected(key, claim)]);
    }
    if claim.complete { bound(look, claim) } else { unbound(look, claim) }
}

fn protected(key: &Key, claim: &ClaimView) -> Intent {
    let mut object = document(&claim.document);
    super::volumes::protect(&mut object, CLAIM_FINALIZER);
    Intent::Update { key: key.clone(), seen: claim.revision, object }
}

/// A bound claim keeps its volume, or has lost the volume.
fn bound(look: &Look<'_>, claim: &ClaimView) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let volume = volume_key(&claim.volume);
    if claim.volume.is_empty() {
        return lost(
            key,
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    match cluster.get::<VolumeView>(&volume) {
        None if cluster.damaged.contains(&volume) => Decision::default(),
        None => lost(key, claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        Some(view) if view.claim.as_ref().is_none_or(|of| of.uid == claim.uid) => {
            match tied(look, claim, (&volume, view)) {
                Some(intent) => Decision::of(vec![intent]),
                None => expanding(look, claim),
            }
        }
        Some(_) => {
            lost(key, claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

/// A claim that asks for more than its present capacity; an external component makes the volume larger.
fn expanding(look: &Look<'_>, claim: &ClaimView) -> Decision {
    let shown =
        document(&claim.document)["status"]["capacity"]["storage"].as_str().and_then(|text| Quantity::parse(text).ok());
    if shown.is_none_or(|shown| shown.value() >= claim.bytes) {
        return Decision::default();
    }
    let tale =
        EventDraft { source: EXPANDER, ..tale_of(look, claim, "Normal", "ExternalExpanding", EXPANDING.to_owned()) };
    once(look, tale, false)
}

fn lost(key: &Key, claim: &ClaimView, reason: &'static str, message: &str) -> Decision {
    if claim.phase == "Lost" {
        return Decision::default();
    }
    let mut status = document(&claim.document)["status"].clone();
    status["phase"] = "Lost".into();
    for field in ["accessModes", "capacity"] {
        status.as_object_mut().map(|fields| fields.remove(field));
    }
    let tale = EventDraft::warning(SOURCE, about(key, claim), reason, message.to_owned());
    Decision::of(vec![Intent::Status { key: key.clone(), seen: claim.revision, status }, Intent::Tell(tale)])
}

fn unbound(look: &Look<'_>, claim: &ClaimView) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    if claim.volume.is_empty() {
        let class = class(cluster, claim);
        let waits = class.is_some_and(|class| class.waits);
        // A volume that waits for a pod is chosen with its node; one that is kept for the claim is its own in any case.
        let found = smallest(cluster, &Wish { key, claim, node: None }, |volume| {
            !waits || cluster.get::<VolumeView>(volume).is_some_and(|view| view.is_for(key, claim))
        });
        return match found {
            Some(volume) => Decision::of(tied(look, claim, volume).into_iter().collect()),
            None => without(look, claim, class),
        };
    }
    let volume = volume_key(&claim.volume);
    let Some(view) = cluster.get::<VolumeView>(&volume) else { return Decision::default() };
    if view.claim.is_none() {
        if let Some(why) = misfit(view, claim) {
            let text = format!("Cannot bind to requested volume {:?}: {why}", claim.volume);
            return announce(look, claim, "Warning", "VolumeMismatch", text, false);
        }
    } else if !view.is_for(key, claim) {
        let text = format!("volume {:?} already bound to a different claim.", claim.volume);
        return announce(look, claim, "Warning", "FailedBinding", text, false);
    }
    Decision::of(tied(look, claim, (&volume, view)).into_iter().collect())
}

fn class<'a>(cluster: &'a Cluster, claim: &ClaimView) -> Option<&'a ClassView> {
    let name = claim.class.as_ref().filter(|name| !name.is_empty())?;
    cluster.get::<ClassView>(&class_key(name))
}

/// No volume is there: a class may make one.
fn without(look: &Look<'_>, claim: &ClaimView, class: Option<&ClassView>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    match (claim.class.as_deref(), class) {
        (None, _) if let Some(name) = provision::default_class(cluster) => {
            let mut object = document(&claim.document);
            object["spec"]["storageClassName"] = name.into();
            Decision::of(vec![Intent::Update { key: key.clone(), seen: claim.revision, object }])
        }
        (None | Some(""), _) => {
            let text = "no persistent volumes available for this claim and no storage class is set";
            announce(look, claim, "Normal", "FailedBinding", text.to_owned(), false)
        }
        (Some(name), None) => {
            let text = format!("storageclass.storage.k8s.io {name:?} not found");
            announce(look, claim, "Warning", "ProvisioningFailed", text, false)
        }
        (Some(_), Some(class)) if class.waits && claim.node.is_empty() => {
            let pods = unplaced(cluster, key);
            let (reason, text) = match pods.as_slice() {
                [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
                [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
                pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
            };
            announce(look, claim, "Normal", reason, text, true)
        }
        (Some(_), Some(class)) => match provision::provision(cluster, key, claim, class) {
            provision::Provision::Write(intents) => Decision::of(intents),
            provision::Provision::Tell { severity, reason, text } => {
                announce(look, claim, severity, reason, text, false)
            }
        },
    }
}

/// Pods of a claim that are on no node.
fn unplaced(cluster: &Cluster, claim: &Key) -> Vec<String> {
    let uses = |key: &Key, pod: &PodView| {
        pod.claims && claims(key, &document(&pod.document)["spec"]).iter().any(|used| used.name == claim.name)
    };
    let waiting =
        cluster.pods_on("").filter(|(key, pod)| key.namespace == claim.namespace && !pod.terminal() && uses(key, pod));
    waiting.map(|(key, _)| key.name.clone()).collect()
}

fn tale_of(
    look: &Look<'_>,
    claim: &ClaimView,
    severity: &'static str,
    reason: &'static str,
    text: String,
) -> EventDraft {
    EventDraft { severity, ..EventDraft::normal(SOURCE, about(look.key, claim), reason, text) }
}

/// Tells once what stands in the way. `later`: what was told before stands until the next round.
fn announce(
    look: &Look<'_>,
    claim: &ClaimView,
    severity: &'static str,
    reason: &'static str,
    text: String,
    later: bool,
) -> Decision {
    once(look, tale_of(look, claim, severity, reason, text), later)
}

fn once(look: &Look<'_>, tale: EventDraft, later: bool) -> Decision {
    let before: LastTale = look.remembered();
    let what = Some((tale.reason, tale.message.clone()));
    if before.what == what {
        return Decision { memo: Some(Memo::of(before)), ..Decision::default() };
    }
    let Now { uptime, .. } = look.now;
    if later && before.what.is_some() && uptime < before.at + ROUND {
        let wake_at = Some(before.at + ROUND);
        return Decision { wake_at, memo: Some(Memo::of(before)), ..Decision::default() };
    }
    Decision { memo: Some(Memo::of(LastTale { what, at: uptime })), ..Decision::of(vec![Intent::Announce(tale)]) }
}

pub fn about(key: &Key, claim: &ClaimView) -> About {
    About::new(("v1", "PersistentVolumeClaim"), key, &claim.uid, claim.revision)
}

/// The next write that ties a claim and its volume together.
fn tied(look: &Look<'_>, claim: &ClaimView, (name, volume): (&Key, &VolumeView)) -> Option<Intent> {
    let key = look.key;
    if volume.claim.as_ref().is_none_or(|of| of.uid != claim.uid) {
        let mut object = document(&volume.document);
        if volume.claim.is_none() {
            object["metadata"]["annotations"][BY_CONTROLLER] = "yes".into();
        }
        let reference = claim_ref(key, claim);
        // Fields from other writers stay in the reference.
        let old = object["spec"]["claimRef"].as_object().cloned().unwrap_or_default();
        object["spec"]["claimRef"] = old.into();
        for (field, value) in reference.as_object().into_iter().flatten() {
            object["spec"]["claimRef"][field] = value.clone();
        }
        return Some(Intent::Update { key: name.clone(), seen: volume.revision, object });
    }
    if volume.phase != "Bound" {
        return Some(super::volumes::phase(name, volume, "Bound", "", look.now.wall));
    }
    if claim.volume != name.name || !claim.complete {
        let mut object = document(&claim.document);
        if claim.volume.is_empty() {
            object["metadata"]["annotations"][BY_CONTROLLER] = "yes".into();
        }
        object["metadata"]["annotations"][COMPLETED] = "yes".into();
        object["spec"]["volumeName"] = name.name.as_str().into();
        return Some(Intent::Update { key: key.clone(), seen: claim.revision, object });
    }
    status(key, claim, volume)
}

/// The claim's status, from its volume.
fn status(key: &Key, claim: &ClaimView, volume: &VolumeView) -> Option<Intent> {
    let document = document(&claim.document);
    let there = super::super::view::document(&volume.document);
    let mut status = if document["status"].is_object() { document["status"].clone() } else { json!({}) };
    status["phase"] = "Bound".into();
    status["accessModes"] = there["spec"]["accessModes"].clone();
    // A growing volume shows its new size only after the growth.
    let shown = &document["status"]["capacity"]["storage"];
    if shown.is_null() || claim.phase != "Bound" || provision::made_here(&there) {
        status["capacity"] = json!({"storage": there["spec"]["capacity"]["storage"]});
    }
    if provision::grows(claim, volume) {
        return provision::grown(key, claim, volume, &status);
    }
    (status != document["status"]).then(|| Intent::Status { key: key.clone(), seen: claim.revision, status })
}

/// All claims.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    cluster.all::<ClaimView>().map(|(key, _)| key.clone()).collect()
}
