//! Services: what is given to them (addresses, ports), what they keep.
//!
//!     create:  defaults -> address -> node ports
//!     update:  defaults -> what is left out stays -> what the type no longer has goes -> address -> node ports

use super::doc::{copy, default_to, is_empty, list, list_at, map_at, number, remove, text};
use super::{Making, Strategy, meta, service_rules, whole};
use crate::meta::Claim;
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashSet;

/// Ports of a node that services may take.
pub const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;
/// How long a client stays with its pod unless a service says otherwise.
const AFFINITY_S_DEFAULT: i64 = 3 * 60 * 60;
/// A service without an address of its own.
pub const HEADLESS: &str = "None";
/// The space of claims on service addresses.
pub const CLUSTER_IP: &str = "clusterIP";
/// The space of claims on node ports: `TCP/30080`.
pub const NODE_PORT: &str = "nodePort";

pub static SERVICE: Strategy = Strategy {
    create,
    update,
    status_update: meta::status_update,
    validate: service_rules::validate,
    validate_update: service_rules::validate_update,
    claims,
    durable: whole,
    delete: meta::delete,
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
    new["status"] = old["status"].clone();
    meta::update(new, old, false);
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

/// Gives what is wanted and missing. What cannot be given stays missing, and validation says so.
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
    if wants_node_ports(spec) {
        let mut taken: HashSet<i64> = list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).collect();
        for port in list_at(spec, "ports").filter(|port| port.is_object() && is_empty(&port["nodePort"])) {
            // A candidate may be one that this very service asks for: a few more are tried.
            let candidate = (0..=taken.len()).find_map(|_| (making.node_port)().filter(|port| !taken.contains(&i64::from(*port))));
            if let Some(candidate) = candidate {
                taken.insert(candidate.into());
                port["nodePort"] = candidate.into();
            }
        }
    }
}

/// Services here are IPv4; a headless one without a selector leaves that to whoever fills it, as Kubernetes writes it.
fn families(spec: &mut Value) {
    let open = is_headless(spec) && is_empty(&spec["selector"]);
    if is_empty(&spec["ipFamilies"]) {
        spec["ipFamilies"] = if open { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        if open {
            default_to(spec, "ipFamilyPolicy", "RequireDualStack");
        }
    }
    default_to(spec, "ipFamilyPolicy", "SingleStack");
}

/// What an update leaves out stays: the address, and the node ports of ports that stay.
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
    if !(wants_node_ports(spec) && wants_node_ports(was)) {
        return;
    }
    let key = |port: &Value| (text(port, "protocol").to_owned(), number(port, "port"));
    let mut taken: HashSet<i64> = list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).collect();
    for port in list_at(spec, "ports").filter(|port| port.is_object() && is_empty(&port["nodePort"])) {
        let same = list(was, "ports").iter().find(|old| key(old) == key(port)).and_then(|old| number(old, "nodePort"));
        if let Some(kept) = same.filter(|kept| taken.insert(*kept)) {
            port["nodePort"] = kept.into();
        }
    }
}

/// What belongs to the old type alone goes with it, unless the update speaks of it.
fn let_go(spec: &mut Value, was: &Value) {
    let ports =
        |spec: &Value| -> Vec<Option<i64>> { list(spec, "ports").iter().filter_map(|port| number(port, "nodePort")).map(Some).collect() };
    if wants_node_ports(was) && !wants_node_ports(spec) && text(spec, "type") != "LoadBalancer" && ports(spec) == ports(was) {
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
        fields.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]);
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
            let at = list(spec, "ports").iter().position(|port| number(port, "nodePort") == Some(taken))?;
            let path = path.field("ports").index(at).field("nodePort");
            Some(Problem::invalid(&path, taken, "provided port is already allocated"))
        }
        _ => None,
    }
}
