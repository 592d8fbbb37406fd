//! The rules for names of field managers.

use crate::problem::go_quoted;
use crate::{Path, Problem, Reason};

/// Longest name of a manager.
pub const MANAGER_BYTES_MAX: usize = 128;

/// The problems of a manager's name at `path`.
pub fn manager_problems(path: &Path, name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if name.len() > MANAGER_BYTES_MAX {
        problems.push(Problem::new(
            path,
            Reason::TooLong,
            None,
            format!("may not be more than {MANAGER_BYTES_MAX} bytes"),
        ));
    }
    for (at, odd) in name.chars().enumerate().filter(|(_, c)| c.is_control()) {
        let detail = format!("{}: invalid character U+{:04X} (at position {at})", go_quoted(name), u32::from(odd));
        problems.push(Problem::new(path, Reason::Invalid, None, detail));
    }
    problems
}
