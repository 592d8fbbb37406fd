//! The status of a workload as it is written: counts and conditions over what stands, zeros left out as Kubernetes
//! does. PURE.

use super::view::document;
use crate::store::Stored;
use coracle_api::workload::Condition;
use serde_json::{Map, Value};

/// A status in the making. Fields that no call names stay unchanged.
pub struct Counts {
    status: Map<String, Value>,
}

impl Counts {
    /// Over the status that stands.
    pub fn of(stored: &Stored) -> Counts {
        Counts { status: document(stored)["status"].as_object().cloned().unwrap_or_default() }
    }

    pub fn always(mut self, name: &str, count: i64) -> Counts {
        self.status.insert(name.to_owned(), count.into());
        self
    }

    pub fn maybe(mut self, name: &str, count: Option<i64>) -> Counts {
        match count {
            Some(count) => self.status.insert(name.to_owned(), count.into()),
            None => self.status.remove(name),
        };
        self
    }

    pub fn unless_zero(self, name: &str, count: i64) -> Counts {
        self.maybe(name, (count != 0).then_some(count))
    }

    pub fn text(mut self, name: &str, text: &str) -> Counts {
        self.status.insert(name.to_owned(), text.into());
        self
    }

    pub fn conditions(mut self, conditions: &[Condition]) -> Counts {
        if conditions.is_empty() {
            self.status.remove("conditions");
        } else {
            self.status.insert("conditions".to_owned(), shown(conditions));
        }
        self
    }
}

impl From<Counts> for Value {
    fn from(counts: Counts) -> Value {
        counts.status.into()
    }
}

pub fn shown(conditions: &[Condition]) -> Value {
    conditions.iter().map(one).collect()
}

fn one(condition: &Condition) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Option<Value>| value.map(|value| shown.insert(name.to_owned(), value));
    let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
    put("type", Some(condition.kind.as_str().into()));
    put("status", Some(condition.status.as_str().into()));
    put("lastUpdateTime", condition.last_update_time.map(|time| time.to_string().into()));
    put("lastTransitionTime", condition.last_transition_time.map(|time| time.to_string().into()));
    put("reason", text(&condition.reason));
    put("message", text(&condition.message));
    shown.into()
}
