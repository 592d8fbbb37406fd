//! Leases: who leads, and until when.

use super::checks::NOT_NEGATIVE;
use super::doc::number;
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, nothing};
use super::{general, names};
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Labels of an EndpointSlice: the service, and the controller that manages the slice.
pub const SERVICE: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The managers of slices in this master: for services with a selector, and for Endpoints that a user created.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
pub const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";

/// Whoever leads says so again; who does not know it any more stands for election.
pub static LEASE: BuiltinStrategy = BuiltinStrategy {
    validate: lease,
    validate_update: |new, old, rules| general::changed(new, old, rules, lease),
    durable: nothing,
    ..general::strategy::<false, false>()
};

fn lease(lease: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_any(lease, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&lease["spec"], Path::new("spec"));
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        found.push(Problem::invalid(&path.field("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(changes) = number(spec, "leaseTransitions").filter(|changes| *changes < 0) {
        found.push(Problem::invalid(&path.field("leaseTransitions"), changes, NOT_NEGATIVE));
    }
    found
}
