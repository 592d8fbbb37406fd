//! Which file system a path is on, so that it is recognized after a reboot: `facts/disk`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, makedev, minor, statvfs};

use crate::facts::disk::{Disk, has_stable_fsid, mount_of, unescaped};

const MOUNTS: &str = "/proc/self/mountinfo";
const UUIDS: &str = "/dev/disk/by-uuid";
const LABELS: &str = "/dev/disk/by-label";
/// Links of udev that are read.
const LINKS_MAX: usize = 1024;

/// The file system of a path; of a missing path that of the nearest folder above. It may hang with the file system.
pub fn look(path: &Path) -> io::Result<Disk> {
    let there = path.ancestors().find_map(|path| fs::canonicalize(path).ok());
    let there = there.ok_or_else(|| io::Error::other("no folder above it is there"))?;
    let mounts = fs::read_to_string(MOUNTS)?;
    let mount = mount_of(&mounts, &there.to_string_lossy());
    let mount = mount.ok_or_else(|| io::Error::other(format!("{MOUNTS} has no mount of {}", there.display())))?;
    let fsid = if has_stable_fsid(&mount.kind) { Some(statvfs(&there)?.f_fsid) } else { None };
    // Of btrfs the kernel tells a device that no other file has.
    let device = match mount.major {
        0 => fs::metadata(&mount.source).ok().map(|device| device.rdev()),
        _ => Some(makedev(mount.major, mount.minor)),
    };
    let device = device.filter(|device| (major(*device), minor(*device)) != (0, 0));
    Ok(Disk {
        uuid: device.and_then(|device| name_of(UUIDS, device)),
        label: device.and_then(|device| name_of(LABELS, device)),
        fsid: fsid.filter(|fsid| *fsid != 0).map(|fsid| format!("{fsid:016x}")),
        kind: mount.kind,
        source: mount.source,
        mount_point: mount.mount_point,
    })
}

/// The name of the link of udev that leads to a device.
fn name_of(folder: &str, device: u64) -> Option<String> {
    let links = fs::read_dir(folder).ok()?.filter_map(Result::ok).take(LINKS_MAX);
    let mut own = links.filter(|link| fs::metadata(link.path()).is_ok_and(|found| found.rdev() == device));
    own.next().map(|link| unescaped(&link.file_name().to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_what_is_missing_below_it_are_on_one_disk() {
        let here = look(&std::env::temp_dir()).unwrap();
        let missing = look(&std::env::temp_dir().join("coracle-none/of/these")).unwrap();
        assert_eq!(here, missing);
        assert!(!here.kind.is_empty() && here.mount_point.starts_with('/') && !here.differs(&missing));
        assert!(look(Path::new("/proc/self")).unwrap().differs(&here), "another file system");
    }
}
