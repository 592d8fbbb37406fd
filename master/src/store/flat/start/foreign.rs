//! Files of kinds that this version does not know, where a person wrote them: they are left alone. What a master wrote
//! of such kinds is an object like all others.

use super::Start;
use crate::store::Damage;
use crate::store::flat::content::Wrong;
use crate::store::flat::folders::OBJECTS;
use crate::store::flat::names;
use coracle_api::meta::{Key, Resource};
use std::collections::BTreeMap;

impl Start<'_> {
    /// Leaves a file for the version that knows its kind. `stamped`: the checksum of what the store wrote.
    pub fn leave_foreign(&mut self, key: Key, stamped: Option<u32>, wrong: Wrong) {
        let path = names::path(&key);
        if let Some(crc) = stamped {
            self.foreign.sum.add(&key, crc);
            self.foreign.count += 1;
        }
        let why =
            format!("this version knows no {}, and a master did not write the file so: {}", key.resource, wrong.why);
        self.report.leave_alone(&path, why.clone());
        let remedy = "start a master that knows its kind, or take the file away and restart the master".to_owned();
        let file = format!("{OBJECTS}/{path}");
        let why = format!("{file}: {why}");
        self.foreign.files.insert(key.clone(), Damage { file, key: Some(key), kind: None, why, remedy });
    }

    /// Notes how many objects are kept that nobody is shown.
    pub fn tell_unknown_kinds(&mut self) {
        let mut kept = BTreeMap::<&Resource, usize>::new();
        for key in self.objects.all.keys().filter(|key| self.objects.row(key).is_none()) {
            *kept.entry(&key.resource).or_default() += 1;
        }
        let notes = kept.into_iter().map(|(resource, count)| {
            format!("{count} {resource} are kept, and not served before their kind is known to this master")
        });
        self.report.notes.extend(notes);
    }
}
