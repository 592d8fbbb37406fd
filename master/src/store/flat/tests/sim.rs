//! A disk in memory that keeps what POSIX promises after a power cut and no more: a file's content is durable once it
//! was fsynced, a name once its folder was. What was not may be there, partly there, or not there.
//!
//! ```text
//! content: a file, sector by sector · names: folders, rename by rename · calls: what a store asks for
//!     · this file: when they fail or are cut
//! ```

mod calls;
mod content;
mod dice;
mod names;
#[cfg(test)]
mod tests;

pub use dice::Dice;
pub use names::Promise;

use crate::store::flat::disk::{Disk, DiskFile, FolderEntry, Stamp, What};
use content::{Content, Style};
use names::{Names, Node, ROOT};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
/// Only calls that change something fail with it.
pub const EROFS: i32 = 30;

/// The room that a file takes is a multiple of it.
const BLOCK: usize = 4096;

/// What a careless disk does not do, to show that somebody notices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Careless {
    No,
    FileSync,
    FolderSync,
}

/// How bad a disk is, beyond what every disk may do.
#[derive(Clone, Copy, Debug)]
pub struct Nature {
    pub promise: Promise,
    /// A cut may spoil the whole page of which a part was being written.
    pub shears: bool,
    /// After a failed fsync the cache shows again what was there before.
    pub reverts: bool,
    /// It has a sync of everything.
    pub syncs_all: bool,
}

impl Nature {
    pub fn any(dice: &mut Dice) -> Nature {
        let promise = *dice.pick(&[Promise::Ordered, Promise::Loose, Promise::Torn]);
        Nature { promise, shears: dice.one_in(4), reverts: dice.one_in(2), syncs_all: !dice.one_in(4) }
    }
}

#[derive(Clone)]
struct Inside {
    files: BTreeMap<u64, Content>,
    names: Names,
    next_id: u64,
    /// Counts what is written, for mtimes.
    now: u64,
    steps: u64,
    /// At this step the machine stops.
    cut_at: Option<u64>,
    cut: bool,
    /// Steps in this range fail with an error number.
    fail: Option<(Range<u64>, i32)>,
    /// A folder that cannot be listed.
    unlisted: Option<String>,
    /// The fsync of a file that fails, counted down.
    fail_sync: u64,
    /// The machine stops soon after it.
    dies_of_it: bool,
    failures: u64,
    /// Bytes that were written.
    written: u64,
    /// Bytes that files may take in all; None: there is room for everything.
    room: Option<usize>,
    careless: Careless,
    nature: Nature,
    dice: Dice,
    traced: bool,
}

/// Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    inside: Arc<Mutex<Inside>>,
}

/// Why a call is not done. `half`: something of it may be done all the same.
struct Stop {
    error: io::Error,
    half: bool,
}

fn goes_on(done: &Result<(), Stop>) -> bool {
    done.as_ref().map_or_else(|stop| stop.half, |()| true)
}

impl SimDisk {
    pub fn new(seed: u64) -> SimDisk {
        let inside = Inside {
            files: BTreeMap::new(),
            names: Names::new(),
            next_id: ROOT,
            now: 0,
            steps: 0,
            cut_at: None,
            cut: false,
            fail: None,
            unlisted: None,
            fail_sync: 0,
            dies_of_it: false,
            failures: 0,
            written: 0,
            room: None,
            careless: Careless::No,
            nature: Nature { promise: Promise::Loose, shears: false, reverts: false, syncs_all: true },
            dice: Dice::new(seed),
            traced: false,
        };
        SimDisk { inside: Arc::new(Mutex::new(inside)) }
    }

    pub fn careless(self, careless: Careless) -> SimDisk {
        self.inside().careless = careless;
        self
    }

    pub fn of_nature(self, nature: Nature) -> SimDisk {
        let mut inside = self.inside();
        inside.nature = nature;
        inside.names.promise = nature.promise;
        drop(inside);
        self
    }

    /// Says every change on stderr, to find out what a seed means.
    pub fn traced(self, traced: bool) -> SimDisk {
        self.inside().traced = traced;
        self
    }

    /// Another disk with the same content and the same fate before it, but for the dice.
    pub fn fork(&self, seed: u64) -> SimDisk {
        let inside = Inside { dice: Dice::new(seed), ..self.inside().clone() };
        SimDisk { inside: Arc::new(Mutex::new(inside)) }
    }

    /// Everything stops so many steps from now.
    pub fn cut_in(&self, steps: u64) {
        let mut inside = self.inside();
        inside.cut_at = Some(inside.steps + steps);
    }

    /// No cut is due any more.
    pub fn spare(&self) {
        self.inside().cut_at = None;
    }

    /// The steps of a range, counted from now, fail.
    pub fn fail(&self, steps: Range<u64>, errno: i32) {
        let mut inside = self.inside();
        inside.fail = Some((inside.steps + steps.start..inside.steps.saturating_add(steps.end), errno));
    }

    /// Listing a folder fails; None: none does.
    pub fn fail_list(&self, folder: Option<&str>) {
        self.inside().unlisted = folder.map(str::to_owned);
    }

    /// So many fsyncs of files from now (1: the next), one fails.
    pub fn fail_sync_in(&self, syncs: u64) {
        self.inside().fail_sync = syncs;
    }

    /// The same, and whoever called it does not live long.
    pub fn die_of_sync_in(&self, syncs: u64) {
        let mut inside = self.inside();
        (inside.fail_sync, inside.dies_of_it) = (syncs, true);
    }

    /// Nothing grows beyond so many bytes from now; deleted files make room.
    pub fn fill(&self, room: usize) {
        let mut inside = self.inside();
        inside.room = Some(inside.used() + room);
    }

    pub fn heal(&self) {
        let mut inside = self.inside();
        (inside.fail, inside.fail_sync, inside.dies_of_it, inside.room) = (None, 0, false, None);
    }

    pub fn steps(&self) -> u64 {
        self.inside().steps
    }

    /// Calls that failed on purpose.
    pub fn failures(&self) -> u64 {
        self.inside().failures
    }

    /// Bytes that were written to files.
    pub fn written(&self) -> u64 {
        self.inside().written
    }

    pub fn is_cut(&self) -> bool {
        self.inside().cut
    }

    /// A process ended; the kernel and its caches live on.
    pub fn kill(&self) {
        let mut inside = self.inside();
        inside.say(|| "--- killed".to_owned());
        (inside.cut, inside.cut_at) = (false, None);
        inside.sweep();
    }

    /// The machine lost its power: what was not durable is decided by the dice.
    pub fn power_loss(&self) {
        let mut inside = self.inside();
        let inside = &mut *inside;
        (inside.cut, inside.cut_at) = (false, None);
        let style = Style::any(&mut inside.dice);
        inside.say(|| format!("--- power lost, {style:?} is kept of what was not durable"));
        inside.names.cut(style, &mut inside.dice);
        inside.sweep();
        for content in inside.files.values_mut() {
            content.cut(style, inside.nature.shears, &mut inside.dice);
        }
    }

    /// What lies in a file, None where there is none; takes no step.
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let inside = self.inside();
        match inside.names.look(path).ok()? {
            Node::File(id) => Some(inside.files[&id].bytes().to_vec()),
            Node::Folder(_) => None,
        }
    }

    /// Puts a file there as a person would, folders too, durable at once.
    pub fn place(&self, path: &str, text: &[u8]) {
        let mut inside = self.inside();
        inside.say(|| format!("a person puts {path}"));
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = ROOT;
        for level in folders.split('/').filter(|level| !level.is_empty()) {
            at = match inside.names.of(at).get(level) {
                Some(Node::Folder(id)) => *id,
                _ => {
                    let id = inside.id();
                    inside.names.add_folder(id);
                    inside.names.change_settled(vec![(at, level.to_owned(), Some(Node::Folder(id)))]);
                    id
                }
            };
        }
        let (id, now) = (inside.id(), inside.tick());
        inside.files.insert(id, Content::settled(text, now));
        inside.names.change_settled(vec![(at, name.to_owned(), Some(Node::File(id)))]);
    }

    /// The same, with a stamp that fits.
    pub fn place_stamped(&self, path: &str, text: &[u8]) {
        self.place(path, text);
        let mut compact = Vec::new();
        crate::store::flat::document::stripped(text, &mut compact);
        let mut inside = self.inside();
        let content = inside.file(path).unwrap().0;
        content.mark(crate::store::flat::document::crc32(&compact));
        content.sync();
    }

    /// Writes over a file in place, as some editors do: its stamp stays.
    pub fn overwrite(&self, path: &str, text: &[u8]) {
        let mut inside = self.inside();
        inside.say(|| format!("a person writes over {path}"));
        let (content, now) = inside.file(path).unwrap();
        content.empty(now);
        content.write(0, text, now);
        content.sync();
        // Long since durable, and so is its name.
        inside.names.sync_all();
    }

    /// Takes a file away as a person would.
    pub fn take(&self, path: &str) {
        let mut inside = self.inside();
        inside.say(|| format!("a person takes {path} away"));
        let (at, name) = inside.names.place_of(path).unwrap();
        inside.names.change_settled(vec![(at, name, None)]);
    }

    /// The medium rots.
    pub fn flip(&self, path: &str, at: usize, bit: u8) {
        let mut inside = self.inside();
        inside.say(|| format!("bit {bit} of byte {at} of {path} flips"));
        inside.file(path).unwrap().0.flip(at, bit);
    }

    /// Every file's path, sorted.
    pub fn tree(&self) -> Vec<String> {
        self.inside().names.tree().into_iter().map(|(path, _)| path).collect()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }
}

impl Inside {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{:5} {}", self.steps, what());
        }
    }

    /// `what` is done now, unless it is cut or fails.
    fn step(&mut self, what: impl FnOnce() -> String) -> Result<(), Stop> {
        self.steps += 1;
        if self.cut {
            return Err(Stop { error: io::Error::other("the power is off"), half: false });
        }
        if self.cut_at.is_some_and(|at| self.steps >= at) {
            self.cut = true;
            self.say(|| format!("{}: cut", what()));
            return Err(Stop { error: io::Error::other("the power goes off"), half: self.dice.one_in(2) });
        }
        match &self.fail {
            Some((range, errno)) if range.contains(&self.steps) => {
                let errno = *errno;
                self.say(|| format!("{}: fails with {errno}", what()));
                self.failures += 1;
                Err(Stop { error: io::Error::from_raw_os_error(errno), half: errno == EIO && self.dice.one_in(2) })
            }
            _ => {
                self.say(what);
                Ok(())
            }
        }
    }

    /// A step that a disk takes which can only be read.
    fn look(&mut self, what: impl FnOnce() -> String) -> Result<(), Stop> {
        let fails = self.fail.take_if(|(_, errno)| *errno == EROFS);
        let done = self.step(what);
        self.fail = fails.or(self.fail.take());
        done
    }

    fn file(&mut self, path: &str) -> io::Result<(&mut Content, u64)> {
        let Node::File(id) = self.names.look(path)? else { return Err(io::ErrorKind::IsADirectory.into()) };
        let now = self.tick();
        Ok((self.files.get_mut(&id).unwrap(), now))
    }

    fn used(&self) -> usize {
        let files: std::collections::BTreeSet<_> = self.names.tree().into_iter().map(|(_, id)| id).collect();
        files.iter().map(|id| self.files[id].len().next_multiple_of(BLOCK)).sum()
    }

    /// So many of the bytes that somebody wants to grow by may be had.
    fn room_for(&mut self, file: u64, from: usize, bytes: usize) -> Result<(), usize> {
        let length = self.files[&file].len();
        let Some(room) = self.room.filter(|_| from + bytes > length) else { return Ok(()) };
        let others = self.used() - length.next_multiple_of(BLOCK);
        let free = room.saturating_sub(others) / BLOCK * BLOCK;
        if from + bytes <= free {
            return Ok(());
        }
        self.failures += 1;
        Err(free.max(length).saturating_sub(from).min(bytes))
    }

    fn write(&mut self, file: u64, from: usize, bytes: &[u8]) -> io::Result<()> {
        let say =
            || format!("write file {file} at {from}: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(120)]));
        let done = match self.step(say) {
            Ok(()) => {
                self.room_for(file, from, bytes.len()).map_err(|part| (part, io::Error::from_raw_os_error(ENOSPC)))
            }
            Err(Stop { error, half: false }) => Err((0, error)),
            Err(Stop { error, half: true }) => Err((self.dice.below(bytes.len() as u64 + 1) as usize, error)),
        };
        let part = done.as_ref().map_or_else(|(part, _)| *part, |()| bytes.len());
        let now = self.tick();
        self.written += part as u64;
        if part > 0 {
            self.files.get_mut(&file).unwrap().write(from, &bytes[..part], now);
        }
        done.map_err(|(_, error)| error)
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        let done = self.step(|| format!("sync file {file}"));
        if self.careless == Careless::FileSync {
            return done.map_err(|stop| stop.error);
        }
        let mut failed = done.is_err() && !self.cut;
        if done.is_ok() && self.fail_sync > 0 {
            self.fail_sync -= 1;
            failed = self.fail_sync == 0;
        }
        let content = self.files.get_mut(&file).unwrap();
        if failed {
            content.fail_sync(self.nature.reverts, &mut self.dice);
            self.failures += u64::from(done.is_ok());
            self.say(|| "it fails".to_owned());
            if std::mem::take(&mut self.dies_of_it) {
                self.cut_at = Some(self.steps + 1 + self.dice.below(3));
            }
            return Err(done.err().map_or_else(|| io::Error::from_raw_os_error(EIO), |stop| stop.error));
        }
        if goes_on(&done) {
            let grown = content.has_grown();
            content.sync();
            if self.names.promise == Promise::Ordered && (grown || self.dice.one_in(2)) {
                self.names.sync_all();
            }
        }
        done.map_err(|stop| stop.error)
    }

    /// A file as open(2) with O_CREAT and O_TRUNC gives it.
    fn new_file(&mut self, path: &str, fresh: bool) -> io::Result<u64> {
        let done = self.step(|| format!("make {path}"));
        if !goes_on(&done) {
            return Err(done.expect_err("it does not go on").error);
        }
        let (folder, name) = self.names.place_of(path)?;
        let id = match self.names.of(folder).get(&name) {
            Some(Node::Folder(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(id)) if !fresh => {
                let id = *id;
                let now = self.tick();
                self.files.get_mut(&id).unwrap().empty(now);
                id
            }
            _ => {
                let id = self.id();
                self.files.insert(id, Content::default());
                self.names.change(vec![(folder, name, Some(Node::File(id)))]);
                id
            }
        };
        done.map(|()| id).map_err(|stop| stop.error)
    }

    /// Changes names, perhaps also where the answer is that it failed.
    fn rename(
        &mut self,
        what: impl FnOnce() -> String,
        changes: impl FnOnce(&mut Inside) -> io::Result<Vec<names::Name>>,
    ) -> io::Result<()> {
        let done = self.step(what);
        if goes_on(&done) {
            let changes = changes(self)?;
            self.names.change(changes);
        }
        done.map_err(|stop| stop.error)
    }

    /// Forgets files without a name. What is open stays.
    fn sweep(&mut self) {
        let named = self.names.files();
        self.files.retain(|id, _| named.contains(id));
    }
}
