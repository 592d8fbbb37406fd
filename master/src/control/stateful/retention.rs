//! The owners of a StatefulSet's claims: the claims are deleted with their owners. PURE.
//!
//!     whenDeleted: Delete     the set's: they go with it
//!     whenScaled: Delete      of a pod that is scaled away: the pod's

use super::super::intent::Intent;
use super::super::replicas::{Pod, with_owners};
use super::super::view::document;
use super::identity;
use super::seen::Seen;
use super::view::OwnedClaimView;
use coracle_api::meta::{Key, OwnerReference};
use serde_json::{Value, json};

/// The owners that a claim has by the set's policy.
struct ClaimOwners<'c> {
    seen: &'c Seen<'c>,
    pod: Pod<'c>,
    scaled_away: bool,
}

/// The claims of a pod whose owners are to change.
pub fn corrected(seen: &Seen<'_>, nth: i64, pod: Pod<'_>) -> Vec<Intent> {
    let owners = ClaimOwners { seen, pod, scaled_away: !seen.set.wants(nth) };
    let claims = identity::claims(seen, nth).into_iter().filter_map(|(key, claim)| Some((key, claim?)));
    let wrong = claims.filter(|(_, claim)| !owners.are_right(claim));
    wrong.map(|(key, claim)| Intent::Update { seen: claim.revision, object: owners.written(claim), key }).collect()
}

/// Whether a claim still belongs to a forerunner of the pod that is to be made: it goes first.
pub fn is_stale(seen: &Seen<'_>, nth: i64) -> bool {
    let name = identity::name(seen.key, nth);
    let of_forerunner = |owner: &OwnerReference| names(owner, "v1", "Pod", &name);
    seen.set.deletes_on_scaling
        && identity::claims(seen, nth)
            .iter()
            .any(|(_, claim)| claim.is_some_and(|claim| claim.owners.iter().any(of_forerunner)))
}

fn names(owner: &OwnerReference, api_version: &str, kind: &str, name: &str) -> bool {
    (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str()) == (api_version, kind, name)
}

impl ClaimOwners<'_> {
    fn is_set(&self, owner: &OwnerReference) -> bool {
        names(owner, "apps/v1", "StatefulSet", &self.seen.key.name)
    }

    fn is_pod(&self, owner: &OwnerReference) -> bool {
        names(owner, "v1", "Pod", &self.pod.0.name)
    }

    fn set_uid(&self) -> &str {
        &self.seen.set.template.uid
    }

    fn of_set(&self) -> bool {
        self.seen.set.deletes_on_deletion && !(self.scaled_away && self.seen.set.deletes_on_scaling)
    }

    fn of_pod(&self) -> bool {
        self.seen.set.deletes_on_scaling && self.scaled_away
    }

    /// Another controller decides on it, or a forerunner of the same name.
    fn is_foreign(&self, claim: &OwnedClaimView) -> bool {
        let set = self.seen.set;
        let foreign = |owner: &OwnerReference| {
            if self.is_set(owner) {
                owner.uid != self.set_uid()
            } else if self.is_pod(owner) {
                owner.uid != self.pod.1.uid
            } else {
                owner.controller
            }
        };
        (set.deletes_on_deletion || set.deletes_on_scaling) && claim.owners.iter().any(foreign)
    }

    fn are_right(&self, claim: &OwnedClaimView) -> bool {
        let stale = |owner: &OwnerReference| {
            (self.is_set(owner) && owner.uid != self.set_uid()) || (self.is_pod(owner) && owner.uid != self.pod.1.uid)
        };
        if claim.owners.iter().any(stale) {
            return true;
        }
        let ours = |uid: &str| claim.owners.iter().any(|owner| owner.uid == uid);
        let (set, pod) = (ours(self.set_uid()), ours(&self.pod.1.uid));
        if self.is_foreign(claim) {
            return !set && !pod;
        }
        let idle =
            |owner: &OwnerReference| !owner.controller && (owner.uid == self.set_uid() || owner.uid == self.pod.1.uid);
        !claim.owners.iter().any(idle) && (set, pod) == (self.of_set(), self.of_pod())
    }

    fn written(&self, claim: &OwnedClaimView) -> Value {
        let foreign = self.is_foreign(claim);
        with_owners(document(&claim.document), |owners| {
            owners.retain(|owner| {
                let owner: OwnerReference = serde_json::from_value(owner.clone()).unwrap_or_default();
                !self.is_set(&owner) && !self.is_pod(&owner)
            });
            if foreign {
                return;
            }
            if self.of_pod() {
                owners.push(of_pod(self.pod.0, &self.pod.1.uid));
            }
            if self.of_set() {
                owners.push(self.seen.set.template.reference(self.seen.key));
            }
        })
    }
}

fn of_pod(key: &Key, uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    })
}
