//! The ports of a service.

use super::checks::{full, supported};
use super::doc::{has, list, number, text};
use super::names::{self, problems};
use super::rules::Rules;
use super::{container, service};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

pub(super) fn this_port<'a>(
    port: &'a Value,
    needs_name: bool,
    seen: &mut HashSet<&'a str>,
    path: &Path,
) -> Vec<Problem> {
    let mut found = Vec::new();
    let name = text(port, "name");
    if name.is_empty() && needs_name {
        found.push(Problem::required(&path.field("name"), ""));
    } else if !name.is_empty() {
        found.extend(problems(&path.field("name"), name, names::label(name)));
        if !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
    }
    let value = number(port, "port").unwrap_or(0);
    found.extend(problems(&path.field("port"), value, names::port_number(value)));
    found.extend(supported(port, "protocol", &container::PROTOCOLS, path));
    if has(port, "targetPort") {
        found.extend(container::port(&port["targetPort"], &path.field("targetPort")));
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        found.extend(problems(&path.field("appProtocol"), protocol, names::qualified(protocol)));
    }
    found
}

pub(super) fn node_ports(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let range = rules.node_ports;
    let mut found = Vec::new();
    let mut seen = HashMap::new();
    for (at, port) in list(spec, "ports").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("ports").index(at).field("nodePort");
        let Some(number) = number(port, "nodePort").filter(|number| *number != 0) else {
            if service::wants_node_ports(spec) {
                found.push(Problem::required(&path, format!("no port of {range} is free")));
            }
            continue;
        };
        if text(spec, "type") == "ClusterIP" {
            found.push(Problem::forbidden(&path, "may not be used when `type` is 'ClusterIP'"));
        } else if !range.contains(number) {
            let words = format!("provided port is not in the valid range. The range of valid ports is {range}");
            found.push(Problem::invalid(&path, number, words));
        }
        // One port in two protocols may have one number for both.
        let same = (port["port"].as_i64(), text(port, "protocol"));
        match seen.insert(number, same) {
            Some((before, protocol)) if before == same.0 && protocol != same.1 => {}
            Some((before, _)) if before == same.0 => {
                found.push(Problem::new(&path, Reason::Duplicate, Some(number.into()), ""))
            }
            Some(_) => found.push(Problem::invalid(&path, number, "provided port is already allocated")),
            None => {}
        }
    }
    found
}

pub(super) fn duplicates(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, port) in list(spec, "ports").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (protocol, value) = (text(port, "protocol"), number(port, "port"));
        if !seen.insert((protocol, value)) {
            // Kubernetes shows the compared value: a port of Kubernetes' own type with only these two fields set.
            let key = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                value.unwrap_or_default()
            );
            found.push(Problem::new(&path.field("ports").index(at), Reason::Duplicate, None, key));
        }
    }
    found
}
