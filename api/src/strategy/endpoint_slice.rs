//! Slices of endpoints: some of the addresses behind a service, and the ports of each.

use super::checks::{full, immutable, one_of, too_many};
use super::doc::{list, list_at, remove, text};
use super::lease::{CONTROLLER, MANAGED_BY, MIRROR};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{container, endpoints, general, names};
use crate::meta::Durable;
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;
use std::net::IpAddr;

const FAMILIES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
/// The limits of one slice, from Kubernetes.
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
/// The maximum number of zones, and of nodes, in the hints of an endpoint.
const HINTS_MAX: usize = 8;

pub static ENDPOINT_SLICE: BuiltinStrategy = BuiltinStrategy {
    create: |slice, making| {
        without_topology(slice);
        general::create::<true>(slice, making);
    },
    update,
    validate: |slice, rules| {
        let mut found = bare(slice, rules);
        found.extend(all_endpoints(slice, rules));
        found
    },
    validate_update,
    // Those of a controller are worked out again from Endpoints and pods.
    durable: |slice| if kept_by_us(slice) { Durable::Nothing } else { Durable::Whole },
    ..general::strategy::<false, true>()
};

/// A new label is a new generation, too.
fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    let changed = general::differs(new, old) || new["metadata"]["labels"] != old["metadata"]["labels"];
    if new["endpoints"] != old["endpoints"] {
        without_topology(new);
    }
    meta::update(new, old, changed);
}

/// A field of v1beta1, which v1 can read but not write.
fn without_topology(slice: &mut Value) {
    list_at(slice, "endpoints").for_each(|endpoint| remove(endpoint, "deprecatedTopology"));
}

fn kept_by_us(slice: &Value) -> bool {
    [CONTROLLER, MIRROR].contains(&text(&slice["metadata"]["labels"], MANAGED_BY))
}

/// Endpoints that stay are not looked at again.
fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(bare(new, rules), &bare(old, rules)));
    if new["endpoints"] != old["endpoints"] {
        found.extend(all_endpoints(new, rules));
    }
    found.extend(immutable(new, old, "addressType", &Path::root()));
    found
}

/// All but the endpoints.
fn bare(slice: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(slice, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("addressType");
    match text(slice, "addressType") {
        "" => found.push(Problem::required(&path, "")),
        family => found.extend(one_of(family, &FAMILIES, &path)),
    }
    found.extend(ports(slice));
    found
}

fn ports(slice: &Value) -> Vec<Problem> {
    let (ports, path) = (list(slice, "ports"), Path::new("ports"));
    if let Some(problem) = too_many(ports.len(), PORTS_MAX, &path) {
        return vec![problem];
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (at, port) in ports.iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(port, "name"), path.index(at));
        if !name.is_empty() {
            found.extend(names::problems(&path.field("name"), name, names::label(name)));
        }
        if !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
        match port["protocol"].as_str() {
            None => found.push(Problem::required(&path.field("protocol"), "")),
            Some(protocol) => found.extend(one_of(protocol, &container::PROTOCOLS, &path.field("protocol"))),
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            found.extend(names::problems(&path.field("appProtocol"), protocol, names::qualified(protocol)));
        }
    }
    found
}

fn all_endpoints(slice: &Value, rules: Rules) -> Vec<Problem> {
    let (endpoints, path) = (list(slice, "endpoints"), Path::new("endpoints"));
    if let Some(problem) = too_many(endpoints.len(), ENDPOINTS_MAX, &path) {
        return vec![problem];
    }
    let mut found = Vec::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(at);
        found.extend(addresses(endpoint, text(slice, "addressType"), &path.field("addresses")));
        found.extend(place(endpoint, &path, rules));
        if full(&found) {
            break;
        }
    }
    found
}

fn addresses(endpoint: &Value, family: &str, path: &Path) -> Vec<Problem> {
    let addresses = list(endpoint, "addresses");
    if addresses.is_empty() {
        return vec![Problem::required(path, "must contain at least 1 address")];
    }
    let mut found: Vec<Problem> = too_many(addresses.len(), ADDRESSES_MAX, path).into_iter().collect();
    for (at, address) in addresses.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(of_family(address.as_str().unwrap_or_default(), family, path, at));
    }
    found
}

/// An address of the wrong family is told of the list, as Kubernetes does.
fn of_family(address: &str, family: &str, path: &Path, at: usize) -> Vec<Problem> {
    let place = path.index(at);
    if family == "FQDN" {
        return domain(address, &place);
    }
    if !matches!(family, "IPv4" | "IPv6") {
        return Vec::new();
    }
    let mut faults = names::ip(address);
    let parsed: Option<IpAddr> = address.parse().ok();
    if let Some(IpAddr::V6(v6)) = parsed.filter(|_| faults.is_empty() && family == "IPv6")
        && v6.to_string() != address
    {
        faults.push(format!("must be in canonical form ({:?})", v6.to_string()));
    }
    let (true, Some(parsed)) = (faults.is_empty(), parsed) else { return names::problems(&place, address, faults) };
    let other = parsed.is_ipv4() != (family == "IPv4");
    let mut found = Vec::new();
    if other {
        found.push(Problem::invalid(path, address, format!("must be an {family} address")));
    }
    found.extend(names::problems(&place, address, endpoints::elsewhere(address).into_iter().collect()));
    found
}

/// A name of at least two parts; a point at its end does not count.
fn domain(name: &str, path: &Path) -> Vec<Problem> {
    if name.is_empty() {
        return vec![Problem::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let told = |value: &str, faults: names::Faults| {
        (!faults.is_empty()).then(|| Problem::invalid(path, value, faults.join(",")))
    };
    if let Some(problem) = told(name, names::subdomain(name)) {
        return vec![problem];
    }
    if !name.contains('.') {
        let words = "should be a domain with at least two segments separated by dots";
        return vec![Problem::invalid(path, name, words)];
    }
    name.split('.').find_map(|part| told(part, names::label(part))).into_iter().collect()
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
    let forms: [(&str, fn(&str) -> names::Faults); 2] =
        [("forZones", names::label_value), ("forNodes", names::subdomain)];
    for (field, form) in forms {
        let (hints, path) = (list(&endpoint["hints"], field), path.field("hints").field(field));
        if let Some(problem) = too_many(hints.len(), HINTS_MAX, &path) {
            found.push(problem);
            break;
        }
        let mut seen = HashSet::new();
        for (at, hint) in hints.iter().enumerate() {
            let (name, path) = (text(hint, "name"), path.index(at).field("name"));
            if !seen.insert(name) {
                found.push(Problem::new(&path, Reason::Duplicate, Some(name.into()), ""));
            }
            found.extend(names::problems(&path, name, form(name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn validate(slice: &Value, rules: Rules) -> Vec<Problem> {
        (ENDPOINT_SLICE.validate)(slice, rules)
    }

    #[test]
    fn slices() {
        fn check(endpoint: Value, expected: &[&str]) {
            let of = json!({
                "metadata": {"name": "s", "namespace": "n"}, "addressType": "IPv4", "endpoints": [endpoint],
                "ports": [],
            });
            let found: Vec<String> = validate(&of, Rules::default()).iter().map(Problem::to_string).collect();
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
        // A node name in the form of 2014, as the controllers of this master write the name.
        let old = json!({"metadata": {"name": "s", "namespace": "n"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "Node_1"}]});
        assert_eq!(validate(&old, Rules { old_names: true, ..Rules::default() }), []);
        assert_eq!(validate(&old, Rules::default()).len(), 1);
    }
}
