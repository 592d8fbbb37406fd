//! Services: fields that the server gives (addresses, ports), and fields that an update keeps.
//!
//!     create:  defaults -> address -> node ports
//!     update:  defaults -> what is left out stays -> what the type no longer has goes -> address -> node ports

use super::doc::{copy, default_to, has, is_empty, list, list_at, map_at, number, remove, text};
use super::rules::{BuiltinStrategy, Making, whole};
use super::{meta, service_rules};
use crate::meta::Claim;
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The maximum number of candidates for the node ports of one service: the service itself may already ask for a
/// candidate.
const CANDIDATES_MAX: usize = 1 << 16;
/// How long a client stays with its pod unless a service says otherwise.
const AFFINITY_S_DEFAULT: i64 = 3 * 60 * 60;
/// The `clusterIP` of a service without an address.
pub const HEADLESS: &str = "None";
/// The space of claims on service addresses.
pub const CLUSTER_IP: &str = "clusterIP";
/// The space of claims on node ports: `TCP/30080`.
pub const NODE_PORT: &str = "nodePort";

pub static SERVICE: BuiltinStrategy = BuiltinStrategy {
    create,
    update,
    status_update,
    validate: service_rules::validate,
    validate_update: service_rules::validate_update,
    claims,
    durable: whole,
    delete: meta::delete,
    released: meta::is_released,
};

fn create(service: &mut Value, making: &mut Making<'_>) {
    meta::create(service, making, false);
    defaults(service);
    // Only an address that is asked for names the list of addresses.
    let spec = &mut service["spec"];
    if !text(spec, "clusterIP").is_empty() && is_empty(&spec["clusterIPs"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    give(spec, making);
    service["status"] = json!({"loadBalancer": {}});
}

fn update(new: &mut Value, old: &Value, making: &mut Making<'_>) {
    defaults(new);
    keep(&mut new["spec"], &old["spec"]);
    let_go(&mut new["spec"], &old["spec"]);
    give(&mut new["spec"], making);
    copy(new, old, "status");
    if text(&new["spec"], "type") != "LoadBalancer" {
        map_at(new, "status").insert("loadBalancer".into(), json!({}));
    }
    meta::update(new, old, false);
}

/// A balancer's address stands for the service itself unless it says that it passes clients on.
fn status_update(new: &mut Value, old: &Value) {
    meta::status_update(new, old);
    if has(&new["status"], "loadBalancer") {
        for ingress in list_at(&mut new["status"]["loadBalancer"], "ingress").filter(|ingress| has(ingress, "ip")) {
            default_to(ingress, "ipMode", "VIP");
        }
    }
}

fn defaults(service: &mut Value) {
    map_at(service, "spec");
    let spec = &mut service["spec"];
    default_to(spec, "type", "ClusterIP");
    default_to(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_S_DEFAULT}});
        }
        "None" => remove(spec, "sessionAffinityConfig"),
        _ => {}
    }
    for port in list_at(spec, "ports").filter(|port| port.is_object()) {
        default_to(port, "protocol", "TCP");
        if is_empty(&port["targetPort"]) || port["targetPort"] == 0 {
            copy_within(port, "port", "targetPort");
        }
        if port["nodePort"] == 0 {
            remove(port, "nodePort");
        }
    }
    if wants_address(spec) {
        default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_reachable_from_outside(spec) {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if text(spec, "type") == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn copy_within(of: &mut Value, from: &str, to: &str) {
    if let Some(value) = of.get(from).cloned() {
        of[to] = value;
    }
}

/// All but names for other hosts have a service address.
pub fn wants_address(spec: &Value) -> bool {
    matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

pub fn wants_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// A balancer that sends clients only to nodes with a pod asks each node whether it has one.
fn wants_health_port(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

pub fn is_reachable_from_outside(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

pub fn is_headless(spec: &Value) -> bool {
    text(spec, "clusterIP") == HEADLESS
}

/// Sets missing addresses and ports. A value that cannot be given stays missing, and validation reports the field.
fn give(spec: &mut Value, making: &mut Making<'_>) {
    if wants_address(spec) {
        families(spec);
        let v4 = list(spec, "ipFamilies").iter().all(|family| family == "IPv4");
        let missing = is_empty(&spec["clusterIP"]) && is_empty(&spec["clusterIPs"]);
        if missing
            && v4
            && let Some(address) = (making.service_address)()
        {
            spec["clusterIP"] = address.to_string().into();
            spec["clusterIPs"] = json!([address.to_string()]);
        }
    }
    if wants_health_port(spec)
        && is_empty(&spec["healthCheckNodePort"])
        && let Some(port) = (making.node_port)()
    {
        spec["healthCheckNodePort"] = port.into();
    }
    if wants_node_ports(spec) {
        let mut taken: HashSet<i64> = list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).collect();
        taken.extend(number(spec, "healthCheckNodePort"));
        // A candidate that this service itself already asks for is skipped. None: no free port is left.
        let mut free = (0..CANDIDATES_MAX)
            .map_while(|_| (making.node_port)().map(i64::from))
            .filter(|candidate| taken.insert(*candidate));
        // A port number has the same node port for all protocols, as clients of a DNS server expect.
        let known =
            list(spec, "ports").iter().rev().filter_map(|port| Some((number(port, "port"), number(port, "nodePort")?)));
        let mut known: HashMap<_, _> = known.collect();
        for port in list_at(spec, "ports").filter(|port| port.is_object() && is_empty(&port["nodePort"])) {
            let of = number(port, "port");
            let Some(given) = known.get(&of).copied().or_else(|| free.next()) else { break };
            known.insert(of, given);
            port["nodePort"] = given.into();
        }
    }
}

/// Services here are IPv4; a headless service without a selector gets both families, as in Kubernetes, because the
/// author of the endpoints decides.
fn families(spec: &mut Value) {
    let open = is_headless(spec) && is_empty(&spec["selector"]);
    // An IPv6 address sets no family here: validation reports that services have no IPv6 addresses.
    let other = list(spec, "clusterIPs").first().and_then(Value::as_str).is_some_and(|ip| ip.contains(':'));
    if is_empty(&spec["ipFamilies"]) && !other {
        spec["ipFamilies"] = if open { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        if open {
            default_to(spec, "ipFamilyPolicy", "RequireDualStack");
        }
    }
    default_to(spec, "ipFamilyPolicy", "SingleStack");
}

/// Keeps fields that an update leaves out: the address, and the node ports of ports that stay.
fn keep(spec: &mut Value, was: &Value) {
    if wants_address(spec) && wants_address(was) {
        let listed = !is_empty(&spec["clusterIPs"]) && spec["clusterIPs"] != was["clusterIPs"];
        if !is_empty(&spec["clusterIP"]) {
            if !listed {
                spec["clusterIPs"] = json!([spec["clusterIP"]]);
            }
        } else if listed {
            spec["clusterIP"] = spec["clusterIPs"][0].clone();
        } else {
            copy(spec, was, "clusterIP");
            copy(spec, was, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if is_empty(&spec[field]) {
                copy(spec, was, field);
            }
        }
    } else if wants_address(spec) && !is_empty(&spec["clusterIP"]) && is_empty(&spec["clusterIPs"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    if wants_health_port(spec) && wants_health_port(was) && is_empty(&spec["healthCheckNodePort"]) {
        copy(spec, was, "healthCheckNodePort");
    }
    if !(wants_node_ports(spec) && wants_node_ports(was)) {
        return;
    }
    let key = |port: &Value| (text(port, "protocol").to_owned(), number(port, "port"));
    let known: HashMap<_, _> =
        list(was, "ports").iter().filter_map(|port| Some((key(port), number(port, "nodePort")?))).collect();
    let mut taken: HashSet<i64> = list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).collect();
    for port in list_at(spec, "ports").filter(|port| port.is_object() && is_empty(&port["nodePort"])) {
        if let Some(kept) = known.get(&key(port)).filter(|kept| taken.insert(**kept)) {
            port["nodePort"] = (*kept).into();
        }
    }
}

/// Removes fields that belong to the old type alone, unless the update sets them.
fn let_go(spec: &mut Value, was: &Value) {
    let ports = |spec: &Value| -> Vec<Option<i64>> {
        list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).map(Some).collect()
    };
    if wants_node_ports(was)
        && !wants_node_ports(spec)
        && text(spec, "type") != "LoadBalancer"
        && ports(spec) == ports(was)
    {
        list_at(spec, "ports").for_each(|port| remove(port, "nodePort"));
    }
    let mut fields: Vec<&str> = Vec::new();
    if wants_address(was) && !wants_address(spec) {
        fields.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if is_reachable_from_outside(was) && !is_reachable_from_outside(spec) {
        fields.push("externalTrafficPolicy");
    }
    if text(was, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        fields.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if wants_health_port(was) && !wants_health_port(spec) {
        fields.push("healthCheckNodePort");
    }
    for field in fields {
        if spec[field] == was[field] {
            remove(spec, field);
        }
    }
}

fn claims(service: &Value) -> Vec<Claim> {
    let spec = &service["spec"];
    let mut claims = Vec::new();
    let address = text(spec, "clusterIP");
    if !address.is_empty() && !is_headless(spec) {
        claims.push(Claim { space: Cow::Borrowed(CLUSTER_IP), value: address.to_owned() });
    }
    for port in list(spec, "ports") {
        if let Some(number) = number(port, "nodePort") {
            let protocol = Some(text(port, "protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
            claims.push(Claim { space: Cow::Borrowed(NODE_PORT), value: format!("{protocol}/{number}") });
        }
    }
    if let Some(number) = number(spec, "healthCheckNodePort") {
        claims.push(Claim { space: Cow::Borrowed(NODE_PORT), value: format!("TCP/{number}") });
    }
    claims
}

/// The problem of a service whose claim another service owns; None when the claim is none of its addresses or ports.
pub fn taken(service: &Value, claim: &Claim) -> Option<Problem> {
    let spec = &service["spec"];
    let path = Path::new("spec");
    match &*claim.space {
        CLUSTER_IP => {
            let words = format!("failed to allocate IP {}: provided IP is already allocated", claim.value);
            Some(Problem::invalid(&path.field("clusterIPs"), spec["clusterIPs"].clone(), words))
        }
        NODE_PORT => {
            let taken = claim.value.rsplit('/').next()?.parse::<i64>().ok()?;
            let at = list(spec, "ports").iter().position(|port| number(port, "nodePort") == Some(taken));
            let path = match at {
                Some(at) => path.field("ports").index(at).field("nodePort"),
                None if number(spec, "healthCheckNodePort") == Some(taken) => path.field("healthCheckNodePort"),
                None => return None,
            };
            Some(Problem::invalid(&path, taken, "provided port is already allocated"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cidr, Rules};
    use super::*;
    use crate::meta::Time;

    fn making<T>(run: impl FnOnce(&mut Making<'_>) -> T) -> T {
        let (mut address, mut port) = (0, 30000);
        run(&mut Making {
            now: Time::from_seconds(1_600_000_000).unwrap(),
            uid: "u".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || {
                address += 1;
                (address < 3).then(|| std::net::Ipv4Addr::new(10, 96, 0, address))
            },
            node_port: &mut || {
                port += 1;
                (port < 30004).then_some(port)
            },
        })
    }

    fn made(spec: Value) -> Value {
        let mut service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": spec});
        making(|making| create(&mut service, making));
        service
    }

    fn rules() -> Rules {
        Rules { service_cidr: Cidr::parse("10.96.0.0/16").map(Into::into), ..Rules::default() }
    }

    fn texts(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn claims_name_what_is_owned() {
        fn check(spec: Value, expected: &[(&str, &str)]) {
            let service = made(spec);
            let claims = claims(&service);
            let found: Vec<_> = claims.iter().map(|claim| (&*claim.space, claim.value.as_str())).collect();
            assert_eq!(found, expected, "{service}");
            assert_eq!(texts(&service_rules::validate(&service, rules())), Vec::<String>::new());
        }
        check(json!({"ports": [{"port": 80}]}), &[("clusterIP", "10.96.0.1")]);
        check(json!({"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}), &[("clusterIP", "10.96.7.7")]);
        check(json!({"clusterIP": "None"}), &[]);
        check(json!({"type": "ExternalName", "externalName": "a.b"}), &[]);
        let ports = json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP", "nodePort": 30001}]);
        let expected = [("clusterIP", "10.96.0.1"), ("nodePort", "TCP/30001"), ("nodePort", "UDP/30001")];
        check(json!({"type": "NodePort", "ports": ports}), &expected);
        let ports =
            json!([{"name": "a", "port": 53}, {"name": "b", "port": 80}, {"name": "c", "port": 53, "protocol": "UDP"}]);
        let ports = json!({"type": "NodePort", "ports": ports});
        check(
            ports,
            &[
                ("clusterIP", "10.96.0.1"),
                ("nodePort", "TCP/30001"),
                ("nodePort", "TCP/30002"),
                ("nodePort", "UDP/30001"),
            ],
        );
        let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 53, "nodePort": 30001}]);
        let expected = [("clusterIP", "10.96.0.1"), ("nodePort", "TCP/30002"), ("nodePort", "TCP/30001")];
        check(json!({"type": "NodePort", "ports": ports}), &expected);
        let silent = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]});
        check(silent, &[("clusterIP", "10.96.0.1")]);
    }

    #[test]
    fn problems_of_addresses_and_ports() {
        fn check(spec: Value, expected: &[&str]) {
            let service = made(spec);
            assert_eq!(texts(&service_rules::validate(&service, rules())), expected, "{service}");
        }
        let words = "failed to allocate IP 1.2.3.4: the provided network does not match the current range";
        check(
            json!({"clusterIP": "1.2.3.4", "ports": [{"port": 80}]}),
            &[&format!("spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: {words}")],
        );
        let words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        check(
            json!({"clusterIP": "x", "ports": [{"port": 80}]}),
            &[&format!("spec.clusterIPs[0]: Invalid value: \"x\": {words}")],
        );
        check(json!({}), &["spec.ports: Required value"]);
        let words = "provided port is not in the valid range. The range of valid ports is 30000-32767";
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
        check(spec, &[&format!("spec.ports[0].nodePort: Invalid value: 80: {words}")]);
        let spec = json!({"ports": [{"port": 80, "nodePort": 30080}]});
        check(spec, &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]);
        let ports: Vec<Value> = (1..=4).map(|port| json!({"port": port, "name": format!("p{port}")})).collect();
        let words = "spec.ports[3].nodePort: Required value: no port of 30000-32767 is free";
        check(json!({"type": "NodePort", "ports": ports}), &[words]);
        let ports = json!([{"port": 80}, {"port": 80, "name": "A"}]);
        let expected = [
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of",
            "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,",
        ];
        let service = made(json!({"ports": ports}));
        let found = texts(&service_rules::validate(&service, rules()));
        assert!(
            found.len() == 3 && found.iter().zip(expected).all(|(found, start)| found.starts_with(start)),
            "{found:?}"
        );
        let words = ["port", "targetPort"]
            .map(|field| format!("spec.ports[0].{field}: Invalid value: 0: must be between 1 and 65535, inclusive"));
        check(json!({"ports": [{"port": 0}]}), &[&words[0], &words[1]]);
        let words = "must contain at least one letter (a-z)";
        check(
            json!({"ports": [{"port": 80, "targetPort": "80"}]}),
            &[&format!("spec.ports[0].targetPort: Invalid value: \"80\": {words}")],
        );
    }

    #[test]
    fn problems_of_source_ranges() {
        fn check(kind: &str, ranges: &[&str], annotated: Option<&str>, expected: &[&str]) {
            let mut service = made(json!({"type": kind, "ports": [{"port": 80}], "loadBalancerSourceRanges": ranges}));
            if let Some(said) = annotated {
                service["metadata"]["annotations"] =
                    json!({"service.beta.kubernetes.io/load-balancer-source-ranges": said});
            }
            crate::strategy::tests::assert_problems(service_rules::validate(&service, rules()), expected);
        }
        let beyond = "spec.LoadBalancerSourceRanges[1]: Invalid value: \"192.168.0.5/24\": must not have bits set \
                      beyond the prefix length";
        check("LoadBalancer", &[" 10.0.0.0/8 ", "192.168.0.5/24"], None, &[beyond]);
        check("LoadBalancer", &["10.0.0.0/8"], Some("nope"), &[]);
        check(
            "ClusterIP",
            &["10.0.0.0/8"],
            None,
            &["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type`"],
        );
        let at = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]";
        let forbidden = format!("{at}: Forbidden: may only be used when `type` is 'LoadBalancer'");
        let invalid = |value: &str, why: &str| format!("{at}: Invalid value: \"{value}\": must {why}");
        check("LoadBalancer", &[], Some(" 10.0.0.0/8, fd00::/8 "), &[]);
        check("LoadBalancer", &[], Some(" "), &[]);
        check("LoadBalancer", &[], Some("nope"), &[&invalid("nope", "be a valid CIDR value")]);
        check("LoadBalancer", &[], Some("10.0.0.0/8,"), &[&invalid("", "be a valid CIDR value")]);
        check("ClusterIP", &[], Some("10.0.0.0/8"), &[&forbidden]);
        check("NodePort", &[], Some("10.0.0.1/8"), &[&forbidden, &invalid("10.0.0.1/8", "not have bits set")]);
        check("ClusterIP", &[], None, &[]);
    }

    #[test]
    fn full_ranges_are_said() {
        let mut service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}});
        making(|making| {
            while (making.service_address)().is_some() {}
            create(&mut service, making);
        });
        let found = texts(&service_rules::validate(&service, rules()));
        assert_eq!(found, ["spec.clusterIP: Required value: no address of the service range is free"]);
        assert_eq!(claims(&service), []);
    }

    #[test]
    fn taken_claims_are_named() {
        fn check(space: &'static str, value: &str, expected: Option<&str>) {
            let service = made(json!({"type": "NodePort", "ports": [{"port": 80}], "clusterIP": "10.96.7.7"}));
            let claim = Claim { space: Cow::Borrowed(space), value: value.into() };
            assert_eq!(taken(&service, &claim).map(|problem| problem.to_string()).as_deref(), expected);
        }
        let words = "failed to allocate IP 10.96.7.7: provided IP is already allocated";
        check(CLUSTER_IP, "10.96.7.7", Some(&format!("spec.clusterIPs: Invalid value: [\"10.96.7.7\"]: {words}")));
        check(
            NODE_PORT,
            "TCP/30001",
            Some("spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"),
        );
        check("creationToken/services/default", "t", None);
    }

    #[test]
    fn what_an_update_leaves_out_stays() {
        fn check(old: Value, new: Value, expected: &[(&str, Value)], problems: &[&str]) {
            let old = made(old);
            let mut new = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": new});
            making(|making| {
                (making.service_address)();
                (making.node_port)();
                update(&mut new, &old, making);
            });
            for (pointer, value) in expected {
                assert_eq!(new["spec"].pointer(pointer).cloned().unwrap_or_default(), *value, "{pointer} of {new}");
            }
            assert_eq!(texts(&service_rules::validate_update(&new, &old, rules())), problems, "{new}");
            assert_eq!(new["status"], old["status"]);
        }
        let plain = json!({"ports": [{"port": 80}]});
        check(
            plain.clone(),
            plain.clone(),
            &[("/clusterIP", json!("10.96.0.1")), ("/clusterIPs", json!(["10.96.0.1"]))],
            &[],
        );
        let mut moved = plain.clone();
        moved["clusterIP"] = "10.96.9.9".into();
        check(
            plain.clone(),
            moved,
            &[],
            &["spec.clusterIPs[0]: Invalid value: [\"10.96.9.9\"]: may not change once set"],
        );
        let outside = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}]});
        let more = json!({"type": "NodePort", "ports": [{"name": "b", "port": 81}, {"name": "a", "port": 80}]});
        check(outside.clone(), more, &[("/ports/0/nodePort", json!(30002)), ("/ports/1/nodePort", json!(30001))], &[]);
        let mut back = outside.clone();
        back["type"] = "ClusterIP".into();
        back["ports"][0]["nodePort"] = 30001.into();
        check(outside, back, &[("/ports/0/nodePort", Value::Null), ("/externalTrafficPolicy", Value::Null)], &[]);
        let named = json!({"type": "ExternalName", "externalName": "a.b"});
        let gone = [("/clusterIP", Value::Null), ("/clusterIPs", Value::Null), ("/ipFamilies", Value::Null)];
        check(plain.clone(), named.clone(), &gone, &[]);
        check(named, plain, &[("/clusterIP", json!("10.96.0.2")), ("/ipFamilyPolicy", json!("SingleStack"))], &[]);
    }
}
