//! Real threads: writers at the same time and the keeper beside them, until the power goes off. The order of things is
//! the scheduler's, so a seed says only where the cut is; what must hold holds in any order.

use super::sim::{Dice, EIO, SimDisk};
use super::*;

const HOSTS: u64 = 120;
const WRITERS: u64 = 6;

/// What a writer was told of its own object last, and what it asked for after that.
#[derive(Default)]
struct Progress {
    acknowledged: Option<String>,
    asked: Option<Option<String>>,
    revision: Revision,
}

fn write_until_cut(store: &FlatStore, disk: &SimDisk, writer: u64) -> Progress {
    let name = format!("Writer_{writer}");
    let mut progress = Progress::default();
    let mut seen = None;
    for round in 0..400 {
        let object = pod(&name, &format!("{round}{}", "x".repeat(round % 7 * 100)), None);
        let spec = object["spec"]["is"].as_str().map(str::to_owned);
        let (wanted, write) = match seen {
            None => (spec, create(object)),
            Some(seen) if round % 5 == 4 => (None, Write::Delete { key: key(&name), seen }),
            Some(seen) => (spec, update(object, seen)),
        };
        progress.asked = Some(wanted.clone());
        match store.write(write) {
            Ok(stored) => {
                assert!(stored.revision > progress.revision);
                seen = wanted.is_some().then_some(stored.revision);
                progress = Progress { acknowledged: wanted, asked: None, revision: stored.revision };
            }
            Err(Refused::Disk { .. }) if disk.is_cut() => return progress,
            // Nothing has changed, and it is tried again.
            Err(Refused::Disk { .. }) => {}
            Err(refused) => panic!("{refused}"),
        }
    }
    progress
}

fn one_host(seed: u64) {
    let mut dice = Dice::new(seed);
    let disk = SimDisk::new(seed);
    let setup = Setup { segment_bytes: 16 << 10, checkpoint_bytes: 32 << 10, reserve: 50, ..Setup::PRODUCT };
    let open = |disk: &SimDisk| {
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        FlatStore::open_on(Arc::new(disk.clone()), None, None, ids, &rules(), setup).expect("it opens").store
    };
    let store = open(&disk);
    store.inner.keeper.start(Arc::downgrade(&store.inner)).expect("a thread");
    if dice.one_in(3) {
        disk.fail(100..100 + dice.below(20), EIO);
    }
    disk.cut_in(50 + dice.below(1_000));
    let all: Vec<Progress> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let (store, disk) = (&store, &disk);
                    move || write_until_cut(store, disk, writer)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
    });
    store.inner.keeper.stop();
    drop(store);
    disk.power_loss();
    let store = open(&disk);
    assert_eq!(store.health().degraded, None, "seed {seed}");
    for (writer, progress) in all.iter().enumerate() {
        let now =
            store.get(&key(&format!("Writer_{writer}"))).expect("whole").map(|stored| super::crash::spec_of(&stored));
        let fits = now == progress.acknowledged || progress.asked.as_ref() == Some(&now);
        assert!(
            fits,
            "seed {seed}, writer {writer}: {now:?}, acknowledged {:?}, asked {:?}",
            progress.acknowledged, progress.asked
        );
        assert!(store.revision() >= progress.revision, "seed {seed}");
    }
}

#[test]
fn writers_and_the_keeper_at_the_same_time_lose_nothing() {
    (0..HOSTS).for_each(one_host);
}
