//! A file of variables, as `fileKeyRef` reads it: lines NAME='VALUE', of which a value may have several. PURE.

use std::collections::HashMap;

/// Stands for a value that is read when the container is made. No text of a variable has a NUL in it.
pub fn mark(index: usize) -> String {
    format!("\0{index}\0")
}

/// A parsed file of variables, for all lookups in the file.
#[derive(Debug, Default)]
pub struct EnvFile {
    /// The first variable of each name; None: there is nothing in it.
    values: HashMap<String, Option<String>>,
    /// The error of the first invalid line. Parsing stops at this line, and a lookup of a variable not found before
    /// returns the error.
    wrong: Option<String>,
}

impl EnvFile {
    pub fn read(text: &str) -> EnvFile {
        let mut file = EnvFile::default();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            match one(index, line, &mut lines) {
                Ok(None) => {}
                Ok(Some((name, value))) => drop(file.values.entry(name.to_owned()).or_insert(value)),
                Err(wrong) => {
                    file.wrong = Some(wrong);
                    break;
                }
            }
        }
        file
    }

    /// None: there is no such variable, or nothing in it.
    pub fn value(&self, key: &str) -> Result<Option<&str>, &str> {
        match (self.values.get(key), &self.wrong) {
            (Some(value), _) => Ok(value.as_deref()),
            (None, Some(wrong)) => Err(wrong),
            (None, None) => Ok(None),
        }
    }
}

/// The variable that begins in a line; None: there is none in it.
fn one<'a>(
    index: usize,
    line: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Option<(&'a str, Option<String>)>, String> {
    let line = line.trim_start_matches([' ', '\t']);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let wrong = |what: &str| Err(format!("invalid environment variable format at line {}: {what}", index + 1));
    let Some((name, rest)) = line.split_once('=') else { return wrong("missing '='") };
    if name.is_empty() {
        return wrong("empty variable name");
    }
    if name.ends_with([' ', '\t']) {
        return wrong("whitespace before '=' is not allowed");
    }
    // As in a shell, where a value ends at a blank.
    if rest.starts_with([' ', '\t']) {
        return Ok(Some((name, None)));
    }
    let Some(mut rest) = rest.strip_prefix('\'') else { return wrong("value must be enclosed in single quotes") };
    let mut found = String::new();
    let after = loop {
        if let Some((inside, after)) = rest.split_once('\'') {
            found.push_str(inside);
            break after.trim_start_matches([' ', '\t']);
        }
        found.push_str(rest);
        found.push('\n');
        match lines.next() {
            Some((_, line)) => rest = line,
            None => {
                return Err(format!(
                    "invalid environment variable format starting at line {}: unclosed single quote",
                    index + 1
                ));
            }
        }
    };
    if !after.is_empty() && !after.starts_with('#') {
        return wrong("unexpected content after closing quote");
    }
    Ok(Some((name, Some(found).filter(|found| !found.is_empty()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |text: &str, expected: Result<Option<&str>, &str>| {
            assert_eq!(EnvFile::read(text).value("K"), expected, "{text}");
        };
        check("# K='no'\n\n  A='x'\n\tK='a $b \"c\"' # why\n", Ok(Some("a $b \"c\"")));
        check("K='one\n two\n'", Ok(Some("one\n two\n")));
        check("K='1'\nK='2'", Ok(Some("1")));
        check("K='1'\nnothing", Ok(Some("1")));
        check("K=''", Ok(None));
        check("K= 'x'\n", Ok(None));
        check("A='x'", Ok(None));
        check("", Ok(None));
        check("A= x\nK='1'", Ok(Some("1")));
        check("nothing", Err("invalid environment variable format at line 1: missing '='"));
        check("\n='x'", Err("invalid environment variable format at line 2: empty variable name"));
        check("K ='x'", Err("invalid environment variable format at line 1: whitespace before '=' is not allowed"));
        check("K=x", Err("invalid environment variable format at line 1: value must be enclosed in single quotes"));
        check("K='x' y", Err("invalid environment variable format at line 1: unexpected content after closing quote"));
        check("A='x'\nK='y", Err("invalid environment variable format starting at line 2: unclosed single quote"));
    }
}
