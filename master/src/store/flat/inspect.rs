//! Reports what a start would find in a data directory, and changes nothing. Also `salvage`: the way out if a start
//! would serve reads alone because acknowledged records are missing.

use super::discover::{self, FoundJournal, SEGMENT_BYTES_READ_MAX};
use super::disk::{self, Disk, RealDisk, What};
use super::disk_error::{DiskError, failed};
use super::files::Files;
use super::folders::{OBJECTS, QUARANTINE, TMP, make_folder};
use super::head::{HEAD, HEAD_BYTES_MAX, Head};
use super::journal::record::Record;
use super::journal::recover::{Missing, Position, Recovered};
use super::journal::{self, Journal, WAL};
use super::lock;
use super::parallel_read;
use super::protocol::Protocol;
use super::setup::{LOST_REVISIONS, Setup};
use super::start::{self, Ids, Loaded};
use super::sums::Sums;
use super::{names, quarantine};
use crate::store::{Damage, OpenError, StoreRules};
use coracle_api::meta::{Key, Revision};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The message about a path that is not a store's directory.
pub const NO_STORE: &str =
    "there is no store; name its directory by --data-dir or --config, or mount the disk that it lies on";

/// Whether a directory is no store: it is not there, or is empty, as one is where the disk is to be mounted.
pub fn is_none(dir: &Path) -> bool {
    [HEAD, OBJECTS, WAL, TMP]
        .iter()
        .all(|name| fs::symlink_metadata(dir.join(name)).is_err_and(|error| !is_unknown(&error)))
}

fn is_unknown(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[derive(Debug)]
pub struct Findings {
    pub store: String,
    pub revision: Revision,
    pub objects: usize,
    /// Records of the journal that no file holds yet.
    pub records: usize,
    /// The messages and actions of a start.
    pub notes: Vec<String>,
    pub damage: Vec<Damage>,
    /// People took files away: deletes, but maybe none that they meant.
    pub gone: bool,
    /// Why nobody can say what lies somewhere.
    pub unknown: Vec<String>,
    /// Acknowledged writes that are provably not there.
    pub missing: Option<Missing>,
}

impl Findings {
    /// No acknowledged write is missing, and every object is readable.
    pub fn whole(&self) -> bool {
        self.missing.is_none() && self.damage.is_empty() && self.unknown.is_empty()
    }
}

/// The outcome of a salvage.
#[derive(Debug)]
pub struct Salvaged {
    /// The writes that were given up, and the place of the journal as it was found.
    pub lost: Option<(Missing, String)>,
    /// The warnings that something may be missing and that are no longer given.
    pub settled: Vec<String>,
    /// Objects that there are now.
    pub objects: usize,
}

/// `deep`: every document is held against its kind as well.
pub fn inspect(dir: &Path, rules: &StoreRules, deep: bool) -> Result<Findings, OpenError> {
    let (disk, _lock) = existing(dir)?;
    let (loaded, found) = look(&disk, rules, "none yet".to_owned())?;
    let state = &loaded.state;
    let mut damage: Vec<Damage> = loaded.foreign.into_iter().chain(state.all_damage().cloned()).collect();
    if deep {
        for entry in state.all() {
            // Of a file that the store has put, the start believes most unread.
            let fault = match serde_json::from_slice(&entry.stored.json) {
                Ok(document) => (rules.fault)(&entry.stored.key, document),
                Err(error) => Some(format!("it is not JSON: {error}")),
            };
            damage.extend(fault.map(|why| unfit(&entry.stored.key, &why)));
        }
    }
    let missing = found.recovered.missing;
    let missing_text = missing.as_ref().map(Missing::to_string);
    let is_the_missing =
        |why: &str| missing_text.as_ref().is_some_and(|missing_text| why.starts_with(missing_text.as_str()));
    let unknown = state
        .unknown()
        .map(|(_, why)| why.to_owned())
        .filter(|why| !is_the_missing(why))
        .chain(found.unlisted)
        .collect();
    Ok(Findings {
        store: loaded.writer.head.store.clone(),
        revision: state.revision(),
        objects: state.all().count(),
        records: found.recovered.records.len(),
        notes: loaded.notes.into_iter().chain(loaded.edits.iter().map(Damage::to_string)).collect(),
        damage,
        gone: loaded.edits.iter().any(|edit| edit.file == OBJECTS),
        unknown,
        missing,
    })
}

/// Gives up the records that are missing: everything that can be read stays, the journal as it was found goes to
/// quarantine, and the next start serves reads and writes. What may be missing is told no more.
pub fn salvage(dir: &Path, rules: &StoreRules) -> Result<Salvaged, OpenError> {
    let (disk, _lock) = existing(dir)?;
    discover::find_head(&*disk)?;
    let failed_at =
        |error: DiskError| OpenError::Io { path: dir.to_owned(), error: io::Error::other(error.to_string()) };
    let fresh_store =
        disk::random_uuid().map_err(|error| OpenError::Io { path: "/proc/sys/kernel/random/uuid".into(), error })?;
    let (loaded, found) = look(&disk, rules, fresh_store)?;
    let mut lost = None;
    if let Some(missing) = found.recovered.missing.clone() {
        let evidence = keep_evidence(&*disk).map_err(failed_at)?;
        give_up(disk.clone(), &loaded, &found).map_err(failed_at)?;
        lost = Some((missing, evidence));
    }
    let settled = quarantine::settle_doubts(&*disk).map_err(failed_at)?;
    Ok(Salvaged { lost, settled, objects: loaded.state.all().count() })
}

fn unfit(key: &Key, why: &str) -> Damage {
    let file = format!("{OBJECTS}/{}", names::path(key));
    let remedy = "edit the file with the master stopped, or delete the object".to_owned();
    Damage { why: format!("{file}: {why}"), file, key: Some(key.clone()), kind: None, remedy }
}

fn existing(dir: &Path) -> Result<(Arc<dyn Disk>, lock::Lock), OpenError> {
    let failed = |error| OpenError::Io { path: dir.to_owned(), error };
    if is_none(dir) {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, NO_STORE)));
    }
    let disk = RealDisk::new(dir).map_err(failed)?;
    discover::refuse_newer(&disk, dir)?;
    Ok((Arc::new(disk), lock::lock(dir)?))
}

/// `fresh_store`: the identity of a store that has none.
fn look(disk: &Arc<dyn Disk>, rules: &StoreRules, fresh_store: String) -> Result<(Loaded, FoundJournal), OpenError> {
    let setup = Setup { look_only: true, ..Setup::PRODUCT };
    let ids = Ids { fresh_store, boot: String::new() };
    let loaded = start::load(disk.clone(), None, &ids, rules, &setup)?;
    let found = discover::find_journal(&**disk, Some(&loaded.writer.head), &setup);
    Ok((loaded, found))
}

/// Copies the journal and HEAD.json to where nothing is ever removed.
fn keep_evidence(disk: &dyn Disk) -> Result<String, DiskError> {
    let number = quarantine::next_number(disk).map_err(failed("list", QUARANTINE))?;
    // The name marks the folder as settled: no person has to look at the folder.
    let folder = format!("{QUARANTINE}/{}", quarantine::settled(&quarantine::folder(number, "salvaged")));
    make_folder(disk, &format!("{folder}/{WAL}"))?;
    let segments = disk.list(WAL).map_err(failed("list", WAL))?;
    let files = segments.iter().map(|found| format!("{WAL}/{}", found.name)).chain([HEAD.to_owned()]);
    for file in files {
        let bytes_max = if file == HEAD { HEAD_BYTES_MAX } else { SEGMENT_BYTES_READ_MAX };
        match disk.read(&file, bytes_max) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(bytes) => disk.create(&format!("{folder}/{file}"), &bytes).map_err(failed("write", &folder))?,
            // What nobody can read is evidence as well, and in the way where it is.
            Err(_) => disk.rename(&file, &format!("{folder}/{file}")).map_err(failed("rename", &file))?,
        }
    }
    disk.sync_dir(&format!("{folder}/{WAL}")).map_err(failed("fsync", &folder))?;
    disk.sync_dir(&folder).map_err(failed("fsync", &folder))?;
    Ok(folder)
}

/// First the files, then a segment that continues behind everything that was ever written, then HEAD.json, which makes
/// it count. Cut anywhere, the same is missing as before, and it can be done again.
fn give_up(disk: Arc<dyn Disk>, loaded: &Loaded, found: &FoundJournal) -> Result<(), DiskError> {
    make_folder(&*disk, TMP)?;
    make_folder(&*disk, journal::SPARE)?;
    let mut files = Files::default();
    let recovered = &found.recovered;
    loop {
        for (key, said) in start::view(recovered) {
            files.bring(&*disk, &key, said.object.as_deref())?;
        }
        if files.settle(&*disk)? {
            break;
        }
    }
    let last = recovered
        .records
        .iter()
        .chain(&recovered.beyond)
        .map(|line| line.n)
        .chain([recovered.last])
        .max()
        .unwrap_or_default();
    let reserved = loaded.state.revision().0 + LOST_REVISIONS;
    let behind = Recovered { last, ..Recovered::default() };
    let mut journal = Journal::new(
        disk.clone(),
        Setup::PRODUCT,
        &behind,
        VecDeque::new(),
        found.next,
        reserved,
        loaded.writer.head.journal,
    );
    journal.append(&[Record::Reserve { reserved }])?;
    let start = Position { segment: found.next, n: last + 1 };
    // `summed` is true only if the files equal the loaded state: then a start notices the loss of a file. Otherwise an
    // edit is still to be found.
    let (files, summed) =
        (loaded.state.files_sum(), there(&*disk).is_ok_and(|there| loaded.state.files_sum() == there));
    // Only the files of the journal were written: in a directory that was copied the others have no stamps, and nobody
    // edited them for that.
    let (objects, stamped) = (loaded.state.files_count(), loaded.writer.head.stamped && loaded.writer.stamping);
    let was = loaded.writer.head.clone();
    // What was set aside before is not among those that are counted now, and the evidence is none of them.
    let incidents = quarantine::next_number(&*disk).unwrap_or(was.incidents);
    let head = Head { wal: Some(start), reserved, clean: false, files, summed, objects, incidents, stamped, ..was };
    head.write(&*disk, &Protocol::WHOLE)
}

/// The sum of the objects' files.
fn there(disk: &dyn Disk) -> io::Result<Sums> {
    let (mut sums, mut folders, mut scratch) = (Sums::default(), vec![String::new()], Vec::new());
    while let Some(above) = folders.pop() {
        for found in disk.list(&format!("{OBJECTS}{above}"))?.into_iter().filter(|found| !found.name.starts_with('.')) {
            let path = format!("{above}/{}", found.name);
            match found.what {
                What::Folder => folders.push(path),
                What::File | What::Other | What::Nameless => {
                    if let Some(key) = names::key(&path[1..]) {
                        sums.add(&key, parallel_read::sum(&parallel_read::read(disk, &path[1..])?, &mut scratch).crc);
                    }
                }
            }
        }
    }
    Ok(sums)
}
