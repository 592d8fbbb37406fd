//! Copies of a directory that are taken folder by folder, in any order, while its master writes and its files follow.
//! What was acknowledged before the copy began is there, or the start says that something may be missing; and nothing
//! that had been deleted comes back.
//!
//!     CORACLE_SEED=17         this copy alone, reported step by step
//!     CORACLE_HISTORIES=5000  so many

use super::crash::number;
use super::crash::spec_of;
use super::lives::{Host, Life, Setting, ids};
use super::oracle::{Held, all};
use super::sim::SimDisk;
use super::*;
use crate::store::flat::disk::{Disk, Stamp};
use crate::store::flat::head::Head;
use crate::store::flat::protocol::{Protocol, ProtocolRule};
use crate::store::flat::setup::BATCH_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// In CI.
const COPIES: u64 = 600;

/// A file said a revision that the rest of the copy did not know of, and the start after the next gave it to that
/// object again; or the files were the only ones to say how far revisions had come; or the last segments went while the
/// others were copied.
const REMEMBERED: [u64; 4] = [1256, 2270, 3669, 3980];

/// What was tried, to show that it is no empty test.
#[derive(Default, Debug)]
struct Tally {
    whole: u64,
    reported: u64,
    frozen: u64,
    quiet: u64,
}

/// What an object may be in the copy: as it was when the copy began, or as it became since; None: not there.
#[derive(Default)]
struct May {
    be: BTreeMap<Key, BTreeSet<Option<String>>>,
}

impl May {
    fn note(&mut self, held: &BTreeMap<Key, Held>) {
        let known: Vec<Key> = self.be.keys().chain(held.keys()).cloned().collect();
        for key in known {
            let text = held.get(&key).map(|held| held.text.clone());
            self.be.entry(key).or_insert_with(|| BTreeSet::from([None])).insert(text);
        }
    }

    fn begun(held: &BTreeMap<Key, Held>) -> May {
        May { be: held.iter().map(|(key, held)| (key.clone(), BTreeSet::from([Some(held.text.clone())]))).collect() }
    }
}

struct Copying {
    host: Host,
    life: Life,
    may: May,
    copy: SimDisk,
    /// Extended attributes come along.
    stamps: bool,
    /// A segment was written to after it was copied, and the next one was begun before that was: there is a hole
    /// between them.
    overtaken: bool,
}

impl Copying {
    /// What goes on between two files that are read.
    fn meanwhile(&mut self) -> Result<(), String> {
        while self.host.dice.one_in(2) {
            match self.host.dice.below(8) {
                0 => {
                    let begun = self
                        .life
                        .checkpoint
                        .take()
                        .map_or(Ok(()), |checkpoint| self.life.store.finish_checkpoint(checkpoint));
                    begun.and_then(|()| self.life.store.checkpoint()).map_err(|error| error.to_string())?;
                }
                1 | 2 => self.host.keep(&mut self.life),
                _ => {
                    self.host.write(&mut self.life)?;
                    self.may.note(self.host.oracle.held());
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &str) -> Result<(), String> {
        let mut files: Vec<String> = self.host.disk.tree().into_iter().filter(|path| path.starts_with(part)).collect();
        if part == "objects" && self.host.dice.one_in(2) {
            files.reverse();
        }
        for file in files {
            self.meanwhile()?;
            // It may be gone by now.
            let Some(text) = self.host.disk.peek(&file) else { continue };
            if part == "wal" && text.starts_with(b"{") {
                let changed = |path: &String| {
                    self.copy.peek(path).is_some_and(|copied| Some(copied) != self.host.disk.peek(path))
                };
                self.overtaken |= self.copy.tree().iter().filter(|path| path.starts_with("wal/")).any(changed);
            }
            let stamp = self.host.disk.stamp(&file).map_err(|error| error.to_string())?;
            match stamp {
                Stamp::Intact(_) if self.stamps => self.copy.place_stamped(&file, &text),
                _ => self.copy.place(&file, &text),
            }
        }
        Ok(())
    }
}

/// One copy. An error says what is wrong with it.
fn copied(seed: u64, protocol: Protocol, tally: &mut Tally) -> Result<(), String> {
    let mut host = Host::new(seed, Setting { protocol, fails: false, ..Setting::WHOLE }, false);
    // All that the journal ever said is there, or no more than HEAD.json asks for.
    let retains = host.dice.one_in(2);
    host.setup.retained_bytes_max = if retains { 64 << 20 } else { 0 };
    let mut life = host.start(false)?;
    for _ in 0..1 + host.dice.below(2) {
        for _ in 0..host.dice.below(40) {
            match host.dice.below(6) {
                0 => host.keep(&mut life),
                _ => host.write(&mut life)?,
            }
        }
        if host.dice.one_in(3) {
            let closes = host.dice.one_in(2);
            host.die(life, closes)?;
            life = host.start(false)?;
        }
    }
    let before = host.oracle.clone();
    let mut parts = ["HEAD.json", "objects", "wal"];
    for at in (1..parts.len()).rev() {
        parts.swap(at, host.dice.below(at as u64 + 1) as usize);
    }
    let (may, stamps) = (May::begun(host.oracle.held()), !host.dice.one_in(3));
    let copy = SimDisk::new(seed ^ 3).traced(number("CORACLE_SEED").is_some());
    let mut copying = Copying { host, life, may, copy, stamps, overtaken: false };
    for part in parts {
        copying.part(part)?;
    }
    let Copying { host, life, may, copy, overtaken, .. } = copying;
    drop(life);
    let whole = retains && !overtaken && parts == ["HEAD.json", "objects", "wal"];
    judge(&copy, host.setup, &before, &may, whole, tally)
        .map_err(|wrong| format!("{parts:?}, stamps {stamps}, retains {retains}: {wrong}"))
}

/// `whole`: all that is needed is there.
fn judge(
    copy: &SimDisk,
    setup: Setup,
    before: &oracle::Oracle,
    may: &May,
    whole: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let opened = FlatStore::open_on(Arc::new(copy.clone()), None, None, ids(9), &rules(), setup)
        .map_err(|error| error.to_string())?;
    let health = opened.store.health();
    // Where no file had come into objects/ it looks as if the folder were not there.
    let frozen = health.degraded.as_ref().is_some_and(|why| !why.contains("knows of objects"));
    // A file that a cut tore before is damaged in the copy, and said.
    if whole && (frozen || !health.edits.is_empty() || health.damaged.iter().any(|damage| damage.key.is_none())) {
        return Err(format!("it complains of the order that is documented: {health:?}"));
    }
    tally.whole += u64::from(whole);
    if health.degraded.is_some() {
        tally.frozen += 1;
        return Ok(());
    }
    let reported = !health.edits.is_empty() || !health.damaged.is_empty();
    let (mut before, begun) = (before.clone(), before.last());
    before.reached(opened.store.revision())?;
    let now = all(&opened.store);
    for stored in &now {
        before
            .show(&stored.key, stored.revision, Some(&stored.json))
            .map_err(|wrong| format!("reported {reported}: {wrong}"))?;
    }
    let held = before.look(&opened.store, &now)?;
    let keys: BTreeSet<&Key> = may.be.keys().chain(held.keys()).collect();
    for key in keys {
        let is = held.get(key).map(|held| held.text.clone());
        let may_be = may.be.get(key).map_or_else(|| is.is_none(), |may| may.contains(&is));
        let renewed = is.is_none() || now.iter().any(|stored| *stored.key == *key && stored.revision > begun);
        if !(may_be || reported && renewed) {
            return Err(format!(
                "{key} is {is:?} without a word, and may be {:?}; reported {reported}, renewed {renewed}",
                may.be.get(key)
            ));
        }
    }
    (tally.reported, tally.quiet) = (tally.reported + u64::from(reported), tally.quiet + u64::from(!reported));
    // Everything stays as it is, and nothing is reported twice but what nobody knows.
    let is_strange = |damage: &Damage| damage.key.is_none() && !damage.file.ends_with("-may-be-missing");
    drop(opened);
    copy.power_loss();
    let again = FlatStore::open_on(Arc::new(copy.clone()), None, None, ids(10), &rules(), setup)
        .map_err(|error| error.to_string())?;
    let health = again.store.health();
    let complains = health.damaged.iter().any(|damage| !reported || is_strange(damage));
    if complains || !health.edits.is_empty() || health.degraded.is_some() {
        return Err(format!("the second start complains: {health:?}"));
    }
    let texts = |held: &BTreeMap<Key, Held>| {
        held.iter().map(|(key, held)| (key.clone(), held.text.clone())).collect::<Vec<_>>()
    };
    let then = before.look(&again.store, &all(&again.store))?;
    if texts(&then) != texts(&held) {
        return Err(format!("the second start finds {:?} and not {:?}", texts(&then), texts(&held)));
    }
    Ok(())
}

#[test]
fn a_copy_of_a_running_store_holds_what_was_acknowledged_or_says_so() {
    let seeds = match number("CORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CORACLE_HISTORIES").unwrap_or(COPIES),
    };
    let count = seeds.end - seeds.start;
    let mut tally = Tally::default();
    for seed in seeds.chain(REMEMBERED) {
        copied(seed, Protocol::WHOLE, &mut tally).unwrap_or_else(|wrong| panic!("CORACLE_SEED={seed}: {wrong}"));
    }
    eprintln!("{count} copies: {tally:?}");
    assert!(
        count < COPIES || [tally.whole, tally.reported, tally.frozen, tally.quiet].iter().all(|count| *count > 5),
        "{tally:?}"
    );
}

/// The rule is missed.
#[test]
fn a_start_that_takes_a_copy_for_what_it_seems_is_noticed() {
    let protocol = Protocol::WHOLE.without(ProtocolRule::Account);
    let found = (0..COPIES).find_map(|seed| Some((seed, copied(seed, protocol, &mut Tally::default()).err()?)));
    eprintln!("account: {found:?}");
    assert!(found.is_some(), "it is not missed");
}

const GROWN: usize = 30;

fn file(name: &str) -> String {
    format!("objects/core/pods/default/{}.json", name.replace('P', "%50"))
}

/// Objects of which no segment says anything any more, at which revisions they are, and the file of `P-5` as it was
/// once.
fn grown(closed: bool) -> (SimDisk, BTreeMap<String, Revision>, Vec<u8>) {
    let disk = SimDisk::new(1);
    let setup = Setup { segment_bytes: 16 << 10, retained_bytes_max: 0, ..Setup::SMALL };
    let store =
        FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), setup).expect("it is new").store;
    for number in 0..GROWN {
        store.write(create(pod(&format!("P-{number}"), "a", None))).expect("new");
    }
    store.checkpoint().expect("the disk is well");
    let older = disk.peek(&file("P-5")).expect("its file");
    let put = |name: &str, is: &str| {
        let seen = store.get(&key(name)).expect("whole").expect("there").revision;
        store.write(update(pod(name, is, None), seen)).expect("seen");
    };
    put("P-5", "b");
    store.checkpoint().expect("the disk is well");
    (0..12).for_each(|round| put("P-0", &round.to_string()));
    store.checkpoint().expect("the disk is well");
    if closed {
        store.close().expect("the disk is well");
    }
    drop(store);
    lose_past(&disk);
    let at = revisions(&memory_on(&disk.fork(2)));
    (disk, at, older)
}

/// Drops what the files have caught up with.
fn lose_past(disk: &SimDisk) {
    let head = Head::from_text(&String::from_utf8_lossy(&disk.peek("HEAD.json").expect("it is there"))).expect("whole");
    let first = crate::store::flat::journal::path(head.wal.expect("there is a journal").segment);
    disk.tree().iter().filter(|path| path.starts_with("wal/") && **path < first).for_each(|path| disk.take(path));
}

fn revisions(store: &FlatStore) -> BTreeMap<String, Revision> {
    all(store).into_iter().map(|stored| (stored.key.name.clone(), stored.revision)).collect()
}

/// Whether it is said that the files are others than they were; and what has another revision than before.
fn renewed(disk: &SimDisk, before: &BTreeMap<String, Revision>) -> (bool, BTreeSet<String>) {
    let store = memory_on(disk);
    let health = store.health();
    assert_eq!((health.degraded, health.damaged), (None, vec![]));
    let reported = health.edits.iter().any(|edit| edit.why.contains("are not those that HEAD.json describes"));
    let now = revisions(&store);
    (
        reported,
        now.into_iter().filter(|(name, revision)| before.get(name) != Some(revision)).map(|(name, _)| name).collect(),
    )
}

#[test]
fn a_file_of_another_day_is_told_once_and_whoever_saw_any_object_looks_again() {
    for closed in [true, false] {
        let (disk, before, older) = grown(closed);
        assert_eq!(renewed(&disk.fork(2), &before), (false, BTreeSet::new()));
        disk.place_stamped(&file("P-5"), &older);
        let (reported, all) = renewed(&disk, &before);
        assert!(reported && all.len() == GROWN, "closed {closed}: {all:?}");
        let now = revisions(&memory_on(&disk));
        assert_eq!(renewed(&disk, &now), (false, BTreeSet::new()), "closed {closed}: once");
    }
}

#[test]
fn a_file_of_another_day_is_told_though_people_changed_others() {
    let edit = |disk: &SimDisk| {
        let text = String::from_utf8(disk.peek(&file("P-3")).expect("its file")).expect("text");
        disk.overwrite(&file("P-3"), text.replace("\"a\"", "\"c\"").as_bytes());
    };
    let leave = |disk: &SimDisk| disk.place("objects/future.io/things/default/a.json", b"{}");
    type Change<'a> = (&'a str, &'a dyn Fn(&SimDisk), &'a [&'a str]);
    let changes: [Change; 2] = [("an edit", &edit, &["P-3"]), ("a kind of tomorrow", &leave, &[])];
    for closed in [true, false] {
        for (case, change, changed) in changes {
            let (disk, before, older) = grown(closed);
            change(&disk);
            let changed = changed.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(renewed(&disk.fork(2), &before), (false, changed), "{case} alone, closed {closed}");
            disk.place_stamped(&file("P-5"), &older);
            let (reported, all) = renewed(&disk, &before);
            assert!(reported && all.len() == GROWN, "{case}, closed {closed}: {all:?}");
        }
    }
}

#[test]
fn a_file_that_is_gone_costs_the_others_nothing_where_the_store_was_closed() {
    for closed in [true, false] {
        let (disk, before, _) = grown(closed);
        disk.take(&file("P-7"));
        let (reported, others) = renewed(&disk.fork(2), &before);
        // What a copy of a running master lacks may be older elsewhere.
        assert_eq!((reported, others.len()), (false, if closed { 0 } else { GROWN - 1 }), "closed {closed}");
        assert!(memory_on(&disk).health().edits[0].why.contains("an object's file is gone"));
    }
}

/// What a power cut leaves of a start at each of its steps.
fn cut_starts(disk: &SimDisk) -> impl Iterator<Item = (u64, SimDisk)> {
    (1..).map_while(|step| {
        let image = disk.fork(step);
        image.cut_in(step);
        let ids = Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        drop(FlatStore::open_on(Arc::new(image.clone()), None, None, ids, &rules(), Setup::SMALL));
        let cut = image.is_cut();
        image.power_loss();
        cut.then_some((step, image))
    })
}

/// The records of what a start renews take more than one batch; it is cut at each of its steps, and done again.
#[test]
fn a_start_that_renews_what_may_be_older_may_be_cut_anywhere() {
    for closed in [true, false] {
        let disk = SimDisk::new(1);
        let setup = Setup { segment_bytes: 16 << 10, retained_bytes_max: 0, ..Setup::SMALL };
        let store =
            FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), setup).expect("it is new").store;
        let text = |letter: &str| letter.repeat(BATCH_BYTES_MAX / 2);
        for name in ["P-0", "P-1", "P-2", "P-3"] {
            store.write(create(pod(name, &text("a"), None))).expect("new");
        }
        store.checkpoint().expect("the disk is well");
        let older = disk.peek(&file("P-1")).expect("its file");
        let seen = store.get(&key("P-1")).expect("whole").expect("there").revision;
        store.write(update(pod("P-1", &text("b"), None), seen)).expect("seen");
        store.checkpoint().expect("the disk is well");
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        lose_past(&disk);
        let (mut oracle, store) = (oracle::Oracle::default(), memory_on(&disk.fork(2)));
        let begun = store.revision();
        let show = |oracle: &mut oracle::Oracle, store: &FlatStore| {
            oracle.reached(store.revision()).expect("it does not go back");
            let all = all(store);
            all.iter().for_each(|stored| {
                oracle.show(&stored.key, stored.revision, Some(&stored.json)).expect("one content a revision")
            });
            all.iter()
                .map(|stored| (stored.key.name.clone(), (stored.revision, spec_of(stored))))
                .collect::<BTreeMap<_, _>>()
        };
        show(&mut oracle, &store);
        drop(store);
        disk.place_stamped(&file("P-1"), &older);
        let mut cuts = 0;
        for (step, image) in cut_starts(&disk) {
            cuts += 1;
            let (mut oracle, store) = (oracle.clone(), memory_on(&image));
            assert_eq!(
                (store.health().degraded, store.health().damaged),
                (None, vec![]),
                "closed {closed}, step {step}"
            );
            let now = show(&mut oracle, &store);
            assert!(
                now.len() == 4 && now.values().all(|(revision, is)| *revision > begun && is.starts_with('a')),
                "closed {closed}, step {step}"
            );
            drop(store);
            image.power_loss();
            assert_eq!(show(&mut oracle, &memory_on(&image)), now, "closed {closed}, step {step}");
        }
        assert!(cuts > 30, "{cuts}");
    }
}

/// Where the files are not as they were, nobody says that nothing is missing.
#[test]
fn a_journal_that_is_gone_beside_older_files_is_no_comfort() {
    let (disk, _, older) = grown(true);
    disk.tree().iter().filter(|path| path.starts_with("wal/")).for_each(|path| disk.take(path));
    let notes = |disk: &SimDisk| {
        FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), Setup::SMALL).expect("it opens").notes
    };
    let says = |notes: Vec<String>| notes.iter().any(|note| note.contains("nothing is missing"));
    assert!(says(notes(&disk.fork(2))));
    disk.place_stamped(&file("P-5"), &older);
    disk.take(&file("P-7"));
    assert!(!says(notes(&disk)));
}
