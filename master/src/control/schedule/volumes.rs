//! Claims of a pod that looks for a node: where their volumes can be reached, and which volumes they get there. PURE.

use super::super::storage::matching::{self, Wish};
use super::super::storage::view::{
    ClaimView, ClassView, CsiNodeView, VolumeView, claim_key, class_key, csi_node_key, volume_key,
};
use super::super::view::document;
use super::ask::{Ask, claims};
use super::rebuff::{Filter, Rebuff};
use super::world::{Room, World};
use coracle_api::meta::Key;
use coracle_api::placement::any_term;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A volume's labels with its zone or region.
const PLACES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
const ONE_POD: &str = "ReadWriteOncePod";

/// The claims of a pod, as they stand.
#[derive(Default)]
pub struct Needs<'a> {
    /// With their volumes.
    bound: Vec<(Key, &'a VolumeView)>,
    /// Those that are bound when their pod has a node.
    waiting: Vec<Waiting<'a>>,
    /// A different pod already uses a ReadWriteOncePod claim.
    taken: bool,
}

struct Waiting<'a> {
    key: Key,
    claim: &'a ClaimView,
    class: &'a ClassView,
}

/// What a claim gets on a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    Volume { claim: Key, volume: Key },
    Made { claim: Key },
}

impl<'a> Needs<'a> {
    /// `Err`: why no node need be looked at.
    pub fn of(world: &World<'a>, ask: &Ask<'_>) -> Result<Needs<'a>, String> {
        let mut needs = Needs::default();
        let mut immediate = false;
        for used in &ask.claims {
            let key = claim_key(&ask.key.namespace, &used.name);
            let Some(claim) = world.cluster.get::<ClaimView>(&key) else {
                return Err(match used.ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}",
                        used.name
                    ),
                    false => format!("persistentvolumeclaim {:?} not found", used.name),
                });
            };
            if claim.phase == "Lost" {
                return Err(format!(
                    "persistentvolumeclaim {:?} bound to non-existent persistentvolume {:?}",
                    used.name, claim.volume
                ));
            }
            if claim.deleting {
                return Err(format!("persistentvolumeclaim {:?} is being deleted", used.name));
            }
            if used.ephemeral && claim.owner.as_deref() != Some(ask.pod.uid.as_str()) {
                let (namespace, pod) = (&key.namespace, &ask.key.name);
                return Err(format!(
                    "PVC {namespace}/{} was not created for pod {namespace}/{pod} (pod is not owner)",
                    used.name
                ));
            }
            let volume = world.cluster.get::<VolumeView>(&volume_key(&claim.volume));
            match volume.filter(|_| claim.complete) {
                Some(volume) => needs.bound.push((key, volume)),
                None => match class_of(world, claim) {
                    Some(class) if class.waits && claim.volume.is_empty() => {
                        needs.waiting.push(Waiting { key, claim, class })
                    }
                    _ => immediate = true,
                },
            }
            needs.taken |= claim.modes.iter().any(|mode| mode == ONE_POD) && in_use(world, ask, &used.name);
        }
        if immediate {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        needs.waiting.sort_by_key(|waiting| waiting.claim.bytes);
        Ok(needs)
    }

    pub fn refuses(&self, world: &World<'_>, room: &Room<'_>, ask: &Ask<'_>) -> Option<Rebuff> {
        if self.taken {
            let why = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                       in-use by another pod";
            return Some(Rebuff::of(Filter::Volumes, why));
        }
        if self.bound.is_empty() && self.waiting.is_empty() {
            return None;
        }
        if self.too_many(world, room, ask) {
            return Some(Rebuff::of(Filter::Volumes, "node(s) exceed max volume count"));
        }
        let mut why: Vec<Cow<'static, str>> = Vec::new();
        let reached =
            |volume: &VolumeView| volume.affinity.is_null() || any_term(&volume.affinity, room.name, &room.node.labels);
        if !self.bound.iter().all(|(_, volume)| reached(volume)) {
            why.push("node(s) didn't match PersistentVolume's node affinity".into());
        }
        if self.grants(world, room).is_none() {
            why.push("node(s) didn't find available persistent volumes to bind".into());
        }
        if !why.is_empty() {
            return Some(Rebuff { filter: Filter::Volumes, why, unresolvable: true });
        }
        let elsewhere = self.bound.iter().any(|(_, volume)| !in_place(volume, room));
        elsewhere.then(|| Rebuff::unresolvable(Filter::Volumes, "node(s) had no available volume zone"))
    }

    /// The grants for the waiting claims on a node. `None`: at least a single claim gets nothing on this node.
    pub fn grants(&self, world: &World<'_>, room: &Room<'_>) -> Option<Vec<Grant>> {
        let mut chosen: BTreeSet<&str> = BTreeSet::new();
        let mut grants = Vec::new();
        for Waiting { key, claim, class } in &self.waiting {
            // A claim that was promised a node keeps this node.
            if !claim.node.is_empty() {
                if claim.node != room.name {
                    return None;
                }
                grants.push(Grant::Made { claim: key.clone() });
                continue;
            }
            let wish = Wish { key, claim, node: Some((room.name, &room.node.labels)) };
            let found = matching::smallest(world.cluster, &wish, |volume| !chosen.contains(volume.name.as_str()));
            if let Some((volume, _)) = found {
                chosen.insert(volume.name.as_str());
                grants.push(Grant::Volume { claim: key.clone(), volume: volume.clone() });
                continue;
            }
            let makes = !matches!(class.provisioner.as_str(), "" | matching::NO_PROVISIONER);
            if !makes || !class.allows(&room.node.labels) {
                return None;
            }
            grants.push(Grant::Made { claim: key.clone() });
        }
        Some(grants)
    }

    /// All its claims have their volumes.
    pub fn are_met(&self) -> bool {
        self.waiting.is_empty()
    }

    fn too_many(&self, world: &World<'_>, room: &Room<'_>, ask: &Ask<'_>) -> bool {
        let Some(limits) =
            world.cluster.get::<CsiNodeView>(&csi_node_key(room.name)).filter(|node| !node.limits.is_empty())
        else {
            return false;
        };
        limits.limits.iter().any(|(driver, limit)| {
            let of_driver = |volume: &&VolumeView| volume.driver.as_deref() == Some(driver);
            let new: BTreeSet<&str> = self
                .bound
                .iter()
                .map(|(_, volume)| *volume)
                .filter(of_driver)
                .map(|volume| volume.handle.as_str())
                .collect();
            if new.is_empty() {
                return false;
            }
            let mut there: BTreeSet<&str> = new;
            for (key, pod) in room.pods(world.cluster).filter(|(_, pod)| pod.claims && pod.uid != ask.pod.uid) {
                for used in claims(key, &document(&pod.document)["spec"]) {
                    let claim = world.cluster.get::<ClaimView>(&claim_key(&key.namespace, &used.name));
                    let volume = claim.and_then(|claim| world.cluster.get::<VolumeView>(&volume_key(&claim.volume)));
                    there.extend(volume.filter(of_driver).map(|volume| volume.handle.as_str()));
                }
            }
            i64::try_from(there.len()).unwrap_or(i64::MAX) > *limit
        })
    }
}

fn class_of<'a>(world: &World<'a>, claim: &ClaimView) -> Option<&'a ClassView> {
    let name = claim.class.as_ref().filter(|name| !name.is_empty())?;
    world.cluster.get::<ClassView>(&class_key(name))
}

/// Whether another pod that stands uses a claim.
fn in_use(world: &World<'_>, ask: &Ask<'_>, name: &str) -> bool {
    let uses = |pod: &super::super::view::PodView, key: &Key| {
        pod.claims && claims(key, &document(&pod.document)["spec"]).iter().any(|used| used.name == name)
    };
    world.pods().any(|(_, key, pod)| key.namespace == ask.key.namespace && pod.uid != ask.pod.uid && uses(pod, key))
}

/// Whether the labels of a volume allow a node. A node that says nothing of where it is may be anywhere.
fn in_place(volume: &VolumeView, room: &Room<'_>) -> bool {
    let labels = &room.node.labels;
    let said = PLACES.iter().any(|place| labels.contains_key(*place));
    !said
        || PLACES.iter().all(|place| {
            let Some(allowed) = volume.document.labels.get(place) else { return true };
            labels.get(*place).is_some_and(|value| allowed.split("__").any(|one| one == value))
        })
}
