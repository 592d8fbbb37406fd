//! Selectors of objects: by label (`labels`, two grammars) and by field (`fields`).
//!
//! Both are parsed once and then only compared. Errors are the messages of Kubernetes: a client gets the message with a
//! 400.

mod fields;
mod labels;

use crate::labels::LabelSet;
use crate::meta::Key;
pub use fields::{FIELD_TERMS_MAX, FieldSelector, FieldTerm, field_terms, of_key, read_field};
pub use labels::{Grammar, LABEL_VALUES_MAX, LabelSelector};

/// Both together, as a list or a watch carries them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selector {
    /// Whether it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Matches a stored object by key, labels and JSON document.
    pub fn matches(&self, key: &Key, labels: &LabelSet, json: &[u8]) -> bool {
        self.labels.matches(labels) && self.fields.matches_stored(key, json)
    }
}
