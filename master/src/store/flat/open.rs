//! `FlatStore`: one JSON file an object, behind a journal. How it is opened and closed, and how it reads; its writes
//! are in `commit`, and what every part of it shares is in `handle`.

use super::bell::Keeper;
use super::disk::{self, Disk, RealDisk};
use super::disk_error::DiskError;
use super::draft::PreparedWrite;
use super::entry::WriteVerdict;
use super::follow::{Followers, Watch};
use super::handle::{FlatStore, Inner};
use super::journal::record::Record;
use super::pages::{self, Listing, Page};
use super::protocol::ProtocolRule;
use super::queue::Queue;
use super::room::StoreUsage;
use super::setup::Setup;
use super::stall::Silence;
use super::start::{self, Ids, Loaded};
use super::state::StoreState;
use super::trouble::Trouble;
use super::{discover, lock, restore, volatile};
use crate::store::guard::locked;
use crate::store::store_api::Store;
use crate::store::{
    Damaged, Event, Health, OpenError, Refused, Scope, Sink, StoreRules, Stored, Unlisted, Unwatched, Write,
};
use coracle_api::meta::{Durable, Key, Resource, Revision};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// A store that stands open.
pub struct Opened {
    pub store: FlatStore,
    /// How many were loaded.
    pub objects: usize,
    /// The findings and actions of the start; logged already.
    pub notes: Vec<String>,
}

impl FlatStore {
    /// Opens the store that the data directory is, or makes it. `volatile`: a directory on tmpfs for what lives in
    /// memory alone.
    pub fn open(dir: &Path, volatile: Option<&Path>, rules: &StoreRules) -> Result<Opened, OpenError> {
        FlatStore::open_in(dir, volatile, rules, Setup::PRODUCT)
    }

    /// The same with a limit to the bytes that it may hold in memory. One that holds more already serves, and shrinks.
    pub fn open_within(
        dir: &Path,
        volatile: Option<&Path>,
        rules: &StoreRules,
        bytes_max: u64,
    ) -> Result<Opened, OpenError> {
        FlatStore::open_in(dir, volatile, rules, Setup { bytes_max, ..Setup::PRODUCT })
    }

    pub(super) fn open_in(
        dir: &Path,
        volatile: Option<&Path>,
        rules: &StoreRules,
        setup: Setup,
    ) -> Result<Opened, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenError::Io { path, error }
        };
        let disk = RealDisk::new(dir).map_err(failed(dir))?;
        discover::refuse_newer(&disk, dir)?;
        let lock = lock::lock(dir)?;
        if restore::unfinished(&disk).is_none() {
            restore::clear(&disk, dir);
        }
        let volatile = match volatile.map(|path| (path, RealDisk::new(path))) {
            Some((_, Ok(disk))) => Some(Box::new(disk) as Box<dyn Disk>),
            // Statuses come back by themselves; it is no reason not to start.
            Some((path, Err(error))) => {
                log::warn!("{}: {error}; statuses will not outlive a restart of the master", path.display());
                None
            }
            None => None,
        };
        let kernel =
            || -> std::io::Result<Ids> { Ok(Ids { fresh_store: disk::random_uuid()?, boot: disk::boot_id()? }) };
        let ids = kernel().map_err(failed(Path::new("/proc/sys/kernel/random")))?;
        let opened = FlatStore::open_on(Arc::new(disk), volatile, Some(lock), ids, rules, setup)?;
        let inner = &opened.store.inner;
        inner.keeper.start(Arc::downgrade(inner)).map_err(failed(Path::new("a thread for the store")))?;
        Ok(opened)
    }

    pub(super) fn open_on(
        disk: Arc<dyn Disk>,
        volatile: Option<Box<dyn Disk>>,
        lock: Option<lock::Lock>,
        ids: Ids,
        rules: &StoreRules,
        setup: Setup,
    ) -> Result<Opened, OpenError> {
        let Loaded { state, writer, notes, foreign, left_alone, edits, degraded, .. } =
            start::load(disk, volatile.as_deref(), &ids, rules, &setup)?;
        for note in &notes {
            log::warn!("{note}");
        }
        for damage in foreign.iter().chain(&edits).chain(state.all_damage()) {
            log::error!("{damage}");
        }
        if let Some(why) = &degraded {
            log::error!("the store cannot be written to: {why}");
        }
        let objects = state.all().count();
        let inner = Inner {
            uuid: writer.head.store.clone(),
            queue: Queue::default(),
            writer: Mutex::new(writer),
            caught_up: Condvar::new(),
            followers: Arc::new(Mutex::new(Followers::new(state.revision(), setup.history_events_max))),
            state: RwLock::new(state.within(setup.bytes_max)),
            trouble: Mutex::new(Trouble { degraded, foreign, left_alone, edits, ..Trouble::default() }),
            silence: Silence::default(),
            keeper: Keeper::default(),
            scrub: Mutex::default(),
            setup,
            opened: Instant::now(),
            boot: ids.boot,
            volatile,
            _lock: lock,
        };
        Ok(Opened { store: FlatStore { inner: Arc::new(inner) }, objects, notes })
    }

    /// A store on a disk in memory, for the tests of its callers.
    #[cfg(test)]
    pub(crate) fn in_memory(rules: &StoreRules) -> FlatStore {
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let disk = super::tests::sim::SimDisk::new(1);
        FlatStore::open_on(Arc::new(disk), None, None, ids, rules, Setup::PRODUCT)
            .expect("an empty disk is a new store")
            .store
    }

    /// Lets the directory go without a word, as a master that is killed does: nothing more is written once the last
    /// handle is dropped.
    pub fn halt(&self) {
        self.inner.keeper.stop();
    }

    /// The last call: writes are refused from here on, the files are brought up to the journal, the exact revision and
    /// what lives in memory alone are kept for the next start.
    pub fn close(&self) -> Result<(), DiskError> {
        self.inner.keeper.stop();
        {
            // A flush that somebody asked for may be under way.
            let mut writer = self.settled_writer();
            if std::mem::replace(&mut writer.closed, true) || writer.frozen.is_some() {
                return Ok(());
            }
            // What a batch that failed has left must not be found by the next start.
            writer.journal.heal()?;
            writer.journal.close();
        }
        let state = self.state();
        if let Some(disk) = &self.inner.volatile {
            let entries = state.all().filter(|entry| entry.durable != Durable::Whole);
            if let Err(error) = volatile::write(&**disk, &self.inner.uuid, &self.inner.boot, state.revision(), entries)
            {
                log::warn!("{error}; statuses are not kept over this restart");
            }
        }
        let (last, files) = (state.revision(), state.files_sum());
        drop(state);
        self.last_checkpoint(last, files)
    }

    /// Why nothing is written before a person has looked: acknowledged records are missing, or what lies somewhere is
    /// unknown.
    pub fn frozen(&self) -> Option<String> {
        locked(&self.inner.writer).frozen.clone()
    }

    /// Something was wrong and has been seen to: a person should look why.
    pub(super) fn remark(&self, remark: String) {
        log::error!("{remark}");
        locked(&self.inner.trouble).remark(remark);
    }
}

impl Store for FlatStore {
    fn uuid(&self) -> &str {
        &self.inner.uuid
    }

    fn revision(&self) -> Revision {
        self.state().revision()
    }

    fn move_past(&self, revision: Revision) {
        let mut writer = locked(&self.inner.writer);
        let (last, next) = (self.state().revision(), Revision(self.state().spent().0 + 1));
        if last > revision || writer.refuses().is_some() {
            return;
        }
        // As a batch without a write: its revision is reserved before anybody is shown it.
        if next.0 > writer.journal.reserved() && self.inner.setup.protocol.holds(ProtocolRule::Reserve) {
            let done = self.append(&mut writer, &[Record::Reserve { reserved: next.0 + self.inner.setup.reserve }]);
            self.note(&done, false);
            if done.is_err() {
                return;
            }
        }
        let _followers = locked(&self.inner.followers);
        self.inner.state.write().unwrap_or_else(PoisonError::into_inner).move_to(next);
    }

    fn changed(&self, resource: &Resource) -> Revision {
        self.state().changed(resource)
    }

    fn delivered(&self) -> Revision {
        let _followers = locked(&self.inner.followers);
        self.state().revision()
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, Damaged> {
        let state = self.state();
        match state.damage(key) {
            Some(damage) => Err(Damaged { why: damage.to_asker() }),
            None => Ok(state.get(key).map(|entry| entry.stored.clone())),
        }
    }

    fn page(&self, listing: &Listing) -> Result<Page, Unlisted> {
        // What is looked into is not kept locked: objects are shared, so these are cheap to hold.
        let (revision, candidates) = match listing.at {
            None => {
                let state = self.state();
                let revision = state.revision();
                if listing.matches.is_none() {
                    let page = pages::fill(listing, revision, state.listed(listing));
                    return Ok(with_damaged(page, listing, &state));
                }
                (revision, state.listed(listing).cloned().collect())
            }
            Some(at) => {
                // Held over the state's lock, so that history and state say the same.
                let followers = locked(&self.inner.followers);
                let state = self.state();
                if at > state.revision() {
                    return Err(Unlisted::Future { now: state.revision() });
                }
                let since = followers.after(at).map_err(Unlisted::Gone)?;
                (at, pages::undone(listing, state.listed(listing), since))
            }
        };
        let page = pages::fill(listing, revision, candidates.iter());
        Ok(with_damaged(page, listing, &self.state()))
    }

    fn write(&self, write: Write) -> Result<Stored, Refused> {
        self.commit_with_others(write)
    }

    fn claimed(&self, space: &str) -> Vec<(String, Key)> {
        self.state().claimed(space, self.uptime())
    }

    fn rehearse(&self, write: Write) -> Result<Stored, Refused> {
        let draft = PreparedWrite::of(write);
        let state = self.state();
        let verdict = state
            .decide(draft, Revision(state.revision().0 + 1), self.uptime())?
            .within(state.room(), &StoreUsage::default())?;
        drop(state);
        Ok(match verdict {
            WriteVerdict::Unchanged(stored) => stored,
            WriteVerdict::Change(change) => match (&change.old, &change.entry) {
                (Some(old), Some(_)) => change.answer.at(old.revision),
                (None, Some(_)) => change.answer.unwritten(),
                (Some(old), None) => old.clone(),
                (None, None) => change.answer.clone(),
            },
        })
    }

    fn watch(&self, scope: Scope, after: Option<Revision>, sink: Sink) -> Result<Watch, Unwatched> {
        let mut followers = locked(&self.inner.followers);
        let state = self.state();
        let replay = match after {
            Some(after) if after > state.revision() => return Err(Unwatched::Future { now: state.revision() }),
            Some(after) => followers.since(&scope, after)?,
            None => {
                let listing = Listing::all(&scope.resource, scope.namespace.as_deref());
                let items = state.listed(&listing).filter(|stored| scope.holds(&stored.key));
                items.cloned().map(Event::created).collect()
            }
        };
        let revision = state.revision();
        drop(state);
        let handle = followers.add(&self.inner.followers, scope, sink)?;
        Ok(Watch { replay, revision, handle })
    }

    fn health(&self) -> Health {
        let state = self.state();
        let (damaged, fill) = (state.all_damage().cloned().collect(), state.room().fill());
        let shut = state.shut().values().cloned().collect();
        let keyless = state.sealer().keys.trouble();
        drop(state);
        let silent = || self.inner.silence.complaint(self.uptime(), self.inner.setup.silence);
        let health = locked(&self.inner.trouble).health(damaged, fill, silent);
        Health { shut, keyless, ..health }
    }
}

/// What is damaged counts as existing, now and then.
fn with_damaged(page: Page, listing: &Listing, state: &StoreState) -> Page {
    let damaged = state.damaged_listed(listing, page.more.as_ref().map(|more| &*more.after));
    let shut = damaged.iter().filter_map(|key| Some((key.clone(), state.shut().get(key)?.to_asker()))).collect();
    Page { damaged, shut, ..page }
}
