//! The end of a start: the new segment, and everything that has to be durable before anybody is served.
//!
//! ```text
//! a new segment: fence, what of the journal is unproven, revisions reserved, what was edited by hand
//!   -> those files are the store's own
//!   -> segments that count no more go -> HEAD.json
//! ```
//!
//! What the journal says and the files do not is left to the next checkpoint. A start that cannot write serves reads,
//! and takes no edits in.

mod settle;

use self::settle::Settling;
use super::judge::Sum;
use super::objects::{By, Rewritten};
use super::{Ids, Loaded, Start};
use crate::store::flat::checkpoint::{Dirty, NewFile};
use crate::store::flat::committer::{Committer, Purge};
use crate::store::flat::discover::FoundJournal;
use crate::store::flat::disk::{Disk, Stamp};
use crate::store::flat::disk_error::DiskError;
use crate::store::flat::document;
use crate::store::flat::folders::TMP;
use crate::store::flat::head::{FORMAT_PLAIN, FORMAT_SEALED, Head};
use crate::store::flat::journal::record::{self, Record, Was};
use crate::store::flat::journal::recover::{Position, Recovered};
use crate::store::flat::journal::{Journal, Retired};
use crate::store::flat::protocol::ProtocolRule;
use crate::store::flat::quarantine::Incidents;
use crate::store::flat::seal::keys::SealKeys;
use crate::store::flat::setup::{BATCH_BYTES_MAX, Setup};
use crate::store::flat::state::StoreState;
use crate::store::flat::sums::Sums;
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A start that cannot write skips so many revisions, times one of so many places that no other start is likely to
/// have, so that two such starts never give one revision to two things: no store comes so far by writing, and a
/// thousand such starts stay below what every JSON reader holds exactly.
const APART_REVISIONS: u64 = 1 << 20;
const APART_PLACES: u64 = 1 << 20;

/// An object that is journaled anew, and what its file is to say.
struct Edit {
    rewritten: Rewritten,
    object: Bytes,
}

pub fn begin(
    disk: Arc<dyn Disk>,
    mut start: Start<'_>,
    head: Option<Head>,
    found: FoundJournal,
    ids: &Ids,
    setup: &Setup,
) -> Loaded {
    let FoundJournal { recovered, mut old, live, next, of, unlisted } = found;
    let differs = start.left.sum == Sum::Differs;
    // Where people edited the files since a clean close, what the journal said before counts no more, also where
    // HEAD.json is lost one day.
    let anew = start.left.closed && differs;
    let outdated = if anew { old.iter().chain(&live).map(|(segment, _)| *segment).collect() } else { Vec::new() };
    let reserved = start.objects.base.unwrap_or_default();
    let mut dirty = Dirty::default();
    let then = start.files_then().filter(|_| differs);
    let edits = start.edits();
    let stamping = start.stamped || (!start.report.frozen && start.stamp_soon(&mut dirty));
    let frozen = start.frozen(&recovered).or(unlisted);
    let store = head.as_ref().map_or_else(|| ids.fresh_store.clone(), |head| head.store.clone());
    let mark = if of == 0 { document::crc32(store.as_bytes()) } else { of };
    let says_all = |head: &Head| head.wal.is_some() && (!head.stamped || start.stamped) && head.journal == mark;
    // A closed store is whole even without its journal; after this start the store needs the journal.
    let head_is_due = differs || !head.as_ref().is_some_and(|head| says_all(head) && !head.clean);
    let purge = start.purge(head.as_ref());
    let mut head = Head { journal: mark, ..head.unwrap_or(Head { store, reserved, ..Head::default() }) };
    head.format = start.format();
    if purge.is_some() || matches!(start.objects.rules.sealing.keys, SealKeys::Off) {
        head.sealed.clear();
    }
    let fresh = Position { segment: next, n: recovered.last + 1 };
    // Where older segments have nothing more to say, what this one is to say would not be missed with it.
    let from = recovered.start.filter(|_| !anew && !recovered.records.is_empty()).unwrap_or(fresh);
    let wanted = if head_is_due { start.head_from(from, &head, then) } else { head.clone() };
    let batches = batches(&edits, &start, setup);
    let brought = start.brought_to(&edits);
    let closed = start.left.closed;
    let mut due = Settling {
        setup,
        recovered: &recovered,
        batches,
        brought,
        done: 0,
        closed,
        outdated,
        head: wanted,
        head_is_due,
        fresh,
    };
    let mut journal = Journal::new(disk.clone(), *setup, &recovered, live, next, reserved, mark);
    let mut outcome = Ok(());
    if frozen.is_none() && !setup.look_only {
        outcome = due.settle(&*disk, &mut journal, &mut old, &mut head);
    }
    let Settling { batches, done, brought, .. } = due;
    let unwritten = if setup.look_only { VecDeque::new() } else { batches };
    let why = frozen.clone().or(outcome.as_ref().err().map(DiskError::to_string));
    start.leave_unwritten(edits, &unwritten, done, why.as_deref(), &mut dirty);
    let last = start.reserve_apart(unwritten, &mut journal, ids);
    start.leave_behind(&brought[..done], &mut dirty);
    let full = outcome.as_ref().is_err_and(DiskError::no_space);
    let degraded = frozen.clone().or(start.report.degraded.take()).or(outcome.err().map(|error| error.to_string()));
    journal.retired.extend(old.into_iter().map(|(segment, bytes)| Retired { segment, bytes, since: Duration::ZERO }));
    let incidents = std::mem::take(&mut start.report.incidents);
    let writer =
        Committer { full, frozen, stamping, purge, ..writer(disk, (journal, head), (dirty, incidents), setup) };
    loaded(start, writer, last, degraded)
}

fn loaded(start: Start<'_>, writer: Committer, last: Revision, degraded: Option<String>) -> Loaded {
    let Start { objects, report, foreign, shut, .. } = start;
    let state = StoreState::new(objects.all, report.damaged, last).without(report.unread);
    let state = state.sealing(objects.rules.sealing.clone()).shutting(shut.files, [shut.silent, shut.journaled]);
    Loaded {
        state: state.beside(foreign),
        writer,
        notes: report.notes,
        foreign: report.foreign,
        left_alone: report.left_alone,
        edits: report.edits,
        degraded,
    }
}

/// A writer that has done nothing yet.
fn writer(
    disk: Arc<dyn Disk>,
    (journal, head): (Journal, Head),
    (dirty, incidents): (Dirty, Incidents),
    setup: &Setup,
) -> Committer {
    let mut writer = Committer {
        disk,
        journal,
        head,
        dirty,
        incidents,
        purge: None,
        limits: setup.limits(None),
        checkpointing: false,
        timed: false,
        stamping: false,
        checkpoint_after: None,
        asked: None,
        each: false,
        unsettled: None,
        full: false,
        frozen: None,
        closed: false,
    };
    writer.limits = setup.limits(writer.room());
    writer
}

/// The records to journal, in batches that fit a segment, behind the reserved revisions.
fn batches(edits: &[Edit], start: &Start, setup: &Setup) -> VecDeque<Vec<Record>> {
    let reserve = setup
        .protocol
        .holds(ProtocolRule::Reserve)
        .then_some(Record::Reserve { reserved: start.objects.last + setup.reserve });
    let mut batches = VecDeque::from([Vec::from_iter(reserve)]);
    let mut bytes = 0;
    for Edit { rewritten, object } in edits {
        if bytes > BATCH_BYTES_MAX {
            batches.push_back(Vec::new());
            bytes = 0;
        }
        let revision = start.objects.all[&rewritten.key].stored.revision;
        let (key, was) = (rewritten.key.clone(), rewritten.was);
        let record = Record::Put { revision, key, was, by_hand: rewritten.by == By::Hand, object: object.clone() };
        bytes += record::length_about(&record);
        batches.back_mut().expect("there is one").push(record);
    }
    batches
}

impl Start<'_> {
    /// A master that knows nothing of sealed objects would take them for others.
    fn format(&self) -> u32 {
        let sealing = &self.objects.rules.sealing;
        let sealed = self.objects.any_sealed || !self.shut.files.is_empty() || sealing.keys.current().is_some();
        if sealed { FORMAT_SEALED } else { FORMAT_PLAIN }
    }

    /// What is to be written anew by another key, and then removed in its earlier form.
    fn purge(&self, head: Option<&Head>) -> Option<Purge> {
        let SealKeys::Ring(ring) = &self.objects.rules.sealing.keys else { return None };
        let id = ring.current().map_or(String::new(), |key| key.id.to_string());
        let other = head.map_or("", |head| &head.sealed) != id;
        (other || self.objects.any_due).then_some(Purge { id, through: None })
    }

    /// The records to journal, in their final form.
    fn edits(&mut self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for rewritten in std::mem::take(&mut self.objects.rewritten) {
            let entry = self.objects.all.get(&rewritten.key);
            if let Some(object) =
                entry.and_then(|entry| document::durable_part(&entry.stored.json, entry.durable, None))
            {
                let object = self.objects.rules.sealing.at_rest(&rewritten.key, object);
                edits.push(Edit { rewritten, object });
            }
        }
        edits
    }

    /// The files that are to be written before anybody is served.
    fn brought_to(&mut self, edits: &[Edit]) -> Vec<(Arc<Key>, Option<Bytes>)> {
        let edited = edits.iter().map(|edit| (edit.rewritten.key.clone(), Some(edit.object.clone())));
        let of_journal = |key: Arc<Key>| Some((key.clone(), self.journal.get(&key)?.object.clone()));
        edited.chain(std::mem::take(&mut self.brought).into_iter().filter_map(of_journal)).collect()
    }

    /// The sum and the number of all files when the journal got ahead of them; None: unknown.
    fn files_then(&self) -> Option<(Sums, u64)> {
        // What cannot be read now may be there the next time, as HEAD.json knows it.
        if !self.report.unread.is_empty() || !self.report.incidents.in_place.is_empty() {
            return None;
        }
        let (mut sum, mut count) = (self.foreign.sum.plus(self.shut.silent.sum), self.foreign.count);
        count += self.shut.silent.count;
        let mut add = |key: &Key, crc: u32| {
            sum.add(key, crc);
            count += 1;
        };
        let rewritten: HashSet<&Arc<Key>> = self.objects.rewritten.iter().map(|rewritten| &rewritten.key).collect();
        for (key, entry) in
            self.objects.all.iter().filter(|(key, _)| !self.journal.contains_key(*key) && !rewritten.contains(key))
        {
            entry.file_crc.into_iter().for_each(|crc| add(key, crc));
        }
        for Rewritten { key, before, .. } in &self.objects.rewritten {
            match before {
                Was::Sum(crc) => add(key, *crc),
                Was::Absent => {}
                Was::Unknown => return None,
            }
        }
        for (key, said) in &self.journal {
            said.file_before()?.into_iter().for_each(|crc| add(key, crc));
        }
        Some((sum, count))
    }

    /// Files that were copied from elsewhere get their stamps with the next checkpoint, where this file system keeps
    /// any.
    fn stamp_soon(&mut self, dirty: &mut Dirty) -> bool {
        let (disk, probe) = (self.report.disk, format!("{TMP}/stamp"));
        let kept = disk
            .put(&probe, b"", Some(0))
            .and_then(|()| disk.stamp(&probe))
            .is_ok_and(|stamp| stamp == Stamp::Intact(0));
        disk.unlink(&probe).ok();
        if kept {
            for key in std::mem::take(&mut self.unstamped) {
                // What is shut gets its stamp from the start that can open it.
                if let Some(crc) = self.objects.all.get(&key).and_then(|entry| entry.file_crc) {
                    dirty.stamp(key, crc, Duration::ZERO);
                }
            }
        }
        kept
    }

    /// Why nothing is written before a person has looked.
    fn frozen(&mut self, recovered: &Recovered) -> Option<String> {
        let missing = recovered.missing.as_ref().map(|missing| {
            format!(
                "{missing}; nothing is written before a person has looked: where it is lost for good, stop the master \
                 and run coracle-master store salvage"
            )
        });
        // The object that somebody asks for may be what is missing.
        self.report.unread.extend(missing.clone().map(|missing| (String::new(), missing)));
        missing.or_else(|| self.report.unread.first().map(|(_, why)| why.clone()))
    }

    /// The content of the new HEAD.json. `then`: the sum and the number of the files, if it does not know them.
    fn head_from(&self, from: Position, head: &Head, then: Option<(Sums, u64)>) -> Head {
        let summed = then.is_some();
        let (files, objects) = then.unwrap_or((head.files, head.objects));
        Head {
            format: self.format(),
            wal: Some(from),
            clean: false,
            files,
            objects,
            incidents: if summed { self.report.incidents.next } else { head.incidents },
            summed: summed || head.summed || head.clean,
            stamped: self.stamped,
            ..head.clone()
        }
    }

    /// Durable edits are like any other write. The state of all other edits is unsure in this start: a later start
    /// takes these edits in. `done`: so many of the edited files are the store's own.
    fn leave_unwritten(
        &mut self,
        edits: Vec<Edit>,
        unwritten: &VecDeque<Vec<Record>>,
        done: usize,
        why: Option<&str>,
        dirty: &mut Dirty,
    ) {
        let open: HashSet<&Arc<Key>> = unwritten.iter().flatten().filter_map(Record::key).collect();
        for (nth, Edit { rewritten: Rewritten { key, by, was, .. }, object }) in edits.into_iter().enumerate() {
            if !open.contains(&key) {
                let Some(entry) = self.objects.all.get_mut(&key) else { continue };
                let crc = document::crc32(&object);
                entry.file_crc = Some(crc);
                dirty.add(
                    key,
                    Some(NewFile::part(object)),
                    if nth < done { Was::Sum(crc) } else { was },
                    Duration::ZERO,
                );
            } else if by == By::Hand && was == Was::Absent {
                // A namespace that was made anew for what lies in it.
                self.objects.all.entry(key).and_modify(|entry| entry.file_crc = None);
            } else if by == By::Hand {
                self.objects.all.remove(&key);
                let why = why.unwrap_or("nothing can be written");
                let why = format!(
                    "it was edited by hand, and the edit cannot be taken in: {why}; it is once the master is restarted \
                     where it can"
                );
                self.report.leave_damaged(Key::clone(&key), "edited", why);
            }
        }
    }

    /// Where the revisions of this start could not be reserved, what it shows has ones that no other start gives:
    /// clients that saw such revisions have to list again. The reservation goes with the first write. Gives the last
    /// revision.
    fn reserve_apart(&mut self, unwritten: VecDeque<Vec<Record>>, journal: &mut Journal, ids: &Ids) -> Revision {
        let base = self.objects.base.unwrap_or_default();
        let reserve = unwritten
            .into_iter()
            .flatten()
            .find_map(|record| if let Record::Reserve { reserved } = record { Some(reserved) } else { None });
        let Some(reserved) = reserve else { return Revision(self.objects.last) };
        let mut apart = 0;
        if self.objects.last > base {
            // Each start has another fresh identity.
            apart = (1 + u64::from(document::crc32(ids.fresh_store.as_bytes())) % APART_PLACES) * APART_REVISIONS;
            for entry in self.objects.all.values_mut().filter(|entry| entry.stored.revision.0 > base) {
                entry.stored = entry.stored.at(Revision(entry.stored.revision.0 + apart));
            }
            self.report.notes.push(format!(
                "nothing can be written: what would have a revision above {base} is shown at one that is {apart} \
                 higher, and no later start gives that to anything else"
            ));
        }
        journal.reserve_first(reserved + apart);
        Revision(self.objects.last + apart)
    }

    /// The records that the files do not hold yet. `done`: files that are up to date.
    fn leave_behind(&self, done: &[(Arc<Key>, Option<Bytes>)], dirty: &mut Dirty) {
        for (key, object) in done.iter().filter(|(key, _)| self.journal.contains_key(key)) {
            let was = Was::of(object.as_deref().map(document::crc32));
            dirty.add(key.clone(), object.clone().map(NewFile::part), was, Duration::ZERO);
        }
        for (key, said) in &self.journal {
            dirty.add(key.clone(), said.object.clone().map(NewFile::part), said.found, Duration::ZERO);
        }
    }
}
