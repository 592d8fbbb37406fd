//! Audit: who asked for what, from where, and how it was answered. One line of JSON an event, as of
//! `audit.k8s.io/v1`, without bodies.
//!
//!     choice      which requests are recorded
//!     event       the line of a request
//!     bound       how many refusals of one client are recorded
//!     lines       the journal or the file that lines go to
//!
//! What cannot be recorded is counted and said once in the log, and stops nothing.

mod bound;
mod choice;
mod event;
mod lines;

pub use choice::AuditLevel;
pub use event::{AuditEvent, Outcome};
pub use lines::AuditLog;

use crate::authorize::Attributes;
use bound::Bound;
use choice::{Asked, is_recorded, is_refusal};
use coracle_http::Identity;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// Refusals that were left out, because their client had many.
    pub left_out: u64,
}

/// The record of a master.
pub struct Audit {
    level: AuditLevel,
    log: Mutex<AuditLog>,
    bound: Mutex<Bound>,
    begun: Instant,
}

impl Default for Audit {
    /// Nothing is recorded.
    fn default() -> Audit {
        Audit::new(AuditOptions::default())
    }
}

impl Audit {
    pub fn new(options: AuditOptions) -> Audit {
        let log = Mutex::new(AuditLog::to(options.file));
        Audit { level: options.level, log, bound: Mutex::default(), begun: Instant::now() }
    }

    pub fn is_on(&self) -> bool {
        self.level != AuditLevel::Off
    }

    /// Whether a request with this outcome is recorded, and how many like it were left out before. `client`: the
    /// identity that has sent it.
    pub fn records(&self, attributes: &Attributes, client: &Identity, outcome: &Outcome) -> Option<u64> {
        let asked = Asked { attributes, client, code: outcome.code };
        if !is_recorded(self.level, &asked) {
            return None;
        }
        if !is_refusal(outcome.code) {
            return Some(0);
        }
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.take(if client.is_personal() { &client.user } else { "" }, self.now())
    }

    pub fn record(&self, event: &AuditEvent<'_>) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).write(&event.line());
    }

    pub fn figures(&self) -> AuditFigures {
        let (recorded, lost) = self.log.lock().unwrap_or_else(PoisonError::into_inner).written();
        let left_out = self.bound.lock().unwrap_or_else(PoisonError::into_inner).left_out();
        AuditFigures { recorded, lost, left_out }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
