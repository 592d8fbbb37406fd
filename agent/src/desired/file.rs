//! Reads one manifest file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use coracle_api::meta::Time;

use super::good::{self, Good, Renewed};
use super::inotify::hidden;
use super::manifest::{self, Entry, Fault, Origin};
use crate::facts::wanted::Wanted;

/// A manifest has some hundred bytes; a bigger file is no manifest.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// How files are read.
#[derive(Clone, Copy, Debug)]
pub struct ReadSettings<'a> {
    pub node_name: &'a str,
    /// `allow-unknown-fields`
    pub allow_unknown: bool,
}

/// The content of one file, for `check`.
#[derive(Debug, Default)]
pub struct Looked {
    pub pods: Vec<Arc<Wanted>>,
    /// Objects that are not taken.
    pub refused: Vec<Fault>,
    pub warnings: Vec<Fault>,
}

/// Unchanged: not read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub modified: Option<SystemTime>,
    pub length: u64,
    pub inode: u64,
}

impl Stamp {
    /// Of a file that was not read yet.
    pub const NONE: Stamp = Stamp { modified: None, length: 0, inode: 0 };

    /// As texts of the API have it.
    pub fn modified_at(&self) -> Option<String> {
        let at = jiff::Timestamp::try_from(self.modified?).ok()?;
        Some(Time(at).to_string())
    }
}

pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(Stamp { modified: meta.modified().ok(), length: meta.len(), inode: meta.ino() })
}

/// The content of one file, as an agent without a last good version would read the file now.
pub fn look(path: &Path, settings: ReadSettings<'_>) -> Result<Looked, Vec<Fault>> {
    let stamp = stamp(path).map_err(|error| vec![Fault::of_file(error.to_string())])?;
    let Renewed { good, refused, warnings, .. } = good::renewed(take(path, stamp, settings)?, None);
    let refused = refused.into_iter().map(|(fault, _)| fault).collect();
    Ok(Looked { pods: good.pods().cloned().collect(), refused, warnings })
}

/// The last good versions of files, as the last agent kept them. None: one that cannot be read any more.
pub(super) fn last_good_versions(folder: &Path) -> impl Iterator<Item = (OsString, Option<Good>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| !hidden(&entry.file_name())).filter_map(|entry| {
        let document = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
        let good = Good::kept(document);
        let good = good.inspect_err(|why| log::error!("last good version {}: {why}", entry.path().display()));
        Some((entry.file_name(), good.ok()))
    })
}

/// The files of a directory that the agent would read.
pub fn names(path: &Path) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !hidden(&entry.file_name()) && !entry.path().is_dir() {
            names.insert(entry.file_name());
        }
    }
    Ok(names)
}

/// The objects of a file. The error: it is unknown which objects the file has.
pub(super) fn take(path: &Path, stamp: Stamp, settings: ReadSettings<'_>) -> Result<Vec<Entry>, Vec<Fault>> {
    let (text, written) = read_text(path, stamp).map_err(|why| vec![Fault::of_file(why)])?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let ReadSettings { node_name, allow_unknown } = settings;
    manifest::read(&text, Origin { file_name: &file_name, node_name, written, allow_unknown })
}

fn read_text(path: &Path, stamp: Stamp) -> Result<(String, Time), String> {
    let too_big = || format!("it has more than {FILE_BYTES_MAX} bytes; a manifest is smaller");
    if stamp.length > FILE_BYTES_MAX {
        return Err(too_big());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_big());
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("byte {}: it is not UTF-8 text", error.utf8_error().valid_up_to()))?;
    let seconds =
        stamp.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs());
    let written = i64::try_from(seconds).ok().and_then(Time::from_seconds);
    Ok((text, written.unwrap_or_else(|| Time::from_seconds(0).expect("1970 is a time"))))
}
