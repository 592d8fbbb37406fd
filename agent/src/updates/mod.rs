//! Updates of pods whose images have newer content under the same name: by command, and by annotation at set times.
//!
//!     command, annotation -> the images come -> `record` on disk -> Desired -> the plan replaces the pod
//!                                                   ▲                              │
//!                                                   └── judge PURE: ready? ◄── Shown
//!
//! One pod after the other. The images come before anything ends, so a registry out of reach changes nothing. While an
//! update is under way the image before has a name of the agent's own, and where the pod does not become ready it comes
//! back. Pods of files and of the API are updated alike, in place: the pod keeps its name, uid and volumes, and gets a
//! new sandbox.

pub mod board;
mod course;
mod judge;
mod record;
mod shelf;
pub mod table;
mod times;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_program::zones;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::facts::clock::{CLOCK_MS_MIN, wall_ms};
use crate::facts::desired::Desired;
use crate::facts::happening::Happening;
use crate::facts::shown::Shown;
use crate::facts::update::{PodUpdate, Updates};
use crate::runtime::docker::Docker;
use board::{Board, Wish};
pub use judge::pods;
use record::{Record, Records, Stage};
use shelf::Shelf;
pub use shelf::kept;
use times::Times;

/// How long a pod may take to become ready, where nobody says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(300);
/// A clock that was not set yet is looked at again after this, and only where a pod has times.
const UNSET: Duration = Duration::from_secs(900);
/// The longest sleep until a time: the clock may be put on meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 3600);

/// The task's ends.
pub struct Ends {
    pub docker: Arc<Docker>,
    pub shown: watch::Receiver<Arc<Shown>>,
    /// To the sources: what pods are asked for.
    pub updates: watch::Sender<Arc<Updates>>,
    pub happenings: mpsc::Sender<Happening>,
    pub data_dir: String,
    pub board: Board,
    pub asked: mpsc::Receiver<Wish>,
}

struct Room {
    docker: Arc<Docker>,
    shown: watch::Receiver<Arc<Shown>>,
    updates: watch::Sender<Arc<Updates>>,
    happenings: mpsc::Sender<Happening>,
    board: Board,
    shelf: Shelf,
    records: Records,
    times: Times,
    /// Whose annotations were read.
    read: Arc<Desired>,
}

/// Ends with the agent.
pub async fn run(ends: Ends) {
    let Ends { docker, mut shown, updates, happenings, data_dir, board, mut asked } = ends;
    let shelf = Shelf::new(&data_dir);
    if shown.wait_for(|shown| shown.looked).await.is_err() {
        return;
    }
    let records = shelf.read();
    let read = Arc::new(Desired::default());
    let mut room = Room { docker, shown, updates, happenings, board, shelf, records, times: Times::default(), read };
    if !room.records.is_empty() {
        room.let_go().await;
    }
    let mut wake_at = None;
    loop {
        room.forget().await;
        let unfinished = room.records.iter().find(|(_, record)| record.stage != Stage::Held);
        if let Some(uid) = unfinished.map(|(uid, _)| uid.clone()) {
            log::info!("an update was under way when this agent began; it goes on");
            room.finish(&uid, 0).await;
            continue;
        }
        let due = room.look_at_times(&mut wake_at);
        if let Some(uid) = due {
            let wish = Wish { uids: vec![uid], dry_run: false, deadline: DEADLINE, scheduled: true, job: 0 };
            room.serve(&wish).await;
            continue;
        }
        let sleep = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(wish) = asked.recv() => room.serve(&wish).await,
            changed = room.shown.changed() => if changed.is_err() { return },
            () = sleep => wake_at = None,
        }
    }
}

impl Room {
    /// A pod that is due by its annotation. `wake_at` is kept while nothing has changed.
    fn look_at_times(&mut self, wake_at: &mut Option<Instant>) -> Option<String> {
        let shown = self.shown.borrow_and_update().clone();
        if !Arc::ptr_eq(&self.read, &shown.desired) {
            self.read = shown.desired.clone();
            self.times.read(&shown.desired);
            self.tell_problems();
            *wake_at = None;
        }
        if !self.times.any() || wake_at.is_some() {
            return None;
        }
        let now_ms = wall_ms();
        if now_ms < CLOCK_MS_MIN {
            *wake_at = Some(Instant::now() + UNSET);
            return None;
        }
        let now = Timestamp::from_millisecond(now_ms).ok()?;
        // An empty name is the host's own zone, or UTC.
        let zone = zones::zone("").ok()?;
        let due = self.times.due(&zone, now);
        let until = due.next.map(|next| next.duration_since(now).max(SignedDuration::ZERO));
        let sleep = until.and_then(|until| Duration::try_from(until).ok());
        // Another pod may be due at the same time.
        let rests = due.uid.is_none();
        *wake_at = sleep.filter(|_| rests).map(|sleep| Instant::now() + sleep.min(SLEEP_MAX));
        due.uid
    }

    fn tell_problems(&self) {
        self.board.set_problems(self.times.problems(&self.records));
    }

    /// The records of pods that are gone, or that ask for other images by now.
    async fn forget(&mut self) {
        let shown = self.shown.borrow().clone();
        let stays = |uid: &String, record: &Record| match shown.desired.pods.get(uid) {
            Some(wanted) => record.fits(wanted),
            // Unknown is not absent.
            None => record.source().is_some_and(|source| shown.desired.unknown.contains(&source)),
        };
        if self.records.iter().all(|(uid, record)| stays(uid, record)) {
            return;
        }
        let mut records = self.records.clone();
        records.retain(|uid, record| stays(uid, record));
        // Written again with the next change where it fails now.
        if let Err(error) = self.shelf.write(&records) {
            log::warn!("forget an update: {error}");
        }
        self.records = records;
        self.ask_of_pods(None);
        self.let_go().await;
    }

    fn ask_of_pods(&self, beside: Option<(&str, PodUpdate)>) {
        let mut all: Updates = self.records.iter().map(|(uid, record)| (uid.clone(), record.asks())).collect();
        all.extend(beside.map(|(uid, update)| (uid.to_owned(), update)));
        self.updates.send_if_modified(|was| {
            let differs = **was != all;
            if differs {
                *was = Arc::new(all);
            }
            differs
        });
        self.tell_problems();
    }

    /// Images that no update may go back to lose the agent's own names.
    async fn let_go(&self) {
        let kept: BTreeSet<String> = self.records.values().flat_map(Record::kept).cloned().collect();
        if let Err(failure) = self.docker.keep_only(&kept).await {
            log::debug!("images of updates: {failure}");
        }
    }

    fn say(&self, job: u64, wanted: &str, text: &str) {
        log::info!("update of {wanted}: {text}");
        if job != 0 {
            self.board.say(job, format!("{wanted}: {text}"));
        }
    }

    async fn serve(&mut self, wish: &Wish) {
        let mut well = true;
        for (at, uid) in wish.uids.iter().enumerate() {
            let shown = self.shown.borrow().clone();
            well &= match shown.desired.pods.get(uid) {
                Some(wanted) if wish.dry_run => self.only_tell(wanted, &shown, wish.job).await,
                Some(wanted) => self.update(wanted, &shown, wish).await,
                None => true,
            };
            if !well {
                let left = wish.uids.len() - at - 1;
                if left > 0 && wish.job != 0 {
                    self.board.say(wish.job, format!("pods that are not updated because of it: {left}"));
                }
                break;
            }
        }
        if wish.job != 0 {
            self.board.end(wish.job, well);
        }
    }
}
