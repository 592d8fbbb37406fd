//! Controllers that answer each other for ever are slowed down: a key whose looks write again and again is looked at
//! less often. PURE.

use super::table::Owner;
use std::collections::BTreeMap;
use std::time::Duration;

/// Consecutive looks at a key that write: more looks than any process needs that settles by itself.
const LOOKS_MAX: u32 = 200;
/// The time after which a further look is allowed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How many looks each busy key has used up, and since when it gets them back.
#[derive(Default)]
pub struct Throttle {
    used: BTreeMap<Owner, (u32, Duration)>,
}

impl Throttle {
    /// A look has written. The answer: when to look the next time, if not at once.
    pub fn wrote(&mut self, owner: &Owner, uptime: Duration) -> Option<Duration> {
        self.used.retain(|_, (used, since)| *used > given_back(*since, uptime));
        let (used, since) = self.used.entry(owner.clone()).or_insert((0, uptime));
        let back = given_back(*since, uptime);
        *used = used.saturating_sub(back) + 1;
        *since += LOOK_AGAIN_AFTER * back;
        (*used > LOOKS_MAX).then(|| uptime + LOOK_AGAIN_AFTER)
    }
}

fn given_back(since: Duration, uptime: Duration) -> u32 {
    u32::try_from(uptime.saturating_sub(since).as_millis() / LOOK_AGAIN_AFTER.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::table::Controllers;
    use super::super::{events, schedule};
    use super::*;

    #[test]
    fn a_busy_key_is_slowed_and_recovers() {
        let mut throttle = Throttle::default();
        let at = |n: u32| LOOK_AGAIN_AFTER * n;
        let controllers = Controllers::builtin();
        let busy = controllers.owner("scheduler", schedule::key()).unwrap();
        let calm = controllers.owner("events", events::key()).unwrap();
        for _ in 0..LOOKS_MAX {
            assert_eq!(throttle.wrote(&busy, at(1)), None);
        }
        assert_eq!(throttle.wrote(&busy, at(1)), Some(at(2)));
        assert_eq!(throttle.wrote(&calm, at(1)), None, "others are as quick as ever");
        assert_eq!(throttle.wrote(&busy, at(2)), Some(at(3)));
        assert_eq!(throttle.wrote(&busy, at(4)), None);
        throttle.wrote(&calm, at(LOOKS_MAX * 3));
        assert_eq!(throttle.used.len(), 1, "what is at rest is forgotten");
    }
}
