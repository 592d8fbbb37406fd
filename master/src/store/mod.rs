//! The master's memory of objects: the trait `Store`, and the flat files behind it (`FlatStore`).
//!
//! A write: check -> claim -> make durable -> commit -> notify. It blocks its caller until it is durable, and only then
//! does anybody see it. Writers wait for each other; readers and watchers never wait for a disk.
//!
//! ```text
//! store_api (the trait, and what it promises) · flat (FlatStore: open, read, close) · types (what both speak of)
//! state, sums, room, trouble, history, pages PURE (the objects in memory, their sum, their size, what is wrong, the last events)
//! names, document, draft, summary, outline, content PURE (paths, JSON, what the store must know of it, whether it fits its place)
//! queue, commit (writers in a row, one batch at a time) · journal (where a batch becomes durable)
//! checkpoint, files (one JSON file an object, behind the journal) · keeper (the one thread) · head (HEAD.json)
//! discover, start (HEAD.json and the journal as they lie there; evidence, verdicts, the new segment) · parallel_read (two threads)
//! quarantine (damaged and foreign files) · volatile (over a restart) · inspect (what a start would find; the way out) · backup
//! scrub (all files read again, now and then) · stall (a disk that does not answer) · gone (a directory that is taken away)
//! lock (whose it is) · follow (watchers) · disk (the system calls) · protocol, setup PURE (the rules, the sizes)
//! ```

mod backup;
mod checkpoint;
mod commit;
mod content;
mod discover;
mod disk;
mod document;
mod draft;
mod files;
mod flat;
mod follow;
mod gone;
mod head;
mod history;
mod inspect;
mod journal;
mod keeper;
mod lock;
mod names;
mod outline;
mod pages;
mod parallel_read;
mod protocol;
mod quarantine;
mod queue;
mod room;
mod scrub;
mod setup;
mod stall;
mod start;
mod state;
mod store_api;
mod summary;
mod sums;
#[cfg(any(test, feature = "trial"))]
pub mod trial;
mod trouble;
mod types;
mod volatile;

pub use backup::{Backup, LeftOut, Restored, read as read_backup, restore};
pub use disk::identity;
pub use document::indented;
pub use files::DiskError;
pub use flat::FlatStore;
pub use follow::{WATCHERS_MAX, Watch, WatchHandle};
pub use history::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_LIFE};
pub use inspect::{Findings, NO_STORE, Salvaged, inspect, is_none, salvage};
pub use pages::{Listing, More, Page};
pub use room::{FillLevel, megabytes};
pub use state::{GRAVES_MAX, OBJECT_BYTES_MAX};
pub use store_api::Store;
pub use summary::Sketch;
pub use types::{
    Claimed, Damage, Damaged, Event, Figures, Gone, Health, KindRow, OpenError, Opened, Refused, Rules, Scope, Sink, Stored, UNSEEN,
    Unlisted, Unwatched, Write,
};

use flat::{Inner, locked};

#[cfg(test)]
pub(crate) mod tests;
