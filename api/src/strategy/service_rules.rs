//! Every problem of a service.

use super::checks::{full, one_of, supported};
use super::doc::{has, is_empty, list, number, text};
use super::endpoints;
use super::meta::{self, Scope};
use super::names::{self, problems};
use super::rules::Rules;
use super::service::{HEADLESS, is_headless, is_reachable_from_outside, wants_address};
use super::service_ports::{duplicates, node_ports, this_port};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;
use std::net::IpAddr;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
/// The annotation that preceded the field `loadBalancerSourceRanges`.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Where the agent of each node listens.
const AGENT_PORT: i64 = 10250;
/// Longest session affinity of a client, in seconds.
const AFFINITY_S_MAX: i64 = 86400;

/// Every problem of a service, in the order in which Kubernetes tells them.
pub fn validate(service: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(service, Scope::Namespaced, names::label, rules);
    if rules.old_names {
        // Names of services were labels in 2014 too, because further names contain the service's name.
        let name = text(&service["metadata"], "name");
        found.extend(names::problems(&Path::new("metadata.name"), name, names::label(name)));
    }
    let (spec, path) = (&service["spec"], Path::new("spec"));
    let kind = text(spec, "type");
    let all = list(spec, "ports");
    if all.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        found.push(Problem::required(&path.field("ports"), ""));
    }
    found.extend(of_type(spec, kind, &path));
    let mut seen = HashSet::new();
    for (at, port) in all.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(this_port(port, all.len() > 1, &mut seen, &path.field("ports").index(at)));
    }
    found.extend(meta::labels(spec, "selector", &path, rules));
    found.extend(supported(spec, "sessionAffinity", &["ClientIP", "None"], &path));
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if text(spec, "sessionAffinity") == "ClientIP"
        && !seconds.as_i64().is_some_and(|s| (1..=AFFINITY_S_MAX).contains(&s))
    {
        let words = format!("must be greater than 0 and less than {AFFINITY_S_MAX}");
        found.push(Problem::invalid(
            &Path::new("spec.sessionAffinityConfig.clientIP.timeoutSeconds"),
            seconds.clone(),
            words,
        ));
    }
    found.extend(addresses(spec, rules, &path));
    for (at, ip) in list(spec, "externalIPs").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (ip, path) = (ip.as_str().unwrap_or_default(), path.field("externalIPs").index(at));
        found.extend(problems(&path, ip, names::ip(ip).into_iter().chain(endpoints::elsewhere(ip)).collect()));
    }
    found.extend(supported(spec, "type", &TYPES, &path));
    found.extend(node_ports(spec, rules, &path));
    found.extend(duplicates(spec, &path));
    found.extend(source_ranges(service, &path));
    found.extend(balancer(service, &path));
    found.extend(traffic(spec, &path));
    found
}

/// Refuses changes that an update may not make, and checks the new service.
pub fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    let (spec, was, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    let other = wants_address(was) && !is_empty(&was["clusterIPs"]) && spec["clusterIPs"][0] != was["clusterIPs"][0];
    // An invalid address is reported elsewhere as an invalid address.
    if wants_address(spec)
        && other
        && spec["clusterIPs"][0].as_str().is_some_and(|ip| ip == HEADLESS || ip.parse::<IpAddr>().is_ok())
    {
        let words = "may not change once set";
        found.push(Problem::invalid(&path.field("clusterIPs").index(0), spec["clusterIPs"].clone(), words));
    }
    let (class, before) = (&spec["loadBalancerClass"], &was["loadBalancerClass"]);
    if text(spec, "type") == "LoadBalancer" && text(was, "type") == "LoadBalancer" && class != before {
        found.push(Problem::invalid(&path.field("loadBalancerClass"), class.clone(), "may not change once set"));
    }
    found.extend(meta::new_problems(validate(new, rules), &validate(old, rules)));
    found
}

fn of_type(spec: &Value, kind: &str, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(spec) {
        let words = format!("may not be set to 'None' for {kind} services");
        found.push(Problem::invalid(&path.field("clusterIPs").index(0), HEADLESS, words));
    }
    if kind == "LoadBalancer" {
        let agents =
            list(spec, "ports").iter().enumerate().filter(|(_, port)| number(port, "port") == Some(AGENT_PORT));
        let words = format!("may not expose port {AGENT_PORT} externally since it is used by kubelet");
        found.extend(
            agents.take(8).map(|(at, _)| Problem::invalid(&path.field("ports").index(at), AGENT_PORT, words.clone())),
        );
    }
    if kind != "ExternalName" {
        return found;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let also = if field == "clusterIPs" { "clusterIP" } else { field };
        if !is_empty(&spec[field]) || !is_empty(&spec[also]) {
            found.push(Problem::forbidden(&path.field(field), "may not be set for ExternalName services"));
        }
    }
    let (name, path) = (text(spec, "externalName"), path.field("externalName"));
    match name.strip_suffix('.').unwrap_or(name) {
        "" => found.push(Problem::required(&path, "")),
        host => found.extend(problems(&path, host, names::subdomain(host))),
    }
    found
}

fn addresses(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    if text(spec, "type") == "ExternalName" {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (ip, ips) = (text(spec, "clusterIP"), list(spec, "clusterIPs"));
    let (list_path, families_path, policy_path) =
        (path.field("clusterIPs"), path.field("ipFamilies"), path.field("ipFamilyPolicy"));
    if ip.is_empty() && !ips.is_empty() {
        found.push(Problem::invalid(&list_path, ips.to_vec(), "must be empty when `clusterIP` is not specified"));
    }
    if !ip.is_empty() && ips.first().is_some_and(|first| first != ip) {
        found.push(Problem::invalid(&list_path, ips.to_vec(), "first value must match `clusterIP`"));
    }
    let families = list(spec, "ipFamilies");
    for (path, held) in [(&families_path, families), (&list_path, ips)] {
        if held.len() > 2 {
            found.push(Problem::invalid(path, held.len(), "may only hold up to 2 values"));
            return found;
        }
    }
    for (at, family) in families.iter().enumerate() {
        found.extend(one_of(family.as_str().unwrap_or_default(), &FAMILIES, &families_path.index(at)));
        if families[..at].contains(family) {
            found.push(Problem::new(&families_path.index(at), Reason::Duplicate, Some(family.clone()), ""));
        }
    }
    let policy = text(spec, "ipFamilyPolicy");
    if !policy.is_empty() {
        found.extend(one_of(policy, &["PreferDualStack", "RequireDualStack", "SingleStack"], &policy_path));
    }
    let of_one_family = |pair: &[Value]| {
        let is_v6 = |at: usize| {
            pair.get(at).and_then(Value::as_str).and_then(|ip| ip.parse::<IpAddr>().ok()).map(|ip| ip.is_ipv6())
        };
        is_v6(0).is_some() && is_v6(0) == is_v6(1)
    };
    if of_one_family(ips) {
        found.push(Problem::invalid(&list_path, ips.to_vec(), "may specify no more than one IP for each IP family"));
    }
    let rules = if found.is_empty() { rules } else { Rules { service_cidr: None, ..rules } };
    for (at, ip) in ips.iter().enumerate() {
        found.extend(this_address(ip.as_str().unwrap_or_default(), families.get(at), ips, at, rules, &list_path));
    }
    if found.is_empty() {
        found.extend(stack(spec, &families_path, &policy_path));
    }
    // What could be given was given: a service that wants an IPv4 address and is whole otherwise found the range full.
    if found.is_empty() && ip.is_empty() && wants_address(spec) {
        found.push(Problem::required(&path.field("clusterIP"), "no address of the service range is free"));
    }
    found
}

fn this_address(ip: &str, family: Option<&Value>, all: &[Value], at: usize, rules: Rules, path: &Path) -> Vec<Problem> {
    let here = path.index(at);
    if ip == HEADLESS {
        let first = at == 0 && all.len() == 1;
        return if first {
            Vec::new()
        } else {
            vec![Problem::invalid(&here, ip, "'None' must be the first and only value")]
        };
    }
    let address = match ip.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => return problems(&here, ip, names::ip(ip)),
    };
    let family = family.and_then(Value::as_str).filter(|family| FAMILIES.contains(family));
    if let Some(family) = family.filter(|family| (*family == "IPv6") != address.is_ipv6()) {
        return vec![Problem::invalid(
            &here,
            ip,
            format!("expected an {family} value as indicated by `ipFamilies[{at}]`"),
        )];
    }
    if family.is_none() && address.is_ipv6() && rules.service_cidr.is_some() {
        return vec![Problem::invalid(&here, all.to_vec(), "IPv6 is not configured on this cluster")];
    }
    let given = |ranges: super::Ranges| matches!(address, IpAddr::V4(v4) if ranges.can_give(v4));
    match rules.service_cidr {
        Some(range) if !given(range) => {
            let words = "the provided network does not match the current range";
            vec![Problem::invalid(path, all.to_vec(), format!("failed to allocate IP {ip}: {words}"))]
        }
        _ => Vec::new(),
    }
}

/// This cluster gives IPv4 addresses. What is only wished for is taken; what is required and cannot be had is refused.
fn stack(spec: &Value, families_path: &Path, policy_path: &Path) -> Option<Problem> {
    let families = list(spec, "ipFamilies");
    let policy = text(spec, "ipFamilyPolicy");
    if is_headless(spec) && is_empty(&spec["selector"]) {
        return None;
    }
    if policy == "SingleStack" && families.len() > 1 {
        let words = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        return Some(Problem::invalid(policy_path, policy, words));
    }
    if policy == "RequireDualStack" {
        return Some(Problem::invalid(policy_path, policy, "this cluster is not configured for dual-stack services"));
    }
    let other = families.iter().position(|family| family != "IPv4")?;
    Some(Problem::invalid(&families_path.index(other), families[other].clone(), "not configured on this cluster"))
}

/// Checks the source ranges of a load balancer: in the field, or in the older annotation.
fn source_ranges(service: &Value, path: &Path) -> Vec<Problem> {
    let spec = &service["spec"];
    // Kubernetes writes this field large.
    let field = path.field("LoadBalancerSourceRanges");
    let said = list(spec, "loadBalancerSourceRanges").iter().enumerate();
    let mut ranges: Vec<(Path, &str)> =
        said.map(|(at, range)| (field.index(at), range.as_str().unwrap_or_default())).collect();
    let mut at = &field;
    let annotated = Path::new("metadata.annotations").key(SOURCE_RANGES);
    if let (true, Some(said)) = (ranges.is_empty(), service["metadata"]["annotations"][SOURCE_RANGES].as_str()) {
        at = &annotated;
        let said = (!said.trim().is_empty()).then(|| said.split(','));
        ranges = said.into_iter().flatten().map(|range| (annotated.clone(), range)).collect();
    } else if ranges.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if text(spec, "type") != "LoadBalancer" {
        found.push(Problem::forbidden(at, ONLY_BALANCED));
    }
    for (path, range) in ranges {
        if full(&found) {
            break;
        }
        found.extend(problems(&path, range.trim(), names::cidr(range.trim())));
    }
    found
}

fn balancer(service: &Value, path: &Path) -> Vec<Problem> {
    let spec = &service["spec"];
    let mut found = Vec::new();
    let balanced = text(spec, "type") == "LoadBalancer";
    if has(spec, "allocateLoadBalancerNodePorts") && !balanced {
        found.push(Problem::forbidden(&path.field("allocateLoadBalancerNodePorts"), ONLY_BALANCED));
    }
    let class = text(spec, "loadBalancerClass");
    if !class.is_empty() {
        if !balanced {
            found.push(Problem::forbidden(&path.field("loadBalancerClass"), ONLY_BALANCED));
        }
        found.extend(problems(&path.field("loadBalancerClass"), class, names::qualified(class)));
    }
    let (status, path) = (&service["status"]["loadBalancer"], Path::new("status.loadBalancer.ingress"));
    if !balanced && !list(status, "ingress").is_empty() {
        found.push(Problem::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'"));
    } else {
        found.extend(balanced_at(status, &path));
    }
    found
}

/// Where a balancer takes clients in, of a service or of an ingress.
pub fn balanced_at(status: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, one) in list(status, "ingress").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (ip, host, path) = (text(one, "ip"), text(one, "hostname"), path.index(at));
        if !ip.is_empty() {
            found.extend(problems(&path.field("ip"), ip, names::ip(ip)));
        }
        match one["ipMode"].as_str() {
            Some(_) if ip.is_empty() => {
                found.push(Problem::forbidden(&path.field("ipMode"), "may not be specified when `ip` is not set"))
            }
            Some(mode) => found.extend(one_of(mode, &["Proxy", "VIP"], &path.field("ipMode"))),
            None => {}
        }
        if !host.is_empty() {
            found.extend(problems(&path.field("hostname"), host, names::subdomain(host)));
            if host.parse::<IpAddr>().is_ok() {
                found.push(Problem::invalid(&path.field("hostname"), host, "must be a DNS name, not an IP address"));
            }
        }
    }
    found
}

fn traffic(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let policies = ["Cluster", "Local"];
    let external = text(spec, "externalTrafficPolicy");
    if is_reachable_from_outside(spec) {
        found.extend(supported(spec, "externalTrafficPolicy", &policies, path));
    } else if !external.is_empty() {
        let words = "may only be set for externally-accessible services";
        found.push(Problem::invalid(&path.field("externalTrafficPolicy"), external, words));
    }
    if let Some(port) = number(spec, "healthCheckNodePort").filter(|port| *port != 0) {
        let path = path.field("healthCheckNodePort");
        if text(spec, "type") == "LoadBalancer" && external == "Local" {
            found.extend(problems(&path, port, names::port_number(port)));
        } else {
            let words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            found.push(Problem::invalid(&path, port, words));
        }
    }
    let forms: [(&str, &[&str]); 2] = [
        ("internalTrafficPolicy", &policies),
        ("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]),
    ];
    for (field, known) in forms {
        let value = text(spec, field);
        if !value.is_empty() {
            found.extend(one_of(value, known, &path.field(field)));
        }
    }
    found
}
