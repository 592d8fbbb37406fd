//! Which objects a controller means, by their labels. PURE.

use super::Labels;
use coracle_api::labels::LabelSet;
use coracle_api::strategy::label_selector;
use serde_json::Value;

/// Selects objects by their labels.
#[derive(Clone, Debug)]
pub enum Selector {
    Labels(Labels),
    /// A label selector, as documents hold it.
    Rules(Value),
}

impl Selector {
    /// Labels that every selected object has. Empty: the selector requires no label value, or selects all objects.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        match self {
            Selector::Labels(wanted) => wanted.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            Selector::Rules(selector) => {
                let labels = selector["matchLabels"].as_object().into_iter().flatten();
                labels.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
            }
        }
    }

    pub fn selects(&self, labels: &LabelSet) -> bool {
        match self {
            Selector::Labels(wanted) => selects(wanted, labels),
            Selector::Rules(selector) => label_selector::selects(selector, |key| labels.get(key)),
        }
    }
}

/// Whether all wanted labels are present; an empty map selects nothing.
pub fn selects(wanted: &Labels, labels: &LabelSet) -> bool {
    !wanted.is_empty() && wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}
