//! The time zone of a cron job.

use super::rules::Rules;
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Longest part of a name, as the time zone database has it.
const PART_BYTES_MAX: usize = 14;

/// Asks the time zone database why it has no zone of a name. None: it has one.
#[derive(Clone, Copy)]
pub struct ZoneFault(pub fn(&str) -> Option<String>);

impl Default for ZoneFault {
    /// For whoever has no database at hand: each name is one.
    fn default() -> ZoneFault {
        ZoneFault(|_| None)
    }
}

pub(super) fn zone(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let Some(zone) = spec["timeZone"].as_str() else { return Vec::new() };
    let told = |words: &str| Problem::invalid(&path.field("timeZone"), zone, words);
    if zone.is_empty() {
        return vec![told("timeZone must be nil or non-empty string")];
    }
    if !zone.split('/').all(is_part) {
        return vec![told(&format!("unknown time zone {zone}"))];
    }
    let local = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    let local = zone.eq_ignore_ascii_case("local").then(|| told(local));
    // The zone of the host is one, and is not asked for.
    let fault = if zone == "Local" { None } else { (rules.zone_fault.0)(zone) };
    local.into_iter().chain(fault.map(|fault| told(&fault))).collect()
}

fn is_part(part: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=PART_BYTES_MAX).contains(&part.len())
        && part.bytes().all(known)
        && !part.starts_with('-')
        && !matches!(part, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_database_is_asked() {
        let database = |name: &str| {
            let known = matches!(name, "UTC" | "Europe/Berlin" | "Singapore" | "Etc/GMT+5");
            (!known).then(|| format!("unknown time zone {name}"))
        };
        let rules = Rules { zone_fault: ZoneFault(database), ..Rules::default() };
        let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        for (name, expected) in [
            ("UTC", vec![]),
            ("Europe/Berlin", vec![]),
            ("Singapore", vec![]),
            ("Etc/GMT+5", vec![]),
            ("Europe/Berln", vec!["unknown time zone Europe/Berln"]),
            ("utc", vec!["unknown time zone utc"]),
            ("", vec!["timeZone must be nil or non-empty string"]),
            ("Local", vec![explicit]),
            ("local", vec![explicit, "unknown time zone local"]),
            ("../Europe/Berlin", vec!["unknown time zone ../Europe/Berlin"]),
            ("/Europe/Berlin", vec!["unknown time zone /Europe/Berlin"]),
            ("-a", vec!["unknown time zone -a"]),
            ("Europe/Abcdefghijklmno", vec!["unknown time zone Europe/Abcdefghijklmno"]),
            ("Europe/Berlin\n", vec!["unknown time zone Europe/Berlin\n"]),
        ] {
            let found = zone(&json!({"timeZone": name}), rules, &Path::new("spec"));
            let words: Vec<&str> = found.iter().map(|problem| problem.detail.as_str()).collect();
            assert_eq!(words, expected, "{name}");
        }
        assert!(zone(&json!({}), rules, &Path::new("spec")).is_empty());
    }
}
