//! Forbidden requests to an engine: too many at once, changes to foreign containers, or a start out of order.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{FakeContainer, Inner};
use crate::facts::naming::{LABEL_CONTAINER, LABEL_HASH, LABEL_POD_UID};

/// Limits: starts of a container for the same wish in a minute; pulls of an image in a minute; changes in ten seconds;
/// further changes for each start in these ten seconds.
const STARTS_A_MINUTE_MAX: usize = 9;
pub(super) const PULLS_A_MINUTE_MAX: usize = 30;
const CHANGES_IN_TEN_SECONDS_MAX: usize = 150;
const CHANGES_OF_A_START_MAX: usize = 5;

impl Inner {
    pub(super) fn count_change(&mut self) {
        let now = Instant::now();
        self.changes_total += 1;
        let recent = |at: &Instant| now - *at < Duration::from_secs(10);
        self.changes.retain(recent);
        self.changes.push(now);
        let starts = || self.starts.values().flatten().filter(|at| recent(at)).count();
        if self.changes.len() > CHANGES_IN_TEN_SECONDS_MAX
            && self.changes.len() > CHANGES_IN_TEN_SECONDS_MAX + CHANGES_OF_A_START_MAX * starts()
        {
            self.wrongs.push("the engine is asked without rest".to_owned());
            self.changes.clear();
        }
    }

    pub(super) fn count_start(&mut self, labels: &BTreeMap<String, String>) {
        let now = Instant::now();
        let place =
            [LABEL_POD_UID, LABEL_CONTAINER, LABEL_HASH].map(|label| labels.get(label).cloned().unwrap_or_default());
        let [uid, container, hash] = place;
        let starts = self.starts.entry((uid, container, hash)).or_default();
        starts.push(now);
        let recent = starts.iter().filter(|at| now - **at < Duration::from_secs(60)).count();
        if recent > STARTS_A_MINUTE_MAX {
            self.wrongs.push(format!("{} was started {recent} times in a minute", labels[LABEL_CONTAINER]));
        }
    }

    /// How often one container was started for one wish.
    pub fn starts_of(&self, uid: &str, container: &str, hash: &str) -> usize {
        let place = (uid.to_owned(), container.to_owned(), hash.to_owned());
        self.starts.get(&place).map_or(0, Vec::len)
    }

    pub(super) fn touch(&mut self, id: &str, what: &str) {
        let Some(held) = self.containers.get(id) else { return };
        let uid = held.seen.labels.get(LABEL_POD_UID).cloned().unwrap_or_default();
        if held.foreign {
            self.wrongs.push(format!("{what} of {}, which is not ours", held.seen.name));
        }
        if self.protected.get(&uid).is_some_and(|since| *since <= Instant::now()) {
            self.wrongs.push(format!("{what} of {}, whose source is unknown", held.seen.name));
        }
    }

    /// The simulation calls main containers `c...` and init containers `i...`.
    pub(super) fn check_order(&mut self, held: &FakeContainer) {
        let label = |held: &FakeContainer, label: &str| held.seen.labels.get(label).cloned().unwrap_or_default();
        let is_init = |other: &&FakeContainer| {
            let same_pod = label(other, LABEL_POD_UID) == label(held, LABEL_POD_UID);
            same_pod && !other.foreign && other.seen.runs() && label(other, LABEL_CONTAINER).starts_with('i')
        };
        if label(held, LABEL_CONTAINER).starts_with('c')
            && let Some(init) = self.containers.values().find(is_init)
            && !self.is_by_hand(&init.seen.id)
        {
            self.wrongs.push(format!("{} starts while {} runs", held.seen.name, init.seen.name));
        }
    }
}
