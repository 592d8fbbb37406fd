//! A problem of a document, and its place.

use std::fmt;

/// Where in a document: `spec.containers[0].name`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    pub fn root() -> Path {
        Path::default()
    }

    pub fn new(text: &str) -> Path {
        Path(text.to_owned())
    }

    pub fn field(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { self.then(&[".", name]) }
    }

    pub fn index(&self, at: usize) -> Path {
        self.then(&["[", &at.to_string(), "]"])
    }

    pub fn key(&self, key: &str) -> Path {
        self.then(&["[", key, "]"])
    }

    /// Allocates once, because every rule makes the path of its field: hundreds for a document without a problem.
    fn then(&self, parts: &[&str]) -> Path {
        let mut text = String::with_capacity(self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        text.push_str(&self.0);
        parts.iter().for_each(|part| text.push_str(part));
        Path(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The causes of an Invalid status, by their names on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Required,
    Invalid,
    Duplicate,
    NotFound,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl Reason {
    /// `details.causes[].reason`.
    pub fn wire(self) -> &'static str {
        match self {
            Reason::Required => "FieldValueRequired",
            Reason::Invalid => "FieldValueInvalid",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::NotFound => "FieldValueNotFound",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Reason::Required => "Required value",
            Reason::Invalid => "Invalid value",
            Reason::Duplicate => "Duplicate value",
            Reason::NotFound => "Not found",
            Reason::NotSupported => "Unsupported value",
            Reason::Forbidden => "Forbidden",
            Reason::TooLong => "Too long",
            Reason::TooMany => "Too many",
            Reason::TypeInvalid => "Invalid value",
        }
    }
}

/// As Go quotes a text, which shows control characters otherwise than JSON does.
pub fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            c if u32::from(c) < 0x20 || c == '\x7f' => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// One error in one field. `Display` is one cause as kubectl prints it: `spec.x: Invalid value: 3: must be ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub path: Path,
    pub reason: Reason,
    /// The offending value, where the reason has one to show.
    pub value: Option<serde_json::Value>,
    /// How the value is written where its fields have another order, or other names, than here.
    pub shown: Option<String>,
    /// The expected value.
    pub detail: String,
}

impl Problem {
    pub fn new(path: &Path, reason: Reason, value: Option<serde_json::Value>, detail: impl Into<String>) -> Problem {
        Problem { path: path.clone(), reason, value, shown: None, detail: detail.into() }
    }

    pub fn required(path: &Path, detail: impl Into<String>) -> Problem {
        Problem::new(path, Reason::Required, None, detail)
    }

    pub fn invalid(path: &Path, value: impl Into<serde_json::Value>, detail: impl Into<String>) -> Problem {
        Problem::new(path, Reason::Invalid, Some(value.into()), detail)
    }

    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Problem {
        Problem::new(path, Reason::Forbidden, None, detail)
    }

    /// The same problem with its value written like this.
    pub fn showing(self, text: String) -> Problem {
        Problem { shown: Some(text), ..self }
    }

    /// Without the path: what stands as `message` of a cause.
    pub fn message(&self) -> String {
        let mut text = self.reason.words().to_owned();
        match (&self.shown, &self.value) {
            (Some(shown), _) => text = format!("{text}: {shown}"),
            (None, Some(serde_json::Value::String(value))) => text = format!("{text}: {}", go_quoted(value)),
            (None, Some(value)) => text = format!("{text}: {value}"),
            (None, None) => {}
        }
        if !self.detail.is_empty() {
            text = format!("{text}: {}", self.detail);
        }
        text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}
