//! The values of options. PURE.

use super::SecureClients;
use crate::audit::AuditLevel;
use crate::cluster_keys::names::is_name;
use coracle_api::strategy::Cidr;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Seconds of the shortest: less than one lost message would make a node look dead.
const GRACE_MIN_S: u64 = 5;
const GRACE_MAX_S: u64 = 3600;
/// Addresses of the largest service network, a /12: more would only make the search for a free one longer.
const SERVICES_MAX: u32 = 1 << 20;
/// Of the smallest, a /30.
const SERVICES_MIN: u32 = 2;
/// A certificate has room for some hundred names.
const TLS_NAMES_MAX: usize = 64;

pub(super) fn path(value: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err("must be an absolute path: a file says nothing of where it is read from".to_owned())
    }
}

pub(super) fn address(value: &str) -> Result<SocketAddr, String> {
    let value = value.replacen("localhost:", "127.0.0.1:", 1);
    value.parse().map_err(|_| "must be an address and a port, like 127.0.0.1:8080".to_owned())
}

pub(super) fn secure_clients(value: &str) -> Result<SecureClients, String> {
    match value {
        "host" => Ok(SecureClients::Host),
        "network" => Ok(SecureClients::Network),
        _ => Err("must be host or network".to_owned()),
    }
}

pub(super) fn audit_level(value: &str) -> Result<AuditLevel, String> {
    match value {
        "off" => Ok(AuditLevel::Off),
        "writes" => Ok(AuditLevel::Writes),
        "all" => Ok(AuditLevel::All),
        _ => Err("must be off, writes or all".to_owned()),
    }
}

pub(super) fn listen(value: &str) -> Result<SocketAddr, String> {
    let address = address(value)?;
    if !address.ip().is_loopback() {
        return Err(
            "only loopback addresses are served in plain HTTP: whoever reaches the port may do everything".to_owned()
        );
    }
    Ok(address)
}

pub(super) fn cidr(value: &str) -> Result<Cidr, String> {
    let cidr = Cidr::parse(value).ok_or_else(|| "must be an IPv4 network, like 10.96.0.0/16".to_owned())?;
    if cidr.to_string() != value {
        return Err(format!("the address is inside the network, which is {cidr}"));
    }
    if !(SERVICES_MIN..SERVICES_MAX).contains(&cidr.usable()) {
        return Err("the prefix must be between /12 and /30".to_owned());
    }
    Ok(cidr)
}

pub(super) fn domain(value: &str) -> Result<String, String> {
    match is_name(value) && !value.starts_with("*.") {
        true => Ok(value.to_ascii_lowercase()),
        false => Err("must be a name of DNS, like cluster.local".to_owned()),
    }
}

/// `NAME,ADDRESS`.
pub(super) fn tls_names(value: &str) -> Result<Vec<String>, String> {
    let names: Vec<&str> = value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.len() > TLS_NAMES_MAX {
        return Err(format!("{} names, at most {TLS_NAMES_MAX}", names.len()));
    }
    match names.iter().find(|name| name.parse::<IpAddr>().is_err() && !is_name(name)) {
        Some(name) => Err(format!("{name:?} is no name of DNS and no address")),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

pub(super) fn yes(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("must be yes or no".to_owned()),
    }
}

/// `50s` or `5m`, as Kubernetes writes it.
pub(super) fn grace(value: &str) -> Result<Duration, String> {
    let factor = match value.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        _ => return Err("must be a number of seconds or minutes, like 50s or 5m".to_owned()),
    };
    let seconds = value[..value.len() - 1].parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let seconds = seconds.filter(|seconds| (GRACE_MIN_S..=GRACE_MAX_S).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("must be between {GRACE_MIN_S}s and {}m", GRACE_MAX_S / 60))
}

/// `128M`, as systemd writes it.
pub(super) fn bytes(value: &str) -> Result<u64, String> {
    let shift = match value.chars().last() {
        Some('M') => 20,
        Some('G') => 30,
        _ => return Err("must be a number of megabytes or gigabytes, like 128M or 2G".to_owned()),
    };
    let number =
        value[..value.len() - 1].parse::<u64>().ok().filter(|number| *number > 0 && *number < u64::from(u32::MAX));
    number
        .map(|number| number << shift)
        .ok_or_else(|| "must be a whole number with M or G behind it, like 128M".to_owned())
}
