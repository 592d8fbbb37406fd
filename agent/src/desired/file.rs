//! Parses one manifest file, or the kept copy of a file, into pods and objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use coracle_api::meta::Time;
use serde_json::{Value, json};

use super::inotify::hidden;
use super::manifest::{self, Origin};
use crate::facts::naming::Source;
use crate::facts::objects::{Object, ObjectKind, Ref};
use crate::facts::wanted::Wanted;

/// A manifest has some hundred bytes; a bigger file is no manifest.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// The kind of the kept document for several objects.
const LIST: &str = "List";

/// The content of a manifest file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Good {
    pub pods: Vec<Arc<Wanted>>,
    pub objects: BTreeMap<Ref, Arc<Object>>,
    /// The form on the disk: the pod itself if the file has one pod and no objects, otherwise a list.
    pub document: Arc<Value>,
}

impl Good {
    fn new(pods: Vec<Value>, objects: Vec<Value>) -> Result<Good, String> {
        let document = match pods.as_slice() {
            [pod] if objects.is_empty() => pod.clone(),
            _ => json!({"kind": LIST, "items": pods.iter().chain(&objects).collect::<Vec<_>>()}),
        };
        let objects = objects.iter().filter_map(|object| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let kind = object_kind(object)?;
            let place = Ref {
                kind,
                namespace: text(&object["metadata"]["namespace"]),
                name: text(&object["metadata"]["name"]),
            };
            Some((place, Arc::new(Object::read(kind, object))))
        });
        let objects = objects.collect();
        let pods =
            pods.into_iter().map(|pod| Wanted::new(Source::File, pod).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Good { pods, objects, document: Arc::new(document) })
    }

    pub fn kept(mut document: Value) -> Result<Good, String> {
        let items = match document["kind"].as_str() {
            Some(LIST) => document["items"].as_array_mut().map(std::mem::take).unwrap_or_default(),
            _ => vec![document],
        };
        let (objects, pods) = items.into_iter().partition(|item| object_kind(item).is_some());
        Good::new(pods, objects)
    }
}

fn object_kind(document: &Value) -> Option<ObjectKind> {
    [ObjectKind::ConfigMap, ObjectKind::Secret, ObjectKind::Claim]
        .into_iter()
        .find(|kind| document["kind"] == kind.name())
}

/// Unchanged: not read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub modified: Option<SystemTime>,
    pub length: u64,
    pub inode: u64,
}

pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(Stamp { modified: meta.modified().ok(), length: meta.len(), inode: meta.ino() })
}

/// The pods and the warnings of one file, as the agent would read the file now.
pub fn look(path: &Path, node_name: &str) -> Result<(Vec<Arc<Wanted>>, Vec<String>), String> {
    let stamp = stamp(path).map_err(|error| error.to_string())?;
    let (good, warnings) = take(path, stamp, node_name)?;
    Ok((good.pods, warnings))
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

pub(super) fn take(path: &Path, stamp: Stamp, node_name: &str) -> Result<(Good, Vec<String>), String> {
    let (text, written) = read_text(path, stamp)?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let read = manifest::read(&text, Origin { file_name: &file_name, node_name, written })?;
    Ok((Good::new(read.pods, read.objects)?, read.warnings))
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
