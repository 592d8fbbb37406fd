//! The handle of a store, and what every part of the store shares.

use super::bell::Keeper;
use super::committer::Committer;
use super::disk::Disk;
use super::follow::Followers;
use super::lock::Lock;
use super::queue::Queue;
use super::round::Scrub;
use super::setup::Setup;
use super::stall::Silence;
use super::state::StoreState;
use super::trouble::Trouble;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// One JSON file an object, behind a journal. A handle; clones are the same store.
#[derive(Clone)]
pub struct FlatStore {
    pub(super) inner: Arc<Inner>,
}

/// Locks are taken in the order of the fields.
pub(super) struct Inner {
    pub(super) queue: Queue,
    /// Held by the one who commits, over its wait for the disk.
    pub(super) writer: Mutex<Committer>,
    /// A checkpoint has ended.
    pub(super) caught_up: Condvar,
    /// Held while a change becomes visible and its watchers are told, or one registers: no event falls between.
    pub(super) followers: Arc<Mutex<Followers>>,
    /// Held for moments.
    pub(super) state: RwLock<StoreState>,
    pub(super) trouble: Mutex<Trouble>,
    pub(super) silence: Silence,
    pub(super) keeper: Keeper,
    pub(super) scrub: Mutex<Scrub>,
    pub(super) setup: Setup,
    pub(super) opened: Instant,
    pub(super) uuid: String,
    pub(super) boot: String,
    pub(super) volatile: Option<Box<dyn Disk>>,
    /// Keeps the directory ours.
    pub(super) _lock: Option<Lock>,
}

impl FlatStore {
    pub(super) fn state(&self) -> RwLockReadGuard<'_, StoreState> {
        self.inner.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.inner.opened.elapsed()
    }
}
