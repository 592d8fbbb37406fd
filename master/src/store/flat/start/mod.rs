//! A start: from what lies in the data directory to the state that is served. It only adds, so it may be interrupted
//! anywhere and done again.
//!
//! ```text
//! discover: HEAD.json, wal/** (made durable, read, recovered) -> journal_view PURE: the last word on each object
//! walk:     objects/**, names -> keys
//! scan:     files, stamps -> evidence, a file each
//! judge:    PURE: the table from evidence to verdict
//! here:     the verdicts carried out -> objects, edits PURE: the objects in memory · foreign: files of kinds that this
//!           version does not know, where a person wrote them · report: files set aside, what is told
//! segment:  the new segment of the journal, and everything that has to be durable before anybody is served
//! ```
//!
//! Where acknowledged records are provably missing, nothing in the directory is touched: what can be read is served,
//! and a person decides.

mod apply;
mod edits;
mod foreign;
mod journal_view;
mod judge;
mod objects;
mod report;
mod scan;
mod segment;
mod shut;
mod walk;

pub use journal_view::view;

use super::committer::Committer;
use super::discover::{find_head, find_journal, silent};
use super::disk::Disk;
use super::foreign::ForeignFiles;
use super::head::{HEAD, Head};
use super::journal::held::HeldRecord;
use super::journal::recover::Recovered;
use super::protocol::ProtocolRule;
use super::setup::{RESERVE, Setup};
use super::state::StoreState;
use super::sums::Sums;
use super::{parallel_read, quarantine, restore, volatile};
use crate::store::{Damage, LeftOut, OpenError, StoreRules};
use coracle_api::meta::{Key, Revision};
use journal_view::JournalView;
use judge::Sum;
use objects::LoadedObjects;
use report::Report;
use scan::ScannedFiles;
use shut::ShutFiles;
use std::sync::Arc;

/// The facts about the host that a start needs.
pub struct Ids {
    /// For a store that has none yet.
    pub fresh_store: String,
    pub boot: String,
}

pub struct Loaded {
    pub state: StoreState,
    pub writer: Committer,
    /// The findings and actions, a line in the log each.
    pub notes: Vec<String>,
    /// Files set aside that are no object's.
    pub foreign: Vec<Damage>,
    /// Files that are left alone where they are.
    pub left_alone: Vec<LeftOut>,
    /// Edits of files that did not have the effect that their author may expect.
    pub edits: Vec<Damage>,
    /// Why the store cannot be written to.
    pub degraded: Option<String>,
}

/// The files as HEAD.json knows them.
struct Left {
    /// Closed in order.
    closed: bool,
    sum: Sum,
    /// How many are gone, as far as that can be told.
    gone: u64,
    /// Some were set aside since.
    any_aside: bool,
    /// Whether the files that people changed are all that differs. None: nobody knows.
    explained: Option<bool>,
}

/// A start under way.
struct Start<'a> {
    objects: LoadedObjects<'a>,
    journal: JournalView,
    report: Report<'a>,
    left: Left,
    /// Files of kinds that this version does not know, where a person wrote them.
    foreign: ForeignFiles,
    /// Objects that are sealed by keys which are not at hand.
    shut: ShutFiles,
    /// Every file has its stamp.
    stamped: bool,
    /// Objects whose file is still to get a stamp.
    unstamped: Vec<Arc<Key>>,
    /// Files that are to say at once what the journal does.
    brought: Vec<Arc<Key>>,
}

pub fn load(
    disk: Arc<dyn Disk>,
    volatile: Option<&dyn Disk>,
    ids: &Ids,
    rules: &StoreRules,
    setup: &Setup,
) -> Result<Loaded, OpenError> {
    let (head, lost) = read_head(&*disk)?;
    let found = find_journal(&*disk, head.as_ref(), setup);
    let recovered = &found.recovered;
    let mut report =
        Report::new(&*disk, rules, recovered.missing.is_some() || found.unlisted.is_some() || setup.look_only);
    let unreadable = if let LostHead::Unreadable(why) = &lost { Some(why.clone()) } else { None };
    for unknown in unreadable.into_iter().chain(restore::unfinished(&*disk)) {
        report.cannot_know(unknown);
    }
    report.prepare_folders(head.as_ref().is_some_and(|head| head.objects > 0));
    let first_incident = report.incidents.next;
    if lost == LostHead::Damaged {
        report.set_head_aside();
    }
    let closed = head.as_ref().is_some_and(|head| head.clean && head.wal.is_some()) && silent(&found);
    let mut journal = view(recovered);
    let kept = || {
        let head = head.as_ref().filter(|_| closed)?;
        volatile::read(volatile?, &head.store, &ids.boot, Revision(head.reserved))
    };
    let (walked, kept) =
        parallel_read::both(head.as_ref().map_or(0, |head| head.objects), || walk::walk(&*disk, rules), kept);
    if let Some(volatile) = volatile.filter(|_| !report.frozen) {
        volatile::remove(volatile);
    }
    let base = head.as_ref().map(|head| used(head.reserved, closed, recovered));
    let objects = LoadedObjects::new(rules, base, base.unwrap_or_else(|| used(0, false, recovered)), kept.is_some());
    let strangers = report.walked(walked.strangers, walked.left_alone, walked.unread, |key| journal.contains_key(key));
    let is_summed = |head: &&Head| {
        setup.protocol.holds(ProtocolRule::Account) && (closed || head.summed && recovered.missing.is_none())
    };
    let sum = head.as_ref().filter(is_summed).map(|head| &head.files);
    let is_unread = |path: &str| report.is_unread(path);
    let (mut scanned, kept) = scan::read(&*disk, rules, walked.files, &mut journal, kept, sum, is_unread);
    let sum = sum_of(sum, &scanned, &journal, &report);
    let (stamped, lacks) = look(&*disk, head.as_ref(), sum, &mut scanned);
    let aside = head.as_ref().map_or(0, |head| quarantine::count(&*disk, head.incidents..first_incident));
    let gone = head.as_ref().map_or(0, |head| gone(head, &scanned, &journal, &report, strangers as u64 + aside));
    let any_aside = aside > 0 || strangers > 0;
    let explained = head.as_ref().filter(|_| sum == Sum::Differs && !any_aside);
    let explained = explained.and_then(|head| is_explained(&head.files, &scanned, &journal));
    let left = Left { closed, sum, gone, any_aside: aside > 0, explained };
    let (foreign, unstamped, brought) = (ForeignFiles::default(), Vec::new(), Vec::new());
    let shut = ShutFiles::default();
    let mut start = Start { objects, journal, report, left, foreign, shut, stamped, unstamped, brought };
    if start.left.closed && start.left.sum == Sum::Differs {
        // Who saw what is gone now has to look again.
        start.objects.last += 1;
    }
    let carried = start.carry_out(scanned, lacks);
    if head.is_none() && !matches!(lost, LostHead::Unreadable(_)) {
        start.tell_lost_head(lost == LostHead::Damaged, carried.any_written, recovered);
    }
    let renews = start.settle(carried, recovered) || head.is_none();
    start.objects.keep_fresh(&start.journal);
    if renews {
        start.renew_all();
    }
    start.recall_incidents();
    start.tell_unknown_kinds();
    start.tell_shut();
    if start.left.sum == Sum::Differs {
        start.bring_homes();
    }
    start.objects.overlay(kept.unwrap_or_default());
    start.note_journal(recovered, found.unlisted.is_some());
    Ok(segment::begin(disk.clone(), start, head, found, ids, setup))
}

/// Why there is no HEAD.json to go by.
#[derive(PartialEq)]
enum LostHead {
    No,
    Absent,
    Damaged,
    /// Its content is unknown, which is no reason to show nothing.
    Unreadable(String),
}

fn read_head(disk: &dyn Disk) -> Result<(Option<Head>, LostHead), OpenError> {
    match find_head(disk) {
        Ok((Some(head), _)) => Ok((Some(head), LostHead::No)),
        Ok((None, damaged)) => Ok((None, if damaged { LostHead::Damaged } else { LostHead::Absent })),
        Err(OpenError::Io { error, .. }) => Ok((None, LostHead::Unreadable(format!("{HEAD} cannot be read: {error}")))),
        Err(refused) => Err(refused),
    }
}

/// Whether all files are those that HEAD.json describes.
fn sum_of(left: Option<&Sums>, scanned: &ScannedFiles, journal: &JournalView, report: &Report) -> Sum {
    let Some(left) = left.filter(|_| !scanned.any_unreadable() && report.unread.is_empty()) else {
        return Sum::Unknown;
    };
    match scanned.sum_then(journal) {
        _ if scanned.as_left => Sum::AsLeft,
        None => Sum::Unknown,
        Some(then) if then == *left => Sum::AsLeft,
        Some(_) => Sum::Differs,
    }
}

/// Whether all files but those that people changed are the ones that HEAD.json describes. It may have been written
/// without them, by a start that could not take them in; and with files of kinds that only a newer version knows.
fn is_explained(left: &Sums, scanned: &ScannedFiles, journal: &JournalView) -> Option<bool> {
    let (mut sums, any_bare) = scanned.sums_stamped(journal)?;
    if sums.contains(left) {
        return Some(true);
    }
    for (key, said) in scanned.stamps_of_unknown() {
        sums.iter_mut().for_each(|sum| sum.add(key, said));
    }
    match sums.contains(left) {
        false if any_bare => None,
        is => Some(is),
    }
}

/// How many files are gone that HEAD.json knows of, as far as that can be told. A file that somebody made may look like
/// one that was there, and make up the number. `elsewhere`: so many were set aside since then, or have something else
/// in their place.
fn gone(head: &Head, scanned: &ScannedFiles, journal: &JournalView, report: &Report, elsewhere: u64) -> u64 {
    // What lies in a folder that cannot be read is not gone.
    let there = scanned.count_then(journal).filter(|_| report.unread.is_empty());
    let there = there.map(|there| (there + report.left_alone.len()) as u64 + elsewhere);
    there.map_or(0, |there| head.objects.saturating_sub(there))
}

/// Looks at the stamps of the files where their sum does not vouch for them. Says whether all have one, and whether
/// that is only now known not to be so.
fn look(disk: &dyn Disk, head: Option<&Head>, sum: Sum, scanned: &mut ScannedFiles) -> (bool, bool) {
    let stamped = head.is_some_and(|head| head.stamped);
    if sum != Sum::AsLeft || scanned.any_without_revision() {
        return (scanned.look_at_stamps(disk, stamped), false);
    }
    let lacks = stamped && scanned.lack_stamps(disk);
    (stamped && !lacks, lacks)
}

/// The last revision that may have been used.
fn used(head: u64, closed: bool, recovered: &Recovered) -> u64 {
    if closed {
        return head;
    }
    let recorded =
        recovered.records.iter().chain(&recovered.beyond).filter_map(HeldRecord::revision).map(|revision| revision.0);
    // It may have been a reservation that had become damaged.
    let unclear = if recovered.unclear || recovered.missing.is_some() { RESERVE } else { 0 };
    recorded.max().unwrap_or_default().max(head).max(recovered.reserved) + unclear
}
