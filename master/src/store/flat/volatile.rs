//! Keeps objects that live in memory alone over a restart of the process, in one file on tmpfs: written at a clean
//! close, read and removed at the next start. A file of a different store, host boot or revision is ignored.

use super::disk::{Disk, DiskFile};
use super::disk_error::failed;
use super::entry::Entry;
use super::names;
use super::outline::Outline;
use super::summary::Texts;
use crate::store::DiskError;
use bytes::Bytes;
use coracle_api::meta::{Durable, Key, Revision};
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

const FILE: &str = "volatile.jsonl";
const FILE_TMP: &str = "volatile.tmp";
/// It holds at most what memory held.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Few calls, and memory that the processor still has at hand.
const PIECE_BYTES: usize = 64 << 10;

#[derive(PartialEq, Serialize, Deserialize)]
struct First {
    store: String,
    boot: String,
    revision: u64,
    crc: u32,
}

/// An object as it was in memory.
pub struct Kept {
    pub json: Bytes,
    /// None: it has to be read whole, for it claims something.
    pub outline: Option<Outline>,
}

/// The facts that a start would otherwise read out of each object.
#[derive(Deserialize)]
struct Facts<'a> {
    revision: u64,
    /// A part of it lies in a file.
    part: bool,
    /// This part is all but the last renewal of a lease.
    #[serde(default)]
    renewed: bool,
    #[serde(borrow)]
    labels: Texts<'a>,
}

/// A line is `{"path":"PATH","told":TOLD,"object":OBJECT}`. A path holds nothing that JSON escapes, so it ends where
/// the next name begins.
const PATH: &str = "{\"path\":\"";
const FACTS: &str = "\",\"told\":";
const OBJECT: &str = ",\"object\":";

/// Twice over the entries: the checksum stands in the first line, and all of them beside what memory holds already
/// would be more than a small host has.
pub fn write<'a>(
    disk: &dyn Disk,
    store: &str,
    boot: &str,
    revision: Revision,
    entries: impl Iterator<Item = &'a Entry> + Clone,
) -> Result<(), DiskError> {
    let mut crc = Hasher::new();
    let mut line = Vec::new();
    for entry in entries.clone() {
        line.clear();
        add_line(&mut line, entry);
        crc.update(&line);
    }
    let first = First { store: store.to_owned(), boot: boot.to_owned(), revision: revision.0, crc: crc.finalize() };
    let mut piece = serde_json::to_vec(&first).expect("plain fields");
    piece.push(b'\n');
    disk.create(FILE_TMP, &piece)
        .and_then(|()| write_on(&*disk.open(FILE_TMP)?, piece, entries))
        .map_err(|error| failed("write", FILE)(error))?;
    disk.rename(FILE_TMP, FILE).map_err(|error| failed("rename", FILE)(error))
}

/// After the first line, piece by piece.
fn write_on<'a>(file: &dyn DiskFile, first: Vec<u8>, entries: impl Iterator<Item = &'a Entry>) -> io::Result<()> {
    let (mut at, mut piece) = (first.len() as u64, first);
    piece.clear();
    let mut flush = |piece: &mut Vec<u8>| {
        file.write_at(at, piece)?;
        at += piece.len() as u64;
        piece.clear();
        Ok(())
    };
    for entry in entries {
        add_line(&mut piece, entry);
        if piece.len() >= PIECE_BYTES {
            flush(&mut piece)?;
        }
    }
    flush(&mut piece)
}

fn add_line(lines: &mut Vec<u8>, entry: &Entry) {
    let (path, facts) = (names::path(&entry.stored.key), facts(entry));
    for part in [PATH, &path, FACTS, &facts, OBJECT].map(str::as_bytes).into_iter().chain([&*entry.stored.json, b"}\n"])
    {
        lines.extend_from_slice(part);
    }
}

fn facts(entry: &Entry) -> String {
    if !entry.claims.is_empty() {
        return "null".to_owned();
    }
    let labels: BTreeMap<&str, &str> = entry.stored.labels.iter().collect();
    let (part, renewed) = match entry.durable {
        Durable::Whole | Durable::Nothing => (false, false),
        Durable::WithoutStatus => (true, false),
        Durable::WithoutRenewal => (true, true),
    };
    json!({"revision": entry.stored.revision.0, "part": part, "renewed": renewed, "labels": labels}).to_string()
}

/// None: no file belongs to this store, this run of the host and this very revision. The file is read line by line, so
/// that the content is in memory only once.
pub fn read(disk: &dyn Disk, store: &str, boot: &str, revision: Revision) -> Option<Vec<(Key, Kept)>> {
    let mut text = BufReader::with_capacity(PIECE_BYTES, disk.reader(FILE).ok()?.take(FILE_BYTES_MAX));
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        text.read_until(b'\n', line).ok()
    };
    next(&mut line)?;
    let said: First = serde_json::from_slice(&line).ok()?;
    let (mut kept, mut crc) = (Vec::new(), Hasher::new());
    while next(&mut line)? > 0 {
        crc.update(&line);
        kept.push(kept_of(&line)?);
    }
    (said == First { store: store.to_owned(), boot: boot.to_owned(), revision: revision.0, crc: crc.finalize() })
        .then_some(kept)
}

fn kept_of(line: &[u8]) -> Option<(Key, Kept)> {
    let line = line.strip_prefix(PATH.as_bytes())?.strip_suffix(b"}\n")?;
    let path = &line[..memchr::memchr(b'"', line)?];
    let rest = line[path.len()..].strip_prefix(FACTS.as_bytes())?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Option<Facts>>();
    let outline = values.next()?.ok()?.map(Facts::outline);
    let object = rest[values.byte_offset()..].strip_prefix(OBJECT.as_bytes())?;
    Some((names::key(std::str::from_utf8(path).ok()?)?, Kept { json: Bytes::copy_from_slice(object), outline }))
}

impl Facts<'_> {
    fn outline(self) -> Outline {
        let durable = match (self.part, self.renewed) {
            (false, _) => Durable::Nothing,
            (true, false) => Durable::WithoutStatus,
            (true, true) => Durable::WithoutRenewal,
        };
        Outline { said: Some(Revision(self.revision)), durable, labels: self.labels.iter().collect() }
    }
}

pub fn remove(disk: &dyn Disk) {
    // If it stays, its revision will not fit the next time.
    disk.unlink(FILE).ok();
}
