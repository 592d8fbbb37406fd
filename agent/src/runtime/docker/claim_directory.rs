//! Directories of claims: made once, marked, and from then on only used. One that is away, because its disk is not
//! mounted, is never made anew.
//!
//!     DATA/claims-made/NAME         the record that it was made; who removes it lets the agent begin anew
//!     trusted.coracle.claim = NAME  the mark of the directory itself, which no container sees or takes away. Where the
//!         file system has no such attributes the record says its inode instead.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coracle_api::strategy::claim::LOCAL_VOLUMES;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use super::volumes::{disk, make_directory};
use crate::facts::engine::{ContainerConfig, Failure, MountSource};
use crate::host::private;

const RECORDS: &str = "claims-made";
const MARK: &str = "trusted.coracle.claim";
/// A name has at most 255 bytes, and so a mark.
const MARK_BYTES_MAX: usize = 256;
const RECORD_BYTES_MAX: u64 = 64;

/// The claims whose directories are on this host.
pub struct ClaimDirectories {
    records: PathBuf,
    /// Of claims of files: `NAMESPACE/NAME` below it.
    of_files: PathBuf,
    /// Of the class `local`.
    local: PathBuf,
}

impl ClaimDirectories {
    pub fn new(data_dir: &str) -> ClaimDirectories {
        let data = Path::new(data_dir);
        ClaimDirectories { records: data.join(RECORDS), of_files: data.join("claims"), local: LOCAL_VOLUMES.into() }
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
            make_directory(path, None)?;
        }
        let record = mark(path, &name);
        private::replace_files(&self.records, [(name.into(), record)].into_iter())
            .map_err(|error| disk("keep that the directory of a claim was made in", &self.records, &error))
    }

    /// The mount sources that may be directories of claims.
    pub fn among<'a>(&self, config: &'a ContainerConfig) -> Vec<&'a str> {
        let sources = config.mounts.iter().filter_map(|mount| match &mount.source {
            MountSource::Path(path) => Some(path.as_str()),
            MountSource::Volume(_) => None,
        });
        sources.filter(|path| self.record_of(Path::new(path)).is_some()).collect()
    }

    /// A directory without a record passes.
    pub fn check(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return Ok(()) };
        let Some(record) = self.made(&name)? else { return Ok(()) };
        let (path_shown, record_shown) = (path.display(), self.records.join(&name).display().to_string());
        if !path.is_dir() {
            return Err(Failure::Refused(format!(
                "path \"{path_shown}\" does not exist, and held the data of a claim: mount its disk. If the data is \
                 lost, `rm {record_shown}` lets it begin empty"
            )));
        }
        if is_marked(path, &name, &record) {
            return Ok(());
        }
        Err(Failure::Refused(format!(
            "path \"{path_shown}\" is not the directory that held the data of a claim: mount its disk. If the data is \
             there all the same, as after a restore, `rm {record_shown}` lets it be used"
        )))
    }

    /// The claim is gone, and its directory with it.
    pub fn forget(&self, path: &Path) -> Result<(), Failure> {
        let Some(name) = self.record_of(path) else { return Ok(()) };
        let record = self.records.join(name);
        match fs::remove_file(&record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(disk("remove", &record, &error)),
            _ => Ok(()),
        }
    }

    /// What was written down when the directory was made. None: it never was.
    fn made(&self, name: &str) -> Result<Option<String>, Failure> {
        let path = self.records.join(name);
        let read = || -> io::Result<String> {
            if fs::metadata(&path)?.len() > RECORD_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            fs::read_to_string(&path)
        };
        match read() {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk("read", &path, &error)),
        }
    }

    /// The name of the record of a claim's directory. No name of the API has an underscore, so no two share one.
    fn record_of(&self, path: &Path) -> Option<String> {
        let one = |path: &Path| path.to_str().filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned);
        if let Ok(name) = path.strip_prefix(&self.local) {
            return one(name).filter(|name| name.contains("_pvc-"));
        }
        let below = path.strip_prefix(&self.of_files).ok()?;
        Some(format!("{}_{}", one(below.parent()?)?, one(Path::new(below.file_name()?))?))
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
            let (records, of_files) = (root.join("d/claims-made"), root.join("d/claims"));
            let all = ClaimDirectories { records, of_files, local: root.join("disk") };
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
        assert_eq!(fs::read_dir(bed.root.join("d/claims-made")).unwrap().count(), 2);
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
