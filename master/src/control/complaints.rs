//! Complaints: why the intents of each key were refused, so that each reason is told once. PURE.

use super::table::Owner;
use coracle_api::meta::Key;
use std::collections::BTreeMap;

/// Complaints that are remembered. Only when everything fails do more keys than this fail.
const COMPLAINTS_MAX: usize = 1000;

#[derive(Default)]
pub struct Complaints {
    reasons: BTreeMap<Owner, String>,
}

impl Complaints {
    pub fn get(&self, owner: &Owner) -> Option<&str> {
        self.reasons.get(owner).map(String::as_str)
    }

    /// False if this was the last complaint about the key already.
    pub fn put(&mut self, owner: &Owner, why: &str) -> bool {
        if self.get(owner) == Some(why) {
            return false;
        }
        if self.reasons.len() >= COMPLAINTS_MAX {
            self.reasons.clear();
        }
        self.reasons.insert(owner.clone(), why.to_owned());
        true
    }

    /// Nothing is refused any more. False if nothing was.
    pub fn remove(&mut self, owner: &Owner) -> bool {
        self.reasons.remove(owner).is_some()
    }

    /// The object is gone.
    pub fn forget(&mut self, key: &Key) {
        self.reasons.retain(|owner, _| owner.key != *key);
    }
}
