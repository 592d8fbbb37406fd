//! What only the committing thread may touch, and the keeper between two batches: the disk, the journal, and how far
//! the files are.

use super::checkpoint::Dirty;
use super::disk::Disk;
use super::disk_error::DiskError;
use super::folders::here;
use super::head::Head;
use super::journal::Journal;
use super::protocol::Protocol;
use super::quarantine::Incidents;
use super::setup::{BACKLOG_RETRY_S, Limits, Setup};
use crate::store::Refused;
use std::sync::Arc;
use std::time::Duration;

/// The state that only the committing thread may touch, and the keeper between two batches.
pub struct Committer {
    pub disk: Arc<dyn Disk>,
    pub journal: Journal,
    /// As it stands on disk.
    pub head: Head,
    pub dirty: Dirty,
    pub incidents: Incidents,
    /// What is to be written anew by another key.
    pub purge: Option<Purge>,
    /// How large the journal may be.
    pub limits: Limits,
    pub checkpointing: bool,
    /// The keeper knows when the oldest of `dirty` is due.
    pub timed: bool,
    /// Every file without a stamp is among the dirty.
    pub stamping: bool,
    /// The last checkpoint failed: not again before this uptime.
    pub checkpoint_after: Option<Duration>,
    /// Why it did.
    pub unsettled: Option<String>,
    /// When a disk that is full or fails was last tried because somebody wrote.
    pub asked: Option<Duration>,
    /// This disk has no sync of everything: each file is made durable by itself.
    pub each: bool,
    /// There is no room for another segment: the rest of the current segment is for deletes and for writes that make an
    /// object smaller.
    pub full: bool,
    /// Acknowledged records are missing: nothing is written before a person has looked.
    pub frozen: Option<String>,
    pub closed: bool,
}

/// What is to be written anew.
pub struct Purge {
    /// The key that seals; empty: none does.
    pub id: String,
    /// The last segment that may have an object in an earlier form. `None`: not all are written anew.
    pub through: Option<u64>,
}

impl Committer {
    /// The disk space that is free or held by the journal.
    pub fn room(&self) -> Option<u64> {
        Some(self.disk.room()?.saturating_add(self.journal.bytes()))
    }

    pub(super) fn refuses(&self) -> Option<String> {
        if self.closed {
            return Some("the store is closed".to_owned());
        }
        self.frozen.clone()
    }

    /// HEAD.json says that the store is not closed, where the start could not say it: a journal that is gone would not
    /// be missed.
    pub(super) fn begin_to_write(&mut self, protocol: &Protocol) -> Result<(), DiskError> {
        if self.head.clean {
            here(&*self.disk)?;
            let head = Head { clean: false, ..self.head.clone() };
            head.write(&*self.disk, protocol)?;
            self.head = head;
        }
        Ok(())
    }

    /// Records that a start could not write are journaled before the files hold them. A full disk has room for a
    /// segment only once they do: they come first there.
    pub(super) fn settle_debt(&mut self) -> Result<(), DiskError> {
        match if self.journal.owes() { self.journal.heal() } else { Ok(()) } {
            Err(error) if error.no_space() => Ok(()),
            done => done,
        }
    }

    /// Why nothing may be added to the journal.
    pub fn behind(&self, setup: &Setup) -> Refused {
        let left = self.disk.room();
        match &self.unsettled {
            None if left.is_some_and(|left| setup.nearly_full(left)) => {
                let left_kib = left.unwrap_or_default() >> 10;
                let why = format!(
                    "the disk is nearly full: {left_kib} KiB are left, and the files that the journal is ahead of need \
                     them; make room on its file system, or delete something"
                );
                Refused::Disk { why, space: true }
            }
            None => {
                let why =
                    "the disk is slower than what is written: the files are far behind the journal, and catching up"
                        .to_owned();
                Refused::Busy { why, retry_after_s: BACKLOG_RETRY_S }
            }
            Some(failed) => {
                let why = format!("the files are far behind the journal and cannot be brought up to it: {failed}");
                Refused::Disk { why, space: false }
            }
        }
    }
}
