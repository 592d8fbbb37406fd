//! Copies of a directory that are taken folder by folder, in any order, while its master writes and its files follow. What was acknowledged
//! before the copy began is there, or the start says that something may be missing; and nothing that had been deleted comes back.
//!
//!     CORACLE_SEED=17         this copy alone, told step by step
//!     CORACLE_HISTORIES=5000  so many

use super::crash::number;
use super::crash::spec_of;
use super::lives::{Host, Life, Setting, ids};
use super::oracle::{Held, all};
use super::sim::SimDisk;
use super::*;
use crate::store::disk::{Disk, Stamp};
use crate::store::head::Head;
use crate::store::protocol::Protocol;
use crate::store::setup::BATCH_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// In CI.
const COPIES: u64 = 600;

/// A file said a revision that the rest of the copy did not know of, and the start after the next gave it to that object again; or the
/// files were the only ones to say how far revisions had come; or the last segments went while the others were copied.
const REMEMBERED: [u64; 4] = [1256, 2270, 3669, 3980];

/// What was tried, to show that it is no empty test.
#[derive(Default, Debug)]
struct Tally {
    healed: u64,
    told: u64,
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
    /// A segment was written to after it was copied, and the next one was begun before that was: there is a hole between them.
    overtaken: bool,
}

impl Copying {
    /// What goes on between two files that are read.
    fn meanwhile(&mut self) -> Result<(), String> {
        while self.host.dice.one_in(2) {
            match self.host.dice.below(8) {
                0 => {
                    let begun = self.life.checkpoint.take().map_or(Ok(()), |checkpoint| self.life.store.finish_checkpoint(checkpoint));
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
                let changed = |path: &String| self.copy.peek(path).is_some_and(|copied| Some(copied) != self.host.disk.peek(path));
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
    let whole = retains && !overtaken && parts == ["objects", "HEAD.json", "wal"];
    judge(&copy, host.setup, &before, &may, whole, tally).map_err(|wrong| format!("{parts:?}, stamps {stamps}, retains {retains}: {wrong}"))
}

/// `whole`: all that is needed is there.
fn judge(copy: &SimDisk, setup: Setup, before: &oracle::Oracle, may: &May, whole: bool, tally: &mut Tally) -> Result<(), String> {
    let opened = FlatStore::open_on(Arc::new(copy.clone()), None, None, ids(9), &rules(), setup).map_err(|error| error.to_string())?;
    let health = opened.store.health();
    // Where no file had come into objects/ it looks as if the folder were not there.
    let frozen = health.degraded.as_ref().is_some_and(|why| !why.contains("knows of objects"));
    // A file that a cut tore before is damaged in the copy, and said.
    if whole && (frozen || health.damaged.iter().any(|damage| damage.key.is_none())) {
        return Err(format!("it complains of what it could mend: {health:?}"));
    }
    if health.degraded.is_some() {
        tally.frozen += 1;
        return Ok(());
    }
    let told = !health.told.is_empty() || !health.damaged.is_empty();
    let (mut before, begun) = (before.clone(), before.last());
    before.reached(opened.store.revision())?;
    let now = all(&opened.store);
    for stored in &now {
        before.show(&stored.key, stored.revision, Some(&stored.json)).map_err(|wrong| format!("told {told}: {wrong}"))?;
    }
    let held = before.look(&opened.store, &now)?;
    let keys: BTreeSet<&Key> = may.be.keys().chain(held.keys()).collect();
    for key in keys {
        let is = held.get(key).map(|held| held.text.clone());
        let may_be = may.be.get(key).map_or_else(|| is.is_none(), |may| may.contains(&is));
        let renewed = is.is_none() || now.iter().any(|stored| *stored.key == *key && stored.revision > begun);
        if !(may_be || told && renewed) {
            return Err(format!("{key} is {is:?} without a word, and may be {:?}; told {told}, renewed {renewed}", may.be.get(key)));
        }
    }
    let healed = opened.notes.iter().any(|note| note.contains("are older than HEAD.json"));
    (tally.told, tally.quiet, tally.healed) =
        (tally.told + u64::from(told), tally.quiet + u64::from(!told && !healed), tally.healed + u64::from(healed));
    // Everything stays as it is, and nothing is told twice but what nobody knows.
    let is_strange = |damage: &Damage| damage.key.is_none() && !damage.file.ends_with("-may-be-missing");
    drop(opened);
    copy.power_loss();
    let again = FlatStore::open_on(Arc::new(copy.clone()), None, None, ids(10), &rules(), setup).map_err(|error| error.to_string())?;
    let health = again.store.health();
    let complains = health.damaged.iter().any(|damage| !told || is_strange(damage));
    if complains || !health.told.is_empty() || health.degraded.is_some() {
        return Err(format!("the second start complains: {health:?}"));
    }
    let texts = |held: &BTreeMap<Key, Held>| held.iter().map(|(key, held)| (key.clone(), held.text.clone())).collect::<Vec<_>>();
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
    assert!(count < COPIES || [tally.healed, tally.told, tally.frozen, tally.quiet].iter().all(|count| *count > 5), "{tally:?}");
}

/// Each rule is missed.
#[test]
fn a_start_that_takes_a_copy_for_what_it_seems_is_noticed() {
    let without = [("heal", Protocol { heal: false, ..Protocol::WHOLE }), ("account", Protocol { account: false, ..Protocol::WHOLE })];
    for (rule, protocol) in without {
        let found = (0..COPIES).find_map(|seed| Some((seed, copied(seed, protocol, &mut Tally::default()).err()?)));
        eprintln!("{rule}: {found:?}");
        assert!(found.is_some(), "{rule} is not missed");
    }
}

const GROWN: usize = 300;
/// Of them, in a part of so many: three times what there are by chance.
const PART_MAX: usize = 3 * GROWN / 64;

fn file(name: &str) -> String {
    format!("objects/core/pods/default/{}.json", name.replace('P', "%50"))
}

/// Objects of which no segment says anything any more, at which revisions they are, and the file of `P-5` as it was once.
fn grown(closed: bool) -> (SimDisk, BTreeMap<String, Revision>, Vec<u8>) {
    let disk = SimDisk::new(1);
    let setup = Setup { segment_bytes: 16 << 10, retained_bytes_max: 0, ..Setup::SMALL };
    let store = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), setup).expect("it is new").store;
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
    let first = crate::store::journal::path(head.wal.expect("there is a journal").segment);
    disk.tree().iter().filter(|path| path.starts_with("wal/") && **path < first).for_each(|path| disk.take(path));
}

fn revisions(store: &FlatStore) -> BTreeMap<String, Revision> {
    all(store).into_iter().map(|stored| (stored.key.name.clone(), stored.revision)).collect()
}

/// Whether it is said that something may be older than it was; and what has another revision than before.
fn renewed(disk: &SimDisk, before: &BTreeMap<String, Revision>) -> (bool, BTreeSet<String>) {
    let store = memory_on(disk);
    let health = store.health();
    assert_eq!(health.degraded, None);
    let told = health.damaged.iter().any(|damage| damage.why.contains("may be older"));
    let now = revisions(&store);
    (told, now.into_iter().filter(|(name, revision)| before.get(name) != Some(revision)).map(|(name, _)| name).collect())
}

#[test]
fn a_file_that_is_gone_hides_no_older_one_and_costs_the_others_nothing() {
    for closed in [true, false] {
        let (disk, before, older) = grown(closed);
        assert!(disk.peek("HEAD.json").expect("it is there").len() < 3000);
        assert_eq!(renewed(&disk.fork(2), &before), (false, BTreeSet::new()));
        for gone in (1..GROWN).step_by(20) {
            let image = disk.fork(2);
            image.take(&file(&format!("P-{gone}")));
            assert_eq!(renewed(&image.fork(3), &before), (false, BTreeSet::new()), "closed {closed}, without P-{gone}");
            image.place_stamped(&file("P-5"), &older);
            let (told, renewed) = renewed(&image, &before);
            assert!(told && renewed.contains("P-5") && renewed.len() <= PART_MAX, "closed {closed}, without P-{gone}: {renewed:?}");
        }
    }
}

/// HEAD.json as a master wrote it that knew one sum.
fn of_one_sum(disk: &SimDisk) -> SimDisk {
    let image = disk.fork(4);
    let head: Head = Head::from_text(&String::from_utf8_lossy(&image.peek("HEAD.json").expect("it is there"))).expect("whole");
    let parts = serde_json::to_value(&head.files).expect("plain");
    let parts = parts.as_str().expect("a text").as_bytes().chunks(32).map(|part| String::from_utf8_lossy(&part[16..]).into_owned());
    let sum = parts.map(|part| u64::from_str_radix(&part, 16).expect("a number")).fold(0, u64::wrapping_add);
    let head = Head { format: 3, files: serde_json::from_value(json!(sum)).expect("a sum"), ..head };
    assert!(head.to_text().contains(&format!("\"files\":{sum},")));
    image.place("HEAD.json", head.to_text().as_bytes());
    image
}

#[test]
fn a_directory_with_one_sum_opens_and_what_it_cannot_tell_is_told_of_all() {
    for closed in [true, false] {
        let (disk, before, older) = grown(closed);
        let disk = of_one_sum(&disk);
        assert_eq!(renewed(&disk.fork(2), &before), (false, BTreeSet::new()));
        disk.take(&file("P-7"));
        disk.place_stamped(&file("P-5"), &older);
        let (told, renewed) = renewed(&disk, &before);
        assert!(told && renewed.contains("P-5") && renewed.len() > GROWN - 5, "closed {closed}: {renewed:?}");
    }
}

#[test]
fn another_stores_old_segments_are_not_heeded() {
    let (disk, before, _) = grown(false);
    let strange = SimDisk::new(7);
    let store = FlatStore::open_on(Arc::new(strange.clone()), None, None, ids(7), &rules(), Setup::SMALL).expect("it is new").store;
    for name in ["P-5", "P-8"] {
        store.write(create(pod(name, "z", None))).expect("new");
    }
    drop(store);
    let segment = "wal/0000000001.jsonl";
    assert!(disk.peek(segment).is_none());
    disk.place(segment, &strange.peek(segment).expect("its journal"));
    disk.take(&file("P-7"));
    let open = |disk: &SimDisk| FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), Setup::SMALL).expect("it opens");
    let notes = open(&disk.fork(2)).notes;
    assert!(notes.iter().any(|note| note.starts_with(segment) && note.contains("another store's journal")), "{notes:?}");
    assert_eq!(renewed(&disk, &before), (false, BTreeSet::new()));
}

/// The records of what a start renews take more than one batch; it is cut at each of its steps, and done again.
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

#[test]
fn a_start_that_renews_what_may_be_older_may_be_cut_anywhere() {
    for closed in [true, false] {
        let disk = SimDisk::new(1);
        let setup = Setup { segment_bytes: 16 << 10, retained_bytes_max: 0, ..Setup::SMALL };
        let store = FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), setup).expect("it is new").store;
        let text = |letter: &str| letter.repeat(BATCH_BYTES_MAX / 2);
        for name in ["P-0", "P-1", "P-2", "P-3", "P-4"] {
            store.write(create(pod(name, &if name < "P-3" { text("a") } else { "a".to_owned() }, None))).expect("new");
        }
        store.checkpoint().expect("the disk is well");
        let older = disk.peek(&file("P-1")).expect("its file");
        for (name, is) in [("P-1", text("b")), ("P-4", text("c"))] {
            let seen = store.get(&key(name)).expect("whole").expect("there").revision;
            store.write(update(pod(name, &is, None), seen)).expect("seen");
            store.checkpoint().expect("the disk is well");
        }
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        lose_past(&disk);
        let disk = of_one_sum(&disk);
        let (mut oracle, store) = (oracle::Oracle::default(), memory_on(&disk.fork(2)));
        let begun = store.revision();
        let show = |oracle: &mut oracle::Oracle, store: &FlatStore| {
            oracle.reached(store.revision()).expect("it does not go back");
            let all = all(store);
            all.iter().for_each(|stored| oracle.show(&stored.key, stored.revision, Some(&stored.json)).expect("one content a revision"));
            all.iter().map(|stored| (stored.key.name.clone(), (stored.revision, spec_of(stored)))).collect::<BTreeMap<_, _>>()
        };
        show(&mut oracle, &store);
        drop(store);
        disk.place_stamped(&file("P-1"), &older);
        disk.place(&file("P-3"), pod("P-3", "hand", None).to_string().as_bytes());
        disk.take(&file("P-4"));
        let mut cuts = 0;
        for (step, image) in cut_starts(&disk) {
            cuts += 1;
            let (mut oracle, store) = (oracle.clone(), memory_on(&image));
            let health = store.health();
            assert_eq!(health.degraded, None, "closed {closed}, step {step}");
            assert!(
                health.damaged.iter().any(|damage| damage.file.ends_with("-may-be-missing")),
                "closed {closed}, step {step}: {health:?}"
            );
            let now = show(&mut oracle, &store);
            let is = |name: &str| {
                now.get(name).map(|(revision, is)| (*revision > begun, is.as_str() == "hand", is.len() > 10 && is.starts_with('a')))
            };
            assert_eq!(is("P-0"), Some((is("P-0").is_some_and(|(new, ..)| new), false, true)), "closed {closed}, step {step}");
            assert_eq!((is("P-1"), is("P-3")), (Some((true, false, true)), Some((true, true, false))), "closed {closed}, step {step}");
            assert_eq!(now.get("P-4").map(|(_, is)| &is[..1]), Some("c"), "closed {closed}, step {step}: the journal tells it");
            drop(store);
            image.power_loss();
            assert_eq!(show(&mut oracle, &memory_on(&image)), now, "closed {closed}, step {step}");
        }
        assert!(cuts > 40, "{cuts}");
    }
}

/// Files of before a load beside HEAD.json and the journal of after it: it tells all of the objects that were made since, and nothing of
/// what the others are. A start is cut at each of its steps, and done again.
#[test]
fn objects_that_the_journal_tells_whole_are_not_deleted_where_others_may_be_older() {
    for closed in [true, false] {
        let disk = SimDisk::new(1);
        let (old, young) = ((0..9).map(|at| format!("P-{at}")), (0..12).map(|at| format!("P-y{at}")));
        let store = memory_on(&disk);
        old.clone().for_each(|name| _ = store.write(create(pod(&name, "a", None))).expect("new"));
        store.checkpoint().expect("the disk is well");
        let older: Vec<(String, Vec<u8>)> = old.clone().map(|name| (file(&name), disk.peek(&file(&name)).expect("its file"))).collect();
        for name in old.clone() {
            let seen = store.get(&key(&name)).expect("whole").expect("there").revision;
            store.write(update(pod(&name, "b", None), seen)).expect("seen");
        }
        store.checkpoint().expect("the disk is well");
        drop(store);
        let store = memory_on(&disk);
        store.write(create(pod("P", "y", None))).expect("new");
        store.checkpoint().expect("the disk is well");
        lose_past(&disk);
        young.clone().for_each(|name| _ = store.write(create(pod(&name, "y", None))).expect("new"));
        store.checkpoint().expect("the disk is well");
        let begun = store.revision();
        if closed {
            store.close().expect("the disk is well");
        }
        drop(store);
        older.iter().for_each(|(path, text)| disk.place_stamped(path, text));
        young.clone().for_each(|name| disk.take(&file(&name)));
        let mut cuts = 0;
        for (step, image) in cut_starts(&disk) {
            cuts = step;
            let store = memory_on(&image);
            let (health, place) = (store.health(), format!("closed {closed}, step {step}"));
            assert!(health.degraded.is_none() && !health.told.iter().any(|told| told.why.contains("deleted")), "{place}: {health:?}");
            assert!(health.damaged.iter().any(|damage| damage.file.ends_with("-may-be-missing")), "{place}: {:?}", health.damaged);
            let now: BTreeMap<String, Stored> = all(&store).into_iter().map(|stored| (stored.key.name.clone(), stored)).collect();
            young.clone().for_each(|name| assert_eq!(now.get(&name).map(spec_of).as_deref(), Some("y"), "{place}: {name}"));
            old.clone().for_each(|name| assert!(now[&name].revision > begun && spec_of(&now[&name]) == "a", "{place}: {name}"));
        }
        assert!(cuts > 20, "{cuts}");
    }
}

/// Where the files are not as they were, nobody says that nothing is missing.
#[test]
fn a_journal_that_is_gone_beside_older_files_is_no_comfort() {
    let (disk, _, older) = grown(true);
    disk.tree().iter().filter(|path| path.starts_with("wal/")).for_each(|path| disk.take(path));
    let notes =
        |disk: &SimDisk| FlatStore::open_on(Arc::new(disk.clone()), None, None, ids(1), &rules(), Setup::SMALL).expect("it opens").notes;
    let says = |notes: Vec<String>| notes.iter().any(|note| note.contains("nothing is missing"));
    assert!(says(notes(&disk.fork(2))));
    disk.place_stamped(&file("P-5"), &older);
    disk.take(&file("P-7"));
    assert!(!says(notes(&disk)));
}

/// As `rsync -a --delete` does it: a file of the same size and the same second is taken for the one that is there.
fn copy_anew(from: &std::path::Path, to: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    std::fs::create_dir_all(to).expect("it can be made");
    let names = |folder: &std::path::Path| std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    for gone in names(to).filter(|name| !from.join(name).exists()) {
        let gone = to.join(gone);
        if gone.is_dir() { std::fs::remove_dir_all(gone) } else { std::fs::remove_file(gone) }.expect("it can be removed");
    }
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_anew(&from, &to);
            continue;
        }
        let found = from.metadata().expect("a file");
        if to.metadata().is_ok_and(|to| (to.len(), to.mtime()) == (found.len(), found.mtime())) {
            continue;
        }
        std::fs::copy(&from, &to).expect("it can be copied");
        std::fs::File::options().write(true).open(&to).and_then(|file| file.set_modified(found.modified()?)).expect("it is ours");
    }
}

/// Twice into the same place, and what was written between the two was so in the second of the first.
#[test]
fn a_second_copy_takes_what_was_written_since_the_first() {
    let dir = std::env::temp_dir().join(format!("coracle-store-{}-twice", std::process::id()));
    std::fs::remove_dir_all(&dir).ok();
    let (data, copy) = (dir.join("data"), dir.join("copy"));
    let store = FlatStore::open_in(&data, None, &rules(), Setup::SMALL).expect("it opens").store;
    // As the keeper does after some seconds.
    let settle = |uptime| _ = locked(&store.inner.writer).postdate(Duration::from_secs(uptime));
    store.write(create(pod("A", "a", None))).expect("new");
    settle(10);
    copy_anew(&data, &copy);
    // On to another segment: the one before has its last write at the same time.
    let more = ('B'..='M').map(String::from);
    for name in more.clone() {
        store.write(create(pod(&name, "a", None))).expect("new");
    }
    for entry in std::fs::read_dir(data.join("wal")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if let Ok(there) = copy.join("wal").join(path.file_name().expect("a name")).metadata() {
            let file = std::fs::File::options().write(true).open(&path).expect("it is ours");
            file.set_modified(there.modified().expect("a time")).expect("it is ours");
        }
    }
    settle(20);
    copy_anew(&data, &copy);
    drop(store);
    let store = FlatStore::open_in(&copy, None, &rules(), Setup::SMALL).expect("it opens").store;
    for name in std::iter::once("A".to_owned()).chain(more) {
        assert!(store.get(&key(&name)).expect("whole").is_some(), "{name}");
    }
    assert_eq!((store.health().degraded, store.health().damaged), (None, vec![]));
    std::fs::remove_dir_all(&dir).expect("it is ours");
}
