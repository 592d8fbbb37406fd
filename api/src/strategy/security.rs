//! Rules of security contexts: ids, capabilities, profiles, sysctls.

use super::checks::{full, one_of};
use super::doc::{has, list, number, text, yes};
use super::inner;
use super::names::{self, problems};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_FORM: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Longest name of an AppArmor profile.
const PROFILE_BYTES_MAX: usize = 4095;
const WINDOWS_USER_BYTES_MAX: usize = 104 + 1 + 256;

/// Every problem of a container's own context. `host_users`: the pod runs as the host's users.
pub fn of_container(context: &Value, host_users: bool, path: &Path) -> Vec<Problem> {
    let mut found = user_numbers(context, path);
    if host_users && text(context, "procMount") == "Unmasked" {
        found.push(Problem::invalid(
            &path.field("procMount"),
            "Unmasked",
            "`hostUsers` must be false to use `Unmasked`",
        ));
    }
    found.extend(seccomp(&context["seccompProfile"], &path.field("seccompProfile")));
    if context["allowPrivilegeEscalation"] == false {
        let clash = |words: &str| {
            inner::invalid(
                "SecurityContext",
                path,
                context,
                &format!("cannot set `allowPrivilegeEscalation` to false and {words}"),
            )
        };
        if yes(context, "privileged") {
            found.push(clash("`privileged` to true"));
        }
        if list(&context["capabilities"], "add").iter().any(|one| one == "CAP_SYS_ADMIN") {
            found.push(clash("`capabilities.Add` CAP_SYS_ADMIN"));
        }
    }
    found.extend(windows(&context["windowsOptions"], &path.field("windowsOptions")));
    found.extend(app_armor(&context["appArmorProfile"], &path.field("appArmorProfile")));
    found
}

/// Every problem of a pod's security context, and of the pod's use of host namespaces.
pub fn of_pod(spec: &Value, path: &Path) -> Vec<Problem> {
    let (context, at) = (&spec["securityContext"], path.field("securityContext"));
    let mut found = if yes(spec, "hostNetwork") { host_ports(spec, path) } else { Vec::new() };
    found.extend(user_numbers(context, &at));
    for (n, group) in list(context, "supplementalGroups").iter().enumerate() {
        if full(&found) {
            break;
        }
        let group = group.as_i64().unwrap_or(0);
        found.extend(problems(
            &at.field("supplementalGroups").index(n),
            group,
            names::between(group, 0, i32::MAX.into()),
        ));
    }
    if yes(spec, "shareProcessNamespace") && yes(spec, "hostPID") {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        found.push(Problem::invalid(&at.field("shareProcessNamespace"), true, words));
    }
    found.extend(sysctls(spec, &at.field("sysctls")));
    found.extend(seccomp(&context["seccompProfile"], &at.field("seccompProfile")));
    found.extend(windows(&context["windowsOptions"], &at.field("windowsOptions")));
    found.extend(app_armor(&context["appArmorProfile"], &at.field("appArmorProfile")));
    let change = text(context, "seLinuxChangePolicy");
    for (field, known) in
        [("supplementalGroupsPolicy", &["Merge", "Strict"][..]), ("seLinuxChangePolicy", &["Recursive"])]
    {
        // `MountOption` is accepted too. The message names only `Recursive`, as Kubernetes' message does in a cluster
        // without the feature of `MountOption`.
        if has(context, field) && !(field == "seLinuxChangePolicy" && change == "MountOption") {
            found.extend(one_of(text(context, field), known, &at.field(field)));
        }
    }
    if spec["hostUsers"] == false {
        found.extend(own_users(spec, path));
    }
    found
}

/// A pod with a user namespace of its own may not use the host's namespaces.
fn own_users(spec: &Value, path: &Path) -> Vec<Problem> {
    // Kubernetes calls two of them by their names in Go.
    let shared = [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")].into_iter();
    shared
        .filter(|(field, _)| yes(spec, field))
        .map(|(_, shown)| Problem::forbidden(&path.field(shown), "when `hostUsers` is false"))
        .collect()
}

/// In the host's network a container's port is the host's.
fn host_ports(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["containers", "initContainers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            for (n, port) in list(container, "ports").iter().enumerate() {
                if full(&found) {
                    return found;
                }
                if has(port, "hostPort") && port["hostPort"] != port["containerPort"] {
                    let path = path.field(field).index(at).field("ports").index(n).field("hostPort");
                    found.push(Problem::invalid(
                        &path,
                        port["hostPort"].clone(),
                        "must match `containerPort` when `hostNetwork` is true",
                    ));
                }
            }
        }
    }
    found
}

/// The ids of a security context, a pod's or a container's.
fn user_numbers(context: &Value, path: &Path) -> Vec<Problem> {
    let ids = ["fsGroup", "runAsUser", "runAsGroup"]
        .iter()
        .filter_map(|field| Some((path.field(field), number(context, field)?)));
    ids.flat_map(|(path, id)| problems(&path, id, names::between(id, 0, i32::MAX.into()))).collect()
}

fn sysctls(spec: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (at, one) in list(&spec["securityContext"], "sysctls").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(one, "name"), path.index(at).field("name"));
        if name.is_empty() {
            found.push(Problem::required(&path, ""));
        } else if !is_sysctl(name) {
            let words = format!("must have at most {SYSCTL_BYTES_MAX} characters and match regex {SYSCTL_FORM}");
            found.push(Problem::invalid(&path, name, words));
        } else if !seen.insert(name) {
            found.push(Problem::new(&path, Reason::Duplicate, Some(name.into()), ""));
        }
        if let Some(shared) = shared_by(name).filter(|field| yes(spec, field)) {
            found.push(Problem::invalid(&path, name, format!("may not be specified when '{shared}' is true")));
        }
    }
    found
}

/// The field that makes the pod share the sysctl's namespace with the host: the sysctl would then change the host.
fn shared_by(sysctl: &str) -> Option<&'static str> {
    // With slashes between its parts a name may have dots inside of them, and the other way round.
    let slashes = sysctl.find(['.', '/']).is_some_and(|first| sysctl[first..].starts_with('/'));
    let name = if slashes { sysctl.replace('/', ".") } else { sysctl.to_owned() };
    let of_messages =
        name == "kernel.sem" || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start));
    if name.starts_with("net.") { Some("hostNetwork") } else { of_messages.then_some("hostIPC") }
}

fn is_sysctl(name: &str) -> bool {
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(end)
            && bytes.last().is_some_and(end)
            && bytes.iter().all(|byte| end(byte) || b"-_".contains(byte))
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(part)
}

fn seccomp(profile: &Value, path: &Path) -> Vec<Problem> {
    if profile.is_null() {
        return Vec::new();
    }
    let (kind, file) = (text(profile, "type"), path.field("localhostProfile"));
    let mut found: Vec<Problem> = match kind {
        "" => vec![Problem::required(&path.field("type"), "type is required when seccompProfile is set")],
        kind => one_of(kind, &PROFILES, &path.field("type")).into_iter().collect(),
    };
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => found.push(Problem::required(&file, "must be set when seccomp type is Localhost")),
        ("Localhost", Some(said)) => found.extend(problems(&file, said, names::descending(said))),
        (_, Some(_)) => {
            found.push(inner::invalid(
                "SeccompProfile",
                &file,
                profile,
                "can only be set when seccomp type is Localhost",
            ));
        }
        _ => {}
    }
    found
}

fn app_armor(profile: &Value, path: &Path) -> Vec<Problem> {
    if profile.is_null() {
        return Vec::new();
    }
    let file = path.field("localhostProfile");
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", said) if said.is_none_or(str::is_empty) => {
            vec![Problem::required(&file, "must be set when AppArmor type is Localhost")]
        }
        ("Localhost", Some(said)) if said.trim() != said => {
            vec![Problem::invalid(&file, said, "must not be padded with whitespace")]
        }
        ("Localhost", Some(said)) if said.len() > PROFILE_BYTES_MAX => {
            vec![Problem::new(&file, Reason::TooLong, None, format!("may not be more than {PROFILE_BYTES_MAX} bytes"))]
        }
        ("RuntimeDefault" | "Unconfined", Some(said)) => {
            vec![Problem::invalid(&file, said, "can only be set when AppArmor type is Localhost")]
        }
        ("", _) => vec![Problem::required(&path.field("type"), "type is required when appArmorProfile is set")],
        (kind, _) => one_of(kind, &PROFILES, &path.field("type")).into_iter().collect(),
    }
}

/// Nothing here runs Windows; the fields for Windows must have the right form all the same.
fn windows(options: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        found.extend(problems(&path.field("gmsaCredentialSpecName"), name, names::subdomain(name)));
    }
    for (field, bytes_max) in [("gmsaCredentialSpec", 64 << 10), ("runAsUserName", WINDOWS_USER_BYTES_MAX)] {
        let Some(said) = options[field].as_str() else { continue };
        let path = path.field(field);
        if said.is_empty() {
            found.push(Problem::invalid(&path, said, format!("{field} cannot be an empty string")));
        } else if field == "runAsUserName" && said.matches('\\').count() > 1 {
            found.push(Problem::invalid(&path, said, "runAsUserName cannot contain more than one backslash"));
        } else if said.len() > bytes_max {
            found.push(Problem::new(&path, Reason::TooLong, None, format!("may not be more than {bytes_max} bytes")));
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
    fn pods() {
        let of = |context: Value, expected: &[&str]| {
            assert_problems(of_pod(&json!({"securityContext": context}), &Path::new("spec")), expected)
        };
        let sysctl = |name: &str| json!({"sysctls": [{"name": name, "value": ""}]});
        for good in ["net.ipv4.ip_forward", "kernel/shm_rmid_forced", "a"] {
            of(sysctl(good), &[]);
        }
        let place = "spec.securityContext";
        for bad in ["A B", "a..b", "a.", "-a", &"a".repeat(254)] {
            of(
                sysctl(bad),
                &[&format!("{place}.sysctls[0].name: Invalid value: \"{bad}\": must have at most 253 characters and")],
            );
        }
        of(sysctl(""), &[&format!("{place}.sysctls[0].name: Required value")]);
        of(
            json!({"sysctls": [{"name": "a"}, {"name": "a"}]}),
            &[&format!("{place}.sysctls[1].name: Duplicate value: \"a\"")],
        );
        let shared = |name: &str, how: &str, expected: &[&str]| {
            assert_problems(of_pod(&json!({how: true, "securityContext": sysctl(name)}), &Path::new("spec")), expected);
        };
        let words = |name: &str, how: &str| {
            format!("{place}.sysctls[0].name: Invalid value: \"{name}\": may not be specified when '{how}' is true")
        };
        for (name, how) in [
            ("net.core.x", "hostNetwork"),
            ("net/core/x", "hostNetwork"),
            ("kernel.shmmax", "hostIPC"),
            ("kernel.sem", "hostIPC"),
        ] {
            shared(name, how, &[&words(name, how)]);
        }
        shared("kernel.shmmax", "hostNetwork", &[]);
        shared("kernel.semx", "hostIPC", &[]);
        of(
            json!({"supplementalGroups": [1, -1]}),
            &[&format!("{place}.supplementalGroups[1]: Invalid value: -1: must be between 0")],
        );
        of(json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}), &[]);
        of(
            json!({"seccompProfile": {"type": "Localhost"}}),
            &[&format!("{place}.seccompProfile.localhostProfile: Required value: must")],
        );
        of(
            json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "x"}}),
            &[&format!(
                "{place}.seccompProfile.localhostProfile: Invalid value: \
                 {{\"Type\":\"Unconfined\",\"LocalhostProfile\":\"x\"}}: can only"
            )],
        );
        of(
            json!({"seccompProfile": {}}),
            &[&format!("{place}.seccompProfile.type: Required value: type is required when")],
        );
        of(json!({"appArmorProfile": {"type": "RuntimeDefault"}}), &[]);
        of(
            json!({"appArmorProfile": {"type": "x"}}),
            &[&format!("{place}.appArmorProfile.type: Unsupported value: \"x\"")],
        );
        of(
            json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}),
            &[&format!("{place}.appArmorProfile.localhostProfile: Invalid value: \" a\": must not be padded")],
        );
        of(json!({"supplementalGroupsPolicy": "Strict"}), &[]);
        of(
            json!({"supplementalGroupsPolicy": "Some"}),
            &[&format!("{place}.supplementalGroupsPolicy: Unsupported value: \"Some\"")],
        );
        assert_problems(
            of_pod(&json!({"hostUsers": false, "hostPID": true}), &Path::new("spec")),
            &["spec.HostPID: Forbidden: when `hostUsers` is false"],
        );
        let port = json!({"hostPort": 1, "containerPort": 2});
        assert_problems(
            of_pod(&json!({"hostNetwork": true, "containers": [{"ports": [port]}]}), &Path::new("spec")),
            &["spec.containers[0].ports[0].hostPort: Invalid value: 1: must match `containerPort` when `hostNetwork` \
               is true"],
        );
    }

    #[test]
    fn containers() {
        let of = |context: Value, expected: &[&str]| {
            assert_problems(of_container(&context, true, &Path::new("c")), expected)
        };
        of(json!({"runAsUser": 0, "procMount": "Default", "capabilities": {"add": ["NET_ADMIN"]}}), &[]);
        of(
            json!({"runAsGroup": -5}),
            &["c.runAsGroup: Invalid value: -5: must be between 0 and 2147483647, inclusive"],
        );
        of(json!({"procMount": "Unmasked"}), &["c.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false"]);
        assert_problems(of_container(&json!({"procMount": "Unmasked"}), false, &Path::new("c")), &[]);
        let clash = json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}});
        of(
            clash,
            &["c: Invalid value: {\"Capabilities\":{\"Add\":[\"CAP_SYS_ADMIN\"],\"Drop\":null},\"Privileged\":null"],
        );
        of(
            json!({"windowsOptions": {"runAsUserName": ""}}),
            &["c.windowsOptions.runAsUserName: Invalid value: \"\": runAsUserName cannot"],
        );
    }
}
