//! The objects' files as a start finds them: place, content and stamp. Nothing is changed.

use super::journal_view::JournalView;
use super::judge::{Evidence, File, JournalEvidence, Mark};
use super::objects::kind;
use crate::store::StoreRules;
use crate::store::flat::content::{EMPTY, MISPLACED, Wrong, check, leading, too_large};
use crate::store::flat::disk::{Disk, Stamp};
use crate::store::flat::folders::OBJECTS;
use crate::store::flat::journal::record::Was;
use crate::store::flat::outline::{Outline, Trust, outline};
use crate::store::flat::parallel_read::{self, FileText, gather, gather_files, sum, text};
use crate::store::flat::seal::Form;
use crate::store::flat::sums::Sums;
use crate::store::flat::volatile::Kept;
use crate::store::flat::{document, names};
use coracle_api::meta::Key;
use std::io;

/// Files that are looked at to tell whether a directory was copied.
const SAMPLE: usize = 8;

/// One object's file, and what the last master kept of the object in memory.
pub struct FoundFile {
    pub key: Key,
    /// This version knows the kind of the object.
    pub known: bool,
    pub evidence: Evidence,
    pub content: Content,
    pub kept: Option<Kept>,
    /// The checksum in its stamp. None: it has no stamp, or nobody has looked.
    pub stamped: Option<u32>,
}

pub enum Content {
    Absent,
    /// Not the object that its place says, or unreadable.
    Wrong(Wrong),
    /// The same of a kind that this version does not know: the version that knows the kind judges it.
    Foreign(Wrong),
    /// Sealed by a key that is not at hand.
    Shut {
        crc: u32,
        why: String,
    },
    Object {
        text: FileText,
        outline: Option<Outline>,
        /// A store has written it once, or a person said a revision.
        has_revision: bool,
    },
}

impl FoundFile {
    pub fn crc(&self) -> Option<u32> {
        match &self.content {
            Content::Object { text, .. } => Some(text.crc),
            Content::Shut { crc, .. } => Some(*crc),
            Content::Absent | Content::Wrong(_) | Content::Foreign(_) => None,
        }
    }

    /// Whether it counts among the files that a store has left.
    fn was_there(&self) -> bool {
        match &self.content {
            Content::Absent => false,
            Content::Wrong(_) | Content::Shut { .. } => true,
            Content::Foreign(_) => self.stamped.is_some(),
            Content::Object { has_revision, .. } => {
                *has_revision || !matches!(self.evidence.mark, Mark::Bare | Mark::Strange)
            }
        }
    }
}

/// All that a start knows of the objects' files.
pub struct ScannedFiles {
    /// In the order of the keys: files of objects without a journal record; in `journaled` files of objects with
    /// records.
    pub silent: Vec<FoundFile>,
    pub journaled: Vec<FoundFile>,
    /// All files are as they were left, and the journal has nothing to add.
    pub as_left: bool,
}

/// Reads the files and compares the journal. `kept`: the objects that the last master kept in memory, which count if
/// all files are as they were left; otherwise `kept` is given back.
pub fn read(
    disk: &dyn Disk,
    rules: &StoreRules,
    files: Vec<Key>,
    journal: &mut JournalView,
    kept: Option<Vec<(Key, Kept)>>,
    left: Option<&Sums>,
    is_unread: impl Fn(&str) -> bool,
) -> (ScannedFiles, Option<Vec<(Key, Kept)>>) {
    let silent: Vec<Key> = files.into_iter().filter(|key| !journal.contains_key(key)).collect();
    let alone = journal.is_empty();
    let left = left.filter(|_| alone).copied();
    let (texts, as_left) = read_texts(disk, rules, &silent, kept.as_deref().unwrap_or_default(), left);
    let (used, unused) = if as_left { (kept, None) } else { (None, kept) };
    let silent = silent_files(disk, rules, silent.into_iter().zip(texts).collect(), used.unwrap_or_default(), as_left);
    let journaled = journaled_files(disk, rules, journal, is_unread);
    (ScannedFiles { silent, journaled, as_left }, unused)
}

/// Reads the files. If they are unchanged since the shutdown, the kept facts about an object replace its file's.
/// `left`: the sum of all files then.
fn read_texts(
    disk: &dyn Disk,
    rules: &StoreRules,
    keys: &[Key],
    kept: &[(Key, Kept)],
    left: Option<Sums>,
) -> (Vec<io::Result<FileText>>, bool) {
    let is_kept = |key: &Key| kept.binary_search_by(|(kept, _)| kept.cmp(key)).is_ok();
    let read = |key: &Key| parallel_read::read(disk, &names::path(key));
    let sealing = &rules.sealing;
    let whole = |key: &Key, bytes: &[u8], scratch: &mut Vec<u8>| text(bytes, scratch).opened(key, sealing);
    let work = |key: &Key, bytes: &[u8], scratch: &mut Vec<u8>| {
        if is_kept(key) { sum(bytes, scratch) } else { whole(key, bytes, scratch) }
    };
    let texts = gather_files(keys, read, work);
    let as_left = left.is_some_and(|left| {
        let mut found = Sums::default();
        keys.iter().zip(&texts).for_each(|(key, text)| text.iter().for_each(|text| found.add(key, text.crc)));
        left == found
    });
    if as_left || kept.is_empty() {
        return (texts, as_left);
    }
    // Somebody may have written files: those count.
    (gather_files(keys, read, whole), false)
}

/// An object's file and its place in memory, before it is known what it is.
struct Seen {
    key: Key,
    text: Option<io::Result<FileText>>,
    kept: Option<Kept>,
}

fn silent_files(
    disk: &dyn Disk,
    rules: &StoreRules,
    mut files: Vec<(Key, io::Result<FileText>)>,
    kept: Vec<(Key, Kept)>,
    as_left: bool,
) -> Vec<FoundFile> {
    files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let seen = joined(files, kept);
    let StoreRules { kinds, durable_by_sketch, .. } = rules;
    let trust = if as_left { Trust::File } else { Trust::Nothing };
    let looked = gather(&seen, |Seen { key, text, kept }, _| {
        let (Some(Ok(text)), None) = (text, kept) else { return (None, Ok(true)) };
        let known = kind(kinds, key);
        if let Form::Shut(_) = text.form {
            return (None, raw_fault(disk, key, known));
        }
        let said = known.or_else(|| leading(&text.compact, key));
        match said.and_then(|kind| outline(&text.compact, key, kind, durable_by_sketch, trust)) {
            Some(outline) => {
                let has_revision = outline.said.is_some();
                (Some(outline), Ok(has_revision))
            }
            None if as_left && known.is_some() => (None, Ok(true)),
            // As it lies there: white space may be what is wrong.
            None => (None, raw_fault(disk, key, known)),
        }
    });
    let found = |(Seen { key, text, kept }, (outline, has_revision))| {
        let known = kind(kinds, &key).is_some();
        let (file, content) = match (text, has_revision) {
            (None, _) => (File::Absent, Content::Absent),
            (Some(Err(error)), _) if io::Error::kind(&error) == io::ErrorKind::FileTooLarge => {
                wrong_file(known, File::TooLarge, Wrong { word: "too-large", why: too_large() })
            }
            (Some(Err(error)), _) => (File::Unreadable, Content::Wrong(unreadable(&error))),
            (Some(Ok(_)), Err((file, wrong))) => wrong_file(known, file, wrong),
            (Some(Ok(_)), Ok(false)) if !known => {
                let why = "it has no resourceVersion: no master wrote it".to_owned();
                wrong_file(known, File::Stranger, Wrong { word: MISPLACED, why })
            }
            (Some(Ok(FileText { crc, form: Form::Shut(why), .. })), Ok(_)) => {
                (File::Object, Content::Shut { crc, why })
            }
            (Some(Ok(text)), Ok(has_revision)) => (File::Object, Content::Object { text, outline, has_revision }),
        };
        let evidence = Evidence { journal: JournalEvidence::Silent, file, mark: Mark::Fits };
        FoundFile { key, known, evidence, content, kept, stamped: None }
    };
    seen.into_iter().zip(looked).map(found).collect()
}

fn wrong_file(known: bool, file: File, wrong: Wrong) -> (File, Content) {
    (file, if known { Content::Wrong(wrong) } else { Content::Foreign(wrong) })
}

/// Whether a file says a revision; or why it is not the object that its place says.
fn raw_fault(disk: &dyn Disk, key: &Key, kind: Option<(&str, &str)>) -> Result<bool, (File, Wrong)> {
    match parallel_read::read(disk, &names::path(key)) {
        Ok(bytes) => match check(&bytes, key, kind) {
            Ok(document) => Ok(document::revision(&document).is_some()),
            Err(wrong) => Err((kind_of_wrong(&wrong), wrong)),
        },
        Err(error) => Err((File::Unreadable, unreadable(&error))),
    }
}

fn kind_of_wrong(wrong: &Wrong) -> File {
    match wrong.word {
        EMPTY => File::Blank,
        MISPLACED => File::Stranger,
        _ => File::Broken,
    }
}

fn unreadable(error: &io::Error) -> Wrong {
    Wrong { word: "unreadable", why: format!("it cannot be read: {error}") }
}

/// Both in the order of their keys.
fn joined(files: Vec<(Key, io::Result<FileText>)>, kept: Vec<(Key, Kept)>) -> Vec<Seen> {
    let mut seen = Vec::with_capacity(files.len().max(kept.len()));
    let mut kept = kept.into_iter().peekable();
    for (key, text) in files {
        while let Some((key, kept)) = kept.next_if(|(kept, _)| *kept < key) {
            seen.push(Seen { key, text: None, kept: Some(kept) });
        }
        let kept = kept.next_if(|(kept, _)| *kept == key).map(|(_, kept)| kept);
        seen.push(Seen { key, text: Some(text), kept });
    }
    seen.extend(kept.map(|(key, kept)| Seen { key, text: None, kept: Some(kept) }));
    seen
}

/// The files of all objects that the journal mentions.
fn journaled_files(
    disk: &dyn Disk,
    rules: &StoreRules,
    journal: &mut JournalView,
    is_unread: impl Fn(&str) -> bool,
) -> Vec<FoundFile> {
    let mut all = Vec::with_capacity(journal.len());
    for (key, said) in journal {
        let path = names::path(key);
        let kind = kind(&rules.kinds, key);
        let evidence = |journal, file, mark| Evidence { journal, file, mark };
        let (evidence, wrong) = match parallel_read::read(disk, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_unread(&path) => {
                (evidence(said.on_absence(), File::Absent, Mark::Bare), None)
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                said.found = Was::Unknown;
                let wrong = Wrong { word: "too-large", why: too_large() };
                (evidence(said.on_no_object(), File::TooLarge, Mark::Bare), Some(wrong))
            }
            Err(error) => {
                said.found = Was::Unknown;
                (evidence(JournalEvidence::Explains, File::Unreadable, Mark::Bare), Some(unreadable(&error)))
            }
            Ok(bytes) => {
                let mut compact = Vec::new();
                document::stripped(&bytes, &mut compact);
                let crc = document::crc32(&compact);
                said.found = Was::Sum(crc);
                let mark = mark_of(disk.stamp(&format!("{OBJECTS}/{path}")).unwrap_or(Stamp::None), crc, Mark::Bare);
                match said.on_content(crc, mark == Mark::Changed) {
                    JournalEvidence::Contradicts => match check(&bytes, key, kind) {
                        Ok(_) => (evidence(JournalEvidence::Contradicts, File::Object, mark), None),
                        Err(wrong) => (evidence(said.on_no_object(), kind_of_wrong(&wrong), mark), Some(wrong)),
                    },
                    _ => (evidence(JournalEvidence::Explains, File::Object, mark), None),
                }
            }
        };
        let content = wrong.map_or(Content::Absent, Content::Wrong);
        let (key, known) = (Key::clone(key), kind.is_some());
        all.push(FoundFile { key, known, evidence, content, kept: None, stamped: None });
    }
    all
}

fn mark_of(stamp: Stamp, crc: u32, without: Mark) -> Mark {
    match stamp {
        Stamp::None => without,
        Stamp::Intact(said) | Stamp::Touched(said) if said == crc => Mark::Fits,
        Stamp::Intact(_) => Mark::Rotten,
        Stamp::Touched(_) => Mark::Changed,
    }
}

impl ScannedFiles {
    /// The sum of all files when the journal got ahead of them; None: unknown.
    pub fn sum_then(&self, journal: &JournalView) -> Option<Sums> {
        let mut sum = Sums::default();
        self.silent.iter().for_each(|found| found.crc().into_iter().for_each(|crc| sum.add(&found.key, crc)));
        for (key, said) in journal {
            said.file_before()?.into_iter().for_each(|crc| sum.add(key, crc));
        }
        Some(sum)
    }

    /// The same, by the stamps that the store gave its files: later edits by people do not count. Also returns the sum
    /// without edited files, and whether a file has no stamp: such a file is new or lost its stamp in an edit. Files of
    /// kinds that this version does not know are in neither sum.
    pub fn sums_stamped(&self, journal: &JournalView) -> Option<([Sums; 2], bool)> {
        let (mut stamped, mut untouched, mut any_bare) = (Sums::default(), Sums::default(), false);
        for found in self.silent.iter().filter(|found| found.known && !matches!(found.content, Content::Absent)) {
            let Some(crc) = found.stamped else {
                any_bare = true;
                continue;
            };
            stamped.add(&found.key, crc);
            if found.crc() == Some(crc) {
                untouched.add(&found.key, crc);
            }
        }
        for (key, said) in journal {
            if let Some(crc) = said.file_before()? {
                stamped.add(key, crc);
                untouched.add(key, crc);
            }
        }
        Some(([stamped, untouched], any_bare))
    }

    /// The stamps of files of kinds that this version does not know.
    pub fn stamps_of_unknown(&self) -> impl Iterator<Item = (&Key, u32)> {
        self.silent.iter().filter(|found| !found.known).filter_map(|found| Some((&found.key, found.stamped?)))
    }

    /// How many files there were then, as far as they are there still; what a person made is not among them. None:
    /// nobody knows.
    pub fn count_then(&self, journal: &JournalView) -> Option<usize> {
        let said: Option<usize> =
            journal.values().map(|said| said.file_before().map(|before| usize::from(before.is_some()))).sum();
        Some(self.silent.iter().filter(|found| found.was_there()).count() + said?)
    }

    /// The content of such files is unknown.
    pub fn any_unreadable(&self) -> bool {
        self.silent.iter().any(|found| found.evidence.file == File::Unreadable)
    }

    pub fn any_without_revision(&self) -> bool {
        self.silent.iter().any(|found| matches!(found.content, Content::Object { has_revision: false, .. }))
    }

    /// Looks at the stamps of all files. `stamped`: according to HEAD.json each file has a stamp. Returns whether only
    /// new or replaced files lack a stamp: an editor replaces the file and loses the stamp; a copied directory has no
    /// stamps.
    pub fn look_at_stamps(&mut self, disk: &dyn Disk, stamped: bool) -> bool {
        let is_there = |found: &FoundFile| !matches!(found.content, Content::Absent);
        let stamp =
            |found: &FoundFile| is_there(found).then(|| disk.stamp(&format!("{OBJECTS}/{}", names::path(&found.key))));
        let stamps: Vec<Option<io::Result<Stamp>>> = self.silent.iter().map(stamp).collect();
        let is_one =
            |stamp: &Option<io::Result<Stamp>>| matches!(stamp, Some(Ok(Stamp::Intact(_) | Stamp::Touched(_))));
        let any = stamps.iter().any(is_one) || self.journaled.iter().any(|found| found.evidence.mark != Mark::Bare);
        let replaced = any && stamped;
        let mut any_bare = false;
        for (found, stamp) in self.silent.iter_mut().zip(stamps) {
            if let Some(Ok(Stamp::Intact(said) | Stamp::Touched(said))) = stamp {
                found.stamped = Some(said);
            }
            // What cannot be read is unknown, not absent.
            let (Some(crc), Some(Ok(stamp))) = (found.crc(), stamp) else { continue };
            let has_revision =
                matches!(found.content, Content::Object { has_revision: true, .. } | Content::Shut { .. });
            found.evidence.mark =
                mark_of(stamp, crc, if replaced || !has_revision { Mark::Strange } else { Mark::Bare });
            any_bare |= found.evidence.mark == Mark::Bare;
        }
        replaced || !any_bare
    }

    /// Nobody edited anything, but the whole directory may have been copied here without its stamps.
    pub fn lack_stamps(&self, disk: &dyn Disk) -> bool {
        let files = self.silent.iter().filter(|found| matches!(found.content, Content::Object { .. }));
        let stamp = |found: &FoundFile| disk.stamp(&format!("{OBJECTS}/{}", names::path(&found.key)));
        files.take(SAMPLE).any(|found| stamp(found).is_ok_and(|stamp| stamp == Stamp::None))
    }
}
