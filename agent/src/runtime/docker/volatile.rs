//! The file system of the volumes in memory: a separate tmpfs with a size limit, so that pods cannot use up the room in
//! `/run`.
//!
//! It is mounted where nothing stands yet. After an upgrade the folders of pods that run stay where their containers
//! have them, until the next start of the host.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use super::connection::{Docker, Settings, held};
use super::memory;
use super::subpath::{self, propagates};
use super::volumes::{blocking, disk};
use crate::facts::engine::Failure;
use crate::facts::naming::volatile_dir;

/// As much of the host's memory as Debian gives to `/run` itself. `mode`: whoever may not be root sees no name in it.
const OPTIONS: &str = "size=10%,mode=0700";

impl Docker {
    /// Called before the first file is written there. If the mount fails, a plain folder in `/run` is used.
    pub(super) fn make_volatile(&self) {
        let mut made = held(&self.volatile);
        if !*made {
            let path = volatile_dir(&self.settings.run_dir, &self.settings.node_name);
            if let Err(error) = make(Path::new(&path)) {
                log::warn!(
                    "mount a file system of its own at {path}: {error}; volumes in memory take room from the one above \
                     it"
                );
            }
            *made = true;
        }
    }

    /// Removes the pod's volumes in memory below former names of this node. No second agent on this host has a pod with
    /// the same uid.
    pub(super) async fn remove_of_former_names(&self, uid: &str) -> Result<(), Failure> {
        let Settings { run_dir, node_name, .. } = &self.settings;
        let own = PathBuf::from(volatile_dir(run_dir, node_name));
        let Ok(names) = fs::read_dir(own.parent().unwrap_or(&own)) else { return Ok(()) };
        let others: Vec<PathBuf> = names.flatten().map(|entry| entry.path()).filter(|path| *path != own).collect();
        for other in others {
            let (places, in_memory) = (other.join("subpaths").join(uid), other.join("pods").join(uid));
            if !places.exists() && !in_memory.exists() {
                continue;
            }
            let folder = in_memory.clone();
            blocking(move || {
                subpath::release(&places).map_err(|error| disk("release", &places, &error))?;
                memory::release(&in_memory).map_err(|error| disk("release", &in_memory, &error))
            })
            .await?;
            self.remove_trees(vec![folder]).await?;
        }
        Ok(())
    }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let path = path.canonicalize()?;
    if holds_something(&path)? {
        return Ok(());
    }
    let mounts = fs::read("/proc/self/mountinfo")?;
    if is_mounted(&mounts, &path) {
        return Ok(());
    }
    if !propagates(&mounts, &path) {
        return Err(io::Error::other("the engine would not see it"));
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("coracle"), &path, Some("tmpfs"), flags, Some(OPTIONS))?)
}

/// A folder of folders without anything in it holds nothing.
fn holds_something(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || fs::read_dir(entry.path())?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Paths in the kernel's table have a blank as `\040`; a node's name has none.
fn is_mounted(mountinfo: &[u8], path: &Path) -> bool {
    let text = String::from_utf8_lossy(mountinfo);
    text.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_there_stays() {
        let path = std::env::temp_dir().join(format!("coracle-volatile-{}", std::process::id()));
        fs::create_dir_all(path.join("pods")).unwrap();
        assert!(!holds_something(&path).unwrap());
        fs::create_dir(path.join("pods/u")).unwrap();
        assert!(holds_something(&path).unwrap());
        make(&path).unwrap();
        assert!(path.join("pods/u").is_dir() && !is_mounted(&fs::read("/proc/self/mountinfo").unwrap(), &path));
        fs::remove_dir_all(&path).unwrap();
        let table = "36 35 0:30 / /run rw shared:5 - tmpfs tmpfs rw\n\
                     37 36 0:31 / /run/coracle/volumes/n1 rw - tmpfs coracle rw\n"
            .as_bytes();
        assert!(is_mounted(table, Path::new("/run/coracle/volumes/n1")));
        assert!(!is_mounted(table, Path::new("/run/coracle/volumes/n")));
    }

    /// Needs the right to mount; where this process has it not, there is nothing to see.
    #[test]
    fn an_empty_place_gets_a_file_system_once() {
        let path = std::env::temp_dir().join(format!("coracle-own-volatile-{}", std::process::id()));
        fs::create_dir_all(path.join("subpaths")).unwrap();
        if make(&path).is_err() {
            return fs::remove_dir_all(&path).unwrap();
        }
        let mounted = || {
            let mounts = fs::read("/proc/self/mountinfo").unwrap();
            String::from_utf8(mounts).unwrap().lines().filter(|line| line.contains(path.to_str().unwrap())).count()
        };
        let after_one = mounted();
        make(&path).unwrap();
        fs::write(path.join("kept"), "x").unwrap();
        make(&path).unwrap();
        let (after_three, kept) = (mounted(), path.join("kept").exists());
        nix::mount::umount(&path).unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert_eq!((after_one, after_three, kept), (1, 1, true));
    }
}
