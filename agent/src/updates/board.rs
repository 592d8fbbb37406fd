//! What the agent's socket and the task of updates tell each other: requests, and the lines of their course.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_keeper::problem::Problem;
use tokio::sync::{mpsc, watch};

/// Requests that wait for the one before. Each is a person's, or a script's.
const ASKS_MAX: usize = 16;
/// Courses that are remembered for whoever asks how they went.
const JOBS_MAX: usize = 32;
/// Lines of one course.
const LINES_MAX: usize = 1000;

/// What is asked for of some pods.
#[derive(Clone, Debug)]
pub struct Wish {
    pub uids: Vec<String>,
    pub dry_run: bool,
    pub deadline: Duration,
    /// By annotation: images that were given up once are not tried again.
    pub scheduled: bool,
    /// The number of the course; 0: only the log tells of it.
    pub job: u64,
}

/// The course of a request.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub number: u64,
    pub lines: Vec<String>,
    /// Some: it is over, and went well or not.
    pub ended: Option<bool>,
}

#[derive(Default)]
struct Written {
    jobs: VecDeque<Job>,
    last: u64,
}

/// The end of the socket.
#[derive(Clone)]
pub struct Board {
    asks: mpsc::Sender<Wish>,
    written: Arc<Mutex<Written>>,
    problems: Arc<watch::Sender<Vec<Problem>>>,
}

impl Board {
    pub fn new() -> (Board, mpsc::Receiver<Wish>) {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        (Board { asks, written: Arc::default(), problems: Arc::new(watch::channel(Vec::new()).0) }, asked)
    }

    /// The number of the course, or why there is none.
    pub fn ask(&self, wish: Wish) -> Result<u64, String> {
        let mut written = self.held();
        let job = written.last + 1;
        // The lock is held until the course is there: the task may begin at once.
        self.asks
            .try_send(Wish { job, ..wish })
            .map_err(|_| format!("{ASKS_MAX} updates wait already: try again when they are over"))?;
        written.last = job;
        if written.jobs.len() >= JOBS_MAX {
            written.jobs.pop_front();
        }
        written.jobs.push_back(Job { number: job, ..Job::default() });
        Ok(job)
    }

    pub fn job(&self, number: u64) -> Option<Job> {
        self.held().jobs.iter().find(|job| job.number == number).cloned()
    }

    pub(super) fn say(&self, number: u64, line: String) {
        if let Some(job) = self.held().jobs.iter_mut().find(|job| job.number == number)
            && job.lines.len() < LINES_MAX
        {
            job.lines.push(line);
        }
    }

    pub(super) fn end(&self, number: u64, well: bool) {
        if let Some(job) = self.held().jobs.iter_mut().find(|job| job.number == number) {
            job.ended = Some(well);
        }
    }

    /// Updates that were given up, and annotations that cannot be read.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.borrow().clone()
    }

    /// When the problems may be others.
    pub fn changes(&self) -> watch::Receiver<Vec<Problem>> {
        self.problems.subscribe()
    }

    pub(super) fn set_problems(&self, problems: Vec<Problem>) {
        self.problems.send_if_modified(|was| {
            let differs = *was != problems;
            *was = problems;
            differs
        });
    }

    fn held(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
