//! The time zone of a cron job.

use coracle_schema::{Path, Problem};
use serde_json::Value;

/// First parts of the names of time zones, and names of one part. Which places are there is the time zone database's to
/// say.
const ZONE_AREAS: [&str; 17] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
    "posix",
];

const ZONE_WORDS: [&str; 40] = [
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "Factory",
    "GB",
    "GB-Eire",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "Turkey",
    "UCT",
    "UTC",
    "WET",
];

pub(super) fn zone(spec: &Value, path: &Path) -> Option<Problem> {
    let zone = spec["timeZone"].as_str()?;
    let path = path.field("timeZone");
    let words = match zone {
        "" => "timeZone must be nil or non-empty string".to_owned(),
        _ if zone.eq_ignore_ascii_case("local") => {
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned()
        }
        _ if zone.split_once('/').is_some_and(|(area, place)| ZONE_AREAS.contains(&area) && !place.is_empty()) => {
            return None;
        }
        _ if ZONE_WORDS.contains(&zone) => return None,
        _ => format!("unknown time zone {zone}"),
    };
    Some(Problem::invalid(&path, zone, words))
}
