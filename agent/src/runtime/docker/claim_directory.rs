//! Directories of claims: made once, marked, and from then on only used. One that is away, because its disk is not
//! mounted, is never made anew.
//!
//!     DATA/claims-made/NAME         the record that it was made; who removes it lets the agent begin anew
//!     trusted.coracle.claim = NAME  the mark of the directory itself, which no container sees or takes away. Where the
//!         file system has no such attributes the record says its inode instead.
//!     DATA/claims-disks/NAME        the file system that it lies on: a copy of the directory on another disk has the
//!         mark, too. Who removes the record lets the agent take the disk on which the directory lies by then. An
//!         earlier agent kept none: then it is written at the next start, or use, that finds the directory sound.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coracle_api::strategy::claim::LOCAL_VOLUMES;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use super::volumes::{disk, make_directory};
use crate::facts::disk::Disk;
use crate::facts::engine::{ContainerConfig, Failure, MountSource};
use crate::host::{file_system, private};

const RECORDS: &str = "claims-made";
const DISKS: &str = "claims-disks";
const MARK: &str = "trusted.coracle.claim";
/// A name has at most 255 bytes, and so a mark.
const MARK_BYTES_MAX: usize = 256;
const RECORD_BYTES_MAX: u64 = 64;
/// Names of devices, shares and mount points have at most some thousand bytes each.
const DISK_BYTES_MAX: u64 = 32 * 1024;
/// Records of other claims that are read when a directory is made.
const OTHERS_MAX: usize = 1000;
/// In the names of volumes of the class `local`, and in no record of a claim of a file.
const OF_CLASS: &str = "_pvc-";

/// The claims whose directories are on this host.
pub struct ClaimDirectories {
    records: PathBuf,
    disks: PathBuf,
    /// Of claims of files: `NAMESPACE/NAME` below it.
    of_files: PathBuf,
    /// Of the class `local`.
    local: PathBuf,
}

impl ClaimDirectories {
    pub fn new(data_dir: &str) -> ClaimDirectories {
        let data = Path::new(data_dir);
        let (records, disks) = (data.join(RECORDS), data.join(DISKS));
        ClaimDirectories { records, disks, of_files: data.join("claims"), local: LOCAL_VOLUMES.into() }
    }

    /// At the first start of an agent that keeps records, adopts the existing directories: an earlier agent made them.
    pub fn adopt_all(&self) -> io::Result<()> {
        if self.records.is_dir() {
            return Ok(());
        }
        let below = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        let of_files = below(&self.of_files).into_iter().flat_map(|namespace| below(&namespace));
        let all = below(&self.local).into_iter().chain(of_files).filter(|path| path.is_dir());
        let records: Vec<_> = all.filter_map(|path| Some((self.record_of(&path)?, path))).collect();
        private::make_directory(&self.records)?;
        let files = records.into_iter().filter(|(name, _)| !name.ends_with(".making"));
        private::replace_files(&self.records, files.map(|(name, path)| (name.clone().into(), mark(&path, &name))))
    }

    /// Makes the directory of a claim at the first call. Later calls check that the directory exists and was made for
    /// this claim.
    pub fn prepare(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return make_directory(path, None) };
        if self.made(&name)?.is_some() {
            return self.check(path);
        }
        if !path.is_dir() {
            self.check_folder(path)?;
            make_directory(path, None)?;
        }
        self.take(path)
    }

    /// Marks and records a directory as it is: it was made, or restored, for this claim.
    pub fn take(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return Ok(()) };
        // The disk first: a directory that was made on it is never without.
        self.record_disk(path, &name)?;
        let record = mark(path, &name);
        private::replace_files(&self.records, [(name.into(), record)].into_iter())
            .map_err(|error| disk("keep that the directory of a claim was made in", &self.records, &error))
    }

    /// The directories of which an earlier agent has not recorded the disk.
    pub fn without_disk(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(&self.records).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let left = names.filter(|name| !name.starts_with('.') && !self.disks.join(name).exists());
        left.filter_map(|name| self.path_of(&name)).collect()
    }

    fn record_disk(&self, path: &Path, name: &str) -> Result<(), Failure> {
        let found = match file_system::look(path) {
            Ok(found) => found,
            Err(error) => {
                log::warn!("{}: on which file system it lies cannot be seen: {error}", path.display());
                return Ok(());
            }
        };
        let text = serde_json::to_vec(&found).map_err(|error| disk("record", path, &error.into()))?;
        private::replace_files(&self.disks, [(name.to_owned().into(), text)].into_iter())
            .map_err(|error| disk("keep on which disk a claim is in", &self.disks, &error))
    }

    /// No directory is made where the other claims of the folder are on a disk that is not mounted there.
    fn check_folder(&self, path: &Path) -> Result<(), Failure> {
        let (Some(folder), Ok(found)) = (path.parent(), file_system::look(path)) else { return Ok(()) };
        let is_of_class = path.starts_with(&self.local);
        let names = fs::read_dir(&self.disks).into_iter().flatten().flatten().take(OTHERS_MAX);
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut elsewhere = None;
        for name in names.filter(|name| name.contains(OF_CLASS) == is_of_class) {
            let Ok(Some(other)) = self.disk_of(&name) else { continue };
            // A claim with a disk of its own says nothing of the folder.
            if self.path_of(&name).is_some_and(|own| Path::new(&other.mount_point).starts_with(own)) {
                continue;
            }
            if !other.differs(&found) {
                return Ok(());
            }
            elsewhere = Some((name, other));
        }
        let Some((name, other)) = elsewhere else { return Ok(()) };
        Err(Failure::Refused(format!(
            "path \"{}\" is not made: the other claims are on another disk ({other}), and {} lies on {found}: mount \
             that disk. If new claims belong here, `rm {}` and so on for each claim that was moved",
            path.display(),
            folder.display(),
            self.disks.join(name).display()
        )))
    }

    /// The mount sources that may be directories of claims.
    pub fn among<'a>(&self, config: &'a ContainerConfig) -> Vec<&'a str> {
        let sources = config.mounts.iter().filter_map(|mount| match &mount.source {
            MountSource::Path(path) => Some(path.as_str()),
            MountSource::Volume(_) => None,
        });
        sources.filter(|path| self.record_of(Path::new(path)).is_some()).collect()
    }

    /// A directory without a record passes. The disk of a sound one is recorded, where it is not yet.
    pub fn check(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return Ok(()) };
        let Some(record) = self.made(&name)? else { return Ok(()) };
        let (path_shown, record_shown) = (path.display(), self.records.join(&name).display().to_string());
        let recorded = self.disk_of(&name)?;
        let its_disk = recorded.as_ref().map_or_else(|| "its disk".to_owned(), |disk| format!("its disk ({disk})"));
        if !path.is_dir() {
            return Err(Failure::Refused(format!(
                "path \"{path_shown}\" does not exist, and held the data of a claim: mount {its_disk}. If the data is \
                 lost, `rm {record_shown}` lets it begin empty"
            )));
        }
        if !is_marked(path, &name, &record) {
            return Err(Failure::Refused(format!(
                "path \"{path_shown}\" is not the directory that held the data of a claim: mount {its_disk}. If the \
                 data is there all the same, as after a restore, `rm {record_shown}` lets it be used"
            )));
        }
        // What cannot be seen is not another disk, and the directory has its mark.
        match (recorded, file_system::look(path)) {
            (Some(recorded), Ok(found)) if recorded.differs(&found) => Err(Failure::Refused(format!(
                "path \"{path_shown}\" lies on another disk ({found}) than the data of the claim: mount {its_disk}. If \
                 the data was moved here on purpose, `rm {}` lets it be used",
                self.disks.join(&name).display()
            ))),
            (Some(_), _) => Ok(()),
            (None, _) => self.record_disk(path, &name),
        }
    }

    /// The claim is gone, and its directory with it.
    pub fn forget(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return Ok(()) };
        for record in [self.records.join(&name), self.disks.join(&name)] {
            match fs::remove_file(&record) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(disk("remove", &record, &error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// What was written down when the directory was made. None: it never was.
    fn made(&self, name: &str) -> Result<Option<String>, Failure> {
        record(&self.records.join(name), RECORD_BYTES_MAX)
    }

    /// The disk that the directory was last accepted on. None: nobody has looked yet.
    fn disk_of(&self, name: &str) -> Result<Option<Disk>, Failure> {
        let path = self.disks.join(name);
        let Some(text) = record(&path, DISK_BYTES_MAX)? else { return Ok(None) };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| Failure::Refused(format!("read {0}: {error}: `rm {0}`", path.display())))
    }

    /// The directory that a record is about.
    fn path_of(&self, name: &str) -> Option<PathBuf> {
        if name.contains(OF_CLASS) {
            return Some(self.local.join(name));
        }
        let (namespace, name) = name.split_once('_')?;
        Some(self.of_files.join(namespace).join(name))
    }

    /// The name of the record of a claim's directory. No name of the API has an underscore, so no two share one.
    fn record_of(&self, path: &Path) -> Option<String> {
        let one = |path: &Path| path.to_str().filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned);
        if let Ok(name) = path.strip_prefix(&self.local) {
            return one(name).filter(|name| name.contains(OF_CLASS));
        }
        let below = path.strip_prefix(&self.of_files).ok()?;
        Some(format!("{}_{}", one(below.parent()?)?, one(Path::new(below.file_name()?))?))
    }
}

/// The text of a record. None: there is none.
fn record(path: &Path, bytes_max: u64) -> Result<Option<String>, Failure> {
    let read = || -> io::Result<String> {
        if fs::metadata(path)?.len() > bytes_max {
            return Err(io::Error::other("it is too big"));
        }
        fs::read_to_string(path)
    };
    match read() {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk("read", path, &error)),
    }
}

/// What the record says: nothing where the directory itself bears the mark, else its inode.
fn mark(path: &Path, name: &str) -> Vec<u8> {
    match setxattr(path, MARK, name.as_bytes(), XattrFlags::empty()) {
        Ok(()) => Vec::new(),
        Err(error) => {
            log::debug!("mark {}: {error}; its inode stands for the mark", path.display());
            inode(path).map_or_else(Vec::new, |inode| inode.to_string().into_bytes())
        }
    }
}

fn is_marked(path: &Path, name: &str, record: &str) -> bool {
    let mut mark = [0_u8; MARK_BYTES_MAX];
    match getxattr(path, MARK, &mut mark[..]) {
        Ok(length) => mark.get(..length) == Some(name.as_bytes()),
        // A record without an inode stands for a mark that is not there.
        Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM) => {
            inode(path).is_some_and(|inode| record == inode.to_string())
        }
        Err(_) => false,
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::engine::Mount;

    struct Bed {
        root: PathBuf,
        all: ClaimDirectories,
    }

    impl Bed {
        fn new(name: &str) -> Bed {
            let root = std::env::temp_dir().join(format!("coracle-claims-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("disk")).unwrap();
            let (records, disks) = (root.join("d/claims-made"), root.join("d/claims-disks"));
            let all = ClaimDirectories { records, disks, of_files: root.join("d/claims"), local: root.join("disk") };
            Bed { root, all }
        }

        fn check(&self, path: &str, expected: Result<(), &str>) {
            match (self.all.prepare(&self.root.join(path)), expected) {
                (Ok(()), Ok(())) => assert!(self.root.join(path).is_dir(), "{path}"),
                (Err(Failure::Refused(text)), Err(word)) => assert!(text.contains(word), "{text}"),
                (found, _) => panic!("{path}: {found:?}"),
            }
        }
    }

    impl Drop for Bed {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.root).unwrap();
        }
    }

    const LOCAL: &str = "disk/shop_data_pvc-u1";
    const OF_FILE: &str = "d/claims/shop/data";

    #[test]
    fn a_directory_is_made_once_and_then_only_used() {
        let bed = Bed::new("once");
        for path in [LOCAL, OF_FILE] {
            let (there, away) = (bed.root.join(path), bed.root.join("away"));
            bed.check(path, Ok(()));
            assert_eq!(fs::metadata(&there).unwrap().mode() & 0o7777, 0o777, "as the docs say");
            fs::write(there.join("db"), "data").unwrap();
            bed.check(path, Ok(()));
            assert_eq!(fs::read_dir(&there).unwrap().count(), 1, "no container sees the mark");
            fs::rename(&there, &away).unwrap();
            bed.check(path, Err("does not exist"));
            bed.check(path, Err(there.to_str().unwrap()));
            // As the folder below a mount point, or somebody's help.
            fs::create_dir(&there).unwrap();
            bed.check(path, Err("is not the directory"));
            fs::write(there.join("file"), "").unwrap();
            bed.check(path, Err("is not the directory"));
            fs::remove_dir_all(&there).unwrap();
            fs::rename(&away, &there).unwrap();
            bed.check(path, Ok(()));
            assert_eq!(fs::read_to_string(there.join("db")).unwrap(), "data");
            bed.all.forget(&there).unwrap();
            fs::remove_dir_all(&there).unwrap();
            bed.check(path, Ok(()));
        }
        for records in ["d/claims-made", "d/claims-disks"] {
            assert_eq!(fs::read_dir(bed.root.join(records)).unwrap().count(), 2, "{records}");
        }
    }

    /// As the directory had been recorded on another disk.
    fn record_elsewhere(bed: &Bed, name: &str, folder: &str) -> Disk {
        let uuid = Some("e1".to_owned());
        let other = Disk { kind: "ext0".into(), uuid, mount_point: folder.into(), ..Disk::default() };
        fs::write(bed.all.disks.join(name), serde_json::to_vec(&other).unwrap()).unwrap();
        other
    }

    #[test]
    fn a_copy_on_another_disk_is_not_used_until_it_is_accepted() {
        let bed = Bed::new("disk");
        bed.check(LOCAL, Ok(()));
        let (path, record) = (bed.root.join(LOCAL), bed.all.disks.join("shop_data_pvc-u1"));
        let own = fs::read(&record).unwrap();
        let other = record_elsewhere(&bed, "shop_data_pvc-u1", "/mnt/usb");
        bed.check(LOCAL, Err(&format!("mount its disk ({other})")));
        bed.check(LOCAL, Err(&format!("`rm {}` lets it be used", record.display())));
        assert!(bed.all.check(&path).is_err(), "nor before a container starts");
        // The disk is named where nothing is there, too.
        fs::rename(&path, bed.root.join("away")).unwrap();
        bed.check(LOCAL, Err("does not exist, and held the data of a claim: mount its disk (ext0, UUID e1, mounted"));
        fs::rename(bed.root.join("away"), &path).unwrap();
        fs::remove_file(&record).unwrap();
        assert_eq!(bed.all.without_disk(), [path.clone()]);
        bed.check(LOCAL, Ok(()));
        assert_eq!(fs::read(&record).unwrap(), own, "the disk that it lies on is recorded");
        assert!(bed.all.without_disk().is_empty());
        fs::write(&record, "no JSON").unwrap();
        bed.check(LOCAL, Err("`rm "));
    }

    #[test]
    fn no_directory_is_made_below_the_mount_point_of_a_disk_that_is_away() {
        let bed = Bed::new("folder");
        bed.check(LOCAL, Ok(()));
        record_elsewhere(&bed, "shop_data_pvc-u1", bed.root.join("disk").to_str().unwrap());
        bed.check("disk/shop_new_pvc-u2", Err("mount that disk"));
        assert!(!bed.root.join("disk/shop_new_pvc-u2").exists());
        bed.check(OF_FILE, Ok(()));
        // A claim that has a disk of its own is no reason, nor are several disks, of which one is there.
        record_elsewhere(&bed, "shop_data_pvc-u1", bed.root.join(LOCAL).to_str().unwrap());
        bed.check("disk/shop_new_pvc-u2", Ok(()));
        record_elsewhere(&bed, "shop_data_pvc-u1", bed.root.join("disk").to_str().unwrap());
        bed.check("disk/shop_newer_pvc-u3", Ok(()));
    }

    #[test]
    fn the_directories_of_an_earlier_agent_are_adopted_once() {
        let bed = Bed::new("adopted");
        for path in [LOCAL, OF_FILE, "disk/else"] {
            fs::create_dir_all(bed.root.join(path)).unwrap();
        }
        bed.all.adopt_all().unwrap();
        let away = bed.root.join("away");
        for path in [LOCAL, OF_FILE] {
            fs::rename(bed.root.join(path), &away).unwrap();
            bed.check(path, Err("does not exist"));
            fs::rename(&away, bed.root.join(path)).unwrap();
            bed.check(path, Ok(()));
        }
        // Later a directory that is there is taken for its claim when a pod first asks for it.
        fs::create_dir(bed.root.join("disk/shop_new_pvc-u2")).unwrap();
        bed.all.adopt_all().unwrap();
        assert_eq!(bed.all.made("shop_new_pvc-u2").unwrap(), None);
        bed.check("disk/shop_new_pvc-u2", Ok(()));
        assert!(bed.all.made("shop_new_pvc-u2").unwrap().is_some());
        assert_eq!(bed.all.made("else").unwrap(), None);
    }

    #[test]
    fn a_container_does_not_begin_on_another_directory() {
        let bed = Bed::new("mounts");
        bed.check(LOCAL, Ok(()));
        let path = bed.root.join(LOCAL);
        let mounts = [path.clone(), "/etc".into(), bed.root.join("disk/else")]
            .map(|path| Mount::new(MountSource::Path(path.to_str().unwrap().to_owned()), "/data".to_owned(), false));
        let config = ContainerConfig { mounts: mounts.to_vec(), ..Default::default() };
        assert_eq!(bed.all.among(&config), [path.to_str().unwrap()]);
        bed.all.check(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(bed.all.check(&path).unwrap_err().text().contains("is not the directory"));
        bed.all.check(&bed.root.join("disk/shop_new_pvc-u2")).unwrap();
    }

    #[test]
    fn without_attributes_the_inode_tells() {
        let bed = Bed::new("inode");
        bed.check(LOCAL, Ok(()));
        let path = bed.root.join(LOCAL);
        let _ = rustix::fs::removexattr(&path, MARK);
        bed.check(LOCAL, Err("is not the directory"));
        let record = inode(&path).unwrap().to_string();
        fs::write(bed.root.join("d/claims-made/shop_data_pvc-u1"), record).unwrap();
        bed.check(LOCAL, Ok(()));
    }
}
