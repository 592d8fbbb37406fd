//! What `kubectl get` shows of each kind: columns, and a row an object. Cells are texts and numbers as kube-apiserver gives
//! them, ages already counted: kubectl prints what it gets.

use crate::meta::Time;
use serde_json::{Value, json};

/// The table of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    pub columns: &'static [Column],
    /// One cell a column.
    pub cells: fn(&Value, Time) -> Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    /// `name` for the column that names the object.
    pub format: &'static str,
    pub description: &'static str,
    /// Shown only with `-o wide`.
    pub wide: bool,
}

impl Column {
    pub fn to_v1(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": i32::from(self.wide),
        })
    }
}

/// The table of a kind; one without columns of its own shows its name and when it was made.
pub fn of(_api_version: &str, _kind: &str) -> Sheet {
    PLAIN
}

const NAME: Column = Column { name: "Name", kind: "string", format: "name", description: "", wide: false };

static PLAIN: Sheet = Sheet {
    columns: &[NAME, Column { name: "Created At", kind: "date", format: "", description: "", wide: false }],
    cells: |document, _| vec![document["metadata"]["name"].clone(), document["metadata"]["creationTimestamp"].clone()],
};
