//! A disk in memory that keeps what POSIX promises after a power cut and no more: a file's content is durable once it was fsynced, a
//! name once its folder was. What was not may be there, partly there, or not there. A rename is one step: seen whole or not at all.

use crate::store::disk::{Disk, DiskFile, Found, Stamp, What};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Small, seeded, good enough to explore.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03);
        dice.below(2);
        dice
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.max(1);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Node {
    File(u64),
    Folder(u64),
}

#[derive(Clone, Default)]
struct Content {
    cached: Vec<u8>,
    /// None: never fsynced.
    durable: Option<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Folder {
    cached: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

/// One change of names that is not durable yet: folder, name, what it then is.
type Pending = Vec<(u64, String, Option<Node>)>;

/// What a careless disk does not do, to show that somebody notices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Careless {
    No,
    FileSync,
    FolderSync,
}

struct Inside {
    files: BTreeMap<u64, Content>,
    folders: BTreeMap<u64, Folder>,
    pending: Vec<Pending>,
    next_id: u64,
    steps: u64,
    /// At this step the machine stops.
    cut_at: Option<u64>,
    cut: bool,
    /// Steps in this range fail with an error number.
    fail: Option<(std::ops::Range<u64>, i32)>,
    careless: Careless,
    dice: Dice,
}

/// Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    inside: Arc<Mutex<Inside>>,
}

const ROOT: u64 = 0;

impl SimDisk {
    pub fn new(seed: u64) -> SimDisk {
        let inside = Inside {
            files: BTreeMap::new(),
            folders: BTreeMap::from([(ROOT, Folder::default())]),
            pending: Vec::new(),
            next_id: 1,
            steps: 0,
            cut_at: None,
            cut: false,
            fail: None,
            careless: Careless::No,
            dice: Dice::new(seed),
        };
        SimDisk { inside: Arc::new(Mutex::new(inside)) }
    }

    pub fn careless(self, careless: Careless) -> SimDisk {
        self.inside.lock().unwrap().careless = careless;
        self
    }

    /// Everything stops so many steps from now.
    pub fn cut_in(&self, steps: u64) {
        let mut inside = self.inside.lock().unwrap();
        inside.cut_at = Some(inside.steps + steps);
    }

    /// The steps of a range, counted from now, fail.
    pub fn fail(&self, steps: std::ops::Range<u64>, errno: i32) {
        let mut inside = self.inside.lock().unwrap();
        inside.fail = Some((inside.steps + steps.start..inside.steps.saturating_add(steps.end), errno));
    }

    pub fn heal(&self) {
        self.inside.lock().unwrap().fail = None;
    }

    pub fn steps(&self) -> u64 {
        self.inside.lock().unwrap().steps
    }

    pub fn is_cut(&self) -> bool {
        self.inside.lock().unwrap().cut
    }

    /// A process ended; the kernel and its caches live on.
    pub fn kill(&self) {
        let mut inside = self.inside.lock().unwrap();
        (inside.cut, inside.cut_at) = (false, None);
    }

    /// The machine lost its power: what was not durable is decided by the dice.
    pub fn power_loss(&self) {
        let mut inside = self.inside.lock().unwrap();
        let inside = &mut *inside;
        (inside.cut, inside.cut_at) = (false, None);
        let style = inside.dice.below(4);
        let pending = std::mem::take(&mut inside.pending);
        let prefix = inside.dice.below(pending.len() as u64 + 1) as usize;
        for (at, changes) in pending.into_iter().enumerate() {
            let kept = match style {
                0 => false,
                1 => at < prefix,
                2 => inside.dice.one_in(2),
                _ => !inside.dice.one_in(10),
            };
            if kept {
                inside.settle(changes);
            }
        }
        for folder in inside.folders.values_mut() {
            folder.cached = folder.durable.clone();
        }
        for content in inside.files.values_mut() {
            if content.durable.is_none() {
                let mut text = content.cached.clone();
                match inside.dice.below(3) {
                    0 => text.clear(),
                    1 => text.truncate(inside.dice.below(text.len() as u64 + 1) as usize),
                    _ => text.iter_mut().for_each(|byte| *byte = 0),
                }
                content.durable = Some(text);
            }
            content.cached = content.durable.clone().unwrap_or_default();
        }
    }

    /// What lies in a file, None where there is none; takes no step.
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let inside = self.inside.lock().unwrap();
        match inside.look(path).ok()? {
            Node::File(id) => Some(inside.files[&id].cached.clone()),
            Node::Folder(_) => None,
        }
    }

    /// Puts a file there as a person would, folders too, durable at once.
    pub fn place(&self, path: &str, text: &[u8]) {
        let mut inside = self.inside.lock().unwrap();
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = ROOT;
        for level in folders.split('/').filter(|level| !level.is_empty()) {
            at = match inside.folders[&at].cached.get(level) {
                Some(Node::Folder(id)) => *id,
                _ => {
                    let id = inside.id();
                    inside.folders.insert(id, Folder::default());
                    inside.settle(vec![(at, level.to_owned(), Some(Node::Folder(id)))]);
                    inside.folders.get_mut(&at).unwrap().cached.insert(level.to_owned(), Node::Folder(id));
                    id
                }
            };
        }
        let id = inside.id();
        inside.files.insert(id, Content { cached: text.to_vec(), durable: Some(text.to_vec()) });
        inside.settle(vec![(at, name.to_owned(), Some(Node::File(id)))]);
        inside.folders.get_mut(&at).unwrap().cached.insert(name.to_owned(), Node::File(id));
    }

    /// Takes a file away as a person would.
    pub fn take(&self, path: &str) {
        let mut inside = self.inside.lock().unwrap();
        let (at, name) = inside.place_of(path).unwrap();
        inside.folders.get_mut(&at).unwrap().cached.remove(&name);
        inside.settle(vec![(at, name, None)]);
    }

    /// Every file's path, sorted.
    pub fn tree(&self) -> Vec<String> {
        let inside = self.inside.lock().unwrap();
        let mut folders = vec![(ROOT, String::new())];
        let mut paths = Vec::new();
        while let Some((id, above)) = folders.pop() {
            for (name, node) in &inside.folders[&id].cached {
                let path = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
                match node {
                    Node::File(_) => paths.push(path),
                    Node::Folder(id) => folders.push((*id, path)),
                }
            }
        }
        paths.sort();
        paths
    }
}

impl Inside {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        if self.cut || self.cut_at.is_some_and(|at| self.steps >= at) {
            self.cut = true;
            return Err(io::Error::other("the power is off"));
        }
        match &self.fail {
            Some((range, errno)) if range.contains(&self.steps) => Err(io::Error::from_raw_os_error(*errno)),
            _ => Ok(()),
        }
    }

    fn look(&self, path: &str) -> io::Result<Node> {
        let mut node = Node::Folder(ROOT);
        for level in path.split('/').filter(|level| !level.is_empty()) {
            let Node::Folder(id) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = *self.folders[&id].cached.get(level).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    fn place_of(&self, path: &str) -> io::Result<(u64, String)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.look(folder)? {
            Node::Folder(id) => Ok((id, name.to_owned())),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn change(&mut self, changes: Pending) {
        for (folder, name, node) in &changes {
            let cached = &mut self.folders.get_mut(folder).unwrap().cached;
            match node {
                Some(node) => cached.insert(name.clone(), *node),
                None => cached.remove(name),
            };
        }
        self.pending.push(changes);
    }

    fn settle(&mut self, changes: Pending) {
        for (folder, name, node) in changes {
            let durable = &mut self.folders.get_mut(&folder).unwrap().durable;
            match node {
                Some(node) => durable.insert(name, node),
                None => durable.remove(&name),
            };
        }
    }

    /// All that was changed in a folder, with the other half of what was renamed, and nothing older of the same names any more.
    fn settle_folder(&mut self, folder: u64) {
        let (now, mut later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|changes| changes.iter().any(|(at, ..)| *at == folder));
        for changes in now {
            for changed in &changes {
                later.iter_mut().for_each(|older| older.retain(|(at, name, _)| (at, name) != (&changed.0, &changed.1)));
            }
            self.settle(changes);
        }
        self.pending = later;
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        let (folder, name) = inside.place_of(path)?;
        let id = inside.id();
        inside.files.insert(id, Content::default());
        inside.change(vec![(folder, name, Some(Node::File(id)))]);
        let written = inside.step();
        let length = if written.is_ok() { bytes.len() } else { inside.dice.below(bytes.len() as u64 + 1) as usize };
        inside.files.get_mut(&id).unwrap().cached = bytes[..length].to_vec();
        written?;
        inside.step()?;
        if inside.careless != Careless::FileSync {
            inside.files.get_mut(&id).unwrap().durable = Some(bytes.to_vec());
        }
        Ok(())
    }

    fn put(&self, path: &str, bytes: &[u8], _: Option<u32>) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        let (folder, name) = inside.place_of(path)?;
        let id = inside.id();
        inside.files.insert(id, Content { cached: bytes.to_vec(), durable: None });
        inside.change(vec![(folder, name, Some(Node::File(id)))]);
        Ok(())
    }

    fn stamp(&self, _: &str) -> io::Result<Stamp> {
        Ok(Stamp::None)
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        for content in inside.files.values_mut() {
            content.durable = Some(content.cached.clone());
        }
        for changes in std::mem::take(&mut inside.pending) {
            inside.settle(changes);
        }
        Ok(())
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let inside = self.inside.lock().unwrap();
        let Node::File(id) = inside.look(path)? else { return Err(io::ErrorKind::IsADirectory.into()) };
        Ok(Box::new(SimFile { disk: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        let node = inside.look(from)?;
        let ((from, from_name), (to, to_name)) = (inside.place_of(from)?, inside.place_of(to)?);
        inside.change(vec![(from, from_name, None), (to, to_name, Some(node))]);
        Ok(())
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        inside.look(path)?;
        let (folder, name) = inside.place_of(path)?;
        inside.change(vec![(folder, name, None)]);
        Ok(())
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        if inside.look(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (folder, name) = inside.place_of(path)?;
        let id = inside.id();
        inside.folders.insert(id, Folder::default());
        inside.change(vec![(folder, name, Some(Node::Folder(id)))]);
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut inside = self.inside.lock().unwrap();
        let Node::Folder(folder) = inside.look(path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
        let done = inside.step();
        // A failed fsync may have done its work, or nothing.
        if inside.careless != Careless::FolderSync && (done.is_ok() || inside.dice.one_in(2)) {
            inside.settle_folder(folder);
        }
        done
    }

    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        let Node::File(id) = inside.look(path)? else { return Err(io::ErrorKind::IsADirectory.into()) };
        let text = inside.files[&id].cached.clone();
        if text.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
    }

    fn list(&self, path: &str) -> io::Result<Vec<Found>> {
        let mut inside = self.inside.lock().unwrap();
        inside.step()?;
        let Node::Folder(id) = inside.look(path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
        let what = |node: &Node| if matches!(node, Node::File(_)) { What::File } else { What::Folder };
        Ok(inside.folders[&id].cached.iter().map(|(name, node)| Found { name: name.clone(), what: what(node) }).collect())
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut inside = self.disk.inside.lock().unwrap();
        inside.step()?;
        let content = inside.files.get_mut(&self.id).unwrap();
        content.durable.get_or_insert_with(Vec::new);
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if content.cached.len() < to {
            content.cached.resize(to, 0);
        }
        content.cached[from..to].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inside = self.disk.inside.lock().unwrap();
        inside.step()?;
        let content = inside.files.get_mut(&self.id).unwrap();
        content.durable = Some(content.cached.clone());
        Ok(())
    }
}
