//! Files that are not what HEAD.json says, though no person's hand shows at them: a directory that was copied while its master wrote, or
//! into which somebody has put older files back. The journal's retained segments (journal/past) tell most of it, HEAD.json's sum the rest.
//!
//! ```text
//! killed, or copied while a master ran: a file holds an earlier word of the journal than its last -> the last one counts, and is brought
//! closed in order: it does            -> somebody put it back: an edit like any other
//! nothing tells which files, but HEAD.json's sum differs -> all that it may be have new revisions, and it is told
//! ```

use super::disk::{Disk, Stamp};
use super::examine::Looked;
use super::files::OBJECTS;
use super::find::{Found, SEGMENT_BYTES_READ_MAX, mark_of, scanned};
use super::head::HEAD;
use super::journal::past::{Age, Past, Word};
use super::journal::record::{Record, Was};
use super::journal::recover::Wiped;
use super::journal::scan::{self, scan};
use super::journal::{self, WAL};
use super::protocol::Protocol;
use super::setup::LOST_REVISIONS;
use super::sums::{Doubts, PathSum, Sums};
use super::tree::{Brought, Tree};
use super::{Damage, gather, names};
use bytes::Bytes;
use coracle_api::meta::Key;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// So many files are named, of any number.
const NAMED_MAX: usize = 5;

/// The files as HEAD.json knows them.
#[derive(Default)]
pub struct Left {
    /// Closed in order.
    pub clean: bool,
    /// What they sum up to; None: nobody knows.
    pub sum: Option<Sums>,
    /// They do not.
    pub differs: bool,
    /// How many there were.
    pub objects: u64,
    /// So many were set aside since then.
    pub aside: u64,
    /// A start that had doubts of them since then has not come to its end.
    pub doubted: bool,
}

/// What the segments that are there say of the files before HEAD.json counts from the journal. `notes`: which of them are none of its.
pub fn past(disk: &dyn Disk, end: u64, found: &Found, protocol: &Protocol, notes: &mut Vec<String>) -> Past {
    let mut past = Past::before(end);
    for (segment, _) in found.old.iter().chain(&found.live) {
        let scanned = scanned(disk, *segment, protocol);
        let mark = scanned.found.as_deref().map_or(0, mark_of);
        if mark != 0 && mark != found.of {
            notes.push(format!("{} is of another store's journal: it is not heeded, and goes in time", journal::path(*segment)));
            continue;
        }
        past.add(scanned, protocol);
    }
    past
}

/// What the last words made of their files, by the segments that they stand in.
fn objects_of(disk: &dyn Disk, words: &[(Arc<Key>, Word)], protocol: &Protocol) -> BTreeMap<Arc<Key>, Option<Bytes>> {
    let gone = words.iter().filter(|(_, word)| word.sum.is_none());
    let mut objects: BTreeMap<Arc<Key>, Option<Bytes>> = gone.map(|(key, _)| (key.clone(), None)).collect();
    let segments: BTreeSet<u64> = words.iter().filter(|(_, word)| word.sum.is_some()).map(|(_, word)| word.segment).collect();
    for segment in segments {
        let wanted: BTreeMap<u64, &Arc<Key>> =
            words.iter().filter(|(_, word)| word.segment == segment).map(|(key, word)| (word.n, key)).collect();
        let Ok(text) = disk.read(&journal::path(segment), SEGMENT_BYTES_READ_MAX) else { continue };
        for found in scan(&text.into(), segment, protocol) {
            if let scan::Found::Line { line, .. } = found
                && let Record::Put { key, object, .. } = line.record
                && wanted.get(&line.n) == Some(&&key)
            {
                // Nothing keeps a segment in memory for long.
                objects.insert(key, Some(Bytes::copy_from_slice(&object)));
            }
        }
    }
    objects
}

impl Tree<'_> {
    /// What all files summed up to when the journal began to say more than they do, and how many they were; None: nobody knows.
    pub fn files_then(&self) -> Option<(Sums, u64)> {
        let edited: BTreeMap<&Key, Was> = self.edited.iter().map(|edited| (&*edited.key, edited.before)).collect();
        let (mut sum, mut count) = (Sums::default(), 0);
        let mut add = |key: &Key, crc: u32| {
            sum.add(key, crc);
            count += 1;
        };
        for (key, entry) in self.objects.iter().filter(|(key, _)| !self.covered.contains_key(*key) && !self.overridden.contains_key(*key)) {
            match edited.get(&**key) {
                Some(Was::Sum(crc)) => add(key, *crc),
                Some(Was::Absent) => {}
                Some(Was::Unknown) => return None,
                None => entry.file_crc.into_iter().for_each(|crc| add(key, crc)),
            }
        }
        let overridden = self.overridden.iter().map(|(key, overridden)| (key, &overridden.said));
        for (key, said) in self.covered.iter().chain(overridden) {
            said.file_before()?.into_iter().for_each(|crc| add(key, crc));
        }
        Some((sum, count))
    }

    /// How many files are gone that HEAD.json knows of, as far as that can be told. `alone`: of those that are gone, or that people have
    /// changed. A file that somebody made may look like one that was there, and make up the number.
    pub(super) fn gone(&self, left: &Left, alone: &[PathSum]) -> u64 {
        // What lies in a folder that cannot be read is not gone, and what was set aside since is remembered there.
        if !self.unread.is_empty() {
            return 0;
        }
        let fewer = self.files_count().map_or(0, |there| left.objects.saturating_sub(there + left.aside));
        let named = if alone.is_empty() { 0 } else { self.not_there(alone).saturating_sub(left.aside) };
        fewer.max(named)
    }

    fn not_there(&self, paths: &[PathSum]) -> u64 {
        let keys = self.objects.keys().chain(self.covered.keys()).chain(self.overridden.keys()).map(|key| &**key);
        let left_alone = self.left_alone.iter().filter_map(|left| left.file.strip_prefix(OBJECTS)?.strip_prefix('/')).map(PathSum::of);
        let there: HashSet<PathSum> = keys.chain(self.damaged.keys()).map(|key| PathSum::of(&names::path(key))).chain(left_alone).collect();
        paths.iter().filter(|path| !there.contains(path)).count() as u64
    }

    /// How many files there were when the journal began to say more than they do, as far as they are there still; what a person brought
    /// is not among them. None: nobody knows.
    fn files_count(&self) -> Option<u64> {
        let mut count = self.damaged.keys().filter(|key| !self.covered.contains_key(*key)).count() + self.left_alone.len();
        for (key, entry) in self.objects.iter().filter(|(key, _)| !self.covered.contains_key(*key) && !self.overridden.contains_key(*key)) {
            count += usize::from(entry.file_crc.is_some() && !self.unwritten.contains(key));
        }
        for said in self.covered.values().chain(self.overridden.values().map(|overridden| &overridden.said)) {
            count += usize::from(said.file_before()?.is_some());
        }
        Some(count as u64)
    }

    /// A copy of a directory whose master wrote meanwhile may have files of before HEAD.json: the journal's last words count.
    pub(super) fn heal(&mut self, left: &Left, past: &Past, looked: &mut Looked, protocol: &Protocol) {
        let crc = |key: &Arc<Key>| self.objects.get(key).and_then(|entry| entry.file_crc);
        let is_older = |key: &&Arc<Key>| past.age(key, crc(key)) == Age::Older;
        let older: Vec<(Arc<Key>, Word)> =
            looked.put.iter().chain(&looked.bare).filter(is_older).filter_map(|key| Some((key.clone(), past.last(key)?))).collect();
        let mut healed = self.heal_these(&older, protocol);
        healed.extend(self.heal_covered(past));
        // What is not there a person may have taken away, unless all of this together is what HEAD.json knows.
        let absent: Vec<(Arc<Key>, Word)> = self.absent(past).filter(|(key, _)| past.age(key, None) == Age::Older).collect();
        if !healed.is_empty()
            && let Some((mut sum, _)) = self.files_then().filter(|_| !absent.is_empty())
        {
            absent.iter().for_each(|(key, word)| word.sum.into_iter().for_each(|crc| sum.add(key, crc)));
            if left.sum.as_ref().is_some_and(|left| left.are(&sum)) {
                healed.extend(self.heal_these(&absent, protocol));
            }
        }
        if healed.is_empty() {
            return;
        }
        let is_left = |key: &Arc<Key>| !healed.contains(key);
        looked.put.retain(is_left);
        looked.bare.retain(is_left);
        looked.edited.retain(is_left);
        let (count, named) = (healed.len(), named(healed.iter()));
        self.notes.push(format!(
            "{count} files below {OBJECTS} are older than {HEAD}, as in a copy that was made while a master wrote: what {WAL}/ says of them \
             counts, and they are brought: {named}"
        ));
    }

    /// More is different than what shows a person's hand, so all may be files of another time: those that are gone nobody has taken away.
    pub(super) fn bring_absent(&mut self, past: &Past, protocol: &Protocol) {
        let absent: Vec<(Arc<Key>, Word)> = self.absent(past).filter(|_| past.is_whole()).collect();
        let brought = self.heal_these(&absent, protocol);
        if brought.is_empty() {
            return;
        }
        let (count, named) = (brought.len(), named(brought.iter()));
        let why = format!(
            "{OBJECTS}: {count} objects have no file, and nobody knows whether somebody took it away or others are of another time than {HEAD}: \
             what {WAL}/ says of them counts, and they are brought: {named}"
        );
        let remedy = "delete the objects that are not wanted".to_owned();
        self.told.push(Damage { file: OBJECTS.to_owned(), key: None, kind: None, why, remedy });
    }

    fn heal_these(&mut self, words: &[(Arc<Key>, Word)], protocol: &Protocol) -> Healed {
        let mut healed = Healed::new();
        for (key, object) in objects_of(self.disk, words, protocol) {
            let found = Was::of(self.objects.remove(&key).and_then(|entry| entry.file_crc));
            if let Some(object) = &object {
                self.take_covered(&key, object);
            }
            self.healed.push(Brought { key: key.clone(), object, found });
            healed.insert(key);
        }
        healed
    }

    /// Files that seem to be written over what the journal says, and are only older than it.
    fn heal_covered(&mut self, past: &Past) -> Healed {
        let is_older = |key: &Arc<Key>, put: bool| {
            let crc = self.objects.get(key).and_then(|entry| entry.file_crc);
            (put || !self.any_stamp) && matches!(past.age(key, crc), Age::Older | Age::Last)
        };
        let older: Healed =
            self.overridden.iter().filter(|(key, overridden)| is_older(key, overridden.put)).map(|(key, _)| key.clone()).collect();
        for key in &older {
            let Some(overridden) = self.overridden.remove(key) else { continue };
            self.objects.remove(key);
            if let Some(object) = &overridden.said.object {
                self.take_covered(key, object);
            }
            self.covered.insert(key.clone(), overridden.said);
            self.brought.push(key.clone());
        }
        older
    }

    /// What is to have files that are not there.
    fn absent<'p>(&'p self, past: &'p Past) -> impl Iterator<Item = (Arc<Key>, Word)> + 'p {
        let is_known = |key: &Arc<Key>| {
            let covered = self.covered.contains_key(key) || self.overridden.contains_key(key);
            covered || self.objects.contains_key(key) || self.damaged.contains_key(&**key) || self.is_unread(&names::path(key))
        };
        let put = past.all().filter(|(key, word)| word.sum.is_some() && self.row(key).is_some());
        put.filter(move |(key, _)| !is_known(key)).map(|(key, word)| (key.clone(), word))
    }

    /// Old segments still tell of what people took away, should HEAD.json be lost one day; so the journal says that it is gone.
    pub(super) fn bury_removed(&mut self, past: &Past) {
        self.removed = self.absent(past).map(|(key, _)| key).collect();
    }

    /// Which files may be others than HEAD.json knows them, though nothing else shows it; None: nobody can say. What was there before
    /// somebody changed it is guessed, and of one file in each part that is not even needed. Beside them those files of which that is sure.
    pub(super) fn account(&self, wanted: &Sums, past: &Past, looked: &Looked) -> Option<(Doubts, Vec<PathSum>)> {
        if !self.unread.is_empty() {
            return None;
        }
        let word = |key: &Key| past.last(key).filter(|_| past.is_whole())?.sum;
        let guess = |key: &Key| looked.said.get(key).copied().or_else(|| word(key));
        let (mut certain, mut guessed) = (Sums::default(), Sums::default());
        let mut count = |key: &Key, crc: Option<u32>, is_certain: bool| {
            if let Some(crc) = crc {
                guessed.add(key, crc);
                if is_certain {
                    certain.add(key, crc);
                }
            }
        };
        let edited: BTreeSet<&Key> = looked.edited.iter().map(|key| &**key).collect();
        let is_said = |key: &Key| self.covered.contains_key(key) || self.overridden.contains_key(key);
        for (key, entry) in self.objects.iter().filter(|(key, _)| !is_said(key)) {
            let is_edited = edited.contains(&**key);
            count(key, if is_edited { guess(key) } else { entry.file_crc }, !is_edited);
        }
        let overridden = self.overridden.iter().map(|(key, overridden)| (key, &overridden.said));
        for (key, said) in self.covered.iter().chain(overridden) {
            // HEAD.json may know what it was before a person wrote it.
            count(key, said.file_before().flatten(), !said.by_a_person);
        }
        self.damaged.keys().filter(|key| !is_said(key)).for_each(|key| count(key, guess(key), false));
        self.absent(past).for_each(|(key, _)| count(&key, guess(&key), false));
        // A newer master may have known of them.
        for path in self.left_alone.iter().filter_map(|left| left.file.strip_prefix(OBJECTS)?.strip_prefix('/')) {
            if let (Some(key), Ok(bytes)) = (names::key(path), gather::read(self.disk, path)) {
                count(&key, Some(gather::sum(&bytes, &mut Vec::new()).crc), false);
            }
        }
        Some((wanted.doubts(&[&guessed, &certain]), wanted.alone(&certain)))
    }

    /// Somebody put them there; they were written by a store, and something else was written there since.
    pub(super) fn tell_put_back(&mut self, keys: &[Arc<Key>]) {
        if keys.is_empty() {
            return;
        }
        let (count, named) = (keys.len(), named(keys.iter()));
        let why = format!(
            "{OBJECTS}: {count} files are not what was written there last, or of objects that had been deleted: older, or put there by hand, so \
             they count, at new revisions: {named}"
        );
        let remedy = "look whether something newer is missed".to_owned();
        self.told.push(Damage { file: OBJECTS.to_owned(), key: None, kind: None, why, remedy });
    }

    /// Whether files of a store that was not closed say revisions that neither HEAD.json nor the journal knows of, though no person wrote
    /// them: so they are newer than the journal is.
    pub fn is_ahead(&self) -> bool {
        let stamp = |key: &Arc<Key>| self.disk.stamp(&format!("{OBJECTS}/{}", names::path(key))).ok();
        let is_put = |key: &Arc<Key>| matches!(stamp(key), Some(Stamp::Intact(_)));
        // In a copy no file may have a stamp.
        self.beyond.iter().any(is_put) || !self.beyond.is_empty() && self.objects.keys().all(|key| stamp(key) == Some(Stamp::None))
    }

    /// Nobody knows whether there was more, nor which revisions it had.
    pub fn tell_behind(&mut self, wiped: Option<Wiped>) {
        self.next += LOST_REVISIONS;
        let base = self.base.unwrap_or_default();
        let given: Vec<_> = self.objects.iter().filter(|(_, entry)| entry.stored.revision.0 > base).map(|(key, _)| key.clone()).collect();
        for key in given {
            let revision = self.fresh();
            self.objects.entry(key).and_modify(|entry| entry.stored = entry.stored.at(revision));
        }
        let why = match wiped {
            Some(Wiped { place, bytes }) => format!(
                "{place}: {bytes} bytes of the journal's end are none that a master wrote, as of a card that lost pages or a copy of a disk that \
                 could not be read: more than a power cut spoils; what was acknowledged last may be missing"
            ),
            None => format!(
                "{WAL}/ ends before what {HEAD}, the files or a later segment say: it is older, as in a copy that is not whole, or the newest \
                 was taken away, or an older one put over it; what was acknowledged since may be missing"
            ),
        };
        self.remember_doubt(WAL, &why);
    }

    /// Nobody can say which files they are.
    pub(super) fn tell_unexplained(&mut self, renewed: usize) {
        let why = format!(
            "{OBJECTS}/ is not what {HEAD} says: somebody put files there, or it is a copy that is not whole; {renewed} objects that may be older \
             than they were have new revisions"
        );
        self.remember_doubt(OBJECTS, &why);
    }
}

type Healed = BTreeSet<Arc<Key>>;

pub(super) fn named<'k>(keys: impl Iterator<Item = &'k Arc<Key>>) -> String {
    let mut keys = keys.peekable();
    let mut text: Vec<String> = keys.by_ref().take(NAMED_MAX).map(|key| key.to_string()).collect();
    text.extend(keys.next().is_some().then(|| "...".to_owned()));
    text.join(", ")
}
