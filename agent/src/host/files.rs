//! Reads the kernel's files about containers and the host.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::facts::usage::{Interface, Texts, Usage, interfaces, mounted_from, of_host, of_v1, of_v2};

const ROOT: &str = "/sys/fs/cgroup";
/// How much of a file in `/proc` or `/sys` is read: a container adds a line with each interface, mount and process.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where engines put the group of a container, by their drivers; before and behind its id.
const PLACES: [(&str, &str); 4] = [
    ("docker/", ""),
    ("system.slice/docker-", ".scope"),
    ("machine.slice/libpod-", ".scope"),
    ("libpod_parent/libpod-", ""),
];

pub fn host() -> Option<Usage> {
    of_host(&text("/proc/stat"), &text("/proc/meminfo"), &text("/proc/vmstat"))
}

/// This process: processor time in seconds, memory in bytes, open descriptors.
pub fn own() -> Option<(f64, u64, u64)> {
    let stat = text("/proc/self/stat");
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    // Hundredths of a second.
    let seconds = (number(11)? + number(12)?) as f64 / 100.0;
    let status = text("/proc/self/status");
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse::<u64>().ok()?
            * 1024;
    Some((seconds, resident, fs::read_dir("/proc/self/fd").map(|all| all.count() as u64).unwrap_or_default()))
}

/// Bytes of the file system that a path is on: all, and what is free to use; and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    pub bytes: u64,
    pub free: u64,
    pub files: u64,
    pub files_free: u64,
}

impl Disk {
    pub fn used(&self) -> u64 {
        self.bytes.saturating_sub(self.free)
    }

    pub fn files_used(&self) -> u64 {
        self.files.saturating_sub(self.files_free)
    }
}

pub fn disk(path: &str) -> Option<Disk> {
    let found = nix::sys::statvfs::statvfs(path).ok()?;
    let unit = found.fragment_size();
    let bytes = |blocks: u64| blocks * unit;
    Some(Disk {
        bytes: bytes(found.blocks()),
        free: bytes(found.blocks_available()),
        files: found.files(),
        files_free: found.files_available(),
    })
}

/// The block device of the mount below which the path lies.
pub fn device(path: &str) -> String {
    mounted_from(&text("/proc/self/mounts"), path)
}

/// None: the group is where nobody would look for it.
pub fn container(id: &str) -> Option<Usage> {
    let folder = |controller: &str| group(controller, id);
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        let of = folder("")?;
        let read = |name: &str| text(of.join(name));
        return of_v2(&Texts {
            cpu: read("cpu.stat"),
            memory: read("memory.current"),
            memory_stat: read("memory.stat"),
            swap: read("memory.swap.current"),
            memory_limit: read("memory.max"),
            cpu_limit: read("cpu.max"),
            io: read("io.stat"),
            ..Texts::default()
        });
    }
    let (time, memory) = (folder("cpuacct").or_else(|| folder("cpu,cpuacct"))?, folder("memory")?);
    let of = |folder: &Option<PathBuf>, name: &str| {
        folder.as_ref().map(|folder| text(folder.join(name))).unwrap_or_default()
    };
    let (cpu, disks) = (folder("cpu").or_else(|| folder("cpu,cpuacct")), folder("blkio"));
    of_v1(&Texts {
        cpu: text(time.join("cpuacct.usage")),
        throttle: of(&cpu, "cpu.stat"),
        memory: text(memory.join("memory.usage_in_bytes")),
        memory_stat: text(memory.join("memory.stat")),
        memory_limit: text(memory.join("memory.limit_in_bytes")),
        cpu_limit: of(&cpu, "cpu.cfs_quota_us") + &of(&cpu, "cpu.cfs_period_us"),
        io: of(&disks, "blkio.throttle.io_service_bytes"),
        io_counts: of(&disks, "blkio.throttle.io_serviced"),
        ..Texts::default()
    })
}

/// Processes and threads of a container. None: they are not counted here.
pub fn processes(id: &str) -> Option<u64> {
    let folder = ["", "pids"].into_iter().find_map(|controller| group(controller, id))?;
    text(folder.join("pids.current")).trim().parse().ok()
}

/// The network interfaces of a container, as its first process sees them.
pub fn network(id: &str) -> Vec<Interface> {
    let found = ["", "memory"].into_iter().find_map(|controller| group(controller, id));
    let processes = found.map(|folder| text(folder.join("cgroup.procs"))).unwrap_or_default();
    let Some(pid) = processes.lines().next().and_then(|pid| pid.trim().parse::<u32>().ok()) else { return Vec::new() };
    interfaces(&text(format!("/proc/{pid}/net/dev")))
}

fn group(controller: &str, id: &str) -> Option<PathBuf> {
    let root = Path::new(ROOT).join(controller);
    PLACES.iter().map(|(before, behind)| root.join(format!("{before}{id}{behind}"))).find(|folder| folder.is_dir())
}

/// Empty: it cannot be read, as of a container that ends at this moment.
fn text(path: impl AsRef<Path>) -> String {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map(|_| text).unwrap_or_default()
}
