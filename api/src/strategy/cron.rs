//! When a cron job runs: five fields, or a word. The messages are those of the parser that Kubernetes uses.

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
const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule; none when nothing is.
pub fn fault(schedule: &str) -> Option<String> {
    if schedule.is_empty() {
        return Some("empty spec string".to_owned());
    }
    if schedule.starts_with('@') {
        let every = schedule.strip_prefix("@every ").is_some_and(|time| !time.is_empty());
        return (!every && !WORDS.contains(&schedule)).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).find_map(|(text, field)| text.split(',').find_map(|range| of_range(range, field)))
}

fn of_range(text: &str, field: &Field) -> Option<String> {
    let (range, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [range] => (range, None),
        [range, step] => (range, Some(step)),
        _ => return Some(format!("too many slashes: {text}")),
    };
    let ends: Vec<&str> = range.split('-').collect();
    let (start, end) = match ends[..] {
        ["*" | "?"] => (field.low, field.high),
        [one] => match number(one, field) {
            Ok(number) => (number, if step.is_some() { field.high } else { number }),
            Err(why) => return Some(why),
        },
        [from, to] => match (number(from, field), number(to, field)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(why), _) | (_, Err(why)) => return Some(why),
        },
        _ => return Some(format!("too many hyphens: {text}")),
    };
    let step = match step.map(|step| number(step, &Field { low: 0, high: 0, names: &[] })) {
        None => 1,
        Some(Ok(step)) => step,
        Some(Err(why)) => return Some(why),
    };
    let Field { low, high, .. } = field;
    if start < *low {
        Some(format!("beginning of range ({start}) below minimum ({low}): {text}"))
    } else if end > *high {
        Some(format!("end of range ({end}) above maximum ({high}): {text}"))
    } else if start > end {
        Some(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else {
        (step == 0).then(|| format!("step of range should be a positive number: {text}"))
    }
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    if let Some(at) = field.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(at as u32 + field.low);
    }
    text.parse().map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
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
}
