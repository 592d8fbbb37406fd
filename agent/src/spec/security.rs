//! The security contexts of a pod and of a container -> whom the container runs as, and what it may. PURE.
//!
//! Where both say something, the container's own word counts.

use std::collections::BTreeMap;

use coracle_api::pod::{Container, PodSpec, Profile};

use crate::facts::engine::{Image, Seccomp};
use crate::facts::naming::PodName;
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;

/// The highest number of a user that Kubernetes takes.
const UID_MAX: i64 = i32::MAX as i64;
/// Sysctls that belong to a pod alone and harm no other.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
/// Prefixes of the sysctls in the IPC namespace. `net.` belongs to the network namespace. All remaining sysctls belong
/// to the host.
const IPC_SYSCTLS: [&str; 4] = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
/// The capability to send packets of one's own making.
const NET_RAW: &str = "NET_RAW";
/// Whose programs may send what `ping` sends.
const PING_GROUPS: &str = "net.ipv4.ping_group_range";
const EVERY_GROUP: &str = "0 2147483647";
/// The annotation from before the field `appArmorProfile`. A pod of a file has no API server that fills in the field.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Why this host does not take a pod: the reason and the message of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityRefusal {
    pub reason: &'static str,
    pub message: String,
}

/// `uid[:gid]`; None: as the image has it.
pub fn user(wanted: &Wanted, container: &Container, image: &Image) -> Option<String> {
    let pod = &wanted.pod.spec.security_context;
    let own = &container.security_context;
    let user = own.run_as_user.or(pod.run_as_user).map(|user| user.to_string());
    match (user, own.run_as_group.or(pod.run_as_group)) {
        (Some(user), Some(group)) => Some(format!("{user}:{group}")),
        (Some(user), None) => Some(user),
        (None, Some(group)) => Some(format!("{}:{group}", image_user(image).unwrap_or("0"))),
        (None, None) => None,
    }
}

/// The supplementary groups of a pod's containers.
pub fn groups(spec: &PodSpec) -> Vec<String> {
    let context = &spec.security_context;
    context.fs_group.iter().chain(&context.supplemental_groups).map(ToString::to_string).collect()
}

/// Refuses a container that would run as root despite `runAsNonRoot`.
pub fn check_user(wanted: &Wanted, container: &Container, image: &Image) -> Result<(), Waiting> {
    let pod = &wanted.pod.spec.security_context;
    let own = &container.security_context;
    if own.run_as_non_root.or(pod.run_as_non_root) != Some(true) {
        return Ok(());
    }
    let PodName { namespace, name, uid, .. } = &wanted.name;
    let place = format!("(pod: \"{name}_{namespace}({uid})\", container: {})", container.name);
    let image_user = image_user(image).unwrap_or("0");
    let text = match (own.run_as_user.or(pod.run_as_user), image_user.parse::<i64>()) {
        (Some(0), _) => format!("container's runAsUser breaks non-root policy {place}"),
        (Some(_), _) => return Ok(()),
        (None, Ok(0)) => format!("container has runAsNonRoot and image will run as root {place}"),
        (None, Ok(user)) if (0..=UID_MAX).contains(&user) => return Ok(()),
        (None, Ok(user)) => format!(
            "container has runAsNonRoot and image has an invalid user id ({user}). (Must be 1-({UID_MAX})): \
             must be between 0 and {UID_MAX}, inclusive {place}"
        ),
        (None, Err(_)) => {
            format!(
                "container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is \
                 non-root {place}"
            )
        }
    };
    Err(Waiting::new(WaitReason::CreateContainerConfigError, text))
}

/// None: root.
fn image_user(image: &Image) -> Option<&str> {
    image.user.split(':').next().filter(|user| !user.is_empty())
}

/// The seccomp profile of a container; None: the engine's own. `folder`: the directory of this host's profiles.
pub fn seccomp(spec: &PodSpec, container: &Container, folder: &str) -> Result<Option<Seccomp>, Waiting> {
    let profile =
        container.security_context.seccomp_profile.as_ref().or(spec.security_context.seccomp_profile.as_ref());
    let Some(Profile { kind, localhost_profile }) = profile else { return Ok(None) };
    match kind.as_str() {
        "Unconfined" => Ok(Some(Seccomp::Unconfined)),
        "Localhost" if localhost_profile.is_empty() => {
            let text = "localhostProfile must be set if seccompProfile type is Localhost.";
            Err(Waiting::new(WaitReason::CreateContainerConfigError, text))
        }
        "Localhost" if localhost_profile.split('/').any(|part| part == "..") => {
            let text = format!("localhostProfile {localhost_profile:?}: it is to be below {folder}, without \"..\"");
            Err(Waiting::new(WaitReason::CreateContainerConfigError, text))
        }
        "Localhost" => Ok(Some(Seccomp::File(format!("{folder}/{localhost_profile}")))),
        _ => Ok(None),
    }
}

/// The AppArmor profile of the container, or `unconfined`; None: the engine's own.
pub fn app_armor(wanted: &Wanted, container: &Container) -> Option<String> {
    let Profile { kind, localhost_profile } = app_armor_profile(wanted, container)?;
    match kind.as_str() {
        "Unconfined" => Some("unconfined".to_owned()),
        "Localhost" => Some(localhost_profile),
        _ => None,
    }
}

fn app_armor_profile(wanted: &Wanted, container: &Container) -> Option<Profile> {
    let annotated = || {
        let text = wanted.pod.metadata.annotations.get(&format!("{APP_ARMOR_ANNOTATION}{}", container.name))?;
        let (kind, name) = match text.as_str() {
            "runtime/default" => ("RuntimeDefault", ""),
            "unconfined" => ("Unconfined", ""),
            other => ("Localhost", other.strip_prefix("localhost/")?),
        };
        Some(Profile { kind: kind.to_owned(), localhost_profile: name.to_owned() })
    };
    let own = container.security_context.app_armor_profile.clone();
    own.or_else(annotated).or_else(|| wanted.pod.spec.security_context.app_armor_profile.clone())
}

/// `key:value` each. On a host without SELinux the engine makes nothing of them, as a kubelet's runtime does.
pub fn se_linux(spec: &PodSpec, container: &Container) -> Vec<String> {
    let options =
        container.security_context.se_linux_options.as_ref().or(spec.security_context.se_linux_options.as_ref());
    let Some(options) = options else { return Vec::new() };
    let pairs = [("user", &options.user), ("role", &options.role), ("type", &options.kind), ("level", &options.level)];
    pairs.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}:{value}")).collect()
}

/// What is taken from a container of the engine's usual capabilities; also packets of its own making, where the
/// configuration says so and the pod does not ask for them.
pub fn capabilities_drop(node: &Node, container: &Container) -> Vec<String> {
    let context = &container.security_context;
    let (mut drop, add) = context.capabilities.clone().map(|found| (found.drop, found.add)).unwrap_or_default();
    let names = |all: &[String]| {
        all.iter().any(|name| {
            let name = name.to_uppercase();
            ["ALL", NET_RAW].contains(&name.strip_prefix("CAP_").unwrap_or(&name))
        })
    };
    if node.drops_net_raw && context.privileged != Some(true) && !names(&add) && !names(&drop) {
        drop.push(NET_RAW.to_owned());
    }
    drop
}

/// Of a pod's network. Without packets of its own making `ping` needs the kernel's leave.
pub fn sysctls_of(node: &Node, spec: &PodSpec) -> BTreeMap<String, String> {
    let asked = spec.security_context.sysctls.iter();
    let mut all: BTreeMap<String, String> =
        asked.map(|sysctl| (sysctl_name(&sysctl.name), sysctl.value.clone())).collect();
    if node.drops_net_raw && !spec.host_network {
        all.entry(PING_GROUPS.to_owned()).or_insert_with(|| EVERY_GROUP.to_owned());
    }
    all
}

/// `net/ipv4/x` is `net.ipv4.x`; the first `.` or `/` in the name is the separator.
pub fn sysctl_name(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => {
            let swap = |c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

/// A sysctl that the pod may not set.
pub fn forbidden_sysctl(wanted: &Wanted, node: &Node) -> Option<SecurityRefusal> {
    let spec = &wanted.pod.spec;
    let text = spec.security_context.sysctls.iter().find_map(|sysctl| bad_sysctl(&sysctl.name, spec, node))?;
    Some(SecurityRefusal { reason: "SysctlForbidden", message: format!("forbidden sysctl: {text}") })
}

/// The engine always adds the groups that an image has for its user.
pub fn strict_groups(wanted: &Wanted) -> Option<SecurityRefusal> {
    let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
    let strict = wanted.pod.spec.security_context.supplemental_groups_policy == "Strict";
    strict.then(|| SecurityRefusal { reason: "SupplementalGroupsPolicyNotSupported", message: message.to_owned() })
}

/// Refuses an AppArmor profile on a host without AppArmor.
pub fn unconfined(wanted: &Wanted, node: &Node) -> Option<SecurityRefusal> {
    let needs = |container: &Container| {
        app_armor_profile(wanted, container).is_some_and(|profile| profile.kind != "Unconfined")
    };
    let asked = !node.app_armor && wanted.members().any(|member| needs(member.spec));
    let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
    asked.then(|| SecurityRefusal { reason: "AppArmor", message: message.to_owned() })
}

fn bad_sysctl(name: &str, spec: &PodSpec, node: &Node) -> Option<String> {
    let name = sysctl_name(name);
    let allowed = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    if !SAFE_SYSCTLS.contains(&name.as_str()) && !node.unsafe_sysctls.iter().any(allowed) {
        return Some(format!("\"{name}\" not allowlisted"));
    }
    let shared =
        if name.starts_with("net.") { spec.host_network.then_some("Net") } else { spec.host_ipc.then_some("IPC") };
    shared.map(|namespace| format!("\"{name}\" not allowed with host {namespace} enabled"))
}

/// A name, or the beginning of one and `*`, of sysctls that each pod has for itself.
pub fn is_sysctl_pattern(pattern: &str) -> bool {
    let start = pattern.strip_suffix('*').unwrap_or(pattern);
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    start.chars().all(fits) && (start.starts_with("net.") || IPC_SYSCTLS.iter().any(|known| start.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::{Value, json};

    fn wanted(spec: Value, context: Value) -> Wanted {
        let mut document = json!({"metadata": {"namespace": "d", "name": "n", "uid": "u"}, "spec": spec});
        document["spec"]["containers"] = json!([{"name": "c", "image": "i", "securityContext": context}]);
        Wanted::new(Source::File, document).unwrap()
    }

    fn image(user: &str) -> Image {
        Image { user: user.into(), ..Image::default() }
    }

    #[test]
    fn users_and_groups() {
        let check = |pod: Value, own: Value, image_user: &str, expected: Option<&str>| {
            let wanted = wanted(json!({"securityContext": pod}), own.clone());
            let found = user(&wanted, &wanted.pod.spec.containers[0], &image(image_user));
            assert_eq!(found.as_deref(), expected, "{own} {image_user}");
        };
        check(json!({}), json!({}), "app", None);
        check(json!({"runAsUser": 1}), json!({}), "app", Some("1"));
        check(json!({"runAsUser": 1, "runAsGroup": 2}), json!({"runAsUser": 3}), "", Some("3:2"));
        check(json!({}), json!({"runAsGroup": 2}), "app:staff", Some("app:2"));
        check(json!({}), json!({"runAsGroup": 2}), "", Some("0:2"));
        let both = wanted(json!({"securityContext": {"fsGroup": 7, "supplementalGroups": [8, 9]}}), json!({}));
        assert_eq!(groups(&both.pod.spec), ["7", "8", "9"]);
    }

    #[test]
    fn nobody_runs_as_root_who_must_not() {
        let check = |context: Value, image_user: &str, expected: &str| {
            let wanted = wanted(json!({}), context.clone());
            let found = check_user(&wanted, &wanted.pod.spec.containers[0], &image(image_user));
            let text = found.err().map(|waiting| waiting.message).unwrap_or_default();
            let expected =
                if expected.is_empty() { String::new() } else { format!("{expected} (pod: \"n_d(u)\", container: c)") };
            assert_eq!(text, expected, "{context} {image_user}");
        };
        check(json!({}), "", "");
        check(json!({"runAsNonRoot": true}), "", "container has runAsNonRoot and image will run as root");
        check(json!({"runAsNonRoot": true}), "0:0", "container has runAsNonRoot and image will run as root");
        check(json!({"runAsNonRoot": true}), "1000", "");
        check(
            json!({"runAsNonRoot": true}),
            "app",
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        );
        check(
            json!({"runAsNonRoot": true}),
            "4294967295",
            "container has runAsNonRoot and image has an invalid user id (4294967295). (Must be 1-(2147483647)): \
             must be between 0 and 2147483647, inclusive",
        );
        check(json!({"runAsNonRoot": true, "runAsUser": 0}), "1000", "container's runAsUser breaks non-root policy");
        check(json!({"runAsNonRoot": true, "runAsUser": 5}), "", "");
    }

    #[test]
    fn profiles() {
        let check = |pod: Value, own: Value, expected: Result<Option<Seccomp>, &str>| {
            let wanted = wanted(json!({"securityContext": {"seccompProfile": pod}}), json!({"seccompProfile": own}));
            let found = seccomp(&wanted.pod.spec, &wanted.pod.spec.containers[0], "/p");
            assert_eq!(found.map_err(|waiting| waiting.message), expected.map_err(str::to_owned), "{pod} {own}");
        };
        let local = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
        check(Value::Null, Value::Null, Ok(None));
        check(json!({"type": "Unconfined"}), Value::Null, Ok(Some(Seccomp::Unconfined)));
        check(json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"}), Ok(None));
        check(Value::Null, local("a/b.json"), Ok(Some(Seccomp::File("/p/a/b.json".to_owned()))));
        check(Value::Null, local(""), Err("localhostProfile must be set if seccompProfile type is Localhost."));
        check(Value::Null, local("../b"), Err("localhostProfile \"../b\": it is to be below /p, without \"..\""));

        let armor = |annotation: Option<&str>, own: Value| {
            let mut wanted = wanted(
                json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
                json!({"appArmorProfile": own}),
            );
            if let Some(text) = annotation {
                wanted.pod.metadata.annotations.insert(format!("{APP_ARMOR_ANNOTATION}c"), text.to_owned());
            }
            app_armor(&wanted, &wanted.pod.spec.containers[0])
        };
        assert_eq!(armor(None, Value::Null).as_deref(), Some("unconfined"));
        assert_eq!(armor(None, json!({"type": "RuntimeDefault"})), None);
        assert_eq!(armor(Some("localhost/mine"), Value::Null).as_deref(), Some("mine"));
        assert_eq!(
            armor(Some("localhost/mine"), json!({"type": "Localhost", "localhostProfile": "other"})).as_deref(),
            Some("other")
        );

        let labels = wanted(json!({"securityContext": {"seLinuxOptions": {"level": "s0:c1", "type": "t"}}}), json!({}));
        assert_eq!(se_linux(&labels.pod.spec, &labels.pod.spec.containers[0]), ["type:t", "level:s0:c1"]);
    }

    #[test]
    fn packets_of_ones_own_making() {
        let check = |drops_net_raw: bool, own: Value, expected: &[&str]| {
            let wanted = wanted(json!({}), own.clone());
            let node = Node { drops_net_raw, ..Node::default() };
            assert_eq!(capabilities_drop(&node, &wanted.pod.spec.containers[0]), expected, "{own}");
        };
        check(false, json!({}), &[]);
        check(true, json!({}), &["NET_RAW"]);
        check(true, json!({"capabilities": {"drop": ["CHOWN"], "add": ["NET_ADMIN"]}}), &["CHOWN", "NET_RAW"]);
        check(true, json!({"capabilities": {"drop": ["ALL"]}}), &["ALL"]);
        check(true, json!({"capabilities": {"drop": ["CAP_NET_RAW"]}}), &["CAP_NET_RAW"]);
        for asked in ["NET_RAW", "CAP_NET_RAW", "all"] {
            check(true, json!({"capabilities": {"add": [asked]}}), &[]);
        }
        check(true, json!({"privileged": true}), &[]);
        let pinged = |drops_net_raw: bool, spec: Value| {
            let wanted = wanted(spec, json!({}));
            let all = sysctls_of(&Node { drops_net_raw, ..Node::default() }, &wanted.pod.spec);
            all.get("net.ipv4.ping_group_range").cloned()
        };
        assert_eq!(pinged(false, json!({})), None);
        assert_eq!(pinged(true, json!({})).as_deref(), Some("0 2147483647"));
        assert_eq!(pinged(true, json!({"hostNetwork": true})), None);
        let own = json!({"securityContext": {"sysctls": [{"name": "net/ipv4/ping_group_range", "value": "7 7"}]}});
        assert_eq!(pinged(true, own).as_deref(), Some("7 7"));
    }

    #[test]
    fn what_this_host_cannot_give() {
        let check = |spec: Value, own: Value, expected: Option<(&'static str, &str)>| {
            let wanted = wanted(spec.clone(), own);
            let node =
                Node { unsafe_sysctls: vec!["net.ipv6.*".to_owned(), "kernel.msgmax".to_owned()], ..Node::default() };
            let expected = expected.map(|(reason, message)| SecurityRefusal { reason, message: message.to_owned() });
            let found = forbidden_sysctl(&wanted, &node)
                .or_else(|| strict_groups(&wanted))
                .or_else(|| unconfined(&wanted, &node));
            assert_eq!(found, expected, "{spec}");
        };
        let sysctl = |name: &str| json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
        check(sysctl("net.ipv4.tcp_syncookies"), json!({}), None);
        check(sysctl("net/ipv4/tcp_syncookies"), json!({}), None);
        check(sysctl("net.ipv6.conf.all.disable_ipv6"), json!({}), None);
        check(sysctl("kernel.msgmax"), json!({}), None);
        check(
            sysctl("kernel.msgmnb"),
            json!({}),
            Some(("SysctlForbidden", "forbidden sysctl: \"kernel.msgmnb\" not allowlisted")),
        );
        let shared = |name: &str, field: &str| {
            let mut spec = sysctl(name);
            spec[field] = json!(true);
            spec
        };
        let text = "forbidden sysctl: \"net.ipv4.tcp_rmem\" not allowed with host Net enabled";
        check(shared("net.ipv4.tcp_rmem", "hostNetwork"), json!({}), Some(("SysctlForbidden", text)));
        let text = "forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled";
        check(shared("kernel.shm_rmid_forced", "hostIPC"), json!({}), Some(("SysctlForbidden", text)));
        check(shared("kernel.shm_rmid_forced", "hostNetwork"), json!({}), None);
        let text = "SupplementalGroupsPolicy=Strict is not supported in this node";
        let strict = json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}});
        check(strict, json!({}), Some(("SupplementalGroupsPolicyNotSupported", text)));
        let text = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        check(json!({}), json!({"appArmorProfile": {"type": "RuntimeDefault"}}), Some(("AppArmor", text)));
        check(json!({}), json!({"appArmorProfile": {"type": "Unconfined"}}), None);
    }

    #[test]
    fn patterns_of_sysctls() {
        for (pattern, fits) in [
            ("net.*", true),
            ("kernel.msg*", true),
            ("fs.mqueue.msg_max", true),
            ("kernel.*", false),
            ("vm.swappiness", false),
            ("*", false),
        ] {
            assert_eq!(is_sysctl_pattern(pattern), fits, "{pattern}");
        }
        assert_eq!(sysctl_name("net/ipv4/conf/eno2.100/rp_filter"), "net.ipv4.conf.eno2/100.rp_filter");
        assert_eq!(sysctl_name("net.ipv4.conf.eno2/100.rp_filter"), "net.ipv4.conf.eno2/100.rp_filter");
    }
}
