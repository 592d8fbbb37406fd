//! A batch of writes, from the queue to everybody who follows.
//!
//! ```text
//! decide each against what is so (who meets an earlier one of the batch waits for the next) -> one record each
//!   -> one append, durable
//!   -> apply all -> tell the watchers -> answer the writers -> the lead goes on
//! ```
//!
//! The lead goes on last: who was answered is back in the queue when the next batch is taken, and one sync serves all.
//! Were it handed on before, writers would go in two halves, each waiting for the other's sync.
//!
//! What lives in memory alone rides in the same queue, so that revisions stay in order, and costs no disk. The
//! revisions of a batch that failed are spent: nobody can say whether the disk knows of them after all.

use super::checkpoint::NewFile;
use super::committer::Committer;
use super::disk_error::DiskError;
use super::draft::PreparedWrite;
use super::entry::{Durability, PlannedChange, WriteVerdict};
use super::journal::Journal;
use super::journal::record::{Record, Was};
use super::protocol::ProtocolRule;
use super::queue::{Lead, Reply, Ticket};
use super::room::StoreUsage;
use super::setup::{BATCH_BYTES_MAX, Setup};
use crate::store::{FlatStore, Refused, Stored, Write, locked};
use coracle_api::meta::{Claim, Key, Revision};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The writes that one append makes durable.
#[derive(Default)]
struct Batch {
    changes: Vec<(PlannedChange, Reply)>,
    records: Vec<Record>,
    keys: HashSet<Arc<Key>>,
    claims: HashSet<Claim>,
    bytes: usize,
    /// The memory that they add.
    ahead: StoreUsage,
    revision: Revision,
}

impl FlatStore {
    /// Waits for its turn, or commits for all who wait.
    pub(super) fn commit_with_others(&self, write: Write) -> Result<Stored, Refused> {
        self.inner.queue.pass(write, |lead| self.commit_in_time(lead))
    }

    #[cfg(test)]
    pub(crate) fn write_all(&self, writes: Vec<Write>) -> Vec<Result<Stored, Refused>> {
        self.inner.queue.pass_all(writes, |lead| self.commit(lead))
    }

    /// As long as it takes, and says so.
    fn commit_in_time(&self, lead: Lead<'_>) {
        let begun = self.uptime();
        let since = self.inner.silence.begin(begun);
        self.commit(lead);
        self.inner.silence.end(since);
        let took = self.uptime() - begun;
        if took >= self.inner.setup.silence {
            log::warn!("the disk took {} s for one commit; who wrote had to wait", took.as_secs());
        }
    }

    fn commit(&self, lead: Lead<'_>) {
        let mut writer = locked(&self.inner.writer);
        let tickets = lead.take();
        let uptime = self.uptime();
        if let Some(why) = writer.refuses() {
            for ticket in tickets {
                ticket.reply.give(Err(Refused::Disk { why: why.clone(), space: false }));
            }
            return;
        }
        let (mut batch, later) = self.decide(&writer, tickets, uptime);
        lead.put_back(later);
        batch.settle(&mut writer);
        batch.reserve(&writer.journal, &self.inner.setup);
        let done = if batch.records.is_empty() { Ok(()) } else { self.append(&mut writer, &batch.records) };
        self.note(&done, batch.records.is_empty());
        if done.is_ok() && !batch.records.is_empty() {
            let figures = &mut locked(&self.inner.trouble).figures;
            figures.commits += 1;
            figures.records += batch.records.len() as u64;
            figures.journal_bytes = writer.journal.live_bytes();
        }
        if done.is_ok() {
            writer.put_right(&batch.changes);
        }
        let mut followers = locked(&self.inner.followers);
        let (mut events, mut answers) =
            (Vec::with_capacity(batch.changes.len()), Vec::with_capacity(batch.changes.len()));
        {
            let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
            for (change, reply) in batch.changes {
                match refused(&done, &change, &writer.journal, &self.inner.setup) {
                    Some(refused) => {
                        if self.inner.setup.protocol.holds(ProtocolRule::Burn) {
                            state.burn(change.revision);
                        }
                        answers.push((reply, Err(refused)));
                    }
                    None => {
                        let was = Was::of(change.former_crc);
                        match &change.step {
                            Durability::Put(_) | Durability::Remove => {
                                let sealing = state.sealer();
                                let wanted = change.entry.as_ref().and_then(|entry| NewFile::of(entry, sealing));
                                writer.dirty.add(change.key.clone(), wanted, was, uptime);
                            }
                            Durability::Keep => change.entry.iter().for_each(|entry| writer.dirty.share(entry)),
                            Durability::Settle => {}
                        }
                        answers.push((reply, Ok(change.answer.clone())));
                        events.push(state.apply(change, uptime));
                    }
                }
            }
        }
        self.inner.keeper.call_if_due(&mut writer, uptime);
        drop(writer);
        let first = followers.remembers_nothing() && !events.is_empty();
        for event in events {
            followers.tell(event, uptime);
        }
        drop(followers);
        if first {
            // When it is to be forgotten was not known before.
            self.inner.keeper.call();
        }
        for (reply, answer) in answers {
            reply.give(answer);
        }
        drop(lead);
    }

    pub(super) fn append(&self, writer: &mut Committer, records: &[Record]) -> Result<(), DiskError> {
        writer.begin_to_write(&self.inner.setup.protocol)?;
        writer.journal.append(records)
    }

    /// Decides what may be done together; the rest waits for the next batch. Refusals and what changes nothing are
    /// answered.
    fn decide(&self, writer: &Committer, tickets: Vec<Ticket>, uptime: Duration) -> (Batch, Vec<Ticket>) {
        let state = self.state();
        let mut batch = Batch { revision: state.spent(), ..Batch::default() };
        let mut later = Vec::new();
        let backlog = writer.journal.live_bytes() > writer.limits.backlog_bytes;
        for ticket in tickets {
            if batch.bytes >= BATCH_BYTES_MAX || batch.meets(&ticket.draft) {
                later.push(ticket);
                continue;
            }
            let revision = Revision(batch.revision.0 + 1);
            let decided = state.decide(ticket.draft, revision, uptime);
            match decided.and_then(|verdict| verdict.within(state.room(), &batch.ahead)) {
                Err(refused) => ticket.reply.give(Err(refused)),
                Ok(WriteVerdict::Unchanged(stored)) => ticket.reply.give(Ok(stored)),
                Ok(WriteVerdict::Change(change)) if grows(&change) && writer.full => {
                    let why =
                        "the disk is full: until there is room only deletes and what shrinks are taken".to_owned();
                    ticket.reply.give(Err(Refused::Disk { why, space: true }));
                }
                Ok(WriteVerdict::Change(change)) if backlog && !shrinks(&change) => {
                    ticket.reply.give(Err(writer.behind(&self.inner.setup)))
                }
                Ok(WriteVerdict::Change(change)) => {
                    let claims = change.entry.iter().flat_map(|entry| &entry.claims).chain(&change.former);
                    batch.claims.extend(claims.map(|claimed| claimed.claim.clone()));
                    batch.add(*change, ticket.reply);
                }
            }
        }
        (batch, later)
    }

    /// Says when the disk begins to fail, and when it is well again.
    pub(super) fn note(&self, done: &Result<(), DiskError>, idle: bool) {
        let mut trouble = locked(&self.inner.trouble);
        match done {
            Ok(()) if idle => {}
            Ok(()) => {
                if trouble.degraded.take().is_some() {
                    log::info!("the store can be written to again");
                }
            }
            Err(error) => {
                if trouble.degraded.is_none() {
                    log::error!("the store cannot be written to: {error}");
                }
                trouble.degraded = Some(error.to_string());
            }
        }
    }
}

impl Committer {
    /// Damaged objects that are replaced by new ones wait for nobody any more. A start finds that out as well.
    fn put_right(&mut self, changes: &[(PlannedChange, Reply)]) {
        if self.incidents.is_empty() {
            return;
        }
        for (change, _) in changes.iter().filter(|(change, _)| change.entry.is_some()) {
            if let Err(error) = self.incidents.settle(&*self.disk, &change.key) {
                log::warn!("{error}");
            }
        }
    }
}

impl Batch {
    /// Whether a write concerns an object or a claim that an earlier write of the batch changes: the later write is
    /// decided after the batch.
    fn meets(&self, draft: &PreparedWrite) -> bool {
        self.keys.contains(&draft.key) || draft.claims().iter().any(|claimed| self.claims.contains(&claimed.claim))
    }

    fn add(&mut self, change: PlannedChange, reply: Reply) {
        self.revision = change.revision;
        self.keys.insert(change.key.clone());
        self.ahead.grow(&change);
        let (revision, key, was) = (change.revision, change.key.clone(), Was::of(change.former_crc));
        match &change.step {
            Durability::Put(object) => {
                self.bytes += object.len();
                self.records.push(Record::Put { revision, key, was, by_hand: false, object: object.clone() });
            }
            Durability::Remove => self.records.push(Record::Remove { revision, key, was }),
            Durability::Keep | Durability::Settle => {}
        }
        self.changes.push((change, reply));
    }

    /// Gives damaged objects up, as people asked for: deleted objects before the deletion, and of replaced objects at
    /// first only the files.
    fn settle(&mut self, writer: &mut Committer) {
        if writer.incidents.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        for (change, reply) in changes {
            let (disk, incidents) = (&*writer.disk, &mut writer.incidents);
            let settled = match change.entry {
                Some(_) => incidents.move_away(disk, &change.key),
                None => incidents.settle(disk, &change.key),
            };
            match settled {
                Ok(()) => self.changes.push((change, reply)),
                Err(error) => {
                    self.records.retain(|record| record.key() != Some(&change.key));
                    reply.give(Err(refusal(&error)));
                }
            }
        }
    }

    /// Adds what the revisions of this batch need: reserved ahead, so that it is seldom anything, and none that is
    /// spent without a record is ever given again.
    fn reserve(&mut self, journal: &Journal, setup: &Setup) {
        let unrecorded =
            self.changes.iter().filter(|(change, _)| unrecorded(change)).map(|(change, _)| change.revision.0).max();
        let short = unrecorded.is_some_and(|revision| revision > journal.reserved());
        if setup.protocol.holds(ProtocolRule::Reserve)
            && (short || (!self.records.is_empty() && journal.reserves_soon(self.revision.0)))
        {
            self.records.push(Record::Reserve { reserved: self.revision.0 + setup.reserve });
        }
    }
}

fn unrecorded(change: &PlannedChange) -> bool {
    matches!(change.step, Durability::Keep | Durability::Settle)
}

/// Whether it needs more room than it gives.
fn grows(change: &PlannedChange) -> bool {
    let length = |stored: &Stored| stored.json.len();
    let new = change.entry.as_ref().map_or(0, |entry| length(&entry.stored));
    matches!(change.step, Durability::Put(_)) && new > change.old.as_ref().map_or(0, length)
}

/// Whether it can be asked for only so often: a record of what neither goes nor shrinks may be followed by any number
/// of the same.
fn shrinks(change: &PlannedChange) -> bool {
    let length = |stored: &Stored| stored.json.len();
    match (&change.step, &change.entry) {
        (Durability::Put(_), Some(new)) => change.old.as_ref().is_some_and(|old| length(&new.stored) < length(old)),
        _ => true,
    }
}

/// Why a change is not done. What lives in memory alone goes on without the disk, as far as its revisions are reserved.
fn refused(done: &Result<(), DiskError>, change: &PlannedChange, journal: &Journal, setup: &Setup) -> Option<Refused> {
    let error = done.as_ref().err()?;
    let reserved = change.revision.0 <= journal.reserved() || !setup.protocol.holds(ProtocolRule::Reserve);
    if unrecorded(change) && reserved { None } else { Some(refusal(error)) }
}

/// A failed disk may have taken any part of it: the revision is spent, and the next start may find the write all the
/// same.
fn refusal(error: &DiskError) -> Refused {
    Refused::Disk { why: format!("{error}; it may be there after a restart of the master"), space: error.no_space() }
}
