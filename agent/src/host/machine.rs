//! Facts about this host: its name, size, address and the texts that a node shows.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use coracle_api::strategy::Cidr;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::statvfs::statvfs;

use crate::facts::huge_pages::{self, HugePages};

/// Read once at the start. The module `address` reports a changed address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub name: String,
    pub address: String,
    pub cpus: u64,
    pub memory_bytes: u64,
    /// Whoever is root here may make processes the last that the kernel ends for lack of memory.
    pub spares_processes: bool,
    /// The size of the file system of pods' directories; 0: unknown.
    pub disk_bytes: u64,
    pub machine_id: String,
    pub boot_id: String,
    /// How long it has been up.
    pub up_ms: Option<i64>,
    pub kernel: String,
    pub os_image: String,
    pub app_armor: bool,
    /// Set aside when this program started.
    pub huge_pages: HugePages,
}

pub fn name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// systemd is ending the host, and not this program alone.
pub async fn is_stopping() -> bool {
    const ANSWERS: Duration = Duration::from_secs(5);
    let asked = tokio::process::Command::new("systemctl")
        .arg("is-system-running")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(ANSWERS, asked).await {
        Ok(Ok(answer)) => answer.stdout.trim_ascii() == b"stopping",
        _ => false,
    }
}

/// `data_dir`: where pods' directories are. `given`: the address that this host is to be known by. `pods`: the pod
/// CIDR, if it is known.
pub fn look(data_dir: &str, given: Option<IpAddr>, pods: Option<Cidr>) -> Host {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Host {
        name: name(),
        address: given.unwrap_or_else(|| address(pods)).to_string(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
        memory_bytes: memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        spares_processes: spares_processes(&fs::read_to_string("/proc/1/status").unwrap_or_default()),
        #[allow(clippy::useless_conversion, reason = "on 32 bits a number of blocks has 32 of them")]
        disk_bytes: statvfs(data_dir).map_or(0, |disk| u64::from(disk.blocks()).saturating_mul(disk.fragment_size())),
        machine_id: line("/etc/machine-id"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        up_ms: up_ms(&line("/proc/uptime")),
        kernel: line("/proc/sys/kernel/osrelease"),
        app_armor: line("/sys/module/apparmor/parameters/enabled") == "Y",
        huge_pages: huge_pages(),
        os_image: pretty_name(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
    }
}

/// Seconds with a fraction, and how long the processors were idle.
fn up_ms(text: &str) -> Option<i64> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1000.0) as i64)
}

/// Empty for a kernel without huge pages.
fn huge_pages() -> HugePages {
    let folders = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().filter_map(Result::ok);
    let of = |folder: fs::DirEntry| {
        let pages = fs::read_to_string(folder.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        huge_pages::resource(folder.file_name().to_str()?, pages)
    };
    folders.filter_map(of).collect()
}

/// A host that is on no network is known to its own pods alone, by the first address of theirs.
fn address(pods: Option<Cidr>) -> IpAddr {
    outward().unwrap_or_else(|| pods.map_or(Ipv4Addr::LOCALHOST.into(), gateway))
}

/// This host's address to other hosts: the source address of a packet to the internet. Nothing is sent. None: the host
/// is on no network.
pub fn outward() -> Option<IpAddr> {
    let outward = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    match outward {
        Ok(address) if !address.ip().is_unspecified() => Some(address.ip()),
        // Without a default route the kernel cannot tell; the first address of a LAN will do.
        _ => first_of_lan(&interfaces()).map(IpAddr::V4),
    }
}

/// Interfaces that are up, and their addresses.
fn interfaces() -> Vec<(String, Ipv4Addr)> {
    let up = getifaddrs().into_iter().flatten().filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|one| Some((one.interface_name, one.address?.as_sockaddr_in()?.ip()))).collect()
}

/// Neither loopback, nor what Docker or this agent has made.
fn first_of_lan(interfaces: &[(String, Ipv4Addr)]) -> Option<Ipv4Addr> {
    const MADE: &[&str] = &["lo", "docker", "br-", "veth", "coracle", "podman", "cni"];
    let lan = |(name, address): &&(String, Ipv4Addr)| {
        !address.is_loopback() && !MADE.iter().any(|made| name.starts_with(made))
    };
    interfaces.iter().find(lan).map(|(_, address)| *address)
}

/// By the text of /proc/1/status: a host that is a container often lacks the capability, and nobody in it gets it back.
fn spares_processes(status: &str) -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    bounds
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|bits| bits >> CAP_SYS_RESOURCE & 1 == 1)
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

fn pretty_name(release: &str) -> String {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map(|name| name.trim_matches('"').to_owned()).unwrap_or_default()
}

/// The address of this host in the range of its pods.
pub fn gateway(pods: Cidr) -> IpAddr {
    pods.nth(0).unwrap_or(pods.first()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        assert!(spares_processes("Name:\tsystemd\nCapBnd:\t000001ffffffffff\n"));
        assert!(!spares_processes("CapBnd:\t000001fffeffffff\n") && !spares_processes(""));
        assert_eq!(memory_bytes("MemTotal:       24684620 kB\nMemFree: 1 kB\n"), 24_684_620 * 1024);
        assert_eq!(
            pretty_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
        let names = |names: &[&str]| -> Vec<(String, Ipv4Addr)> {
            names.iter().zip(1..).map(|(name, last)| ((*name).to_owned(), Ipv4Addr::new(192, 168, 1, last))).collect()
        };
        assert_eq!(
            first_of_lan(&names(&["docker0", "coracle0", "veth1", "eth0"])),
            Some(Ipv4Addr::new(192, 168, 1, 4))
        );
        assert_eq!(first_of_lan(&names(&["lo", "br-12"])), None);
    }
}
