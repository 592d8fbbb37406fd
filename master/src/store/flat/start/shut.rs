//! Objects that are sealed by keys which are not at hand: their files stay as they are, and they count as existing.

use super::Start;
use crate::store::Damage;
use crate::store::flat::folders::OBJECTS;
use crate::store::flat::foreign::Counted;
use crate::store::flat::names;
use crate::store::flat::seal::SEALED;
use coracle_api::meta::Key;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct ShutFiles {
    pub files: BTreeMap<Key, Damage>,
    /// Files that the journal says nothing of.
    pub silent: Counted,
    /// The counts of the records in the journal.
    pub journaled: Counted,
}

impl Start<'_> {
    pub fn leave_shut(&mut self, key: &Key, why: &str) {
        let file = format!("{OBJECTS}/{}", names::path(key));
        let remedy = "bring the key back and restart the master; until then nothing is written in its place".to_owned();
        let why = format!("{SEALED}{why}");
        self.shut.files.insert(key.clone(), Damage { file, key: Some(key.clone()), kind: None, why, remedy });
    }

    /// One line for all, however many they are.
    pub fn tell_shut(&mut self) {
        let Some((key, first)) = self.shut.files.first_key_value() else { return };
        let count = self.shut.files.len();
        self.report.notes.push(format!("{count} objects cannot be opened, such as {key}: {}", first.to_asker()));
    }
}
