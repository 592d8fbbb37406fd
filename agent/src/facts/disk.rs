//! Which file system the data of a claim lies on, and whether a directory lies on the same one. PURE.
//!
//! A device number changes with the order in which disks are found. A UUID stays over reboots, fsck and resize, and so
//! do the name of a share and the `f_fsid` of ext and btrfs, which the kernel makes of the UUID. A restored image of a
//! disk has the UUID of the disk that it was taken from, and counts as that disk.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds that have no UUID here, and whose source is a name that stays.
const NAMED_BY_SOURCE: [&str; 9] = ["nfs", "cifs", "9p", "virtiofs", "ceph", "zfs", "fuse", "afs", "lustre"];
/// Kinds whose `f_fsid` comes from the UUID. The kernel makes that of others from the device number.
const FSID_IS_STABLE: [&str; 2] = ["ext", "btrfs"];

/// A file system as it is recognized again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Disk {
    /// As the kernel calls it: `ext4`, `nfs4`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsid: Option<String>,
    /// The device or the share.
    pub source: String,
    /// Where it was mounted when it was recorded.
    pub mount_point: String,
}

/// A line of the kernel's list of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskMount {
    pub major: u32,
    pub minor: u32,
    pub mount_point: String,
    pub kind: String,
    pub source: String,
}

/// The mount that a path is on. `mounts`: /proc/self/mountinfo.
pub fn mount_of(mounts: &str, path: &str) -> Option<DiskMount> {
    let within = |mount: &str| {
        let rest = path.strip_prefix(mount.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // The last mount at a place covers earlier mounts.
    mounts.lines().filter_map(mount).filter(|mount| within(&mount.mount_point)).max_by_key(|one| one.mount_point.len())
}

/// The mount points below a directory.
pub fn mounted_below(mounts: &str, directory: &str) -> Vec<String> {
    let below = format!("{}/", directory.trim_end_matches('/'));
    mounts.lines().filter_map(mount).map(|mount| mount.mount_point).filter(|place| place.starts_with(&below)).collect()
}

fn mount(line: &str) -> Option<DiskMount> {
    let (place, device) = line.split_once(" - ")?;
    let mut place = place.split(' ');
    let (major, minor) = place.nth(2)?.split_once(':')?;
    let mount_point = unescaped(place.nth(1)?);
    let mut device = device.split(' ');
    let (kind, source) = (device.next()?.to_owned(), unescaped(device.next()?));
    Some(DiskMount { major: major.parse().ok()?, minor: minor.parse().ok()?, mount_point, kind, source })
}

/// The kernel writes a space as `\040`; udev, in names of links, as `\x20`.
pub fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = |digits: &[u8], radix| {
            std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, radix).ok())
        };
        let (byte, length) = match (first, after) {
            (b'\\', [b'x', high, low, ..]) => (code(&[*high, *low], 16), 4),
            (b'\\', [a, b, c, ..]) => (code(&[*a, *b, *c], 8), 4),
            _ => (None, 1),
        };
        bytes.push(byte.unwrap_or(*first));
        rest = &rest[if byte.is_some() { length } else { 1 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Kinds that one disk or share may be mounted as belong together.
fn family(kind: &str) -> &str {
    match kind {
        "ext2" | "ext3" | "ext4" => "ext",
        "nfs" | "nfs4" => "nfs",
        "cifs" | "smb3" => "cifs",
        "vfat" | "msdos" => "vfat",
        "fuseblk" | "ntfs" | "ntfs3" => "ntfs",
        _ if kind.starts_with("fuse.") => "fuse",
        kind => kind,
    }
}

pub fn has_stable_fsid(kind: &str) -> bool {
    FSID_IS_STABLE.contains(&family(kind))
}

impl Disk {
    /// Whether `found` is provably another file system. What cannot be compared is not another: the mark of the
    /// directory decides there.
    pub fn differs(&self, found: &Disk) -> bool {
        match (&self.uuid, &found.uuid) {
            (Some(own), Some(other)) => return own != other,
            _ if family(&self.kind) != family(&found.kind) => return true,
            _ => {}
        }
        match (&self.fsid, &found.fsid) {
            (Some(own), Some(other)) => own != other,
            _ => NAMED_BY_SOURCE.contains(&family(&self.kind)) && self.source != found.source,
        }
    }
}

/// As a person finds the disk.
impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(label) = &self.label {
            write!(f, " {label:?}")?;
        }
        match &self.uuid {
            Some(uuid) => write!(f, ", UUID {uuid}")?,
            None => write!(f, ", {}", self.source)?,
        }
        write!(f, ", mounted at {}", self.mount_point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:2 / / rw,noatime shared:1 - ext4 /dev/sda2 rw\n\
        30 22 8:17 / /var/lib/coracle/volumes rw shared:2 - ext4 /dev/sdb1 rw\n\
        31 22 0:50 /@data /mnt/my\\040disk rw - btrfs /dev/sdc1 rw\n\
        32 22 0:51 / /srv/share rw shared:9 master:1 - nfs4 nas:/x rw\n\
        33 22 0:52 / /srv/share rw - tmpfs none rw\n";

    #[test]
    fn the_mount_of_a_path() {
        for (path, expected) in [
            ("/var/lib/coracle/volumes/a", Some(("/var/lib/coracle/volumes", "ext4", "/dev/sdb1", 8, 17))),
            ("/var/lib/coracle/volumes2", Some(("/", "ext4", "/dev/sda2", 8, 2))),
            ("/mnt/my disk", Some(("/mnt/my disk", "btrfs", "/dev/sdc1", 0, 50))),
            ("/srv/share/x", Some(("/srv/share", "tmpfs", "none", 0, 52))),
        ] {
            let found = mount_of(MOUNTS, path);
            let found = found
                .as_ref()
                .map(|one| (one.mount_point.as_str(), one.kind.as_str(), one.source.as_str(), one.major, one.minor));
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(mount_of("nonsense\n", "/"), None);
        assert_eq!(mounted_below(MOUNTS, "/mnt"), ["/mnt/my disk"]);
        assert_eq!(mounted_below(MOUNTS, "/mnt/my disk"), [] as [&str; 0]);
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        for (text, expected) in
            [("a\\040b", "a b"), ("a\\x20b", "a b"), ("a\\", "a\\"), ("\\xzz", "\\xzz"), ("\\999", "\\999"), ("", "")]
        {
            assert_eq!(unescaped(text), expected, "{text}");
        }
    }

    fn disk(kind: &str, uuid: &str, fsid: &str, source: &str) -> Disk {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Disk { kind: kind.into(), uuid: some(uuid), fsid: some(fsid), source: source.into(), ..Disk::default() }
    }

    #[test]
    fn another_disk_is_told_from_the_same_one() {
        for (why, differs, recorded, found) in [
            ("another letter", false, disk("ext4", "u1", "f1", "/dev/sda1"), disk("ext4", "u1", "f1", "/dev/sdb1")),
            ("a replaced disk", true, disk("ext4", "u1", "f1", "/dev/sda1"), disk("ext4", "u2", "f2", "/dev/sda1")),
            ("the folder below", true, disk("ext4", "u1", "", "/dev/sdb1"), disk("ext4", "u0", "", "/dev/sda2")),
            ("ext3 as ext4", false, disk("ext3", "u1", "", "/dev/a"), disk("ext4", "u1", "", "/dev/a")),
            ("udev is late", false, disk("ext4", "u1", "f1", "/dev/a"), disk("ext4", "", "f1", "/dev/a")),
            ("late, and another", true, disk("ext4", "u1", "f1", "/dev/a"), disk("ext4", "", "f2", "/dev/a")),
            ("nothing to compare", false, disk("xfs", "u1", "", "/dev/a"), disk("xfs", "", "", "/dev/a")),
            ("another kind", true, disk("ext4", "u1", "f1", "/dev/a"), disk("tmpfs", "", "", "tmpfs")),
            ("a share", false, disk("nfs", "", "", "nas:/x"), disk("nfs4", "", "", "nas:/x")),
            ("another share", true, disk("nfs4", "", "", "nas:/x"), disk("nfs4", "", "", "nas:/y")),
            ("a pool", true, disk("zfs", "", "", "tank/a"), disk("zfs", "", "", "tank/b")),
            ("a second device of btrfs", false, disk("btrfs", "u", "f", "/dev/a"), disk("btrfs", "", "f", "/dev/b")),
            ("vfat", true, disk("vfat", "AB-1", "", "/dev/a"), disk("vfat", "AB-2", "", "/dev/a")),
            ("overlay", false, disk("overlay", "", "", "overlay"), disk("overlay", "", "", "overlay")),
        ] {
            assert_eq!(recorded.differs(&found), differs, "{why}");
        }
    }

    #[test]
    fn in_words() {
        let mut one = disk("ext4", "u1", "f1", "/dev/sda1");
        one.mount_point = "/mnt".into();
        assert_eq!(one.to_string(), "ext4, UUID u1, mounted at /mnt");
        one.label = Some("DATA".into());
        assert_eq!(one.to_string(), "ext4 \"DATA\", UUID u1, mounted at /mnt");
        one.uuid = None;
        assert_eq!(one.to_string(), "ext4 \"DATA\", /dev/sda1, mounted at /mnt");
    }
}
