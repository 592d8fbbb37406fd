//! Every problem of a container.

use super::amounts::{self, Whose, is_not_shared, shown};
use super::checks::{NOT_NEGATIVE, full, one_of, supported};
use super::doc::{entries, has, is_empty, list, number, text};
use super::names::{self, problems};
use super::qos::quantity;
use super::{env, mounts, pod_parts, security, systems};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const EXIT_CODES_MAX: usize = 255;
const RESTART_RULES_MAX: usize = 20;
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Probes take these; `sleep` is for hooks alone.
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// The pod's values that the checks of a container need.
pub struct Surroundings<'s> {
    pub volumes: HashMap<&'s str, &'s Value>,
    /// Names of claims to resources.
    pub claims: BTreeSet<&'s str>,
    pub grace_s: i64,
    /// The pod's restart policy.
    pub restarts: &'s str,
    /// The pod's operating system; empty if the pod names none.
    pub system: &'s str,
    /// The pod runs in the host's user namespace.
    pub host_users: bool,
}

/// The list of a pod's spec in which a container stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ContainerKind {
    Regular,
    /// Init containers run one after the other before the regular containers; restartable init containers keep running.
    Init,
    Ephemeral,
}

/// Every problem of one container.
pub fn validate(container: &Value, kind: ContainerKind, pod: &Surroundings<'_>, path: &Path) -> Vec<Problem> {
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
    found.extend(env::validate(container, &pod.volumes, path));
    found.extend(mounts::validate(container, &pod.volumes, path));
    found.extend(supported(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path));
    found.extend(resources(&container["resources"], Whose::Container, &path.field("resources")));
    found.extend(pod_parts::claims_used(&container["resources"], &pod.claims, &path.field("resources")));
    found.extend(pod_parts::resizes(container, pod.restarts, path));
    found.extend(security::of_container(&container["securityContext"], pod.host_users, &path.field("securityContext")));
    found.extend(restarts(container, path));
    found.extend(life(container, kind, pod, path));
    found
}

/// Checks a container's own restart policy and restart rules.
fn restarts(container: &Value, path: &Path) -> Vec<Problem> {
    let (policy, rules, at) =
        (container["restartPolicy"].as_str(), list(container, "restartPolicyRules"), path.field("restartPolicyRules"));
    let mut found: Vec<Problem> = Vec::new();
    if let Some(policy) = policy {
        found.extend(one_of(policy, &["Always", "Never", "OnFailure"], &path.field("restartPolicy")));
    }
    if !rules.is_empty() && policy.is_none() {
        found.push(Problem::required(
            &path.field("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        ));
    }
    if rules.len() > RESTART_RULES_MAX {
        let words = format!("must have at most {RESTART_RULES_MAX} items");
        found.push(Problem::new(&at, Reason::TooMany, Some(rules.len().into()), words));
    }
    for (n, rule) in rules.iter().enumerate().take(RESTART_RULES_MAX) {
        let (path, codes) = (at.index(n), &rule["exitCodes"]);
        found.extend(one_of(text(rule, "action"), &["Restart", "RestartAllContainers"], &path.field("action")));
        let path = path.field("exitCodes");
        if codes.is_null() {
            found.push(Problem::required(&path, "must be specified"));
            continue;
        }
        found.extend(one_of(text(codes, "operator"), &["In", "NotIn"], &path.field("operator")));
        if is_empty(&codes["values"]) {
            found.push(Problem::required(&path.field("values"), "must specify at least one exit code"));
        }
        let count = list(codes, "values").len();
        if count > EXIT_CODES_MAX {
            let words = format!("must have at most {EXIT_CODES_MAX} items");
            found.push(Problem::new(&path.field("values"), Reason::TooMany, Some(count.into()), words));
        }
    }
    found
}

const LIFE: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Hooks and probes, which containers that end have no use for.
fn life(container: &Value, kind: ContainerKind, pod: &Surroundings<'_>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if kind == ContainerKind::Ephemeral {
        // An ephemeral container may have none of these fields: `ephemeral` reports each.
        return found;
    }
    if kind == ContainerKind::Init && container["restartPolicy"] != "Always" {
        let words = "may not be set for init containers without restartPolicy=Always";
        found.extend(
            LIFE.iter()
                .filter(|field| has(container, field))
                .map(|field| Problem::forbidden(&path.field(field), words)),
        );
        let again = "RestartContainer";
        if list(container, "resizePolicy").iter().any(|one| one["restartPolicy"] == again) {
            let words = "must be 'NotRequired' for init containers without restartPolicy=Always";
            found.push(Problem::invalid(&path.field("resizePolicy"), again, words));
        }
        return found;
    }
    found.extend(lifecycle(container, pod.grace_s, path));
    if let Some(signal) = container["lifecycle"]["stopSignal"].as_str() {
        found.extend(systems::stop_signal(signal, pod.system, &path.field("lifecycle").field("stopSignal")));
    }
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
        // Kubernetes takes any text; an engine may read one that is no address, like `localhost`, as all addresses of
        // the host.
        let address = text(port, "hostIP");
        if !address.is_empty() {
            found.extend(problems(&path.field("hostIP"), address, names::ip(address)));
        }
    }
    found
}

/// The warning for a host address without a host port.
pub fn unused_address(port: &Value, here: &Path) -> Option<String> {
    let (host, ip) = (number(port, "hostPort").unwrap_or(0), text(port, "hostIP"));
    let (name, number, protocol) =
        (text(port, "name"), number(port, "containerPort").unwrap_or(0), text(port, "protocol"));
    let shown = format!("{{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}");
    (host == 0 && !ip.is_empty()).then(|| format!("{here}: hostIP set without hostPort: {shown}"))
}

/// Checks requests and limits.
pub fn resources(resources: &Value, whose: Whose, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for which in ["limits", "requests"] {
        let path = path.field(which);
        for (name, amount) in entries(resources, which) {
            if full(&found) {
                break;
            }
            found.extend(resource(name, amount, whose, &path.key(name)));
        }
    }
    let (limits, requests) = (path.field("limits"), path.field("requests"));
    for (name, amount) in entries(resources, "requests") {
        if full(&found) {
            break;
        }
        let limit = &resources["limits"][name];
        let (asked, most) = (quantity(amount), quantity(limit));
        if !limit.is_null() && is_not_shared(name) && asked != most {
            let words = format!("must be equal to {name} limit of {}", shown(limit));
            found.push(Problem::invalid(&requests, shown(amount), words));
        } else if !limit.is_null() && asked > most {
            let words = format!("must be less than or equal to {name} limit of {}", shown(limit));
            found.push(Problem::invalid(&requests, shown(amount), words));
        } else if limit.is_null() && is_not_shared(name) {
            found.push(Problem::required(&limits, "Limit must be set for non overcommitable resources"));
        }
    }
    let named = |start: &str| {
        entries(resources, "limits").chain(entries(resources, "requests")).any(|(name, _)| name.starts_with(start))
    };
    if named("hugepages-") && !named("cpu") && !named("memory") {
        found.push(Problem::forbidden(path, "HugePages require cpu or memory"));
    }
    found
}

/// One amount of a resource, that a container or a pod asks for or a runtime needs.
fn resource(name: &str, amount: &Value, whose: Whose, path: &Path) -> Vec<Problem> {
    let mut found = amounts::name(name, whose, path);
    found.extend(amounts::amount(name, amount, path));
    let value = quantity(amount).value();
    let pages =
        amounts::page_bytes(name).map(Quantity::value).is_some_and(|page| page > 0 && value > 0 && value % page == 0);
    if name.starts_with("hugepages-") && !pages {
        found.push(Problem::invalid(
            path,
            shown(amount),
            format!("{} is not positive integer multiple of {name}", shown(amount)),
        ));
    }
    found
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
    found.extend(
        grace.filter(|grace| *grace <= 0).map(|grace| Problem::invalid(&grace_path, grace, "must be greater than 0")),
    );
    found
}

/// Checks for exactly one handler, with all required fields.
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
            for header in list(action, "httpHeaders") {
                if full(&found) {
                    break;
                }
                found.extend(header_name(text(header, "name"), &path.field("httpHeaders")));
            }
        }
        "tcpSocket" | "grpc" => found.extend(port(&action["port"], &path.field("port"))),
        _ => {}
    }
    found
}

fn header_name(name: &str, path: &Path) -> Option<Problem> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let words = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                 for validation is '[-A-Za-z0-9]+')";
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

/// Host ports that two ports of these containers ask for.
pub fn host_port_clashes(containers: &[Value], path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, container) in containers.iter().enumerate() {
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
