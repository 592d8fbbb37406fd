//! From the directory to what is so, at a start. It only adds, so it may be interrupted anywhere and done again.
//!
//! ```text
//! HEAD.json -> wal/** (made durable, read, recovered) -> objects/** where the journal says nothing -> the volatile file -> begin
//! ```
//!
//! Where acknowledged records are provably missing, nothing in the directory is touched: what can be read is served, and a person decides.

use super::begin::begin;
use super::commit::Writer;
use super::copied::{Left, past};
use super::covered::covered;
use super::disk::Disk;
use super::find::{find_head, find_journal, silent};
use super::head::{HEAD, Head};
use super::journal::WAL;
use super::journal::held::Held;
use super::journal::past::Past;
use super::journal::recover::Recovered;
use super::judge::Wrong;
use super::setup::{LOST_REVISIONS, RESERVE, Setup};
use super::start::Ids;
use super::state::State;
use super::tree::{Brought, Tree};
use super::{Damage, LeftOut, OpenError, Rules, backup, gather, quarantine, volatile};
use coracle_api::meta::Revision;
use std::sync::Arc;

pub struct Loaded {
    pub state: State,
    pub writer: Writer,
    /// What was found and done, worth a line in the log each.
    pub notes: Vec<String>,
    /// Files set aside that are no object's.
    pub foreign: Vec<Damage>,
    /// Files that are left alone where they are.
    pub left_alone: Vec<LeftOut>,
    /// What people did to files that did not come to what they may think.
    pub told: Vec<Damage>,
    /// Files that were older than HEAD.json says, and what they are to hold.
    pub healed: Vec<Brought>,
    /// Why the store cannot be written to.
    pub degraded: Option<String>,
}

pub fn load(disk: Arc<dyn Disk>, volatile: Option<&dyn Disk>, ids: &Ids, rules: &Rules, setup: &Setup) -> Result<Loaded, OpenError> {
    let (head, damaged_head, unread_head) = head_or_why(&*disk)?;
    let found = find_journal(&*disk, head.as_ref(), setup);
    let recovered = &found.recovered;
    let mut tree = Tree::new(&*disk, rules);
    let unfinished = backup::unfinished(&*disk);
    let unknown: Vec<String> = unread_head.iter().cloned().chain(unfinished).collect();
    tree.frozen = recovered.missing.is_some() || !unknown.is_empty() || found.unlisted.is_some() || setup.look_only;
    tree.unread.extend(unknown.into_iter().map(|why| (String::new(), why)));
    tree.prepare_folders(head.as_ref().is_some_and(|head| head.objects > 0));
    let incidents = tree.incidents.next;
    if damaged_head {
        set_head_aside(&mut tree);
    }
    let clean = head.as_ref().is_some_and(|head| head.clean && head.wal.is_some()) && silent(&found);
    tree.base = head.as_ref().map(|head| used(head.reserved, clean, recovered));
    tree.next = tree.base.unwrap_or_else(|| used(0, false, recovered));
    tree.sum_left = head.as_ref().filter(|head| clean || head.summed).map(|head| head.files.clone());
    tree.covered = covered(recovered);
    tree.stamped = head.as_ref().is_some_and(|head| head.stamped);
    let kept = || {
        let head = head.as_ref().filter(|_| clean)?;
        volatile::read(volatile?, &head.store, &ids.boot, Revision(head.reserved))
    };
    let (places, kept) = gather::both(head.as_ref().map_or(0, |head| head.objects), || tree.walk(), kept);
    if let Some(volatile) = volatile.filter(|_| !tree.frozen) {
        volatile::remove(volatile);
    }
    tree.statuses_kept = kept.is_some();
    tree.kept = kept;
    tree.take_all(places);
    if head.is_none() && unread_head.is_none() {
        tree.tell_brought_back();
        if !damaged_head {
            tree.miss_head(recovered);
        }
    }
    let left = left(head.as_ref(), &tree, clean, incidents, recovered);
    let changed = clean && left.differs;
    if changed {
        // Who saw what is gone now has to look again.
        tree.next += 1;
    }
    let behind = setup.protocol.account && (recovered.behind || recovered.wiped.is_some() || !clean && head.is_some() && tree.is_ahead());
    if behind {
        tree.tell_behind(recovered.wiped);
    }
    if left.differs || left.sum.is_none() || !tree.overridden.is_empty() || !tree.unwritten.is_empty() {
        let end =
            head.as_ref().and_then(|head| head.wal).filter(|_| left.differs || recovered.missing.is_some() || !tree.overridden.is_empty());
        let past = end.map_or_else(Past::default, |end| past(&*disk, end.n, &found, &setup.protocol, &mut tree.notes));
        tree.examine(&left, &past, &setup.protocol);
    } else if tree.stamped {
        tree.sample();
    }
    tree.keep_fresh(behind || tree.base.is_none());
    tree.recall_incidents(clean);
    if left.differs {
        tree.bring_homes();
    }
    tree.overlay();
    if tree.base.is_none() {
        tree.restamp_all(LOST_REVISIONS);
    }
    if clean && !left.differs && recovered.start.is_none() && found.unlisted.is_none() {
        tree.notes.push(format!(
            "{WAL}/ does not hold what {HEAD} names; the files are as they were when the store was closed: nothing is missing"
        ));
    }
    tree.notes.extend(recovered.torn.iter().map(|place| format!("{place}: what was being written when the last master ended is not kept")));
    Ok(begin(disk.clone(), head, ids, tree, found, &left, setup))
}

/// With whether it is damaged, and why it cannot be read: what it says is unknown then, which is no reason to show nothing.
fn head_or_why(disk: &dyn Disk) -> Result<(Option<Head>, bool, Option<String>), OpenError> {
    match find_head(disk) {
        Ok((head, damaged)) => Ok((head, damaged, None)),
        Err(OpenError::Io { error, .. }) => Ok((None, false, Some(format!("{HEAD} cannot be read: {error}")))),
        Err(refused) => Err(refused),
    }
}

/// Volatile writes may have used as many revisions beyond those that the files show.
fn set_head_aside(tree: &mut Tree) {
    tree.notes.push(format!("{HEAD} is damaged: the store gets a new identity, and revisions go on {LOST_REVISIONS} further"));
    let why = "its checksum does not fit, its revisions are beyond all that can be, or it is no file".to_owned();
    tree.set_aside(HEAD, HEAD, None, Wrong { word: "damaged-head", why });
}

/// The files as HEAD.json knows them. `incidents`: the number of the first that this start may set aside.
fn left(head: Option<&Head>, tree: &Tree, clean: bool, incidents: u32, recovered: &Recovered) -> Left {
    let Some(head) = head else { return Left::default() };
    let sum = (clean || head.summed && recovered.missing.is_none()).then(|| head.files.clone());
    let (aside, doubts) = quarantine::count(tree.disk, head.incidents..incidents);
    Left {
        clean,
        differs: sum.as_ref().is_some_and(|sum| tree.files_then().is_none_or(|(now, _)| !sum.are(&now))),
        sum,
        objects: head.objects,
        aside,
        doubted: doubts > 0,
    }
}

/// The last revision that may have been used.
fn used(head: u64, clean: bool, recovered: &Recovered) -> u64 {
    if clean {
        return head;
    }
    let recorded = recovered.records.iter().chain(&recovered.beyond).filter_map(Held::revision).map(|revision| revision.0);
    // It may have been a reservation that had become damaged.
    let unclear = if recovered.unclear || recovered.missing.is_some() { RESERVE } else { 0 };
    recorded.max().unwrap_or_default().max(head).max(recovered.reserved) + unclear
}
