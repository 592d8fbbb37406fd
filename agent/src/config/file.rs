//! The configuration file: a line `key = value` for each flag.

use std::collections::BTreeMap;

use super::{BadConfig, KEYS};

/// A configuration file has some ten keys; what is bigger is another file.
pub(super) const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A value, and where it stands: for messages.
pub(super) struct Given {
    pub(super) value: String,
    pub(super) at: String,
}

pub(super) fn read_file(path: &str) -> Result<BTreeMap<String, Given>, BadConfig> {
    let fail = |error: std::io::Error| BadConfig(format!("read the configuration {path}: {error}"));
    if std::fs::metadata(path).map_err(fail)?.len() > FILE_BYTES_MAX {
        return Err(BadConfig(format!("read the configuration {path}: more than {FILE_BYTES_MAX} bytes")));
    }
    parse_file(path, &std::fs::read_to_string(path).map_err(fail)?)
}

pub(super) fn parse_file(path: &str, text: &str) -> Result<BTreeMap<String, Given>, BadConfig> {
    let mut given = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let at = format!("{path} line {}", index + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(BadConfig(format!("{at}: {line:?} is not `key = value`")));
        };
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            return Err(BadConfig(format!("{at}: there is no key {key:?}; the keys are {}", KEYS.join(", "))));
        }
        if given.insert(key.to_owned(), Given { value: value.to_owned(), at: format!("{at}: {key}") }).is_some() {
            return Err(BadConfig(format!("{at}: {key} stands there twice")));
        }
    }
    Ok(given)
}
