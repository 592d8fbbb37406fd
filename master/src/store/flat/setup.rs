//! PURE. The store's sizes and rules in one value: the product's, and others that tests need. When the files follow the
//! journal at the latest stands in `keeper`.

use super::history::HISTORY_EVENTS_MAX;
use super::protocol::Protocol;
use std::time::Duration;

/// A segment of the journal: prefilling one takes a slow card some 50 ms, until there are old ones to write over, and a
/// spare one costs this much space.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// A long journal is in longer segments, each this part of it and at most so many times as long: changing to another
/// one costs the file system a commit of its own, and a burst of 64 MiB changes sixteen times instead of 64. A host
/// that writes little has none of these.
const SEGMENT_SHARE: u64 = 4;
const SEGMENT_GROWTH_MAX: u64 = 8;
/// Journal after which the files are brought up to date: what is written often is written to its file once (of uniform
/// writes to 10,000 objects, a third of them is, instead of three quarters with 16 MiB). Replaying it takes a start
/// some 400 ms.
pub const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Journal that no checkpoint has caught up with, beyond which writes are refused for now: a card that is slower than
/// its writers gets some minutes of a burst, and a start after a crash replays it in a few seconds, a segment at a
/// time.
pub const BACKLOG_BYTES_MAX: u64 = 256 << 20;
/// `Retry-After` for writers that were refused for that: a checkpoint takes a slow card some seconds, and clients try
/// about ten times.
pub const BACKLOG_RETRY_S: u32 = 5;
/// Superseded segments that are kept for backups that began before the checkpoint did. Older ones wait to be written
/// over: some more than the journal of one checkpoint.
pub const RETAINED_BYTES_MAX: u64 = 32 << 20;
/// Revisions reserved at a time: so many volatile writes cost one record.
pub const RESERVE: u64 = 100_000;
/// The revisions that lost writes may have used, several reservations: clients that saw such revisions have to list
/// again.
pub const LOST_REVISIONS: u64 = 10 * RESERVE;
/// The highest revision that every JSON reader holds exactly, and the highest number of a record: no store comes so
/// far, so whatever says more was edited or made up by somebody.
pub const REVISION_MAX: u64 = 1 << 53;
/// A batch is full with so many writes, or bytes: it is the longest that a writer waits for others' bytes.
pub const BATCH_WRITES_MAX: usize = 1024;
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// A start has other work for both processors first, and whoever writes before calls the keeper.
pub const KEEPER_BEGINS_AFTER: Duration = Duration::from_millis(100);
/// A commit that has waited so long for the disk is told of: cards that clean up behind themselves take a second or
/// two.
const SILENCE: Duration = Duration::from_secs(5);

/// On a small disk the files of the objects come first: of what they leave, the journal takes so many parts before the
/// files are brought up to it, before writes are refused for now, and for backups. What stays is for the files that a
/// checkpoint writes.
const CHECKPOINT_SHARE: u64 = 8;
const BACKLOG_SHARE: u64 = 4;
const RETAINED_SHARE: u64 = 8;

/// The journal gets another segment ahead while there is room for so many: the rest is for the files of those that
/// count, without which none of them is ever done with, and for deletes.
pub const ROOM_SEGMENTS: u64 = 8;
/// With room for fewer the disk is what keeps the journal short, and not how fast it is.
const ROOM_SEGMENTS_NEARLY: u64 = 32;
/// Longer ones than usual are for disks with room for so many of them.
pub const ROOM_SEGMENTS_LONG: u64 = 64;
/// Files leave so many segments' worth of the room where it may not be enough for all of them: a start needs a segment
/// for its deletes, with the last batch in it.
pub const SPARED_SEGMENTS: u64 = 2;

/// How large the journal may be on the disk as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub checkpoint_bytes: u64,
    pub backlog_bytes: u64,
    pub retained_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub protocol: Protocol,
    pub segment_bytes: usize,
    pub checkpoint_bytes: u64,
    pub backlog_bytes_max: u64,
    pub retained_bytes_max: u64,
    pub reserve: u64,
    pub history_events_max: usize,
    /// The limit of all objects in memory.
    pub bytes_max: u64,
    /// The time after which a disk that does not answer is reported.
    pub silence: Duration,
    /// The start changes nothing and only reports its findings.
    pub look_only: bool,
}

impl Setup {
    pub const PRODUCT: Setup = Setup {
        protocol: Protocol::WHOLE,
        segment_bytes: SEGMENT_BYTES,
        checkpoint_bytes: CHECKPOINT_BYTES,
        backlog_bytes_max: BACKLOG_BYTES_MAX,
        retained_bytes_max: RETAINED_BYTES_MAX,
        reserve: RESERVE,
        history_events_max: HISTORY_EVENTS_MAX,
        bytes_max: u64::MAX,
        silence: SILENCE,
        look_only: false,
    };

    /// `room`: the disk space that is free or held by the journal; None: unknown.
    pub fn limits(&self, room: Option<u64>) -> Limits {
        let room = room.unwrap_or(u64::MAX);
        // With less than two segments there is no journal, and a checkpoint is due before writes are refused.
        let share =
            |bytes: u64, share: u64, least: u64| bytes.min((room / share).max(least * self.segment_bytes as u64));
        Limits {
            checkpoint_bytes: share(self.checkpoint_bytes, CHECKPOINT_SHARE, 2),
            backlog_bytes: share(self.backlog_bytes_max, BACKLOG_SHARE, 4),
            retained_bytes: self.retained_bytes_max.min(room / RETAINED_SHARE),
        }
    }

    /// Whether a journal that may not grow is the disk's affair more than its writers'.
    pub fn nearly_full(&self, left: u64) -> bool {
        left < ROOM_SEGMENTS_NEARLY * self.segment_bytes as u64
    }

    /// How long a segment is that nobody waits for. `live_bytes`: of the journal that the files have not caught up
    /// with.
    pub fn segment_ahead_bytes(&self, live_bytes: u64) -> usize {
        let least = self.segment_bytes as u64;
        (live_bytes / SEGMENT_SHARE / least * least).clamp(least, SEGMENT_GROWTH_MAX * least) as usize
    }

    /// For disks in memory, that tests make and copy by the ten thousand.
    #[cfg(test)]
    pub const SMALL: Setup = Setup { segment_bytes: 32 << 10, ..Setup::PRODUCT };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_journal_is_in_longer_segments() {
        let check = |live_mb: u64, mb: usize| {
            assert_eq!(Setup::PRODUCT.segment_ahead_bytes(live_mb << 20), mb << 20, "{live_mb}")
        };
        [(0, 1), (7, 1), (8, 2), (31, 7), (32, 8), (256, 8)].into_iter().for_each(|(live_mb, mb)| check(live_mb, mb));
    }

    #[test]
    fn the_journal_heeds_a_small_disk() {
        let check = |room_mb: Option<u64>, mb: (u64, u64, u64)| {
            let limits = Setup::PRODUCT.limits(room_mb.map(|mb| mb << 20));
            let is = (limits.checkpoint_bytes, limits.backlog_bytes, limits.retained_bytes);
            assert_eq!((is.0 >> 20, is.1 >> 20, is.2 >> 20), mb, "{room_mb:?}");
        };
        check(None, (64, 256, 32));
        check(Some(100_000), (64, 256, 32));
        check(Some(1000), (64, 250, 32));
        check(Some(32), (4, 8, 4));
        check(Some(0), (2, 4, 0));
    }
}
