//! The text of a manifest file -> its documents, each with the place where it stands. PURE.

use coracle_schema::{Path, yaml};
use serde_json::Value;

/// Documents of a file, items of lists included.
const DOCUMENTS_MAX: usize = 200;
/// All that a file comes to in memory, about: a file has a megabyte, but aliases and replicas repeat what stands there.
const BYTES_MAX: usize = 16 << 20;

/// The memory that is left for the content of a file.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
}

impl Room {
    pub fn whole() -> Room {
        Room { bytes: BYTES_MAX }
    }

    /// Room for one more document or pod.
    pub fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        let most = BYTES_MAX >> 20;
        left.map(drop)
            .ok_or_else(|| format!("what stands here comes to more than {most} MiB with its aliases and replicas"))
    }
}

/// A document of a file, or an item of a list.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub value: Value,
    /// The line of the file at which it begins.
    pub line: usize,
    /// Fields that stand there twice, with paths of the document.
    pub twice: Vec<String>,
    part: Part<'a>,
    /// Where it stands in its part: empty, or `items[3]`.
    at: String,
}

impl Document<'_> {
    /// The lines of the fields with these paths, the last line of a field that stands there twice. None: not known.
    pub fn lines(&self, paths: &[String]) -> Vec<Option<usize>> {
        let whole: Vec<String> = paths.iter().map(|path| below(&self.at, path)).collect();
        let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
        yaml::lines(self.part.text, self.part.lines_before, &whole)
    }
}

fn below(at: &str, path: &str) -> String {
    if at.is_empty() { path.to_owned() } else { format!("{at}.{path}") }
}

/// The documents of the text; the items of a list take the place of the list. The error is about the whole file.
pub(super) fn documents<'a>(text: &'a str, room: &mut Room) -> Result<Vec<Document<'a>>, String> {
    let (mut documents, mut says) = (Vec::new(), false);
    let parts = || parts(text).filter(|part| part.says_something());
    let count = parts().count();
    if count > DOCUMENTS_MAX {
        return Err(too_many(count));
    }
    for part in parts() {
        let (value, twice) = parse(part)?;
        if !value.is_null() {
            says = true;
            room.take(weight(&value))?;
            let twice = twice.iter().map(|path| path.as_str().to_owned()).collect();
            let of_part = documents.len();
            unlist(Document { value, line: part.first_line(), twice, part, at: String::new() }, &mut documents);
            if documents.len() > DOCUMENTS_MAX {
                return Err(too_many(documents.len()));
            }
            set_lines(part, &mut documents[of_part..]);
        }
    }
    if says { Ok(documents) } else { Err("the file is empty".to_owned()) }
}

fn too_many(count: usize) -> String {
    format!("{count} documents, and a file has at most {DOCUMENTS_MAX}")
}

/// Items of a list begin at lines of their own.
fn set_lines(part: Part<'_>, documents: &mut [Document<'_>]) {
    if documents.iter().all(|document| document.at.is_empty()) {
        return;
    }
    let places: Vec<&str> = documents.iter().map(|document| document.at.as_str()).collect();
    let lines = yaml::lines(part.text, part.lines_before, &places);
    for (document, line) in documents.iter_mut().zip(lines) {
        document.line = line.unwrap_or(document.line);
    }
}

/// About as many bytes as a document takes in memory.
pub(super) fn weight(document: &Value) -> usize {
    /// The memory of a value besides its text, with the value's share of the surrounding map.
    const VALUE_BYTES: usize = 64;
    VALUE_BYTES
        + match document {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + weight(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// A list without items is a document that says nothing.
fn unlist<'a>(mut document: Document<'a>, documents: &mut Vec<Document<'a>>) {
    let of = document.value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let items = document.value.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
    let (Some(kind), Some(items)) = (of, items) else { return documents.push(document) };
    for (nth, mut value) in items.into_iter().enumerate() {
        // Items of a typed list, such as PodList, may leave out their kind.
        if value.is_object() && !kind.is_empty() && value["kind"].is_null() {
            value["kind"] = kind.clone().into();
            value["apiVersion"] = document.value["apiVersion"].clone();
        }
        let item = format!("items[{nth}]");
        let own = |path: &String| path.strip_prefix(&item).map(|rest| rest.trim_start_matches('.').to_owned());
        let twice = document.twice.iter().filter_map(own).filter(|path| !path.is_empty()).collect();
        let at = below(&document.at, &item);
        unlist(Document { value, line: document.line, twice, part: document.part, at }, documents);
    }
}

/// The text between two lines of `---`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part<'a> {
    text: &'a str,
    lines_before: usize,
}

impl Part<'_> {
    fn says_something(&self) -> bool {
        self.first().is_some()
    }

    /// The first line that is neither empty nor a comment.
    fn first(&self) -> Option<usize> {
        self.text.lines().position(|line| !line.trim().is_empty() && !line.starts_with('#'))
    }

    fn first_line(&self) -> usize {
        self.lines_before + self.first().unwrap_or(0) + 1
    }
}

fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let separates = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    };
    let (mut rest, mut lines) = (Some(text), 0);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (mut length, lines_before) = (0, lines);
        for line in whole.split_inclusive('\n') {
            lines += 1;
            if separates(line) {
                rest = Some(&whole[length + line.len()..]);
                return Some(Part { text: &whole[..length], lines_before });
            }
            length += line.len();
        }
        rest = None;
        Some(Part { text: whole, lines_before })
    })
}

/// JSON as such, everything else as YAML: one document, or null, bounded in size, depth and aliases. Of a field that
/// stands there twice the last value is read.
fn parse(part: Part<'_>) -> Result<(Value, Vec<Path>), String> {
    let Part { text, lines_before } = part;
    let json = text.trim_start().starts_with('{').then(|| coracle_schema::read(text.as_bytes()).ok()).flatten();
    json.map_or_else(|| yaml::read_whole(text, lines_before), Ok).map_err(|why| {
        let place = why.split_once("multiple YAML documents").map(|(place, _)| place);
        place.map_or(why.clone(), |place| format!("{place}a second document begins: put a line of --- before it"))
    })
}
