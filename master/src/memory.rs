//! The memory that this master may use: the host's, or less if its cgroups have a limit.

use std::fs;
use std::path::{Path, PathBuf};

/// Of the memory the store takes this part: lists of it are written beside it, and whoever else lives on the host needs
/// the rest.
const STORE_SHARE: u64 = 4;
/// The least memory of the store, on the smallest host: some thousand objects.
const STORE_BYTES_MIN: u64 = 64 << 20;

/// How much the store may hold where nobody says it.
pub fn store_share(memory: Option<u64>) -> u64 {
    memory.map_or(STORE_BYTES_MIN, |memory| (memory / STORE_SHARE).max(STORE_BYTES_MIN))
}

/// None: the kernel says nothing.
pub fn granted() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let host = read(Path::new("/proc/meminfo")).and_then(|text| of_host(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(files).filter_map(|file| read(&file)?.trim().parse().ok());
    limits.chain(host).min()
}

fn of_host(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The limit files for a line of `/proc/self/cgroup`: the file of the named control group and the files of all parent
/// groups. A missing file sets no limit.
fn files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    Path::new(group.trim_start_matches('/')).ancestors().map(|group| Path::new(root).join(group).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_but_enough() {
        for (memory_mb, share_mb) in
            [(None, 64), (Some(100), 64), (Some(256), 64), (Some(512), 128), (Some(16_384), 4096)]
        {
            assert_eq!(store_share(memory_mb.map(|mb: u64| mb << 20)), share_mb << 20, "{memory_mb:?}");
        }
    }

    #[test]
    fn what_the_kernel_says() {
        assert_eq!(of_host("MemTotal:         506480 kB\nMemFree:  1 kB\n"), Some(506_480 << 10));
        assert_eq!(of_host("nothing"), None);
        for (line, expected) in [
            (
                "0::/a/b",
                &["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"][..],
            ),
            ("0::/", &["/sys/fs/cgroup/memory.max"]),
            (
                "5:cpu,memory:/a",
                &["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"],
            ),
            ("4:cpu:/a", &[]),
            ("?", &[]),
        ] {
            assert_eq!(files(line), expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{line}");
        }
        assert!(granted().is_some_and(|bytes| bytes > 1 << 20));
    }
}
