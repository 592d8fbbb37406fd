//! The schedule of a cron job: five fields, or a word. The messages come from the parser that Kubernetes uses.

struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field { low: 1, high: 12, names: MONTHS },
    Field { low: 0, high: 6, names: DAYS },
];
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// Units of a duration, in nanoseconds.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// When a cron job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Whenever the clock on the wall shows this.
    At(Fields),
    /// So many seconds after the last time.
    Every(u64),
}

/// A bit for each number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    pub minutes: u64,
    pub hours: u64,
    pub days: u64,
    pub months: u64,
    /// From Sunday.
    pub weekdays: u64,
    /// Days or weekdays are a star: a date must match both fields. Otherwise a match of either field is enough.
    pub both: bool,
}

/// The problem of an invalid schedule.
pub fn fault(schedule: &str) -> Option<String> {
    parse(schedule).err()
}

pub fn parse(schedule: &str) -> Result<Schedule, String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    if let Some(time) = schedule.strip_prefix("@every ") {
        let seconds = duration(time)
            .ok_or_else(|| format!("failed to parse duration {schedule}: time: invalid duration {time:?}"))?;
        return Ok(Schedule::Every(seconds.max(1)));
    }
    let word = WORDS.iter().find(|(word, _)| *word == schedule).map(|(_, fields)| *fields);
    if schedule.starts_with('@') && word.is_none() {
        return Err(format!("unrecognized descriptor: {schedule}"));
    }
    let texts: Vec<&str> = word.unwrap_or(schedule).split_whitespace().collect();
    if texts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", texts.len(), texts.join(" ")));
    }
    let mut read = [(0, false); FIELDS.len()];
    for (nth, (text, field)) in texts.iter().zip(&FIELDS).enumerate() {
        for range in text.split(',') {
            let (bits, star) = of_range(range, field)?;
            read[nth] = (read[nth].0 | bits, read[nth].1 | star);
        }
    }
    let [(minutes, _), (hours, _), (days, day_star), (months, _), (weekdays, weekday_star)] = read;
    Ok(Schedule::At(Fields { minutes, hours, days, months, weekdays, both: day_star || weekday_star }))
}

/// The numbers of a range as bits, and whether it is a star.
fn of_range(text: &str, field: &Field) -> Result<(u64, bool), String> {
    let (range, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [range] => (range, None),
        [range, step] => (range, Some(step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let ends: Vec<&str> = range.split('-').collect();
    let (start, end, star) = match ends[..] {
        ["*" | "?"] => (field.low, field.high, true),
        [one] => {
            let number = number(one, field)?;
            (number, if step.is_some() { field.high } else { number }, false)
        }
        [from, to] => (number(from, field)?, number(to, field)?, false),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = step.map_or(Ok(1), |step| number(step, &Field { low: 0, high: 0, names: &[] }))?;
    let Field { low, high, .. } = field;
    if start < *low {
        Err(format!("beginning of range ({start}) below minimum ({low}): {text}"))
    } else if end > *high {
        Err(format!("end of range ({end}) above maximum ({high}): {text}"))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        let bits = (start..=end)
            .step_by(usize::try_from(step).unwrap_or(usize::MAX))
            .fold(0, |bits, number| bits | 1u64 << number);
        Ok((bits, star && step == 1))
    }
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    if let Some(at) = field.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(at as u32 + field.low);
    }
    text.parse().map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
}

/// `1h30m`, in whole seconds. One below zero is none.
fn duration(text: &str) -> Option<u64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    while !rest.is_empty() || total == 0.0 {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == &rest[..unit])?;
        total += amount * nanoseconds;
        rest = &rest[unit..];
        if rest.is_empty() {
            break;
        }
    }
    Some((sign * total / 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in ["* * * * *", "*/5 0-6 1,15 jan-MAR mon", "0 0 31 2 *", "@hourly", "@every 1h", "5/10 * * * ?"] {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, why) in [
            ("nope", "expected exactly 5 fields, found 1: [nope]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* 5-3 * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(fault(bad).as_deref(), Some(why), "{bad}");
        }
    }

    #[test]
    fn what_they_mean() {
        let bits = |numbers: &[u64]| numbers.iter().fold(0, |bits, number| bits | 1u64 << number);
        let Ok(Schedule::At(fields)) = parse("*/20 8-18/5 1,15 feb mon-Wed") else { panic!("it is a schedule") };
        assert_eq!(
            (fields.minutes, fields.hours, fields.days),
            (bits(&[0, 20, 40]), bits(&[8, 13, 18]), bits(&[1, 15]))
        );
        assert_eq!((fields.months, fields.weekdays, fields.both), (bits(&[2]), bits(&[1, 2, 3]), false));
        let both = |text: &str| matches!(parse(text), Ok(Schedule::At(Fields { both: true, .. })));
        assert_eq!(["0 0 * * 1", "0 0 1 * ?", "0 0 */2 * 1", "@weekly"].map(both), [true, true, false, true]);
        for (text, seconds) in [("1h30m", 5400), ("90s", 90), ("1.5m", 90), ("1ms", 1), ("0", 1), ("-1h", 1)] {
            assert_eq!(parse(&format!("@every {text}")), Ok(Schedule::Every(seconds)), "{text}");
        }
        for text in ["1", "h", "1x", "1h2", ""] {
            assert!(parse(&format!("@every {text}")).is_err(), "{text}");
        }
    }
}
