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

/// A zone by its name. An empty name: that of this host, or UTC where it has none.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.is_empty() {
        return Ok(read("Local", Path::new(LOCAL)).unwrap_or(TimeZone::UTC));
    }
    let inside = |part: &str| !part.is_empty() && !part.starts_with('.');
    if !name.split('/').all(inside) {
        return Err(format!("unknown time zone {name}"));
    }
    read(name, &Path::new(FOLDER).join(name)).ok_or_else(|| format!("unknown time zone {name}"))
}

fn read(name: &str, path: &Path) -> Option<TimeZone> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif(name, &bytes).ok()
}
