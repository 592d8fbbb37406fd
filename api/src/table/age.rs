//! Ages as people read them: `5s`, `3m20s`, `4h5m`, `7d`, `2y11d`.

use super::reading::Reading;
use crate::meta::Time;

/// Unknown, where there is no time.
const UNKNOWN: &str = "<unknown>";

/// How long ago a time of a document was.
pub fn since(time: &Reading, now: Time) -> String {
    match seconds(time) {
        Some(then) => span(now.seconds() - then),
        None => UNKNOWN.to_owned(),
    }
}

/// Seconds since 1970 of a time that a document says.
pub fn seconds(time: &Reading) -> Option<i64> {
    time.as_str().and_then(Time::parse).map(Time::seconds)
}

/// The longer, the coarser. Clocks differ: what is to come in a second or two is now.
pub fn span(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |large: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let (minute, hour, day) = (60, 3600, 86400);
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 61, "3h1m"),
            (8 * hour, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day, "8d"),
            (2 * 365 * day - 1, "729d"),
            (2 * 365 * day, "2y"),
            (3 * 365 * day + day, "3y1d"),
            (8 * 365 * day, "8y"),
        ] {
            assert_eq!(span(seconds), expected, "{seconds}");
        }
    }
}
