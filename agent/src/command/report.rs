//! What a command has found, for people and for programs. PURE.

use serde_json::Value;

/// The findings of a command, for people and for programs.
pub struct Report {
    pub lines: Vec<String>,
    pub document: Value,
    /// Nothing is wrong.
    pub well: bool,
}
