//! Fills a data directory from a backup: all of it, or nothing.

use super::backup::{Restored, read};
use super::disk::{Disk, RealDisk};
use super::disk_error::failed;
use super::files::Files;
use super::folders::{OBJECTS, QUARANTINE, TMP, make_folder};
use super::head::{FORMAT_PLAIN, FORMAT_SEALED, HEAD, Head};
use super::journal::WAL;
use super::lock::{self, LOCK};
use super::protocol::Protocol;
use super::seal::keys::{SealKeys, is_sealed_text, is_secret_file};
use super::seal::{Form, Sealing};
use super::setup::LOST_REVISIONS;
use super::sums::Sums;
use super::{discover, disk, document};
use bytes::Bytes;
use coracle_api::meta::Key;
use std::borrow::Cow;
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// The folder of the cluster's keys, of which the store knows nothing else.
const KEYS: &str = "keys";
/// The place of the files until all files are written.
const STAGED: &str = "tmp/restored";

/// Writes what a backup holds into a data directory that holds nothing yet. `file` is called for the backup, twice:
/// nothing is written before all of it was read, and before it is known that `sealing` opens all that is sealed in it.
pub fn restore<R: BufRead>(
    dir: &Path,
    file: impl Fn() -> io::Result<R>,
    sealing: &Sealing,
) -> Result<Restored, String> {
    let opened = || file().map_err(|error| error.to_string());
    let mut any_sealed = false;
    let opens_object = |key: Key, object: &[u8]| {
        let form = if sealing.seals(&key) { sealing.opened(&key, compact_of(object)).1 } else { Form::Plain };
        any_sealed |= form != Form::Plain;
        if let Form::Shut(why) = form { Err(keyless(&key.to_string(), &why)) } else { Ok(()) }
    };
    let opens_key = |name: &str, text: &str| {
        sealing.keys.open_text(name, text.to_owned()).map(drop).map_err(|why| keyless(name, &why))
    };
    let restored = read(opened()?, opens_object, opens_key)?;
    let format = if any_sealed { FORMAT_SEALED } else { FORMAT_PLAIN };
    let folders = Fresh::folders(dir);
    let done = RealDisk::new(dir)
        .map_err(|error| format!("{}: {error}", dir.display()))
        .and_then(|disk| fill(&disk, dir, opened, (&restored, &sealing.keys, format)));
    if done.is_err() {
        folders.remove_empty();
    }
    done.map(|()| restored)
}

fn fill<R: BufRead>(
    disk: &RealDisk,
    dir: &Path,
    opened: impl Fn() -> Result<R, String>,
    (restored, keys, format): (&Restored, &SealKeys, u32),
) -> Result<(), String> {
    discover::refuse_newer(disk, dir).and_then(|()| discover::find_head(disk)).map_err(|error| error.to_string())?;
    let unlocked = Fresh::inside(dir, &[LOCK]);
    let _lock = lock::lock(dir).map_err(|error| error.to_string())?;
    // Nobody else makes anything from here on.
    let fresh = Fresh::inside(dir, &[HEAD, OBJECTS, TMP, KEYS]);
    let put = || put(disk, STAGED, &opened, (restored, keys, format));
    let done = free(disk, dir, restored).and_then(|()| put().map_err(|error| format!("{}: {error}", dir.display())));
    clear(disk, dir);
    if done.is_err() {
        fresh.remove();
        unlocked.remove();
    }
    done
}

/// Why nobody should begin with what is here: a restore did not come to its end.
pub fn unfinished(disk: &dyn Disk) -> Option<String> {
    disk.list(STAGED).ok()?;
    let is_filled = |folder| disk.list(folder).is_ok_and(|found| !found.is_empty());
    (!is_filled(OBJECTS) && !is_filled(WAL)).then(|| {
        format!(
            "a restore was begun here and did not come to its end: stop the master and run coracle-master restore FILE \
             again, or remove {STAGED} to begin with what there is"
        )
    })
}

/// Takes away what a restore that was killed has left: every secret is in it.
pub fn clear(disk: &RealDisk, dir: &Path) {
    disk.remove_tree(STAGED).unwrap_or_else(|error| log::warn!("{}/{STAGED}: it stays: {error}", dir.display()));
}

fn free(disk: &RealDisk, dir: &Path, restored: &Restored) -> Result<(), String> {
    let shown = dir.display();
    // Keys that are there stay where the backup has none.
    let keys = (restored.keys > 0).then_some(KEYS);
    for taken in [OBJECTS, WAL, QUARANTINE].into_iter().chain(keys) {
        let found = match disk.list(taken) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            found => found.map_err(|error| format!("{shown}: {error}"))?,
        };
        if !found.is_empty() {
            return Err(format!(
                "{shown} holds a store already ({taken}): move it away first, as in `mv {shown} {shown}.old`"
            ));
        }
    }
    Ok(())
}

/// The objects come into their place all at once, behind a HEAD.json that knows that revisions were lost.
fn put<R: BufRead>(
    disk: &RealDisk,
    staged: &str,
    opened: impl Fn() -> Result<R, String>,
    (restored, keys, format): (&Restored, &SealKeys, u32),
) -> Result<(), String> {
    make_folder(disk, TMP).map_err(|error| error.to_string())?;
    disk.remove_tree(staged).map_err(|error| failed("remove", staged)(error).to_string())?;
    make_folder(disk, staged).map_err(|error| error.to_string())?;
    let (mut files, mut compact) = (Files::below(staged), Vec::new());
    let sums = loop {
        let mut sums = Sums::default();
        let bring = |key: Key, object: &[u8]| {
            document::stripped(object, &mut compact);
            sums.add(&key, document::crc32(&compact));
            files.bring(disk, &key, Some(&compact)).map_err(|error| error.to_string())
        };
        read(opened()?, bring, |name, text| put_key(disk, staged, name, lies(keys, name, text)?.as_ref()))?;
        make_folder(disk, &format!("{staged}/{OBJECTS}")).map_err(|error| error.to_string())?;
        if files.settle(disk).map_err(|error| error.to_string())? {
            break sums;
        }
    };
    let store = disk::random_uuid().map_err(|error| error.to_string())?;
    let reserved = restored.revision + LOST_REVISIONS;
    // With the number and the sum in HEAD.json, a start notices missing or different files.
    let (objects, files, summed) = (restored.objects as u64, sums, true);
    let head = Head { format, store, wal: None, reserved, objects, files, summed, ..Head::default() };
    let done = (|| {
        head.write(disk, &Protocol::WHOLE)?;
        // An empty folder may exist at this path.
        disk.remove_tree(OBJECTS).map_err(failed("remove", OBJECTS))?;
        disk.rename(&format!("{staged}/{OBJECTS}"), OBJECTS).map_err(failed("rename", OBJECTS))?;
        if restored.keys > 0 {
            let staged = format!("{staged}/{KEYS}");
            disk.sync_dir(&staged).map_err(failed("fsync", KEYS))?;
            disk.remove_tree(KEYS).map_err(failed("remove", KEYS))?;
            disk.rename(&staged, KEYS).map_err(failed("rename", KEYS))?;
        }
        disk.sync_dir("").map_err(failed("fsync", HEAD))
    })();
    done.map_err(|error| error.to_string())
}

fn compact_of(object: &[u8]) -> Bytes {
    let mut compact = Vec::new();
    document::stripped(object, &mut compact);
    compact.into()
}

fn keyless(what: &str, why: &str) -> String {
    format!("{what}: {why}; nothing was written")
}

/// A file of the cluster's keys as it lies in its folder: only private keys are sealed there.
fn lies<'t>(keys: &SealKeys, name: &str, text: &'t str) -> Result<Cow<'t, str>, String> {
    match is_sealed_text(text) && !is_secret_file(name) {
        true => keys.open_text(name, text.to_owned()).map(Cow::Owned),
        false => Ok(Cow::Borrowed(text)),
    }
}

/// Writes a file of the cluster's keys.
fn put_key(disk: &RealDisk, staged: &str, name: &str, text: &str) -> Result<(), String> {
    let folder = format!("{staged}/{KEYS}");
    make_folder(disk, &folder).map_err(|error| error.to_string())?;
    let place = format!("{folder}/{name}");
    let written = disk.put(&place, text.as_bytes(), None).and_then(|()| disk.open(&place)?.sync());
    written.map_err(|error| format!("write {place}: {error}"))
}

/// The directories that are not there yet, so that a failure leaves nothing behind.
struct Fresh {
    absent: Vec<PathBuf>,
}

impl Fresh {
    /// The folder and all parent folders.
    fn folders(folder: &Path) -> Fresh {
        Fresh::of(folder.ancestors().map(Path::to_owned))
    }

    fn inside(folder: &Path, names: &[&str]) -> Fresh {
        Fresh::of(names.iter().map(|name| folder.join(name)))
    }

    fn of(paths: impl Iterator<Item = PathBuf>) -> Fresh {
        let absent =
            |path: &PathBuf| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        Fresh { absent: paths.filter(absent).collect() }
    }

    /// With all that has come into it.
    fn remove(&self) {
        self.remove_by(|path| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
    }

    /// A folder into which another program has put files stays.
    fn remove_empty(&self) {
        self.remove_by(|path| fs::remove_dir(path));
    }

    fn remove_by(&self, remove: impl Fn(&Path) -> io::Result<()>) {
        for path in &self.absent {
            match remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log::warn!("{}: it stays: {error}", path.display())
                }
                _ => {}
            }
        }
    }
}
