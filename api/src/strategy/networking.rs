//! Ingresses, their classes, and network policies.

use super::checks::{full, supported_text};
use super::doc::{has, is_empty, list, map_at, number, text};
use super::meta::{self, Scope};
use super::network::Range;
use super::rules::{BuiltinStrategy, Making, Rules, without_status};
use super::{general, label_selector, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::net::IpAddr;

/// Longest name of the controller of an ingress class.
const CONTROLLER_BYTES_MAX: usize = 250;
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// In the order told.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
/// The texts that a path may not contain, in the order of the messages.
const PATH_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const PATH_ENDS: [&str; 2] = ["/..", "/."];
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                        must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                        character (e.g. '*.example.com', regex used for validation is \
                        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Where the class stood before it had a field.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub static INGRESS: BuiltinStrategy = BuiltinStrategy {
    validate: ingress,
    validate_update: |new, old, rules| general::changed(new, old, rules, ingress),
    durable: without_status,
    ..general::strategy::<false, true>()
};
pub static INGRESS_CLASS: BuiltinStrategy = BuiltinStrategy {
    validate: class,
    validate_update: |new, old, rules| {
        let mut found = meta::validate_update(new, old);
        if new["spec"]["controller"] != old["spec"]["controller"] {
            let path = Path::new("spec.controller");
            found.push(Problem::invalid(&path, text(&new["spec"], "controller"), "field is immutable"));
        }
        found.extend(meta::new_problems(class(new, rules), &class(old, rules)));
        found
    },
    ..general::strategy::<true, true>()
};
pub static NETWORK_POLICY: BuiltinStrategy = BuiltinStrategy {
    create: |policy, making| {
        policy_defaults(policy);
        general::create::<true>(policy, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        policy_defaults(new);
        general::update::<true>(new, old, making);
    },
    validate: policy,
    validate_update: |new, old, rules| general::changed(new, old, rules, policy),
    ..general::strategy::<false, true>()
};

fn ingress(ingress: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(ingress, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&ingress["spec"], Path::new("spec"));
    if list(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        found.push(Problem::invalid(&path, Value::Null, "either `defaultBackend` or `rules` must be specified"));
    }
    if has(spec, "defaultBackend") {
        found.extend(backend(&spec["defaultBackend"], &path.field("defaultBackend")));
    }
    for (at, rule) in list(spec, "rules").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("rules").index(at);
        found.extend(host(text(rule, "host"), &path.field("host")));
        if has(rule, "http") {
            found.extend(paths(&rule["http"], &path.field("http").field("paths")));
        }
    }
    for (at, tls) in list(spec, "tls").iter().enumerate() {
        for (n, name) in list(tls, "hosts").iter().enumerate() {
            if full(&found) {
                break;
            }
            found.extend(host_form(
                name.as_str().unwrap_or_default(),
                &path.field("tls").index(at).field("hosts").index(n),
            ));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            found.extend(names::problems(
                &path.field("tls").index(at).field("secretName"),
                secret,
                names::subdomain(secret),
            ));
        }
    }
    let class = text(spec, "ingressClassName");
    if has(spec, "ingressClassName") {
        found.extend(names::problems(&path.field("ingressClassName"), class, names::subdomain(class)));
        let noted = ingress["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
        if let Some(noted) = noted.filter(|noted| *noted != class) {
            let path = Path::new("metadata.annotations").field(CLASS_ANNOTATION);
            found.push(Problem::invalid(&path, noted, "must match `ingressClassName` when both are specified"));
        }
    }
    let status = &ingress["status"]["loadBalancer"];
    found.extend(super::service_rules::balanced_at(status, &Path::new("status.loadBalancer.ingress")));
    found
}

fn host(host: &str, path: &Path) -> Vec<Problem> {
    if host.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if host.parse::<IpAddr>().is_ok() {
        found.push(Problem::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    found.extend(host_form(host, path));
    found
}

fn host_form(host: &str, path: &Path) -> Vec<Problem> {
    if !host.contains('*') {
        return names::problems(path, host, names::subdomain(host));
    }
    let good = host.strip_prefix("*.").is_some_and(|rest| names::subdomain(rest).is_empty());
    if good { Vec::new() } else { vec![Problem::invalid(path, host, WILDCARD)] }
}

fn paths(http: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let all = list(http, "paths");
    if all.is_empty() {
        found.push(Problem::required(path, ""));
    }
    for (at, one) in all.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(of_path(one, &path.index(at)));
    }
    found
}

fn of_path(one: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (place, at) = (text(one, "path"), path.field("path"));
    match one["pathType"].as_str() {
        None => {
            found.push(Problem::required(&path.field("pathType"), "pathType must be specified"));
            return found;
        }
        Some("Exact" | "Prefix") => {
            if !place.starts_with('/') {
                found.push(Problem::invalid(&at, place, "must be an absolute path"));
            }
            for bad in PATH_PARTS.iter().filter(|bad| !place.is_empty() && place.contains(**bad)) {
                found.push(Problem::invalid(&at, place, format!("must not contain '{bad}'")));
            }
            for bad in PATH_ENDS.iter().filter(|bad| place.ends_with(**bad)) {
                found.push(Problem::invalid(&at, place, format!("cannot end with '{bad}'")));
            }
        }
        Some("ImplementationSpecific") => {
            if !place.is_empty() && !place.starts_with('/') {
                found.push(Problem::invalid(&at, place, "must be an absolute path"));
            }
        }
        Some(other) => {
            let words = supported_text(&PATH_TYPES);
            found.push(Problem::new(&path.field("pathType"), Reason::NotSupported, Some(other.into()), words));
        }
    }
    found.extend(backend(&one["backend"], &path.field("backend")));
    found
}

fn backend(backend: &Value, path: &Path) -> Vec<Problem> {
    let (service, resource) = (&backend["service"], has(backend, "resource"));
    match (has(backend, "service"), resource) {
        (true, true) => return vec![Problem::invalid(path, "", "cannot set both resource and service backends")],
        (false, true) => return reference(&backend["resource"], &path.field("resource")),
        (false, false) => return vec![Problem::invalid(path, "", "resource or service backend is required")],
        (true, false) => {}
    }
    let mut found = Vec::new();
    let (name, at) = (text(service, "name"), path.field("service").field("name"));
    if name.is_empty() {
        found.push(Problem::required(&at, ""));
    } else {
        found.extend(names::problems(&at, name, names::label(name)));
    }
    let (word, port) = (text(&service["port"], "name"), number(&service["port"], "number").unwrap_or(0));
    let at = path.field("service").field("port");
    match (word.is_empty(), port) {
        (false, number) if number != 0 => {
            found.push(Problem::invalid(path, "", "cannot set both port name & port number"))
        }
        (true, 0) => found.push(Problem::required(path, "port name or number is required")),
        (false, _) => found.extend(names::problems(&at.field("name"), word, names::port_name(word))),
        (true, number) => found.extend(names::problems(&at.field("number"), number, names::port_number(number))),
    }
    found
}

/// A reference to an object of any kind in the same namespace.
fn reference(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let group = text(of, "apiGroup");
    if has(of, "apiGroup") {
        found.extend(names::problems(&path.field("apiGroup"), group, names::subdomain(group)));
    }
    for field in ["kind", "name"] {
        let (value, path) = (text(of, field), path.field(field));
        if value.is_empty() {
            found.push(Problem::required(&path, ""));
        } else {
            found.extend(names::problems(&path, value, super::rbac::segment(value)));
        }
    }
    found
}

fn class(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(class, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&class["spec"], Path::new("spec"));
    let (controller, at) = (text(spec, "controller"), path.field("controller"));
    if controller.len() > CONTROLLER_BYTES_MAX {
        found.push(Problem::new(
            &at,
            Reason::TooLong,
            None,
            format!("may not be more than {CONTROLLER_BYTES_MAX} bytes"),
        ));
    }
    found.extend(names::domain_prefixed(controller, &at));
    let (parameters, at) = (&spec["parameters"], path.field("parameters"));
    if has(spec, "parameters") {
        found.extend(reference(parameters, &at));
        let namespace = text(parameters, "namespace");
        if has(parameters, "namespace") {
            found.extend(names::problems(&at.field("namespace"), namespace, names::label(namespace)));
        }
        match (text(parameters, "scope"), has(parameters, "namespace")) {
            ("Namespace", false) => {
                found.push(Problem::required(&at.field("namespace"), "`parameters.scope` is set to 'Namespace'"))
            }
            ("Cluster", true) => {
                found.push(Problem::forbidden(&at.field("namespace"), "`parameters.scope` is set to 'Cluster'"))
            }
            ("Namespace" | "Cluster", _) => {}
            (other, _) => {
                let words = supported_text(&["Cluster", "Namespace"]);
                found.push(Problem::new(&at.field("scope"), Reason::NotSupported, Some(other.into()), words));
            }
        }
    }
    found
}

/// Without policy types a policy covers incoming traffic, and outgoing traffic only if the policy has egress rules.
fn policy_defaults(policy: &mut Value) {
    map_at(policy, "spec");
    let spec = &mut policy["spec"];
    if list(spec, "policyTypes").is_empty() {
        spec["policyTypes"] =
            if list(spec, "egress").is_empty() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    }
}

fn policy(policy: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(policy, Scope::Namespaced, names::subdomain, rules);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    found.extend(label_selector::validate(&spec["podSelector"], rules, &path.field("podSelector")));
    for (side, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list(spec, side).iter().enumerate() {
            let path = path.field(side).index(at);
            for (n, port) in list(rule, "ports").iter().enumerate() {
                if full(&found) {
                    break;
                }
                found.extend(policy_port(port, &path.field("ports").index(n)));
            }
            for (n, one) in list(rule, peers).iter().enumerate() {
                if full(&found) {
                    break;
                }
                found.extend(peer(one, rules, &path.field(peers).index(n)));
            }
        }
    }
    let types = list(spec, "policyTypes");
    if types.len() > 2 {
        found.push(Problem::invalid(
            &path.field("policyTypes"),
            spec["policyTypes"].clone(),
            "may not specify more than two policyTypes",
        ));
        return found;
    }
    for (at, one) in types.iter().enumerate().filter(|(_, one)| *one != "Ingress" && *one != "Egress") {
        let words = supported_text(&["Ingress", "Egress"]);
        found.push(Problem::new(&path.field("policyTypes").index(at), Reason::NotSupported, Some(one.clone()), words));
    }
    found
}

fn policy_port(port: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(protocol) = port["protocol"].as_str().filter(|protocol| !PROTOCOLS.contains(protocol)) {
        let words = supported_text(&PROTOCOLS);
        found.push(Problem::new(&path.field("protocol"), Reason::NotSupported, Some(protocol.into()), words));
    }
    let (at, end, of_end) = (path.field("port"), number(port, "endPort"), path.field("endPort"));
    let alone = |words: &str| end.map(|end| Problem::invalid(&of_end, end, words));
    match &port["port"] {
        Value::Number(start) => {
            let start = start.as_i64().unwrap_or(0);
            found.extend(names::problems(&at, start, names::port_number(start)));
            if end.is_some_and(|end| end < start) {
                found.push(Problem::invalid(&of_end, start, "must be greater than or equal to `port`"));
            }
            found.extend(end.into_iter().flat_map(|end| names::problems(&of_end, end, names::port_number(end))));
        }
        Value::String(name) => {
            found.extend(alone("may not be specified when `port` is non-numeric"));
            found.extend(names::problems(&at, name.as_str(), names::port_name(name)));
        }
        _ => found.extend(alone("may not be specified when `port` is not specified")),
    }
    found
}

fn peer(peer: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let selects = ["podSelector", "namespaceSelector"].into_iter().filter(|field| has(peer, field));
    let mut peers = 0;
    for field in selects {
        peers += 1;
        found.extend(label_selector::validate(&peer[field], rules, &path.field(field)));
    }
    if has(peer, "ipBlock") {
        found.extend(block(&peer["ipBlock"], &path.field("ipBlock")));
        if peers > 0 {
            found.push(Problem::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        peers += 1;
    }
    if peers == 0 {
        found.push(Problem::required(path, "must specify a peer"));
    }
    found
}

fn block(block: &Value, path: &Path) -> Vec<Problem> {
    let (range, at) = (text(block, "cidr"), path.field("cidr"));
    if is_empty(&block["cidr"]) {
        return vec![Problem::required(&at, "")];
    }
    let mut found = names::problems(&at, range, names::cidr(range));
    let outer = Range::parse(range);
    for (n, except) in list(block, "except").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (except, at) = (except.as_str().unwrap_or_default(), path.field("except").index(n));
        found.extend(names::problems(&at, except, names::cidr(except)));
        if let (Some(outer), Some(inner)) = (&outer, Range::parse(except))
            && !outer.strictly_holds(&inner)
        {
            found.push(Problem::invalid(&at, except, "must be a strict subset of `cidr`"));
        }
    }
    found
}
