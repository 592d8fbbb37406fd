//! Objects of which the journal says more than their files: whether somebody wrote to such a file since. Only he can have, where a file
//! holds neither what it is to hold before the first record nor what any record says.
//!
//! ```text
//! the file holds what some record says, or what was before     a checkpoint came so far: the journal counts
//! it is no object                                              torn by a power cut: the journal counts · or broken by a person: set aside, said
//! it is another object than any record says                    a person's: it counts, and what the journal says is set aside, said
//! it is gone, and no record removes it                         a person's, or a copy that is not whole: the journal counts, said
//! ```

use super::copied::named;
use super::disk::{Disk, Stamp};
use super::files::{OBJECTS, QUARANTINE, make_folder};
use super::find::SEGMENT_BYTES_READ_MAX;
use super::head::HEAD;
use super::journal::held::{Held, Worth};
use super::journal::record::{Line, Record, Was};
use super::journal::recover::Recovered;
use super::journal::scan::{self, scan};
use super::journal::{self, WAL};
use super::judge::{FILE_BYTES_MAX, Wrong, judge, too_large};
use super::protocol::Protocol;
use super::tree::Tree;
use super::{Damage, document, names, quarantine};
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What the journal says of the objects that it says anything of.
pub type Covered = BTreeMap<Arc<Key>, Said>;

pub struct Said {
    /// The last word: the durable part, compact; None: that there is no such object.
    pub object: Option<Bytes>,
    pub revision: Revision,
    /// What the file held before the first record.
    was: Was,
    /// Checksums of what a checkpoint may have left in the file.
    sums: Vec<u32>,
    /// Of what people wrote, and the journal took.
    by_hand: Vec<u32>,
    /// Where all that was put lies.
    segments: Vec<u64>,
    /// All that the file may hold is known.
    known: bool,
    /// There was a file, and no record removes it.
    stays: bool,
    /// The first record is of what a person did, so HEAD.json may know the file otherwise.
    pub by_a_person: bool,
    /// What the file holds now.
    pub found: Was,
}

/// An object whose file a person wrote, over what the journal says.
pub struct Overridden {
    pub said: Said,
    /// As a store has put it, of which nothing but its content tells that it is a person's.
    pub put: bool,
    /// The revision that he saw.
    base: Option<Revision>,
}

impl Overridden {
    /// What the journal says of it.
    pub fn object(&self) -> Option<Value> {
        serde_json::from_slice(self.said.object.as_deref()?).ok()
    }
}

/// The last word of the journal on each key, and every earlier one. What lies beyond a hole counts where something is missing: it was
/// acknowledged too, and it is newer than the files. Then nothing is known of what the files may hold.
pub fn covered(recovered: &Recovered) -> Covered {
    let mut covered = Covered::new();
    let whole = recovered.missing.is_none();
    let mut all: Vec<&Held> = recovered.records.iter().collect();
    if !whole {
        // Later segments say something newer than what lies behind a hole.
        all.extend(&recovered.beyond);
        all.sort_by_key(|held| held.n);
    }
    for Held { segment, worth, .. } in all {
        // The checksum of what it puts, and that.
        let (key, revision, was, by_hand, sum, object) = match worth {
            Worth::Whole(Record::Put { key, revision, was, by_hand, object }) => {
                (key, revision, was, *by_hand, Some(document::crc32(object)), Some(object))
            }
            Worth::Outdone { key, revision, was, by_hand, sum } => (key, revision, was, *by_hand, Some(*sum), None),
            Worth::Whole(Record::Remove { key, revision, was }) => (key, revision, was, false, None, None),
            Worth::Whole(Record::Open { .. } | Record::Reserve { .. }) => continue,
        };
        let removed = sum.is_none() && *was == Was::Absent;
        let said = covered.entry(key.clone()).or_insert_with(|| Said::first(*revision, *was, whole, by_hand || removed));
        if let Was::Sum(sum) = was {
            said.sums.push(*sum);
            said.by_hand.extend(by_hand.then_some(*sum));
        }
        said.stays &= sum.is_some();
        said.revision = *revision;
        said.object = object.cloned();
        said.sums.extend(sum);
        if sum.is_some() && said.segments.last() != Some(segment) {
            said.segments.push(*segment);
        }
    }
    covered
}

impl Said {
    fn first(revision: Revision, was: Was, whole: bool, by_a_person: bool) -> Said {
        Said {
            object: None,
            revision,
            was,
            sums: Vec::new(),
            by_hand: Vec::new(),
            segments: Vec::new(),
            known: whole && was != Was::Unknown,
            stays: whole && matches!(was, Was::Sum(_)),
            by_a_person,
            found: Was::Absent,
        }
    }

    pub fn was(&self) -> Was {
        self.was
    }

    /// The checksum of what its file held before the journal began to say more, if there was one; None: nobody knows.
    pub fn file_before(&self) -> Option<Option<u32>> {
        match self.was {
            Was::Unknown => None,
            Was::Absent => Some(None),
            Was::Sum(sum) => Some(Some(sum)),
        }
    }

    /// Whether a file's content is somebody else's.
    fn is_foreign(&self, sum: u32, stamp: Stamp) -> bool {
        let last = self.object.as_deref().map(document::crc32);
        match stamp {
            _ if last == Some(sum) || self.by_hand.contains(&sum) => false,
            // The medium is failing, and the journal knows better.
            Stamp::Intact(said) if said != sum => false,
            Stamp::Touched(said) if said != sum => true,
            Stamp::None | Stamp::Intact(_) | Stamp::Touched(_) => self.known && !self.sums.contains(&sum),
        }
    }

    /// Whether a power cut in the middle of a checkpoint may have left it, for all that anybody knows.
    fn may_be_torn(&self, key: &Key, bytes: &[u8], disk: &dyn Disk) -> bool {
        let begins = |object: &[u8]| document::indented_within(object, FILE_BYTES_MAX).starts_with(bytes);
        let no_text = bytes.is_empty() || bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
        no_text
            || self.object.as_deref().is_some_and(begins)
            || self.segments.iter().any(|segment| self.puts(key, *segment, disk).any(|object| begins(&object)))
    }

    /// What a segment says that was put, which nothing has held in memory.
    fn puts(&self, key: &Key, segment: u64, disk: &dyn Disk) -> impl Iterator<Item = Bytes> {
        let text = disk.read(&journal::path(segment), SEGMENT_BYTES_READ_MAX).unwrap_or_default();
        let of = |found| match found {
            scan::Found::Line { line: Line { record: Record::Put { key, object, .. }, .. }, .. } => Some((key, object)),
            _ => None,
        };
        let found = scan(&text.into(), segment, &Protocol::WHOLE).into_iter().filter_map(of);
        found.filter(move |(of, object)| **of == *key && self.sums.contains(&document::crc32(object))).map(|(_, object)| object)
    }
}

impl Tree<'_> {
    /// Whether the file of an object that the journal covers counts all the same.
    pub(super) fn is_written_over(&mut self, key: &Key, path: &str) -> bool {
        let at = format!("{OBJECTS}/{path}");
        let Some(said) = self.covered.get_mut(key) else { return true };
        said.found = Was::Unknown;
        let bytes = match self.disk.read(&at, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                self.put_broken_aside(key, path, &Wrong { word: "too-large", why: too_large() });
                return false;
            }
            // The journal says it better anyway.
            Err(_) => return false,
        };
        let mut compact = Vec::new();
        document::stripped(&bytes, &mut compact);
        let (sum, stamp) = (document::crc32(&compact), self.disk.stamp(&at).unwrap_or(Stamp::None));
        said.found = Was::Sum(sum);
        self.any_stamp |= stamp != Stamp::None;
        let Some(row) = self.rules.kinds.iter().find(|kind| kind.resource == key.resource) else { return false };
        let Some(said) = self.covered.get(key).filter(|said| said.is_foreign(sum, stamp)) else { return false };
        match judge(&bytes, key, (&row.api_version, &row.kind)) {
            Ok(document) => {
                let base = document::revision(&document);
                if let Some((key, said)) = self.covered.remove_entry(key) {
                    let put = matches!(stamp, Stamp::Intact(_));
                    self.overridden.insert(key, Overridden { said, put, base });
                }
                true
            }
            Err(_) if said.may_be_torn(key, &bytes, self.disk) => {
                self.notes.push(format!("{at} was cut short when the last master ended; the journal has the object"));
                false
            }
            Err(wrong) => {
                self.put_broken_aside(key, path, &wrong);
                false
            }
        }
    }

    /// Says which files are gone that only a person can have taken away, or a copy has left out. Nobody can tell whether that was before
    /// or after the last write that was acknowledged, so that one is kept.
    pub(super) fn miss_files(&mut self) {
        let gone = self.covered.iter().filter(|(key, said)| said.stays && said.found == Was::Absent && !self.is_unread(&names::path(key)));
        let gone: Vec<(Arc<Key>, Revision)> = gone.map(|(key, said)| (key.clone(), said.revision)).collect();
        for (key, revision) in gone {
            let file = format!("{OBJECTS}/{}", names::path(&key));
            let why =
                format!("{file}: it was taken away, but the object was written after the file was: it is kept as of revision {revision}");
            let remedy = "delete the object where it is not wanted".to_owned();
            self.tell(&key, file, why, remedy);
            self.brought.push(key);
        }
    }

    /// Without HEAD.json nobody knows how far the files had come: what the journal brings may be what a person took away.
    pub fn tell_brought_back(&mut self) {
        let is_back = |key: &Key, said: &Said| said.object.is_some() && said.found == Was::Absent && !self.is_unread(&names::path(key));
        // Of the others it is told already.
        let back: Vec<&Arc<Key>> =
            self.covered.iter().filter(|(key, said)| !said.stays && is_back(key, said)).map(|(key, _)| key).collect();
        if back.is_empty() {
            return;
        }
        let (count, named) = (back.len(), named(back.into_iter()));
        let why = format!(
            "{OBJECTS}: {count} objects have no file, and without {HEAD} nobody knows whether somebody took it away: {WAL}/ has the objects, \
             so they are there: {named}"
        );
        let remedy = "delete the objects that are not wanted".to_owned();
        self.told.push(Damage { file: OBJECTS.to_owned(), key: None, kind: None, why, remedy });
    }

    /// A person wrote it, and it is no object; the journal has the object that it was.
    fn put_broken_aside(&mut self, key: &Key, path: &str, wrong: &Wrong) {
        let from = format!("{OBJECTS}/{path}");
        let why = format!("{from}: it was edited by hand and does not count, for {}", wrong.why);
        let mut file = from.clone();
        if !self.frozen {
            let folder = quarantine::settled(&quarantine::folder(self.incidents.next, wrong.word));
            match quarantine::set_aside(self.disk, &from, path, &folder, &wrong.why) {
                Ok(to) => {
                    self.incidents.next += 1;
                    file = to;
                    self.brought.push(Arc::new(key.clone()));
                }
                Err(error) => self.notes.push(error.to_string()),
            }
        }
        self.tell(key, file, why, "put it right and replace the object by it".to_owned());
    }

    /// The edit counts, over a write that its author may never have seen: that is kept beside.
    pub(super) fn keep_overridden(&mut self, key: &Key, Overridden { said, base, .. }: Overridden) {
        if base.is_some_and(|base| base >= said.revision) {
            return;
        }
        let Some(object) = said.object else {
            let file = format!("{OBJECTS}/{}", names::path(key));
            let why =
                format!("{file}: the object was deleted at revision {}; its file is older, and there again: it counts", said.revision);
            return self.tell(key, file, why, "delete the object where it is not wanted".to_owned());
        };
        let folder = quarantine::settled(&quarantine::folder(self.incidents.next, "overridden"));
        let path = names::path(key);
        let file = format!("{QUARANTINE}/{folder}/{path}");
        let why = format!(
            "{OBJECTS}/{path}: it was edited by hand, and counts; what the object was at revision {}, acknowledged, was not in it",
            said.revision
        );
        if !self.frozen {
            let (above, _) = file.rsplit_once('/').expect("it lies in quarantine");
            let kept = make_folder(self.disk, above).map_err(|error| error.to_string()).and_then(|()| {
                let text = document::indented_within(&object, FILE_BYTES_MAX);
                let done = self.disk.create(&file, &text).and_then(|()| self.disk.sync_dir(above));
                done.map_err(|error| format!("cannot write {file}: {error}"))
            });
            match kept {
                Ok(()) => self.incidents.next += 1,
                Err(error) => self.notes.push(error),
            }
        }
        self.tell(key, file, why, "look whether something of that is missed".to_owned());
    }

    /// The edit is none that any writer would be allowed. False: the journal knows nothing better.
    pub(super) fn take_back(&mut self, key: &Key, wrong: &Wrong) -> bool {
        let Some((key, Overridden { said, .. })) = self.overridden.remove_entry(key) else { return false };
        let Some(object) = said.object.clone() else { return false };
        self.put_broken_aside(&key, &names::path(&key), wrong);
        self.covered.insert(key.clone(), said);
        self.take_covered(&key, &object);
        true
    }

    fn tell(&mut self, key: &Key, file: String, why: String, remedy: String) {
        let kind = self.kind_of(Some(key));
        self.told.push(Damage { file, key: Some(key.clone()), kind, why, remedy });
    }
}
