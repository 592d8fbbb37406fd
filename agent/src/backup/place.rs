//! The directory of a backup: written under another name, synced, and renamed when it is complete.
//!
//!     DIR.partial       being written, or left by a backup that was killed; without backup.json
//!     DIR               whole
//!     DIR.incomplete    complete but for what its backup.json names as missing
//!     DIR.old           the one before, for the moment between two renames

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::contents::{self, Contents};
use crate::host::{private, tree};

pub struct Place {
    dir: PathBuf,
    partial: PathBuf,
    /// Held until the end. Some shares know no locks.
    _lock: File,
}

impl Place {
    /// Makes the directory that is written in. The remains of a killed backup are removed.
    pub fn take(dir: &Path) -> Result<Place, String> {
        let shown = dir.display();
        let failed = |error: io::Error| format!("{shown}: {error}");
        let folder = dir.parent().ok_or_else(|| format!("{shown}: name a directory to write"))?;
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(format!("{shown}: {folder} is not there; is its disk mounted? Else `mkdir -p {folder}`"));
        }
        settle(dir).map_err(failed)?;
        if dir.symlink_metadata().is_ok() && !is_replaceable(dir) {
            return Err(format!("{shown}: it is there and no backup; name a directory that is not there yet"));
        }
        let partial = beside(dir, "partial");
        let busy = || format!("{}: another backup is being written there", partial.display());
        if let Ok(there) = File::open(&partial) {
            if matches!(there.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(busy());
            }
            tree::remove(&partial).map_err(failed)?;
        }
        let mut builder = DirBuilder::new();
        builder.mode(0o700).create(&partial).map_err(failed)?;
        builder.create(partial.join("volumes")).map_err(failed)?;
        let lock = File::open(&partial).map_err(failed)?;
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(busy());
        }
        Ok(Place { dir: dir.to_owned(), partial, _lock: lock })
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.partial.join(file)
    }

    /// The name under which it stands from now on.
    pub fn keep(self, contents: &Contents) -> Result<PathBuf, String> {
        let incomplete = beside(&self.dir, "incomplete");
        let name = if contents.missing.is_empty() { self.dir.clone() } else { incomplete.clone() };
        let kept = self.write(contents).and_then(|()| replace(&self.partial, &name));
        kept.map_err(|error| {
            let _ = tree::remove(&self.partial);
            format!("{}: {error}", name.display())
        })?;
        // One that lacked something is worth nothing beside a whole one.
        if name == self.dir
            && is_replaceable(&incomplete)
            && let Err(error) = tree::remove(&incomplete)
        {
            log::warn!("{}: {error}", incomplete.display());
        }
        Ok(name)
    }

    fn write(&self, contents: &Contents) -> io::Result<()> {
        let mut file = private::create_file(&self.path(contents::NAME))?;
        file.write_all(&serde_json::to_vec_pretty(contents)?)?;
        file.sync_all()?;
        for folder in [self.path("volumes"), self.partial.clone()] {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    pub fn give_up(self) {
        if let Err(error) = tree::remove(&self.partial) {
            log::warn!("{}: {error}", self.partial.display());
        }
    }
}

fn beside(dir: &Path, ending: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// An earlier backup, or an empty directory.
fn is_replaceable(dir: &Path) -> bool {
    dir.symlink_metadata().is_ok_and(|found| found.is_dir())
        && (dir.join(contents::NAME).is_file() || fs::read_dir(dir).is_ok_and(|mut names| names.next().is_none()))
}

/// Ends a replacement that was broken off between its renames.
fn settle(dir: &Path) -> io::Result<()> {
    let old = beside(dir, "old");
    if !old.join(contents::NAME).is_file() {
        return Ok(());
    }
    if dir.symlink_metadata().is_ok() { tree::remove(&old) } else { fs::rename(&old, dir) }
}

fn replace(partial: &Path, name: &Path) -> io::Result<()> {
    let old = beside(name, "old");
    let is_there = name.symlink_metadata().is_ok();
    settle(name)?;
    if is_there {
        fs::rename(name, &old)?;
    }
    fs::rename(partial, name)?;
    if let Some(folder) = name.parent() {
        File::open(folder)?.sync_all()?;
    }
    if is_there { tree::remove(&old) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_has_its_name_when_it_is_complete() {
        let root = std::env::temp_dir().join(format!("coracle-place-{}", std::process::id()));
        let _ = tree::remove(&root);
        let dir = root.join("mon");
        assert!(Place::take(&dir).err().unwrap().contains("is its disk mounted?"));
        fs::create_dir(&root).unwrap();
        let keep = |missing: &[&str], text: &str| {
            let place = Place::take(&dir).unwrap();
            fs::write(place.path("text"), text).unwrap();
            let missing = missing.iter().map(|text| (*text).to_owned()).collect();
            place.keep(&Contents { missing, ..Contents::default() }).unwrap()
        };
        let first = Place::take(&dir).unwrap();
        assert_eq!(names(&root), ["mon.partial"]);
        assert!(Place::take(&dir).err().unwrap().contains("another backup is being written"));
        // A killed one leaves this, and the next one takes it away.
        fs::write(first.path("left"), "").unwrap();
        drop(first);
        assert_eq!(keep(&[], "1"), dir);
        assert_eq!((names(&root), dir.join("left").exists()), (vec!["mon".to_owned()], false));
        assert_eq!(keep(&["x"], "2"), root.join("mon.incomplete"));
        assert_eq!(fs::read_to_string(dir.join("text")).unwrap(), "1", "the whole one stays");
        assert_eq!(keep(&["x"], "3"), root.join("mon.incomplete"));
        assert_eq!(names(&root), ["mon", "mon.incomplete"]);
        keep(&[], "4");
        assert_eq!(
            (names(&root), fs::read_to_string(dir.join("text")).unwrap().as_str()),
            (vec!["mon".to_owned()], "4")
        );
        // Killed between the two renames.
        fs::rename(&dir, root.join("mon.old")).unwrap();
        Place::take(&dir).unwrap().give_up();
        assert_eq!(names(&root), ["mon"]);
        fs::remove_file(dir.join(contents::NAME)).unwrap();
        assert!(Place::take(&dir).err().unwrap().contains("no backup"), "somebody's directory");
        assert_eq!(names(&root), ["mon"]);
        tree::remove(&root).unwrap();
    }
}
