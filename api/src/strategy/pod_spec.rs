//! Every problem of the spec of a pod or of a template.

use super::amounts::{self, Whose};
use super::checks::{full, supported};
use super::container::{self, ContainerKind, Surroundings, host_port_clashes};
use super::doc::{default_to, entries, has, is_empty, list, number, shown, text, texts};
use super::meta::{NameRule, annotations, labels};
use super::names::{self, problems};
use super::qos::{self, quantity};
use super::rules::Rules;
use super::{affinity, annotated, ephemeral, pod_parts, security, systems, volume};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Longest host name in Linux.
const HOSTNAME_BYTES_MAX: usize = 64;

/// Every problem of a pod's spec, in the order in which Kubernetes tells them. `pod`: its name; empty in a template.
pub fn validate(spec: &Value, pod: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let surroundings = Surroundings {
        volumes: volume::validate(spec, pod, rules, path, &mut found),
        claims: pod_parts::resource_claims(spec, pod, path, &mut found),
        grace_s: number(spec, "terminationGracePeriodSeconds").unwrap_or(30),
        restarts: text(spec, "restartPolicy"),
        system: text(&spec["os"], "name"),
        host_users: spec["hostUsers"] != false,
    };
    found.extend(containers(spec, &surroundings, path));
    found.extend(supported(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path));
    found.extend(supported(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path));
    for (key, value) in texts(spec, "nodeSelector") {
        if full(&found) {
            break;
        }
        let (of_key, of_value) = match (rules.old_names, rules.old_labels) {
            (true, _) => (names::old_label_key(key), names::old_label_value(value)),
            (false, true) => (names::qualified(key), names::old_label_value(value)),
            (false, false) => (names::qualified(key), names::label_value(value)),
        };
        found.extend(problems(&path.field("nodeSelector"), key, of_key));
        found.extend(problems(&path.field("nodeSelector"), value, of_value));
    }
    found.extend(security::of_pod(spec, path));
    found.extend(affinity::validate(&spec["affinity"], rules, &path.field("affinity")));
    found.extend(pod_parts::dns(spec, path));
    found.extend(pod_parts::gates(spec, path));
    found.extend(affinity::spreads(spec, rules, &path.field("topologySpreadConstraints")));
    found.extend(systems::host_processes(spec, path));
    found.extend(named(spec, rules, path));
    found.extend(pod_parts::tolerations(spec, path));
    found.extend(pod_parts::host_aliases(spec, path));
    found.extend(container::resources(&json!({"limits": spec["overhead"]}), Whose::Container, &path.field("overhead")));
    found.extend(whole(spec, path));
    found.extend(systems::validate(spec, path));
    found
}

/// Checks the names in a spec, and its deadline.
fn named(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let node = if rules.old_names { names::old_id } else { names::subdomain };
    let forms: [(&str, NameRule); 8] = [
        ("serviceAccountName", names::subdomain),
        ("nodeName", node),
        ("activeDeadlineSeconds", |_| Vec::new()),
        ("hostname", names::label),
        ("subdomain", names::label),
        ("priorityClassName", names::subdomain),
        ("runtimeClassName", names::subdomain),
        ("hostnameOverride", |name| names::short_subdomain(name, HOSTNAME_BYTES_MAX)),
    ];
    let mut found = Vec::new();
    for (field, form) in forms {
        let (name, path) = (text(spec, field), path.field(field));
        if let Some(deadline) = number(spec, field) {
            found.extend(problems(&path, deadline, names::between(deadline, 1, i32::MAX.into())));
        }
        if !name.is_empty() {
            found.extend(problems(&path, name, form(name)));
        }
        // A pod in the host's network has the host's name, and the FQDN consists of parts that `hostnameOverride`
        // replaces.
        for other in ["setHostnameAsFQDN", "hostNetwork"] {
            if field == "hostnameOverride" && !name.is_empty() && spec[other] == true {
                found.push(Problem::forbidden(&path, format!("may not be set when `{other}` is true")));
            }
        }
    }
    found
}

/// Checks the resources of a whole pod: no less than the sum of the containers' requests, and no container limit may be
/// higher.
fn whole(spec: &Value, path: &Path) -> Vec<Problem> {
    let (own, path) = (&spec["resources"], path.field("resources"));
    if !own.is_null() && text(&spec["os"], "name") == "windows" {
        return vec![Problem::forbidden(&path, "may not be set for a windows pod")];
    }
    let mut found = Vec::new();
    if !is_empty(&own["claims"]) {
        found.push(Problem::forbidden(&path.field("claims"), "claims may not be set for Resources at pod-level"));
    }
    found.extend(container::resources(own, Whose::Pod, &path));
    for which in ["requests", "limits"] {
        let said = qos::of_containers(spec, which)
            .into_iter()
            .filter(|(name, _)| which == "requests" || name.starts_with("hugepages-"));
        for (name, sum) in
            said.filter(|(name, sum)| has(&own[which], name) && sum.amount() > quantity(&own[which][name]))
        {
            let words = format!("must be greater than or equal to aggregate container {which} of {sum}");
            found.push(Problem::invalid(&path.field(which).key(&name), amounts::shown(&own[which][&name]), words));
        }
    }
    for (at, container) in list(spec, "containers").iter().enumerate() {
        for (name, limit) in entries(&container["resources"], "limits").filter(|(name, _)| has(&own["limits"], name)) {
            let most = &own["limits"][name];
            if quantity(limit) > quantity(most) {
                // Kubernetes builds the path of the container in this order.
                let path = path.field("containers").index(at).key(name).field("limits");
                let words = format!("must be less than or equal to pod limits of {}", amounts::shown(most));
                found.push(Problem::invalid(&path, amounts::shown(limit), words));
            }
        }
        if full(&found) {
            break;
        }
    }
    found
}

/// A template for pods: its labels and annotations, and the spec. `path` is the template's.
pub fn validate_template(template: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = template_metadata(template, rules, path);
    found.extend(validate(&template["spec"], "", rules, &path.field("spec")));
    found.extend(annotated::clashes(&template["metadata"], &template["spec"], &path.field("spec")));
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let words = "ephemeral containers not allowed in pod template";
        found.push(Problem::forbidden(&path.field("spec").field("ephemeralContainers"), words));
    }
    found
}

/// Labels and annotations of a template.
pub fn template_metadata(template: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = labels(&template["metadata"], "labels", path, rules);
    found.extend(annotations(&template["metadata"], path));
    found.extend(annotated::problems(&template["metadata"], &template["spec"], &path.field("annotations")));
    found
}

fn containers(spec: &Value, pod: &Surroundings<'_>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if list(spec, "containers").is_empty() {
        found.push(Problem::required(&path.field("containers"), ""));
    }
    let mut seen = HashSet::new();
    for (field, kind) in [("containers", ContainerKind::Regular), ("initContainers", ContainerKind::Init)] {
        let (all, of_all) = (list(spec, field), path.field(field));
        for (at, container) in all.iter().enumerate() {
            if full(&found) {
                break;
            }
            let path = of_all.index(at);
            found.extend(container::validate(container, kind, pod, &path));
            let name = text(container, "name");
            if !name.is_empty() && !seen.insert(name) {
                found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
            }
            // Init containers run one after the other, so two init containers may have the same host port.
            if kind == ContainerKind::Init {
                found.extend(host_port_clashes(&all[at..=at], &of_all));
            }
        }
        if kind == ContainerKind::Regular {
            found.extend(host_port_clashes(all, &of_all));
        }
    }
    found.extend(ephemeral::validate(spec, pod, &seen, path));
    found
}

/// Checks the taints of a node. Kubernetes reports the path of taints as `metadata.taints`.
pub fn taints(spec: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, taint) in list(spec, "taints").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = Path::new("metadata.taints").index(at);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        found.extend(problems(&path.field("key"), key, names::qualified(key)));
        found.extend(problems(&path.field("value"), value, names::label_value(value)));
        found.extend(supported(taint, "effect", &pod_parts::EFFECTS, &path));
        if !seen.insert((key, effect)) {
            let mut taint = taint.clone();
            default_to(&mut taint, "value", "");
            let words = "taints must be unique by key and effect pair";
            let words = format!("{}: {words}", shown(&taint, &["Key", "Value", "Effect", "TimeAdded"]));
            found.push(Problem::new(&path, Reason::Duplicate, None, words));
        }
    }
    found
}

/// The names of the fields that differ between two specs; for containers, the names of the containers' fields.
pub fn differing(new: &Value, old: &Value) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> =
        [new, old].iter().filter_map(|spec| spec.as_object()).flat_map(|spec| spec.keys()).collect();
    let mut differing = Vec::new();
    for name in names {
        let (now, was) = (&new[name], &old[name]);
        if now == was || is_empty(now) && is_empty(was) {
            continue;
        }
        if let (Value::Array(now), Value::Array(was)) = (now, was)
            && name.ends_with("ontainers")
            && now.len() == was.len()
        {
            for (at, (now, was)) in now.iter().zip(was).enumerate() {
                let both = [now, was];
                let fields: std::collections::BTreeSet<&String> =
                    both.iter().filter_map(|one| one.as_object()).flat_map(|one| one.keys()).collect();
                let fields = fields.into_iter().filter(|field| now[*field] != was[*field]);
                differing.extend(fields.map(|field| format!("{name}[{at}].{field}")));
            }
        } else {
            differing.push(name.clone());
        }
    }
    differing
}
