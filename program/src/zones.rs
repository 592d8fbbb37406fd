//! Time zones of this host, from its time zone database (Debian's package tzdata).

use jiff::tz::TimeZone;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const FOLDER: &str = "/usr/share/zoneinfo";
/// The zone of this host.
const LOCAL: &str = "/etc/localtime";
/// The longest has 4 KB.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A zone by name. An empty name: the zone of this host, or UTC if the host has no zone.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    of(name, Path::new(FOLDER))
}

/// Why there is no zone of this name.
pub fn fault(name: &str) -> Option<String> {
    zone(name).err()
}

fn of(name: &str, folder: &Path) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.is_empty() {
        return Ok(read("Local", Path::new(LOCAL)).unwrap_or(TimeZone::UTC));
    }
    let inside = |part: &str| !part.is_empty() && !part.starts_with('.');
    let path = folder.join(name);
    if !name.split('/').all(inside) || !path.exists() {
        let lacking = if folder.is_dir() { "" } else { ": this host has no time zones, install its package tzdata" };
        return Err(format!("unknown time zone {name}{lacking}"));
    }
    // In the words of Go.
    let why = if path.is_dir() { "is a directory" } else { "malformed time zone information" };
    read(name, &path).ok_or_else(|| why.to_owned())
}

fn read(name: &str, path: &Path) -> Option<TimeZone> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif(name, &bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_time_zones_says_so() {
        let nowhere = Path::new("/nonexistent/zoneinfo");
        assert!(of("UTC", nowhere).is_ok() && of("", nowhere).is_ok());
        let why = of("Europe/Berlin", nowhere).unwrap_err();
        assert!(why.starts_with("unknown time zone Europe/Berlin: ") && why.contains("tzdata"), "{why}");
        let there = Path::new("/");
        for (name, why) in [
            ("Europe/Berlin", "unknown time zone Europe/Berlin"),
            ("../etc/localtime", "unknown time zone ../etc/localtime"),
            ("etc/passwd", "malformed time zone information"),
            ("etc", "is a directory"),
        ] {
            assert_eq!(of(name, there).unwrap_err(), why);
        }
    }
}
