//! Rules of a pod's status: allowed values, and fields that may not change any more.

use super::checks::{PROBLEMS_MAX, full};
use super::doc::{has, is_empty, list, number, text};
use super::{inner, meta, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;
use std::net::IpAddr;

/// Every problem that a new status makes.
pub fn changes(new: &Value, old: &Value) -> Vec<Problem> {
    let (status, was, path) = (&new["status"], &old["status"], Path::new("status"));
    let mut found = meta::new_problems(standing(status), &standing(was));
    let node = text(status, "nominatedNodeName");
    if !node.is_empty() && node != text(was, "nominatedNodeName") {
        found.extend(names::problems(&path.field("nominatedNodeName"), node, names::subdomain(node)));
    }
    if let Some(seen) = number(status, "observedGeneration").filter(|seen| *seen < 0) {
        found.push(Problem::invalid(&path.field("observedGeneration"), seen, "must be a non-negative integer"));
    }
    if status["qosClass"] != was["qosClass"] && has(was, "qosClass") {
        found.push(Problem::invalid(&path.field("qosClass"), status["qosClass"].clone(), "field is immutable"));
    }
    for (field, of_spec) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", "ephemeralContainers"),
    ] {
        found.extend(resurrections(list(status, field), list(was, field), of_spec, &old["spec"], &path.field(field)));
    }
    let claims = |pod: &Value| claimed(&pod["status"], &pod["spec"], &path.field("resourceClaimStatuses"));
    found.extend(meta::new_problems(claims(new), &claims(old)));
    found
}

/// Keeps the phase of a pod that has ended, with its reason and its message, where a new status would leave it. Some:
/// the warning.
pub fn keep_end(new: &mut Value, old: &Value) -> Option<String> {
    let (was, now) = (&old["status"], text(&new["status"], "phase").to_owned());
    let phase = text(was, "phase");
    if !matches!(phase, "Succeeded" | "Failed") || phase == now {
        return None;
    }
    for field in ["phase", "reason", "message"] {
        if has(was, field) {
            new["status"][field] = was[field].clone();
        }
    }
    Some(format!("status.phase: {now:?} is left out: the pod has ended, and {phase} is final"))
}

/// A container that has ended for good runs no more.
fn resurrections(now: &[Value], was: &[Value], of_spec: &str, spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, ended) in was.iter().enumerate().filter(|(_, status)| has(&status["state"], "terminated")) {
        if full(&found) {
            break;
        }
        let name = text(ended, "name");
        if may_restart(number(&ended["state"]["terminated"], "exitCode").unwrap_or(0), name, of_spec, spec) {
            continue;
        }
        if now.iter().any(|status| text(status, "name") == name && !has(&status["state"], "terminated")) {
            let words = "may not be transitioned to non-terminated state";
            found.push(Problem::forbidden(&path.index(at).field("state"), words));
        }
    }
    found
}

/// By its own word or by the pod's; ephemeral ones never start again.
fn may_restart(code: i64, name: &str, of_spec: &str, spec: &Value) -> bool {
    if of_spec == "ephemeralContainers" {
        return false;
    }
    // A rule of any container may restart all containers of the pod.
    let all = |rule: &Value| text(rule, "action") == "RestartAllContainers";
    let lists = ["initContainers", "containers"].into_iter().flat_map(|field| list(spec, field));
    if lists.flat_map(|container| list(container, "restartPolicyRules")).any(all) {
        return true;
    }
    let own = list(spec, of_spec).iter().find(|container| text(container, "name") == name);
    if own.is_some_and(|container| !is_empty(&container["restartPolicyRules"])) {
        return true;
    }
    match own.and_then(|container| container["restartPolicy"].as_str()).unwrap_or_else(|| text(spec, "restartPolicy")) {
        "Always" | "" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// Claims to resources that the pod makes.
fn claimed(status: &Value, spec: &Value, path: &Path) -> Vec<Problem> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (at, claim) in list(status, "resourceClaimStatuses").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(claim, "name"), path.index(at).field("name"));
        if !list(spec, "resourceClaims").iter().any(|claim| text(claim, "name") == name) {
            found.push(Problem::invalid(&path, name, "must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name) {
            found.push(Problem::new(&path, Reason::Duplicate, Some(name.into()), ""));
        }
        if let Some(made) = claim["resourceClaimName"].as_str() {
            found.extend(names::problems(&path, made, names::subdomain(made)));
        }
    }
    found
}

/// Checks condition types and addresses: valid names, valid IP addresses, one address for each family.
fn standing(status: &Value) -> Vec<Problem> {
    let (mut found, path) = (Vec::new(), Path::new("status"));
    for (at, condition) in list(status, "conditions").iter().enumerate().take(PROBLEMS_MAX) {
        let kind = text(condition, "type");
        found.extend(names::problems(&path.field("conditions").index(at).field("Type"), kind, names::qualified(kind)));
    }
    for (field, shown) in [("podIPs", "podIPs"), ("hostIPs", "hostIPs")] {
        let (all, at) = (list(status, field), path.field(shown));
        if let Some(first) =
            all.first().filter(|first| field == "hostIPs" && has(status, "hostIP") && first["ip"] != status["hostIP"])
        {
            found.push(Problem::invalid(&at.index(0).field("ip"), first["ip"].clone(), "must be equal to `hostIP`"));
        }
        for (n, ip) in all.iter().map(|one| text(one, "ip")).enumerate().take(PROBLEMS_MAX) {
            // Any spelling of an address is good: readers of the status parse the address.
            let faults = if ip.parse::<IpAddr>().is_ok() { Vec::new() } else { names::ip(ip) };
            found.extend(names::problems(&at.index(n), ip, faults));
        }
        let families: Vec<bool> = all.iter().map(|one| text(one, "ip").contains(':')).collect();
        if families.len() > 2 || families.len() == 2 && families[0] == families[1] {
            let kind = if field == "podIPs" { "PodIP" } else { "HostIP" };
            found.push(inner::invalid_list(kind, &at, all, "may specify no more than one IP for each IP family"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    fn check(spec: Value, old: Value, new: Value, expected: &[&str]) {
        let pod = |status: Value| json!({"spec": spec, "status": status});
        assert_problems(changes(&pod(new), &pod(old)), expected);
    }

    #[test]
    fn conditions_and_addresses() {
        let of = |new: Value, expected: &[&str]| check(json!({}), json!({}), new, expected);
        of(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "conditions": [{"type": "Ready"}]}), &[]);
        of(
            json!({"conditions": [{"type": "Ready"}, {"type": "a b"}]}),
            &["status.conditions[1].Type: Invalid value: \"a b\""],
        );
        of(json!({"podIPs": [{"ip": "x"}]}), &["status.podIPs[0]: Invalid value: \"x\": must be a valid IP address"]);
        of(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}), &["status.podIPs: Invalid value: "]);
        of(json!({"nominatedNodeName": "A"}), &["status.nominatedNodeName: Invalid value: \"A\""]);
        check(json!({}), json!({"nominatedNodeName": "A"}), json!({"nominatedNodeName": "A"}), &[]);
        let class = |class: &str| json!({"qosClass": class});
        check(
            json!({}),
            class("Burstable"),
            class("Guaranteed"),
            &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
        );
    }

    #[test]
    fn a_final_phase_is_kept() {
        let check = |was: Value, now: Value, stored: Value, warned: bool| {
            let mut new = json!({"status": now});
            let warning = keep_end(&mut new, &json!({"status": was}));
            assert_eq!((&new["status"], warning.is_some()), (&stored, warned), "{was} {now}");
        };
        let of = |phase: &str, ip: &str| json!({"phase": phase, "podIP": ip});
        check(of("Succeeded", "1"), of("Running", "2"), of("Succeeded", "2"), true);
        check(of("Failed", "1"), of("Succeeded", "2"), of("Failed", "2"), true);
        check(of("Failed", "1"), of("Failed", "2"), of("Failed", "2"), false);
        check(of("Running", "1"), of("Pending", "2"), of("Pending", "2"), false);
        check(of("Succeeded", "1"), json!({}), json!({"phase": "Succeeded"}), true);
        let lost = json!({"phase": "Failed", "reason": "NodeLost", "message": "gone"});
        check(lost.clone(), json!({"phase": "Running"}), lost, true);
    }

    #[test]
    fn what_ended_stays_so() {
        let ended = |name: &str, code: i64| {
            json!({
                "containerStatuses": [{"name": name, "state": {"terminated": {"exitCode": code}}}],
            })
        };
        let runs = json!({"containerStatuses": [{"name": "b", "state": {}}, {"name": "a", "state": {"running": {}}}]});
        let words = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        for (restarts, code, expected) in
            [("Always", 0, &[][..]), ("OnFailure", 1, &[]), ("OnFailure", 0, &[words]), ("Never", 1, &[words])]
        {
            check(json!({"restartPolicy": restarts}), ended("a", code), runs.clone(), expected);
        }
        check(json!({"restartPolicy": "Never"}), ended("a", 0), ended("a", 0), &[]);
        check(json!({"restartPolicy": "Never"}), ended("a", 0), json!({}), &[]);
        let own = |more: Value| json!({"restartPolicy": "Never", "containers": [more]});
        check(own(json!({"name": "a", "restartPolicy": "Always"})), ended("a", 0), runs.clone(), &[]);
        check(
            own(json!({"name": "a", "restartPolicy": "Never", "restartPolicyRules": [{}]})),
            ended("a", 0),
            runs.clone(),
            &[],
        );
        let all =
            json!({"name": "b", "restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers"}]});
        check(json!({"restartPolicy": "Never", "containers": [{"name": "a"}, all]}), ended("a", 0), runs, &[]);
        let debugger = |state: Value| json!({"ephemeralContainerStatuses": [{"name": "e", "state": state}]});
        let words = "status.ephemeralContainerStatuses[0].state: Forbidden";
        check(json!({}), debugger(json!({"terminated": {"exitCode": 1}})), debugger(json!({"running": {}})), &[words]);
    }

    #[test]
    fn claims() {
        let spec = json!({"resourceClaims": [{"name": "a"}]});
        let of = |new: Value, expected: &[&str]| {
            check(spec.clone(), json!({}), json!({"resourceClaimStatuses": new}), expected)
        };
        of(json!([{"name": "a", "resourceClaimName": "x"}]), &[]);
        of(json!([{"name": "a"}, {"name": "a"}]), &["status.resourceClaimStatuses[1].name: Duplicate value: \"a\""]);
        of(
            json!([{"name": "b"}]),
            &["status.resourceClaimStatuses[0].name: Invalid value: \"b\": must match the name of an entry"],
        );
    }
}
