//! `apply-dir` as it was read: its folders, and what each file says. PURE.

use super::manifest::Named;
use std::collections::BTreeMap;

/// Why something of the directory is not taken, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// A stable word for programs.
    pub reason: &'static str,
    pub what: String,
    pub advice: String,
}

impl Trouble {
    pub fn new(reason: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Trouble {
        Trouble { reason, what: what.into(), advice: advice.into() }
    }
}

/// The directory with all that is below it. Paths begin below the directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// Why nothing of it is known: the directory is missing, or nobody can list it.
    pub trouble: Option<Trouble>,
    /// The uid in the mark of the directory.
    pub mark: Option<String>,
    pub files: BTreeMap<String, FileState>,
    /// Each folder that was listed, the directory itself as an empty path, and whether files or folders are in it.
    pub folders: BTreeMap<String, bool>,
    /// What of the directory is not known: a folder that was refused, more files than are read.
    pub unknown: Vec<(String, Trouble)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FileState {
    Read(ReadFile),
    /// The file is there, and nothing is known of its objects.
    Refused(Trouble),
    /// Somebody writes the file at this moment.
    Writing,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadFile {
    pub digest: String,
    /// The text ends as a whole one does.
    pub ends: bool,
    /// In the order of the text.
    pub named: Vec<Named>,
}

/// The folder that a file lies in.
pub fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}
