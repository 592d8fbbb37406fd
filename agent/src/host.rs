//! What this host is: its name, size, address and the texts that a node shows.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::statvfs::statvfs;

/// Read once at the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub name: String,
    pub address: String,
    pub cpus: u64,
    pub memory_bytes: u64,
    /// Of the filesystem that pods' directories are on; 0: it cannot be told.
    pub disk_bytes: u64,
    pub machine_id: String,
    pub boot_id: String,
    pub kernel: String,
    pub os_image: String,
    pub app_armor: bool,
}

pub fn name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// systemd is ending the host, and not this program alone.
pub async fn is_stopping() -> bool {
    const ANSWERS: Duration = Duration::from_secs(5);
    let asked = tokio::process::Command::new("systemctl").arg("is-system-running").stdin(Stdio::null()).kill_on_drop(true).output();
    match tokio::time::timeout(ANSWERS, asked).await {
        Ok(Ok(answer)) => answer.stdout.trim_ascii() == b"stopping",
        _ => false,
    }
}

/// `data_dir`: where pods' directories are. `given`: the address that this host is to be known by.
pub fn look(data_dir: &str, given: Option<IpAddr>) -> Host {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Host {
        name: name(),
        address: given.unwrap_or_else(address).to_string(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
        memory_bytes: memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        disk_bytes: statvfs(data_dir).map_or(0, |disk| u64::from(disk.blocks()).saturating_mul(disk.fragment_size())),
        machine_id: line("/etc/machine-id"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        kernel: line("/proc/sys/kernel/osrelease"),
        app_armor: line("/sys/module/apparmor/parameters/enabled") == "Y",
        os_image: pretty_name(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
    }
}

/// The address that other hosts know this one by: where a packet to the world would leave. Nothing is sent.
fn address() -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let outward = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    match outward {
        Ok(address) if !address.ip().is_unspecified() => address.ip(),
        // Without a default route the kernel cannot tell; the first address of a LAN will do.
        _ => first_of_lan(&fs::read_to_string("/proc/net/fib_trie").unwrap_or_default()).map_or(loopback, IpAddr::V4),
    }
}

/// The first address of this host itself in the kernel's table that is neither loopback nor Docker's.
fn first_of_lan(table: &str) -> Option<Ipv4Addr> {
    let mut candidate = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            candidate = address.parse::<Ipv4Addr>().ok();
        } else if line.contains("host LOCAL")
            && let Some(address) = candidate.take()
        {
            let [a, b, ..] = address.octets();
            let dockers = a == 172 && (17..=31).contains(&b);
            if !address.is_loopback() && !dockers {
                return Some(address);
            }
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        assert_eq!(memory_bytes("MemTotal:       24684620 kB\nMemFree: 1 kB\n"), 24_684_620 * 1024);
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"), "Debian GNU/Linux 12 (bookworm)");
        let table =
            "Local:\n  |-- 127.0.0.1\n     /32 host LOCAL\n  |-- 172.17.0.1\n     /32 host LOCAL\n  |-- 192.168.1.7\n     /32 host LOCAL\n";
        assert_eq!(first_of_lan(table), Some(Ipv4Addr::new(192, 168, 1, 7)));
        assert_eq!(first_of_lan(""), None);
    }
}
