//! The problems of this host, each with what to do about it. PURE.

mod ports;

use std::net::{IpAddr, SocketAddr};

use serde_json::json;

use super::report::Report;
use crate::facts::clock::CLOCK_MS_MIN;
use crate::host::files::Disk;
use crate::network::firewall::{Chain, Obstacle, obstacles};
use crate::runtime::docker::Engine;
use crate::runtime::docker::stock::collect::{free_percent, is_full};
pub use ports::HostPort;

/// Below it the next image may not fit.
const FREE_PERCENT_LOW: u64 = 15;

/// This host at one moment.
#[derive(Clone, Debug)]
pub struct Readings {
    pub root: bool,
    pub engine_at: String,
    pub engine: Result<Engine, String>,
    /// The agent of these options runs. It may wait for its engine.
    pub agent_answers: bool,
    /// The data directory and the engine's root, each with its disk. None: the disk cannot be read.
    pub disks: Vec<(String, Option<Disk>)>,
    /// The problem of the data directory; None: there is none, or no directory yet.
    pub data_dir: Option<String>,
    pub manifest_dir: String,
    pub manifests_writable_by: Option<String>,
    pub manifest_problems: Vec<String>,
    /// Processes that a container may have.
    pub pids_max: Option<i64>,
    pub wall_ms: i64,
    pub listen: SocketAddr,
    /// Addresses of listening TCP sockets.
    pub listening: Vec<SocketAddr>,
    pub listening_udp: Vec<SocketAddr>,
    /// Where the agent answers pods' questions for names. None: it does not.
    pub dns: Option<IpAddr>,
    /// Ports of the host that pods ask for.
    pub host_ports: Vec<HostPort>,
    /// Enabled cgroup controllers. Empty: the list cannot be read.
    pub controllers: Vec<String>,
    pub overlay: bool,
    pub ip_forward: Option<bool>,
    pub bridges_are_seen: bool,
    /// Settings of the kernel that let pods change routes of this host, as sysctl is to set them.
    pub routes_open: Vec<String>,
    /// Each wire of a pod is held to its own addresses. None: no wire exists, or no agent checks the wires.
    pub wires_guarded: Option<bool>,
    /// The reason why `nft` or `ip` cannot be run.
    pub nft: Result<Vec<Chain>, String>,
    pub ip: Result<(), String>,
    pub master: MasterHere,
    /// The present name of this host's node, and former names that the API still has.
    pub node: String,
    pub former: Vec<String>,
}

/// The master of this host's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterHere {
    /// The configuration names none.
    Unnamed,
    /// The configuration names the socket of a master on this host, as the packaged one does, and no master is
    /// installed here.
    NotInstalled {
        at: String,
    },
    Answers {
        at: String,
    },
    Silent {
        at: String,
        why: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Good,
    Warning,
    Problem,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub about: &'static str,
    pub level: Severity,
    pub says: String,
    /// The remedy; empty if there is nothing to do.
    pub mend: String,
}

impl Finding {
    fn good(about: &'static str, says: impl Into<String>) -> Finding {
        Finding { about, level: Severity::Good, says: says.into(), mend: String::new() }
    }

    fn problem(about: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { about, level: Severity::Problem, says: says.into(), mend: mend.into() }
    }

    fn warning(about: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { about, level: Severity::Warning, says: says.into(), mend: mend.into() }
    }
}

/// Findings in the order of dependency: a cause comes before its consequences.
pub fn judge(host: &Readings) -> Vec<Finding> {
    let mut all = Vec::new();
    if !host.root {
        all.push(Finding::warning("user", "not root: some of this cannot be looked at", "run it as root"));
    }
    engine(host, &mut all);
    cgroups(host, &mut all);
    host.disks.iter().for_each(|(path, found)| all.push(disk(path, *found)));
    files(host, &mut all);
    clock(host, &mut all);
    ports::agent(host, &mut all);
    ports::names(host, &mut all);
    ports::of_pods(host, &mut all);
    kernel(host, &mut all);
    firewall(host, &mut all);
    master(host, &mut all);
    for former in &host.former {
        let says =
            format!("this host was node {former} before, and is {} now: the pods of {former} end here", host.node);
        let mend = format!(
            "kubectl delete node {former} takes its pods out of the API; node-name = {former} in agent.conf is the way \
             back; claims of class local are bound to {former}"
        );
        all.push(Finding::warning("node", says, mend));
    }
    all
}

fn engine(host: &Readings, all: &mut Vec<Finding>) {
    let engine = match &host.engine {
        Ok(engine) => engine,
        Err(why) => {
            let mend = "systemctl status docker; apt-get install docker.io; or --docker-host names another engine \
                        (Podman: systemctl enable --now podman.socket)";
            return all.push(Finding::problem("engine", format!("{} does not answer: {why}", host.engine_at), mend));
        }
    };
    all.push(Finding::good("engine", format!("{} answers as {}", host.engine_at, engine.version)));
    if engine.storage_driver == "vfs" {
        let mend = "give /var/lib/docker a file system that overlay2 works on (ext4, xfs)";
        all.push(Finding::warning(
            "engine",
            "its storage driver is vfs, which copies every image for every container",
            mend,
        ));
    }
    if !engine.live_restore {
        let mend = "{\"live-restore\": true} in /etc/docker/daemon.json, then systemctl reload docker";
        all.push(Finding::warning("engine", "live-restore is off: a restart of Docker stops every container", mend));
    }
}

fn cgroups(host: &Readings, all: &mut Vec<Finding>) {
    let before = all.len();
    let missing = |name: &str| !host.controllers.is_empty() && !host.controllers.iter().any(|one| one == name);
    let engine = host.engine.as_ref().ok();
    if missing("memory") || engine.is_some_and(|engine| !engine.memory_limit) {
        let mend = "add `cgroup_enable=memory cgroup_memory=1` to the kernel's command line and reboot";
        all.push(Finding::problem("cgroups", "memory is not counted: limits of memory hold nobody", mend));
    }
    if missing("cpu") || engine.is_some_and(|engine| !engine.cpu_quota) {
        let mend = "a kernel with CONFIG_CFS_BANDWIDTH, as Debian's";
        all.push(Finding::warning("cgroups", "CPU time cannot be limited: limits of cpu hold nobody", mend));
    }
    if missing("pids") || engine.is_some_and(|engine| !engine.pids_limit) {
        let mend = "a kernel with CONFIG_CGROUP_PIDS, as Debian's";
        all.push(Finding::warning("cgroups", "processes are not counted: one pod can take them all", mend));
    }
    if host.pids_max.is_none() {
        let mend = "pod-pids-limit = 1024 in agent.conf: containers that are made later have it";
        let says = "a container may start as many processes as the host has room for (pod-pids-limit is -1): a fork \
                    bomb in one pod is the host's";
        all.push(Finding::warning("cgroups", says, mend));
    }
    if all.len() == before {
        let driver = engine.map(|engine| format!(", driven by {}", engine.cgroup_driver)).unwrap_or_default();
        all.push(Finding::good("cgroups", format!("memory, cpu and pids are counted{driver}")));
    }
}

fn disk(path: &str, found: Option<Disk>) -> Finding {
    let Some(disk) = found else {
        return Finding::warning(
            "disk",
            format!("{path} cannot be looked at"),
            "run it as root, after the engine's first start",
        );
    };
    let (bytes, files) = free_percent(disk);
    let mend = "docker (or podman) system df shows what images take; journalctl --vacuum-size=100M; du -xh / | sort -h \
                | tail shows the rest";
    let says = if bytes <= files {
        format!("{path}: {bytes} % is free")
    } else {
        format!("{path}: {files} % of its inodes are free")
    };
    match bytes.min(files) {
        _ if is_full(disk) => Finding::problem("disk", format!("{says}: new images are refused"), mend),
        free if free < FREE_PERCENT_LOW => Finding::warning("disk", says, mend),
        _ => Finding::good("disk", says),
    }
}

fn files(host: &Readings, all: &mut Vec<Finding>) {
    if let Some(why) = &host.data_dir {
        all.push(Finding::problem("data directory", why.clone(), "the agent does not start before"));
    }
    let dir = &host.manifest_dir;
    if let Some(who) = &host.manifests_writable_by {
        let mend = format!("chown root:root {dir}; chmod go-w {dir}");
        all.push(Finding::problem(
            "manifests",
            format!("{dir} can be written by {who}, who can start anything as root"),
            mend,
        ));
    }
    let mend = "coracle-agent check FILE says it again when it is mended";
    all.extend(host.manifest_problems.iter().map(|why| Finding::problem("manifests", why.clone(), mend)));
}

fn clock(host: &Readings, all: &mut Vec<Finding>) {
    all.push(if host.wall_ms < CLOCK_MS_MIN {
        let says =
            "the clock shows a year before this program was written: tokens and certificates of others do not work";
        Finding::warning("clock", says, "timedatectl set-time, or let it reach a time server; pods run all the same")
    } else {
        Finding::good("clock", "it shows a year that can be")
    });
}

fn kernel(host: &Readings, all: &mut Vec<Finding>) {
    let before = all.len();
    if !host.overlay {
        let mend = "modprobe overlay, and `overlay` in /etc/modules-load.d/overlay.conf";
        all.push(Finding::warning("kernel", "it has no overlay file system: images take much more of the disk", mend));
    }
    if host.ip_forward == Some(false) {
        let mend = "sysctl net.ipv4.ip_forward=1, and the same in /etc/sysctl.d/; the engine does it unless it was \
                    told not to";
        all.push(Finding::problem("kernel", "it forwards no packets: pods reach nothing beyond this host", mend));
    }
    if !host.bridges_are_seen {
        let mend = "modprobe br_netfilter; sysctl net.bridge.bridge-nf-call-iptables=1; both in /etc/modules-load.d \
                    and /etc/sysctl.d";
        all.push(Finding::warning(
            "kernel",
            "packets between pods pass no rules: a service that leads back to its own host is slower",
            mend,
        ));
    }
    if !host.routes_open.is_empty() {
        let settings = host.routes_open.join(" ");
        let mend = format!(
            "sysctl -w {settings}; the agent sets them when it starts, so whoever manages the networks of this host \
             (systemd-networkd, NetworkManager) must leave coracle0 alone"
        );
        all.push(Finding::problem(
            "kernel",
            "a pod can change routes of this host, by what it sends to coracle0",
            mend,
        ));
    }
    if host.wires_guarded == Some(false) {
        let mend = "nft list table bridge coracle_pods; journalctl -u coracle-agent; modprobe nf_tables: the kernel \
                    needs CONFIG_NF_TABLES_BRIDGE, as Debian's has";
        all.push(Finding::warning(
            "kernel",
            "a pod that may send packets of its own making can use addresses of others",
            mend,
        ));
    }
    if all.len() == before {
        all.push(Finding::good("kernel", "it has what pods need"));
    }
}

fn firewall(host: &Readings, all: &mut Vec<Finding>) {
    let before = all.len();
    for (tool, package, why) in
        [("nft", "nftables", host.nft.as_ref().err()), ("ip", "iproute2", host.ip.as_ref().err())]
    {
        if let Some(why) = why {
            let mend = format!("apt-get install {package}; run it as root");
            all.push(Finding::problem(
                "firewall",
                format!("{tool} cannot be run ({why}): services have no addresses"),
                mend,
            ));
        }
    }
    let chains = host.nft.as_deref().unwrap_or_default();
    for Obstacle { forward, says, mend } in obstacles(chains, host.agent_answers) {
        all.push(if forward {
            Finding::problem("firewall", says, mend)
        } else {
            Finding::warning("firewall", says, mend)
        });
    }
    if all.len() == before {
        all.push(Finding::good("firewall", "nft and ip work, and no other firewall drops what pods send"));
    }
}

fn master(host: &Readings, all: &mut Vec<Finding>) {
    all.push(match &host.master {
        MasterHere::Unnamed => Finding::good("master", "none is named: manifest files alone are run"),
        MasterHere::NotInstalled { at } => {
            let says = format!("none is installed here, and {at} is not there: manifest files alone are run");
            Finding::good("master", says)
        }
        MasterHere::Answers { at } => Finding::good("master", format!("{at} answers")),
        MasterHere::Silent { at, why } => {
            let mend = "systemctl status coracle-master; pods that run go on without it";
            Finding::problem("master", format!("{at} does not answer: {why}"), mend)
        }
    });
}

pub fn report(findings: &[Finding]) -> Report {
    let mut lines = Vec::new();
    for Finding { about, level, says, mend } in findings {
        let word = match level {
            Severity::Good => "ok      ",
            Severity::Warning => "warning ",
            Severity::Problem => "PROBLEM ",
        };
        lines.push(format!("{word}{about}: {says}"));
        if !mend.is_empty() {
            lines.push(format!("        -> {mend}"));
        }
    }
    let items = findings.iter().map(|one| {
        let level = format!("{:?}", one.level).to_lowercase();
        json!({"about": one.about, "level": level, "says": one.says, "todo": one.mend})
    });
    let document = json!({"findings": items.collect::<Vec<_>>()});
    Report { lines, document, well: findings.iter().all(|one| one.level != Severity::Problem) }
}

#[cfg(test)]
mod tests;
