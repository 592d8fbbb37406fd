//! `FlatStore`: flat JSON files that survive anything, behind the trait `Store`.
//!
//! ```text
//! handle (FlatStore, and what its parts share) · open (open, read, close)
//! entry, state, sums, room, trouble, history, pages PURE (an object, all in memory, their sum, their size, what is
//!     wrong, last events)
//! names, document, draft, summary, outline, content, foreign PURE (paths, JSON, what the store must know of it,
//!     whether it fits its place, files of kinds that are not known)
//! planned PURE (what a write comes to)
//! queue, commit (writers in a row, one batch at a time) · committer (what it writes with)
//!     · journal (where a batch becomes durable)
//! checkpoint, files (one JSON file an object, behind the journal) · keeper, bell (the one thread, how it is called)
//!     · head (HEAD.json)
//! discover, start (HEAD.json and the journal as they lie there; evidence, verdicts, the new segment)
//!     · parallel_read (two threads)
//! quarantine (damaged and foreign files) · volatile (over a restart) · inspect (what a start would find; the way out)
//!     · backup, restore
//! scrub, round (all files read again, now and then) · stall (a disk that does not answer)
//!     · gone (a directory that is taken away)
//! seal PURE (how Secrets lie on the disk) · reseal (by another key)
//! lock (whose it is) · follow (watchers) · disk, disk_error (the system calls) · folders (how they are called)
//!     · protocol, setup PURE (the rules, the sizes)
//! ```

mod backup;
mod bell;
mod checkpoint;
mod commit;
mod committer;
mod content;
mod discover;
mod disk;
mod disk_error;
pub(super) mod document;
mod draft;
mod entry;
mod files;
mod folders;
mod follow;
mod foreign;
mod gone;
mod handle;
mod head;
mod history;
mod inspect;
mod journal;
mod keeper;
mod lock;
pub(super) mod names;
mod open;
mod outline;
mod pages;
mod parallel_read;
mod planned;
mod protocol;
mod quarantine;
mod queue;
mod reseal;
mod restore;
mod room;
mod round;
mod scrub;
mod seal;
mod setup;
mod stall;
mod start;
mod state;
mod summary;
mod sums;
#[cfg(any(test, feature = "trial"))]
pub mod trial;
mod trouble;
mod volatile;

pub use backup::{Backup, Restored, is_key_name, read as read_backup};
pub use content::OBJECT_BYTES_MAX;
pub use disk::identity;
pub use disk_error::DiskError;
pub use document::indented;
pub use follow::{WATCHERS_MAX, Watch, WatchHandle};
pub use handle::FlatStore;
pub use history::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_LIFE};
pub use inspect::{Findings, NO_STORE, Salvaged, inspect, is_none, salvage};
pub use open::Opened;
pub use pages::{Listing, More, Page};
pub use restore::restore;
pub use room::megabytes;
pub use seal::keys::{
    KEY_BYTES, KEY_FILE_BYTES_MAX, KeyRing, SealKeys, SharedKeys, is_sealed_text, is_secret_file, line as key_line,
};
pub use seal::{SEALED, Sealing};
pub use state::GRAVES_MAX;
pub use summary::Sketch;

#[cfg(test)]
pub(crate) mod tests;
