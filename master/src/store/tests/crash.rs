//! Cuts and failures at every step of the disk. Whatever happens: what was acknowledged is there, what was refused or in flight is there
//! whole or not at all, nothing deleted comes back, and no revision goes back or means two things.

use super::sim::{Careless, Dice, SimDisk};
use super::*;
use crate::store::load::Ids;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const NAMES: [&str; 4] = ["a", "b", "Whole", "Whole_2"];
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A host with its disk and its tmpfs, and what its users know.
struct Host {
    seed: u64,
    dice: Dice,
    disk: SimDisk,
    tmpfs: SimDisk,
    boot: u64,
    store: Option<Store>,
    /// The spec of each object that was acknowledged or shown; None: that there is none.
    known: BTreeMap<&'static str, Option<String>>,
    /// What a refused or unanswered write may have left.
    maybe: BTreeMap<&'static str, Vec<Option<String>>>,
    /// Every state that anybody saw.
    shown: BTreeMap<Revision, Bytes>,
    last: Revision,
    writes: u64,
}

impl Host {
    fn new(seed: u64, careless: Careless) -> Host {
        let known = NAMES.iter().map(|name| (*name, None)).collect();
        Host {
            seed,
            dice: Dice::new(seed),
            disk: SimDisk::new(seed ^ 1).careless(careless),
            tmpfs: SimDisk::new(seed ^ 2),
            boot: 1,
            store: None,
            known,
            maybe: BTreeMap::new(),
            shown: BTreeMap::new(),
            last: Revision(0),
            writes: 0,
        }
    }

    /// False: the power went off meanwhile.
    fn start(&mut self) -> bool {
        let ids = Ids { fresh_store: format!("store-{}", self.boot), boot: self.boot.to_string() };
        let opened = Store::open_on(Arc::new(self.disk.clone()), Some(Box::new(self.tmpfs.clone())), None, ids, &rules());
        let store = match opened {
            Ok(opened) if !self.disk.is_cut() => opened.store,
            _ if self.disk.is_cut() => return false,
            Ok(_) => unreachable!("not cut"),
            Err(error) => panic!("seed {}: does not start: {error}", self.seed),
        };
        assert!(store.health().damaged.is_empty(), "seed {}: {:?}", self.seed, store.health());
        assert!(store.revision() >= self.last, "seed {}: {} went back to {}", self.seed, self.last, store.revision());
        self.last = store.revision();
        for name in NAMES {
            let now = store.get(&key(name)).expect("nothing is damaged");
            if let Some(stored) = &now {
                assert!(stored.revision <= store.revision(), "seed {}: {name} is of the future", self.seed);
                self.show(stored);
            }
            let spec = now.map(|stored| spec_of(&stored));
            let allowed = self.known[name] == spec || self.maybe.get(name).is_some_and(|maybe| maybe.contains(&spec));
            assert!(allowed, "seed {}: {name} is {spec:?}, was {:?} or perhaps {:?}", self.seed, self.known[name], self.maybe.get(name));
            self.known.insert(name, spec);
        }
        self.maybe.clear();
        self.store = Some(store);
        true
    }

    fn show(&mut self, stored: &Stored) {
        let former = self.shown.insert(stored.revision, stored.json.clone());
        assert!(former.is_none_or(|former| former == stored.json), "seed {}: {} means two things", self.seed, stored.revision);
    }

    /// One write of the workload. False: the power went off.
    fn write(&mut self) -> bool {
        let name = NAMES[self.dice.below(NAMES.len() as u64) as usize];
        let store = self.store.clone().expect("it runs");
        let now = store.get(&key(name)).expect("nothing is damaged");
        assert_eq!(now.as_ref().map(spec_of), self.known[name], "seed {}: {name}: visible is not what was acknowledged", self.seed);
        self.writes += 1;
        let spec = format!("{}", self.writes);
        let (write, then) = match &now {
            None => (create(pod(name, &spec, None)), Some(spec)),
            Some(now) if self.dice.one_in(4) => (Write::Delete { key: key(name), seen: now.revision }, None),
            // A status touches no disk.
            Some(now) if self.dice.one_in(3) => (update(pod(name, &spec_of(now), Some(&spec)), now.revision), Some(spec_of(now))),
            Some(now) => (update(pod(name, &spec, None), now.revision), Some(spec)),
        };
        let steps = self.disk.steps();
        match store.write(write) {
            Ok(stored) => {
                assert!(stored.revision > self.last, "seed {}: {} after {}", self.seed, stored.revision, self.last);
                self.last = stored.revision;
                self.known.insert(name, then.clone());
                if then.is_some() {
                    self.show(&stored);
                }
                // Whatever was in doubt was settled first.
                if self.disk.steps() > steps {
                    self.maybe.clear();
                }
            }
            Err(Refused::Disk { .. }) => {
                self.maybe.entry(name).or_default().push(then);
                self.last = self.last.max(store.revision());
                assert!(self.disk.is_cut() || store.health().degraded.is_some());
            }
            Err(refused) => panic!("seed {}: {refused:?}", self.seed),
        }
        !self.disk.is_cut()
    }

    fn stop(&mut self) {
        self.store = None;
        if self.dice.one_in(2) {
            self.disk.kill();
        } else {
            self.disk.power_loss();
            self.tmpfs = SimDisk::new(self.boot);
            self.boot += 1;
        }
    }
}

fn spec_of(stored: &Stored) -> String {
    let document: Value = serde_json::from_slice(&stored.json).expect("JSON");
    document["spec"]["is"].as_str().expect("a spec").to_owned()
}

/// Some lives, each cut somewhere: in the start, in a write, in the close.
fn history(seed: u64, careless: Careless) -> Host {
    let mut host = Host::new(seed, careless);
    for _ in 0..4 {
        let steps = 1 + host.dice.below(90);
        host.disk.cut_in(steps);
        let mut up = host.start();
        while up {
            if host.dice.one_in(10) {
                let errno = if host.dice.one_in(2) { ENOSPC } else { EIO };
                let (from, length) = (host.dice.below(8), 1 + host.dice.below(12));
                host.disk.fail(from..from + length, errno);
            }
            up = host.write();
            if up && host.dice.one_in(30) {
                host.disk.heal();
                host.store.as_ref().expect("it runs").close().ok();
                break;
            }
        }
        host.disk.heal();
        host.stop();
    }
    assert!(host.start(), "nothing cuts the last start");
    host
}

#[test]
fn no_cut_and_no_failure_breaks_a_promise() {
    let writes: u64 = (0..2_000).map(|seed| history(seed, Careless::No).writes).sum();
    assert!(writes > 10_000, "the workload is too small to show anything: {writes}");
}

#[test]
fn a_disk_that_forgets_is_noticed() {
    for careless in [Careless::FileSync, Careless::FolderSync] {
        let noticed = (0..200).any(|seed| catch_unwind(AssertUnwindSafe(|| history(seed, careless))).is_err());
        assert!(noticed, "{careless:?} is not noticed");
    }
}

#[test]
fn a_failure_at_each_step_refuses_one_write_and_nothing_else() {
    for errno in [ENOSPC, EIO] {
        let mut step = 1;
        loop {
            let mut host = Host::new(step, Careless::No);
            assert!(host.start());
            for _ in 0..3 {
                host.write();
            }
            let before = host.disk.steps();
            host.disk.fail(step..step + 1, errno);
            for _ in 0..20 {
                host.write();
            }
            let used = host.disk.steps() - before;
            host.disk.heal();
            let store = host.store.clone().expect("it runs");
            // A few more, as those of a status touch no disk.
            let healed = (0..50).any(|_| host.write() && store.health().degraded.is_none());
            assert!(healed, "it heals by itself at the next success");
            host.stop();
            assert!(host.start());
            step += 1;
            if step > used {
                break;
            }
        }
        assert!(step > 50, "{step}");
    }
}

#[test]
fn a_close_settles_what_a_refused_write_left() {
    let mut refused = 0;
    for step in 1..12 {
        let disk = SimDisk::new(step);
        let store = memory_on(&disk);
        let web = store.write(create(pod("Web", "a", None))).expect("new");
        disk.fail(step..step + 1, EIO);
        let answer = store.write(update(pod("Web", "b", None), web.revision));
        disk.heal();
        store.close().expect("the disk is well");
        drop(store);
        let now = memory_on(&disk).get(&key("Web")).expect("whole").expect("there");
        assert_eq!(spec_of(&now), if answer.is_ok() { "b" } else { "a" }, "step {step}");
        refused += u32::from(answer.is_err());
    }
    assert_eq!(refused, 5, "create, write, fsync, rename, fsync of the folder");
}

#[test]
fn a_full_disk_says_so_and_statuses_go_on() {
    let disk = SimDisk::new(1);
    let store = memory_on(&disk);
    let web = store.write(create(pod("web", "a", None))).expect("it is new");
    disk.fail(0..u64::MAX, ENOSPC);
    let Err(Refused::Disk { why, space }) = store.write(create(pod("b", "b", None))) else { panic!("where to?") };
    assert!(space && why.starts_with("cannot write tmp/"), "{why}");
    assert_eq!(store.health().degraded, Some(why));
    assert!(store.get(&key("b")).expect("whole").is_none());
    let up = store.write(update(pod("web", "a", Some("up")), web.revision)).expect("a status needs no disk");
    assert!(store.health().degraded.is_some(), "nothing was written");
    disk.heal();
    store.write(Write::Delete { key: key("web"), seen: up.revision }).expect("the disk is well");
    assert_eq!(store.health().degraded, None);
}
