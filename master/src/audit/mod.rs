//! Audit: who asked for what, from where, and how it was answered. One line of JSON an event, as of
//! `audit.k8s.io/v1`, without bodies.
//!
//!     choice      which requests are recorded
//!     event       the line of a request
//!     bound       how many requests of one client are recorded that changed nothing
//!     queue       lines on their way to the log
//!     lines       the journal or the file that lines go to
//!
//! What cannot be recorded is counted and said once in the log, and stops nothing.

mod bound;
mod choice;
mod event;
mod lines;
mod queue;

pub use choice::AuditLevel;
pub use event::{AuditEvent, Outcome};

use crate::authorize::Attributes;
use bound::Bound;
use choice::{Asked, is_recorded};
use coracle_http::Identity;
use lines::AuditLog;
use queue::Queue;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a stop waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is recorded, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditOptions {
    pub level: AuditLevel,
    /// None: the journal, by standard output.
    pub file: Option<PathBuf>,
}

/// Figures since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFigures {
    pub recorded: u64,
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines of requests that changed nothing and were left out, because their client had many.
    pub left_out: u64,
}

/// The record of a master.
pub struct Audit {
    level: AuditLevel,
    /// None: nothing is recorded.
    lines: Option<Queue>,
    bound: Mutex<Bound>,
    begun: Instant,
}

impl Default for Audit {
    /// Nothing is recorded.
    fn default() -> Audit {
        Audit { level: AuditLevel::Off, lines: None, bound: Mutex::default(), begun: Instant::now() }
    }
}

impl Audit {
    pub fn start(options: AuditOptions) -> io::Result<Audit> {
        let AuditOptions { level, file } = options;
        if level == AuditLevel::Off {
            return Ok(Audit::default());
        }
        Ok(Audit { level, lines: Some(Queue::start(AuditLog::to(file))?), ..Audit::default() })
    }

    pub fn is_on(&self) -> bool {
        self.level != AuditLevel::Off
    }

    /// Whether a request with this outcome is recorded, and how many of its client were left out before. `client`: the
    /// identity that has sent it.
    pub fn records(&self, attributes: &Attributes, client: &Identity, outcome: &Outcome) -> Option<u64> {
        let asked = Asked { attributes, client, code: outcome.code };
        if !is_recorded(self.level, &asked) {
            return None;
        }
        if !outcome.changed_nothing() {
            return Some(0);
        }
        let client = if client.user == Identity::ANONYMOUS { "" } else { &client.user };
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).take(client, self.now())
    }

    pub fn record(&self, event: &AuditEvent<'_>) {
        self.lines.iter().for_each(|lines| lines.put(event.line()));
    }

    /// Waits until the lines so far are in the log, for some seconds at most.
    pub fn flush(&self) {
        self.lines.iter().for_each(|lines| lines.flush(PATIENCE));
    }

    pub fn figures(&self) -> AuditFigures {
        let (recorded, lost) = self.lines.as_ref().map(Queue::written).unwrap_or_default();
        let left_out = self.bound.lock().unwrap_or_else(PoisonError::into_inner).left_out();
        AuditFigures { recorded, lost, left_out }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
