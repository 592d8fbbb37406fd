//! The checks of level `baseline`. PURE.

use super::view::{PodView, Violation, bad_values, containers, plural, quoted, setters, violation};
use coracle_api::strategy::doc::{list, text};
use coracle_schema::go_quoted;
use serde_json::Value;
use std::collections::BTreeSet;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SELINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// The last type came with 1.31.
const SELINUX_TYPES_BEFORE_31: usize = 4;
/// In the order in which versions added them.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

fn annotations(pod: PodView<'_>) -> impl Iterator<Item = (&str, &str)> {
    let all = pod.annotations.as_object().into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

pub(super) fn app_armor(pod: PodView<'_>) -> Option<Violation> {
    let (own, names, values) = bad_values(
        pod,
        |context| context["appArmorProfile"].is_object().then(|| text(&context["appArmorProfile"], "type")),
        |kind| !matches!(kind, "RuntimeDefault" | "Localhost"),
    );
    let fine = |profile: &str| profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
    let forbidden: BTreeSet<String> = annotations(pod)
        .filter(|(key, profile)| key.starts_with(APP_ARMOR) && !fine(profile))
        .map(|(key, profile)| format!("{key}={}", go_quoted(profile)))
        .collect();
    let said = (!forbidden.is_empty()).then(|| plural(forbidden.len(), "annotation", "annotations").to_owned());
    let setters: Vec<String> = setters(own, &names).into_iter().chain(said).collect();
    if setters.is_empty() {
        return None;
    }
    let count = values.len() + forbidden.len();
    let values = quoted(values.into_iter().map(str::to_owned).chain(forbidden));
    violation(
        plural(count, "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!("{} must not set AppArmor profile type to {values}", setters.join(" and ")),
    )
}

pub(super) fn capabilities(pod: PodView<'_>) -> Option<Violation> {
    let (names, added) = added_capabilities(pod, &CAPABILITIES);
    if names.is_empty() {
        return None;
    }
    let detail =
        format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(added));
    violation("non-default capabilities", detail)
}

/// The containers that add other capabilities than `fine`, and these capabilities.
pub(super) fn added_capabilities<'a>(pod: PodView<'a>, fine: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let added = |container: &'a Value| {
        let added = list(&container["securityContext"]["capabilities"], "add").iter().filter_map(Value::as_str);
        added.filter(|capability| !fine.contains(capability)).collect::<Vec<_>>()
    };
    (pod.bad(|container| !added(container).is_empty()), pod.containers().flat_map(added).collect())
}

pub(super) fn host_namespaces(pod: PodView<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub(super) fn host_paths(pod: PodView<'_>) -> Option<Violation> {
    let volumes = list(pod.spec, "volumes").iter().filter(|volume| volume["hostPath"].is_object());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    if names.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(names)))
}

pub(super) fn host_ports(pod: PodView<'_>) -> Option<Violation> {
    let ports = |container: &Value| -> Vec<String> {
        let ports = list(container, "ports").iter().filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let names = pod.bad(|container| !ports(container).is_empty());
    if names.is_empty() {
        return None;
    }
    // Sorted as texts, as in Kubernetes.
    let all: BTreeSet<String> = pod.containers().flat_map(ports).collect();
    let (uses, words) = (plural(names.len(), "uses", "use"), plural(all.len(), "hostPort", "hostPorts"));
    let all: Vec<String> = all.into_iter().collect();
    violation("hostPort", format!("{} {uses} {words} {}", containers(&names), all.join(", ")))
}

/// A request of the kubelet to another host than the pod.
pub(super) fn probe_hosts(pod: PodView<'_>) -> Option<Violation> {
    let handlers = |container: &Value| {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container[probe].clone());
        let hooks = ["postStart", "preStop"].map(|hook| container["lifecycle"][hook].clone());
        probes.into_iter().chain(hooks)
    };
    let hosts = |container: &Value| -> Vec<String> {
        let actions = handlers(container).flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| handler[way].clone()));
        actions.map(|action| text(&action, "host").to_owned()).filter(|host| !host.is_empty()).collect()
    };
    let names: BTreeSet<&str> = pod.bad(|container| !hosts(container).is_empty()).into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let all: BTreeSet<String> = pod.containers().flat_map(hosts).collect();
    let words = plural(all.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    let uses = plural(names.len(), "uses", "use");
    violation("probe or lifecycle host", format!("{} {uses} {words} {}", containers(&names), quoted(all)))
}

pub(super) fn privileged(pod: PodView<'_>) -> Option<Violation> {
    let names = pod.bad(|container| container["securityContext"]["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount(pod: PodView<'_>) -> Option<Violation> {
    let (_, names, values) = bad_values(pod, |context| context["procMount"].as_str(), |mount| mount != "Default");
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(values));
    violation("procMount", detail)
}

pub(super) fn proc_mount_35(pod: PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub(super) fn selinux(pod: PodView<'_>) -> Option<Violation> {
    selinux_of(pod, &SELINUX_TYPES[..SELINUX_TYPES_BEFORE_31])
}

pub(super) fn selinux_31(pod: PodView<'_>) -> Option<Violation> {
    selinux_of(pod, &SELINUX_TYPES)
}

fn selinux_of(pod: PodView<'_>, types: &[&str]) -> Option<Violation> {
    let options = |holder: &Value| holder["securityContext"]["seLinuxOptions"].clone();
    let has = |holder: &Value, field: &str| !text(&options(holder), field).is_empty();
    let is_bad =
        |holder: &Value| !types.contains(&text(&options(holder), "type")) || has(holder, "user") || has(holder, "role");
    let names = pod.bad(|container| is_bad(container));
    let setters = setters(is_bad(pod.spec), &names)?;
    let holders = || std::iter::once(pod.spec).chain(pod.containers());
    let bad_types: BTreeSet<String> = holders()
        .map(|holder| text(&options(holder), "type").to_owned())
        .filter(|kind| !types.contains(&kind.as_str()))
        .collect();
    let mut said = Vec::new();
    if !bad_types.is_empty() {
        said.push(format!("{} {}", plural(bad_types.len(), "type", "types"), quoted(bad_types)));
    }
    for field in ["user", "role"] {
        if holders().any(|holder| has(holder, field)) {
            said.push(format!("{field} may not be set"));
        }
    }
    violation("seLinuxOptions", format!("{setters} set forbidden securityContext.seLinuxOptions: {}", said.join("; ")))
}

/// Before 1.19 annotations said the profile.
pub(super) fn seccomp_annotations(pod: PodView<'_>) -> Option<Violation> {
    let own = pod.containers().map(|container| format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name")));
    let keys: BTreeSet<String> = std::iter::once(SECCOMP.to_owned()).chain(own).collect();
    let fine =
        |profile: &str| matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
    let forbidden: BTreeSet<String> = annotations(pod)
        .filter(|(key, profile)| keys.contains(*key) && !fine(profile))
        .map(|(key, profile)| format!("{key}={}", go_quoted(profile)))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let words = plural(forbidden.len(), "annotation", "annotations");
    let forbidden: Vec<String> = forbidden.into_iter().collect();
    violation("seccompProfile", format!("forbidden {words} {}", forbidden.join(", ")))
}

pub(super) fn seccomp(pod: PodView<'_>) -> Option<Violation> {
    let (own, names, values) = bad_seccomp(pod);
    let setters = setters(own, &names)?;
    let detail = format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values));
    violation("seccompProfile", detail)
}

pub(super) fn bad_seccomp(pod: PodView<'_>) -> (bool, Vec<&str>, BTreeSet<&str>) {
    bad_values(
        pod,
        |context| context["seccompProfile"].is_object().then(|| text(&context["seccompProfile"], "type")),
        |kind| !matches!(kind, "RuntimeDefault" | "Localhost"),
    )
}

pub(super) fn sysctls(pod: PodView<'_>) -> Option<Violation> {
    sysctls_of(pod, &SYSCTLS[..5])
}

pub(super) fn sysctls_27(pod: PodView<'_>) -> Option<Violation> {
    sysctls_of(pod, &SYSCTLS[..6])
}

pub(super) fn sysctls_29(pod: PodView<'_>) -> Option<Violation> {
    sysctls_of(pod, &SYSCTLS[..10])
}

pub(super) fn sysctls_32(pod: PodView<'_>) -> Option<Violation> {
    sysctls_of(pod, &SYSCTLS)
}

fn sysctls_of(pod: PodView<'_>, fine: &[&str]) -> Option<Violation> {
    let names = list(&pod.spec["securityContext"], "sysctls").iter().map(|sysctl| text(sysctl, "name"));
    let forbidden: Vec<&str> = names.filter(|name| !fine.contains(name)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}

/// A container of Windows that is a process of the host.
pub(super) fn host_process(pod: PodView<'_>) -> Option<Violation> {
    let is_bad = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let names = pod.bad(|container| is_bad(container));
    let setters = setters(is_bad(pod.spec), &names)?;
    violation("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}
