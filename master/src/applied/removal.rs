//! Which objects go because no file names them any more, and why the others stay. PURE.

use super::decide::{Decision, Live, Removal, Seen, Standing, Wanted, of_file};
use super::inventory::Entry;
use super::order::is_guarded;
use super::tree::{FileState, Trouble, folder_of};
use coracle_api::meta::Key;
use coracle_keeper::problem::{Problem, Severity, Subject};
use std::collections::BTreeMap;

pub const PRUNE: &str = "coracle.dev/prune";
pub const CONFIRM: &str = "coracle-master apply shows them, coracle-master apply --confirm removes them";

#[derive(Default)]
pub(super) struct Removals {
    pub removals: Vec<Removal>,
    pub awaited: Vec<Removal>,
    pub waits_for_quiet: bool,
}

/// Whether the object's file says that the object goes.
enum Proof {
    Certain,
    /// The file is gone, and so may be the disk that held it: a person knows.
    Asked(&'static str),
    Held,
}

pub(super) fn decide(seen: &Seen<'_>, wanted: &BTreeMap<Key, Wanted<'_>>, decision: &mut Decision) -> Removals {
    let unnamed: Vec<(&Key, &Entry)> =
        seen.inventory.entries.iter().filter(|(key, _)| !wanted.contains_key(key)).collect();
    let (mut certain, mut asked, mut why, mut held) = (Vec::new(), Vec::new(), "", 0);
    for (key, entry) in unnamed {
        let live = match going(seen, key, entry) {
            Going::Held => {
                held += 1;
                continue;
            }
            Going::Forgotten => {
                // Nothing was found, or it is another's: only a file that was read can have asked for it to go.
                if !matches!(proof(seen, entry), Proof::Held) {
                    decision.inventory.entries.remove(key);
                }
                continue;
            }
            Going::Goes(live) => live,
        };
        let removal = Removal { key: key.clone(), uid: live.uid.clone(), file: entry.file.clone() };
        let proof = proof(seen, entry);
        let kind = seen.kinds.by_resource(&key.resource).map(|kind| kind.kind.clone()).unwrap_or_default();
        if !matches!(proof, Proof::Held) && is_guarded(&kind) && !live.prunes {
            decision.problems.push(guarded(seen, &kind, key, entry));
            decision.follows.insert(key.clone());
            continue;
        }
        match proof {
            Proof::Certain => certain.push(removal),
            Proof::Asked(reason) => (why, _) = (reason, asked.push(removal)),
            Proof::Held => held += 1,
        }
    }
    if held > 0 {
        decision.problems.push(stays(seen, held));
    }
    settle(seen, (certain, asked, why), decision)
}

/// What becomes of the certain ones, and of those that a person is asked about.
fn settle(
    seen: &Seen<'_>,
    (certain, mut asked, why): (Vec<Removal>, Vec<Removal>, &str),
    decision: &mut Decision,
) -> Removals {
    if certain.is_empty() && asked.is_empty() {
        return Removals::default();
    }
    if !seen.is_quiet {
        return Removals { waits_for_quiet: true, ..Removals::default() };
    }
    let all = seen.inventory.entries.len();
    let are_many = certain.len() * 2 > all;
    if seen.is_confirmed {
        asked.extend(certain);
        return Removals { removals: asked, ..Removals::default() };
    }
    let mut removals = certain;
    let mut what = format!("{} of {all} objects wait to be removed: {why}", asked.len());
    if are_many {
        asked.append(&mut removals);
        what = format!("{} of {all} objects wait to be removed: they are more than half of all", asked.len());
    }
    if !asked.is_empty() {
        decision.problems.push(of_file(seen.directory, "", &Trouble::new("RemovalAwaited", what, CONFIRM)));
    }
    Removals { removals, awaited: asked, waits_for_quiet: false }
}

enum Going {
    Goes(Live),
    /// It is not there, or another has made it.
    Forgotten,
    Held,
}

fn going(seen: &Seen<'_>, key: &Key, entry: &Entry) -> Going {
    if seen.kinds.by_resource(&key.resource).is_none() {
        return Going::Held;
    }
    match (seen.standing)(key) {
        Standing::Unknown => Going::Held,
        Standing::Absent => Going::Forgotten,
        Standing::There(live) if !entry.uid.is_empty() && live.uid != entry.uid => Going::Forgotten,
        // Whether it was made from here is not known; it was not if nobody from here has fields in it.
        Standing::There(live) if !live.is_ours => Going::Forgotten,
        Standing::There(live) if live.is_ending => Going::Forgotten,
        Standing::There(live) => Going::Goes(live),
    }
}

fn proof(seen: &Seen<'_>, entry: &Entry) -> Proof {
    let tree = seen.tree;
    let is_read = |state: &FileState| matches!(state, FileState::Read(_));
    // A file that was not read may name what another names no more: moving an object is no removal.
    if !tree.unknown.is_empty() || !tree.files.values().all(is_read) {
        return Proof::Held;
    }
    if let Some(FileState::Read(file)) = tree.files.get(&entry.file) {
        return if file.ends { Proof::Certain } else { Proof::Held };
    }
    if tree.mark.as_deref() != Some(seen.inventory.uid.as_str()) || seen.inventory.uid.is_empty() {
        return Proof::Held;
    }
    match tree.folders.get(folder_of(&entry.file)) {
        None => Proof::Asked("the folder of their files is gone"),
        Some(false) => Proof::Asked("the folder of their files is empty"),
        Some(true) => Proof::Certain,
    }
}

fn guarded(seen: &Seen<'_>, kind: &str, key: &Key, entry: &Entry) -> Problem {
    let kind = kind.to_lowercase();
    let place = if key.namespace.is_empty() { String::new() } else { format!(" -n {}", key.namespace) };
    Problem {
        severity: Severity::Warning,
        reason: "NotPruned".to_owned(),
        what: format!("it stays, though {}/{} names it no more", seen.directory, entry.file),
        why: format!("a {kind} is removed only where it is annotated {PRUNE}: \"true\""),
        advice: format!("kubectl annotate {kind} {}{place} {PRUNE}=true, or put it back into its file", key.name),
        subject: Subject::new(&kind, &key.namespace, &key.name),
        since: None,
    }
}

/// Why objects that no file names stay as they are.
fn stays(seen: &Seen<'_>, count: usize) -> Problem {
    let tree = seen.tree;
    let unread = tree.files.iter().find(|(_, state)| !matches!(state, FileState::Read(_))).map(|(path, _)| path);
    let unread = unread.or_else(|| tree.unknown.first().map(|(path, _)| path));
    let has_mark = tree.mark.as_deref() == Some(seen.inventory.uid.as_str());
    let objects = if count == 1 {
        "1 object that no file names stays".to_owned()
    } else {
        format!("{count} objects that no file names stay")
    };
    let (what, advice) = match unread {
        Some(path) => {
            let what =
                format!("{objects}: {}/{path} was not read, and may name what others name no more", seen.directory);
            (what, "nothing is removed until each file was read".to_owned())
        }
        None if !has_mark => {
            let what =
                format!("{objects}: the directory does not hold the mark of what was applied, so it may be another");
            (what, "if it is the right directory: coracle-master apply --mark".to_owned())
        }
        None => (
            format!("{objects}: whether their files ask for it is not known"),
            "end the last line of each file".to_owned(),
        ),
    };
    Problem { severity: Severity::Warning, ..of_file(seen.directory, "", &Trouble::new("RemovalHeld", what, advice)) }
}
