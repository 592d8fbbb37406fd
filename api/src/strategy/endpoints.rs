//! Endpoints: the addresses behind a service.

use super::checks::{full, supported};
use super::doc::{default_to, list, list_at, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{container, general, names};
use coracle_schema::{Path, Problem};
use serde_json::Value;
use std::net::IpAddr;

pub static ENDPOINTS: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    validate,
    validate_update: |new, old, rules| general::changed(new, old, rules, validate),
    ..general::strategy::<false, false>()
};

fn create(endpoints: &mut Value, making: &mut Making<'_>) {
    defaults(endpoints);
    meta::create(endpoints, making, false);
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    defaults(new);
    meta::update(new, old, false);
}

fn defaults(endpoints: &mut Value) {
    for subset in list_at(endpoints, "subsets") {
        list_at(subset, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
    }
}

fn validate(endpoints: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(endpoints, Scope::Namespaced, names::subdomain, rules);
    for (at, subset) in list(endpoints, "subsets").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = Path::new("subsets").index(at);
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            found.push(Problem::required(&path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ["addresses", "notReadyAddresses"] {
            for (at, address) in list(subset, field).iter().enumerate() {
                if full(&found) {
                    break;
                }
                found.extend(this_address(address, rules, &path.field(field).index(at)));
            }
        }
        let ports = list(subset, "ports");
        for (at, port) in ports.iter().enumerate() {
            if full(&found) {
                break;
            }
            found.extend(this_port(port, ports.len() > 1, &path.field("ports").index(at)));
        }
    }
    found
}

fn this_address(address: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let ip = text(address, "ip");
    let at = path.field("ip");
    let mut found = names::problems(&at, ip, names::ip(ip).into_iter().chain(elsewhere(ip)).collect());
    if names::ip(ip).iter().any(|fault| fault.starts_with("must be a valid IP address")) {
        // Kubernetes reports this problem twice: the check for reachable addresses repeats the message.
        found.push(Problem::invalid(&at, ip, "must be a valid IP address"));
    }
    let host = text(address, "hostname");
    if !host.is_empty() {
        found.extend(names::problems(&path.field("hostname"), host, names::label(host)));
    }
    if let Some(node) = address["nodeName"].as_str() {
        let form = if rules.old_names { names::old_id } else { names::subdomain };
        found.extend(names::problems(&path.field("nodeName"), node, form(node)));
    }
    found
}

/// Why nobody is reached at an address through a service, where it is one.
pub fn elsewhere(ip: &str) -> Option<String> {
    reserved(ip.parse().ok()?).map(str::to_owned)
}

/// Addresses with a different meaning on every host: a service cannot reach such an address.
fn reserved(address: IpAddr) -> Option<&'static str> {
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] == 0xff02),
    };
    if address.is_unspecified() {
        return Some(if address.is_ipv4() {
            "may not be unspecified (0.0.0.0)"
        } else {
            "may not be unspecified (::)"
        });
    }
    if address.is_loopback() {
        return Some("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        return Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    link_multicast.then_some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

fn this_port(port: &Value, needs_name: bool, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    match text(port, "name") {
        "" if needs_name => found.push(Problem::required(&path.field("name"), "")),
        "" => {}
        name => found.extend(names::problems(&path.field("name"), name, names::label(name))),
    }
    let value = number(port, "port").unwrap_or(0);
    found.extend(names::problems(&path.field("port"), value, names::port_number(value)));
    found.extend(supported(port, "protocol", &container::PROTOCOLS, path));
    if let Some(protocol) = port["appProtocol"].as_str() {
        found.extend(names::problems(&path.field("appProtocol"), protocol, names::qualified(protocol)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problems() {
        fn check(subset: Value, expected: &[&str]) {
            let mut endpoints = json!({"metadata": {"name": "e", "namespace": "default"}, "subsets": [subset]});
            defaults(&mut endpoints);
            let found: Vec<String> = validate(&endpoints, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{endpoints}");
        }
        check(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}), &[]);
        check(json!({"notReadyAddresses": [{"ip": "10.0.0.1"}]}), &[]);
        check(json!({}), &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]);
        let words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        let at = "subsets[0].addresses[0].ip: Invalid value";
        let twice = [format!("{at}: \"x\": {words}"), format!("{at}: \"x\": must be a valid IP address")];
        check(json!({"addresses": [{"ip": "x"}]}), &[&twice[0], &twice[1]]);
        check(json!({"addresses": [{"ip": "01.2.3.4"}]}), &[&format!("{at}: \"01.2.3.4\": must not have leading 0s")]);
        let words = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        check(
            json!({"addresses": [{"ip": "127.0.0.1"}]}),
            &[&format!("subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": {words}")],
        );
        let ports = json!([{"port": 80, "name": "a"}, {"port": 0, "protocol": "tcp"}]);
        let expected = [
            "subsets[0].ports[1].name: Required value",
            "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "subsets[0].ports[1].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ];
        check(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": ports}), &expected);
    }
}
