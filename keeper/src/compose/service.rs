//! One service of a Compose file -> a workload, and a Service that has its name. PURE.
//!
//! A service that always runs is a Deployment. A service that ends (`restart: "no"` or `on-failure`) is a Pod, since
//! templates of Deployments always restart. The Service is headless: its name leads to the pod, whatever the port, as
//! in Compose.

use super::desk::Desk;
use super::host::{devices, resources, security};
use super::values::{command, label, pairs, set, text, texts, truth};
use super::variables::Variables;
use super::{duration, healthcheck, mounts, ports};
use serde_json::{Map, Value, json};

/// Keys that are read below; others of a service are remarked.
const KNOWN: &[&str] = &[
    "image",
    "command",
    "entrypoint",
    "environment",
    "env_file",
    "ports",
    "expose",
    "volumes",
    "tmpfs",
    "secrets",
    "configs",
    "shm_size",
    "healthcheck",
    "restart",
    "devices",
    "networks",
    "network_mode",
    "depends_on",
    "hostname",
    "container_name",
    "extra_hosts",
    "dns",
    "dns_search",
    "privileged",
    "cap_add",
    "cap_drop",
    "user",
    "working_dir",
    "tty",
    "stdin_open",
    "read_only",
    "sysctls",
    "security_opt",
    "pid",
    "ipc",
    "init",
    "mem_limit",
    "cpus",
    "mem_reservation",
    "deploy",
    "scale",
    "labels",
    "stop_grace_period",
    "profiles",
    "build",
    "pull_policy",
    "group_add",
    "logging",
    "links",
];

/// Keys without effect here that nobody misses.
const REMARKED: &[(&str, &str)] = &[
    ("logging", "the agent keeps logs by its own rules"),
    ("build", "nothing is built here: docker build -t IMAGE makes the image, or docker save brings it"),
    ("extends", "write the other service out: docker compose config does"),
    ("volumes_from", "write the volumes out"),
    ("ulimits", "the limits of the engine count"),
    ("stop_signal", "the signal of the image counts"),
    ("domainname", "pods have the domain of the cluster"),
    ("userns_mode", "it has no counterpart"),
    ("cgroup_parent", "the agent chooses the cgroup"),
    ("platform", "the platform of the host counts"),
    ("mac_address", "pods have addresses of the agent"),
];

/// The objects of a service; none where a profile leaves it out.
pub fn convert(desk: &mut Desk<'_>, name: &str, of: &Value, document: &Value) -> Result<Option<Vec<Value>>, String> {
    let at = format!("services.{name}");
    let profiles = texts(&of["profiles"]);
    if !profiles.is_empty() {
        desk.remark(&at, format!("it is of the profiles {} and is left out", profiles.join(", ")));
        return Ok(None);
    }
    let spelled = label(name);
    if spelled != *name {
        desk.remark(&at, format!("its name here is {spelled}: programs that reach it as {name} need the new name"));
    }
    remark_keys(desk, &at, of);
    let Some(image) = text(&of["image"]) else {
        return Err(format!("{at}: it has no image: build one (docker build -t IMAGE) and write image: IMAGE"));
    };
    let mut container = container(desk, &at, of, (&spelled, &image))?;
    let mounts = mounts::convert(desk, &at, of);
    set(&mut container, "volumeMounts", json!(mounts.mounts));
    let mut spec = pod(desk, &at, of, document);
    spec.insert("containers".to_owned(), json!([container]));
    set(&mut spec, "volumes", json!(mounts.volumes));
    let labels = json!({"app": spelled});
    let mut metadata = json!({"labels": labels});
    let annotations: Map<String, Value> =
        pairs(&of["labels"], '=').into_iter().map(|(key, value)| (key, json!(value.unwrap_or_default()))).collect();
    if annotations.keys().any(|key| key.starts_with("traefik.")) {
        desk.remark(&at, "labels: Traefik's routes are not read here: publish a port");
    }
    if let Some(metadata) = metadata.as_object_mut() {
        // Prefixes of Compose's labels may have more parts than Kubernetes allows.
        let allowed = |key: &str| key.matches('/').count() <= 1 && key.len() < 64 && !key.contains([' ', '[']);
        set(metadata, "annotations", json!(annotations.into_iter().filter(|(k, _)| allowed(k)).collect::<Map<_, _>>()));
    }
    let host_network = spec.get("hostNetwork").is_some();
    let mut objects = vec![workload(desk, &at, of, (&spelled, metadata, spec))];
    if !host_network {
        objects.extend(names(&spelled, of).into_iter().map(|name| headless(&name, &spelled)));
    }
    Ok(Some(objects))
}

fn remark_keys(desk: &mut Desk<'_>, at: &str, of: &Value) {
    for key in of.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        match REMARKED.iter().find(|(known, _)| *known == key) {
            Some(("build", why)) if of["image"].is_string() => desk.remark(at, format!("build: {why}")),
            Some((known, why)) => desk.remark(at, format!("{known}: {why}")),
            None if KNOWN.contains(&key) || key.starts_with("x-") => {}
            None => desk.remark(at, format!("{key}: it has no counterpart here")),
        }
    }
    if !of["depends_on"].is_null() {
        desk.remark(at, "depends_on: pods start in any order, and start again until what they need is there");
    }
    if texts(&of["links"]).iter().any(|link| link.contains(':')) {
        desk.remark(at, "links: other names for services need a Service of that name");
    }
}

/// The workload that keeps the pod.
fn workload(
    desk: &mut Desk<'_>,
    at: &str,
    of: &Value,
    (name, metadata, spec): (&str, Value, Map<String, Value>),
) -> Value {
    let restart = text(&of["restart"]).or_else(|| text(&of["deploy"]["restart_policy"]["condition"]));
    let policy = match restart.as_deref() {
        Some("no" | "false" | "none") => Some("Never"),
        Some(text) if text.starts_with("on-failure") => Some("OnFailure"),
        Some(_) => None,
        None => {
            desk.remark(
                at,
                "restart: none is given; here it starts again when it ends: `restart: \"no\"` runs it once",
            );
            None
        }
    };
    if let Some(policy) = policy {
        let mut spec = spec;
        spec.insert("restartPolicy".to_owned(), json!(policy));
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        return json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    }
    let replicas = of["deploy"]["replicas"].as_u64().or_else(|| of["scale"].as_u64()).unwrap_or(1);
    // Two pods have no room at one host port or device: the old one ends first, as with Compose.
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": spec},
        },
    })
}

/// The names by which other services reach this one.
fn names(name: &str, of: &Value) -> Vec<String> {
    let mut names = vec![name.to_owned(), text(&of["container_name"]).map(|name| label(&name)).unwrap_or_default()];
    for network in of["networks"].as_object().into_iter().flatten().map(|(_, network)| network) {
        names.extend(texts(&network["aliases"]).iter().map(|alias| label(alias)));
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

/// A name that leads to the pods, ready or not, as in Compose.
fn headless(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": app}},
    })
}

fn container(
    desk: &mut Desk<'_>,
    at: &str,
    of: &Value,
    (name, image): (&str, &str),
) -> Result<Map<String, Value>, String> {
    let mut container = Map::new();
    container.insert("name".to_owned(), json!(name));
    container.insert("image".to_owned(), json!(image));
    let words = |key: &str| command(&of[key]).map_err(|why| format!("{at}: {key}: {why}"));
    set(&mut container, "command", json!(words("entrypoint")?));
    set(&mut container, "args", json!(words("command")?));
    set(&mut container, "workingDir", of["working_dir"].clone());
    set(&mut container, "env", json!(environment(desk, at, of)));
    let (found, remarks) = ports::convert(&of["ports"], &of["expose"]);
    remarks.iter().for_each(|remark| desk.remark(at, remark));
    set(&mut container, "ports", json!(found));
    match healthcheck::convert(&of["healthcheck"]) {
        Ok(Some(probe)) => {
            container.insert("readinessProbe".to_owned(), probe);
            desk.remark(at, "healthcheck: it is a readinessProbe; a livenessProbe would restart a sick container");
        }
        Ok(None) => {}
        Err(why) => desk.remark(at, why),
    }
    for (key, field) in [("tty", "tty"), ("stdin_open", "stdin")] {
        if truth(&of[key]) {
            container.insert(field.to_owned(), json!(true));
        }
    }
    match of["pull_policy"].as_str() {
        Some("always") => set(&mut container, "imagePullPolicy", json!("Always")),
        Some("never") => set(&mut container, "imagePullPolicy", json!("Never")),
        Some("missing" | "if_not_present") => set(&mut container, "imagePullPolicy", json!("IfNotPresent")),
        Some(other) => desk.remark(at, format!("pull_policy {other}: it has no counterpart here")),
        // Compose pulls what is missing, also of a tag `latest`.
        None => set(&mut container, "imagePullPolicy", json!("IfNotPresent")),
    }
    set(&mut container, "resources", resources(desk, at, of));
    let devices = devices(desk, at, of);
    if !devices.is_empty() {
        let limits = container.entry("resources").or_insert_with(|| json!({}));
        for device in devices {
            limits["limits"][device] = json!(1);
        }
    }
    set(&mut container, "securityContext", security(desk, at, of));
    Ok(container)
}

fn environment(desk: &mut Desk<'_>, at: &str, of: &Value) -> Vec<Value> {
    let mut all: Vec<(String, Option<String>)> = Vec::new();
    let mut files = texts(&of["env_file"]);
    let long = of["env_file"].as_array().into_iter().flatten().filter_map(|file| text(&file["path"]));
    files.extend(long);
    for file in files {
        match (desk.around.read)(&file) {
            Ok(text) => all.extend(Variables::lines(&text)),
            Err(why) => desk.remark(at, format!("env_file {file}: {why}")),
        }
    }
    all.extend(pairs(&of["environment"], '='));
    let mut env: Vec<Value> = Vec::new();
    for (name, value) in all {
        let value = match value.or_else(|| desk.around.variables.get(&name)) {
            Some(value) => value,
            None => {
                desk.remark(at, format!("environment {name}: it has no value here, and is left out"));
                continue;
            }
        };
        env.retain(|known| known["name"] != name);
        // $(NAME) of a value would be replaced.
        env.push(json!({"name": name, "value": value.replace("$(", "$$(")}));
    }
    env
}

/// The fields of the pod beside its container and volumes.
fn pod(desk: &mut Desk<'_>, at: &str, of: &Value, document: &Value) -> Map<String, Value> {
    let mut spec = Map::new();
    match of["network_mode"].as_str() {
        Some("host") => drop(spec.insert("hostNetwork".to_owned(), json!(true))),
        None | Some("bridge" | "default") => {}
        Some(other) => desk.remark(at, format!("network_mode {other}: put the containers into one pod by hand")),
    }
    for (key, field) in [("pid", "hostPID"), ("ipc", "hostIPC")] {
        match of[key].as_str() {
            Some("host") => drop(spec.insert(field.to_owned(), json!(true))),
            Some("private" | "shareable") | None => {}
            Some(other) => desk.remark(at, format!("{key} {other}: it has no counterpart here")),
        }
    }
    if truth(&of["init"]) {
        // The pause program is process 1 of the pod then, and takes up what nobody waits for.
        spec.insert("shareProcessNamespace".to_owned(), json!(true));
    }
    set(&mut spec, "hostname", text(&of["hostname"]).map_or(Value::Null, |name| json!(label(&name))));
    let separator = if of["extra_hosts"].to_string().contains('=') { '=' } else { ':' };
    let hosts = pairs(&of["extra_hosts"], separator);
    let (own, hosts): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|(_, ip)| ip.as_deref() == Some("host-gateway"));
    own.iter().for_each(|(name, _)| {
        desk.remark(at, format!("extra_hosts {name}: write the host's own address in the place of host-gateway"));
    });
    let aliases = hosts.into_iter().filter_map(|(name, ip)| Some(json!({"ip": ip?, "hostnames": [name]})));
    set(&mut spec, "hostAliases", json!(aliases.collect::<Vec<_>>()));
    let (servers, searches) = (texts(&of["dns"]), texts(&of["dns_search"]));
    if !servers.is_empty() {
        spec.insert("dnsPolicy".to_owned(), json!("None"));
        desk.remark(at, "dns: with servers of its own it does not find other services by name");
    }
    let mut dns = Map::new();
    set(&mut dns, "nameservers", json!(servers));
    set(&mut dns, "searches", json!(searches));
    set(&mut spec, "dnsConfig", Value::Object(dns));
    let mut security = Map::new();
    let sysctls = pairs(&of["sysctls"], '=').into_iter();
    let sysctls = sysctls.map(|(name, value)| json!({"name": name, "value": value.unwrap_or_default()}));
    set(&mut security, "sysctls", json!(sysctls.collect::<Vec<_>>()));
    let (groups, named): (Vec<_>, Vec<_>) =
        texts(&of["group_add"]).into_iter().partition(|group| group.parse::<u32>().is_ok());
    named
        .iter()
        .for_each(|group| desk.remark(at, format!("group_add {group}: write its number (getent group {group})")));
    let groups: Vec<u32> = groups.iter().filter_map(|group| group.parse().ok()).collect();
    set(&mut security, "supplementalGroups", json!(groups));
    set(&mut spec, "securityContext", Value::Object(security));
    if let Some(grace) = text(&of["stop_grace_period"]) {
        match duration::seconds(&grace) {
            Some(seconds) => drop(spec.insert("terminationGracePeriodSeconds".to_owned(), json!(seconds))),
            None => desk.remark(at, format!("stop_grace_period {grace}: no duration")),
        }
    } else {
        // Docker's own.
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(10));
    }
    for (network, settings) in of["networks"].as_object().into_iter().flatten() {
        if !settings["ipv4_address"].is_null() || !settings["ipv6_address"].is_null() {
            desk.remark(at, format!("networks.{network}: pods have no fixed addresses: use names"));
        }
        let driver = document["networks"][network]["driver"].as_str().unwrap_or_default();
        if ["macvlan", "ipvlan"].contains(&driver) {
            desk.remark(at, format!("networks.{network}: hostNetwork: true is the nearest"));
        }
    }
    set(&mut spec, "enableServiceLinks", json!(false));
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_key_is_read() {
        let source = concat!(include_str!("service.rs"), include_str!("host.rs"));
        let others = ["volumes", "tmpfs", "secrets", "configs", "shm_size"];
        for key in KNOWN.iter().filter(|key| !others.contains(key)) {
            let uses = source.matches(&format!("\"{key}\"")).count();
            assert!(uses >= 2, "{key} is known, and nothing reads it");
        }
    }
}
