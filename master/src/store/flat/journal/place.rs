//! Places a new segment: a file of full length, already durable, gets its name, and the name is made durable.

use super::{SPARE, WAL, path};
use crate::store::flat::disk::{Disk, DiskFile};
use crate::store::flat::disk_error::{DiskError, failed};
use crate::store::flat::protocol::{Protocol, ProtocolRule};
use crate::store::flat::setup::{ROOM_SEGMENTS, ROOM_SEGMENTS_LONG};
use std::io;
use std::sync::Arc;

/// The message about a segment that cannot be made: the same at every try, though each has a number of its own.
pub const NEXT: &str = "the next segment of the journal";

/// A segment that is in its place, and open.
pub struct Writing {
    pub(super) segment: u64,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// The file was a segment before.
    pub(super) over: bool,
}

/// A file that becomes a segment.
pub struct SegmentPlacing {
    pub disk: Arc<dyn Disk>,
    pub segment: u64,
    /// A segment to reuse, with the size in bytes; None: a new segment is made.
    pub old: Option<(u64, usize)>,
    /// The wanted size of a new segment, while there is room for far more.
    pub bytes: usize,
    pub bytes_better: Option<usize>,
    /// The least size of a new segment, even on a full disk; 0: the segment is not needed yet.
    pub bytes_min: usize,
    pub sync_folder: bool,
}

impl Writing {
    /// Durably, behind what was written before.
    pub(super) fn write(&self, text: &[u8], protocol: &Protocol) -> io::Result<()> {
        let sync = || if protocol.holds(ProtocolRule::SyncBeforeAnswer) { self.file.sync() } else { Ok(()) };
        self.file.write_at(self.offset as u64, text)?;
        sync().or_else(|error| if protocol.holds(ProtocolRule::LeaveFailedFile) { Err(error) } else { sync() })
    }
}

impl SegmentPlacing {
    pub fn place(self) -> Result<Writing, DiskError> {
        let disk = &*self.disk;
        if let Some(why) = disk.gone() {
            return Err(failed("make", NEXT)(io::Error::other(why)));
        }
        let over = self.old.is_some();
        let (from, bytes) = match self.old {
            Some((segment, bytes)) => (path(segment), bytes),
            None => self.filled()?,
        };
        let place = path(self.segment);
        if let Err(error) = disk.rename(&from, &place) {
            // After the error the place of the file is unknown, and the content is not needed.
            disk.unlink(&from).ok();
            return Err(failed("rename", NEXT)(error));
        }
        let opened = if self.sync_folder { disk.sync_dir(WAL) } else { Ok(()) };
        match opened.and_then(|()| disk.open(&place)) {
            Ok(file) => Ok(Writing { segment: self.segment, file, offset: 0, bytes, over }),
            Err(error) => {
                // It holds nothing; if it stays, the next start removes it.
                disk.unlink(&place).ok();
                Err(failed("open", NEXT)(error))
            }
        }
    }

    /// A new file of newlines, durable.
    fn filled(&self) -> Result<(String, usize), DiskError> {
        let name = format!("{SPARE}/{:010}.jsonl", self.segment);
        let room = self.disk.room().unwrap_or(u64::MAX);
        let better = self.bytes_better.filter(|better| room >= ROOM_SEGMENTS_LONG * *better as u64);
        let bytes = better.unwrap_or(self.bytes);
        let least = ROOM_SEGMENTS * bytes as u64;
        let scarce = self.bytes_min < bytes && room < least;
        let short = || io::Error::new(io::ErrorKind::StorageFull, format!("less than {least} bytes are left"));
        let whole = if scarce { Err(failed("make", NEXT)(short())) } else { prefill(&*self.disk, &name, bytes) };
        match whole {
            // A full disk may have room for this batch.
            Err(error) if error.no_space() && self.bytes_min > 0 && self.bytes_min < bytes => {
                prefill(&*self.disk, &name, self.bytes_min).map(|()| (name, self.bytes_min))
            }
            done => done.map(|()| (name, bytes)),
        }
    }
}

fn prefill(disk: &dyn Disk, name: &str, bytes: usize) -> Result<(), DiskError> {
    // What lies there may be a live segment's second name, of a rename that a power cut tore.
    match disk.unlink(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("make", NEXT)(error)),
        _ => {}
    }
    disk.create_filled(name, b'\n', bytes).map_err(|error| {
        disk.unlink(name).ok();
        failed("make", NEXT)(error)
    })
}
