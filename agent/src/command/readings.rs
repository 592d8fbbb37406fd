//! This host, read for `doctor`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_http::client::{Client, Target};
use coracle_http::{Method, StatusCode};

use super::doctor::{HostPort, MasterHere, Readings};
use super::{check, look};
use crate::config::Config;
use crate::facts::clock::wall_ms;
use crate::facts::desired::Desired;
use crate::facts::engine::SeenContainer;
use crate::facts::ports::host_ports;
use crate::facts::seen;
use crate::facts::wanted::Wanted;
use crate::host::files::disk;
use crate::host::private;
use crate::network::host_ports::listening;
use crate::network::pod_network::{Owner, plug};
use crate::network::{heed, net};
use crate::runtime::Runtime;

pub async fn read(config: &Config, agent_answers: bool) -> Readings {
    let docker = look::engine(config);
    let engine = docker.about().await.map_err(|failure| failure.to_string());
    let desired = look::desired(config, &mut Vec::new());
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let table = |name: &str| text(&format!("/proc/net/{name}"));
    let sockets = listening([&table("tcp"), &table("tcp6")], [&table("udp"), &table("udp6")]);
    let mut disks = vec![config.data_dir.clone()];
    disks.extend(engine.iter().map(|engine| engine.root.clone()));
    let manifests = Path::new(&config.manifest_dir);
    let remarks =
        if manifests.is_dir() { check::all(&look::files(&[PathBuf::from(manifests)], config)) } else { Vec::new() };
    Readings {
        root: nix::unistd::geteuid().is_root(),
        engine_at: config.docker_host.clone(),
        engine,
        agent_answers,
        disks: disks.into_iter().map(|path| (path.clone(), disk(nearest(&path)))).collect(),
        data_dir: private::judge_data_directory(&config.data_dir)
            .err()
            .map(|error| format!("{}: {error}", config.data_dir)),
        manifest_dir: config.manifest_dir.clone(),
        manifests_writable_by: private::writers(manifests),
        manifest_problems: remarks.iter().filter(|remark| !remark.warning).map(check::Remark::line).collect(),
        pids_max: config.pids_max,
        wall_ms: wall_ms(),
        listen: config.listen,
        listening: sockets.tcp,
        listening_udp: sockets.udp,
        dns: desired.dns.cluster.as_ref().map(|dns| dns.address),
        // An engine that does not answer runs nothing that is known.
        host_ports: wanted_ports(&desired, &docker.list().await.unwrap_or_default(), config.pod_network == Owner::Own),
        controllers: controllers(&text("/sys/fs/cgroup/cgroup.controllers"), &text("/proc/cgroups")),
        overlay: text("/proc/filesystems").lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay"),
        ip_forward: match text("/proc/sys/net/ipv4/ip_forward").trim() {
            "" => None,
            said => Some(said != "0"),
        },
        bridges_are_seen: net::bridges_are_seen(),
        routes_open: plug::open_settings(),
        wires_guarded: if agent_answers { plug::guarded().await } else { None },
        nft: heed::chains().await,
        ip: net::routes().await,
        master: match &config.master {
            None => MasterHere::Unnamed,
            Some(target) => master(target).await,
        },
        node: config.node_name.clone(),
        former: desired.former.iter().cloned().collect(),
    }
}

/// The path for reading the disk of a directory: the directory itself, or its nearest existing parent.
fn nearest(path: &str) -> &str {
    let above = Path::new(path).ancestors().find(|path| path.exists());
    above.and_then(Path::to_str).unwrap_or("/")
}

/// Where the package of the master puts its program and its unit, and where a keeper puts a unit of their own.
const MASTER_FILES: [&str; 6] = [
    "/usr/bin/coracle-master",
    "/usr/local/bin/coracle-master",
    "/usr/lib/systemd/system/coracle-master.service",
    "/lib/systemd/system/coracle-master.service",
    "/etc/systemd/system/coracle-master.service",
    "/run/systemd/system/coracle-master.service",
];

async fn master(target: &Target) -> MasterHere {
    let at = match target {
        Target::Unix(path) => path.display().to_string(),
        Target::Tcp { host, port } => format!("{host}:{port}"),
        Target::Tls(target) => target.to_string(),
    };
    // An agent without a master is a whole installation. Its socket may be missing for other reasons, so a master that
    // is installed has to answer.
    let is_installed = || MASTER_FILES.iter().any(|file| Path::new(file).exists());
    if matches!(target, Target::Unix(path) if !path.exists()) && !is_installed() {
        return MasterHere::NotInstalled { at };
    }
    let client = Client::new(target.clone(), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let why = match client.call(Method::GET, "/readyz", None).await {
        Ok(reply) if reply.status == StatusCode::OK => return MasterHere::Answers { at },
        Ok(reply) => String::from_utf8_lossy(&reply.body).trim().replace('\n', ", "),
        Err(error) => error.to_string(),
    };
    MasterHere::Silent { at, why }
}

/// The enabled controllers: the list of cgroup v2, or the table of v1, whose last column says whether one is on.
fn controllers(v2: &str, v1: &str) -> Vec<String> {
    if !v2.trim().is_empty() {
        return v2.split_whitespace().map(str::to_owned).collect();
    }
    let rows = v1.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.last() == Some(&"1")).filter_map(|row| row.first().map(|name| (*name).to_owned())).collect()
}

/// Of all pods that are wanted, and whose sandbox runs. `own_network`: rules lead to those that are not on the host's
/// network.
fn wanted_ports(desired: &Desired, containers: &[SeenContainer], own_network: bool) -> Vec<HostPort> {
    let pods = seen::group(containers);
    let of = |wanted: &Arc<Wanted>| {
        let runs = pods
            .get(&wanted.name.uid)
            .is_some_and(|pod| pod.runs.iter().any(|run| run.tag.is_sandbox() && run.seen.lives()));
        let (pod, by_rule) =
            (format!("{}/{}", wanted.name.namespace, wanted.name.name), own_network && !wanted.pod.spec.host_network);
        host_ports(&wanted.pod.spec).into_iter().map(move |port| {
            let (port, protocol, host_ip) = (port.host_port, port.protocol, port.host_ip);
            HostPort { pod: pod.clone(), port, protocol, host_ip, by_rule, runs }
        })
    };
    desired.pods.values().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::json;

    #[test]
    fn texts_of_the_kernel() {
        let v1 = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nmemory\t0\t90\t0\n";
        assert_eq!(controllers("", v1), ["cpu"]);
        assert_eq!(controllers("cpuset cpu memory\n", v1), ["cpuset", "cpu", "memory"]);
    }

    #[test]
    fn ports_of_pods_on_either_network() {
        let pod = |name: &str, host_network: bool| {
            let port = json!({"containerPort": 8080, "hostPort": 80, "protocol": "UDP"});
            let spec = json!({"hostNetwork": host_network, "containers": [{"name": "c", "ports": [port]}]});
            let document = json!({"metadata": {"namespace": "d", "name": name, "uid": name}, "spec": spec});
            (name.to_owned(), Arc::new(Wanted::new(Source::File, document).unwrap()))
        };
        let desired = Desired { pods: [pod("a", true), pod("b", false)].into(), ..Desired::default() };
        for own_network in [true, false] {
            let found = wanted_ports(&desired, &[], own_network);
            let shown: Vec<_> =
                found.iter().map(|port| (port.pod.as_str(), port.port, port.protocol.as_str(), port.by_rule)).collect();
            assert_eq!(shown, [("d/a", 80, "udp", false), ("d/b", 80, "udp", own_network)]);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_lies_on_the_disk_of_the_one_above() {
        assert_eq!(nearest("/proc/self/not/there"), "/proc/self");
    }
}
