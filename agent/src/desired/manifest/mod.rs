//! The text of one manifest file -> its objects, each with the pods that it asks for, or why it is not taken. PURE.
//!
//!     text -> documents (`text`) -> what each asks for (`kinds`), no unknown field among it (`strict`) -> entries
//!
//! The unit is the object: a refused one hides no other. Where it is unknown which object is meant, nothing of the file
//! counts.

mod kinds;
mod strict;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use coracle_api::meta::Time;
use serde_json::Value;

use text::{Document, Room};

pub use crate::facts::source_state::Fault;
pub(super) use kinds::derived_uid;

/// What a file without a namespace means.
const NAMESPACE: &str = "default";

/// Problems and warnings of an object that are told: nobody mends more at once.
const TOLD_MAX: usize = 50;

/// Where a file stands, when it was written (that must not differ from one reading to the next), and how it is read.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub file_name: &'a str,
    pub node_name: &'a str,
    pub written: Time,
    /// A field that v1 does not have is left out with a warning, as in the forms of 2014.
    pub allow_unknown: bool,
}

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The line of the file at which it begins.
    pub line: usize,
    /// Sentences for the log and for `check`: fields that the format does not have, keys that stand there twice.
    pub warnings: Vec<String>,
    /// Or why the object is not taken.
    pub result: Result<Given, String>,
}

impl Entry {
    /// `Deployment default/web`
    pub fn key(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }

    /// Whether objects of its kind may ask for pods here, or for what pods need.
    pub fn may_ask_for_pods(&self) -> bool {
        self.kind != "Service" && kinds::KINDS.iter().any(|(kind, _)| *kind == self.kind)
    }

    /// Why it is not taken.
    fn fault(&self) -> Option<Fault> {
        let text = self.result.as_ref().err()?.clone();
        Some(Fault { line: Some(self.line), object: Some(self.key()), text })
    }
}

/// What an object asks this host for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    pub pods: Vec<Value>,
    /// ConfigMaps, Secrets, claims and Services, with their kind.
    pub objects: Vec<Value>,
}

/// The objects of a file. The error: it is unknown which objects the file has.
pub fn read(text: &str, origin: Origin<'_>) -> Result<Vec<Entry>, Vec<Fault>> {
    let mut room = Room::whole();
    let documents = text::documents(text, &mut room).map_err(|why| vec![Fault::of_file(why)])?;
    let (mut entries, mut faults, mut unknown) = (Vec::new(), Vec::new(), false);
    for document in &documents {
        match entry(document, origin, &mut room) {
            Ok((entry, sure)) => {
                unknown |= entry.result.is_err() && !sure;
                entries.push(entry);
            }
            Err(text) => {
                faults.push(Fault { line: Some(document.line).filter(|_| documents.len() > 1), object: None, text });
            }
        }
    }
    if unknown || !faults.is_empty() {
        faults.extend(entries.iter().filter_map(Entry::fault));
        return Err(faults);
    }
    only_once(&mut entries);
    Ok(entries)
}

/// The object of a document, and whether it is sure that it is this object and no other. The error: there is no
/// telling.
fn entry(document: &Document<'_>, origin: Origin<'_>, room: &mut Room) -> Result<(Entry, bool), String> {
    let (kind, namespace, name) = kinds::identity(&document.value, origin.file_name)?;
    let mut seen = strict::Seen::default();
    let given = kinds::given(document, origin, room, &mut seen);
    let (result, warnings) = strict::judge(given, &seen, document, origin);
    let sure = strict::is_sure(&document.value, &seen, document);
    Ok((Entry { kind, namespace, name, line: document.line, warnings, result }, sure))
}

/// Of two objects with one name neither counts; of two that ask for one pod the first does.
fn only_once(entries: &mut [Entry]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.iter() {
        *counts.entry(entry.key()).or_default() += 1;
    }
    let mut seen = BTreeSet::new();
    for entry in entries {
        let refused = |what: &str| Err(format!("{what} stands there twice: give one of them another name"));
        if counts.get(&entry.key()).is_some_and(|count| *count > 1) {
            entry.result = refused(&entry.key());
            continue;
        }
        let Ok(given) = &entry.result else { continue };
        let names: Vec<String> = given.pods.iter().chain(&given.objects).map(name_of).collect();
        if let Some(double) = names.iter().find(|name| seen.contains(*name)) {
            entry.result = refused(double);
        } else {
            seen.extend(names);
        }
    }
}

/// `Pod default/web-0`
fn name_of(item: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = Some(text(&item["kind"])).filter(|kind| !kind.is_empty()).unwrap_or_else(|| "Pod".to_owned());
    format!("{kind} {}/{}", text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]))
}

/// The first `TOLD_MAX` texts, and the count of the remaining texts.
fn told(mut texts: Vec<String>) -> Vec<String> {
    if let Some(more) = texts.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        texts.truncate(TOLD_MAX);
        texts.push(format!("and {more} more"));
    }
    texts
}

#[cfg(test)]
mod tests;
