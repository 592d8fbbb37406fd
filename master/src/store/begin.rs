//! The end of a start: the new segment, and everything that has to be durable before anybody is served.
//!
//! ```text
//! a new segment: fence, what of the journal is unproven, revisions reserved, what was edited by hand -> those files are the store's own
//!   -> segments that count no more go -> HEAD.json
//! ```
//!
//! What the journal says and the files do not is left to the next checkpoint.

use super::checkpoint::{Dirty, Wanted};
use super::commit::Writer;
use super::copied::Left;
use super::disk::Disk;
use super::document;
use super::examine::stamp_soon;
use super::files::{DiskError, Files, failed};
use super::find::Found;
use super::head::{FORMAT, Head};
use super::journal::record::{self, Record, Was};
use super::journal::recover::{Position, Recovered};
use super::journal::{self, Journal, Retired, WAL};
use super::load::Loaded;
use super::setup::{BATCH_BYTES_MAX, Setup};
use super::start::Ids;
use super::state::State;
use super::sums::Sums;
use super::tree::{Brought, Edited, Tree};
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A start that cannot write goes on so many revisions further, times one of so many places that no other start is likely to have: no
/// store comes so far by writing, and a thousand such starts that can write later stay below what every JSON reader holds exactly.
const APART_REVISIONS: u64 = 1 << 20;
const APART_PLACES: u64 = 1 << 20;

/// What a start has to make durable.
struct Due<'a> {
    setup: &'a Setup,
    recovered: &'a Recovered,
    /// What people did to the files, and the same as the journal is to hold it, with the revisions that are reserved.
    edits: Vec<Record>,
    batches: VecDeque<Vec<Record>>,
    /// Files that are to say at once what the journal does; None: that there is no such object.
    brought: Vec<(Arc<Key>, Option<Bytes>)>,
    /// So many of those that people edited, and then of these, do.
    consumed: usize,
    /// Files are to be brought to what old segments say.
    heals: bool,
    /// The files say all that the journal does.
    closed: bool,
    /// Segments that count no more.
    outdated: Vec<u64>,
    /// What HEAD.json is to say, but for the revisions that are reserved then, and the segment.
    head: Head,
    /// Nobody is served before it does. Else it only has to name the segment, by which a copy that ends before is known.
    head_is_due: bool,
    /// From where the journal counts once it is begun anew.
    fresh: Position,
}

pub fn begin(disk: Arc<dyn Disk>, head: Option<Head>, ids: &Ids, mut tree: Tree, found: Found, left: &Left, setup: &Setup) -> Loaded {
    let Found { recovered, mut old, mut live, next, of, unlisted, .. } = found;
    // Where people edited the files since a clean close, what the journal said before counts no more, also where HEAD.json is lost one day.
    let anew = left.clean && left.differs;
    let outdated: Vec<_> = if anew && !setup.look_only { old.drain(..).chain(live.drain(..)).collect() } else { Vec::new() };
    let reserved = tree.base.unwrap_or_default();
    let mut dirty = Dirty::default();
    let healed = std::mem::take(&mut tree.healed);
    let brought = brought(&mut tree, &healed);
    // What cannot be read now may be there the next time, as HEAD.json knows it.
    let unread = !tree.unread.is_empty() || !tree.incidents.in_place.is_empty();
    let then = if left.differs && !unread { tree.files_then() } else { None };
    let edits = edits(&mut tree, &mut dirty);
    let mut last = Revision(tree.next);
    let stamping = tree.stamped || (!tree.frozen && stamp_soon(&*disk, &mut tree, &mut dirty));
    let frozen = frozen(&mut tree, &recovered).or(unlisted);
    let store = head.as_ref().map_or_else(|| ids.fresh_store.clone(), |head| head.store.clone());
    let mark = if of == 0 { document::crc32(store.as_bytes()) } else { of };
    let says_all = |head: &Head| head.wal.is_some() && (!head.stamped || tree.stamped) && head.journal == mark;
    // A store that was closed lacks nothing, whatever became of its journal; from here on it would.
    let is_due = left.differs || !head.as_ref().is_some_and(|head| says_all(head) && !head.clean);
    let mut head = Head { journal: mark, ..head.unwrap_or(Head { format: FORMAT, store, reserved, ..Head::default() }) };
    let fresh = Position { segment: next, n: recovered.last + 1 };
    // Where older segments have nothing more to say, what this one is to say would not be missed with it.
    let start = recovered.start.filter(|_| !anew && !recovered.records.is_empty()).unwrap_or(fresh);
    let wanted = if is_due { head_from(start, &head, &tree, then) } else { head.clone() };
    let outdated = outdated.into_iter().map(|(segment, _)| segment).collect();
    let (heals, closed) = (!healed.is_empty(), left.clean);
    let batches = batches(&edits, last, setup);
    let (recovered, head_is_due) = (&recovered, is_due);
    let mut due = Due { setup, recovered, edits, batches, brought, consumed: 0, heals, closed, outdated, head: wanted, head_is_due, fresh };
    let mut journal = Journal::new(disk.clone(), *setup, recovered, live, next, reserved, mark);
    let mut done = Ok(());
    if frozen.is_none() && !setup.look_only {
        done = due.settle(&*disk, &mut journal, &mut old, &mut head);
    }
    let Due { edits, batches: mut unwritten, brought, consumed, .. } = due;
    let gave = last.0 > tree.base.unwrap_or_default();
    if !setup.look_only && (frozen.is_some() || done.is_err() && !unwritten.is_empty() && gave) {
        last = set_apart(&mut tree, &mut dirty, &edits, &mut unwritten, ids);
    }
    if done.is_err() {
        unwritten.into_iter().for_each(|batch| journal.owe(batch));
    }
    let others = leave_edited(&mut dirty, &edits, consumed);
    leave_behind(&mut dirty, &tree, &brought[..others], if done.is_err() { &healed } else { &[] });
    let full = done.as_ref().is_err_and(DiskError::no_space);
    let degraded = frozen.clone().or(tree.degraded).or(done.err().map(|error| error.to_string()));
    journal.retired.extend(old.into_iter().map(|(segment, bytes)| Retired { segment, bytes, since: Duration::ZERO }));
    let mut writer = Writer {
        disk: disk.clone(),
        journal,
        head,
        dirty,
        incidents: tree.incidents,
        limits: setup.limits(None),
        checkpointing: false,
        timed: false,
        stamping,
        checkpoint_after: None,
        asked: None,
        each: false,
        unsettled: None,
        full,
        frozen,
        closed: false,
    };
    writer.limits = setup.limits(writer.room());
    let state = State::new(tree.objects, tree.damaged, last).without(tree.unread);
    Loaded { state, writer, notes: tree.notes, foreign: tree.foreign, left_alone: tree.left_alone, told: tree.told, healed, degraded }
}

/// The files that the journal's last words are to be brought to before anybody is served.
fn brought(tree: &mut Tree, healed: &[Brought]) -> Vec<(Arc<Key>, Option<Bytes>)> {
    let brought = std::mem::take(&mut tree.brought).into_iter();
    let brought = brought.filter_map(|key| Some((key.clone(), tree.covered.get(&key)?.object.clone())));
    brought.chain(healed.iter().map(|healed| (healed.key.clone(), healed.object.clone()))).collect()
}

/// What people did to the files, as the writes that it becomes.
fn edits(tree: &mut Tree, dirty: &mut Dirty) -> Vec<Record> {
    let mut edits = Vec::new();
    for Edited { key, was, .. } in std::mem::take(&mut tree.edited) {
        if let Some(object) = put_soon(tree, dirty, &key) {
            let revision = tree.objects[&key].stored.revision;
            edits.push(Record::Put { revision, key, was: Was::of(was), by_hand: true, object });
        }
    }
    for key in std::mem::take(&mut tree.removed) {
        edits.push(Record::Remove { revision: tree.fresh(), key, was: Was::Absent });
    }
    edits
}

/// `last`: the last revision that was given or found used.
fn batches(edits: &[Record], last: Revision, setup: &Setup) -> VecDeque<Vec<Record>> {
    let reserve = setup.protocol.reserve.then_some(Record::Reserve { reserved: last.0 + setup.reserve });
    let mut batches = VecDeque::from([Vec::from_iter(reserve)]);
    let mut bytes = 0;
    for edit in edits {
        if bytes > BATCH_BYTES_MAX {
            batches.push_back(Vec::new());
            bytes = 0;
        }
        bytes += record::length_about(edit);
        batches.back_mut().expect("there is one").push(edit.clone());
    }
    batches
}

/// What a start shows that could not write it has revisions of its own: nothing says that they are used, so the next start gives those
/// that it would have had to whatever it finds then. Whoever saw it has to look again. Gives the last one.
fn set_apart(tree: &mut Tree, dirty: &mut Dirty, edits: &[Record], unwritten: &mut VecDeque<Vec<Record>>, ids: &Ids) -> Revision {
    // Each start has another fresh identity.
    let apart = (1 + u64::from(document::crc32(ids.fresh_store.as_bytes())) % APART_PLACES) * APART_REVISIONS;
    let base = tree.base.unwrap_or_default();
    let open: HashSet<Arc<Key>> = unwritten.iter().flatten().filter_map(|record| record.key().cloned()).collect();
    let durable: HashSet<&Arc<Key>> = edits.iter().filter_map(Record::key).filter(|key| !open.contains(*key)).collect();
    let given = tree.objects.values_mut().filter(|entry| entry.stored.revision.0 > base && !durable.contains(&entry.stored.key));
    given.for_each(|entry| entry.stored = entry.stored.at(Revision(entry.stored.revision.0 + apart)));
    for record in unwritten.iter_mut().flatten() {
        match record {
            Record::Put { revision, key, object, .. } => {
                revision.0 += apart;
                object.clone_from(&put_soon(tree, dirty, key).expect("it was to be put before"));
            }
            Record::Remove { revision, .. } => revision.0 += apart,
            Record::Reserve { reserved } => *reserved += apart,
            Record::Open { .. } => {}
        }
    }
    tree.notes.push(format!(
        "nothing can be written: what would have a revision above {base} is shown at one that is {apart} higher, and no later start gives that \
         to anything else"
    ));
    Revision(tree.next + apart)
}

/// An object's file is to be written anew, before the start has come to its end. Gives what it will say.
fn put_soon(tree: &mut Tree, dirty: &mut Dirty, key: &Arc<Key>) -> Option<Bytes> {
    let entry = tree.objects.get_mut(key)?;
    let object = document::durable_part(&entry.stored.json, entry.durable, None)?;
    let crc = document::crc32(&object);
    entry.file_crc = Some(crc);
    dirty.add(key.clone(), Some(Wanted::part(object.clone())), Was::Sum(crc), Duration::ZERO);
    Some(object)
}

/// Why nothing is written before a person has looked.
fn frozen(tree: &mut Tree, recovered: &Recovered) -> Option<String> {
    let missing = recovered.missing.as_ref().map(|missing| {
        format!(
            "{missing}; nothing is written before a person has looked: where it is lost for good, stop the master and run coracle-master \
             store salvage"
        )
    });
    // The object that somebody asks for may be what is missing.
    tree.unread.extend(missing.clone().map(|missing| (String::new(), missing)));
    missing.or_else(|| tree.unread.first().map(|(_, why)| why.clone()))
}

/// What HEAD.json is to say. `then`: what the files summed up to and how many they were, where it does not know.
fn head_from(start: Position, head: &Head, tree: &Tree, then: Option<(Sums, u64)>) -> Head {
    let summed = then.is_some();
    let (files, objects) = then.unwrap_or_else(|| (head.files.clone(), head.objects));
    Head {
        format: FORMAT,
        wal: Some(start),
        clean: false,
        files,
        objects,
        incidents: if summed { tree.incidents.next } else { head.incidents },
        summed: summed || head.summed || head.clean,
        stamped: tree.stamped,
        ..head.clone()
    }
}

/// Files that people edited hold what they wrote, where the start did not come so far. Gives how many of the others it has brought.
fn leave_edited(dirty: &mut Dirty, edits: &[Record], consumed: usize) -> usize {
    let put = |edit| if let &Record::Put { ref key, was, .. } = edit { Some((key, was)) } else { None };
    let edited: Vec<(&Arc<Key>, Was)> = edits.iter().filter_map(put).collect();
    edited.iter().skip(consumed).for_each(|(key, was)| dirty.still_holds(key, *was));
    consumed.saturating_sub(edited.len())
}

/// What the files do not say yet. `brought`: what was done of what was to be; `unhealed`: what old segments say, where it may not be.
fn leave_behind(dirty: &mut Dirty, tree: &Tree, brought: &[(Arc<Key>, Option<Bytes>)], unhealed: &[Brought]) {
    for (key, object) in brought {
        let wanted = match tree.covered.get(key) {
            Some(said) => said.object.clone(),
            None if unhealed.is_empty() => continue,
            None => object.clone(),
        };
        dirty.add(key.clone(), wanted.map(Wanted::part), Was::of(object.as_deref().map(document::crc32)), Duration::ZERO);
    }
    for (key, said) in &tree.covered {
        dirty.add(key.clone(), said.object.clone().map(Wanted::part), said.found, Duration::ZERO);
    }
    for Brought { key, object, found } in unhealed {
        dirty.add(key.clone(), object.clone().map(Wanted::part), *found, Duration::ZERO);
    }
}

impl Due<'_> {
    fn settle(&mut self, disk: &dyn Disk, journal: &mut Journal, old: &mut Vec<(u64, u64)>, head: &mut Head) -> Result<(), DiskError> {
        let mut opened = self.open(journal);
        // What files are to be brought to lies in old segments.
        if opened.as_ref().is_err_and(DiskError::no_space) && !self.heals {
            self.make_room(disk, journal, old, head);
            opened = self.open(journal);
        }
        opened?;
        if journal.is_scarce() {
            self.leave_carried(disk, journal);
        }
        self.consume(disk)?;
        self.clear(disk)?;
        let wanted = Head { reserved: journal.reserved(), begun: journal.position().segment, ..self.head.clone() };
        match wanted.write(disk, &self.setup.protocol) {
            Err(error) if self.head_is_due => return Err(error),
            Err(error) => log::warn!("{error}: a copy that lacks the newest segments may not be known"),
            Ok(()) => *head = wanted,
        }
        Ok(())
    }

    fn open(&mut self, journal: &mut Journal) -> Result<(), DiskError> {
        if !self.setup.protocol.fresh_segment && journal.go_on(self.recovered) {
            return Ok(());
        }
        while let Some(batch) = self.batches.front() {
            journal.append(batch)?;
            self.batches.pop_front();
        }
        Ok(())
    }

    /// On a full disk backups come last: HEAD.json, which is durable, says that nobody else needs the old segments, nor any where it was
    /// closed in order.
    fn make_room(&mut self, disk: &dyn Disk, journal: &mut Journal, old: &mut Vec<(u64, u64)>, head: &mut Head) {
        let gone = |segment: u64| disk.unlink(&journal::path(segment)).is_ok();
        old.retain(|(segment, _)| !gone(*segment));
        self.recovered.void.iter().for_each(|segment| _ = gone(*segment));
        if self.closed {
            // But what this start has written is nowhere else.
            journal.forget(|segment| segment < self.fresh.segment && gone(segment));
            // Where it cannot be written now, the first write to the store does it.
            (self.head.wal, head.wal) = (Some(self.fresh), Some(self.fresh));
        }
    }

    /// One start after the other would need another segment of a full disk for the same batch. The new one says all that it did.
    fn leave_carried(&self, disk: &dyn Disk, journal: &mut Journal) {
        journal.forget(|segment| self.recovered.carried == Some(segment) && disk.unlink(&journal::path(segment)).is_ok());
    }

    /// What a person wrote counts once: the files become the store's own before anybody writes to their objects.
    fn consume(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let Due { edits, brought, consumed, heals, .. } = self;
        let mut files = Files::default();
        // What only old segments tell must not be torn while it is brought.
        files.each = *heals;
        let edited = edits.iter().filter_map(|edit| match edit {
            Record::Put { key, object, .. } => Some((key, Some(object))),
            _ => None,
        });
        let all: Vec<_> = edited.chain(brought.iter().map(|(key, object)| (key, object.as_ref()))).collect();
        loop {
            for (done, (key, object)) in all.iter().enumerate() {
                files.bring(disk, key, object.map(|object| &**object))?;
                *consumed = (*consumed).max(done + 1);
            }
            if all.is_empty() || files.settle(disk)? {
                return Ok(());
            }
        }
    }

    /// Nobody needs them from here on.
    fn clear(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        for segment in &self.recovered.void {
            // If it stays it is void the next time, too.
            disk.unlink(&journal::path(*segment)).ok();
        }
        for segment in &self.outdated {
            let path = journal::path(*segment);
            disk.unlink(&path).map_err(failed("remove", &path))?;
        }
        if self.outdated.is_empty() { Ok(()) } else { disk.sync_dir(WAL).map_err(failed("fsync", WAL)) }
    }
}
