//! Plugs sandboxes into the pods' bridge, by `ip` and in the network of their process. Everything may be done twice.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt::ReuseAddr,
};
use tokio::sync::oneshot;

use super::{BRIDGE, Subnet, forward, nft};
use crate::tool::{first_line, run_tool};

/// Of a thread that waits for `ip`.
const STACK_BYTES: usize = 256 * 1024;

/// The bridge, this host's address on it, and what the kernel must be told so that it forwards. The rules go with it:
/// pods' first packets find them.
pub async fn make_ready(subnet: Subnet) -> Result<(), String> {
    let shown = run_tool("ip", &["-4", "-o", "addr", "show"], None).await?;
    if let Some(other) = super::overlap(&shown, subnet) {
        return Err(format!("--pod-cidr {} overlaps {other}, an interface of this host", subnet.text()));
    }
    make_bridge(subnet).await?;
    if run_tool("nft", &["list", "table", "ip", nft::TABLE], None).await.is_err() {
        run_tool("nft", &["-f", "-"], Some(&nft::script(subnet, &Default::default()))).await?;
    }
    // Pods of this host reach each other and the host all the same.
    let_through().await.unwrap_or_else(|why| log::warn!("what pods send elsewhere may be dropped: {why}"));
    Ok(())
}

async fn make_bridge(subnet: Subnet) -> Result<(), String> {
    if !Path::new("/proc/sys/net/ipv4/conf").join(BRIDGE).exists() {
        ip(&super::new_bridge(subnet)).await?;
        log::info!("made the bridge {BRIDGE} for pods, {}", subnet.text());
    }
    ip(&super::bridge_up(subnet)).await?;
    switch_on("net/ipv4/ip_forward")?;
    // So that ports of pods are reached at 127.0.0.1; a rule of ours keeps pods from the loopback.
    switch_on(&format!("net/ipv4/conf/{BRIDGE}/route_localnet"))
}

fn switch_on(name: &str) -> Result<(), String> {
    let path = Path::new("/proc/sys").join(name);
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1") {
        return Ok(());
    }
    fs::write(&path, "1").map_err(|error| format!("set {}: {error}", path.display()))
}

/// Beside the rules of others.
pub async fn let_through() -> Result<(), String> {
    let rules = match run_tool("iptables", &["-w", "5", "-S"], None).await {
        Ok(rules) => rules,
        // A host without it has no rules of it.
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

/// The wires on the bridge, by name.
pub fn wires() -> Vec<String> {
    let ports = fs::read_dir(port("")).into_iter().flatten().flatten();
    ports.filter_map(|port| port.file_name().into_string().ok()).collect()
}

/// Gives a sandbox its address. `pid`: its process.
pub async fn plug(subnet: Subnet, id: &str, pid: i64, address: IpAddr) -> Result<(), String> {
    let name = super::wire(id, pid);
    if port(&name).exists() {
        return Ok(());
    }
    // Of a start before, which something else of the pod still holds: two would have one address.
    let old: String = wires()
        .iter()
        .filter(|other| other.starts_with(&super::wires_of(id)))
        .map(|other| super::end_wire(other))
        .collect();
    if !old.is_empty() {
        // One that goes by itself is gone.
        let _ = run_tool("ip", &["-force", "-batch", "-"], Some(&old)).await;
    }
    if !port("").exists() {
        make_bridge(subnet).await?;
    }
    // It was there, and was taken off the bridge: connections over it go on.
    if !Path::new("/proc/sys/net/ipv4/conf").join(&name).exists() {
        ip(&super::new_wire(&name, pid, address)).await?;
    }
    ip_inside(pid, super::inside(subnet, address)).await?;
    ip(&super::join(&name)).await?;
    hairpin(&name).await
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

/// A process is of the network that the thread was in which began it: one does, and ends.
async fn ip_inside(pid: i64, batch: String) -> Result<(), String> {
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("namespace".to_owned()).stack_size(STACK_BYTES);
    let begun = thread.spawn(move || {
        let _ = sender.send(enter(pid).and_then(|()| ip_here(&batch)));
    });
    begun.map_err(|error| error.to_string())?;
    done.await.map_err(|error| error.to_string())?.map_err(|error| format!("in the sandbox: {error}"))
}

fn enter(pid: i64) -> io::Result<()> {
    Ok(setns(File::open(format!("/proc/{pid}/ns/net"))?, CloneFlags::CLONE_NEWNET)?)
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

/// Whether another program of this host has that port.
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
pub fn networks() -> Vec<(String, Subnet)> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let of = |one: nix::ifaddrs::InterfaceAddress| {
        let bits = u32::from(one.netmask?.as_sockaddr_in()?.ip()).leading_ones();
        let subnet = Subnet::parse(&format!("{}/{bits}", one.address?.as_sockaddr_in()?.ip()))?;
        (one.interface_name != "lo").then_some((one.interface_name, subnet))
    };
    all.filter_map(of).collect()
}
