//! Times as Kubernetes reads and writes them: RFC 3339, in UTC when written.

/// A moment: seconds since 1970 in UTC, and the fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    seconds: i64,
    micros: u32,
}

/// A Time: any fraction and offset is read, whole seconds in UTC are written. The error is a 400's text.
pub fn canonical_time(text: &str) -> Result<String, String> {
    let moment = parse(text, Layout { name: "2006-01-02T15:04:05Z07:00", micros: false })?;
    Ok(format!("{}Z", date_and_time(moment.seconds)))
}

/// A MicroTime: exactly six digits of fraction, read and written.
pub fn canonical_micro_time(text: &str) -> Result<String, String> {
    let moment = parse(text, Layout { name: "2006-01-02T15:04:05.000000Z07:00", micros: true })?;
    Ok(format!("{}.{:06}Z", date_and_time(moment.seconds), moment.micros))
}

/// Seconds since 1970 and nanoseconds of a time that was written here; none of anything else.
pub fn moment(text: &str) -> Option<(i64, u32)> {
    let moment = parse(text, Layout { name: "", micros: false }).ok()?;
    Some((moment.seconds, moment.micros * 1000))
}

/// A Time; none outside the years that four digits can say.
pub fn write(seconds: i64, _nanos: u32) -> Option<String> {
    in_four_digits(seconds).then(|| format!("{}Z", date_and_time(seconds)))
}

/// A MicroTime.
pub fn write_micro(seconds: i64, nanos: u32) -> Option<String> {
    (in_four_digits(seconds) && nanos < 1_000_000_000)
        .then(|| format!("{}.{:06}Z", date_and_time(seconds), nanos / 1000))
}

fn in_four_digits(seconds: i64) -> bool {
    (days_since_1970(0, 1, 1)..days_since_1970(10_000, 1, 1)).contains(&seconds.div_euclid(86400))
}

#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    micros: bool,
}

/// Where in the text the reader is, and what for.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl Reader<'_> {
    fn refused(&self, element: &str) -> String {
        format!("parsing time {:?} as {:?}: cannot parse {:?} as {element:?}", self.text, self.layout.name, self.rest)
    }

    /// Reads a number with exactly `digits` digits; the number must be in `range`.
    fn number(
        &mut self,
        element: &str,
        digits: usize,
        range: std::ops::RangeInclusive<i64>,
        what: &str,
    ) -> Result<i64, String> {
        let head = self.rest.get(..digits).filter(|head| head.bytes().all(|byte| byte.is_ascii_digit()));
        let number = head.and_then(|head| head.parse().ok()).ok_or_else(|| self.refused(element))?;
        self.rest = &self.rest[digits..];
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("parsing time {:?}: {what} out of range", self.text))
        }
    }

    fn literal(&mut self, element: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(element).ok_or_else(|| self.refused(element))?;
        Ok(())
    }

    /// `.5`, cut to microseconds; none is zero.
    fn fraction(&mut self) -> Result<u32, String> {
        let digits = self.rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        if self.layout.micros && digits != 6 {
            return Err(self.refused(".000000"));
        }
        if digits == 0 {
            return Ok(0);
        }
        let (fraction, rest) = self.rest[1..].split_at(digits);
        self.rest = rest;
        Ok(fraction
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .take(6)
            .fold(0, |micros, digit| micros * 10 + u32::from(digit - b'0')))
    }

    /// `Z` or `+02:00`, in seconds.
    fn offset(&mut self) -> Result<i64, String> {
        if self.rest.starts_with('Z') {
            self.literal("Z")?;
            return Ok(0);
        }
        let sign = match self.rest.bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.refused("Z07:00")),
        };
        self.rest = &self.rest[1..];
        let hours = self.number("Z07:00", 2, 0..=24, "time zone offset hour")?;
        self.literal(":").map_err(|_| self.refused("Z07:00"))?;
        let minutes = self.number("Z07:00", 2, 0..=60, "time zone offset minute")?;
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn parse(text: &str, layout: Layout) -> Result<Moment, String> {
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.number("2006", 4, 0..=9999, "year")?;
    reader.literal("-")?;
    let month = reader.number("01", 2, 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.number("02", 2, 1..=31, "day")?;
    reader.literal("T")?;
    let hour = reader.number("15", 2, 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = reader.number("04", 2, 0..=59, "minute")?;
    reader.literal(":")?;
    let second = reader.number("05", 2, 0..=59, "second")?;
    let micros = reader.fraction()?;
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reader.rest));
    }
    if day > days_in(year, month) {
        return Err(format!("parsing time {text:?}: day out of range"));
    }
    let seconds = days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    // An offset can carry the first and the last day out of what four digits of a year can say.
    if !in_four_digits(seconds) {
        return Err(format!("parsing time {text:?}: year out of range"));
    }
    Ok(Moment { seconds, micros })
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the proleptic Gregorian calendar; years begin in March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// `2020-01-01T00:00:00`, the other way round.
fn date_and_time(seconds: i64) -> String {
    let days = seconds.div_euclid(86400) + 719_468;
    let of_day = seconds.rem_euclid(86400);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (year_of_era + era * 400, month + 3) } else { (year_of_era + era * 400 + 1, month - 9) };
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_in_utc() {
        for (text, expected) in [
            ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
            ("2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00Z"),
            ("2020-01-01T00:00:00.999Z", "2020-01-01T00:00:00Z"),
            ("2000-02-29T23:59:59-01:30", "2000-03-01T01:29:59Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.1234567890123Z", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(canonical_time(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(
            canonical_micro_time("2020-01-01T01:00:00.123456+01:00").as_deref(),
            Ok("2020-01-01T00:00:00.123456Z")
        );
    }

    #[test]
    fn refused_with_the_words_of_kubernetes() {
        let time = "2006-01-02T15:04:05Z07:00";
        for (text, why) in [
            ("", format!("parsing time \"\" as {time:?}: cannot parse \"\" as \"2006\"")),
            ("yesterday", format!("parsing time \"yesterday\" as {time:?}: cannot parse \"yesterday\" as \"2006\"")),
            ("2020-13-01T00:00:00Z", "parsing time \"2020-13-01T00:00:00Z\": month out of range".to_owned()),
            ("2021-02-29T00:00:00Z", "parsing time \"2021-02-29T00:00:00Z\": day out of range".to_owned()),
            ("2020-01-01", format!("parsing time \"2020-01-01\" as {time:?}: cannot parse \"\" as \"T\"")),
            (
                "2020-01-01T00:00:00",
                format!("parsing time \"2020-01-01T00:00:00\" as {time:?}: cannot parse \"\" as \"Z07:00\""),
            ),
            (
                "2020-01-01t00:00:00z",
                format!("parsing time \"2020-01-01t00:00:00z\" as {time:?}: cannot parse \"t00:00:00z\" as \"T\""),
            ),
            ("0000-01-01T00:00:00+01:00", "parsing time \"0000-01-01T00:00:00+01:00\": year out of range".to_owned()),
            ("2020-01-01T00:00:00ZZ", "parsing time \"2020-01-01T00:00:00ZZ\": extra text: \"Z\"".to_owned()),
        ] {
            assert_eq!(canonical_time(text), Err(why), "{text}");
        }
        let micro = "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" \
                     as \".000000\"";
        assert_eq!(canonical_micro_time("2020-01-01T00:00:00Z"), Err(micro.to_owned()));
    }

    #[test]
    fn every_day_comes_back() {
        for day in (-719_162..2_932_896i64).step_by(97) {
            let text = format!("{}Z", date_and_time(day * 86400 + 3661));
            assert_eq!(canonical_time(&text), Ok(text));
        }
    }
}
