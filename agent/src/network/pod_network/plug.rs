//! Plugs sandboxes into the pods' bridge, by `ip` and in the network of their process. Everything may be done twice.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coracle_api::strategy::Cidr;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket};
use tokio::sync::oneshot;

use super::guard::{self, Wires};
use super::{BRIDGE, forward, nft};
use crate::host::tool::{first_line, run_tool};
use crate::network::kernel_table;

/// The stack of a thread that waits for `ip`.
const STACK_BYTES: usize = 256 * 1024;

/// Makes the bridge with this host's address, and switches on forwarding. The rules are loaded at the same time, before
/// the first packets of pods.
pub async fn make_ready(pods: Cidr) -> Result<(), String> {
    let shown = run_tool("ip", &["-4", "-o", "addr", "show"], None).await?;
    if let Some(other) = super::overlap(&shown, pods) {
        return Err(format!("--pod-cidr {pods} overlaps {other}, an interface of this host"));
    }
    make_bridge(pods).await?;
    if kernel_table::table(nft::TABLE).await.is_err() {
        kernel_table::nft(&nft::script(pods, &Default::default())).await?;
    }
    // Pods of this host reach each other and the host all the same.
    let_through().await.unwrap_or_else(|why| log::warn!("what pods send elsewhere may be dropped: {why}"));
    Ok(())
}

async fn make_bridge(pods: Cidr) -> Result<(), String> {
    if !interfaces().join(BRIDGE).exists() {
        ip(&super::new_bridge(pods)).await?;
        log::info!("made the bridge {BRIDGE} for pods, {pods}");
    }
    // Before the bridge is up, and also for a bridge that existed before.
    close_routes(BRIDGE).unwrap_or_else(|why| log::warn!("a pod may change routes of this host: {why}"));
    ip(&super::bridge_up(pods)).await?;
    switch_on("net/ipv4/ip_forward")?;
    // Makes host ports of pods reachable at 127.0.0.1. An nft rule keeps pods from the loopback.
    switch_on(&format!("net/ipv4/conf/{BRIDGE}/route_localnet"))
}

fn switch_on(name: &str) -> Result<(), String> {
    set(name, "1")
}

fn set(name: &str, value: &str) -> Result<(), String> {
    let path = Path::new("/proc/sys").join(name);
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value).map_err(|error| format!("set {}: {error}", path.display()))
}

/// Keeps the host from changing routes or addresses because of packets at this interface.
pub fn close_routes(name: &str) -> Result<(), String> {
    // A kernel without IPv6 has none of its files.
    let there = |(setting, _): &(String, &str)| Path::new("/proc/sys").join(setting).exists();
    super::closed_routes(name).iter().filter(|one| there(one)).try_for_each(|(setting, value)| set(setting, value))
}

/// The settings of the bridge that let pods change routes of this host, as sysctl names them.
pub fn open_settings() -> Vec<String> {
    let read = |setting: &String| fs::read_to_string(Path::new("/proc/sys").join(setting)).ok();
    let all = super::closed_routes(BRIDGE);
    let off = all.iter().any(|(setting, value)| {
        setting.ends_with("disable_ipv6") && read(setting).is_none_or(|text| text.trim() == *value)
    });
    let counts = |setting: &str| !off || setting.contains("/ipv4/");
    let others = all.iter().filter(|(setting, _)| counts(setting));
    let others = others.filter(|(setting, value)| read(setting).is_some_and(|text| text.trim() != *value));
    others.map(|(setting, value)| format!("{}={value}", setting.replace('/', "."))).collect()
}

/// Adds the forward rules beside the rules of other programs.
pub async fn let_through() -> Result<(), String> {
    let rules = match run_tool("iptables", &["-w", "5", "-S"], None).await {
        Ok(rules) => rules,
        // A host without iptables has no iptables rules.
        Err(why) if why.starts_with("there is no program") => return Ok(()),
        Err(why) => return Err(why),
    };
    match forward::script(&rules) {
        Some(script) => run_tool("iptables-restore", &["-w", "5", "--noflush"], Some(&script)).await.map(drop),
        None => Ok(()),
    }
}

fn port(name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(BRIDGE).join("brif").join(name)
}

/// A folder for each interface of this host.
fn interfaces() -> &'static Path {
    Path::new("/proc/sys/net/ipv4/conf")
}

/// The wires on the bridge, by name.
pub fn wires() -> Vec<String> {
    let ports = fs::read_dir(port("")).into_iter().flatten().flatten();
    ports.filter_map(|port| port.file_name().into_string().ok()).collect()
}

/// Gives a sandbox its address. `pid`: the sandbox's process. `known`: the wires of all sandboxes.
pub async fn plug(pods: Cidr, id: &str, pid: i64, address: IpAddr, known: &mut Wires) -> Result<(), String> {
    let name = super::wire(id, pid);
    if port(&name).exists() {
        // The wire of an earlier agent. `keep` checks whether the table has this wire.
        known.insert(name, address);
        return Ok(());
    }
    // The wire of an earlier start may still exist, held by another process of the pod: two wires would have the same
    // address.
    let old: String = wires()
        .iter()
        .filter(|other| other.starts_with(&super::wires_of(id)))
        .map(|other| super::end_wire(other))
        .collect();
    if !old.is_empty() {
        // An error is fine: the wire may have gone by itself.
        let _ = run_tool("ip", &["-force", "-batch", "-"], Some(&old)).await;
    }
    if !port("").exists() {
        make_bridge(pods).await?;
    }
    let network = network_of(pid, id).map_err(|error| format!("the network of process {pid}: {error}"))?;
    // It was there, and was taken off the bridge: connections over it go on.
    if !interfaces().join(&name).exists() {
        let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
        ip(&super::new_wire(&name, &path, address)).await?;
    }
    // It is on no bridge yet.
    let _ = close_routes(&name);
    known.insert(name.clone(), address);
    let (inside, guarded) =
        tokio::join!(ip_inside(network, super::inside(pods, address)), guard_one(pods, &name, address, known));
    inside?;
    // `keep` tries it again.
    guarded.unwrap_or_else(|why| log::debug!("the guard of wires: {why}"));
    ip(&super::join(&name)).await?;
    hairpin(&name).await
}

/// A new wire, before it is on the bridge.
async fn guard_one(pods: Cidr, name: &str, address: IpAddr, wires: &Wires) -> Result<(), String> {
    let addition = guard::addition(name, address) + &guard::groups_addition(name);
    match kernel_table::nft(&addition).await {
        Ok(()) => Ok(()),
        // The first one, or somebody has flushed the rules.
        Err(_) => guard_all(pods, wires).await,
    }
}

pub async fn guard_all(pods: Cidr, wires: &Wires) -> Result<(), String> {
    kernel_table::nft(&guard::script(pods, wires)).await?;
    // nft refuses a chain for a missing wire, and the whole script with that chain.
    let there: Wires = wires
        .iter()
        .filter(|(name, _)| interfaces().join(name).exists())
        .map(|(name, address)| (name.clone(), *address))
        .collect();
    kernel_table::nft(&guard::groups_script(&there)).await
}

/// Whether the tables speak of every wire of a sandbox. None: there is no wire.
pub async fn guarded() -> Option<bool> {
    let all = fs::read_dir(interfaces()).into_iter().flatten().flatten();
    let names = all.filter_map(|one| one.file_name().into_string().ok());
    let own: Vec<String> = names.filter(|name| super::is_wire(name)).collect();
    if own.is_empty() {
        return None;
    }
    for family in ["bridge", "netdev"] {
        let text = kernel_table::table(&format!("{family} {}", guard::TABLE)).await.unwrap_or_default();
        if !own.iter().all(|name| text.contains(&format!("\"{name}\""))) {
            return Some(false);
        }
    }
    Some(true)
}

/// Those whose sandbox has gone.
pub fn forget_gone(wires: &mut Wires) {
    wires.retain(|name, _| interfaces().join(name).exists());
}

/// The network of a container's process. The number of a process that has ended may be another's by now: never this
/// host's own network.
pub fn network_of(pid: i64, container: &str) -> io::Result<File> {
    let network = File::open(format!("/proc/{pid}/ns/net"))?;
    let (found, own) = (network.metadata()?, fs::metadata("/proc/self/ns/net")?);
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    if (found.dev(), found.ino()) == (own.dev(), own.ino()) || !super::is_of(&groups, container) {
        return Err(io::Error::other("the process of the container has ended, and its number is another's"));
    }
    Ok(network)
}

/// A frame of a pod to itself goes back through the port that it came from.
async fn hairpin(name: &str) -> Result<(), String> {
    match fs::write(port(name).join("hairpin_mode"), "1") {
        Ok(()) => Ok(()),
        // Where /sys is read-only, netlink does the same.
        Err(_) => run_tool("bridge", &["link", "set", "dev", name, "hairpin", "on"], None).await.map(drop),
    }
}

async fn ip(batch: &str) -> Result<(), String> {
    run_tool("ip", &["-4", "-batch", "-"], Some(batch)).await.map(drop)
}

/// A child process inherits the network namespace of its thread: a new thread enters the namespace, starts `ip` and
/// ends.
async fn ip_inside(network: File, batch: String) -> Result<(), String> {
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("namespace".to_owned()).stack_size(STACK_BYTES);
    let begun = thread.spawn(move || {
        let _ = sender.send(enter(&network).and_then(|()| ip_here(&batch)));
    });
    begun.map_err(|error| error.to_string())?;
    done.await.map_err(|error| error.to_string())?.map_err(|error| format!("in the sandbox: {error}"))
}

fn enter(network: &File) -> io::Result<()> {
    Ok(setns(network, CloneFlags::CLONE_NEWNET)?)
}

fn ip_here(batch: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    let mut child = command
        .args(["-4", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that ends early says why below.
        let _ = stdin.write_all(batch.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("ip: {}", first_line(&output.stderr)))) }
}

/// Err: another program of this host uses the port.
pub fn is_free(protocol: &str, host: Option<IpAddr>, number: u16) -> Result<(), String> {
    let kind = match protocol {
        "tcp" => SockType::Stream,
        "udp" => SockType::Datagram,
        _ => return Ok(()),
    };
    let address = SocketAddr::new(host.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), number);
    let tried = || -> nix::Result<()> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let one = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        if kind == SockType::Stream {
            // Connections that are over hold no port.
            setsockopt(&one, ReuseAddr, &true)?;
        }
        bind(one.as_raw_fd(), &SockaddrStorage::from(address))
    };
    tried().map_err(|error| {
        format!("bind host port {address}/{}: {}", protocol.to_uppercase(), error.desc().to_lowercase())
    })
}

/// The addresses of this host.
pub fn local() -> Vec<IpAddr> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    all.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip().into())).collect()
}

/// The networks that interfaces of this host are in, but for the loopback.
pub fn networks() -> Vec<(String, Cidr)> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let of = |one: nix::ifaddrs::InterfaceAddress| {
        let bits = u32::from(one.netmask?.as_sockaddr_in()?.ip()).leading_ones();
        let network = super::network(&format!("{}/{bits}", one.address?.as_sockaddr_in()?.ip()))?;
        (one.interface_name != "lo").then_some((one.interface_name, network))
    };
    all.filter_map(of).collect()
}
