//! `apply-dir`: a directory of manifests of every kind, which the master applies as a client would.
//!
//!     folder, manifest -> Tree ─┐
//!     inventory (ConfigMaps) ───┼─► decide(&Seen) -> Decision ──► ask: PATCH and DELETE, through `serve`
//!     store ────────────────────┘
//!
//! A thread of its own (`run`) looks when `hearing` has heard of a change, and sleeps otherwise. `status` and the
//! commands of a person see `told`.

mod ask;
mod decide;
mod folder;
mod hearing;
mod inventory;
mod manifest;
mod order;
mod removal;
mod retry;
mod run;
mod told;
mod tree;

pub use ask::Serving;
pub use folder::{MARK, mark_in};
pub use told::{Bell, Told};

use crate::commit::Registry;
use ask::Asker;
use folder::Folder;
use hearing::{Hearing, Wake};
use run::Run;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// The memory of the thread's stack: documents are nested in `serve`, which runs in it.
const STACK_BYTES: usize = 2 << 20;

/// The thread of a directory. Dropping it ends the thread.
pub struct Applied {
    told: Arc<Told>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What is told of the directory, and the wake-up of the thread that `start` starts.
pub struct Prepared {
    pub told: Arc<Told>,
    wake: Arc<Wake>,
}

/// Before anybody is served: the page of the directory is there from the first request on.
pub fn prepare(registry: &Registry) -> io::Result<Prepared> {
    let wake = Arc::new(Wake::new()?);
    let told = Arc::new(Told::new(registry.store.clone(), wake.clone()));
    let theirs = Arc::downgrade(&told);
    registry.follow_kinds(Box::new(move |_| {
        if let Some(told) = theirs.upgrade() {
            told.stir();
        }
    }));
    Ok(Prepared { told, wake })
}

impl Applied {
    pub fn start(
        directory: &Path,
        registry: Arc<Registry>,
        serving: Serving,
        Prepared { told, wake }: Prepared,
    ) -> io::Result<Applied> {
        let (theirs, directory) = (told.clone(), directory.to_owned());
        let run = move || {
            Run {
                folder: Folder::new(&directory),
                hearing: Hearing::new(wake, &directory),
                asker: Asker::new(serving),
                directory,
                registry,
                told: theirs,
                started: Instant::now(),
                is_confirmed: false,
                failed: BTreeMap::new(),
                since: BTreeMap::new(),
                following: Default::default(),
                events: 0,
            }
            .run();
        };
        let thread = thread::Builder::new().name("apply".into()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Applied { told, thread: Some(thread) })
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        self.told.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
