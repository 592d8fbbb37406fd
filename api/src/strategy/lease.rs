//! Leases: who leads, and until when.

use super::checks::NOT_NEGATIVE;
use super::doc::number;
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules};
use super::{general, names};
use crate::meta::Durable;
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Labels of an EndpointSlice: the service, and the controller that manages the slice.
pub const SERVICE: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The managers of slices in this master: for services with a selector, and for Endpoints that a user created.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
pub const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";

/// The namespace of the nodes' heartbeats.
const NODES: &str = "kube-node-lease";

pub static LEASE: BuiltinStrategy = BuiltinStrategy {
    validate: lease,
    validate_update: |new, old, rules| general::changed(new, old, rules, lease),
    durable,
    ..general::strategy::<false, false>()
};

/// A node says again that it is there. Of all other leases the holder is durable: if a master forgot it in a crash,
/// another program would take the lease at once, while the holder believes that it leads for the rest of its time.
fn durable(lease: &Value) -> Durable {
    if lease["metadata"]["namespace"] == NODES { Durable::Nothing } else { Durable::WithoutRenewal }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_holder_is_durable_and_a_heartbeat_is_not() {
        let of = |namespace: &str| durable(&json!({"metadata": {"namespace": namespace}}));
        assert_eq!(of("kube-node-lease"), Durable::Nothing);
        assert_eq!(of("kube-system"), Durable::WithoutRenewal);
        // A start shows null in place of a lease that lies on disk.
        assert_eq!(durable(&Value::Null), Durable::WithoutRenewal);
    }
}
