//! The master's memory of objects: the trait `Store`, its words, and the back ends.
//!
//! A write: check -> claim -> make durable -> commit -> notify. It blocks its caller until it is durable, and only then
//! does anybody see it. Writers wait for each other; readers and watchers never wait for a disk.
//!
//!     store_api       the trait, and what it promises · tests: for any back end
//!     types           the words of the trait
//!     derived         values compiled from stored objects
//!     guard           a lock that a panic leaves usable
//!     flat/           the back end `FlatStore`: one JSON file an object, behind a journal

mod derived;
mod flat;
mod guard;
mod store_api;
#[cfg(test)]
mod tests;
mod types;

pub use derived::Derived;
#[cfg(any(test, feature = "trial"))]
pub use flat::trial;
pub use flat::{
    Backup, DiskError, Findings, FlatStore, GRAVES_MAX, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_LIFE, KEY_BYTES,
    KEY_FILE_BYTES_MAX, KeyRing, Listing, More, NO_STORE, OBJECT_BYTES_MAX, Opened, Page, Restored, SEALED, Salvaged,
    SealKeys, Sealing, SharedKeys, Sketch, WATCHERS_MAX, Watch, WatchHandle, identity, indented, inspect, is_key_name,
    is_none, is_sealed_text, is_secret_file, key_line, megabytes, read_backup, restore, salvage,
};
pub(crate) use guard::locked;
pub use store_api::Store;
pub use types::{
    Claimed, Damage, Damaged, Event, Figures, FillLevel, Gone, Health, KindRow, LeftOut, OpenError, Refused, Scope,
    Sink, StoreRules, Stored, UNSEEN, Unlisted, Unwatched, Write,
};
