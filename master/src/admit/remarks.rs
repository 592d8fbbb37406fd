//! Refusals of admission, and what admission says besides. PURE.

use coracle_api::meta::Key;
use coracle_schema::Problem;
use std::cell::RefCell;

/// Why admission refuses a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    Forbidden(String),
    /// Values of the document mean nothing.
    Invalid(Vec<Problem>),
    /// An object that the document names is not there.
    Missing(Key),
    TooMany {
        why: String,
        retry_after_s: u32,
    },
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Forbidden(why)
    }
}

/// Words of admission about a change that it may let pass.
#[derive(Debug, Default)]
pub struct Remarks {
    warnings: RefCell<Vec<String>>,
    notes: RefCell<Vec<(&'static str, String)>>,
}

impl Remarks {
    /// For the Warning headers of the answer.
    pub(super) fn warn(&self, words: String) {
        self.warnings.borrow_mut().push(words);
    }

    /// An annotation for the audit log.
    pub(super) fn note(&self, key: &'static str, value: String) {
        let mut notes = self.notes.borrow_mut();
        notes.retain(|(known, _)| *known != key);
        notes.push((key, value));
    }

    #[cfg(test)]
    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    pub fn into_parts(self) -> (Vec<String>, Vec<(&'static str, String)>) {
        (self.warnings.into_inner(), self.notes.into_inner())
    }
}
