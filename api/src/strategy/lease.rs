//! Leases: who leads, and until when. And slices of endpoints, which are as short-lived where nobody makes them by
//! hand.

use super::checks::{NOT_NEGATIVE, full, immutable};
use super::doc::{list, list_at, number, remove, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules, nothing};
use super::{general, names};
use crate::meta::Durable;
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;

/// The lease of one slice.
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
/// Labels of an endpoint's place, and for whom it is meant.
const HINTS_MAX: usize = 8;

/// Labels of a slice: whose places these are, and who keeps it.
pub const SERVICE: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The two of this master that keep slices: of what services select, and of Endpoints that a person made.
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
pub const MIRROR: &str = "endpointslicemirroring-controller.k8s.io";

/// Whoever leads says so again; who does not know it any more stands for election.
pub static LEASE: BuiltinStrategy = BuiltinStrategy {
    validate: lease,
    validate_update: |new, old, rules| general::changed(new, old, rules, lease),
    durable: nothing,
    ..general::strategy::<false, false>()
};

pub static ENDPOINT_SLICE: BuiltinStrategy = BuiltinStrategy {
    create: |slice, making| {
        without_topology(slice);
        general::create::<true>(slice, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        if new["endpoints"] != old["endpoints"] {
            without_topology(new);
        }
        general::update::<true>(new, old, making);
    },
    validate: slice,
    validate_update: |new, old, rules| {
        // Addresses of another family are no news beside that.
        match immutable(new, old, "addressType", &Path::root()) {
            Some(problem) => vec![problem],
            None => general::changed(new, old, rules, slice),
        }
    },
    // Those of a controller are worked out again from Endpoints and pods.
    durable: |slice| if kept_by_us(slice) { Durable::Nothing } else { Durable::Whole },
    ..general::strategy::<false, true>()
};

/// A field of v1beta1, which v1 can read but not write.
fn without_topology(slice: &mut Value) {
    list_at(slice, "endpoints").for_each(|endpoint| remove(endpoint, "deprecatedTopology"));
}

fn kept_by_us(slice: &Value) -> bool {
    [CONTROLLER, MIRROR].contains(&text(&slice["metadata"]["labels"], MANAGED_BY))
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

fn slice(slice: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(slice, Scope::Namespaced, names::subdomain, rules);
    let family = text(slice, "addressType");
    if family.is_empty() {
        found.push(Problem::required(&Path::new("addressType"), ""));
    }
    let (endpoints, path) = (list(slice, "endpoints"), Path::new("endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        let words = format!("must have at most {ENDPOINTS_MAX} items");
        found.push(Problem::new(&path, Reason::TooMany, Some(endpoints.len().into()), words));
        return found;
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(at).field("addresses");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            found.push(Problem::required(&path, "must contain at least 1 address"));
        } else if addresses.len() > ADDRESSES_MAX {
            let words = format!("must have at most {ADDRESSES_MAX} items");
            found.push(Problem::new(&path, Reason::TooMany, Some(addresses.len().into()), words));
        }
        for (n, address) in addresses.iter().enumerate().take(ADDRESSES_MAX) {
            if full(&found) {
                return found;
            }
            let address = address.as_str().unwrap_or_default();
            found.extend(names::problems(&path.index(n), address, of_family(address, family)));
        }
        found.extend(place(endpoint, &Path::new("endpoints").index(at), rules));
    }
    found.extend(ports(slice));
    found
}

/// Where an endpoint is, and who should use it.
fn place(endpoint: &Value, path: &Path, rules: Rules) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(node) = endpoint["nodeName"].as_str() {
        let form = if rules.old_names { names::old_id } else { names::subdomain };
        found.extend(names::problems(&path.field("nodeName"), node, form(node)));
    }
    if let Some(host) = endpoint["hostname"].as_str() {
        found.extend(names::problems(&path.field("hostname"), host, names::label(host)));
    }
    for field in ["forZones", "forNodes"] {
        let (hints, path) = (list(&endpoint["hints"], field), path.field("hints").field(field));
        if hints.len() > HINTS_MAX {
            let words = format!("must have at most {HINTS_MAX} items");
            found.push(Problem::new(&path, Reason::TooMany, Some(hints.len().into()), words));
            continue;
        }
        let mut seen = std::collections::HashSet::new();
        for (at, hint) in hints.iter().enumerate() {
            let (name, path) = (text(hint, "name"), path.index(at).field("name"));
            if !seen.insert(name) {
                found.push(Problem::new(&path, Reason::Duplicate, Some(name.into()), ""));
            } else if field == "forZones" {
                found.extend(names::problems(&path, name, names::label_value(name)));
            } else {
                found.extend(names::problems(&path, name, names::subdomain(name)));
            }
        }
    }
    found
}

fn of_family(address: &str, family: &str) -> names::Faults {
    match (family, address.parse::<std::net::IpAddr>()) {
        ("IPv4", Ok(found)) if found.is_ipv6() => vec!["must be an IPv4 address".into()],
        ("IPv6", Ok(found)) if found.is_ipv4() => vec!["must be an IPv6 address".into()],
        ("IPv4" | "IPv6", _) => names::ip(address).into_iter().chain(super::endpoints::elsewhere(address)).collect(),
        ("FQDN", _) => names::subdomain(address),
        _ => Vec::new(),
    }
}

fn ports(slice: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (at, port) in list(slice, "ports").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(port, "name"), Path::new("ports").index(at));
        if !name.is_empty() {
            found.extend(names::problems(&path.field("name"), name, names::label(name)));
        }
        if !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
        if port["protocol"].is_null() {
            found.push(Problem::required(&path.field("protocol"), ""));
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            found.extend(names::problems(&path.field("appProtocol"), protocol, names::qualified(protocol)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slices() {
        fn check(endpoint: Value, expected: &[&str]) {
            let of = json!({
                "metadata": {"name": "s", "namespace": "n"}, "addressType": "IPv4", "endpoints": [endpoint],
                "ports": [],
            });
            let found: Vec<String> = slice(&of, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
        }
        let zones =
            |names: &[&str]| json!({"forZones": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        check(json!({"addresses": ["10.0.0.1"], "hostname": "a", "nodeName": "n", "hints": zones(&["a", "b"])}), &[]);
        check(
            json!({"addresses": ["127.0.0.1"]}),
            &["endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback"],
        );
        check(
            json!({"addresses": ["10.0.0.1"], "hostname": "A", "nodeName": "_", "hints": zones(&["a", "a"])}),
            &[
                "endpoints[0].nodeName: Invalid value: \"_\"",
                "endpoints[0].hostname: Invalid value: \"A\"",
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
            ],
        );
        check(
            json!({"addresses": ["10.0.0.1"], "hints": zones(&["a"; 9])}),
            &["endpoints[0].hints.forZones: Too many: 9"],
        );
        let of = |address: &str, more: Value| {
            let mut endpoint = json!({"addresses": [address]});
            endpoint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [endpoint]})
        };
        let (read, bare) = (json!({"deprecatedTopology": {"a": "b"}}), json!({}));
        for (was, now, expected) in [("10.0.0.1", "10.0.0.1", &read), ("10.0.0.1", "10.0.0.2", &bare)] {
            let mut new = of(now, read.clone());
            let mut making = Making {
                now: crate::meta::Time::from_seconds(0).unwrap(),
                uid: "u".into(),
                suffix: &mut String::new,
                service_address: &mut || None,
                node_port: &mut || None,
            };
            (ENDPOINT_SLICE.update)(&mut new, &of(was, read.clone()), &mut making);
            assert_eq!(new["endpoints"], of(now, expected.clone())["endpoints"], "only what v1beta1 wrote stays");
        }
        // A node of 2014, as the controllers of this master write it.
        let old = json!({"metadata": {"name": "s", "namespace": "n"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "Node_1"}]});
        assert_eq!(slice(&old, Rules { old_names: true, ..Rules::default() }), []);
        assert_eq!(slice(&old, Rules::default()).len(), 1);
    }
}
