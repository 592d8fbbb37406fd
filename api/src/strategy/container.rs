//! Every problem of a container.

use super::doc::{entries, has, is_empty, list, number, text, yes};
use super::names::{self, problems};
use super::qos::quantity;
use super::{doc, full, supported, supported_text};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;

pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Probes take these; `sleep` is for hooks alone.
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Every problem of one container. `volumes`: the names of the pod's volumes.
pub fn validate(container: &Value, volumes: &HashSet<&str>, grace_s: i64, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        found.push(Problem::required(&path.field("name"), ""));
    } else {
        found.extend(problems(&path.field("name"), name, names::label(name)));
    }
    let image = text(container, "image");
    if image.is_empty() {
        found.push(Problem::required(&path.field("image"), ""));
    } else if image.trim() != image {
        found.push(Problem::invalid(&path.field("image"), image, "must not have leading or trailing whitespace"));
    }
    found.extend(supported(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path));
    found.extend(ports(container, path));
    found.extend(env(container, path));
    found.extend(mounts(container, volumes, path));
    found.extend(supported(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path));
    found.extend(resources(&container["resources"], &path.field("resources")));
    found.extend(security(container, path));
    found.extend(lifecycle(container, grace_s, path));
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, field) {
            found.extend(probe(&container[field], field, &path.field(field)));
        }
    }
    found
}

fn ports(container: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, port) in list(container, "ports").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("ports").index(at);
        let name = text(port, "name");
        if !name.is_empty() {
            found.extend(problems(&path.field("name"), name, names::port_name(name)));
            if !seen.insert(name) {
                found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
            }
        }
        match number(port, "containerPort").unwrap_or(0) {
            0 => found.push(Problem::required(&path.field("containerPort"), "")),
            number => found.extend(problems(&path.field("containerPort"), number, names::port_number(number))),
        }
        match number(port, "hostPort").unwrap_or(0) {
            0 => {}
            number => found.extend(problems(&path.field("hostPort"), number, names::port_number(number))),
        }
        found.extend(supported(port, "protocol", &PROTOCOLS, &path));
        let address = text(port, "hostIP");
        if !address.is_empty() {
            found.extend(problems(&path.field("hostIP"), address, names::ip(address)));
        }
    }
    found
}

fn env(container: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, variable) in list(container, "env").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("env").index(at);
        let name = text(variable, "name");
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        } else {
            found.extend(problems(&path.field("name"), name, names::env_name(name)));
        }
        if has(variable, "valueFrom") {
            let path = path.field("valueFrom");
            let sources = entries(variable, "valueFrom").filter(|(_, source)| !source.is_null()).count();
            let words = match sources {
                _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
                0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
                1 => continue,
                _ => "may not have more than one field specified at a time",
            };
            found.push(Problem::invalid(&path, "", words));
        }
    }
    found
}

fn mounts(container: &Value, volumes: &HashSet<&str>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        if full(&found) {
            break;
        }
        let all = path.field("volumeMounts");
        let path = all.index(at);
        let name = text(mount, "name");
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        } else if !volumes.contains(name) {
            found.push(Problem::new(&path.field("name"), Reason::NotFound, Some(name.into()), ""));
        }
        let target = text(mount, "mountPath");
        if target.is_empty() {
            found.push(Problem::required(&path.field("mountPath"), ""));
        } else if !seen.insert(target) {
            found.push(Problem::invalid(&path.field("mountPath"), target, "must be unique"));
        }
        if target.contains(':') {
            found.push(Problem::invalid(&path.field("mountPath"), target, "must not contain ':'"));
        }
        // Kubernetes names these two without the index of the mount.
        for field in ["subPath", "subPathExpr"] {
            let inner = text(mount, field);
            if inner.starts_with('/') {
                found.push(Problem::invalid(&all.field(field), inner, "must be a relative path"));
            }
            if inner.split('/').any(|part| part == "..") {
                found.push(Problem::invalid(&all.field(field), inner, "must not contain '..'"));
            }
        }
    }
    found
}

fn resources(resources: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for which in ["limits", "requests"] {
        let path = path.field(which);
        for (name, amount) in entries(resources, which) {
            if full(&found) {
                break;
            }
            found.extend(resource(name, amount, &path.key(name)));
        }
    }
    let (limits, requests) = (path.field("limits"), path.field("requests"));
    for (name, amount) in entries(resources, "requests") {
        if full(&found) {
            break;
        }
        let limit = &resources["limits"][name];
        let (asked, most) = (quantity(amount), quantity(limit));
        if !limit.is_null() && is_whole_only(name) && asked != most {
            let words = format!("must be equal to {name} limit of {}", shown(limit));
            found.push(Problem::invalid(&requests, shown(amount), words));
        } else if !limit.is_null() && asked > most {
            let words = format!("must be less than or equal to {name} limit of {}", shown(limit));
            found.push(Problem::invalid(&requests, shown(amount), words));
        } else if limit.is_null() && is_whole_only(name) {
            found.push(Problem::required(&limits, "Limit must be set for non overcommitable resources"));
        }
    }
    found
}

fn resource(name: &str, amount: &Value, path: &Path) -> Vec<Problem> {
    let mut found = problems(path, name, names::qualified(name));
    if !name.contains('/') && !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
        found.push(Problem::invalid(path, name, "must be a standard resource type or fully qualified"));
        found.push(Problem::invalid(path, name, "must be a standard resource for containers"));
    }
    let value = quantity(amount);
    if value < Quantity::ZERO {
        found.push(Problem::invalid(path, shown(amount), NOT_NEGATIVE));
    }
    if is_whole_only(name) && !value.is_whole() {
        found.push(Problem::invalid(path, shown(amount), "must be an integer"));
    }
    found
}

/// Resources of others than Kubernetes come in whole pieces and are not shared.
fn is_whole_only(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") || name.starts_with("hugepages-")
}

/// An amount as Kubernetes writes it back.
fn shown(amount: &Value) -> String {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    coracle_schema::canonical_quantity(&text).map(Cow::into_owned).unwrap_or_default()
}

/// Of a security context, in Go's order.
const CONTEXT: [&str; 12] = [
    "Capabilities",
    "Privileged",
    "SELinuxOptions",
    "WindowsOptions",
    "RunAsUser",
    "RunAsGroup",
    "RunAsNonRoot",
    "ReadOnlyRootFilesystem",
    "AllowPrivilegeEscalation",
    "ProcMount",
    "SeccompProfile",
    "AppArmorProfile",
];

fn security(container: &Value, path: &Path) -> Vec<Problem> {
    let context = &container["securityContext"];
    let path = path.field("securityContext");
    let mut found = user_numbers(context, &path);
    if context["allowPrivilegeEscalation"] == false {
        let clash = |words: &str| {
            let words = format!("{}: cannot set `allowPrivilegeEscalation` to false and {words}", doc::shown(context, &CONTEXT));
            Problem::new(&path, Reason::Invalid, None, words)
        };
        if yes(context, "privileged") {
            found.push(clash("`privileged` to true"));
        }
        if list(&context["capabilities"], "add").iter().any(|one| one == "CAP_SYS_ADMIN" || one == "SYS_ADMIN") {
            found.push(clash("`capabilities.Add` CAP_SYS_ADMIN"));
        }
    }
    found
}

/// The ids of a security context, a pod's or a container's.
pub fn user_numbers(context: &Value, path: &Path) -> Vec<Problem> {
    let ids = ["runAsUser", "runAsGroup", "fsGroup"].iter().filter_map(|field| Some((path.field(field), number(context, field)?)));
    ids.flat_map(|(path, id)| problems(&path, id, names::between(id, 0, i32::MAX.into()))).collect()
}

fn lifecycle(container: &Value, grace_s: i64, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_null() {
            continue;
        }
        let path = path.field("lifecycle").field(hook);
        found.extend(handlers(handler, &HOOK_HANDLERS, &path));
        if let Some(sleep) = number(&handler["sleep"], "seconds")
            && !(0..=grace_s).contains(&sleep)
        {
            let words = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_s})");
            found.push(Problem::invalid(&path.field("sleep"), sleep, words));
        }
    }
    found
}

fn probe(probe: &Value, field: &str, path: &Path) -> Vec<Problem> {
    let mut found = handlers(probe, &HANDLERS, path);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if let Some(number) = number(probe, field).filter(|number| *number < 0) {
            found.push(Problem::invalid(&path.field(field), number, NOT_NEGATIVE));
        }
    }
    let grace = number(probe, "terminationGracePeriodSeconds");
    let grace_path = path.field("terminationGracePeriodSeconds");
    if field == "readinessProbe" {
        found.extend(grace.map(|grace| Problem::invalid(&grace_path, grace, "must not be set for readinessProbes")));
        return found;
    }
    if let Some(successes) = number(probe, "successThreshold").filter(|successes| *successes != 1) {
        found.push(Problem::invalid(&path.field("successThreshold"), successes, "must be 1"));
    }
    found.extend(grace.filter(|grace| *grace <= 0).map(|grace| Problem::invalid(&grace_path, grace, "must be greater than 0")));
    found
}

/// Exactly one of the handlers, and that one whole.
fn handlers(handler: &Value, known: &[&str], path: &Path) -> Vec<Problem> {
    let given: Vec<&str> = known.iter().copied().filter(|kind| has(handler, kind)).collect();
    let Some((first, others)) = given.split_first() else {
        return vec![Problem::required(path, "must specify a handler type")];
    };
    let mut found = Vec::new();
    for other in others {
        found.push(Problem::forbidden(&path.field(other), "may not specify more than 1 handler type"));
    }
    let (action, path) = (&handler[first], path.field(first));
    match *first {
        "exec" if is_empty(&action["command"]) => found.push(Problem::required(&path.field("command"), "")),
        "httpGet" => {
            if text(action, "path").is_empty() {
                found.push(Problem::required(&path.field("path"), ""));
            }
            found.extend(port(&action["port"], &path.field("port")));
            found.extend(supported(action, "scheme", &["HTTP", "HTTPS"], &path));
            for (at, header) in list(action, "httpHeaders").iter().enumerate() {
                if full(&found) {
                    break;
                }
                found.extend(header_name(text(header, "name"), &path.field("httpHeaders").index(at).field("name")));
            }
        }
        "tcpSocket" | "grpc" => found.extend(port(&action["port"], &path.field("port"))),
        _ => {}
    }
    found
}

fn header_name(name: &str, path: &Path) -> Option<Problem> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let words = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
        '[-A-Za-z0-9]+')";
    (name.is_empty() || !name.bytes().all(good)).then(|| Problem::invalid(path, name, words))
}

/// A port by number or by name.
pub fn port(port: &Value, path: &Path) -> Vec<Problem> {
    match port {
        Value::String(name) => problems(path, name.as_str(), names::port_name(name)),
        _ => {
            let number = port.as_i64().unwrap_or(0);
            problems(path, number, names::port_number(number))
        }
    }
}

/// Host ports that two ports of one pod ask for.
pub fn host_port_clashes(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, container) in list(spec, "containers").iter().enumerate() {
        if full(&found) {
            break;
        }
        for (at_port, port) in list(container, "ports").iter().enumerate() {
            if full(&found) {
                break;
            }
            let Some(number) = number(port, "hostPort").filter(|number| *number != 0) else { continue };
            let owned = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if !seen.insert(owned.clone()) {
                let path = path.index(at).field("ports").index(at_port).field("hostPort");
                found.push(Problem::new(&path, Reason::Duplicate, Some(owned.into()), ""));
            }
        }
    }
    found
}

/// A value that must be one of a list, wherever it stands.
pub fn one_of(value: &str, of: &[&str], path: &Path) -> Option<Problem> {
    (!of.contains(&value)).then(|| Problem::new(path, Reason::NotSupported, Some(value.into()), supported_text(of)))
}
