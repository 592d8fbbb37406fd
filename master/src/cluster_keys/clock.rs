//! PURE. The time for ends that somebody asked for: no earlier than a time that was true before, so that a clock that
//! goes back revives nothing.
//!
//!     now = max(the clock on the wall, the kept mark + the time since it was read)
//!
//! The mark is kept in a file. It is written when something with an end is made and the kept mark is older than a day:
//! a quiet host writes nothing.

use coracle_api::meta::Time;
use std::time::Duration;

/// How old the kept mark may be.
const KEPT_S: i64 = 24 * 3600;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighWaterMark {
    /// Seconds since 1970.
    mark_s: i64,
    /// When the mark was read, by uptime.
    at: Duration,
    /// What the file says.
    kept_s: i64,
}

impl HighWaterMark {
    /// `text`: the file's content, if there is a file.
    pub fn parse(text: Option<&str>, uptime: Duration) -> Result<HighWaterMark, String> {
        let kept_s = match text.map(str::trim) {
            None | Some("") => 0,
            Some(text) => text
                .parse()
                .ok()
                .filter(|mark| *mark >= 0)
                .ok_or_else(|| format!("{text:?} is no number of seconds"))?,
        };
        Ok(HighWaterMark { mark_s: kept_s, at: uptime, kept_s })
    }

    /// The time to judge ends by.
    pub fn now(&mut self, wall: Time, uptime: Duration) -> Time {
        let run_s = i64::try_from(uptime.saturating_sub(self.at).as_secs()).unwrap_or_default();
        let now_s = wall.seconds().max(self.mark_s.saturating_add(run_s));
        if wall.seconds() >= now_s {
            (self.mark_s, self.at) = (wall.seconds(), uptime);
        }
        Time::from_seconds(now_s).unwrap_or(wall)
    }

    /// How far the clock on the wall is behind, in seconds.
    pub fn behind_s(&self, wall: Time) -> i64 {
        self.mark_s.saturating_sub(wall.seconds()).max(0)
    }

    /// The text to be kept now, where the kept one is too old.
    pub fn keep(&mut self, now: Time) -> Option<String> {
        if now.seconds().saturating_sub(self.kept_s) < KEPT_S {
            return None;
        }
        self.kept_s = now.seconds();
        Some(format!("{}\n", self.kept_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_S: i64 = 1_800_000_000;

    fn wall(seconds: i64) -> Time {
        Time::from_seconds(seconds).expect("a time")
    }

    #[test]
    fn a_clock_that_goes_back_revives_nothing() {
        let mut mark = HighWaterMark::parse(Some("1800000000\n"), Duration::from_secs(5)).expect("a mark");
        for (wall_s, uptime_s, expected_s) in [
            // A host without a battery: the mark, and what has run since.
            (0, 5, BEGIN_S),
            (10, 15, BEGIN_S + 10),
            // The right time is heard.
            (BEGIN_S + 5000, 20, BEGIN_S + 5000),
            (BEGIN_S + 5010, 30, BEGIN_S + 5010),
            // And is lost again.
            (BEGIN_S, 40, BEGIN_S + 5020),
        ] {
            let now = mark.now(wall(wall_s), Duration::from_secs(uptime_s));
            assert_eq!(now.seconds(), expected_s, "{wall_s} {uptime_s}");
        }
        assert_eq!(mark.behind_s(wall(BEGIN_S)), 5010);
    }

    #[test]
    fn it_is_kept_once_a_day() {
        let mut mark = HighWaterMark::parse(None, Duration::ZERO).expect("none yet");
        assert_eq!(mark.keep(wall(BEGIN_S)), Some(format!("{BEGIN_S}\n")));
        assert_eq!(mark.keep(wall(BEGIN_S + KEPT_S - 1)), None);
        assert_eq!(mark.keep(wall(BEGIN_S + KEPT_S)), Some(format!("{}\n", BEGIN_S + KEPT_S)));
        for bad in ["x", "-1", "1.5"] {
            assert!(HighWaterMark::parse(Some(bad), Duration::ZERO).is_err(), "{bad}");
        }
    }
}
