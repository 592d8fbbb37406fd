//! Tests of full disks and limits: writers are told at once, never kept waiting.

use super::sim::SimDisk;
use super::*;
use crate::store::flat::disk::{DiskFile, FolderEntry, Stamp};
use setup::BACKLOG_RETRY_S;
use std::io;
use std::ops::ControlFlow;

/// A disk whose `sync_all` takes as long as the test wants.
struct Gated {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, shut: bool) {
        locked(&self.state).0 = shut;
        self.changed.notify_all();
    }

    /// Until somebody stands before it.
    fn await_somebody(&self) {
        let state = locked(&self.state);
        drop(self.changed.wait_while(state, |(_, waiting)| *waiting == 0).expect("nobody panicked"));
    }

    fn pass(&self) {
        let mut state = locked(&self.state);
        state.1 += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |(shut, _)| *shut).expect("nobody panicked");
        state.1 -= 1;
    }
}

impl Disk for Gated {
    fn sync_all(&self) -> io::Result<()> {
        self.gate.pass();
        self.disk.sync_all()
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk.create(path, bytes)
    }

    fn put(&self, path: &str, bytes: &[u8], stamp: Option<u32>) -> io::Result<()> {
        self.disk.put(path, bytes, stamp)
    }

    fn mark(&self, path: &str, stamp: u32) -> io::Result<()> {
        self.disk.mark(path, stamp)
    }
    fn stamp(&self, path: &str) -> io::Result<Stamp> {
        self.disk.stamp(path)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.disk.unlink(path)
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        self.disk.make_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.disk.read(path, bytes_max)
    }

    fn reader(&self, path: &str) -> io::Result<Box<dyn io::Read>> {
        self.disk.reader(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<FolderEntry>> {
        self.disk.list(path)
    }
}

fn name(number: usize) -> String {
    format!("p{number}")
}

#[test]
fn no_write_waits_for_a_checkpoint_and_a_full_journal_says_so_at_once() {
    let gate = Arc::new(Gate::default());
    let disk = Gated { disk: SimDisk::new(1), gate: gate.clone() };
    let setup =
        Setup { segment_bytes: 16 << 10, checkpoint_bytes: 32 << 10, backlog_bytes_max: 256 << 10, ..Setup::PRODUCT };
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let store = FlatStore::open_on(Arc::new(disk), None, None, ids, &rules(), setup).expect("it opens").store;
    gate.shut(true);
    store.inner.keeper.start(Arc::downgrade(&store.inner)).expect("a thread");
    let filler = "x".repeat(2_000);
    let write_from = |first: usize| {
        (first..first + 1_000).try_for_each(|number| match store.write(create(pod(&name(number), &filler, None))) {
            Ok(_) => ControlFlow::Continue(()),
            Err(refused) => ControlFlow::Break((number, refused)),
        })
    };
    // The checkpoint stands still, and nobody lets it go on before the writers have come to their end.
    let ControlFlow::Break((full, refused)) = write_from(0) else { panic!("the journal has no limit") };
    gate.await_somebody();
    assert!(full * 4096 >= setup.checkpoint_bytes as usize, "{full} writes before the limit");
    let Refused::Busy { why, retry_after_s: BACKLOG_RETRY_S } = refused else { panic!("{refused}") };
    assert!(why.contains("slower than what is written"), "{why}");
    assert!(store.health().degraded.is_none(), "a disk that is slow is no disk that fails");
    let now = |number: usize| store.get(&key(&name(number))).expect("whole").expect("there");
    let longer = format!("{filler}x");
    for grows in [&filler[100..], &filler.replace('x', "y"), &longer] {
        let written = store.write(update(pod(&name(0), grows, None), now(0).revision));
        assert_eq!(
            matches!(written, Err(Refused::Busy { .. })),
            grows.len() >= filler.len(),
            "{} bytes: {written:?}",
            grows.len()
        );
    }
    store.write(Write::Delete { key: key(&name(1)), seen: now(1).revision }).expect("what goes is taken");
    store.write(update(pod(&name(2), &filler, Some("up")), now(2).revision)).expect("what costs no disk is taken");
    gate.shut(false);
    store.flush().expect("the disk is well");
    assert!(store.write(create(pod("After", &filler, None))).is_ok(), "it has caught up");
    store.close().expect("the disk is well");
}

#[test]
fn a_disk_that_does_not_answer_is_told_of_and_keeps_nobody_from_reading() {
    let setup = Setup { silence: Duration::ZERO, ..Setup::SMALL };
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let store =
        FlatStore::open_on(Arc::new(SimDisk::new(1)), None, None, ids, &rules(), setup).expect("it opens").store;
    store.write(create(pod("before", "", None))).expect("the disk is well");
    assert_eq!(store.health().degraded, None, "nobody waits");
    // As the keeper has it while it waits for the disk.
    let waits = locked(&store.inner.writer);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| store.write(create(pod("after", "", None))));
        let why = std::iter::repeat_with(|| store.health().degraded).flatten().next().expect("it never ends");
        assert!(why.contains("has not answered"), "{why}");
        assert!(store.get(&key("before")).expect("whole").is_some());
        drop(waits);
        assert!(writer.join().expect("no panic").is_ok());
    });
    assert_eq!(store.health().degraded, None);
}

#[test]
fn a_journal_that_cannot_be_caught_up_with_is_the_disks_fault() {
    let disk = SimDisk::new(1);
    let setup =
        Setup { segment_bytes: 16 << 10, checkpoint_bytes: 32 << 10, backlog_bytes_max: 64 << 10, ..Setup::PRODUCT };
    let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
    let store = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), setup).expect("it opens").store;
    let filler = "x".repeat(2_000);
    for number in 0..40 {
        if store.write(create(pod(&name(number), &filler, None))).is_err() {
            break;
        }
    }
    disk.fail(0..1_000, sim::EIO);
    store.checkpoint().expect_err("the disk fails");
    disk.heal();
    let refused = store.write(create(pod("Late", &filler, None))).expect_err("the journal is full");
    let Refused::Disk { why, space: false } = refused else { panic!("{refused}") };
    assert!(why.contains("cannot be brought up"), "{why}");
    store.checkpoint().expect("the disk is well");
    store.write(create(pod("Late", &filler, None))).expect("it has caught up");
}

#[test]
fn who_writes_to_a_full_disk_has_it_tried_at_once_and_not_more_often() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let web = store.write(create(pod("Web", "a", None))).expect("new");
    store.tend();
    store.checkpoint().expect("the disk is well");
    let full = |store: &FlatStore| store.health().degraded.is_some_and(|why| why.contains("full"));
    // The next segment is used up, and there is no room for another.
    locked(&store.inner.writer).journal.drop_next();
    let web = store.write(update(pod("Web", "b", None), web.revision)).expect("seen");
    disk.fill(0);
    store.tend();
    assert!(full(&store), "{:?}", store.health());
    // Whatever rang before has been heard.
    store.inner.keeper.hear();
    let more = || store.write(create(pod("More", &"x".repeat(100), None)));
    assert!(matches!(more(), Err(Refused::Disk { space: true, .. })));
    assert!(store.inner.keeper.hear(), "it is tried at once");
    assert!(more().is_err());
    assert!(!store.inner.keeper.hear(), "but not with every write");
    store.write(update(pod("Web", "", None), web.revision)).expect("it shrinks");
    disk.heal();
    store.tend();
    assert!(!full(&store) && store.health().behind.is_none(), "{:?}", store.health());
    more().expect("there is room again");
}

#[test]
fn what_is_wrong_with_a_disk_is_said_in_the_same_words_at_every_try() {
    const EROFS: i32 = 30;
    for (errno, says) in
        [(EROFS, "Read-only file system (os error 30); mount it for writing again"), (sim::EIO, "Input/output error")]
    {
        let disk = SimDisk::new(1);
        let store = memory_on(&disk);
        store.tend();
        store.write(create(pod("Web", "a", None))).expect("new");
        disk.fail(0..u64::MAX, errno);
        let said: Vec<String> = (0..3)
            .map(|round| {
                store.tend();
                let Err(Refused::Disk { why, .. }) = store.write(create(pod(&name(round), "a", None))) else {
                    panic!("where to?")
                };
                // The writer hears as well what may become of his write.
                let degraded = store.health().degraded.expect("it says so");
                assert!(why.starts_with(&degraded), "{why}, and {degraded}");
                why
            })
            .collect();
        assert!(said[0].contains(says) && said.iter().all(|why| *why == said[0]), "{said:?}");
    }
}

#[test]
fn so_many_may_watch_and_no_more() {
    let store = FlatStore::in_memory(&rules());
    let scope = || Scope { resource: PODS, namespace: None, name: None };
    let mut all: Vec<_> =
        (0..WATCHERS_MAX).map(|_| store.watch(scope(), None, Box::new(|_| true)).expect("a place").handle).collect();
    let refused = || store.watch(scope(), None, Box::new(|_| true)).err();
    assert_eq!(refused(), Some(Unwatched::TooMany));
    all.pop();
    assert_eq!(refused(), None, "a place is free again");
}
