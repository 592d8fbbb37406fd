//! PURE. A line of the journal and its content. One line is one JSON object with its checksum last, so that `jq` reads
//! it and a damaged byte is found:
//!
//! ```text
//! {"seg":370,"n":26,"b":26,"op":"open","prev":25,"reserved":9000,"carry":3,"bytes":1048576,"of":"8a2...","crc":"..."}
//! {"seg":370,"n":27,"b":26,"op":"put","rev":256,"key":"core/pods/default/web","was":"-","obj":{...},"crc":"6415280b"}
//! {"seg":370,"n":30,"b":30,"op":"del","was":"1c2b09fa","rev":259,"key":"core/pods/default/web","crc":"..."}
//! {"seg":370,"n":31,"b":31,"op":"reserve","reserved":121259,"crc":"..."}
//! ```
//!
//! `seg` is the segment that the line was written for: a file may hold lines of an earlier segment that it was. `n`
//! counts lines over all segments without a gap; `b` is the first line of the batch that was made durable in one go.
//! `was` is the checksum of the object's file before the change: any other content comes from another program.

use crate::store::flat::document::crc32;
use crate::store::flat::names;
use crate::store::flat::setup::REVISION_MAX;
use bytes::Bytes;
use coracle_api::meta::{Key, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// The text before the eight digits of the checksum, and after them.
const CRC_BEFORE: &[u8] = b",\"crc\":\"";
const CRC_AFTER: &[u8] = b"\"}";
const CRC_DIGITS: usize = 8;
/// `was`, where there was no file; and `by`, where a person wrote it.
const ABSENT: &str = "-";
const HAND: &str = "hand";

#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Begins a segment. `prev`: everything after it in earlier segments never was. `carry`: so many of the following
    /// records were found unproven at a start; the segment counts only with all of them. `bytes`: so long the file was
    /// made. `of`: the mark of the segment's journal; 0: an older master wrote no mark. `over`: the file was an earlier
    /// segment, so lines of the earlier segment may lie behind the end; a master that wrote no `over` may have reused a
    /// segment all the same.
    Open {
        prev: u64,
        reserved: u64,
        carry: u64,
        bytes: u64,
        of: u32,
        over: bool,
    },
    /// The durable part of an object, compact, its revision inside. `by_hand`: a person wrote it into the file.
    Put {
        revision: Revision,
        key: Arc<Key>,
        was: Was,
        by_hand: bool,
        object: Bytes,
    },
    Remove {
        revision: Revision,
        key: Arc<Key>,
        was: Was,
    },
    /// Revisions up to this one may be used by what is not journaled.
    Reserve {
        reserved: u64,
    },
}

impl Record {
    pub fn key(&self) -> Option<&Arc<Key>> {
        match self {
            Record::Put { key, .. } | Record::Remove { key, .. } => Some(key),
            Record::Open { .. } | Record::Reserve { .. } => None,
        }
    }
}

/// The state of an object's file that a record follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Was {
    /// A master wrote the record that did not say it.
    #[default]
    Unknown,
    Absent,
    /// The checksum of the compact document.
    Sum(u32),
}

impl Was {
    pub fn of(file_crc: Option<u32>) -> Was {
        file_crc.map_or(Was::Absent, Was::Sum)
    }

    fn read(text: Option<&str>) -> Option<Was> {
        match text {
            None => Some(Was::Unknown),
            Some(ABSENT) => Some(Was::Absent),
            Some(sum) => u32::from_str_radix(sum, 16).ok().map(Was::Sum),
        }
    }
}

/// As it stands in a line, with the comma behind it.
impl fmt::Display for Was {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Was::Unknown => Ok(()),
            Was::Absent => write!(f, "\"was\":\"{ABSENT}\","),
            Was::Sum(sum) => write!(f, "\"was\":\"{sum:08x}\","),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The segment that the line was written for; None: an older master wrote no segment numbers, and never wrote over
    /// a segment.
    pub segment: Option<u64>,
    pub n: u64,
    /// The number of the first line of the batch.
    pub batch: u64,
    pub record: Record,
}

/// How long a line will be, and mostly some more: room for a batch is made at once.
pub fn length_about(record: &Record) -> usize {
    const AROUND: usize = 256;
    AROUND + if let Record::Put { object, .. } = record { object.len() } else { 0 }
}

/// How every line of a segment begins.
pub fn beginning(segment: u64) -> String {
    format!("{{\"seg\":{segment},")
}

/// How it goes on where a batch begins.
pub fn number(n: u64) -> String {
    format!("\"n\":{n},\"b\":{n},")
}

/// Adds the line to a batch, with its end of line.
pub fn encode(segment: u64, n: u64, batch: u64, record: &Record, out: &mut Vec<u8>) {
    let begun = out.len();
    let all = "a Vec takes all";
    write!(out, "{{\"seg\":{segment},\"n\":{n},\"b\":{batch},").expect(all);
    match record {
        Record::Open { prev, reserved, carry, bytes, of, over } => {
            write!(out, "\"op\":\"open\",\"prev\":{prev},\"reserved\":{reserved}").expect(all);
            write!(out, ",\"carry\":{carry},\"bytes\":{bytes},\"of\":\"{of:08x}\"").expect(all);
            if *over {
                write!(out, ",\"over\":true").expect(all);
            }
        }
        Record::Put { revision, key, was, by_hand, object } => {
            // A path holds nothing that JSON escapes.
            write!(out, "\"op\":\"put\",\"rev\":{revision},\"key\":\"{}\",{was}", names::label(key)).expect(all);
            if *by_hand {
                write!(out, "\"by\":\"{HAND}\",").expect(all);
            }
            out.extend_from_slice(b"\"obj\":");
            out.extend_from_slice(object);
        }
        Record::Remove { revision, key, was } => {
            write!(out, "\"op\":\"del\",{was}\"rev\":{revision},\"key\":\"{}\"", names::label(key)).expect(all);
        }
        Record::Reserve { reserved } => write!(out, "\"op\":\"reserve\",\"reserved\":{reserved}").expect(all),
    }
    let crc = crc32(&out[begun..]);
    writeln!(out, ",\"crc\":\"{crc:08x}\"}}").expect(all);
}

/// None: it is no line of ours, or not whole. The object shares the memory of `text`.
pub fn decode(text: &Bytes, checksums: bool) -> Option<Line> {
    let tail = CRC_BEFORE.len() + CRC_DIGITS + CRC_AFTER.len();
    let (checked, tail) = text.split_at(text.len().checked_sub(tail)?);
    let digits = tail.strip_prefix(CRC_BEFORE)?.strip_suffix(CRC_AFTER)?;
    let crc = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    if checksums && crc != crc32(checked) {
        return None;
    }
    let raw: Raw = serde_json::from_slice(text).ok()?;
    let numbers = [Some(raw.n), Some(raw.b), raw.rev, raw.prev, raw.reserved, raw.carry];
    if numbers.into_iter().flatten().any(|number| number > REVISION_MAX) {
        return None;
    }
    let key = || names::of_label(raw.key.as_deref()?).map(Arc::new);
    let record = match raw.op.as_ref() {
        "open" => {
            let of = raw.of.map_or(Some(0), |of| u32::from_str_radix(&of, 16).ok())?;
            Record::Open {
                prev: raw.prev?,
                reserved: raw.reserved?,
                carry: raw.carry?,
                bytes: raw.bytes?,
                of,
                over: raw.over.unwrap_or_default(),
            }
        }
        "put" => {
            let object = text.slice_ref(raw.obj?.get().as_bytes());
            let by_hand = raw.by.as_deref() == Some(HAND);
            Record::Put {
                revision: Revision(raw.rev?),
                key: key()?,
                was: Was::read(raw.was.as_deref())?,
                by_hand,
                object,
            }
        }
        "del" => Record::Remove { revision: Revision(raw.rev?), key: key()?, was: Was::read(raw.was.as_deref())? },
        "reserve" => Record::Reserve { reserved: raw.reserved? },
        _ => return None,
    };
    Some(Line { segment: raw.seg, n: raw.n, batch: raw.b, record })
}

#[derive(Deserialize)]
struct Raw<'a> {
    seg: Option<u64>,
    n: u64,
    b: u64,
    #[serde(borrow)]
    op: Cow<'a, str>,
    rev: Option<u64>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    was: Option<Cow<'a, str>>,
    #[serde(borrow)]
    by: Option<Cow<'a, str>>,
    #[serde(borrow)]
    obj: Option<&'a RawValue>,
    prev: Option<u64>,
    reserved: Option<u64>,
    carry: Option<u64>,
    bytes: Option<u64>,
    over: Option<bool>,
    #[serde(borrow)]
    of: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    fn records() -> Vec<Record> {
        let key = |name: &str| {
            Arc::new(Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: name.to_owned() })
        };
        let put = |was, by_hand| {
            let object = Bytes::from_static(br#"{"a":"\n\"}"}"#);
            Record::Put { revision: Revision(7), key: key("web"), was, by_hand, object }
        };
        vec![
            Record::Open { prev: 6, reserved: 100, carry: 1, bytes: 4096, of: 7, over: false },
            Record::Open { prev: 6, reserved: 100, carry: 1, bytes: 4096, of: 7, over: true },
            put(Was::Unknown, false),
            put(Was::Absent, true),
            put(Was::Sum(0x1c), false),
            Record::Remove { revision: Revision(8), key: key(&"Ü\"\\".repeat(100)), was: Was::Sum(7) },
            Record::Remove { revision: Revision(8), key: key("web"), was: Was::Unknown },
            Record::Reserve { reserved: 200 },
        ]
    }

    #[test]
    fn a_line_says_the_same_when_it_is_read() {
        for record in records() {
            let mut text = Vec::new();
            encode(3, 7, 5, &record, &mut text);
            assert_eq!(text.pop(), Some(b'\n'));
            assert!(!text.contains(&b'\n'), "{}", String::from_utf8_lossy(&text));
            assert!(text.starts_with(beginning(3).as_bytes()));
            serde_json::from_slice::<serde_json::Value>(&text).expect("every line is JSON");
            assert_eq!(decode(&Bytes::from(text), true), Some(Line { segment: Some(3), n: 7, batch: 5, record }));
        }
    }

    #[test]
    fn every_damaged_bit_is_found() {
        for record in records() {
            let mut text = Vec::new();
            encode(3, 7, 5, &record, &mut text);
            text.pop();
            for bit in 0..text.len() * 8 {
                let mut bad = text.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let decoded = decode(&Bytes::from(bad), true);
                // The letters of the checksum itself may change their case.
                assert!(decoded.as_ref().is_none_or(|line| line.record == record), "bit {bit}: {decoded:?}");
            }
            for cut in 0..text.len() {
                assert_eq!(decode(&Bytes::copy_from_slice(&text[..cut]), true), None);
            }
        }
    }

    #[test]
    fn a_number_that_no_store_comes_to_is_no_line_of_ours() {
        let check = |n: u64, reserved: u64, is_line: bool| {
            let mut text = Vec::new();
            encode(3, n, n, &Record::Reserve { reserved }, &mut text);
            text.pop();
            assert_eq!(decode(&Bytes::from(text), true).is_some(), is_line, "{n} {reserved}");
        };
        check(7, REVISION_MAX, true);
        check(7, REVISION_MAX + 1, false);
        check(7, u64::MAX, false);
        check(u64::MAX, 7, false);
    }
}
