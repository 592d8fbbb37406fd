//! Seeded lives of a host: starts, batches of writes, checkpoints step by step, failures, edits by hand, closes, kills
//! and power cuts at any step of any of them. After each cut several images of what the medium may hold are opened and
//! judged.

mod asks;
mod starts;

pub use asks::{Asked, ask_create, ask_delete, ask_status, ask_update};

use super::oracle::{Oracle, all};
use super::sim::{Careless, Dice, EIO, ENOSPC, EROFS, Nature, Promise, SimDisk};
use super::*;
use crate::store::flat::checkpoint::Checkpoint;
use crate::store::flat::disk::Stamp;
use crate::store::flat::protocol::Protocol;
use crate::store::flat::seal::Form;
use crate::store::flat::start::Ids;
use asks::{edited_object, keys, object, turns};

/// What may be opened after one cut, beside the one that the history goes on with.
const IMAGES: u64 = 3;
const ROTTEN_IMAGES: u64 = 6;

#[derive(Clone, Copy)]
pub struct Setting {
    pub careless: Careless,
    pub protocol: Protocol,
    /// Whether calls of the disk fail in some histories.
    pub fails: bool,
    /// Whether pods are sealed, by another key after each boot, and by none now and then.
    pub sealed: bool,
}

impl Setting {
    pub const WHOLE: Setting =
        Setting { careless: Careless::No, protocol: Protocol::WHOLE, fails: true, sealed: false };
}

/// What was tried, to show that it is no empty test.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub cuts: u64,
    pub cuts_in_starts: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub failures: u64,
    pub closes: u64,
    pub edits: u64,
    pub meddled: u64,
    pub flips: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.cuts += more.cuts;
        self.cuts_in_starts += more.cuts_in_starts;
        self.acknowledged += more.acknowledged;
        self.refused += more.refused;
        self.failures += more.failures;
        self.closes += more.closes;
        self.edits += more.edits;
        self.meddled += more.meddled;
        self.flips += more.flips;
    }
}

/// A host with its disk and its tmpfs, and what its users know.
pub struct Host {
    pub dice: Dice,
    pub disk: SimDisk,
    tmpfs: SimDisk,
    boot: u64,
    pub oracle: Oracle,
    tally: Tally,
    /// Contents written, so that no two are alike.
    written: u64,
    faulty: bool,
    nature: Nature,
    pub setup: Setup,
    /// Somebody edits files while the master runs.
    meddled: bool,
    sealed: bool,
}

/// A running master with somebody who follows everything.
pub struct Life {
    pub store: FlatStore,
    heard: Arc<Mutex<Vec<Event>>>,
    pub checkpoint: Option<Checkpoint>,
    _watches: Vec<WatchHandle>,
}

/// One history. An error says which promise was broken.
pub fn history(seed: u64, setting: Setting) -> Result<Tally, String> {
    let mut host = Host::new(seed, setting, setting.fails && seed.is_multiple_of(3));
    let nature = host.nature;
    let lives = 1 + host.dice.below(5);
    for life in 0..lives {
        host.live().map_err(|broken| format!("{nature:?}, life {life}: {broken}"))?;
    }
    let life = host.start(false)?;
    if seed.is_multiple_of(4) {
        host.rot(life).map_err(|broken| format!("{nature:?}, rot: {broken}"))?;
    }
    Ok(host.tally)
}

pub fn ids(boot: u64) -> Ids {
    Ids { fresh_store: format!("store-{boot}"), boot: boot.to_string() }
}

fn open(disk: &SimDisk, tmpfs: &SimDisk, boot: u64, (setup, sealed): (Setup, bool)) -> Result<FlatStore, OpenError> {
    let (disk, tmpfs) = (Arc::new(disk.clone()), Box::new(tmpfs.clone()));
    FlatStore::open_on(disk, Some(tmpfs), None, ids(boot), &rules_after(boot, sealed), setup).map(|opened| opened.store)
}

fn rules_after(boot: u64, sealed: bool) -> StoreRules<'static> {
    StoreRules { sealing: if sealed { sealing_after(boot) } else { Sealing::default() }, ..rules() }
}

/// All keys are in the file, in another order after each boot.
fn sealing_after(boot: u64) -> Sealing {
    let mut lines: Vec<String> = (0..3).map(|id| key_line(&format!("k{id}"), &[id; KEY_BYTES])).collect();
    lines.rotate_left((boot % 3) as usize);
    let text = if boot % 5 == 4 { format!("plain\n{}", lines.concat()) } else { lines.concat() };
    let ring = KeyRing::parse(&text).expect("keys");
    Sealing { resources: Arc::new([PODS]), keys: SealKeys::Ring(Arc::new(ring)) }
}

/// The text of a file; of an object that is sealed, opened.
fn says(disk: &SimDisk, path: &str) -> String {
    let Some(text) = disk.peek(path) else { return String::new() };
    let mut compact = Vec::new();
    document::stripped(&text, &mut compact);
    let key = path.strip_prefix("objects/").and_then(names::key);
    match key.map(|key| sealing_after(0).opened(&key, compact.into())) {
        Some((opened, Form::Sealed(_))) => String::from_utf8_lossy(&opened).into_owned(),
        _ => String::from_utf8_lossy(&text).into_owned(),
    }
}

impl Host {
    /// `faulty`: writes may be refused by the disk.
    pub fn new(seed: u64, setting: Setting, faulty: bool) -> Host {
        let mut dice = Dice::new(seed);
        let nature = Nature::any(&mut dice);
        let traced = std::env::var_os("CORACLE_SEED").is_some();
        let disk = SimDisk::new(seed ^ 1).careless(setting.careless).of_nature(nature).traced(traced);
        let setup = Setup {
            protocol: setting.protocol,
            // Small, so that a short life meets all of their ends.
            segment_bytes: 16 << 10,
            checkpoint_bytes: 64 << 10,
            backlog_bytes_max: 64 << 20,
            retained_bytes_max: dice.below(2) * (32 << 10),
            reserve: 5,
            ..Setup::PRODUCT
        };
        Host {
            dice,
            nature,
            disk,
            tmpfs: SimDisk::new(seed ^ 2),
            boot: 1,
            oracle: Oracle::default(),
            tally: Tally::default(),
            written: 0,
            faulty,
            setup,
            meddled: seed % 5 == 2,
            sealed: setting.sealed,
        }
    }

    fn live(&mut self) -> Result<(), String> {
        let mut life = self.start(true)?;
        let steps = 1 + if self.dice.one_in(3) { self.dice.below(20) } else { self.dice.below(220) };
        self.disk.cut_in(steps);
        if self.faulty {
            self.ail();
        }
        let mut closed = false;
        for _ in 0..400 {
            match self.dice.below(60) {
                0 => {
                    closed = self.close(&mut life);
                    break;
                }
                1..=40 => self.write(&mut life)?,
                41..=43 if self.meddled => self.meddle(),
                _ => self.keep(&mut life),
            }
            if self.disk.is_cut() {
                break;
            }
        }
        self.tally.failures += self.disk.failures();
        self.disk.heal();
        drop(life);
        self.judge_images()?;
        self.stop();
        if closed && self.dice.one_in(2) {
            self.edit();
        } else if !closed && self.dice.one_in(4) {
            self.edit_after_cut();
        }
        Ok(())
    }

    /// The end of a life: a close, or a power cut.
    pub fn die(&mut self, mut life: Life, closes: bool) -> Result<(), String> {
        if closes && !self.close(&mut life) {
            return Err("it cannot be closed".to_owned());
        }
        drop(life);
        self.judge_images()?;
        self.disk.power_loss();
        self.oracle.memory_lost();
        Ok(())
    }

    fn follow(&mut self, store: FlatStore) -> Result<Life, String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut watches = Vec::new();
        for kind in rules().kinds {
            let ear = heard.clone();
            let sink = Box::new(move |event: &Event| {
                locked(&ear).push(event.clone());
                true
            });
            let scope = Scope { resource: kind.resource, namespace: None, name: None };
            let watch = store.watch(scope, Some(store.revision()), sink).map_err(|gone| format!("{gone:?}"))?;
            watches.push(watch.handle);
        }
        Ok(Life { store, heard, checkpoint: None, _watches: watches })
    }

    /// What a medium may hold now is opened elsewhere, perhaps cut and opened again.
    fn judge_images(&mut self) -> Result<(), String> {
        for _ in 0..IMAGES {
            let image = self.disk.fork(self.dice.below(u64::MAX));
            let mut oracle = self.oracle.clone();
            oracle.memory_lost();
            self.tally.cuts += 1;
            image.power_loss();
            if self.dice.one_in(2) {
                image.cut_in(1 + self.dice.below(40));
                drop(open(&image, &SimDisk::new(0), 0, (self.setup, self.sealed)));
                if image.is_cut() {
                    self.tally.cuts += 1;
                }
                image.power_loss();
            }
            let store = open(&image, &SimDisk::new(0), 0, (self.setup, self.sealed))
                .map_err(|error| format!("an image does not start: {error}"))?;
            oracle.opened(&store).map_err(|broken| format!("in an image: {broken}"))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.tally.cuts += 1;
        if self.dice.one_in(if self.faulty { 2 } else { 4 }) {
            self.disk.kill();
        } else {
            self.disk.power_loss();
            self.oracle.memory_lost();
            self.tmpfs = SimDisk::new(self.boot);
            self.boot += 1;
        }
    }

    /// A bit flips somewhere, in several images of a disk that was left in good order. It is noticed, or harms nothing.
    fn rot(&mut self, mut life: Life) -> Result<(), String> {
        for round in 0..8 {
            self.write(&mut life)?;
            if round == 3 && self.dice.one_in(2) {
                life.store.checkpoint().map_err(|error| error.to_string())?;
            }
        }
        // Damage to the very last batch cannot be told from a batch that was never answered.
        let (key, object) = (key("Whole"), object(&key("Whole"), "the last"));
        let (durable, claims) = (Durable::Whole, Vec::new());
        // A person has broken this one.
        let Ok(now) = life.store.get(&key) else { return Ok(()) };
        let write = match now {
            Some(now) => {
                Write::Update { key: key.clone(), object: object.clone(), seen: now.revision, durable, claims }
            }
            None => Write::Create { key: key.clone(), object: object.clone(), durable, claims },
        };
        let stored = life.store.write(write).map_err(|refused| refused.to_string())?;
        self.oracle.doubt(&key, Some(&object));
        self.oracle.show(&key, stored.revision, Some(&stored.json))?;
        self.oracle.memory_lost();
        self.oracle.reached(stored.revision)?;
        drop(life);
        for _ in 0..ROTTEN_IMAGES {
            let image = self.disk.fork(self.dice.below(u64::MAX));
            image.kill();
            let tree: Vec<_> = image
                .tree()
                .into_iter()
                .filter(|path| image.peek(path).is_some_and(|bytes| !bytes.is_empty()))
                .collect();
            let path = self.dice.pick(&tree).clone();
            let bytes = image.peek(&path).expect("it is in the tree");
            // Segments are mostly empty.
            let end = bytes.iter().rposition(|byte| *byte != b'\n').map_or(1, |last| last + 1);
            let within = if self.dice.one_in(8) { bytes.len() } else { end };
            let (at, bit) = (self.dice.below(within as u64) as usize, self.dice.below(8) as u8);
            if path.starts_with("objects/") && image.stamp(&path).is_ok_and(|stamp| stamp == Stamp::None) {
                // A cut took its stamp, and nobody can tell this from an edit.
                continue;
            }
            image.flip(&path, at, bit);
            self.tally.flips += 1;
            let store = match open(&image, &SimDisk::new(0), 0, (self.setup, self.sealed)) {
                Ok(store) => store,
                // Its format may be another number now: what a newer master wrote is not for this one to judge.
                Err(OpenError::Newer { .. }) if path == "HEAD.json" => continue,
                Err(error) => return Err(format!("{path} at {at}: {error}")),
            };
            self.oracle
                .clone()
                .rotten(&store, &path)
                .map_err(|broken| format!("bit {bit} at {at} of {path}: {broken}"))?;
        }
        Ok(())
    }

    /// Something is going to fail.
    fn ail(&mut self) {
        match self.dice.below(6) {
            0 => self.disk.fail_sync_in(1 + self.dice.below(20)),
            1 | 2 => self.disk.die_of_sync_in(1 + self.dice.below(20)),
            3 => self.disk.fill(self.dice.below(24) as usize * 4096),
            _ => {
                let (from, length) = (self.dice.below(60), 1 + self.dice.below(6));
                self.disk.fail(from..from + length, if self.dice.one_in(2) { EIO } else { ENOSPC });
            }
        }
    }

    /// False: nothing is known of what it left.
    fn close(&mut self, life: &mut Life) -> bool {
        if let Some(checkpoint) = life.checkpoint.take() {
            life.store.finish_checkpoint(checkpoint).ok();
        }
        let closed = life.store.close().is_ok() && !self.disk.is_cut();
        if closed {
            self.tally.closes += 1;
            self.oracle.closed(&life.store);
        }
        closed
    }

    /// A person changes files while no master runs.
    fn edit(&mut self) {
        for _ in 0..1 + self.dice.below(2) {
            let keys = keys();
            let key = self.dice.pick(&keys[..keys.len() - 1]);
            let path = format!("objects/{}", names::path(key));
            self.tally.edits += 1;
            self.written += 1;
            let breaks = self.dice.one_in(4) && self.nature.promise != Promise::Torn;
            match self.disk.peek(&path) {
                _ if self.oracle.is_broken(key) || self.oracle.is_meddled(key) => {}
                Some(text) if breaks => {
                    self.disk.overwrite(&path, &text[..text.len() / 2]);
                    self.oracle.broke(key);
                }
                Some(_) if self.dice.one_in(4) => {
                    self.disk.take(&path);
                    self.oracle.edited(key, None);
                }
                Some(_) => {
                    let text = says(&self.disk, &path);
                    let mut object: Value = serde_json::from_str(&text).expect("the store wrote it");
                    object["spec"]["is"] = json!(format!("{} by hand", self.written));
                    let text = serde_json::to_string(&object).expect("JSON");
                    match self.dice.below(2) {
                        0 => self.disk.overwrite(&path, text.as_bytes()),
                        _ => self.disk.place(&path, text.as_bytes()),
                    }
                    self.oracle.edited(key, Some(&object));
                }
                None => {
                    let object = object(key, &format!("{} by hand", self.written));
                    self.disk.place(&path, object.to_string().as_bytes());
                    self.oracle.edited(key, Some(&object));
                }
            }
        }
    }

    /// A person changes files after a kill or a power cut, whatever lies there: it counts where the journal is not
    /// ahead of the file.
    fn edit_after_cut(&mut self) {
        for _ in 0..1 + self.dice.below(2) {
            let keys = keys();
            let key = self.dice.pick(&keys[..keys.len() - 1]);
            self.tally.edits += u64::from(self.write_by_hand(key, 4));
        }
    }

    /// A person changes a file while the master runs, which hears nothing of it.
    fn meddle(&mut self) {
        let keys = keys();
        let key = self.dice.pick(&keys[..keys.len() - 1]);
        if !self.disk.is_cut() {
            self.tally.meddled += u64::from(self.write_by_hand(key, 6));
        }
    }

    /// One in so many files is taken away. False: somebody is at it already.
    fn write_by_hand(&mut self, key: &Key, removes: u64) -> bool {
        if self.oracle.is_broken(key) || self.oracle.is_meddled(key) {
            return false;
        }
        let path = format!("objects/{}", names::path(key));
        self.written += 1;
        let there = self.disk.peek(&path);
        if there.is_some() && self.dice.one_in(removes) {
            self.disk.take(&path);
            self.oracle.meddled(key, None);
            return true;
        }
        let spec = format!("{} by hand", self.written);
        // What a cut tore has to be written anew.
        let whole = serde_json::from_str::<Value>(&says(&self.disk, &path)).ok();
        let object = edited_object(key, whole, &spec);
        match there {
            Some(_) if self.dice.one_in(2) => self.disk.overwrite(&path, object.to_string().as_bytes()),
            _ => self.disk.place(&path, object.to_string().as_bytes()),
        }
        self.oracle.meddled(key, Some(&object));
        true
    }

    /// What was written beside a master is what it shows after a start, or lies where its author finds it.
    fn look_for_edits(&mut self) -> Result<(), String> {
        let lies = |path: &str, spec: &str| says(&self.disk, path).contains(spec);
        let aside: Vec<String> = self.disk.tree().into_iter().filter(|path| path.starts_with("quarantine/")).collect();
        for (key, spec) in self.oracle.unheard() {
            let spec = format!("\"{spec}\"");
            let path = format!("objects/{}", names::path(&key));
            // Between two folders a rename may leave neither name, where nobody promises more.
            let lost = !lies(&path, &spec)
                && !aside.iter().any(|path| lies(path, &spec))
                && self.nature.promise != Promise::Torn;
            if lost {
                return Err(format!("an edit of {key} is lost without a word: {spec}"));
            }
        }
        let disk = self.disk.clone();
        self.oracle.forget_meddled(|key, spec| {
            let path = format!("objects/{}", names::path(key));
            says(&disk, &path).contains(&format!("\"{spec}\""))
        });
        Ok(())
    }

    /// A step of what goes on beside the writes.
    pub fn keep(&mut self, life: &mut Life) {
        match life.checkpoint.take() {
            None if self.dice.one_in(2) => _ = life.store.tend(),
            None => life.checkpoint = life.store.begin_checkpoint().ok().flatten(),
            Some(mut checkpoint) => {
                let steps = 1 + self.dice.below(4);
                let more = (0..steps).all(|_| matches!(checkpoint.step(), Ok(true)));
                if more {
                    life.checkpoint = Some(checkpoint);
                } else {
                    life.store.finish_checkpoint(checkpoint).ok();
                }
            }
        }
    }

    pub fn write(&mut self, life: &mut Life) -> Result<(), String> {
        let count = 1 + self.dice.below(4);
        let asked = (0..count).map(|_| self.any_write(&life.store)).collect();
        self.write_these(life, asked).map(drop)
    }

    /// False: the disk refused something.
    pub fn write_these(&mut self, life: &mut Life, asked: Vec<Asked>) -> Result<bool, String> {
        let refused = self.tally.refused;
        let doubts = self.oracle.doubts();
        let before = self.oracle.last();
        let turns = turns(&life.store, &asked);
        let writes: Vec<Write> = asked.iter().map(|(.., write)| write.clone()).collect();
        let mut answers: Vec<_> = asked.iter().zip(life.store.write_all(writes)).zip(turns).collect();
        answers.sort_by_key(|(_, turn)| *turn);
        let (mut settled, mut acknowledged) = (false, Vec::new());
        for (((key, object, _), answer), _) in answers {
            match answer {
                Ok(stored) => acknowledged.push((stored, object.as_ref())),
                Err(Refused::Disk { why, .. }) => {
                    self.tally.refused += 1;
                    // What is too much for a full disk is not even tried.
                    if !why.starts_with("the disk is full: until") {
                        self.oracle.doubt(key, object.as_ref());
                    }
                    if !self.disk.is_cut() && !self.faulty {
                        return Err(format!("{key} was refused by a disk that is well"));
                    }
                }
                // A small disk, of which it keeps some for the files. It is not even tried.
                Err(Refused::Busy { .. }) if self.faulty => self.tally.refused += 1,
                Err(Refused::Missing | Refused::Exists { .. } | Refused::Stale { .. } | Refused::Claimed { .. }) => {}
                Err(Refused::Damaged { .. }) if self.oracle.is_broken(key) => {}
                Err(refused) => return Err(format!("{key}: {refused:?}")),
            }
        }
        acknowledged.sort_by_key(|(stored, _)| stored.revision);
        for (stored, object) in &acknowledged {
            self.tally.acknowledged += 1;
            settled |= self.oracle.acknowledged(stored, *object)?;
        }
        if settled {
            self.oracle.settled(doubts);
        }
        self.compare(life, before, acknowledged.iter().map(|(stored, _)| stored))?;
        // Nobody sees what a store says of itself after the power went.
        if !self.disk.is_cut() {
            self.oracle.reached(life.store.revision())?;
        }
        Ok(self.tally.refused == refused)
    }

    /// What is told to watchers and shown is what was acknowledged.
    fn compare<'a>(
        &mut self,
        life: &Life,
        before: Revision,
        acknowledged: impl Iterator<Item = &'a Stored>,
    ) -> Result<(), String> {
        let heard = std::mem::take(&mut *locked(&life.heard));
        for event in &heard {
            self.oracle.show(&event.key, event.revision, event.new.as_ref().map(|stored| &stored.json))?;
        }
        let delivered: Vec<_> = heard.iter().map(|event| (Key::clone(&event.key), event.revision)).collect();
        let done: Vec<_> = acknowledged
            .map(|stored| (Key::clone(&stored.key), stored.revision))
            .filter(|(_, at)| *at > before)
            .collect();
        if delivered != done {
            return Err(format!("watchers heard {delivered:?}, writers {done:?}"));
        }
        let there = all(&life.store);
        for stored in &there {
            self.oracle.show(&stored.key, stored.revision, Some(&stored.json))?;
        }
        let held = self.oracle.held();
        if held.len() != there.iter().filter(|stored| durable_of(&stored.key, &Value::Null) != Durable::Nothing).count()
        {
            return Err(format!("what is visible is not what was acknowledged: {:?}, {:?}", held.keys(), there));
        }
        Ok(())
    }

    fn any_write(&mut self, store: &FlatStore) -> Asked {
        let key = self.dice.pick(&keys()).clone();
        let now = store.get(&key);
        self.written += 1;
        if now.is_err() && self.dice.one_in(2) {
            return (key.clone(), None, Write::Delete { key, seen: Revision(0) });
        }
        let now = now.ok().flatten();
        let filler = match self.dice.below(10) {
            0 => 2000 + self.dice.below(4000),
            _ => self.dice.below(200),
        };
        let mut object = object(&key, &format!("{}{}", self.written, "x".repeat(filler as usize)));
        if self.dice.one_in(8) {
            object["metadata"]["annotations"] = json!({ "claim/c": "" });
        }
        let (durable, claims) = (durable_of(&key, &object), claims_of(&key, &object));
        let Some(now) = now else {
            return (key.clone(), Some(object.clone()), Write::Create { key, object, durable, claims });
        };
        let seen = if self.dice.one_in(20) { Revision(now.revision.0.saturating_sub(1)) } else { now.revision };
        match self.dice.below(8) {
            0 | 1 => (key.clone(), None, Write::Delete { key, seen }),
            2 | 3 => {
                // A status is all that changes.
                let mut object: Value = serde_json::from_slice(&now.json).expect("JSON");
                object["status"] = json!({ "is": self.written.to_string() });
                let claims = claims_of(&key, &object);
                (key.clone(), Some(object.clone()), Write::Update { key, object, seen, durable, claims })
            }
            _ => (key.clone(), Some(object.clone()), Write::Update { key, object, seen, durable, claims }),
        }
    }
}
