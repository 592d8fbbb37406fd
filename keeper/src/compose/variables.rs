//! The variables of a Compose file: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:?error}`,
//! `${NAME:+other}`; `$$` is a dollar. PURE.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Levels of `${A:-${B}}`.
const DEPTH_MAX: usize = 8;

/// Variables of the environment and of the file `.env`.
#[derive(Clone, Debug, Default)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// The lines of an `.env` file or of an `env_file`: `NAME=VALUE`, `export NAME=VALUE`, comments, quotes.
    pub fn lines(text: &str) -> Vec<(String, Option<String>)> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.map(|line| line.strip_prefix("export ").unwrap_or(line));
        lines
            .map(|line| match line.split_once('=') {
                Some((name, value)) => (name.trim().to_owned(), Some(unquoted(value.trim()))),
                None => (line.to_owned(), None),
            })
            .collect()
    }
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote)
            && let Some(end) = inner.find(quote)
        {
            let text = &inner[..end];
            return if quote == '"' { text.replace("\\n", "\n") } else { text.to_owned() };
        }
    }
    // A comment behind a value has a blank before it.
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

/// Puts variables in their places, in all texts of a document. The remarks name those that are not set.
pub fn fill(document: &mut Value, variables: &Variables) -> Result<Vec<String>, String> {
    let mut unset = BTreeSet::new();
    walk(document, variables, &mut unset)?;
    Ok(unset.into_iter().map(|name| format!("variable {name}: it is not set, and is empty here")).collect())
}

fn walk(value: &mut Value, variables: &Variables, unset: &mut BTreeSet<String>) -> Result<(), String> {
    match value {
        Value::String(text) if text.contains('$') => *text = filled(text, variables, unset, 0)?,
        Value::Array(all) => all.iter_mut().try_for_each(|one| walk(one, variables, unset))?,
        Value::Object(all) => all.values_mut().try_for_each(|one| walk(one, variables, unset))?,
        _ => {}
    }
    Ok(())
}

fn filled(text: &str, variables: &Variables, unset: &mut BTreeSet<String>, depth: usize) -> Result<String, String> {
    if depth > DEPTH_MAX {
        return Err(format!("{text}: more than {DEPTH_MAX} variables in each other"));
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            out.push('$');
            rest = behind;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let end = closing(inner).ok_or_else(|| format!("{text}: a ${{ has no end"))?;
            out.push_str(&braced(&inner[..end], variables, unset, depth)?);
            rest = &inner[end + 1..];
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(format!("{text}: $ names no variable; write $$ for a dollar"));
            }
            out.push_str(&value_of(&rest[..end], variables, unset));
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The brace that ends what has begun.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
        None
    })
}

fn value_of(name: &str, variables: &Variables, unset: &mut BTreeSet<String>) -> String {
    variables.get(name).unwrap_or_else(|| {
        unset.insert(name.to_owned());
        String::new()
    })
}

fn braced(inner: &str, variables: &Variables, unset: &mut BTreeSet<String>, depth: usize) -> Result<String, String> {
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    let (name, how) = inner.split_at(end);
    let there = variables.get(name);
    let filled_one = there.clone().filter(|value| !value.is_empty());
    let mut other = |text: &str| filled(text, variables, unset, depth + 1);
    let required = |text: &str| Err(format!("variable {name} is required: {text}"));
    if how.is_empty() {
        Ok(value_of(name, variables, unset))
    } else if let Some(default) = how.strip_prefix(":-") {
        filled_one.map_or_else(|| other(default), Ok)
    } else if let Some(default) = how.strip_prefix('-') {
        there.map_or_else(|| other(default), Ok)
    } else if let Some(why) = how.strip_prefix(":?") {
        filled_one.map_or_else(|| required(why), Ok)
    } else if let Some(why) = how.strip_prefix('?') {
        there.map_or_else(|| required(why), Ok)
    } else if let Some(instead) = how.strip_prefix(":+") {
        filled_one.map_or_else(|| Ok(String::new()), |_| other(instead))
    } else if let Some(instead) = how.strip_prefix('+') {
        there.map_or_else(|| Ok(String::new()), |_| other(instead))
    } else {
        Err(format!("${{{inner}}}: this form of a variable is not known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Result<&str, &str>) {
        let variables = Variables([("A", "1"), ("E", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let mut document = json!({"x": [text]});
        match (fill(&mut document, &variables), expected) {
            (Ok(_), Ok(expected)) => assert_eq!(document["x"][0], expected, "{text}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn every_form() {
        check("$A-${A}", Ok("1-1"));
        check("$$A", Ok("$A"));
        check("${B:-x}${B-y}${E:-z}${E-w}", Ok("xyz"));
        check("${B:-${A}}", Ok("1"));
        check("${A:+s}${B:+t}${E+u}", Ok("su"));
        check("${B:?say so}", Err("variable B is required: say so"));
        check("${A", Err("has no end"));
        check("$ ", Err("$$ for a dollar"));
        let unset = fill(&mut json!("$NONE"), &Variables::default()).unwrap();
        assert!(unset[0].contains("NONE"), "{unset:?}");
    }

    #[test]
    fn lines_of_files() {
        let lines = Variables::lines("# c\nexport A=1\nB=\"x y\" # c\nC='z'\nD\n\nE=a #b\n");
        let pair = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        let expected = [("A", Some("1")), ("B", Some("x y")), ("C", Some("z")), ("D", None), ("E", Some("a"))];
        assert_eq!(lines, expected.map(|(name, value)| pair(name, value)));
    }
}
