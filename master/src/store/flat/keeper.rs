//! The store's one thread in the background: it keeps the next segment ready, brings the files up to the journal,
//! forgets superseded segments and old events, finds out when a disk that failed is well again. At rest it sleeps, but
//! for a look at all files once a week.
//!
//! `tend` does all that is due and says when something will be; the thread is a thin loop around it, and tests call it
//! themselves.

use super::bell::Keeper;
use super::checkpoint::Checkpoint;
use super::committer::Committer;
use super::disk_error::{DiskError, failed};
use super::folders::here;
use super::handle::Inner;
use super::head::Head;
use super::journal;
use super::setup::{KEEPER_BEGINS_AFTER, SPARED_SEGMENTS};
use super::sums::Sums;
use crate::store::{FlatStore, locked};
use coracle_api::meta::Revision;
use std::sync::{MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// The files are behind the journal for at most so long.
pub const CHECKPOINT_AFTER: Duration = Duration::from_secs(600);
/// A disk that failed is tried so often: often enough for people, seldom enough for a log of the kernel.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// A new write may mean that a person has repaired the disk: then the disk is tried at once, but not more often than
/// this.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Between so many files of a checkpoint it is seen to that the next segment stands ready: some milliseconds' work.
const FILES_AT_A_TIME: usize = 64;
/// Superseded segments are kept so long: a backup that began before must find them.
const RETAINED_FOR: Duration = Duration::from_secs(3600);

impl Keeper {
    pub(super) fn start(&self, inner: Weak<Inner>) -> std::io::Result<()> {
        let bell = self.bell.clone();
        let thread = thread::Builder::new().name("store-keeper".to_owned()).spawn(move || {
            let mut next = Some(KEEPER_BEGINS_AFTER);
            while bell.wait(next) {
                let Some(inner) = inner.upgrade() else { return };
                next = FlatStore { inner }.tend();
            }
        })?;
        *locked(&self.thread) = Some(thread);
        Ok(())
    }

    /// After a batch: calls where it left something to do, or found the disk full or failing.
    pub fn call_if_due(&self, writer: &mut Committer, uptime: Duration) {
        let first = writer.dirty.since().is_some_and(|_| !writer.timed);
        if writer.ails() {
            if writer.asked.is_none_or(|asked| uptime >= asked + ASKED_AGAIN_AFTER) {
                (writer.asked, writer.checkpoint_after) = (Some(uptime), None);
                self.call();
            }
        } else if first || writer.journal.wants_next() || checkpoint_is_large(writer) {
            self.call();
        }
    }

    /// Waits until the keeper's thread has ended.
    pub fn stop(&self) {
        self.end();
        if let Some(thread) = locked(&self.thread).take()
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            log::error!("the store's keeper panicked");
        }
    }
}

impl FlatStore {
    /// Does what is due, and says after what time something will be.
    pub(crate) fn tend(&self) -> Option<Duration> {
        self.heal();
        self.refill();
        // What the disk says to it is noted once, and the next time comes with the disk's next.
        self.reseal_if_due().ok();
        if self.checkpoint_is_due() {
            let before = locked(&self.inner.trouble).behind.clone();
            // Once, however often it is tried.
            if let Err(error) = self.checkpoint()
                && before != Some(error.to_string())
            {
                log::warn!("the files could not be brought up to the journal, which holds everything: {error}");
            }
        }
        // Last: all else is more urgent.
        let scrub = self.scrub();
        let uptime = self.uptime();
        let forget = locked(&self.inner.followers).age(uptime);
        let mut writer = locked(&self.inner.writer);
        writer.limits = self.inner.setup.limits(writer.room());
        writer.forget(uptime);
        writer.timed = writer.dirty.since().is_some();
        writer.asked = writer.asked.filter(|_| writer.ails());
        if writer.closed || writer.frozen.is_some() {
            return None;
        }
        let probe = (writer.journal.is_broken() || writer.full || writer.journal.wants_next()).then_some(PROBE_EVERY);
        let files = writer
            .checkpoint_after
            .or(writer.dirty.since().map(|since| since + CHECKPOINT_AFTER))
            .filter(|_| !writer.checkpointing);
        let retired = writer.journal.retired.get(writer.journal.free).map(|retired| retired.since + RETAINED_FOR);
        // More was written meanwhile than one checkpoint takes.
        let again = checkpoint_is_large(&writer).then_some(uptime);
        let times =
            [files, retired, again, forget, Some(scrub)].into_iter().flatten().map(|at| at.saturating_sub(uptime));
        times.chain(probe).min()
    }

    /// Tries a disk that failed.
    fn heal(&self) {
        let mut writer = locked(&self.inner.writer);
        if writer.journal.is_broken() && !writer.closed && writer.frozen.is_none() {
            let done = writer.journal.heal();
            writer.full |= done.as_ref().is_err_and(DiskError::no_space);
            self.note(&done, false);
        }
    }

    /// Brings the next segment to its place where there is none.
    pub(crate) fn refill(&self) {
        let placing = {
            let mut writer = locked(&self.inner.writer);
            if !writer.journal.wants_next() || writer.journal.is_broken() || writer.closed || writer.frozen.is_some() {
                return;
            }
            writer.journal.place_next()
        };
        let placed = placing.place();
        let mut writer = locked(&self.inner.writer);
        match placed {
            Ok(placed) => {
                writer.journal.take_next(placed);
                if std::mem::replace(&mut writer.full, false) {
                    locked(&self.inner.trouble).full = None;
                    log::info!("the disk has room again");
                }
            }
            Err(error) if error.no_space() => {
                writer.full = true;
                locked(&self.inner.trouble).full.get_or_insert_with(|| {
                    let why = format!("the disk is full, so only deletes and what shrinks are taken: {error}");
                    log::error!("{why}");
                    why
                });
            }
            Err(error) => log::warn!("no segment of the journal can be made ahead: {error}"),
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        let writer = locked(&self.inner.writer);
        let uptime = self.uptime();
        let old = writer.dirty.since().is_some_and(|since| uptime >= since + CHECKPOINT_AFTER);
        let due = old
            || writer.purge.as_ref().is_some_and(|purge| purge.through.is_some())
            || writer.full
            || writer.journal.is_lost()
            || writer.unsettled.is_some()
            || checkpoint_is_large(&writer);
        due && writer.checkpoint_after.is_none_or(|after| uptime >= after)
    }

    /// Brings the files up to the journal now, behind a checkpoint that is under way. Commits go on.
    pub fn flush(&self) -> Result<(), DiskError> {
        let writer = self.settled_writer();
        if let Some(why) = &writer.frozen {
            return Err(failed("write", "the files")(std::io::Error::other(why.clone())));
        }
        drop(writer);
        self.checkpoint()
    }

    /// The writer once no checkpoint is under way.
    pub(super) fn settled_writer(&self) -> MutexGuard<'_, Committer> {
        let under_way = |writer: &mut Committer| writer.checkpointing;
        self.inner.caught_up.wait_while(locked(&self.inner.writer), under_way).unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the files up to the journal now. Commits go on.
    pub(crate) fn checkpoint(&self) -> Result<(), DiskError> {
        match self.begin_checkpoint()? {
            Some(checkpoint) => self.finish_checkpoint(checkpoint),
            None => Ok(()),
        }
    }

    /// None: the files say all that the journal does, or somebody is at it.
    pub(crate) fn begin_checkpoint(&self) -> Result<Option<Checkpoint>, DiskError> {
        let mut writer = locked(&self.inner.writer);
        if writer.checkpointing || writer.frozen.is_some() {
            return Ok(None);
        }
        let moved = self.go_on_elsewhere(&mut writer);
        let setup = &self.inner.setup;
        let moved = moved.and_then(|()| writer.leave_for_purge(&setup.protocol, setup));
        let position = Some(writer.journal.position());
        if moved.is_ok() && writer.dirty.is_empty() && writer.head.wal == position {
            return Ok(None);
        }
        // From here on HEAD.json is the checkpoint's to write, without the lock.
        let begun = moved.and_then(|()| writer.begin_to_write(&self.inner.setup.protocol));
        let begun = begun.and_then(|()| writer.settle_debt());
        let position = Some(writer.journal.position());
        if let Err(error) = begun {
            (writer.checkpoint_after, writer.unsettled) = (Some(self.uptime() + PROBE_EVERY), Some(error.to_string()));
            locked(&self.inner.trouble).behind = Some(error.to_string());
            return Err(error);
        }
        writer.checkpointing = true;
        writer.timed = false;
        writer.journal.fresh_bytes = 0;
        let head = Head {
            wal: position,
            reserved: writer.journal.reserved(),
            clean: false,
            files: self.state().files_sum(),
            objects: self.state().files_count(),
            incidents: writer.incidents.next,
            // Records that are still to be journaled describe the earlier content of files.
            summed: !writer.journal.owes(),
            stamped: writer.stamping,
            ..writer.head.clone()
        };
        let disk = writer.disk.clone();
        let mut checkpoint = Checkpoint::begin(disk, self.inner.setup.protocol, head, &mut writer.dirty);
        (checkpoint.files.each, checkpoint.each_alone) = (writer.each, writer.each);
        checkpoint.spared = SPARED_SEGMENTS * self.inner.setup.segment_bytes as u64;
        Ok(Some(checkpoint))
    }

    /// Nobody writes any more: HEAD.json says the exact revision, and what the files sum up to.
    pub(super) fn last_checkpoint(&self, last: Revision, files: Sums) -> Result<(), DiskError> {
        let clean =
            |head: &mut Head| (head.reserved, head.clean, head.files, head.summed) = (last.0, true, files, true);
        if let Some(mut checkpoint) = self.begin_checkpoint()? {
            clean(&mut checkpoint.head);
            return self.finish_checkpoint(checkpoint);
        }
        let mut writer = locked(&self.inner.writer);
        let mut head = Head { incidents: writer.incidents.next, ..writer.head.clone() };
        clean(&mut head);
        head.write(&*writer.disk, &self.inner.setup.protocol)?;
        writer.head = head;
        Ok(())
    }

    /// Takes its steps, and keeps the next segment ready meanwhile.
    fn bring(&self, checkpoint: &mut Checkpoint) -> Result<(), DiskError> {
        loop {
            here(&*checkpoint.disk)?;
            for _ in 0..FILES_AT_A_TIME {
                if !checkpoint.step()? {
                    return Ok(());
                }
            }
            self.refill();
        }
    }

    /// The remaining steps of a checkpoint, and the final step that makes the checkpoint valid. After an error the
    /// journal still holds everything.
    pub(crate) fn finish_checkpoint(&self, mut checkpoint: Checkpoint) -> Result<(), DiskError> {
        let brought = self.bring(&mut checkpoint).inspect_err(|_| checkpoint.keep_brought());
        let done = brought.and_then(|()| checkpoint.publish());
        let uptime = self.uptime();
        let mut writer = locked(&self.inner.writer);
        (writer.checkpointing, writer.each) = (false, checkpoint.each_alone);
        writer.incidents.next = writer.incidents.next.max(checkpoint.files.next_incident);
        for kept in &checkpoint.files.kept {
            self.remark(kept.clone());
        }
        locked(&self.inner.trouble).behind = done.as_ref().err().map(DiskError::to_string);
        match &done {
            Ok(()) => {
                (writer.checkpoint_after, writer.unsettled) = (None, None);
                writer.head = checkpoint.head.clone();
                if let Some(position) = writer.head.wal {
                    writer.journal.retire(position, uptime);
                }
                writer.purge(&self.inner.setup.protocol);
                writer.forget(uptime);
            }
            Err(error) => {
                (writer.checkpoint_after, writer.unsettled) = (Some(uptime + PROBE_EVERY), Some(error.to_string()));
                checkpoint.give_back(&mut writer.dirty);
            }
        }
        locked(&self.inner.trouble).figures.journal_bytes = writer.journal.live_bytes();
        self.inner.caught_up.notify_all();
        // When the next is due was not known before.
        self.inner.keeper.call();
        done
    }
}

impl Committer {
    /// The disk is full, or fails.
    fn ails(&self) -> bool {
        self.full || self.unsettled.is_some() || self.journal.is_broken()
    }

    /// Superseded segments that are old enough, or too many, may be written over: as many as the journal grows by from
    /// one checkpoint to the next, and some, for no two take the same time. The others are removed, and on a full disk
    /// all.
    fn forget(&mut self, uptime: Duration) {
        let Committer { journal, disk, full, limits, .. } = self;
        let mut kept: u64 = journal.retired.iter().map(|retired| retired.bytes).sum();
        let mut free_bytes = 0;
        journal.free = 0;
        for retired in &journal.retired {
            if !*full && kept <= limits.retained_bytes && uptime < retired.since + RETAINED_FOR {
                break;
            }
            (kept, free_bytes) = (kept - retired.bytes, free_bytes + retired.bytes);
            journal.free += 1;
        }
        while journal.free > 0
            && let Some(oldest) = journal.retired.front()
            && (*full || !journal.is_own(oldest) || free_bytes > limits.checkpoint_bytes / 4 * 5)
        {
            let path = journal::path(oldest.segment);
            if let Err(error) = disk.unlink(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                log::warn!("{path}, which nobody needs any more, cannot be removed: {error}");
                journal.free = 0;
                return;
            }
            free_bytes -= oldest.bytes;
            journal.retired.pop_front();
            journal.free -= 1;
        }
    }
}

fn checkpoint_is_large(writer: &Committer) -> bool {
    let bytes = writer.limits.checkpoint_bytes;
    let behind = writer.journal.fresh_bytes >= bytes || writer.journal.live_bytes() >= 2 * bytes;
    behind && !writer.checkpointing && writer.checkpoint_after.is_none()
}
