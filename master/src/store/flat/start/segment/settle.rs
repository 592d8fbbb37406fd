//! Makes durable what a start has to: the new segment, edited files, the segments that go, HEAD.json.

use crate::store::flat::disk::Disk;
use crate::store::flat::disk_error::{DiskError, failed};
use crate::store::flat::files::Files;
use crate::store::flat::head::Head;
use crate::store::flat::journal::record::Record;
use crate::store::flat::journal::recover::{Position, Recovered};
use crate::store::flat::journal::{self, Journal, WAL};
use crate::store::flat::protocol::ProtocolRule;
use crate::store::flat::setup::Setup;
use bytes::Bytes;
use coracle_api::meta::Key;
use std::collections::VecDeque;
use std::sync::Arc;

/// The records and files that a start has to make durable.
pub(super) struct Settling<'a> {
    pub(super) setup: &'a Setup,
    pub(super) recovered: &'a Recovered,
    /// The records of the edits that are not durable yet, with the reserved revisions.
    pub(super) batches: VecDeque<Vec<Record>>,
    /// Files that are brought up to the journal at once, edited files first; None: the object does not exist.
    pub(super) brought: Vec<(Arc<Key>, Option<Bytes>)>,
    /// So many of them do.
    pub(super) done: usize,
    /// The files say all that the journal does.
    pub(super) closed: bool,
    /// Segments that count no more.
    pub(super) outdated: Vec<u64>,
    /// The content of the new HEAD.json, without its segment and reserved revisions.
    pub(super) head: Head,
    /// No client is served before HEAD.json is written. Otherwise HEAD.json only has to name the segment, so that a
    /// copy with an earlier end is noticed.
    pub(super) head_is_due: bool,
    /// From where the journal counts once it is begun anew.
    pub(super) fresh: Position,
}

impl Settling<'_> {
    pub(super) fn settle(
        &mut self,
        disk: &dyn Disk,
        journal: &mut Journal,
        old: &mut Vec<(u64, u64)>,
        head: &mut Head,
    ) -> Result<(), DiskError> {
        let mut opened = self.open(journal);
        if opened.as_ref().is_err_and(DiskError::no_space) {
            self.make_room(disk, journal, old, head);
            opened = self.open(journal);
        }
        opened?;
        if journal.is_scarce() {
            self.leave_carried(disk, journal);
        }
        self.bring(disk)?;
        self.clear(disk)?;
        old.retain(|(segment, _)| !self.outdated.contains(segment));
        journal.forget(|segment| self.outdated.contains(&segment));
        let wanted = Head { reserved: journal.reserved(), begun: journal.position().segment, ..self.head.clone() };
        match wanted.write(disk, &self.setup.protocol) {
            Err(error) if self.head_is_due => return Err(error),
            Err(error) => log::warn!("{error}: a copy that lacks the newest segments may not be known"),
            Ok(()) => *head = wanted,
        }
        Ok(())
    }

    pub(super) fn open(&mut self, journal: &mut Journal) -> Result<(), DiskError> {
        if !self.setup.protocol.holds(ProtocolRule::FreshSegment) && journal.go_on(self.recovered) {
            return Ok(());
        }
        while let Some(batch) = self.batches.front() {
            journal.append(batch)?;
            self.batches.pop_front();
        }
        Ok(())
    }

    /// On a full disk backups come last: HEAD.json, which is durable, says that nobody else needs the old segments, nor
    /// any where it was closed in order.
    pub(super) fn make_room(
        &mut self,
        disk: &dyn Disk,
        journal: &mut Journal,
        old: &mut Vec<(u64, u64)>,
        head: &mut Head,
    ) {
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

    /// Otherwise start after start would need another segment of a full disk for the same batch. The new segment
    /// contains all records of the removed segment.
    pub(super) fn leave_carried(&self, disk: &dyn Disk, journal: &mut Journal) {
        journal
            .forget(|segment| self.recovered.carried == Some(segment) && disk.unlink(&journal::path(segment)).is_ok());
    }

    /// An edit counts once: edited files become the store's own before anybody writes to their objects.
    pub(super) fn bring(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let mut files = Files::default();
        loop {
            for (nth, (key, object)) in self.brought.iter().enumerate() {
                files.bring(disk, key, object.as_deref())?;
                self.done = self.done.max(nth + 1);
            }
            if self.brought.is_empty() || files.settle(disk)? {
                return Ok(());
            }
        }
    }

    /// Removes segments that are no longer needed.
    pub(super) fn clear(&self, disk: &dyn Disk) -> Result<(), DiskError> {
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
