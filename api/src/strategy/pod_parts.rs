//! The smaller parts of a pod's spec: DNS, host aliases, gates, tolerations, resource claims.

use super::checks::{PROBLEMS_MAX, full, one_of, supported_text};
use super::doc::{has, is_empty, list, text};
use super::inner;
use super::names::{self, problems};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// The maximum number of valid names in the problem of an unknown claim; each unknown claim has such a problem.
const CLAIMS_SHOWN_MAX: usize = 16;
/// Servers that a resolver asks, domains that it tries, and how long their list may be.
const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;

/// Checks the DNS configuration of a pod.
pub fn dns(spec: &Value, path: &Path) -> Vec<Problem> {
    let (config, path) = (&spec["dnsConfig"], path.field("dnsConfig"));
    let (servers, searches) = (list(config, "nameservers"), list(config, "searches"));
    if text(spec, "dnsPolicy") == "None" && servers.is_empty() {
        return match config.is_null() {
            true => vec![Problem::required(&path, "must provide `dnsConfig` when `dnsPolicy` is None")],
            false => {
                let words = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                vec![Problem::required(&path.field("nameservers"), words)]
            }
        };
    }
    let mut found = Vec::new();
    let at = path.field("nameservers");
    if servers.len() > SERVERS_MAX {
        found.push(Problem::invalid(
            &at,
            servers.to_vec(),
            format!("must not have more than {SERVERS_MAX} nameservers"),
        ));
    }
    for (n, server) in servers.iter().enumerate().take(PROBLEMS_MAX) {
        let server = server.as_str().unwrap_or_default();
        found.extend(problems(&at.index(n), server, names::ip(server)));
    }
    let at = path.field("searches");
    if searches.len() > SEARCHES_MAX {
        found.push(Problem::invalid(
            &at,
            searches.to_vec(),
            format!("must not have more than {SEARCHES_MAX} search paths"),
        ));
    }
    let said = || searches.iter().map(|search| search.as_str().unwrap_or_default());
    if said().map(|search| search.len() + 1).sum::<usize>() > SEARCH_BYTES_MAX + 1 {
        let words =
            format!("must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list");
        found.push(Problem::invalid(&at, searches.to_vec(), words));
    }
    for (n, search) in said().enumerate().filter(|(_, search)| *search != ".").take(PROBLEMS_MAX) {
        let search = search.strip_suffix('.').unwrap_or(search);
        found.extend(problems(&at.index(n), search, names::search_domain(search)));
    }
    for (n, _) in
        list(config, "options").iter().enumerate().filter(|(_, option)| is_empty(&option["name"])).take(PROBLEMS_MAX)
    {
        found.push(Problem::required(&path.field("options").index(n), "must not be empty"));
    }
    found
}

/// Checks readiness gates and scheduling gates.
pub fn gates(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, gate) in list(spec, "readinessGates").iter().enumerate() {
        if full(&found) {
            return found;
        }
        let name = text(gate, "conditionType");
        found.extend(problems(
            &path.field("readinessGates").index(at).field("conditionType"),
            name,
            names::qualified(name),
        ));
    }
    let mut seen = HashSet::new();
    for (at, gate) in list(spec, "schedulingGates").iter().enumerate() {
        if full(&found) {
            return found;
        }
        let (name, at) = (text(gate, "name"), path.field("schedulingGates").index(at));
        found.extend(problems(&at, name, names::qualified(name)));
        if !seen.insert(name) {
            found.push(Problem::new(&at, Reason::Duplicate, Some(name.into()), ""));
        }
    }
    found
}

/// The names of a pod's claims to resources; their problems are added to those found. `pod`: the pod's name, a part of
/// the names of generated claims; empty in a template.
pub fn resource_claims<'s>(spec: &'s Value, pod: &str, path: &Path, found: &mut Vec<Problem>) -> BTreeSet<&'s str> {
    let mut seen = BTreeSet::new();
    for (at, claim) in list(spec, "resourceClaims").iter().enumerate() {
        if full(found) {
            break;
        }
        let (name, path) = (text(claim, "name"), path.field("resourceClaims").index(at));
        let (given, made) = (claim["resourceClaimName"].as_str(), claim["resourceClaimTemplateName"].as_str());
        let at = path.field("name");
        if name.is_empty() {
            found.push(Problem::required(&at, ""));
        } else if !seen.insert(name) {
            found.push(Problem::new(&at, Reason::Duplicate, Some(name.into()), ""));
        } else if !names::label(name).is_empty() {
            found.extend(problems(&at, name, names::label(name)));
        } else if made.is_some() && !pod.is_empty() {
            let whole = format!("{pod}-{name}");
            let faults = names::subdomain(&whole)
                .into_iter()
                .map(|fault| format!("final ResourceClaim name: {fault}"))
                .collect();
            found.extend(problems(&at, whole, faults));
        }
        match (given, made) {
            (Some(_), Some(_)) => {
                let words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                found.push(inner::invalid("PodResourceClaim", &path, claim, words));
            }
            (None, None) => {
                let words = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                found.push(inner::invalid("PodResourceClaim", &path, claim, words));
            }
            _ => {}
        }
        for (field, name) in [("resourceClaimName", given), ("resourceClaimTemplateName", made)] {
            found.extend(name.into_iter().flat_map(|name| problems(&path.field(field), name, names::subdomain(name))));
        }
    }
    seen
}

/// Checks the claims that a container uses: each must be a claim of the pod.
pub fn claims_used(resources: &Value, claims: &BTreeSet<&str>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, claim) in list(resources, "claims").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, request, path) = (text(claim, "name"), text(claim, "request"), path.field("claims").index(at));
        if name.is_empty() {
            found.push(Problem::required(&path, ""));
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if !request.is_empty() {
            found.extend(problems(&path.field("request"), request, names::label(request)));
        }
        if !seen.insert(key.clone()) {
            found.push(Problem::new(&path, Reason::Duplicate, Some(key.into()), ""));
        }
        if !claims.contains(name) {
            let some: Vec<&str> = claims.iter().copied().take(CLAIMS_SHOWN_MAX).collect();
            let which = if some.is_empty() { " which is empty".to_owned() } else { format!(": {}", some.join(", ")) };
            let words = format!("must be one of the names in pod.spec.resourceClaims{which}");
            found.push(Problem::new(&path, Reason::NotFound, Some(name.into()), words));
        }
    }
    found
}

pub fn host_aliases(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.field("hostAliases").index(at);
        found.extend(problems(&path.field("ip"), text(alias, "ip"), names::ip(text(alias, "ip"))));
        for (at, host) in list(alias, "hostnames").iter().enumerate() {
            if full(&found) {
                return found;
            }
            let host = host.as_str().unwrap_or_default();
            found.extend(problems(&path.field("hostnames").index(at), host, names::subdomain(host)));
        }
    }
    found
}

pub fn tolerations(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, toleration) in list(spec, "tolerations").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(tolerates(toleration, &path.field("tolerations").index(at)));
    }
    found
}

fn tolerates(toleration: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (key, operator, value) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "value"));
    let effect = text(toleration, "effect");
    if !key.is_empty() {
        found.extend(problems(&path.field("key"), key, names::qualified(key)));
    } else if operator != "Exists" {
        let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        found.push(Problem::invalid(&path.field("operator"), operator, words));
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        found.push(Problem::invalid(&path.field("effect"), effect, words));
    }
    match operator {
        "" | "Equal" => found.extend(problems(&path.field("operator"), value, names::label_value(value))),
        "Exists" if !value.is_empty() => {
            let words = "value must be empty when `operator` is 'Exists'";
            found.push(Problem::invalid(&path.field("operator"), value, words));
        }
        "Exists" => {}
        _ => {
            // What compares numbers is named where it is tried, and not taken before its time.
            let known: &[&str] =
                if matches!(operator, "Lt" | "Gt") { &["Equal", "Exists", "Lt", "Gt"] } else { &["Equal", "Exists"] };
            let words = supported_text(known);
            found.push(Problem::new(&path.field("operator"), Reason::NotSupported, Some(operator.into()), words));
        }
    }
    if !effect.is_empty() {
        found.extend(one_of(effect, &EFFECTS, &path.field("effect")));
    }
    found
}

/// Checks resize policies.
pub fn resizes(container: &Value, restarts: &str, path: &Path) -> Vec<Problem> {
    let (mut found, mut seen, path) = (Vec::new(), HashSet::new(), path.field("resizePolicy"));
    for (at, one) in list(container, "resizePolicy").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, policy) = (text(one, "resourceName"), text(one, "restartPolicy"));
        if !seen.insert(name) {
            found.push(Problem::new(&path.index(at), Reason::Duplicate, Some(name.into()), ""));
        }
        for (word, known) in [(name, ["cpu", "memory"]), (policy, ["NotRequired", "RestartContainer"])] {
            if word.is_empty() {
                found.push(Problem::required(&path, ""));
            } else if !known.contains(&word) {
                found.push(Problem::new(&path, Reason::NotSupported, Some(word.into()), supported_text(&known)));
            }
        }
        if restarts == "Never" && policy != "NotRequired" {
            found.push(Problem::invalid(&path, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    #[test]
    fn names_are_found() {
        let of = |policy: &str, config: Value, expected: &[&str]| {
            assert_problems(dns(&json!({"dnsPolicy": policy, "dnsConfig": config}), &Path::new("spec")), expected);
        };
        let good = json!({
            "nameservers": ["10.0.0.1", "fd00::1"], "searches": ["a.b.", ".", "_x.y"], "options": [{"name": "ndots"}],
        });
        of("ClusterFirst", good, &[]);
        of("Default", Value::Null, &[]);
        of("None", Value::Null, &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]);
        of(
            "None",
            json!({"searches": ["a"]}),
            &["spec.dnsConfig.nameservers: Required value: must provide at least one"],
        );
        of(
            "Default",
            json!({
                "nameservers": ["x", "1.1.1.1", "1.1.1.2", "1.1.1.3"], "searches": ["A"], "options": [{"value": "1"}],
            }),
            &[
                "spec.dnsConfig.nameservers: Invalid value: [\"x\",\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\"]: must not have \
                 more than 3",
                "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP address",
                "spec.dnsConfig.searches[0]: Invalid value: \"A\"",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        );
        of("Default", json!({"searches": vec!["a"; 33]}), &["spec.dnsConfig.searches: Invalid value"]);
        of("Default", json!({"searches": vec!["a".repeat(63); 32]}), &[]);
        let long = ["a".repeat(63), "b".repeat(63)].join(".");
        of("Default", json!({"searches": vec![long; 17]}), &["spec.dnsConfig.searches: Invalid value"]);
    }

    #[test]
    fn what_is_waited_for() {
        let of = |spec: Value, expected: &[&str]| assert_problems(gates(&spec, &Path::new("spec")), expected);
        of(json!({"readinessGates": [{"conditionType": "a.b/c"}], "schedulingGates": [{"name": "a"}]}), &[]);
        of(
            json!({"readinessGates": [{"conditionType": "a b"}]}),
            &["spec.readinessGates[0].conditionType: Invalid value: \"a b\""],
        );
        of(
            json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]}),
            &["spec.schedulingGates[1]: Duplicate value: \"a\""],
        );
    }

    #[test]
    fn resources_are_claimed() {
        let spec = json!({"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "a"},
            {"name": "A", "resourceClaimTemplateName": "t", "resourceClaimName": "X"}]});
        let mut found = Vec::new();
        let claims = resource_claims(&spec, "p", &Path::new("spec"), &mut found);
        assert_problems(
            found,
            &[
                "spec.resourceClaims[1].name: Duplicate value: \"a\"",
                "spec.resourceClaims[1]: Invalid value: \
                 {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify",
                "spec.resourceClaims[2].name: Invalid value: \"A\"",
                "spec.resourceClaims[2]: Invalid value: {",
                "spec.resourceClaims[2].resourceClaimName: Invalid value: \"X\"",
            ],
        );
        let used = |names: Value, claims: &BTreeSet<&str>, expected: &[&str]| {
            assert_problems(claims_used(&json!({"claims": names}), claims, &Path::new("r")), expected);
        };
        used(json!([{"name": "a"}, {"name": "a", "request": "r"}]), &claims, &[]);
        used(json!([{"name": "a"}, {"name": "a"}]), &claims, &["r.claims[1]: Duplicate value: \"a\""]);
        let words = "must be one of the names in pod.spec.resourceClaims which is empty";
        used(json!([{"name": "x"}]), &BTreeSet::new(), &[&format!("r.claims[0]: Not found: \"x\": {words}")]);
    }

    #[test]
    fn sizes_change() {
        let of = |policies: Value, restarts: &str, expected: &[&str]| {
            assert_problems(resizes(&json!({"resizePolicy": policies}), restarts, &Path::new("c")), expected);
        };
        of(json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]), "Never", &[]);
        of(
            json!([{"resourceName": "disk", "restartPolicy": "RestartContainer"}]),
            "Never",
            &[
                "c.resizePolicy: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"",
                "c.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when `restartPolicy` is \
                 'Never'",
            ],
        );
    }
}
