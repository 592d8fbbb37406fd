//! The surroundings of a Compose file, and the notes of its conversion. PURE.

use super::variables::Variables;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What stands around the file.
pub struct Surroundings<'a> {
    /// The name of the project: the folder's, or `name:` of the file.
    pub project: String,
    /// The folder of the file, absolute: paths of the host begin there.
    pub folder: String,
    /// The home of whoever asks, for paths that begin with `~`.
    pub home: String,
    pub variables: &'a Variables,
    /// The text of a file that the Compose file names, by its path as written there.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
}

/// What the parts of a conversion share.
pub struct Desk<'a> {
    pub around: &'a Surroundings<'a>,
    pub remarks: Vec<String>,
    /// Names of volumes that the services use.
    pub used: BTreeSet<String>,
    /// Objects of secrets and configs, by their names in the Compose file.
    pub given: BTreeMap<(&'static str, String), Value>,
}

impl Desk<'_> {
    pub fn remark(&mut self, of: &str, text: impl AsRef<str>) {
        self.remarks.push(format!("{of}: {}", text.as_ref()));
    }
}
