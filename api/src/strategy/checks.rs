//! Checks that the strategies of many kinds share. Each looks at one value or one field and knows no kind.

use super::{doc, inner};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The maximum number of problems reported for a list of a document: enough for a correction by the user, and a bound
/// on memory.
pub const PROBLEMS_MAX: usize = 1000;

/// Whether enough problems were found to stop looking.
pub fn full(found: &[Problem]) -> bool {
    found.len() >= PROBLEMS_MAX
}

/// A required field with a closed list of values.
pub fn supported(of: &Value, field: &str, list: &[&str], path: &Path) -> Option<Problem> {
    let path = path.field(field);
    match doc::text(of, field) {
        "" => Some(Problem::required(&path, "")),
        value => one_of(value, list, &path),
    }
}

pub fn supported_text(list: &[&str]) -> String {
    let quoted: Vec<String> = list.iter().map(|one| format!("\"{one}\"")).collect();
    format!("supported values: {}", quoted.join(", "))
}

/// A value from a closed list.
pub fn one_of(value: &str, of: &[&str], path: &Path) -> Option<Problem> {
    (!of.contains(&value)).then(|| Problem::new(path, Reason::NotSupported, Some(value.into()), supported_text(of)))
}

/// Fields whose numbers may not be negative, in the order of the list.
pub fn not_negative(of: &Value, fields: &[&str], path: &Path) -> Vec<Problem> {
    let negative =
        fields.iter().filter_map(|field| Some((field, doc::number(of, field).filter(|number| *number < 0)?)));
    negative.map(|(field, number)| Problem::invalid(&path.field(field), number, NOT_NEGATIVE)).collect()
}

/// Whether a number or a share is zero.
pub fn is_none(value: &Value) -> bool {
    match value {
        // A text that is neither counts as zero.
        Value::String(text) => share(text).unwrap_or(text).parse::<i64>().unwrap_or(0) == 0,
        other => other.as_i64().unwrap_or(0) == 0,
    }
}

/// A number that is not negative, or a share: `25%`.
pub fn a_number_or_share(value: &Value, path: &Path) -> Option<Problem> {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            Some(Problem::invalid(path, value.clone(), NOT_NEGATIVE))
        }
        Value::String(text) if share(text).is_none() => {
            let words = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                         '93%', regex used for validation is '[0-9]+%')";
            Some(Problem::invalid(path, text.as_str(), words))
        }
        _ => None,
    }
}

pub fn not_more_than_all(value: &Value, path: &Path) -> Option<Problem> {
    let digits = share(value.as_str()?)?;
    let all = digits.parse::<u32>().is_ok_and(|share| share <= 100);
    (!all).then(|| Problem::invalid(path, value.clone(), "must not be greater than 100%"))
}

/// A number that is not negative, or a share of at most 100%.
pub fn number_or_share(value: &Value, path: &Path) -> Vec<Problem> {
    a_number_or_share(value, path).into_iter().chain(not_more_than_all(value, path)).collect()
}

/// The digits of `25%`.
fn share(text: &str) -> Option<&str> {
    text.strip_suffix('%').filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A field that no update may change.
pub fn immutable(new: &Value, old: &Value, field: &str, path: &Path) -> Option<Problem> {
    (new[field] != old[field]).then(|| Problem::invalid(&path.field(field), new[field].clone(), "field is immutable"))
}

/// The same for a field of this type, with its value printed as Kubernetes prints it.
pub fn immutable_as(type_name: &str, new: &Value, old: &Value, field: &str, path: &Path) -> Option<Problem> {
    immutable(new, old, field, path).map(|problem| problem.showing(inner::shown(type_name, &new[field])))
}

/// More entries than there may be.
pub fn too_many(count: usize, max: usize, path: &Path) -> Option<Problem> {
    (count > max)
        .then(|| Problem::new(path, Reason::TooMany, Some(count.into()), format!("must have at most {max} items")))
}
