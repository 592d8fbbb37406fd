//! The two clocks, and how long ago something happened whose wall time an object tells. PURE.
//!
//! What this process has seen happen is as old as its uptime says: a clock that is put right makes no deadline pass,
//! and moves none away. What happened before is as old as the wall clock says, and at least as old as it has been
//! known.

use coracle_api::meta::Time;
use std::time::Duration;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time that is shown to people.
    pub wall: Time,
    /// Time since this process started: silence and age are measured by it.
    pub uptime: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    seen: Duration,
    /// The object was known before, when this had not happened yet.
    witnessed: bool,
}

impl Since {
    /// `was`: the earlier value, if any. `known`: the object itself was known before.
    pub fn of(was: Option<Since>, known: bool, uptime: Duration) -> Since {
        was.unwrap_or(Since { seen: uptime, witnessed: known })
    }

    /// `at`: what the object says.
    pub fn elapsed(self, at: Option<Time>, now: Now) -> Duration {
        let seen = now.uptime.saturating_sub(self.seen);
        let recorded = at.map(|at| now.wall.0.as_millisecond() - at.0.as_millisecond());
        let recorded =
            recorded.and_then(|recorded| u64::try_from(recorded).ok()).map(Duration::from_millis).unwrap_or_default();
        if self.witnessed { seen } else { seen.max(recorded) }
    }
}

/// The earlier of two moments at which to look again.
pub fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_ages_nothing_that_was_seen_to_happen() {
        let at = |uptime_s: u64, wall_s: i64| Now {
            wall: Time::from_seconds(wall_s).unwrap(),
            uptime: Duration::from_secs(uptime_s),
        };
        let check = |known: bool, recorded_s: i64, now: Now, expected_s: u64| {
            let since = Since::of(None, known, Duration::from_secs(10));
            assert_eq!(
                since.elapsed(Time::from_seconds(recorded_s), now).as_secs(),
                expected_s,
                "{known} {recorded_s} {now:?}"
            );
        };
        // Seen to happen: whatever the clock says since.
        check(true, 1000, at(15, 1005), 5);
        check(true, 1000, at(15, 9000), 5);
        check(true, 1000, at(15, 10), 5);
        // Found: by the clock, which may have been put back.
        check(false, 1000, at(15, 1105), 105);
        check(false, 1000, at(15, 10), 5);
    }
}
