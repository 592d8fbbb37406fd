//! The problems and unknown fields that were found while a document of an older version was read.

use coracle_schema::{Path, Problem, Reason};
use serde_json::{Map, Value, json};

pub(super) type Object = Map<String, Value>;

/// Problems and dropped fields that one document may report; a document of a stranger may hold any number.
pub(super) const REPORTS_MAX: usize = 100;

/// The findings of reading a document.
#[derive(Default)]
pub(super) struct OldReading {
    pub problems: Vec<Problem>,
    pub unknown: Vec<Path>,
    /// A service came with the one port that clients before `ports` know.
    pub first_port_only: bool,
}

impl OldReading {
    pub fn problem(&mut self, problem: Problem) {
        if self.problems.len() < REPORTS_MAX {
            self.problems.push(problem);
        }
    }

    pub fn mistyped(&mut self, path: &Path, value: &Value, wanted: &str) {
        self.problem(Problem::new(path, Reason::TypeInvalid, Some(brief(value)), wanted));
    }

    pub fn unknown(&mut self, path: Path) {
        if self.unknown.len() < REPORTS_MAX {
            self.unknown.push(path);
        }
    }
}

/// A container is named, not repeated: the message of a problem stays short.
pub(super) fn brief(value: &Value) -> Value {
    match value {
        Value::Array(_) => json!("a list"),
        Value::Object(_) => json!("a map"),
        scalar => scalar.clone(),
    }
}
