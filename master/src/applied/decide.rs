//! What is to be applied and removed, from the files as they were read, the inventory and the store. PURE.
//!
//!     named by a file                      applied, unless it was applied from this very text
//!     named by no file any more            removed, if that is certain; else it stays, and a problem says why
//!
//! Certain: every file was read whole, and the object's own file does not name it; or that file is gone from a folder
//! that is there and not empty, below a directory with the mark of this inventory.

use super::inventory::{Entry, Inventory};
use super::manifest::Named;
use super::order::rank;
use super::removal::{self, Removals};
use super::tree::{FileState, Tree, Trouble};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource};
use coracle_keeper::problem::{Problem, Severity, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// Objects of all files together: the inventory has some hundred bytes of each.
pub const OBJECTS_MAX: usize = 5_000;
/// What an object without a namespace means.
const DEFAULT_NAMESPACE: &str = "default";

/// An object in the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Standing {
    #[default]
    Absent,
    /// The file of the object is damaged.
    Unknown,
    There(Live),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    pub uid: String,
    /// Annotated `coracle.dev/prune: "true"`.
    pub prunes: bool,
    /// Among the managers of its fields is that of this directory.
    pub is_ours: bool,
    /// It was deleted, and something holds it.
    pub is_ending: bool,
}

/// The outcome of the last try of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The text from which it was applied.
    pub digest: String,
    pub reason: &'static str,
    pub why: String,
    pub advice: String,
    /// Its time has come again.
    pub is_due: bool,
}

/// All that a decision is made of.
pub struct Seen<'a> {
    /// Where the directory is, for words.
    pub directory: &'a str,
    pub kinds: &'a Kinds,
    pub tree: &'a Tree,
    pub inventory: &'a Inventory,
    pub standing: &'a dyn Fn(&Key) -> Standing,
    pub failed: &'a BTreeMap<Key, Failure>,
    /// Nothing has changed in the directory for so long that whoever changes several files is done.
    pub is_quiet: bool,
    /// A person has confirmed the removals that wait for it.
    pub is_confirmed: bool,
    /// Everything is applied again, though no file has changed.
    pub again: bool,
}

/// One object to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    pub key: Key,
    pub file: String,
    /// Its place among the documents of the file.
    pub at: usize,
    pub named: Named,
}

#[derive(Debug, Default, PartialEq)]
pub struct Decision {
    /// As it is to be written before anything is applied: with the objects that are about to be made.
    pub inventory: Inventory,
    pub applies: Vec<Apply>,
    /// Last first.
    pub removals: Vec<Removal>,
    /// Objects that are removed once somebody confirms it.
    pub awaited: Vec<Removal>,
    /// Removals wait until the directory is quiet.
    pub waits_for_quiet: bool,
    pub problems: Vec<Problem>,
    /// Objects and namespaces whose change may mend a problem.
    pub follows: BTreeSet<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub key: Key,
    pub uid: String,
    pub file: String,
}

/// An object that files name.
pub(super) struct Wanted<'a> {
    pub file: &'a str,
    pub at: usize,
    pub named: &'a Named,
    pub digest: &'a str,
    pub kind: &'a Kind,
}

pub fn decide(seen: &Seen<'_>) -> Decision {
    let mut decision = Decision { inventory: seen.inventory.clone(), ..Decision::default() };
    if let Some(trouble) = &seen.tree.trouble {
        decision.problems.push(of_file(seen.directory, "", trouble));
        return decision;
    }
    troubles(seen, &mut decision);
    let Some(wanted) = wanted(seen, &mut decision) else { return decision };
    apply(seen, &wanted, &mut decision);
    let Removals { removals, awaited, waits_for_quiet } = removal::decide(seen, &wanted, &mut decision);
    (decision.removals, decision.awaited, decision.waits_for_quiet) = (removals, awaited, waits_for_quiet);
    decision.removals.sort_by(|a, b| place(seen, &b.key).cmp(&place(seen, &a.key)));
    decision
}

fn place<'k>(seen: &Seen<'_>, key: &'k Key) -> (usize, &'k Key) {
    (seen.kinds.by_resource(&key.resource).map_or(usize::MAX, |kind| rank(&kind.kind)), key)
}

/// A problem of a file or folder of the directory.
pub fn of_file(directory: &str, path: &str, trouble: &Trouble) -> Problem {
    let shown = if path.is_empty() { directory.to_owned() } else { format!("{directory}/{path}") };
    Problem {
        severity: Severity::Problem,
        reason: trouble.reason.to_owned(),
        subject: Subject::new("file", "", &shown),
        what: trouble.what.clone(),
        why: String::new(),
        advice: trouble.advice.clone(),
        since: None,
    }
}

pub(super) fn of_object(
    seen: &Seen<'_>,
    (kind, namespace, name): (&str, &str, &str),
    file: &str,
    (reason, why, advice): (&str, String, String),
) -> Problem {
    Problem {
        severity: Severity::Problem,
        reason: reason.to_owned(),
        subject: Subject::new(&kind.to_lowercase(), namespace, name),
        what: format!("{}/{file} is not applied", seen.directory),
        why,
        advice,
        since: None,
    }
}

fn troubles(seen: &Seen<'_>, decision: &mut Decision) {
    for (path, trouble) in &seen.tree.unknown {
        decision.problems.push(of_file(seen.directory, path, trouble));
    }
    for (path, state) in &seen.tree.files {
        match state {
            FileState::Refused(trouble) => decision.problems.push(of_file(seen.directory, path, trouble)),
            FileState::Read(file) if !file.ends && seen.inventory.entries.values().any(|entry| entry.file == *path) => {
                let gone =
                    seen.inventory.entries.iter().any(|(key, entry)| {
                        entry.file == *path && !file.named.iter().any(|named| named.name == key.name)
                    });
                if gone {
                    let what = "it names fewer objects than before, and does not end with the end of a line: it may be \
                                half of a file, and removes nothing";
                    let trouble = Trouble::new("FileCut", what, "end its last line");
                    decision.problems.push(of_file(seen.directory, path, &trouble));
                }
            }
            FileState::Read(_) | FileState::Writing => {}
        }
    }
}

/// The objects of all files that can be applied. None: they are more than the inventory takes.
fn wanted<'a>(seen: &Seen<'a>, decision: &mut Decision) -> Option<BTreeMap<Key, Wanted<'a>>> {
    let mut wanted: BTreeMap<Key, Wanted<'a>> = BTreeMap::new();
    for (path, state) in &seen.tree.files {
        let FileState::Read(file) = state else { continue };
        for (at, named) in file.named.iter().enumerate() {
            let Some(kind) = seen.kinds.by_kind(&named.api_version, &named.kind).filter(|kind| is_applied(kind)) else {
                decision.problems.push(unknown_kind(seen, path, named));
                continue;
            };
            let key = key_of(seen.kinds, kind, named);
            let found = Wanted { file: path, at, named, digest: &file.digest, kind };
            let Some(other) = wanted.get(&key) else {
                wanted.insert(key, found);
                continue;
            };
            // The file from which the object was applied keeps it.
            let keeper = seen.inventory.entries.get(&key).map(|entry| entry.file.as_str());
            let (kept, left) = if keeper == Some(path) { (&found, other.file) } else { (other, found.file) };
            let why = format!("{}/{} names it, too, and counts", seen.directory, kept.file);
            let about = (&*kind.kind, key.namespace.as_str(), key.name.as_str());
            let advice = "take it out of one of the two files".to_owned();
            decision.problems.push(of_object(seen, about, left, ("ObjectTwice", why, advice)));
            if kept.file == path {
                wanted.insert(key, found);
            }
        }
    }
    if wanted.len() > OBJECTS_MAX {
        let what =
            format!("its files name {} objects, and at most {OBJECTS_MAX} are applied: nothing is", wanted.len());
        decision.problems.push(of_file(seen.directory, "", &Trouble::new("TooManyObjects", what, "take files away")));
        return None;
    }
    Some(wanted)
}

/// Whether objects of a kind are stored and may be applied: a review is asked, not kept.
fn is_applied(kind: &Kind) -> bool {
    kind.answer.is_none() && !kind.read_from_nodes
}

fn unknown_kind(seen: &Seen<'_>, path: &str, named: &Named) -> Problem {
    let other = seen.kinds.iter().find(|kind| kind.kind == named.kind && is_applied(kind));
    let advice = match other {
        Some(kind) => format!("write apiVersion: {}", kind.api_version()),
        None => "it is applied as soon as its kind is served".to_owned(),
    };
    let why = format!("no kind {} of apiVersion {} is served here", named.kind, named.api_version);
    let about = (named.kind.as_str(), named.namespace.as_str(), named.name.as_str());
    of_object(seen, about, path, ("KindUnknown", why, advice))
}

/// The key of the object in the store.
fn key_of(kinds: &Kinds, kind: &Kind, named: &Named) -> Key {
    let namespace = match (kind.namespaced, named.namespace.as_str()) {
        (false, _) => "",
        (true, "") => DEFAULT_NAMESPACE,
        (true, written) => written,
    };
    let resource = kinds.stored_as(kind).resource.clone();
    Key { resource, namespace: namespace.to_owned(), name: named.name.clone() }
}

fn apply(seen: &Seen<'_>, wanted: &BTreeMap<Key, Wanted<'_>>, decision: &mut Decision) {
    let mut applies: Vec<(usize, usize, Apply)> = Vec::new();
    for (key, one) in wanted {
        let known = seen.inventory.entries.get(key);
        let same = known.is_some_and(|entry| entry.digest == one.digest) && !seen.again;
        if same {
            // A file that was renamed is written down, and nothing else.
            if let Some(entry) = decision.inventory.entries.get_mut(key) {
                entry.file = one.file.to_owned();
            }
            continue;
        }
        if let Some(failure) = seen.failed.get(key).filter(|failure| failure.digest == one.digest && !seen.again)
            && !failure.is_due
        {
            let about = (&*one.kind.kind, key.namespace.as_str(), key.name.as_str());
            let said = (failure.reason, failure.why.clone(), failure.advice.clone());
            decision.problems.push(of_object(seen, about, one.file, said));
            decision.follows.insert(key.clone());
            moved(decision, key, one);
            continue;
        }
        if let Some(namespace) = missing_namespace(seen, wanted, key) {
            let about = (&*one.kind.kind, key.namespace.as_str(), key.name.as_str());
            let why = format!("its namespace {} is not there", namespace.name);
            let advice =
                format!("it is applied as soon as the namespace is made: kubectl create namespace {}", namespace.name);
            decision.problems.push(of_object(seen, about, one.file, ("NamespaceMissing", why, advice)));
            decision.follows.insert(namespace);
            moved(decision, key, one);
            continue;
        }
        let entry = decision.inventory.entries.entry(key.clone()).or_insert_with(Entry::default);
        if entry.file != one.file || seen.again {
            entry.file = one.file.to_owned();
            entry.digest = String::new();
        }
        let apply = Apply { key: key.clone(), file: one.file.to_owned(), at: one.at, named: one.named.clone() };
        applies.push((rank(&one.kind.kind), one.at, apply));
    }
    applies.sort_by(|a, b| (a.0, &a.2.file, a.1).cmp(&(b.0, &b.2.file, b.1)));
    decision.applies = applies.into_iter().map(|(.., apply)| apply).collect();
}

/// An object that cannot be applied now belongs to the file that names it, all the same.
fn moved(decision: &mut Decision, key: &Key, one: &Wanted<'_>) {
    if let Some(entry) = decision.inventory.entries.get_mut(key)
        && entry.file != one.file
    {
        (entry.file, entry.digest) = (one.file.to_owned(), String::new());
    }
}

fn missing_namespace(seen: &Seen<'_>, wanted: &BTreeMap<Key, Wanted<'_>>, key: &Key) -> Option<Key> {
    if key.namespace.is_empty() {
        return None;
    }
    let resource = Resource::core("namespaces");
    let namespace = Key { resource, namespace: String::new(), name: key.namespace.clone() };
    let is_made = wanted.contains_key(&namespace);
    ((seen.standing)(&namespace) == Standing::Absent && !is_made).then_some(namespace)
}

#[cfg(test)]
mod tests;
