//! The moments at which a schedule is due. PURE.

use coracle_api::strategy::cron::{Fields, Schedule};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// A date that does not come within so many years never does.
const YEARS_MAX: i16 = 5;
/// More ticks than this were missed: something is wrong with a clock, or was.
const MISSED_MAX: i64 = 100;

/// Since a moment, what has become due?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The latest tick.
    pub tick: Option<Timestamp>,
    pub missed_many: bool,
}

/// The next moment after this one. `None`: there is none.
pub fn next(schedule: &Schedule, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    match schedule {
        Schedule::Every(seconds) => {
            Timestamp::from_second(after.as_second().checked_add(i64::try_from(*seconds).ok()?)?).ok()
        }
        Schedule::At(fields) => at(fields, zone, after),
    }
}

/// Real time goes on minute by minute, whatever the clock on the wall does: an hour that is left out has no ticks, one
/// that comes twice has them twice.
fn at(fields: &Fields, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut moment = Timestamp::from_second((after.as_second().div_euclid(60) + 1).checked_mul(60)?).ok()?;
    let last_year = zone.to_datetime(moment).year().saturating_add(YEARS_MAX);
    let has = |bits: u64, number: i8| bits & (1u64 << number) != 0;
    loop {
        let wall = zone.to_datetime(moment);
        if wall.year() > last_year {
            return None;
        }
        moment = if !has(fields.months, wall.month()) {
            begin_of(zone, wall.date().last_of_month().tomorrow().ok()?, moment)?
        } else if !is_day(fields, wall) {
            begin_of(zone, wall.date().tomorrow().ok()?, moment)?
        } else if !has(fields.hours, wall.hour()) {
            later(moment, 60 - i64::from(wall.minute()))?
        } else if !has(fields.minutes, wall.minute()) {
            later(moment, 1)?
        } else {
            return Some(moment);
        };
    }
}

fn is_day(fields: &Fields, wall: DateTime) -> bool {
    let day = fields.days & (1u64 << wall.day()) != 0;
    let weekday = fields.weekdays & (1u64 << wall.weekday().to_sunday_zero_offset()) != 0;
    if fields.both { day && weekday } else { day || weekday }
}

fn begin_of(zone: &TimeZone, date: Date, before: Timestamp) -> Option<Timestamp> {
    let begin = zone.to_ambiguous_timestamp(date.to_datetime(jiff::civil::Time::midnight())).compatible().ok()?;
    // A day may begin twice.
    Some(begin.max(later(before, 1)?))
}

fn later(moment: Timestamp, minutes: i64) -> Option<Timestamp> {
    Timestamp::from_second(moment.as_second().checked_add(minutes * 60)?).ok()
}

/// What has become due since `since`. The number of missed ticks is a guess from the distance of the first two.
pub fn due(schedule: &Schedule, zone: &TimeZone, since: Timestamp, now: Timestamp) -> Result<Due, String> {
    let never = || "time difference between two schedules is less than 1 second".to_owned();
    let none = Due { tick: None, missed_many: false };
    let first = next(schedule, zone, since).ok_or_else(never)?;
    if now < first {
        return Ok(none);
    }
    let second = next(schedule, zone, first).ok_or_else(never)?;
    if now < second {
        return Ok(Due { tick: Some(first), ..none });
    }
    let (first, apart) = (first.as_second(), second.as_second() - first.as_second());
    let missed = (now.as_second() - first) / apart + 1;
    let mut tick = None;
    let mut from = Timestamp::from_second(first + (missed - 2) * apart).unwrap_or(since);
    while let Some(moment) = next(schedule, zone, from).filter(|moment| *moment <= now) {
        (tick, from) = (Some(moment), moment);
    }
    Ok(Due { tick, missed_many: missed > MISSED_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::strategy::cron::parse;

    /// Central European time: the rules of every year in one line.
    fn zurich() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_next_moment() {
        let check = |schedule: &str, zone: TimeZone, after: &str, expected: Option<&str>| {
            let found = next(&parse(schedule).unwrap(), &zone, moment(after));
            assert_eq!(found, expected.map(moment), "{schedule} after {after}");
        };
        let utc = || TimeZone::UTC;
        check("* * * * *", utc(), "2026-01-01T00:00:00Z", Some("2026-01-01T00:01:00Z"));
        check("* * * * *", utc(), "2026-01-01T00:00:59.9Z", Some("2026-01-01T00:01:00Z"));
        check("*/15 * * * *", utc(), "2026-01-01T00:50:00Z", Some("2026-01-01T01:00:00Z"));
        check("30 6-16/4 * * 1-5", utc(), "2026-01-02T15:00:00Z", Some("2026-01-05T06:30:00Z"));
        check("0 0 29 2 *", utc(), "2026-01-01T00:00:00Z", Some("2028-02-29T00:00:00Z"));
        check("0 0 31 2 *", utc(), "2026-01-01T00:00:00Z", None);
        // Either of them, or with a star both.
        check("0 0 13 * fri", utc(), "2026-01-01T00:00:00Z", Some("2026-01-02T00:00:00Z"));
        check("0 0 */1 * fri", utc(), "2026-01-01T00:00:00Z", Some("2026-01-02T00:00:00Z"));
        check("0 0 */2 * fri", utc(), "2026-01-01T00:00:00Z", Some("2026-01-02T00:00:00Z"));
        check("@every 90m", utc(), "2026-01-01T00:00:10.5Z", Some("2026-01-01T01:30:10Z"));
        check("0 3 * * *", zurich(), "2026-07-01T00:00:00Z", Some("2026-07-01T01:00:00Z"));
        // The hour that is left out, and the one that comes twice.
        check("30 2 * * *", zurich(), "2026-03-28T02:00:00Z", Some("2026-03-30T00:30:00Z"));
        check("30 2 * * *", zurich(), "2026-10-25T00:00:00Z", Some("2026-10-25T00:30:00Z"));
        check("30 2 * * *", zurich(), "2026-10-25T00:30:00Z", Some("2026-10-25T01:30:00Z"));
        check("30 2 * * *", zurich(), "2026-10-25T01:30:00Z", Some("2026-10-26T01:30:00Z"));
    }

    #[test]
    fn only_the_latest_is_due() {
        let check = |schedule: &str, since: &str, now: &str, tick: Option<&str>, missed_many: bool| {
            let found = due(&parse(schedule).unwrap(), &TimeZone::UTC, moment(since), moment(now));
            assert_eq!(found, Ok(Due { tick: tick.map(moment), missed_many }), "{schedule} {since} {now}");
        };
        check("0 * * * *", "2026-01-01T10:00:00Z", "2026-01-01T10:59:59Z", None, false);
        check("0 * * * *", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", Some("2026-01-01T11:00:00Z"), false);
        check("0 * * * *", "2026-01-01T10:00:00Z", "2026-01-01T14:30:00Z", Some("2026-01-01T14:00:00Z"), false);
        check("* * * * *", "1970-01-01T00:00:00Z", "2026-01-01T14:30:20Z", Some("2026-01-01T14:30:00Z"), true);
        check("@every 7m", "2026-01-01T10:00:00Z", "2026-01-01T10:30:00Z", Some("2026-01-01T10:28:00Z"), false);
        check("30 6-16/4 * * 1-5", "2026-01-02T15:00:00Z", "2026-01-06T09:00:00Z", Some("2026-01-06T06:30:00Z"), false);
        // The clock was put back.
        check("* * * * *", "2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z", None, false);
        assert!(
            due(
                &parse("0 0 31 2 *").unwrap(),
                &TimeZone::UTC,
                moment("2026-01-01T10:00:00Z"),
                moment("2026-01-02T10:00:00Z")
            )
            .is_err()
        );
    }
}
