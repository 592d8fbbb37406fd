//! PURE. What a start finds to be lost of the journal, and where.

use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    pub segment: u64,
    pub offset: usize,
}

/// So many bytes that nobody wrote lie somewhere behind a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiped {
    pub place: JournalPlace,
    pub bytes: usize,
}

/// An acknowledged record that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub place: JournalPlace,
    /// The first that is missing.
    pub n: u64,
    pub why: Cow<'static, str>,
}

impl fmt::Display for JournalPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, offset {}", super::path(self.segment), self.offset)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: record {} is missing: {}", self.place, self.n, self.why)
    }
}
