//! Chooses the existing volume for a claim: the smallest volume that is large enough. PURE.

use super::super::cluster::Cluster;
use super::super::rules::ControlRule;
use super::super::view::Labels;
use super::view::{ClaimView, VolumeView};
use coracle_api::meta::Key;
use coracle_api::placement::any_term;
use coracle_api::strategy::label_selector;

/// The provisioner of classes whose volumes are made by hand.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What a claim wants.
pub struct Wish<'a> {
    pub key: &'a Key,
    pub claim: &'a ClaimView,
    /// Where its pod is to stand: only volumes that this node reaches.
    pub node: Option<(&'a str, &'a Labels)>,
}

/// The volume that is kept for the claim, or else the smallest that fits. `free`: whether one may be taken.
pub fn smallest<'a>(
    cluster: &'a Cluster,
    wish: &Wish<'_>,
    free: impl Fn(&Key) -> bool,
) -> Option<(&'a Key, &'a VolumeView)> {
    let mut best: Option<(&Key, &VolumeView)> = None;
    let taken = cluster.holds(ControlRule::BoundVolumesAreTaken);
    for (key, volume) in cluster
        .all::<VolumeView>()
        .filter(|(key, volume)| free(key) && (!taken || !is_anothers(volume, wish)) && is_large_enough(volume, wish))
    {
        let reached = wish
            .node
            .is_none_or(|(name, labels)| volume.affinity.is_null() || any_term(&volume.affinity, name, labels));
        if volume.is_for(wish.key, wish.claim) {
            return reached.then_some((key, volume));
        }
        let is_free = volume.claim.is_none() && volume.phase == "Available";
        if (is_free || !taken) && reached && suits(volume, wish.claim) {
            let smaller = best.is_none_or(|(_, other)| volume.bytes < other.bytes);
            best = if smaller { Some((key, volume)) } else { best };
        }
    }
    best
}

fn is_anothers(volume: &VolumeView, wish: &Wish<'_>) -> bool {
    volume.claim.is_some() && !volume.is_for(wish.key, wish.claim)
}

fn is_large_enough(volume: &VolumeView, wish: &Wish<'_>) -> bool {
    volume.bytes >= wish.claim.bytes && volume.block == wish.claim.block && !volume.deleting
}

fn suits(volume: &VolumeView, claim: &ClaimView) -> bool {
    let selected =
        claim.selector.is_null() || label_selector::selects(&claim.selector, |key| volume.document.labels.get(key));
    let class = claim.class.as_deref().unwrap_or_default();
    selected && volume.class == class && claim.modes.iter().all(|mode| volume.modes.contains(mode))
}

/// Why a volume that a claim names is none for it.
pub fn misfit(volume: &VolumeView, claim: &ClaimView) -> Option<&'static str> {
    if volume.bytes < claim.bytes {
        return Some("requested PV is too small");
    }
    if volume.class != claim.class.as_deref().unwrap_or_default() {
        return Some("storageClassName does not match");
    }
    if volume.block != claim.block {
        return Some("incompatible volumeMode");
    }
    (!claim.modes.iter().all(|mode| volume.modes.contains(mode))).then_some("incompatible accessMode")
}
