//! The times of the annotation `coracle.dev/update`: "Sun 03:00", "Mon,Thu 22:30", "daily 03:00". PURE.

use coracle_api::strategy::cron::{self, Schedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::ticks;

/// On a pod, or on the pod template of a workload.
pub const UPDATE: &str = "coracle.dev/update";

const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DAILY: &str = "daily";

/// When a pod is to be updated, by the clock on the wall.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateTimes(Schedule);

/// The message says what is wrong and how it is written.
pub fn parse(text: &str) -> Result<UpdateTimes, String> {
    let wrong = |why: &str| {
        format!(
            "{UPDATE}: {text:?}: {why}: write \"Sun 03:00\", \"Mon,Thu 22:30\" or \"daily 03:00\", in the host's time \
             zone"
        )
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let [days, time] = words.as_slice() else { return Err(wrong("there is not one word for days and one for a time")) };
    let (hour, minute) = clock(time).ok_or_else(|| wrong(&format!("{time:?} is no time from 00:00 to 23:59")))?;
    let weekdays = if days.eq_ignore_ascii_case(DAILY) {
        "*".to_owned()
    } else {
        let number = |name: &str| {
            let at = DAYS.iter().position(|day| name.eq_ignore_ascii_case(day));
            at.ok_or_else(|| wrong(&format!("{name:?} is no day: Mon, Tue, Wed, Thu, Fri, Sat, Sun")))
        };
        let numbers: Result<Vec<String>, String> =
            days.split(',').map(|name| number(name).map(|at| at.to_string())).collect();
        numbers?.join(",")
    };
    cron::parse(&format!("{minute} {hour} * * {weekdays}")).map(UpdateTimes).map_err(|why| wrong(&why.to_string()))
}

impl UpdateTimes {
    /// The next time after a moment. A time that the clock leaves out in spring does not come on that day.
    pub fn next(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        ticks::next(&self.0, zone, after)
    }
}

/// `03:00` or `3:00`
fn clock(text: &str) -> Option<(u8, u8)> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !(1..=2).contains(&hour.len()) || minute.len() != 2 || !digits(hour) || !digits(minute) {
        return None;
    }
    let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some((hour, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_next_time() {
        // 2026-11-29 is a Sunday.
        let zurich = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let check = |text: &str, zone: TimeZone, after: &str, expected: &str| {
            let times = parse(text).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(times.next(&zone, moment(after)), Some(moment(expected)), "{text} after {after}");
        };
        check("Sun 03:00", TimeZone::UTC, "2026-11-28T12:00:00Z", "2026-11-29T03:00:00Z");
        check("Sun 03:00", TimeZone::UTC, "2026-11-29T03:00:00Z", "2026-12-06T03:00:00Z");
        check("sun 3:00", zurich(), "2026-11-28T12:00:00Z", "2026-11-29T02:00:00Z");
        check("Mon,THU 22:30", TimeZone::UTC, "2026-11-29T12:00:00Z", "2026-11-30T22:30:00Z");
        check("Mon,Thu 22:30", TimeZone::UTC, "2026-11-30T22:30:00Z", "2026-12-03T22:30:00Z");
        check("daily 00:05", TimeZone::UTC, "2026-11-29T12:00:00Z", "2026-11-30T00:05:00Z");
        check("  Daily   23:59 ", TimeZone::UTC, "2026-11-29T12:00:00Z", "2026-11-29T23:59:00Z");
        // That hour is left out on the last Sunday of March.
        check("Sun 02:30", zurich(), "2026-03-28T12:00:00Z", "2026-04-05T00:30:00Z");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_right_form() {
        for (text, why) in [
            ("", "not one word for days"),
            ("03:00", "not one word for days"),
            ("Sun at 03:00", "not one word for days"),
            ("Sonntag 03:00", "\"Sonntag\" is no day"),
            ("Sun, 03:00", "\"\" is no day"),
            ("Sun 24:00", "\"24:00\" is no time"),
            ("Sun 3", "\"3\" is no time"),
            ("Sun 03:0", "\"03:0\" is no time"),
            ("Sun +3:00", "\"+3:00\" is no time"),
            ("Sun 03:60", "\"03:60\" is no time"),
            ("0 3 * * 0", "not one word for days"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why) && said.contains("Mon,Thu 22:30") && said.contains(UPDATE), "{text}: {said}");
        }
    }
}
