//! ServiceCIDRs: the ranges that service addresses come from. One that has addresses in use is not given up before they
//! are. PURE.
//!
//!     a range                        -> a finalizer, and `Ready`: addresses are given from it
//!     one that is to go, in use      -> `Terminating`: none are given any more
//!     one that is to go, unused      -> the finalizer goes, after a while in which a service may still be on its way

use super::addresses::AddressedView;
use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::shelf::View;
use super::since::Since;
use super::storage::volumes::protect;
use super::view::document;
use crate::store::Stored;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::Cidr;
use coracle_api::strategy::addresses::{FINALIZER, OWN, RANGES, cidrs};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Between a deletion and the end of the range, as in Kubernetes.
const GRACE: Duration = Duration::from_secs(10);
const READY: &str = "Kubernetes Service CIDR is ready";
const IN_USE: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// A ServiceCIDR.
#[derive(Clone, Debug)]
pub struct RangeView {
    pub revision: Revision,
    pub document: Value,
    pub deleting: Option<Since>,
    /// Those of IPv4: no others are given from.
    cidrs: Vec<Cidr>,
}

impl View for RangeView {
    const OF: &'static [Resource] = &[RANGES];

    fn read(stored: &Stored, was: Option<&RangeView>, uptime: Duration) -> Option<RangeView> {
        let document = document(stored);
        let deletes = !document["metadata"]["deletionTimestamp"].is_null();
        let deleting = deletes.then(|| Since::of(was.and_then(|was| was.deleting), was.is_some(), uptime));
        Some(RangeView { revision: stored.revision, deleting, cidrs: cidrs(&document).collect(), document })
    }
}

/// A change of a range may let a range that is being deleted go.
pub fn by_range(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let others = cluster.all::<RangeView>().filter(|(_, range)| range.deleting.is_some());
    others.map(|(key, _)| key.clone()).chain([change.key.clone()]).collect()
}

pub fn by_service(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    cluster.all::<RangeView>().filter(|(_, range)| range.deleting.is_some()).map(|(key, _)| key.clone()).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(range) = look.cluster.get::<RangeView>(look.key) else { return Decision::default() };
    let held =
        range.document["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == FINALIZER));
    let intent = match range.deleting {
        None if !held => Some(update(look.key, range, |object| protect(object, FINALIZER))),
        None => says(look, range, ("True", "", READY)),
        Some(_) if !held => None,
        Some(since) => match gone_at(look, range, since) {
            Ending::Now => Some(update(look.key, range, release)),
            Ending::At(uptime) => return Decision::later(uptime),
            Ending::Never => says(look, range, ("False", "Terminating", IN_USE)),
        },
    };
    Decision::of(intent.into_iter().collect())
}

enum Ending {
    Now,
    At(Duration),
    Never,
}

fn gone_at(look: &Look<'_>, range: &RangeView, since: Since) -> Ending {
    // The cluster's own goes where the master was started with another, whatever is in it.
    let replaced = |own: Cidr| look.key.name == OWN && range.cidrs.first() != Some(&own);
    if look.cluster.settings.own.as_ref().is_some_and(|own| replaced(own.range)) {
        return Ending::Now;
    }
    if is_used(look, range) {
        return Ending::Never;
    }
    let at = range.document["metadata"]["deletionTimestamp"].as_str().and_then(Time::parse);
    match GRACE.checked_sub(since.elapsed(at, look.now)).filter(|left| !left.is_zero()) {
        Some(left) => Ending::At(look.now.uptime + left),
        None => Ending::Now,
    }
}

/// Whether a service has an address in this range that all other ranges lack.
fn is_used(look: &Look<'_>, range: &RangeView) -> bool {
    let others: Vec<Cidr> = look
        .cluster
        .all::<RangeView>()
        .filter(|(key, _)| *key != look.key)
        .flat_map(|(_, other)| other.cidrs.iter().copied())
        .collect();
    if range.cidrs.iter().all(|cidr| others.iter().any(|other| other.holds(*cidr))) {
        return false;
    }
    let of_it = |text: &String| {
        let address = text.parse::<Ipv4Addr>();
        let given =
            |cidrs: &[Cidr]| address.as_ref().is_ok_and(|address| cidrs.iter().any(|cidr| cidr.can_give(*address)));
        given(&range.cidrs) && !given(&others)
    };
    look.cluster.all::<AddressedView>().any(|(_, service)| service.addresses.iter().any(of_it))
}

fn update(key: &Key, range: &RangeView, with: impl FnOnce(&mut Value)) -> Intent {
    let mut object = range.document.clone();
    with(&mut object);
    Intent::Update { key: key.clone(), seen: range.revision, object }
}

fn release(object: &mut Value) {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|one| one != FINALIZER);
    }
}

/// None: it says so already.
fn says(look: &Look<'_>, range: &RangeView, (status, reason, message): (&str, &str, &str)) -> Option<Intent> {
    let standing =
        range.document["status"]["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    if standing.is_some_and(|one| one["status"] == status && one["message"] == message) {
        return None;
    }
    let ready = json!({
        "type": "Ready", "status": status, "lastTransitionTime": look.now.wall.to_string(), "reason": reason,
        "message": message,
    });
    Some(Intent::Status { key: look.key.clone(), seen: range.revision, status: json!({"conditions": [ready]}) })
}
