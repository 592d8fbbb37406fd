//! PURE. The change that the write of an object comes to: its text in memory, and its record.

use super::content::OBJECT_BYTES_MAX;
use super::document;
use super::draft::{DiskPart, NewObject};
use super::entry::{Durability, Entry, PlannedChange, WriteVerdict};
use super::seal::{Sealing, sealed};
use crate::store::{Refused, Stored};
use coracle_api::meta::{Key, Revision};
use std::sync::Arc;

pub fn change(change: PlannedChange) -> WriteVerdict {
    WriteVerdict::Change(Box::new(change))
}

pub fn put(
    sealing: &Sealing,
    key: Arc<Key>,
    document: NewObject,
    revision: Revision,
    former: Option<&Entry>,
) -> Result<WriteVerdict, Refused> {
    let kept = former.filter(|former| document.is_on_disk(former)).and_then(|former| former.file_crc);
    let json = document.text.at(revision);
    if json.len() > OBJECT_BYTES_MAX {
        return Err(Refused::TooLarge { bytes: json.len() });
    }
    let (step, file_crc) = match (document.part, kept) {
        (DiskPart::Nothing, _) if former.is_some_and(|former| former.file_crc.is_some()) => (Durability::Remove, None),
        (DiskPart::Nothing, _) => (Durability::Keep, None),
        (_, Some(crc)) => (Durability::Keep, Some(crc)),
        (part, None) => {
            let part = if let DiskPart::Less(text) = part { text.at(revision) } else { json.clone() };
            let seal = sealing.key_of(&key).map_err(|why| Refused::Sealed { why: why.to_owned() })?;
            let part = seal.and_then(|seal| sealed(seal, &key, &part)).unwrap_or(part);
            let crc = document::crc32(&part);
            (Durability::Put(part), Some(crc))
        }
    };
    let stored = Stored::new(key.clone(), revision, json, document.labels);
    let former_crc = former.and_then(|former| former.file_crc);
    let (old, former): (_, Option<_>) = former.map(|former| (former.stored.clone(), former.claims.clone())).unzip();
    let (former, answer) = (former.unwrap_or_default(), stored.clone());
    let entry = Some(Entry { stored, durable: document.durable, file_crc, claims: document.claims.into() });
    Ok(change(PlannedChange { revision, key, step, old, former, former_crc, entry, answer }))
}
