//! This host, read for `doctor`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use coracle_http::client::{Client, Target};
use coracle_http::{Method, StatusCode};

use super::doctor::{Chain, Readings};
use super::{check, look};
use crate::clock::wall_ms;
use crate::config::Config;
use crate::figures::files::disk;
use crate::{net, private};

pub async fn read(config: &Config, agent_answers: bool) -> Readings {
    let engine = look::engine(config).about().await.map_err(|failure| failure.to_string());
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut disks = vec![config.data_dir.clone()];
    disks.extend(engine.iter().map(|engine| engine.root.clone()));
    let manifests = Path::new(&config.manifest_dir);
    let remarks = if manifests.is_dir() { check::all(&look::files(&[PathBuf::from(manifests)], &config.node_name)) } else { Vec::new() };
    Readings {
        root: nix::unistd::geteuid().is_root(),
        engine_at: config.docker_host.clone(),
        engine,
        agent_answers,
        disks: disks.into_iter().map(|path| (path.clone(), disk(nearest(&path)))).collect(),
        data_dir: private::judge_data_directory(&config.data_dir).err().map(|error| format!("{}: {error}", config.data_dir)),
        manifest_dir: config.manifest_dir.clone(),
        manifests_writable_by: private::writers(manifests),
        manifest_problems: remarks.iter().filter(|remark| !remark.warning).map(check::Remark::line).collect(),
        wall_ms: wall_ms(),
        listen: config.listen,
        listening: listening(&text("/proc/net/tcp")).into_iter().chain(listening(&text("/proc/net/tcp6"))).collect(),
        controllers: controllers(&text("/sys/fs/cgroup/cgroup.controllers"), &text("/proc/cgroups")),
        overlay: text("/proc/filesystems").lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay"),
        ip_forward: match text("/proc/sys/net/ipv4/ip_forward").trim() {
            "" => None,
            said => Some(said != "0"),
        },
        bridges_are_seen: net::bridges_are_seen(),
        nft: net::rule_set().await.map(|text| chains(&text)),
        ip: net::routes().await,
        master: match &config.master {
            None => None,
            Some(target) => Some(master(target).await),
        },
    }
}

/// The disk of a directory; if that is not there yet, of the nearest one above it.
fn nearest(path: &str) -> &str {
    let above = Path::new(path).ancestors().find(|path| path.exists());
    above.and_then(Path::to_str).unwrap_or("/")
}

async fn master(target: &Target) -> (String, Option<String>) {
    let shown = match target {
        Target::Unix(path) => path.display().to_string(),
        Target::Tcp { host, port } => format!("{host}:{port}"),
    };
    let client = Client::new(target.clone(), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let why = match client.call(Method::GET, "/readyz", None).await {
        Ok(reply) if reply.status == StatusCode::OK => None,
        Ok(reply) => Some(String::from_utf8_lossy(&reply.body).trim().replace('\n', ", ")),
        Err(error) => Some(error.to_string()),
    };
    (shown, why)
}

/// The enabled controllers: the list of cgroup v2, or the table of v1, whose last column says whether one is on.
fn controllers(v2: &str, v1: &str) -> Vec<String> {
    if !v2.trim().is_empty() {
        return v2.split_whitespace().map(str::to_owned).collect();
    }
    let rows = v1.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.last() == Some(&"1")).filter_map(|row| row.first().map(|name| (*name).to_owned())).collect()
}

/// Addresses in the state LISTEN of the kernel's table.
fn listening(table: &str) -> Vec<SocketAddr> {
    const LISTEN: &str = "0A";
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(3) == Some(&LISTEN)).filter_map(|row| address(row.get(1)?)).collect()
}

/// `0100007F:280A`: words of the machine's own order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Chains with a hook, in the text that `nft list chains` writes.
fn chains(text: &str) -> Vec<Chain> {
    let (mut table, mut name, mut found) = (String::new(), String::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        let rest = |word: &str| line.strip_prefix(word).map(|rest| rest.trim_end_matches('{').trim().to_owned());
        if let Some(rest) = rest("table ") {
            table = rest;
        } else if let Some(rest) = rest("chain ") {
            name = rest;
        } else if let Some((_, hook)) = line.split_once(" hook ") {
            let hook = hook.split_whitespace().next().unwrap_or_default().to_owned();
            found.push(Chain { table: table.clone(), name: name.clone(), hook, drops: line.contains("policy drop") });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let v1 = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nmemory\t0\t90\t0\n";
        assert_eq!(controllers("", v1), ["cpu"]);
        assert_eq!(controllers("cpuset cpu memory\n", v1), ["cpuset", "cpu", "memory"]);
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let table = format!("  sl  local_address rem\n   0: {loopback}:280A 0:0 0A 0\n   1: {loopback}:0016 0:0 01 0\n");
        assert_eq!(listening(&table), ["127.0.0.1:10250".parse().unwrap()]);
        assert_eq!(address(&format!("{:032}:0050", 0)), Some("[::]:80".parse().unwrap()));
        assert_eq!(address("nonsense"), None);
    }

    #[test]
    fn chains_with_a_hook() {
        let text = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\tchain DOCKER {\n\t}\n}\n\
                    table inet coracle {\n\tchain out {\n\t\ttype nat hook output priority -100; policy accept;\n\t}\n}\n";
        let chain = |table: &str, name: &str, hook: &str, drops| Chain { table: table.into(), name: name.into(), hook: hook.into(), drops };
        assert_eq!(chains(text), [chain("ip filter", "FORWARD", "forward", true), chain("inet coracle", "out", "output", false)]);
    }

    #[test]
    fn a_folder_that_is_not_there_lies_on_the_disk_of_the_one_above() {
        assert_eq!(nearest("/proc/self/not/there"), "/proc/self");
    }
}
