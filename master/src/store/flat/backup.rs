//! A backup: everything durable at one revision, as lines of JSON that a person can read and a pipe can carry; and
//! back.
//!
//! ```text
//! {"backup":2,"store":"...","revision":1234,"objects":57,"left_out":[],"keys":3}
//! {"path":"core/pods/default/web.json","object":{...}}          57 of them
//! {"key":"ca.crt","text":"..."}                                 3 of them: the files of the cluster's keys
//! {"end":57,"crc":"1f00ba77"}                                   CRC-32 of all bytes before this line
//! ```
//!
//! A restore (`restore.rs`) makes a directory of files without a journal, as a person might, with revisions far beyond
//! those of the backup: clients that saw a later state have to list again.

use super::content::FILE_BYTES_MAX;
use super::content::OBJECT_BYTES_MAX;
use super::document::Crc;
use super::folders::OBJECTS;
use super::seal::Sealing;
use super::seal::keys::is_sealed_text;
use super::setup::REVISION_MAX;
use super::{document, names};
use crate::store::{FlatStore, LeftOut, Store, locked};
use bytes::Bytes;
use coracle_api::meta::{Durable, Key};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::sync::Arc;

/// The form that this program writes. It reads the form before, too, which has no keys.
const BACKUP: u32 = 2;
/// The same where objects and keys are sealed, as they lie on the disk.
const BACKUP_SEALED: u32 = 3;
/// Files of keys in one backup.
const KEYS_MAX: usize = 1000;
/// A line is an object and its place.
const LINE_BYTES_MAX: usize = FILE_BYTES_MAX + 4096;
/// A store that goes on from it is to come far.
const BACKUP_REVISION_MAX: u64 = REVISION_MAX / 2;
/// Lines are handed on in pieces of about this size.
const PIECE_BYTES: usize = 64 << 10;
#[derive(Serialize, Deserialize)]
struct First {
    backup: u32,
    store: String,
    revision: u64,
    objects: usize,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    #[serde(default)]
    keys: usize,
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// A file of the cluster's keys.
#[derive(Serialize, Deserialize)]
struct KeyLine<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// Whether a file of keys may be called so: the name leads nowhere else.
pub fn is_key_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_letter)
}

#[derive(Serialize, Deserialize)]
struct End {
    end: usize,
    crc: String,
}

/// A backup being written: its pieces, in order. It shares the store's memory and keeps nobody waiting.
pub struct Backup {
    first: Option<First>,
    objects: std::vec::IntoIter<(Arc<Key>, Bytes, Durable)>,
    keys: Vec<(String, String)>,
    sealing: Sealing,
    count: usize,
    crc: Crc,
    ended: bool,
}

impl FlatStore {
    /// Everything durable, as it is now; sealed as it lies on the disk. `keys`: name and content of the files of the
    /// cluster's keys, which are all sealed where there is a key.
    pub fn backup(&self, keys: Vec<(String, String)>) -> Backup {
        let state = self.state();
        let durable = state.all().filter(|entry| entry.file_crc.is_some());
        let objects: Vec<_> =
            durable.map(|entry| (entry.stored.key.clone(), entry.stored.json.clone(), entry.durable)).collect();
        let damaged = state.all_damage().cloned();
        let unknown =
            state.unknown().map(|(folder, why)| LeftOut { file: format!("{OBJECTS}/{folder}"), why: why.to_owned() });
        let shut = state.shut().values().cloned();
        let sealing = state.sealer().clone();
        let seal = |(name, text): (String, String)| {
            let text = if is_sealed_text(&text) { text } else { sealing.keys.seal_text(&name, &text) };
            (name, text)
        };
        let keys: Vec<(String, String)> = keys.into_iter().map(seal).collect();
        let is_sealed = sealing.keys.current().is_some() || keys.iter().any(|(_, text)| is_sealed_text(text));
        let trouble = locked(&self.inner.trouble);
        let (foreign, left_alone) = (trouble.foreign.clone(), trouble.left_alone.clone());
        let first = First {
            backup: if is_sealed { BACKUP_SEALED } else { BACKUP },
            store: self.uuid().to_owned(),
            revision: state.revision().0,
            objects: objects.len(),
            left_out: damaged
                .chain(foreign)
                .chain(shut)
                .map(|damage| LeftOut { file: damage.file, why: damage.why })
                .chain(left_alone)
                .chain(unknown)
                .collect(),
            keys: keys.len(),
        };
        Backup {
            count: objects.len(),
            first: Some(first),
            objects: objects.into_iter(),
            keys,
            sealing,
            crc: Crc::default(),
            ended: false,
        }
    }
}

impl Iterator for Backup {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut piece = Vec::new();
        if let Some(first) = self.first.take() {
            line(&mut piece, &first);
        }
        while piece.len() < PIECE_BYTES {
            let Some((key, json, durable)) = self.objects.next() else {
                for (key, text) in std::mem::take(&mut self.keys) {
                    line(&mut piece, &KeyLine { key: key.into(), text: text.into() });
                }
                self.crc.add(&piece);
                line(&mut piece, &End { end: self.count, crc: format!("{:08x}", self.crc.sum()) });
                self.ended = true;
                return Some(piece.into());
            };
            let object = document::durable_part(&json, durable, None).unwrap_or(json);
            let object = self.sealing.at_rest(&key, object);
            let Ok(object) = serde_json::from_slice::<&RawValue>(&object) else {
                // A start believes most of a file unread that a store has put. Who restores from this is told that it
                // is not whole.
                log::error!("{OBJECTS}/{}: it is not JSON, so the backup is not whole", names::path(&key));
                continue;
            };
            line(&mut piece, &Line { path: names::path(&key).into(), object });
        }
        self.crc.add(&piece);
        Some(piece.into())
    }
}

/// The content of a backup.
#[derive(Debug, PartialEq)]
pub struct Restored {
    pub objects: usize,
    /// The revision of the backup.
    pub revision: u64,
    pub left_out: Vec<LeftOut>,
    /// Files of the cluster's keys.
    pub keys: usize,
}

/// Reads a backup to its end and looks whether it is whole. `object`: called with each object's place and document.
/// `key`: called with the name and the content of each file of the cluster's keys.
pub fn read(
    mut file: impl BufRead,
    mut object: impl FnMut(Key, &[u8]) -> Result<(), String>,
    mut key: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<Restored, String> {
    let mut text = Vec::new();
    let mut crc = Crc::default();
    let first: First = match next_line(&mut file, &mut text)? {
        true => serde_json::from_slice(&text)
            .map_err(|_| "it does not begin as a backup of coracle-master does".to_owned())?,
        false => return Err("it is empty".to_owned()),
    };
    if first.backup > BACKUP_SEALED {
        return Err(format!(
            "it is of form {}, made by a newer coracle-master: restore it with that version",
            first.backup
        ));
    }
    if first.revision > BACKUP_REVISION_MAX {
        return Err(format!(
            "it says revision {}, beyond all that a master comes to: it was changed after it was made",
            first.revision
        ));
    }
    crc.add(&text);
    let mut places = HashSet::new();
    for nth in 1..=first.objects {
        let cut = || format!("it ends after {} of {} objects: the copy is not whole", nth - 1, first.objects);
        if !next_line(&mut file, &mut text)? {
            return Err(cut());
        }
        crc.add(&text);
        let line: Line = serde_json::from_slice(&text).map_err(|error| format!("line {}: {error}", nth + 1))?;
        let place = names::key(&line.path)
            .ok_or_else(|| format!("line {}: {:?} is no place of an object", nth + 1, line.path))?;
        if !places.insert(line.path.to_string()) {
            return Err(format!("line {}: {:?} stands there twice", nth + 1, line.path));
        }
        let bytes = line.object.get().len();
        if bytes > 2 * OBJECT_BYTES_MAX {
            return Err(format!("line {}: {:?} is {bytes} bytes long, more than any object", nth + 1, line.path));
        }
        object(place, line.object.get().as_bytes())?;
    }
    if first.keys > KEYS_MAX {
        return Err(format!("it says that it holds {} files of keys, at most {KEYS_MAX}", first.keys));
    }
    for nth in 1..=first.keys {
        if !next_line(&mut file, &mut text)? {
            return Err(format!("it ends after {} of {} files of keys: the copy is not whole", nth - 1, first.keys));
        }
        crc.add(&text);
        let at = first.objects + nth + 1;
        let line: KeyLine = serde_json::from_slice(&text).map_err(|error| format!("line {at}: {error}"))?;
        if !is_key_name(&line.key) || !places.insert(format!("keys/{}", line.key)) {
            return Err(format!("line {at}: {:?} is no name of a file of keys, or stands there twice", line.key));
        }
        key(&line.key, &line.text)?;
    }
    let end = if next_line(&mut file, &mut text)? { serde_json::from_slice::<End>(&text).ok() } else { None };
    let end = end.ok_or("its last line is missing: the copy is not whole")?;
    if end.crc != format!("{:08x}", crc.sum()) {
        return Err("its checksum does not fit: it was changed or damaged after it was made".to_owned());
    }
    if end.end != first.objects || !file.fill_buf().map_err(|error| error.to_string())?.is_empty() {
        return Err("something follows behind its end: it is no backup, or several in one file".to_owned());
    }
    let First { objects, revision, left_out, keys, .. } = first;
    Ok(Restored { objects, revision, left_out, keys })
}

fn line(piece: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *piece, value).expect("a Vec takes all, and keys are strings");
    piece.push(b'\n');
}

/// False: there is none.
fn next_line(file: &mut impl BufRead, text: &mut Vec<u8>) -> Result<bool, String> {
    text.clear();
    let read = file.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', text).map_err(|error| error.to_string())?;
    match text.last() {
        Some(b'\n') => Ok(true),
        Some(_) if read == LINE_BYTES_MAX => {
            Err(format!("a line is longer than {LINE_BYTES_MAX} bytes: it is no backup of coracle-master"))
        }
        // A line that was cut is none.
        _ => Ok(false),
    }
}
