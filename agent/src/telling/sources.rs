//! Where the problems of this node come from, and when they may have changed.

use std::sync::Arc;
use std::time::Duration;

use coracle_keeper::problem::Problem;
use tokio::sync::watch;
use tokio::time::sleep;

use super::problems::{self, Beside};
use super::summary;
use crate::desired::refusals::Refusals;
use crate::desired::unkept::Unkept;
use crate::facts::clock::wall_ms;
use crate::facts::shown::{LastLines, Shown};
use crate::updates::board::Board;

/// Each reader has its own copy.
#[derive(Clone)]
pub struct ProblemSources {
    pub node_name: String,
    pub shown: watch::Receiver<Arc<Shown>>,
    /// Why the engine does not answer.
    pub engine: watch::Receiver<Option<String>>,
    pub last_lines: watch::Receiver<Arc<LastLines>>,
    pub unkept: Unkept,
    pub refusals: Refusals,
    /// Updates of images that were given up.
    pub board: Board,
}

impl ProblemSources {
    pub fn now(&self) -> Vec<Problem> {
        let (shown, engine, last_lines) =
            (self.shown.borrow().clone(), self.engine.borrow().clone(), self.last_lines.borrow().clone());
        let beside = Beside {
            node_name: &self.node_name,
            engine: engine.as_deref(),
            unkept: &self.unkept.texts(),
            refused: &self.refusals.texts(),
            updates: &self.board.problems(),
            last_lines: &last_lines,
            now_ms: wall_ms(),
        };
        problems::problems(&shown, &beside)
    }

    /// One line of the problems and the pods.
    pub fn line(&self) -> String {
        let shown = self.shown.borrow().clone();
        summary::line(&shown, &self.now())
    }

    /// Waits until the problems may be others. False: the agent ends. Nothing ticks: the one time that is waited for is
    /// the time at which a problem begins or ends by itself.
    pub async fn changed(&mut self) -> bool {
        let changes_at_ms = problems::changes_at_ms(&self.shown.borrow(), wall_ms());
        let (mut unkept, mut refusals) = (self.unkept.changes(), self.refusals.changes());
        let mut updates = self.board.changes();
        let wait = changes_at_ms.map(|at_ms| u64::try_from(at_ms.saturating_sub(wall_ms())).unwrap_or(0));
        tokio::select! {
            changed = self.shown.changed() => changed.is_ok(),
            Ok(()) = self.engine.changed() => true,
            Ok(()) = self.last_lines.changed() => true,
            Ok(()) = unkept.changed() => true,
            Ok(()) = refusals.changed() => true,
            Ok(()) = updates.changed() => true,
            () = sleep(Duration::from_millis(wait.unwrap_or(0))), if wait.is_some() => true,
        }
    }
}
