//! Complaints: why the intents of each key were refused, so that each reason is told once, and when each is tried
//! again. PURE.

use super::controller::Patience;
use super::intent::Refusal;
use super::table::Owner;
use coracle_api::meta::Key;
use std::collections::BTreeMap;
use std::time::Duration;

/// Complaints that are remembered. Only when everything fails do more keys than this fail.
const COMPLAINTS_MAX: usize = 1000;
/// Repeated looks at all keys together that may come at once; each `ONE_MORE_AFTER` allows a further look.
const AT_ONCE: u32 = 100;
const ONE_MORE_AFTER: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Complaints {
    complaints: BTreeMap<Owner, Complaint>,
    /// How much of what may come at once is used up, and since when it comes back.
    used: (u32, Duration),
}

struct Complaint {
    refusal: Refusal,
    /// So many looks have failed since one did not.
    times: u32,
}

/// What a complaint is to those before it about the same key.
#[derive(Debug, PartialEq)]
pub enum Novelty {
    First,
    Another,
    TheSame,
}

impl Complaints {
    pub fn get(&self, owner: &Owner) -> Option<&Refusal> {
        self.complaints.get(owner).map(|complaint| &complaint.refusal)
    }

    /// The answer: whether it says anything new, and when to look again.
    pub fn put(
        &mut self,
        owner: &Owner,
        refusal: Refusal,
        patience: Patience,
        uptime: Duration,
    ) -> (Novelty, Duration) {
        if self.complaints.len() >= COMPLAINTS_MAX && !self.complaints.contains_key(owner) {
            self.complaints.clear();
        }
        let times = self.complaints.get(owner).map_or(0, |complaint| complaint.times);
        let novelty = match self.get(owner) {
            None => Novelty::First,
            Some(before) if before.gist == refusal.gist => Novelty::TheSame,
            Some(_) => Novelty::Another,
        };
        self.complaints.insert(owner.clone(), Complaint { refusal, times: times.saturating_add(1) });
        (novelty, (uptime + patience.after(times)).max(self.next(uptime)))
    }

    /// When all that may be repeated at once is used up: not before this.
    fn next(&mut self, uptime: Duration) -> Duration {
        let (used, since) = self.used;
        let back =
            u32::try_from(uptime.saturating_sub(since).as_millis() / ONE_MORE_AFTER.as_millis()).unwrap_or(u32::MAX);
        let used = used.saturating_sub(back);
        let since = if used == 0 { uptime } else { since + ONE_MORE_AFTER * back };
        self.used = (used.saturating_add(1), since);
        uptime + ONE_MORE_AFTER * used.saturating_sub(AT_ONCE)
    }

    /// Nothing is refused any more. False if nothing was.
    pub fn remove(&mut self, owner: &Owner) -> bool {
        self.complaints.remove(owner).is_some()
    }

    /// The object is gone.
    pub fn forget(&mut self, key: &Key) {
        self.complaints.retain(|owner, _| owner.key != *key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Controllers;
    use super::super::{events, schedule};
    use super::*;

    #[test]
    fn ever_later() {
        let (controllers, mut complaints) = (Controllers::builtin(), Complaints::default());
        let owner = controllers.owner("events", events::key()).unwrap();
        let mut put =
            |gist: &str| complaints.put(&owner, Refusal::from(gist.to_owned()), Patience::USUAL, Duration::ZERO);
        assert_eq!(put("a"), (Novelty::First, Duration::from_millis(5)));
        assert_eq!(put("a"), (Novelty::TheSame, Duration::from_millis(10)));
        assert_eq!(put("b"), (Novelty::Another, Duration::from_millis(20)));
        for _ in 0..20 {
            put("b");
        }
        assert_eq!(put("b").1, Patience::USUAL.1);
        assert!(complaints.remove(&owner) && !complaints.remove(&owner));
        assert_eq!(
            complaints.put(&owner, Refusal::from("a".to_owned()), Patience::USUAL, Duration::ZERO),
            (Novelty::First, Duration::from_millis(5))
        );
    }

    #[test]
    fn all_together_not_too_often() {
        let (controllers, mut complaints) = (Controllers::builtin(), Complaints::default());
        let owner = controllers.owner("scheduler", schedule::key()).unwrap();
        let mut first = |uptime| {
            complaints.remove(&owner);
            complaints.put(&owner, Refusal::from(String::new()), Patience::USUAL, uptime).1
        };
        for _ in 0..AT_ONCE {
            assert_eq!(first(Duration::ZERO), Patience::USUAL.0);
        }
        first(Duration::ZERO);
        assert_eq!(first(Duration::ZERO), ONE_MORE_AFTER);
        assert_eq!(first(Duration::from_secs(60)), Duration::from_secs(60) + Patience::USUAL.0);
    }
}
