//! Mounts, loop devices and folders of a run, which go with it however it ends: everything is mounted in a mount
//! namespace of this process's own, and loop devices are told to go with their mounts.

use super::card::Card;
use nix::mount::{MntFlags, MsFlags};
use nix::sched::CloneFlags;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Folders of runs, named by their process.
const RUNS: &str = "/var/tmp";
const RUN: &str = "coracle-block-";
/// A loop device is let go a moment after its mount.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_SOON: Duration = Duration::from_millis(1);
const TRIES_MAX: usize = 200;

/// A run: a folder on this host's disk, with one in memory inside.
pub struct Host {
    folder: PathBuf,
}

impl Host {
    /// To be called before any thread is started.
    pub fn enter(memory_mb: u64) -> Result<Host, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("needs root (mounts, loop devices)".to_owned());
        }
        nix::sched::unshare(CloneFlags::CLONE_NEWNS).map_err(|e| format!("enter a mount namespace: {e}"))?;
        nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .map_err(|e| format!("make the mounts private: {e}"))?;
        remove_leftovers();
        let folder = Path::new(RUNS).join(format!("{RUN}{}", std::process::id()));
        let host = Host { folder };
        let memory = host.memory();
        fs::create_dir_all(&memory).map_err(|e| format!("{}: {e}", memory.display()))?;
        let size = format!("size={memory_mb}m,mode=0700");
        nix::mount::mount(Some("tmpfs"), &memory, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
            .map_err(|e| format!("tmpfs: {e}"))?;
        Ok(host)
    }

    /// A folder on this host's disk.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(folder)
    }

    /// A folder in memory.
    pub fn memory(&self) -> PathBuf {
        self.folder.join("memory")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.memory(), MntFlags::MNT_DETACH);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Folders of runs that were killed; their mounts went with them.
fn remove_leftovers() {
    for entry in fs::read_dir(RUNS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(RUN) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        }
    }

    /// The smallest disk that mkfs takes, and some room.
    pub fn megabytes(self) -> u64 {
        match self {
            Kind::Ext4 => 64,
            Kind::Xfs => 320,
        }
    }

    /// A fresh file system in a file or on a card; a mistake of paths ends in an error, not in somebody's disk.
    pub fn make(self, image: &Path) -> Result<(), String> {
        if !image.starts_with(RUNS) || !image.metadata().is_ok_and(|m| m.is_file()) {
            return Err(format!("{}: no image of ours", image.display()));
        }
        let mut command = match self {
            // Nothing is left for the kernel to write later: what reaches the device is the store's.
            Kind::Ext4 => {
                let mut command = Command::new("mkfs.ext4");
                command.args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
                // Small files want many inodes.
                command.args(["-i", "8192"]);
                command
            }
            Kind::Xfs => {
                let mut command = Command::new("mkfs.xfs");
                command.args(["-q", "-f", "-K"]);
                command
            }
        };
        run(command.arg(image)).map(drop)
    }
}

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    pub at: PathBuf,
    /// `loop7`, as `/sys/block` names it.
    pub device: String,
    /// What lies below goes after it.
    card: Option<Card>,
}

impl Mounted {
    pub fn image(kind: Kind, image: &Path, at: &Path) -> Result<Mounted, String> {
        fs::create_dir_all(at).map_err(|e| format!("{}: {e}", at.display()))?;
        // nouuid: an image of a file system that is mounted elsewhere is no mistake here.
        let options = if kind == Kind::Xfs { "loop,noatime,nouuid" } else { "loop,noatime" };
        run(Command::new("mount").args(["-t", kind.name(), "-o", options]).arg(image).arg(at))?;
        let mut mounted = Mounted { at: at.to_owned(), device: String::new(), card: None };
        let source = run(Command::new("findmnt").args(["-n", "-o", "SOURCE", "--mountpoint"]).arg(at))?;
        mounted.device =
            source.trim().strip_prefix("/dev/").ok_or_else(|| format!("mounted from {source}"))?.to_owned();
        let backing = mounted.backing();
        if Path::new(&backing) != image {
            return Err(format!("{} lies on {backing:?} and not on {}", mounted.device, image.display()));
        }
        Ok(mounted)
    }

    pub fn card(kind: Kind, card: Card, at: &Path) -> Result<Mounted, String> {
        kind.make(&card.image())?;
        Mounted::made(kind, card, at)
    }

    /// A card that holds a file system already.
    pub fn made(kind: Kind, card: Card, at: &Path) -> Result<Mounted, String> {
        let mut mounted = Mounted::image(kind, &card.image(), at)?;
        mounted.card = Some(card);
        Ok(mounted)
    }

    /// The record, and what the test says in it.
    pub fn mark(&self, text: &str) -> Result<(), String> {
        self.card.as_ref().map_or(Ok(()), |card| card.mark(text))
    }

    /// Its disk takes nothing of the store's any more, or does again.
    pub fn fail(&self, fails: bool) -> Result<(), String> {
        self.card.as_ref().map_or_else(|| Err("it lies on no card".to_owned()), |card| card.fail(fails))
    }

    /// A slow disk takes no time from now on, or its own again.
    pub fn hurry(&self, hurries: bool) -> Result<(), String> {
        self.card.as_ref().map_or(Ok(()), |card| card.hurry(hurries))
    }

    /// As an administrator, or the kernel after an error, would do it.
    pub fn remount(&self, read_only: bool) -> Result<(), String> {
        run(Command::new("mount").args(["-o", if read_only { "remount,ro" } else { "remount,rw" }]).arg(&self.at))
            .map(drop)
    }

    /// The page cache of the file below is passed by: what the device is told reaches the disk below when it is told.
    pub fn direct(&self) -> Result<(), String> {
        run(Command::new("losetup").arg("--direct-io=on").arg(format!("/dev/{}", self.device))).map(drop)
    }
}

impl Mounted {
    /// The file below the loop device; empty: it has none any more.
    fn backing(&self) -> String {
        let path = format!("/sys/block/{}/loop/backing_file", self.device);
        fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let backing = self.backing();
        for _ in 0..TRIES_MAX {
            match nix::mount::umount2(&self.at, MntFlags::empty()) {
                Err(nix::errno::Errno::EBUSY) => std::thread::sleep(AGAIN),
                // The next mount of the same file would get this device with what it remembers.
                _ if !self.device.is_empty() && self.backing() == backing => std::thread::sleep(AGAIN_SOON),
                _ => return,
            }
        }
        eprintln!("{} stays busy; it goes with this process", self.at.display());
        let _ = nix::mount::umount2(&self.at, MntFlags::MNT_DETACH);
    }
}

/// A program that must succeed; its output.
pub fn run(command: &mut Command) -> Result<String, String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = command.env("PATH", path).stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{command:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
