//! What other threads hear of `apply-dir`, and what they ask of it: `status` and the commands of a person.

use super::hearing::Wake;
use crate::store::{Store, locked};
use coracle_api::meta::Key;
use coracle_keeper::problem::{Problem, Severity, Subject, sort};
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How long a command waits for the first look after a start.
const FIRST_LOOK: Duration = Duration::from_secs(20);
/// A Job that has ended may be removed by its own time to live.
const LEAVES_BY_ITSELF: &str = "jobs";

pub type Bell = Box<dyn Fn() + Send + Sync>;

pub struct Told {
    state: Mutex<State>,
    looked: Condvar,
    /// Hears of a look that changed the problems.
    bell: OnceLock<Bell>,
    wake: Arc<Wake>,
    store: Arc<dyn Store>,
}

#[derive(Default)]
struct State {
    report: Report,
    has_looked: bool,
    orders: Orders,
}

/// The outcome of the last look.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub directory: String,
    /// The uid of the inventory. Empty: there is none yet.
    pub uid: String,
    pub problems: Vec<Problem>,
    /// Objects that wait for a confirmation, in words.
    pub awaited: Vec<String>,
    /// Files with objects in the inventory.
    pub files: Vec<String>,
    /// Objects that were applied and have not changed since, the kind and the file of each.
    pub applied: Vec<(Key, String, String)>,
}

/// What is asked of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Orders {
    pub confirm: bool,
    pub again: bool,
    /// Something has changed that an object waits for.
    pub stirred: bool,
    pub stop: bool,
}

impl Told {
    pub fn new(store: Arc<dyn Store>, wake: Arc<Wake>) -> Told {
        Told { state: Mutex::default(), looked: Condvar::new(), bell: OnceLock::new(), wake, store }
    }

    /// What is wrong now, in the order of `status`.
    pub fn problems(&self) -> Vec<Problem> {
        let report = locked(&self.state).report.clone();
        let mut problems = report.problems;
        problems.extend(report.applied.iter().filter_map(|one| self.taken_away(&report.directory, one)));
        sort(&mut problems);
        problems
    }

    /// A hand's deletion stays until the file changes, and is no object that is there.
    fn taken_away(&self, directory: &str, (key, kind, file): &(Key, String, String)) -> Option<Problem> {
        if key.resource.plural == LEAVES_BY_ITSELF || !matches!(self.store.get(key), Ok(None)) {
            return None;
        }
        Some(Problem {
            severity: Severity::Problem,
            reason: "DeletedByHand".to_owned(),
            subject: Subject::new(&kind.to_lowercase(), &key.namespace, &key.name),
            what: format!("it is not there, and {directory}/{file} names it"),
            why: "it was deleted by hand, and its file has not changed since".to_owned(),
            advice: "coracle-master apply --again".to_owned(),
            since: None,
        })
    }

    /// The page of the command line. It waits for the first look after a start.
    pub fn document(&self) -> Value {
        let state = locked(&self.state);
        let state = self.looked.wait_timeout_while(state, FIRST_LOOK, |state| !state.has_looked && !state.orders.stop);
        let report = state.unwrap_or_else(PoisonError::into_inner).0.report.clone();
        json!({
            "directory": report.directory, "uid": report.uid, "files": report.files, "awaited": report.awaited,
            "objects": report.applied.len(), "problems": self.problems(),
        })
    }

    /// The removals that wait are done. The answer names them.
    pub fn confirm(&self) -> Vec<String> {
        let awaited = locked(&self.state).report.awaited.clone();
        if !awaited.is_empty() {
            self.order(|orders| orders.confirm = true);
        }
        awaited
    }

    /// Everything is applied again.
    pub fn again(&self) {
        self.order(|orders| orders.again = true);
    }

    pub fn stir(&self) {
        self.order(|orders| orders.stirred = true);
    }

    /// Rings at once, for the looks before.
    pub fn ring(&self, bell: Bell) {
        self.bell.get_or_init(|| bell)();
    }

    pub fn stop(&self) {
        self.order(|orders| orders.stop = true);
        self.looked.notify_all();
    }

    fn order(&self, order: impl FnOnce(&mut Orders)) {
        order(&mut locked(&self.state).orders);
        self.wake.wake();
    }

    pub(super) fn orders(&self) -> Orders {
        let mut state = locked(&self.state);
        let stop = state.orders.stop;
        std::mem::replace(&mut state.orders, Orders { stop, ..Orders::default() })
    }

    pub(super) fn report(&self, report: Report) {
        let mut state = locked(&self.state);
        let is_news = state.report.problems != report.problems;
        (state.report, state.has_looked) = (report, true);
        self.looked.notify_all();
        drop(state);
        if let Some(bell) = self.bell.get().filter(|_| is_news) {
            bell();
        }
    }
}
