//! Single values of the configuration. PURE.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use coracle_api::strategy::Cidr;
use coracle_api::strategy::amounts::is_extended;

use crate::facts::world::Devices;
use crate::network::pod_network::Owner;
use crate::spec::security::{is_sysctl_pattern, sysctl_name};

pub(super) fn folder(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("{text:?} is not an absolute path"))
}

pub(super) fn folders(text: &str) -> Result<Vec<PathBuf>, String> {
    let folders: Vec<PathBuf> = text.split(',').map(|path| path.trim().into()).collect();
    match folders.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(format!("{:?} is not an absolute path", path.display().to_string())),
        None => Ok(folders),
    }
}

pub(super) fn is_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("{other:?} is neither yes nor no")),
    }
}

pub(super) fn percent(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches('%').parse().ok().filter(|number| *number <= 100);
    number.ok_or_else(|| "it is a percentage of the disk, 0 to 100".to_owned())
}

pub(super) fn engine(text: &str) -> Result<String, String> {
    if ["unix:///", "tcp://", "http://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not unix:///PATH, tcp://HOST:PORT or http://HOST:PORT"))
}

pub(super) fn parse<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address"))
}

/// An IPv4 address that other hosts can send packets to.
pub(super) fn node_ip(text: &str) -> Result<IpAddr, String> {
    let address: Ipv4Addr =
        text.parse().map_err(|_| format!("{text:?} is not an IPv4 address, such as 192.168.1.7"))?;
    let reached =
        !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || address.is_broadcast());
    if reached { Ok(address.into()) } else { Err(format!("no other host can send to {address}")) }
}

/// `192.168.1.240/28, 203.0.113.7/32`
pub(super) fn networks(text: &str) -> Result<Vec<Cidr>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let one =
        |part: &str| Cidr::parse(part).ok_or_else(|| format!("{part:?} is not a network, such as 192.168.1.240/28"));
    parts.map(one).collect()
}

/// `net.ipv4.ip_forward, net.ipv6.*`
pub(super) fn sysctls(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> =
        text.split(',').map(|name| sysctl_name(name.trim())).filter(|name| !name.is_empty()).collect();
    let known = "those begin with net., kernel.shm, kernel.msg, kernel.sem or fs.mqueue.";
    match names.iter().find(|name| !is_sysctl_pattern(name)) {
        Some(wrong) => Err(format!("{wrong:?} is no sysctl that each pod has for itself: {known}")),
        None => Ok(names),
    }
}

/// `example.com/serial=1:/dev/ttyUSB0; example.com/gpu=4:/dev/dri`
pub(super) fn devices(text: &str) -> Result<Vec<Devices>, String> {
    let mut all: Vec<Devices> = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || format!("{part:?} is not NAME=COUNT:PATH,PATH, such as example.com/serial=1:/dev/ttyUSB0");
        let (resource, rest) = part.split_once('=').ok_or_else(wrong)?;
        let (count, paths) = rest.split_once(':').ok_or_else(wrong)?;
        let (resource, count) = (resource.trim().to_owned(), count.trim().parse().map_err(|_| wrong())?);
        let paths: Vec<String> = paths.split(',').map(|path| path.trim().to_owned()).collect();
        if paths.iter().any(|path| !path.starts_with('/')) {
            return Err(wrong());
        }
        if !is_extended(&resource) {
            return Err(format!("{resource:?} is no name of a resource of your own, such as example.com/serial"));
        }
        if all.iter().any(|known| known.resource == resource) {
            return Err(format!("{resource} stands there twice"));
        }
        all.push(Devices { resource, count, paths });
    }
    Ok(all)
}

/// -1: no limit.
pub(super) fn pids_max(text: &str) -> Result<Option<i64>, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(count @ 1..) => Ok(Some(count)),
        _ => Err(format!("{text:?} is no number of processes, such as 1024; -1 is no limit")),
    }
}

/// A DNS subdomain.
pub(super) fn is_node_name(name: &str) -> bool {
    let label = |label: &str| {
        let end = |c: Option<char>| c.is_some_and(|c| c != '-');
        label.len() <= 63
            && end(label.chars().next())
            && end(label.chars().last())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let listen: SocketAddr = text.parse().map_err(|_| format!("{text:?} is not ADDR:PORT, such as 127.0.0.1:10250"))?;
    if listen.ip().is_loopback() {
        return Ok(listen);
    }
    Err(format!(
        "{} is not a loopback address, and this port is for programs of this host alone: use 127.0.0.1",
        listen.ip()
    ))
}

pub(super) fn pod_network(text: &str) -> Result<Owner, String> {
    match text {
        "engine" => Ok(Owner::Engine),
        "own" => Ok(Owner::Own),
        other => Err(format!("{other:?} is neither engine nor own")),
    }
}

pub(super) fn domain(text: &str) -> Result<String, String> {
    let domain = text.trim_end_matches('.').to_ascii_lowercase();
    if is_node_name(&domain) {
        return Ok(domain);
    }
    Err(format!("{domain:?} is not a domain of lower-case letters, digits, '-' and '.'"))
}

/// None: `none`.
pub(super) fn service_cidr(text: &str) -> Result<Option<Cidr>, String> {
    if text == "none" {
        return Ok(None);
    }
    let range = Cidr::parse(text).filter(|range| (8..=28).contains(&range.bits()) && range.to_string() == text);
    range
        .map(Some)
        .ok_or_else(|| format!("{text:?} is neither none nor an IPv4 network of /8 to /28, such as 10.97.0.0/16"))
}

pub(super) fn pod_cidr(text: &str) -> Result<Cidr, String> {
    let is_of_pods = |pods: &Cidr| (8..=29).contains(&pods.bits()) && !pods.first().is_unspecified();
    let pods = Cidr::parse(text).filter(|pods| is_of_pods(pods) && pods.to_string() == text);
    pods.ok_or_else(|| format!("{text:?} is not an IPv4 network of /8 to /29, such as 10.244.0.0/24"))
}
