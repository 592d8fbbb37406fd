//! Measures: what is left of this host's memory and disks.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use crate::facts::thresholds::Level;
use crate::host::files;
use crate::host::tree::TreeSize;

/// The kernel tells when processes have waited for memory for a tenth of a second within one: no other program needs to
/// look then.
const STALL: &str = "some 100000 1000000";

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

/// Whether two paths are on one disk. If a path cannot be read, true: a removal from either path may help.
pub fn same_disk(one: &str, other: &str) -> bool {
    let device = |path: &str| fs::metadata(path).ok().map(|found| found.dev());
    device(one).zip(device(other)).is_none_or(|(one, other)| one == other)
}

/// Bytes of a log file and the rotated log files: `PATH`, `PATH.1`.
pub fn log(path: &str) -> u64 {
    let size = |path: &str| fs::metadata(path).map(|found| found.blocks().saturating_mul(512)).ok();
    let older = (1..).map_while(|number| size(&format!("{path}.{number}")));
    size(path).unwrap_or(0).saturating_add(older.sum())
}

/// The disk usage of files. A missing file takes nothing, and links are not followed.
pub fn files(paths: &BTreeSet<String>) -> TreeSize {
    let found = paths.iter().filter_map(|path| fs::symlink_metadata(path).ok()).filter(fs::Metadata::is_file);
    found
        .fold(TreeSize::default(), |sum, file| sum.and(TreeSize { bytes: file.blocks().saturating_mul(512), files: 1 }))
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
    fn files_count_once_and_links_never() {
        let folder = std::env::temp_dir().join(format!("coracle-gauge-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let mut file = File::create(path("hosts")).unwrap();
        file.write_all(&[b'x'; 65_536]).and_then(|()| file.sync_all()).unwrap();
        std::os::unix::fs::symlink(path("hosts"), path("link")).unwrap();
        let taken = super::files(&[path("hosts"), path("hosts"), path("link"), path("none")].into());
        fs::remove_dir_all(&folder).unwrap();
        assert!(taken.files == 1 && taken.bytes >= 65_536 && taken.bytes < 2 * 65_536, "{taken:?}");
    }

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
}
