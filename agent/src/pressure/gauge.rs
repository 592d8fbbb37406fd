//! Measures: what is left of this host's memory and disks, and how full directories are.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use super::thresholds::Level;
use crate::figures::files;

/// The kernel tells when processes have waited for memory for a tenth of a second within one: no other program needs to
/// look then.
const STALL: &str = "some 100000 1000000";
/// A tree with more entries is as full as these make it.
const ENTRIES_MAX: usize = 1_000_000;

/// The memory that is free, or could be freed at once.
pub fn memory() -> Option<Level> {
    let usage = files::host()?;
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let capacity = total.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.saturating_mul(1024);
    Some(Level { available: capacity.saturating_sub(usage.working_set), capacity })
}

/// Of processes and threads: how many the kernel lets there be, and how many more.
pub fn processes() -> Option<Level> {
    let read = |path: &str| fs::read_to_string(path).ok();
    processes_of(&read("/proc/loadavg")?, &read("/proc/sys/kernel/pid_max")?, &read("/proc/sys/kernel/threads-max")?)
}

/// `0.20 0.18 0.12 1/80 11206`: behind the slash stand all threads there are.
fn processes_of(load: &str, pid_max: &str, threads_max: &str) -> Option<Level> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let there = number(load.split_whitespace().nth(3)?.split_once('/')?.1)?;
    let capacity = number(pid_max)?.min(number(threads_max)?);
    Some(Level { available: capacity.saturating_sub(there), capacity })
}

/// Bytes and files of the file system that a path is on.
pub fn disk(path: &str) -> Option<(Level, Level)> {
    let disk = files::disk(path)?;
    let bytes = Level { available: disk.free, capacity: disk.bytes };
    Some((bytes, Level { available: disk.files_free, capacity: disk.files }))
}

/// The disk space of a tree, without other file systems in it; a file with several names counts once. Ends early above
/// `enough`.
pub fn tree(path: &str, enough: u64) -> u64 {
    let Ok(top) = fs::symlink_metadata(path) else { return 0 };
    let (mut sum, mut entries) = (0_u64, 0_usize);
    let mut twice = BTreeSet::new();
    let mut folders = vec![Path::new(path).to_owned()];
    while let Some(folder) = folders.pop() {
        // What goes away meanwhile takes nothing.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
            entries += 1;
            if found.dev() != top.dev() || (found.nlink() > 1 && !found.is_dir() && !twice.insert(found.ino())) {
                continue;
            }
            sum = sum.saturating_add(found.blocks().saturating_mul(512));
            if sum > enough || entries > ENTRIES_MAX {
                return sum;
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    sum
}

/// Bytes of a log and of the older ones beside it: `PATH`, `PATH.1`.
pub fn log(path: &str) -> u64 {
    let size = |path: &str| fs::metadata(path).map(|found| found.blocks().saturating_mul(512)).ok();
    let older = (1..).map_while(|number| size(&format!("{path}.{number}")));
    size(path).unwrap_or(0).saturating_add(older.sum())
}

/// Rings when processes wait for memory. A kernel that does not tell (`psi=0`) never rings.
pub struct Alarm(Option<AsyncFd<File>>);

impl Alarm {
    pub fn open() -> Alarm {
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open("/proc/pressure/memory");
        let asked = opened.and_then(|mut file| file.write_all(format!("{STALL}\0").as_bytes()).map(|()| file));
        #[expect(deprecated, reason = "the safe one of two: a File keeps its descriptor")]
        let armed = asked.and_then(|file| AsyncFd::with_interest(file, Interest::PRIORITY));
        Alarm(armed.map_err(|error| log::debug!("the kernel does not tell of pressure: {error}")).ok())
    }

    pub async fn rings(&self) {
        let Some(fd) = &self.0 else { return std::future::pending().await };
        match fd.ready(Interest::PRIORITY).await {
            Ok(mut guard) => guard.clear_ready_matching(Ready::PRIORITY),
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_against_the_lower_limit() {
        let level = Level { available: 31_688, capacity: 31_768 };
        assert_eq!(processes_of("0.20 0.18 0.12 1/80 11206\n", "32768\n", "31768\n"), Some(level));
        assert_eq!(
            processes_of("0.20 0.18 0.12 1/40000 1\n", "32768\n", "63536\n"),
            Some(Level { available: 0, capacity: 32_768 })
        );
        assert_eq!(processes_of("nonsense", "1", "1"), None);
        assert!(processes().is_some_and(|level| 0 < level.available && level.available < level.capacity));
    }

    #[test]
    fn a_tree_is_what_its_files_take() {
        let folder = std::env::temp_dir().join(format!("coracle-gauge-{}", std::process::id()));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("one"), vec![1; 64 * 1024]).unwrap();
        fs::write(folder.join("below/two"), vec![1; 64 * 1024]).unwrap();
        fs::hard_link(folder.join("one"), folder.join("same")).unwrap();
        File::open(&folder).unwrap().sync_all().unwrap();
        let path = folder.to_str().unwrap();
        let all = tree(path, u64::MAX);
        assert!((128 * 1024..256 * 1024).contains(&all), "{all}");
        assert!(tree(path, 1000) < all, "ends early");
        assert_eq!(tree("/nowhere", 1), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
