//! What differs from run to run becomes a fixed word, as `replay.py` beside the recordings does it: `<uid>`, `<rv>`,
//! `<time>`.

use regex_lite::Regex;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const AGE_COLUMNS: [&str; 5] = ["Age", "First Seen", "Last Seen", "Last Schedule", "Reinvocations"];
/// Times farther away from now are somebody's, and stay.
const NEAR_S: i64 = 2 * 86_400;

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("an expression of ours")
}

macro_rules! words {
    ($($name:ident = $text:expr;)*) => { $(static $name: LazyLock<Regex> = LazyLock::new(|| regex($text));)* };
}
words! {
    FILL = r"\{\{fill:(.):(\d+)\}\}";
    NAME = r"\{\{([A-Za-z0-9_-]+)\}\}";
    STEP = r"\.((?:\\.|[^.\[])+)|\[([^\]]*)\]";
    UUID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b";
    STAMP = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)";
    WHOLE_STAMP = r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$";
    REVISION_IN_TEXT = r#"(resourceVersion\\*"?: ?\\*")[1-9]\d*"#;
    REVISION = r"^[1-9]\d*$";
    VOLUME = r"kube-api-access-[a-z0-9]{5}\b";
    EXPIRED = r"resource version: \d+ \(\d+\)";
    TOO_LARGE = r"(resource version: \d+, current: )\d+";
    JWT = r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+";
    PEM = r"(?s)-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----\n?";
    GENERATED = r"^[a-z0-9]{5,10}$";
    YEARS = r"^\d+y\d*d?$";
    DURATION = r"^(\d+[smhdy])+$";
    AGO = r"\((?:\d+[smhdy])+ ago\)";
    ADDRESS = r"^10\.96\.\d+\.\d+$";
    NODE_PORT = r":(3[0-2]\d{3})/";
}

/// Puts `{{name}}` and `{{fill:C:N}}` into a text.
pub fn fill(text: &str, names: &BTreeMap<String, String>) -> String {
    let text = FILL.replace_all(text, |found: &regex_lite::Captures| found[1].repeat(found[2].parse().unwrap_or(0)));
    NAME.replace_all(&text, |found: &regex_lite::Captures| {
        names.get(&found[1]).cloned().unwrap_or_else(|| found[0].to_owned())
    })
    .into_owned()
}

/// Values at a path such as `$.spec.containers[name=a].image`, `[0]`, `[*].name`.
pub fn look<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in STEP.captures_iter(path.trim_start_matches('$')) {
        let key = step.get(1).map(|key| key.as_str().replace("\\.", "."));
        let index = step.get(2).map(|index| index.as_str()).unwrap_or_default();
        found = found.into_iter().flat_map(|value| one_step(value, key.as_deref(), index)).collect();
    }
    found
}

fn one_step<'v>(value: &'v Value, key: Option<&str>, index: &str) -> Vec<&'v Value> {
    match (value, key) {
        (Value::Object(object), Some(key)) => object.get(key).into_iter().collect(),
        (Value::Array(list), None) if index == "*" => list.iter().collect(),
        (Value::Array(list), None) => match index.split_once('=') {
            Some((key, wanted)) => {
                list.iter().filter(|entry| entry.get(key).is_some_and(|value| plain(value) == wanted)).collect()
            }
            None => index.parse::<usize>().ok().and_then(|at| list.get(at)).into_iter().collect(),
        },
        _ => Vec::new(),
    }
}

/// A text without quotes, else JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What one run of a case has seen, and the words for it.
pub struct Words {
    /// What the case itself says stays as it is.
    asked: String,
    /// A generated name, and its stable form.
    pub names: BTreeMap<String, String>,
    /// `generateName` of the requests.
    pub bases: BTreeSet<String>,
    /// A captured value, and its `{{name}}`.
    pub captured: BTreeMap<String, String>,
    pub now_s: i64,
}

impl Words {
    pub fn new(steps: &Value) -> Words {
        let now_s = jiff::Timestamp::now().as_second();
        Words {
            asked: steps.to_string(),
            names: BTreeMap::new(),
            bases: BTreeSet::new(),
            captured: BTreeMap::new(),
            now_s,
        }
    }

    pub fn capture(&mut self, name: &str, value: &str) {
        if value.len() > 2 && !WHOLE_STAMP.is_match(value) {
            self.captured.insert(value.to_owned(), format!("{{{{{name}}}}}"));
        }
    }

    /// Remembers generated names before any text is looked at.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(meta) = object.get("metadata") {
                    let text = |name: &str| meta.get(name).and_then(Value::as_str).unwrap_or_default();
                    let base: String = text("generateName").chars().take(58).collect();
                    let name = text("name");
                    let rest = name.strip_prefix(&base).unwrap_or_default();
                    if !base.is_empty() && GENERATED.is_match(rest) && !self.asked.contains(name) {
                        self.names.insert(name.to_owned(), format!("{base}<suffix>"));
                    }
                }
                object.values().for_each(|value| self.learn(value));
            }
            Value::Array(list) => list.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (raw, stable) in &self.captured {
            text = replace_word(&text, raw, stable, "_.-");
        }
        let text = UUID.replace_all(&text, |found: &regex_lite::Captures| self.unless_asked(&found[0], "<uid>"));
        let text = STAMP.replace_all(&text, |found: &regex_lite::Captures| self.stamp(found));
        let mut text = REVISION_IN_TEXT.replace_all(&text, "${1}<rv>").into_owned();
        for base in &self.bases {
            let base: String = base.chars().take(58).collect();
            text = replace_generated(&text, &base);
        }
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(raw, _)| std::cmp::Reverse(raw.len()));
        for (raw, stable) in names {
            text = text.replace(raw.as_str(), stable);
        }
        let text = VOLUME.replace_all(&text, "kube-api-access-<suffix>");
        let text = EXPIRED.replace_all(&text, "resource version: <rv> (<rv>)");
        let text = TOO_LARGE.replace_all(&text, "${1}<rv>");
        let text = JWT.replace_all(&text, "<jwt>");
        let text = PEM.replace_all(&text, "<pem>");
        long_runs(&text)
    }

    fn unless_asked(&self, found: &str, word: &str) -> String {
        if self.asked.contains(found) { found.to_owned() } else { word.to_owned() }
    }

    fn stamp(&self, found: &regex_lite::Captures) -> String {
        let whole = &found[0];
        let at = format!("{}Z", &found[1]).parse::<jiff::Timestamp>().map(|at| at.as_second());
        match at {
            Ok(at) if (at - self.now_s).abs() <= NEAR_S && !self.asked.contains(whole) => {
                if found.get(2).is_some() { "<microtime>" } else { "<time>" }.to_owned()
            }
            _ => whole.to_owned(),
        }
    }

    pub fn value(&self, value: &Value, key: &str) -> Value {
        match value {
            Value::Object(object) => {
                let table;
                let object = match object.get("kind").and_then(Value::as_str) {
                    Some("Table") if object.contains_key("rows") => {
                        table = self.table(object);
                        &table
                    }
                    _ => object,
                };
                let asker = asker(object);
                let object = asker.as_ref().unwrap_or(object);
                object.iter().map(|(key, value)| (self.text(key), self.value(value, key))).collect()
            }
            Value::Array(list) if key == "managedFields" => {
                // The server orders entries by the second of their time.
                let mut list = list.clone();
                list.sort_by_cached_key(|entry| {
                    ["operation", "manager", "subresource", "apiVersion"]
                        .map(|name| entry.get(name).map(plain).unwrap_or_default())
                });
                list.iter().map(|value| self.value(value, key)).collect()
            }
            Value::Array(list) => list.iter().map(|value| self.value(value, key)).collect(),
            Value::String(text) => self.string(text, key).into(),
            Value::Number(port) if matches!(key, "nodePort" | "healthCheckNodePort") && port.as_i64() != Some(0) => {
                if self.asked.contains(&port.to_string()) {
                    value.clone()
                } else {
                    "<port>".into()
                }
            }
            _ => value.clone(),
        }
    }

    fn string(&self, text: &str, key: &str) -> String {
        match key {
            "resourceVersion" if REVISION.is_match(text) => "<rv>".to_owned(),
            "continue" if !text.is_empty() => "<continue>".to_owned(),
            "clusterIP" | "clusterIPs" if text.contains(['.', ':']) && !self.asked.contains(text) => "<ip>".to_owned(),
            "serverAddress" => "<address>".to_owned(),
            "uid" | "mirror-uid" if text.len() == 36 => self.unless_asked(text, "<uid>"),
            _ => self.text(text),
        }
    }

    pub fn table(&self, table: &Map<String, Value>) -> Map<String, Value> {
        let mut table = table.clone();
        let columns: Vec<String> = table
            .get("columnDefinitions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|column| column.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
            .collect();
        for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            for (at, cell) in row.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
                if let Value::String(text) = cell {
                    let column = columns.get(at).map_or("", String::as_str);
                    // How long a job has run that began years ago is another every day.
                    // A watch names its columns with the first event alone.
                    let aged = columns.is_empty()
                        || AGE_COLUMNS.contains(&column)
                        || (column == "Duration" && text.ends_with('d'));
                    *cell = self.cell(text, aged).into();
                }
            }
        }
        table
    }

    fn cell(&self, text: &str, aged: bool) -> String {
        // What has run for years runs a day longer tomorrow, in whatever column.
        if aged && DURATION.is_match(text) || YEARS.is_match(text) {
            return "<age>".to_owned();
        }
        if ADDRESS.is_match(text) && !self.asked.contains(text) {
            return "<ip>".to_owned();
        }
        let text = AGO.replace_all(text, "(<age> ago)");
        let port = |found: &regex_lite::Captures| {
            if self.asked.contains(&found[1]) { found[0].to_owned() } else { ":<port>/".to_owned() }
        };
        NODE_PORT.replace_all(&text, port).into_owned()
    }
}

/// Who asked is a matter of the server's flags: the recorded one knew an `admin` with a uid, ours knows one without.
fn asker(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut object = object.clone();
    let name = object.get_mut("username").filter(|name| **name == "system:admin")?;
    *name = "admin".into();
    object.entry("uid").or_insert("admin-uid".into());
    Some(object)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every `raw` that is no part of a longer word; `before` are characters that make a word longer at its front as well.
fn replace_word(text: &str, raw: &str, stable: &str, before: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(raw).filter(|_| !raw.is_empty()) {
        let front = rest[..at].chars().next_back().or_else(|| out.chars().next_back().filter(|_| at == 0));
        let end = at + raw.len();
        let alone = !front.is_some_and(|c| is_word(c) || before.contains(c))
            && !rest[end..].chars().next().is_some_and(is_word);
        out.push_str(&rest[..at]);
        out.push_str(if alone { stable } else { raw });
        rest = &rest[end..];
    }
    out + rest
}

fn replace_generated(text: &str, base: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(base).filter(|_| !base.is_empty()) {
        let end = at + base.len();
        let suffix = rest
            .get(end..end + 5)
            .filter(|suffix| suffix.bytes().all(|byte| matches!(byte, b'b'..=b'z' | b'2'..=b'9')));
        let alone = !rest[..at].chars().next_back().is_some_and(|c| is_word(c) || c == '-')
            && !rest.get(end + 5..).and_then(|rest| rest.chars().next()).is_some_and(is_word);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
        if suffix.is_some() && alone {
            out.push_str("<suffix>");
            rest = &rest[5..];
        }
    }
    out + rest
}

/// A hundred times the same character, or more.
fn long_runs(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut count = 1;
        while c != '\n' && chars.next_if_eq(&c).is_some() {
            count += 1;
        }
        if count >= 100 {
            out.push_str(&format!("<fill:{c}:{count}>"));
        } else {
            out.extend(std::iter::repeat_n(c, count));
        }
    }
    out
}
