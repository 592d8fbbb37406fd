//! Fields that the type of an object does not have, and fields that stand there twice: refused as kubectl refuses them,
//! each with its line and the field that was meant. PURE.

use coracle_api::types;
use coracle_keeper::nearest::nearest;
use coracle_schema::fields_beside;
use serde_json::Value;

use super::text::Document;
use super::{Given, Origin, told};

/// What the reading of an object has come across.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Fields that the format does not have, and that were left out.
    pub unknown: Vec<String>,
    /// The type of the object in v1.
    pub type_name: String,
    /// A form of 2014, which has no rules for other fields.
    pub old_form: bool,
}

/// What becomes of an object with such fields, and the warnings.
pub(super) fn judge(
    given: Result<Given, String>,
    seen: &Seen,
    document: &Document<'_>,
    origin: Origin<'_>,
) -> (Result<Given, String>, Vec<String>) {
    let sentences = sentences(seen, document);
    let refuses = !origin.allow_unknown && !seen.old_form;
    match given {
        _ if sentences.is_empty() => (given, Vec::new()),
        // What is missing is often there under a mistyped name.
        Err(why) => (Err(format!("{why}; {}", told(sentences).join("; "))), Vec::new()),
        Ok(_) if refuses => (Err(told(sentences).join("; ")), Vec::new()),
        Ok(given) => {
            let left_out = sentences.into_iter().map(|text| match text.strip_suffix(TWICE) {
                Some(place) => format!("{place}{TWICE}: the last one counts"),
                None => format!("{text}; it is left out"),
            });
            (Ok(given), told(left_out.collect()))
        }
    }
}

const TWICE: &str = "it stands there twice";

/// `spec.containers[0].comand (line 7): unknown; did you mean command?`
fn sentences(seen: &Seen, document: &Document<'_>) -> Vec<String> {
    let paths: Vec<String> = seen.unknown.iter().chain(&document.twice).cloned().collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let place = |path: &str, line: Option<usize>| match line {
        Some(line) => format!("{path} (line {line})"),
        None => path.to_owned(),
    };
    let lines = document.lines(&paths);
    let (unknown, twice) = lines.split_at(seen.unknown.len());
    let unknown = seen.unknown.iter().zip(unknown).map(|(path, line)| {
        let meant = meant(seen, path).map_or_else(
            || "unknown: no field of this format".to_owned(),
            |field| format!("unknown; did you mean {field}?"),
        );
        format!("{}: {meant}", place(path, *line))
    });
    let twice = document.twice.iter().zip(twice).map(|(path, line)| format!("{}: {TWICE}", place(path, *line)));
    unknown.chain(twice).collect()
}

/// The field that the type has, and that was meant by an unknown one.
fn meant(seen: &Seen, path: &str) -> Option<String> {
    let types = types::builtin();
    let word = path.rsplit('.').next()?;
    nearest(word, fields_beside(&types, &seen.type_name, path)).map(str::to_owned)
}

/// The fields by which an object is known.
const IDENTITY: [&str; 7] = ["kind", "apiVersion", "metadata", "name", "generateName", "namespace", "id"];

/// Whether kind, namespace and name of a refused object are what stands there: none of them may be meant by a misspelt
/// field, or stand there twice.
pub(super) fn is_sure(value: &Value, seen: &Seen, document: &Document<'_>) -> bool {
    let of_identity = |path: &str| {
        let (parent, word) = path.rsplit_once('.').unwrap_or(("", path));
        ["", "metadata"].contains(&parent).then(|| word.to_owned())
    };
    let written = ["name", "namespace"].iter().all(|field| value["metadata"][*field].is_string());
    let may_mean = |word: &String| nearest(word, IDENTITY).is_some();
    let misspelt = !written && seen.unknown.iter().filter_map(|path| of_identity(path)).any(|word| may_mean(&word));
    let twice = document.twice.iter().filter_map(|path| of_identity(path));
    !misspelt && !twice.into_iter().any(|word| IDENTITY.contains(&word.as_str()))
}
