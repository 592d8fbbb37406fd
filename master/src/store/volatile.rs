//! What lives in memory alone, kept over a restart of the process in one file on tmpfs: written at a clean close, read and removed at the
//! next start. A file of another store, another run of the host, or another moment is as good as none.

use super::disk::Disk;
use super::document::crc32;
use super::files::failed;
use super::state::Entry;
use super::{DiskError, names};
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt::Write;

const FILE: &str = "volatile.jsonl";
const FILE_TMP: &str = "volatile.tmp";
/// It holds at most what memory held.
const FILE_BYTES_MAX: usize = 1 << 30;

#[derive(PartialEq, Serialize, Deserialize)]
struct First {
    store: String,
    boot: String,
    revision: u64,
    crc: u32,
}

#[derive(Deserialize)]
struct Line<'a> {
    path: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

pub fn write<'a>(
    disk: &dyn Disk,
    store: &str,
    boot: &str,
    revision: Revision,
    entries: impl Iterator<Item = &'a Entry>,
) -> Result<(), DiskError> {
    let mut lines = String::new();
    for entry in entries {
        let path = serde_json::to_string(&names::path(&entry.stored.key)).expect("a string");
        let object = String::from_utf8_lossy(&entry.stored.json);
        writeln!(lines, "{{\"path\":{path},\"object\":{object}}}").expect("a String takes all");
    }
    let first = First { store: store.to_owned(), boot: boot.to_owned(), revision: revision.0, crc: crc32(lines.as_bytes()) };
    let first = serde_json::to_string(&first).expect("plain fields");
    disk.create(FILE_TMP, format!("{first}\n{lines}").as_bytes()).map_err(|error| failed("write", FILE)(error))?;
    disk.rename(FILE_TMP, FILE).map_err(|error| failed("rename", FILE)(error))
}

/// None: there is none that belongs to this store, this run of the host and this very revision.
pub fn read(disk: &dyn Disk, store: &str, boot: &str, revision: Revision) -> Option<Vec<(Key, Bytes)>> {
    let text = String::from_utf8(disk.read(FILE, FILE_BYTES_MAX).ok()?).ok()?;
    let (first, lines) = text.split_once('\n')?;
    let wanted = First { store: store.to_owned(), boot: boot.to_owned(), revision: revision.0, crc: crc32(lines.as_bytes()) };
    if serde_json::from_str::<First>(first).ok()? != wanted {
        return None;
    }
    let line = |line: &str| {
        let line: Line = serde_json::from_str(line).ok()?;
        Some((names::key(&line.path)?, Bytes::copy_from_slice(line.object.get().as_bytes())))
    };
    lines.lines().map(line).collect()
}

pub fn remove(disk: &dyn Disk) {
    // If it stays, its revision will not fit the next time.
    disk.unlink(FILE).ok();
}
