//! Moves damaged and foreign files to a folder of their own whose name says why,
//! `quarantine/0001-not-json/core/pods/default/web.json`. The folder is the memory of the damage: it ends in `-settled`
//! once the object was given up or put right. Nothing in it is ever removed.
//!
//! Where something may be missing of which nobody can say what, there is a folder as well, with nothing but the reason
//! in it.

use super::disk::{Disk, FolderEntry, What};
use super::disk_error::{DiskError, failed};
use super::folders::{OBJECTS, QUARANTINE, levels, make_folder};
use super::names;
use coracle_api::meta::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// Why what lies beside it was set aside.
const REASON: &str = "REASON";
const REASON_BYTES_MAX: usize = 64 << 10;
/// How the folder of a doubt is called.
const DOUBT: &str = "may-be-missing";
/// How the folder of a damage that somebody dealt with ends.
const SETTLED: &str = "-settled";

/// A file in quarantine that nobody has dealt with.
pub struct Incident {
    /// Its folder.
    pub folder: String,
    /// Where it lay, below `objects`; None: something may be missing, and nobody knows what.
    pub path: Option<String>,
}

/// The damaged keys that wait for a person's decision.
#[derive(Default)]
pub struct Incidents {
    /// The folders in quarantine that say so.
    pub aside: BTreeMap<Key, BTreeSet<String>>,
    /// Those whose files could not be moved away, and the word for it.
    pub in_place: BTreeMap<Key, &'static str>,
    pub next: u32,
}

impl Incidents {
    pub fn is_empty(&self) -> bool {
        self.aside.is_empty() && self.in_place.is_empty()
    }

    /// The object's place is free from then on.
    pub fn move_away(&mut self, disk: &dyn Disk, key: &Key) -> Result<(), DiskError> {
        let Some(word) = self.in_place.get(key) else { return Ok(()) };
        let (path, folder) = (names::path(key), folder(self.next, word));
        set_aside(disk, &format!("{OBJECTS}/{path}"), &path, &folder, word)?;
        self.next += 1;
        self.aside.entry(key.clone()).or_default().insert(folder);
        self.in_place.remove(key);
        Ok(())
    }

    /// A person gave the object up. The quarantined file stays; the folder's new name says that no decision is pending.
    pub fn settle(&mut self, disk: &dyn Disk, key: &Key) -> Result<(), DiskError> {
        self.move_away(disk, key)?;
        let Some(folders) = self.aside.get(key).cloned() else { return Ok(()) };
        for folder in &folders {
            settle(disk, folder)?;
        }
        self.aside.remove(key);
        Ok(())
    }
}

/// The number of the next incident.
pub fn next_number(disk: &dyn Disk) -> io::Result<u32> {
    let found = list(disk, QUARANTINE)?;
    Ok(found.iter().filter_map(|found| number(&found.name)).max().map_or(1, |last| last.saturating_add(1)))
}

/// How many of these numbers are of something that was set aside, and not of a doubt alone.
pub fn count(disk: &dyn Disk, numbers: Range<u32>) -> u64 {
    let found = if numbers.is_empty() { Vec::new() } else { list(disk, QUARANTINE).unwrap_or_default() };
    let is_counted = |name: &str| number(name).is_some_and(|number| numbers.contains(&number)) && !name.contains(DOUBT);
    found.iter().filter(|found| is_counted(&found.name)).count() as u64
}

fn number(name: &str) -> Option<u32> {
    name.split('-').next()?.parse().ok()
}

/// A file in the place of the directory holds nothing of ours: a start that may write sets it aside.
fn list(disk: &dyn Disk, at: &str) -> io::Result<Vec<FolderEntry>> {
    match disk.list(at) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        found => found,
    }
}

pub fn folder(number: u32, word: &str) -> String {
    format!("{number:04}-{word}")
}

/// The name of the folder when no decision is pending.
pub fn settled(folder: &str) -> String {
    format!("{folder}{SETTLED}")
}

/// Moves a file aside. The new place is durable before the old one is given up for good. `why` lies beside it, for
/// whoever comes later.
pub fn set_aside(disk: &dyn Disk, from: &str, path: &str, folder: &str, why: &str) -> Result<String, DiskError> {
    let to = format!("{QUARANTINE}/{folder}/{path}");
    let (to_folder, _) = to.rsplit_once('/').expect("it lies in quarantine");
    let (from_folder, _) = from.rsplit_once('/').unwrap_or_default();
    make_folder(disk, to_folder)?;
    // Without it the next start has to find a reason itself.
    disk.put(&format!("{QUARANTINE}/{folder}/{REASON}"), format!("{from}: {why}\n").as_bytes(), None).ok();
    disk.rename(from, &to).map_err(failed("rename", from))?;
    disk.sync_dir(to_folder).map_err(failed("fsync", to_folder))?;
    disk.sync_dir(from_folder).map_err(failed("fsync", from_folder))?;
    Ok(to)
}

/// A file that a person wrote while the master ran: the file is only kept, and no decision is pending.
pub fn keep(disk: &dyn Disk, from: &str, path: &str, number: u32) -> Result<String, DiskError> {
    set_aside(disk, from, path, &settled(&folder(number, "edited")), "it was edited while the master ran")
}

/// Sets aside what stands where a file, or a folder that it lies in, is to be written: people may put something there
/// at any time. Says what it did.
pub fn make_way(disk: &dyn Disk, path: &str) -> Result<Vec<String>, DiskError> {
    let mut done = Vec::new();
    for level in levels(path) {
        let stands = match disk.list(level) {
            Ok(_) => level == path,
            Err(error) => error.kind() == io::ErrorKind::NotADirectory && level != path,
        };
        if stands {
            let number = next_number(disk).map_err(failed("list", QUARANTINE))?;
            let place = level.strip_prefix("objects/").unwrap_or(level);
            let to = set_aside(
                disk,
                level,
                place,
                &settled(&folder(number, "foreign")),
                "it stood where the master writes",
            )?;
            done.push(format!("{level} stood where the master writes, and lies in {to} now"));
        }
    }
    Ok(done)
}

/// The note that was written when a file was set aside.
pub fn reason(disk: &dyn Disk, folder: &str) -> Option<String> {
    let text = String::from_utf8(disk.read(&format!("{QUARANTINE}/{folder}/{REASON}"), REASON_BYTES_MAX).ok()?).ok()?;
    let (_, why) = text.trim_end().split_once(": ")?;
    (!why.is_empty()).then(|| why.to_owned())
}

/// A person has decided: the folder's new name says that no decision is pending.
pub fn settle(disk: &dyn Disk, folder: &str) -> Result<(), DiskError> {
    let from = format!("{QUARANTINE}/{folder}");
    match disk.rename(&from, &settled(&from)) {
        // An earlier try came so far.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => done.map_err(failed("rename", &from))?,
    }
    disk.sync_dir(QUARANTINE).map_err(failed("fsync", QUARANTINE))
}

/// A person has to look what may be missing. Durable when it returns.
pub fn doubt(disk: &dyn Disk, number: u32, why: &str) -> Result<(), DiskError> {
    let folder = format!("{QUARANTINE}/{}", folder(number, DOUBT));
    let reason = format!("{folder}/{REASON}");
    make_folder(disk, &folder)?;
    disk.create(&reason, format!("{why}\n").as_bytes()).map_err(failed("write", &reason))?;
    disk.sync_dir(&folder).map_err(failed("fsync", &folder))
}

/// A person has looked: returns the folders that are no longer reported.
pub fn settle_doubts(disk: &dyn Disk) -> Result<Vec<String>, DiskError> {
    let doubts: Vec<String> =
        open_incidents(disk)?.into_iter().filter(|open| open.path.is_none()).map(|open| open.folder).collect();
    doubts.iter().try_for_each(|folder| settle(disk, folder))?;
    Ok(doubts)
}

/// Everything that waits for somebody.
pub fn open_incidents(disk: &dyn Disk) -> Result<Vec<Incident>, DiskError> {
    let mut incidents = Vec::new();
    let list = |at: &str| list(disk, at).map_err(failed("list", at));
    let open = |name: &str| !name.ends_with(SETTLED) && !name.starts_with('.');
    for incident in list(QUARANTINE)?.into_iter().filter(|found| found.what == What::Folder && open(&found.name)) {
        if incident.name.ends_with(DOUBT) {
            incidents.push(Incident { folder: incident.name, path: None });
            continue;
        }
        let mut folders = vec![String::new()];
        while let Some(above) = folders.pop() {
            for found in list(&format!("{QUARANTINE}/{}/{above}", incident.name))? {
                match found.what {
                    // A folder may have lain where an object's file belongs.
                    What::Folder if names::key(&format!("{above}{}", found.name)).is_none() => {
                        folders.push(format!("{above}{}/", found.name))
                    }
                    _ if above.is_empty() && found.name == REASON => {}
                    _ => incidents
                        .push(Incident { folder: incident.name.clone(), path: Some(format!("{above}{}", found.name)) }),
                }
            }
        }
    }
    Ok(incidents)
}
