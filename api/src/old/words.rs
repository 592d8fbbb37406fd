//! A v1 field in v1beta1's words: problems that v1's validation finds are told to a client of v1beta1 in its own.

use super::shape::{Field, Form, Shape};

/// `spec.containers[0].args[1]` as its parts: names, and indices or keys in their brackets.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let end = match rest.strip_prefix('[') {
            Some(key) => key.find(']').map_or(rest.len(), |at| at + 2),
            None => rest.find(['.', '[']).unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    parts
}

fn joined(first: &str, rest: &[&str]) -> String {
    rest.iter().fold(first.to_owned(), |path, part| match (path.is_empty(), part.starts_with('[')) {
        (true, _) => (*part).to_owned(),
        (false, true) => format!("{path}{part}"),
        (false, false) => format!("{path}.{part}"),
    })
}

/// The v1beta1 path of a v1 path; a field that v1beta1 does not have keeps its own.
pub(super) fn old_path(shape: &Shape, path: &str) -> String {
    translate(shape, &parts(path)).unwrap_or_else(|| path.to_owned())
}

fn translate(shape: &Shape, path: &[&str]) -> Option<String> {
    shape.fields().find_map(|field| translate_field(field, path))
}

fn translate_field(field: &Field, path: &[&str]) -> Option<String> {
    if let Form::Own(own) = field.form {
        return own.words.iter().find_map(|field| translate_field(field, path));
    }
    let rest = path.strip_prefix(field.at)?;
    let under = |shape: &Shape, above: &str, rest: &[&str]| match translate(shape, rest) {
        Some(inner) => Some(joined(above, &parts(&inner))),
        // A part of the same v1 object must be known; below a field with a place of its own, unknown names are names of
        // v1.
        None if field.at.is_empty() => None,
        None => Some(joined(above, rest)),
    };
    match (field.form, rest) {
        (Form::Said(_) | Form::Ignored | Form::Own(_), _) => None,
        (Form::Object(_) | Form::Present(_), []) if field.at.is_empty() => None,
        (_, []) => Some(field.name.to_owned()),
        (Form::Object(shape) | Form::Present(shape), rest) => under(shape, field.name, rest),
        (Form::List(shape, _), [index, rest @ ..]) if !rest.is_empty() => {
            under(shape, &format!("{}{index}", field.name), rest)
        }
        (_, rest) => Some(joined(field.name, rest)),
    }
}
