//! From the directory to what is so, at a start. It only adds, so it may be interrupted anywhere and done again.
//!
//! ```text
//! HEAD.json -> wal/** (made durable, read, recovered) -> objects/** where the journal says nothing -> the volatile file
//!   -> a new segment: fence, what of the journal is unproven, revisions reserved, what was edited by hand -> HEAD.json where it is new
//! ```
//!
//! Where acknowledged records are provably missing, nothing in the directory is touched: what can be read is served, and a person decides.

use super::checkpoint::{Dirty, Wanted};
use super::commit::Writer;
use super::copied::{Left, past};
use super::covered::covered;
use super::disk::Disk;
use super::examine::stamp_soon;
use super::files::{DiskError, Files, failed};
use super::find::{Found, find_head, find_journal, silent};
use super::head::{FORMAT, HEAD, Head};
use super::journal::past::Past;
use super::journal::record::{Record, Was};
use super::journal::recover::{Position, Recovered};
use super::journal::{self, Journal, Retired, WAL};
use super::judge::Wrong;
use super::setup::{BATCH_BYTES_MAX, RESERVE, Setup};
use super::state::State;
use super::tree::{Brought, Edited, Tree};
use super::{Damage, LeftOut, OpenError, Rules, backup, document, volatile};
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use std::sync::Arc;
use std::time::Duration;

/// Where HEAD.json is lost, volatile writes may have used this many revisions beyond those that the files show.
const LOST_HEAD_JUMP: u64 = 10 * RESERVE;

pub struct Loaded {
    pub state: State,
    pub writer: Writer,
    /// What was found and done, worth a line in the log each.
    pub notes: Vec<String>,
    /// Files set aside that are no object's.
    pub foreign: Vec<Damage>,
    /// Files that are left alone where they are.
    pub left_alone: Vec<LeftOut>,
    /// What people did to files that did not come to what they may think.
    pub told: Vec<Damage>,
    /// Files that were older than HEAD.json says, and what they are to hold.
    pub healed: Vec<Brought>,
    /// Why the store cannot be written to.
    pub degraded: Option<String>,
}

/// What the host says of itself.
pub struct Ids {
    /// For a store that has none yet.
    pub fresh_store: String,
    pub boot: String,
}

pub fn load(disk: Arc<dyn Disk>, volatile: Option<&dyn Disk>, ids: &Ids, rules: &Rules, setup: &Setup) -> Result<Loaded, OpenError> {
    let (head, damaged_head) = find_head(&*disk)?;
    let found = find_journal(&*disk, head.as_ref(), setup);
    let recovered = &found.recovered;
    let mut tree = Tree::new(&*disk, rules);
    let unfinished = backup::unfinished(&*disk);
    tree.frozen = recovered.missing.is_some() || unfinished.is_some() || setup.look_only;
    tree.unread.extend(unfinished.map(|why| (String::new(), why)));
    tree.prepare_folders(head.as_ref().is_some_and(|head| head.objects > 0));
    let incidents = tree.incidents.next;
    if damaged_head {
        let jump = LOST_HEAD_JUMP;
        tree.notes.push(format!("{HEAD} is damaged: the store gets a new identity, and revisions go on {jump} further"));
        tree.set_aside(HEAD, HEAD, None, Wrong { word: "damaged-head", why: "its checksum does not fit, or it cannot be read".to_owned() });
    }
    let clean = head.as_ref().is_some_and(|head| head.clean && head.wal.is_some()) && silent(&found);
    if let (Some(head), Some(volatile)) = (head.as_ref().filter(|_| clean), volatile) {
        tree.kept = volatile::read(volatile, &head.store, &ids.boot, Revision(head.reserved));
    }
    if let Some(volatile) = volatile.filter(|_| !tree.frozen) {
        volatile::remove(volatile);
    }
    tree.base = head.as_ref().map(|head| used(head.reserved, clean, recovered));
    tree.next = tree.base.unwrap_or_else(|| used(0, false, recovered));
    tree.statuses_kept = tree.kept.is_some();
    tree.sum_left = head.as_ref().filter(|head| clean || head.summed).map(|head| head.files);
    tree.covered = covered(recovered);
    tree.stamped = head.as_ref().is_some_and(|head| head.stamped);
    tree.walk();
    if head.is_none() && !damaged_head {
        tree.miss_head(&recovered.records);
    }
    let left = left(head.as_ref(), &tree, clean, incidents, recovered);
    let changed = clean && left.differs;
    if changed {
        // Who saw what is gone now has to look again.
        tree.next += 1;
    }
    if recovered.behind && setup.protocol.account {
        tree.tell_behind();
    }
    if left.differs || left.sum.is_none() || !tree.overridden.is_empty() || !tree.unwritten.is_empty() {
        let end =
            head.as_ref().and_then(|head| head.wal).filter(|_| left.differs || recovered.missing.is_some() || !tree.overridden.is_empty());
        let past = end.map_or_else(Past::default, |end| past(&*disk, end.n, &found, &setup.protocol));
        tree.examine(&left, &past, &setup.protocol);
    } else if tree.stamped {
        tree.sample();
    }
    tree.recall_incidents(clean);
    if left.differs {
        tree.bring_homes();
    }
    tree.overlay();
    if tree.base.is_none() {
        tree.restamp_all(LOST_HEAD_JUMP);
    }
    if clean && recovered.start.is_none() {
        tree.notes.push(format!("{WAL}/ does not hold what {HEAD} names; the store was closed in order, so nothing is missing"));
    }
    tree.notes.extend(recovered.torn.iter().map(|place| format!("{place}: what was being written when the last master ended is not kept")));
    begin(disk.clone(), head, ids, tree, found, &left, setup)
}

/// The files as HEAD.json knows them. `incidents`: the number of the first that this start may set aside.
fn left(head: Option<&Head>, tree: &Tree, clean: bool, incidents: u32, recovered: &Recovered) -> Left {
    let Some(head) = head else { return Left::default() };
    let sum = (clean || head.summed && recovered.missing.is_none()).then_some(head.files);
    Left {
        clean,
        sum,
        differs: sum.is_some() && sum != tree.files_sum(),
        objects: head.objects,
        aside: u64::from(incidents.saturating_sub(head.incidents)),
        behind: recovered.behind,
    }
}

/// The new segment, and everything that has to be durable before anybody is served. Where people edited the files since a clean close,
/// what the journal said before counts no more, also where HEAD.json is lost one day.
fn begin(
    disk: Arc<dyn Disk>,
    head: Option<Head>,
    ids: &Ids,
    mut tree: Tree,
    found: Found,
    left: &Left,
    setup: &Setup,
) -> Result<Loaded, OpenError> {
    let changed = left.clean && left.differs;
    let Found { recovered, mut old, mut live, next, of } = found;
    let mut outdated = Vec::new();
    if changed && !setup.look_only {
        outdated = old.drain(..).chain(live.drain(..)).collect();
    }
    let reserved = tree.base.unwrap_or_default();
    let mut dirty = Dirty::default();
    let healed = std::mem::take(&mut tree.healed);
    let brought = std::mem::take(&mut tree.brought).into_iter();
    let brought = brought.filter_map(|key| Some((key.clone(), tree.covered.get(&key)?.object.clone())));
    let brought: Vec<(Arc<Key>, Option<Bytes>)> =
        brought.chain(healed.iter().map(|healed| (healed.key.clone(), healed.object.clone()))).collect();
    let mut edits = Vec::new();
    // What cannot be read now may be there the next time, as HEAD.json knows it.
    let unread = !tree.unread.is_empty() || !tree.incidents.in_place.is_empty();
    let then = tree.files_then().filter(|_| left.differs && !unread);
    for Edited { key, was, .. } in std::mem::take(&mut tree.edited) {
        if let Some(object) = put_soon(&mut tree, &mut dirty, &key) {
            let revision = tree.objects[&key].stored.revision;
            edits.push(Record::Put { revision, key, was: Was::of(was), by_hand: true, object });
        }
    }
    for key in std::mem::take(&mut tree.removed) {
        edits.push(Record::Remove { revision: tree.fresh(), key, was: Was::Absent });
    }
    let last = Revision(tree.next);
    let missing = tree.frozen;
    let stamping = tree.stamped || (!missing && stamp_soon(&*disk, &mut tree, &mut dirty));
    let frozen = recovered.missing.as_ref().map(|missing| {
        format!("{missing}; nothing is written before a person has looked: stop the master and run coracle-master store salvage")
    });
    if let Some(missing) = &frozen {
        // The object that somebody asks for may be what is missing.
        tree.unread.push((String::new(), missing.clone()));
    }
    let frozen = frozen.or_else(|| tree.unread.first().map(|(_, why)| why.clone()));
    let mut degraded = frozen.clone().or(tree.degraded);
    let store = head.as_ref().map_or_else(|| ids.fresh_store.clone(), |head| head.store.clone());
    let mark = if of == 0 { document::crc32(store.as_bytes()) } else { of };
    let as_it_is = |head: &Head| head.wal.is_some() && (!head.stamped || tree.stamped) && head.journal == mark;
    let is_new = !head.as_ref().is_some_and(as_it_is);
    let mut head = Head { journal: mark, ..head.unwrap_or(Head { format: FORMAT, store, reserved, ..Head::default() }) };
    let mut journal = Journal::new(disk.clone(), *setup, &recovered, live, next, reserved, mark);
    let mut done = Ok(());
    if frozen.is_none() && !setup.look_only {
        done = open_journal(&mut journal, last, &edits, &recovered, setup);
        // What files are to be brought to lies in old segments.
        if done.as_ref().is_err_and(DiskError::no_space) && healed.is_empty() {
            make_room(&*disk, &mut old, &recovered.void);
            done = open_journal(&mut journal, last, &edits, &recovered, setup);
        }
        done = done.and_then(|()| {
            consume(&*disk, &edits, &brought)?;
            for segment in &recovered.void {
                // If it stays it is void the next time, too.
                disk.unlink(&journal::path(*segment)).ok();
            }
            for (segment, _) in &outdated {
                let path = journal::path(*segment);
                disk.unlink(&path).map_err(failed("remove", &path))?;
            }
            if !outdated.is_empty() {
                disk.sync_dir(WAL).map_err(failed("fsync", WAL))?;
            }
            // A store that was closed lacks nothing, whatever became of its journal; from here on it would.
            if !is_new && !left.differs && !head.clean {
                return Ok(());
            }
            let fresh = Position { segment: next, n: recovered.last + 1 };
            let start = if changed { fresh } else { recovered.start.unwrap_or(fresh) };
            let (reserved, stamped) = (journal.reserved(), tree.stamped);
            let (files, objects) = then.unwrap_or((head.files, head.objects));
            let summed = then.is_some() || head.summed || head.clean;
            let incidents = if then.is_some() { tree.incidents.next } else { head.incidents };
            let fresh = Head {
                format: FORMAT,
                wal: Some(start),
                reserved,
                clean: false,
                files,
                objects,
                incidents,
                summed,
                stamped,
                ..head.clone()
            };
            fresh.write(&*disk, &setup.protocol)?;
            head = fresh;
            Ok(())
        });
        if let Err(error) = &done {
            degraded.get_or_insert(error.to_string());
        }
    }
    for (key, object) in &brought {
        if let Some(said) = tree.covered.get(key) {
            dirty.add(key.clone(), said.object.clone().map(Wanted::part), Was::of(object.as_deref().map(document::crc32)), Duration::ZERO);
        }
    }
    for (key, said) in &tree.covered {
        dirty.add(key.clone(), said.object.clone().map(Wanted::part), said.found, Duration::ZERO);
    }
    if done.is_err() {
        // They are not yet what memory says.
        for Brought { key, object, found } in &healed {
            dirty.add(key.clone(), object.clone().map(Wanted::part), *found, Duration::ZERO);
        }
    }
    let retired = old.into_iter().map(|(segment, bytes)| Retired { segment, bytes, since: Duration::ZERO });
    journal.retired.extend(retired);
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
        full: false,
        frozen,
        closed: false,
    };
    writer.limits = setup.limits(writer.room());
    let state = State::new(tree.objects, tree.damaged, last).without(tree.unread);
    Ok(Loaded { state, writer, notes: tree.notes, foreign: tree.foreign, left_alone: tree.left_alone, told: tree.told, healed, degraded })
}

fn open_journal(journal: &mut Journal, last: Revision, edits: &[Record], recovered: &Recovered, setup: &Setup) -> Result<(), DiskError> {
    if !setup.protocol.fresh_segment && journal.go_on(recovered) {
        return Ok(());
    }
    let mut batch = Vec::new();
    if setup.protocol.reserve {
        batch.push(Record::Reserve { reserved: last.0 + setup.reserve });
    }
    let mut bytes = 0;
    for edit in edits {
        if let Record::Put { object, .. } = edit {
            bytes += object.len();
        }
        batch.push(edit.clone());
        if bytes > BATCH_BYTES_MAX {
            journal.append(&batch)?;
            (batch, bytes) = (Vec::new(), 0);
        }
    }
    journal.append(&batch)
}

/// On a full disk backups come last: HEAD.json, which is durable, says that nobody else needs the old segments.
fn make_room(disk: &dyn Disk, old: &mut Vec<(u64, u64)>, void: &[u64]) {
    let gone = |segment: u64| disk.unlink(&journal::path(segment)).is_ok();
    old.retain(|(segment, _)| !gone(*segment));
    void.iter().for_each(|segment| _ = gone(*segment));
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

/// What a person wrote counts once: the files become the store's own before anybody writes to their objects.
fn consume(disk: &dyn Disk, edits: &[Record], brought: &[(Arc<Key>, Option<Bytes>)]) -> Result<(), DiskError> {
    let mut files = Files::default();
    let edited = edits.iter().filter_map(|edit| if let Record::Put { key, object, .. } = edit { Some((key, Some(object))) } else { None });
    let all: Vec<_> = edited.chain(brought.iter().map(|(key, object)| (key, object.as_ref()))).collect();
    loop {
        for (key, object) in &all {
            files.bring(disk, key, object.map(|object| &**object))?;
        }
        if all.is_empty() || files.settle(disk)? {
            return Ok(());
        }
    }
}

/// The last revision that may have been used.
fn used(head: u64, clean: bool, recovered: &Recovered) -> u64 {
    if clean {
        return head;
    }
    let recorded = recovered.records.iter().chain(&recovered.beyond).filter_map(|line| match &line.record {
        Record::Put { revision, .. } | Record::Remove { revision, .. } => Some(revision.0),
        Record::Open { .. } | Record::Reserve { .. } => None,
    });
    // It may have been a reservation that had become damaged.
    let unclear = if recovered.unclear || recovered.missing.is_some() { RESERVE } else { 0 };
    recorded.max().unwrap_or_default().max(head).max(recovered.reserved) + unclear
}
