//! A segment that is removed during writes, alone or with its folder, directory or file system: a start would not find
//! the records. The journal notices the loss before the current batch is acknowledged; earlier acknowledged records are
//! in memory.

use super::{Journal, WAL, Writing};
use crate::store::flat::disk_error::{DiskError, failed};
use std::io;

impl Journal {
    /// Nothing is written before somebody has seen to it.
    pub(super) fn lose(&mut self) {
        self.give_up_segment();
        self.lost = true;
    }

    /// Whether its last segment was taken away.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn refuse_lost(&self) -> Result<(), DiskError> {
        if !self.lost {
            return Ok(());
        }
        let here = || format!("somebody took away the segment that was written to, or {WAL}/ with it");
        Err(failed("write", "the journal")(io::Error::other(self.disk.gone().unwrap_or_else(here))))
    }

    /// Gives up what is written to, or stands ready, where it was taken away. Says whether something was, now or
    /// before.
    pub fn leave_gone(&mut self) -> bool {
        let is_gone = |writing: &Option<Writing>| writing.as_ref().is_some_and(|writing| writing.file.is_gone());
        if is_gone(&self.writing) {
            self.lose();
        }
        if is_gone(&self.ahead) {
            self.ahead = None;
            self.lost = true;
        }
        self.lost
    }

    /// Its folders are there again: goes on in a new segment.
    pub fn go_on_anew(&mut self) -> Result<(), DiskError> {
        self.lost = false;
        self.heal().inspect_err(|_| self.lost = true)
    }
}
