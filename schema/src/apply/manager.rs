//! How a manager of fields may be called.

use crate::{Path, Problem, Reason};

/// Longest name of a manager.
pub const MANAGER_BYTES_MAX: usize = 128;

/// What is wrong with a manager's name that stands at `path`.
pub fn manager_problems(path: &Path, name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if name.len() > MANAGER_BYTES_MAX {
        problems.push(Problem::new(path, Reason::TooLong, None, format!("may not be more than {MANAGER_BYTES_MAX} bytes")));
    }
    for (at, odd) in name.chars().enumerate().filter(|(_, c)| c.is_control()) {
        let detail = format!("{}: invalid character U+{:04X} (at position {at})", quoted(name), u32::from(odd));
        problems.push(Problem::new(path, Reason::Invalid, None, detail));
    }
    problems
}

/// As Go quotes it.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        c if c.is_control() && !c.is_ascii_whitespace() => format!("\\x{:02x}", u32::from(c)),
        c => c.escape_default().to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}
