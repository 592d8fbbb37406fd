//! Single values of a Compose file: texts, truths, lists that may be mappings, names. PURE.

use serde_json::{Map, Value};

/// Characters of a name in Kubernetes.
const LABEL_CHARS_MAX: usize = 63;

/// A scalar as text. Numbers and truths are texts where Compose wants a text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

pub fn truth(value: &Value) -> bool {
    match value {
        Value::Bool(truth) => *truth,
        Value::String(text) => text == "true",
        Value::Object(_) => true,
        _ => false,
    }
}

/// The texts of a list; a single text is a list of one.
pub fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    }
}

/// `KEY=VALUE` lines or a mapping. A key without a value has none.
pub fn pairs(value: &Value, between: char) -> Vec<(String, Option<String>)> {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
        Value::Array(all) => all
            .iter()
            .filter_map(text)
            .map(|line| match line.split_once(between) {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (line, None),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A name as Kubernetes takes it for objects, containers and hosts: small letters, digits and dashes.
pub fn label(name: &str) -> String {
    let spelled: String = name
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(LABEL_CHARS_MAX)
        .collect();
    let trimmed = spelled.trim_matches('-');
    if trimmed.is_empty() { "x".to_owned() } else { trimmed.to_owned() }
}

/// The key of a file in a Secret or ConfigMap.
pub fn file_key(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// The words of a command line: quotes and backslashes as a shell has them, without anything that a shell would expand.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(format!("{line}: a quote has no end")) } else { Ok(words) }
}

/// A command: a list as it is, a text in its words.
pub fn command(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(line) => words(line),
        other => Ok(texts(other)),
    }
}

/// Sets a field unless the value is nothing.
pub fn set(map: &mut Map<String, Value>, field: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    if !empty {
        map.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_its_words() {
        for (line, expected) in [
            ("a b  c", vec!["a", "b", "c"]),
            (r#"sh -c "echo 'x y'""#, vec!["sh", "-c", "echo 'x y'"]),
            (r"a\ b ''", vec!["a b", ""]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn names_are_labels() {
        for (name, expected) in [("my_db", "my-db"), ("Web", "web"), ("_", "x"), ("a.b", "a-b")] {
            assert_eq!(label(name), expected);
        }
    }
}
