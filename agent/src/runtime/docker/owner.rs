//! Gives a volume to the group of a pod (`fsGroup`), file by file, as a kubelet does. Containers may write in the
//! volume meanwhile, so every file is reached through the descriptor of its directory, and no link is followed.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Gid, fchownat};

/// Each level takes a descriptor.
const DEPTH_MAX: usize = 512;
/// What the group may do: read and write, enter directories, and what is made in them is its own.
const FILE_MODE: u32 = 0o660;
const FOLDER_MODE: u32 = 0o770;
const SET_GROUP: u32 = 0o2000;

/// `unless_fits`: not where the volume's own directory is the group's already.
pub fn give(volume: &Path, group: u32, unless_fits: bool) -> io::Result<()> {
    let root = open(volume, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    if unless_fits && fits(&root, group)? {
        return Ok(());
    }
    below(&root, group, 0)
}

fn fits(root: &OwnedFd, group: u32) -> io::Result<bool> {
    let found = fstat(root)?;
    let wanted = FOLDER_MODE | SET_GROUP;
    Ok(kind(found.st_mode) == SFlag::S_IFDIR && found.st_gid == group && found.st_mode & wanted == wanted)
}

fn kind(mode: u32) -> SFlag {
    SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits())
}

/// Changes the content of a directory first, then the directory itself.
fn below(item: &OwnedFd, group: u32, depth: usize) -> io::Result<()> {
    let place = format!("/proc/self/fd/{}", item.as_raw_fd());
    if depth > DEPTH_MAX {
        let deepest = fs::read_link(&place).unwrap_or_default();
        let text = format!("it has more than {DEPTH_MAX} directories in each other: {}", deepest.display());
        return Err(io::Error::other(text));
    }
    let mode = fstat(item)?.st_mode;
    let kind = kind(mode);
    if kind == SFlag::S_IFDIR {
        for entry in fs::read_dir(&place)? {
            match openat(
                item,
                entry?.file_name().as_os_str(),
                OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
                Mode::empty(),
            ) {
                Ok(inner) => below(&inner, group, depth + 1)?,
                // The entry was removed meanwhile.
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // What cannot be given away does not hold up the pod: on some file systems nothing can.
    if let Err(error) = fchownat(item, "", None, Some(Gid::from_raw(group)), AtFlags::AT_EMPTY_PATH) {
        log::debug!("give {place} to group {group}: {error}");
    }
    if kind == SFlag::S_IFLNK {
        return Ok(());
    }
    let wanted = if kind == SFlag::S_IFDIR { FOLDER_MODE | SET_GROUP } else { FILE_MODE };
    if let Err(error) = fs::set_permissions(&place, fs::Permissions::from_mode((mode & 0o7777) | wanted)) {
        log::debug!("open {place} to group {group}: {error}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn all_of_a_volume_becomes_the_groups() {
        let root = std::env::temp_dir().join(format!("coracle-owner-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let volume = root.join("volume");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::write(volume.join("a/b/file"), "x").unwrap();
        fs::write(root.join("outside"), "x").unwrap();
        symlink(root.join("outside"), volume.join("link")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let private = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        private(&volume.join("a/b/file"), 0o600);
        private(&volume.join("a"), 0o700);
        private(&root.join("outside"), 0o600);
        // The one group that this process may give files to for certain.
        let group = fs::metadata(&volume).unwrap().gid();
        give(&volume, group, true).unwrap();
        assert_eq!(mode(&volume.join("a")), 0o2770);
        assert_eq!((mode(&volume.join("a/b/file")), mode(&root.join("outside"))), (0o660, 0o600));
        private(&volume.join("a"), 0o700);
        give(&volume, group, true).unwrap();
        assert_eq!(mode(&volume.join("a")), 0o700, "its own directory fits");
        give(&volume, group, false).unwrap();
        assert_eq!(mode(&volume.join("a")), 0o2770);
        fs::remove_dir_all(root).unwrap();
    }
}
