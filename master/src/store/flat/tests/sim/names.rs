//! Folders: which names the kernel shows, which are on the medium, and which of the difference a cut may leave.

use super::Dice;
use super::content::Style;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub const ROOT: u64 = 0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Node {
    File(u64),
    Folder(u64),
}

/// What a file system promises of names that nobody made durable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Promise {
    /// They are a log, as with a journal: a cut leaves what came first, and whatever makes one durable makes the
    /// earlier ones so.
    Ordered,
    /// A cut leaves any of them; a rename is one step.
    Loose,
    /// A rename from one folder to another may be torn: a cut can leave both names, or neither.
    Torn,
}

/// A folder's name for a node, or that there is none now.
pub type Name = (u64, String, Option<Node>);

#[derive(Clone, Default)]
struct Folder {
    cached: BTreeMap<String, Node>,
    medium: BTreeMap<String, Node>,
}

#[derive(Clone)]
pub struct Names {
    pub promise: Promise,
    folders: BTreeMap<u64, Folder>,
    /// Changes that are not durable, oldest first; those of one entry come together.
    pending: Vec<Vec<Name>>,
}

impl Names {
    pub fn new() -> Names {
        Names { promise: Promise::Loose, folders: BTreeMap::from([(ROOT, Folder::default())]), pending: Vec::new() }
    }

    pub fn look(&self, path: &str) -> io::Result<Node> {
        let mut node = Node::Folder(ROOT);
        for level in path.split('/').filter(|level| !level.is_empty()) {
            let Node::Folder(id) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = *self.folders[&id].cached.get(level).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The folder that a path lies in, and its name there.
    pub fn place_of(&self, path: &str) -> io::Result<(u64, String)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.look(folder)? {
            Node::Folder(id) => Ok((id, name.to_owned())),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub fn of(&self, folder: u64) -> &BTreeMap<String, Node> {
        &self.folders[&folder].cached
    }

    pub fn add_folder(&mut self, id: u64) {
        self.folders.insert(id, Folder::default());
    }

    pub fn change(&mut self, changes: Vec<Name>) {
        for (folder, name, node) in &changes {
            let cached = &mut self.folders.get_mut(folder).unwrap().cached;
            match node {
                Some(node) => cached.insert(name.clone(), *node),
                None => cached.remove(name),
            };
        }
        let torn = self.promise == Promise::Torn && changes.iter().any(|change| change.0 != changes[0].0);
        match torn {
            true => self.pending.extend(changes.into_iter().map(|change| vec![change])),
            false => self.pending.push(changes),
        }
    }

    /// As a person's change, long since durable.
    pub fn change_settled(&mut self, changes: Vec<Name>) {
        self.sync_all();
        self.change(changes);
        self.sync_all();
    }

    pub fn sync_all(&mut self) {
        for changes in std::mem::take(&mut self.pending) {
            settle(&mut self.folders, changes);
        }
    }

    pub fn sync_folder(&mut self, folder: u64) {
        if self.promise == Promise::Ordered {
            return self.sync_all();
        }
        // With the other half of what was renamed, where that is one step, and nothing older of the same names any
        // more.
        let (now, mut later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .enumerate()
            .partition(|(_, changes)| changes.iter().any(|(at, ..)| *at == folder));
        for (age, changes) in now {
            for changed in &changes {
                let older = later.iter_mut().filter(|(other, _)| *other < age);
                older.for_each(|(_, older)| older.retain(|(at, name, _)| (at, name) != (&changed.0, &changed.1)));
            }
            settle(&mut self.folders, changes);
        }
        self.pending = later.into_iter().map(|(_, changes)| changes).filter(|changes| !changes.is_empty()).collect();
    }

    /// Some of it is durable, and nobody is told what.
    pub fn sync_some(&mut self, dice: &mut Dice) {
        let first = dice.below(self.pending.len() as u64 + 1) as usize;
        for changes in self.pending.drain(..first) {
            settle(&mut self.folders, changes);
        }
    }

    pub fn cut(&mut self, style: Style, dice: &mut Dice) {
        let pending = std::mem::take(&mut self.pending);
        let prefix = dice.below(pending.len() as u64 + 1) as usize;
        for (at, changes) in pending.into_iter().enumerate() {
            let kept = match self.promise {
                Promise::Ordered => at < prefix,
                Promise::Loose | Promise::Torn => style.keeps(at, prefix, dice),
            };
            if kept {
                settle(&mut self.folders, changes);
            }
        }
        for folder in self.folders.values_mut() {
            folder.cached = folder.medium.clone();
        }
    }

    /// Every file that has a name, for the kernel or on the medium.
    pub fn files(&self) -> BTreeSet<u64> {
        let names = self.folders.values().flat_map(|folder| folder.cached.values().chain(folder.medium.values()));
        let pending = self.pending.iter().flatten().filter_map(|(.., node)| node.as_ref());
        names.chain(pending).filter_map(|node| if let Node::File(id) = node { Some(*id) } else { None }).collect()
    }

    /// Every file's path, sorted.
    pub fn tree(&self) -> Vec<(String, u64)> {
        let mut folders = vec![(ROOT, String::new())];
        let mut paths = Vec::new();
        while let Some((id, above)) = folders.pop() {
            for (name, node) in &self.folders[&id].cached {
                let path = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
                match node {
                    Node::File(id) => paths.push((path, *id)),
                    Node::Folder(id) => folders.push((*id, path)),
                }
            }
        }
        paths.sort();
        paths
    }
}

fn settle(folders: &mut BTreeMap<u64, Folder>, changes: Vec<Name>) {
    for (folder, name, node) in changes {
        let medium = &mut folders.get_mut(&folder).unwrap().medium;
        match node {
            Some(node) => medium.insert(name, node),
            None => medium.remove(&name),
        };
    }
}
