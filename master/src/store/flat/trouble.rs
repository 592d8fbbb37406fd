//! PURE. The current and past problems of the store, as they are shown.

use crate::store::{Damage, Figures, FillLevel, Health, LeftOut};
use std::collections::VecDeque;

/// The limit of mended problems that are shown: the oldest makes room.
const REMARKS_MAX: usize = 100;

#[derive(Default)]
pub struct Trouble {
    pub degraded: Option<String>,
    /// There is no room for another segment.
    pub full: Option<String>,
    /// Why the files cannot be brought up to the journal.
    pub behind: Option<String>,
    pub foreign: Vec<Damage>,
    /// Files of kinds that this version does not know.
    pub left_alone: Vec<LeftOut>,
    /// The problems mended since the start, the oldest first.
    pub remarks: VecDeque<String>,
    pub edits: Vec<Damage>,
    pub figures: Figures,
}

impl Trouble {
    pub fn remark(&mut self, remark: String) {
        if self.remarks.len() >= REMARKS_MAX {
            self.remarks.pop_front();
        }
        self.remarks.push_back(remark);
    }

    /// `silent`: whether the disk says nothing.
    pub fn health(&self, damaged: Vec<Damage>, fill: FillLevel, silent: impl Fn() -> Option<String>) -> Health {
        Health {
            degraded: self.degraded.clone().or_else(|| self.full.clone()).or_else(silent),
            behind: self.behind.clone(),
            damaged: damaged.into_iter().chain(self.foreign.iter().cloned()).collect(),
            shut: Vec::new(),
            keyless: None,
            edits: self.edits.clone(),
            remarks: self.remarks.iter().cloned().collect(),
            fill,
            figures: self.figures,
        }
    }
}
