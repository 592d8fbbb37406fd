//! A case on a master of its own: its steps, and their answers in words that do not vary.

use super::wire::{self, Ask, Next, Opened, Reply};
use super::words::{Words, fill, look, plain};
use crate::transcript::Bed;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const KEPT_HEADERS: [&str; 5] = ["Allow", "Retry-After", "Www-Authenticate", "Location", "Accept-Patch"];
/// That nothing acts on a kind yet, and that no agent would start a pod: ours alone, intended, and on so many answers
/// that they would hide what else differs.
const OWN_WARNINGS: [&str; 2] = ["299 - \"nothing acts on ", "299 - \"no agent will start "];
/// A captured revision is told from other numbers by its length, so the first ones are used up.
const REVISIONS_USED: u32 = 100;

/// JSON with its fields in their order: bodies are sent as they were.
enum Doc {
    Object(Vec<(String, Doc)>),
    Array(Vec<Doc>),
    Plain(Value),
}

impl<'de> Deserialize<'de> for Doc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Doc, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Doc;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Doc, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Doc::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Doc, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Doc::Array(entries))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Doc, E> {
        Ok(Doc::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Doc, E> {
        Ok(Doc::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Doc, E> {
        Ok(Doc::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Doc, E> {
        Ok(Doc::Plain(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Doc, E> {
        Ok(Doc::Plain(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Doc, E> {
        Ok(Doc::Plain(Value::Null))
    }
}

impl fmt::Display for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doc::Plain(value) => value.fmt(f),
            Doc::Array(entries) => {
                for (at, entry) in entries.iter().enumerate() {
                    write!(f, "{}{entry}", if at == 0 { '[' } else { ',' })?;
                }
                f.write_str(if entries.is_empty() { "[]" } else { "]" })
            }
            Doc::Object(fields) => {
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{}:{value}", if at == 0 { '{' } else { ',' }, Value::from(name.as_str()))?;
                }
                f.write_str(if fields.is_empty() { "{}" } else { "}" })
            }
        }
    }
}

impl Doc {
    fn get(&self, name: &str) -> Option<&Doc> {
        match self {
            Doc::Object(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    fn entries(&self) -> &[Doc] {
        match self {
            Doc::Array(entries) => entries,
            _ => &[],
        }
    }

    fn value(&self) -> Value {
        serde_json::from_str(&self.to_string()).expect("it was read as JSON")
    }
}

pub struct Case {
    steps: Doc,
    asked: Value,
    labels: Option<Value>,
    in_namespace: bool,
    pub manual: bool,
}

impl Case {
    pub fn read(text: &str) -> Case {
        let doc: Doc = serde_json::from_str(text).expect("a recorded case is JSON");
        let Doc::Object(fields) = doc else { panic!("a case is an object") };
        let mut fields: BTreeMap<String, Doc> = fields.into_iter().collect();
        let is = |name: &str| fields.get(name).is_some_and(|value| value.to_string() == "true");
        let (manual, no_namespace) = (is("manual") || fields.contains_key("manual"), is("noNamespace"));
        let labels = fields.get("namespaceLabels").map(Doc::value);
        let steps = fields.remove("steps").expect("a case has steps");
        let asked = steps.value();
        Case { in_namespace: !no_namespace && text.contains("{{ns}}"), steps, asked, labels, manual }
    }

    /// What was recorded, step by step: method, path, answer.
    pub fn recorded(&self) -> Vec<(String, Value)> {
        let steps = self.asked.as_array().map(Vec::as_slice).unwrap_or_default();
        let title = |step: &Value| format!("{} {}", plain(&step["method"]), plain(&step["path"]));
        steps.iter().map(|step| (title(step), with_inner(step))).collect()
    }

    pub fn play(&self, bed: &Bed) -> Result<Vec<Value>, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let letters: String = (0..8).map(|at| char::from(b"bcdfghjk"[(number >> (3 * at)) as usize % 8])).collect();
        let namespace = format!("c-{letters}");
        let mut words = Words::new(&self.asked);
        words.names.insert(namespace.clone(), "{{ns}}".to_owned());
        let mut run = Run { address: bed.address(), names: BTreeMap::from([("ns".to_owned(), namespace)]), words };
        run.use_revisions()?;
        if self.in_namespace {
            run.make_namespace(self.labels.as_ref())?;
        }
        self.steps.entries().iter().map(|step| run.step(step)).collect()
    }
}

/// The answers of steps that were taken inside a step stand in its own.
fn with_inner(step: &Value) -> Value {
    let mut answer = step["answer"].clone();
    if let (Some(inner), Some(_)) = (step["during"].as_array(), answer.get("events")) {
        answer["during"] = inner.iter().map(with_inner).collect();
    }
    answer
}

struct Run {
    address: SocketAddr,
    names: BTreeMap<String, String>,
    words: Words,
}

impl Run {
    fn plain(&self, method: &str, path: &str, body: Option<Value>) -> Result<Reply, String> {
        let headers = headers(&Value::Null, body.is_some());
        let body = body.map(|body| body.to_string().into_bytes());
        wire::ask(self.address, &Ask { method, path, headers, body })
            .map_err(|error| format!("{method} {path}: {error}"))
    }

    fn use_revisions(&self) -> Result<(), String> {
        for at in 0..REVISIONS_USED / 2 {
            let event = json!({"metadata": {"name": format!("e{at}"), "namespace": "default"},
                "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"}});
            self.plain("POST", "/api/v1/namespaces/default/events", Some(event))?;
            self.plain("DELETE", &format!("/api/v1/namespaces/default/events/e{at}"), None)?;
        }
        Ok(())
    }

    fn make_namespace(&self, labels: Option<&Value>) -> Result<(), String> {
        let name = &self.names["ns"];
        let mut meta = json!({"name": name});
        if let Some(labels) = labels {
            meta["labels"] = labels.clone();
        }
        let made = self.plain(
            "POST",
            "/api/v1/namespaces",
            Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})),
        )?;
        if made.code != 201 {
            return Err(format!("no namespace: {} {}", made.code, String::from_utf8_lossy(&made.body)));
        }
        let until = Instant::now() + wire::PATIENCE;
        while self.plain("GET", &format!("/api/v1/namespaces/{name}/serviceaccounts/default"), None)?.code != 200 {
            if Instant::now() > until {
                return Err(format!("namespace {name} has no service account"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn step(&mut self, doc: &Doc) -> Result<Value, String> {
        let recorded = doc.value();
        let mut step = Map::new();
        for (name, value) in
            recorded.as_object().into_iter().flatten().filter(|(name, _)| *name != "answer" && *name != "during")
        {
            let filled = fill(&value.to_string(), &self.names);
            step.insert(name.clone(), serde_json::from_str(&filled).map_err(|error| format!("{name}: {error}"))?);
        }
        let step = Value::Object(step);
        let body = self.body(doc, &step);
        let (method, path) = (plain(&step["method"]), plain(&step["path"]));
        let asked = Ask { method: &method, path: &path, headers: headers(&step["headers"], body.is_some()), body };
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        if step.get("watch").is_some() {
            let during = doc.get("during").map(Doc::entries).unwrap_or_default();
            return match wire::watch(self.address, &asked).map_err(failed)? {
                Opened::Whole(reply) => Ok(self.answer(&reply, &reply.value(), &Value::Null)),
                Opened::Stream { code, headers, lines } => {
                    // Only where it was seen to stay quiet is it left while it lasts; what comes is waited for.
                    let quiet = recorded["answer"]["ended"] == "seconds";
                    let rule = &step["watch"];
                    let patience = if quiet { seconds(rule) } else { wire::PATIENCE };
                    self.watch(rule, patience, during, code, &headers, lines)
                }
            };
        }
        let (reply, mut value) = self.polled(&asked, &step["poll"]).map_err(failed)?;
        for path in step["unordered"].as_array().into_iter().flatten() {
            sort_at(&mut value, &plain(path));
        }
        let mut answer = self.answer(&reply, &value, &step["pick"]);
        for path in step["skip"].as_array().into_iter().flatten() {
            take_out(&mut answer, &plain(path));
        }
        for (name, path) in step["capture"].as_object().into_iter().flatten() {
            let found = look(&value, &plain(path)).first().map(|value| plain(value)).unwrap_or_default();
            self.words.capture(name, &found);
            self.names.insert(name.clone(), found);
        }
        Ok(answer)
    }

    fn body(&mut self, doc: &Doc, step: &Value) -> Option<Vec<u8>> {
        if let Some(text) = step["bodyBase64"].as_str() {
            return Some(from_base64(text));
        }
        if let Some(base) = step["body"]["metadata"]["generateName"].as_str().filter(|base| !base.is_empty()) {
            self.words.bases.insert(base.to_owned());
        }
        match step.get("body")? {
            Value::String(text) => Some(text.clone().into_bytes()),
            _ => Some(fill(&doc.get("body")?.to_string(), &self.names).into_bytes()),
        }
    }

    fn polled(&self, asked: &Ask, poll: &Value) -> std::io::Result<(Reply, Value)> {
        let until = Instant::now() + wire::PATIENCE.max(seconds(poll));
        loop {
            let reply = wire::ask(self.address, asked)?;
            let value = reply.value();
            if poll.is_null() || Instant::now() > until || reached(poll, reply.code, &value) {
                return Ok((reply, value));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn answer(&mut self, reply: &Reply, value: &Value, pick: &Value) -> Value {
        self.words.learn(value);
        let mut answer = json!({
            "status": reply.code,
            "contentType": reply.header("content-type").unwrap_or_default(),
            "warnings":
            reply.all("warning").filter(|warning| !OWN_WARNINGS.iter().any(|own| warning.starts_with(own))).map(
                |warning| self.words.text(warning)).collect::<Vec<_>>(),
        });
        let kept: Map<String, Value> = KEPT_HEADERS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), Value::from(reply.header(name)?))))
            .collect();
        if !kept.is_empty() {
            answer["headers"] = self.words.value(&Value::Object(kept), "");
        }
        let pick = pick.as_array().filter(|_| reply.code < 400);
        answer["body"] = match pick {
            Some(paths) => {
                let value = match value {
                    Value::Object(object) if value["kind"] == "Table" => &Value::Object(self.words.table(object)),
                    _ => value,
                };
                paths.iter().map(|path| self.picked(value, &plain(path))).collect::<Map<_, _>>().into()
            }
            None => self.words.value(value, ""),
        };
        answer
    }

    fn picked(&self, value: &Value, path: &str) -> (String, Value) {
        let key = path.rsplit('.').next().unwrap_or_default();
        let found: Value = look(value, path).into_iter().cloned().collect();
        (path.to_owned(), self.words.value(&found, key))
    }

    fn watch(
        &mut self,
        rule: &Value,
        patience: Duration,
        during: &[Doc],
        code: u16,
        headers: &[(String, String)],
        mut lines: wire::Lines,
    ) -> Result<Value, String> {
        let during: Vec<Value> = during.iter().map(|step| self.step(step)).collect::<Result<_, _>>()?;
        let until = Instant::now() + patience;
        let wanted = rule["events"].as_u64().map_or(usize::MAX, |count| count as usize);
        let mut events = Vec::new();
        let mut ended = "events";
        while events.len() < wanted {
            match lines.next(until).map_err(|error| error.to_string())? {
                Next::Late => {
                    ended = "seconds";
                    break;
                }
                Next::Ended => {
                    ended = "server";
                    break;
                }
                Next::Line(line) => {
                    let event: Value = serde_json::from_slice(&line).map_err(|error| format!("an event: {error}"))?;
                    if event["type"] == "BOOKMARK" && rule["skipBookmarks"] == true {
                        continue;
                    }
                    self.words.learn(&event);
                    events.push(self.words.value(&event, ""));
                }
            }
        }
        let kind =
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, kind)| kind.as_str());
        let mut answer =
            json!({"status": code, "contentType": kind.unwrap_or_default(), "events": events, "ended": ended});
        if !during.is_empty() {
            answer["during"] = during.into();
        }
        Ok(answer)
    }
}

/// For how long the recording waited.
fn seconds(rule: &Value) -> Duration {
    Duration::from_secs_f64(rule["seconds"].as_f64().unwrap_or(10.0))
}

fn headers(given: &Value, body: bool) -> Vec<(String, String)> {
    let mut headers = BTreeMap::from([
        ("Accept".to_owned(), Value::from("application/json")),
        ("User-Agent".to_owned(), "replay/1.0".into()),
    ]);
    if body {
        headers.insert("Content-Type".to_owned(), "application/json".into());
    }
    headers.extend(given.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    headers.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, plain(&value))).collect()
}

fn reached(poll: &Value, code: u16, value: &Value) -> bool {
    if let Some(status) = poll["status"].as_u64() {
        return u64::from(code) == status;
    }
    let found = look(value, &plain(&poll["path"]));
    match poll.get("equals") {
        Some(wanted) => found.first() == Some(&wanted),
        None => found.first().is_some_and(|value| !value.is_null()),
    }
}

/// Lists at plain paths, without wildcards.
fn sort_at(value: &mut Value, path: &str) {
    let pointer = path.trim_start_matches('$').replace('.', "/");
    if let Some(list) = value.pointer_mut(&pointer).and_then(Value::as_array_mut) {
        list.sort_by_cached_key(Value::to_string);
    }
}

fn take_out(answer: &mut Value, path: &str) {
    let (way, last) = path.rsplit_once('.').unwrap_or(("", path));
    let pointer = if way.is_empty() { String::new() } else { format!("/{}", way.replace('.', "/")) };
    if let Some(object) = answer.pointer_mut(&pointer).and_then(Value::as_object_mut) {
        object.remove(last);
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let bits: Vec<u8> = text.bytes().filter_map(value).collect();
    let mut out = Vec::new();
    for group in bits.chunks(4) {
        let word = group.iter().fold(0u32, |word, six| word << 6 | u32::from(*six)) << (6 * (4 - group.len()));
        out.extend_from_slice(&word.to_be_bytes()[1..][..group.len() * 3 / 4]);
    }
    out
}

/// Path by path, for people.
pub fn differences(wanted: &Value, found: &Value, path: &str, into: &mut String) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, value) in wanted {
                match found.get(key) {
                    Some(found) => differences(value, found, &format!("{path}.{key}"), into),
                    None => note(into, format_args!("{path}.{key}: missing, recorded {}", short(value))),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
                note(into, format_args!("{path}.{key}: extra {}", short(value)));
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            for at in 0..wanted.len().max(found.len()) {
                let path = format!("{path}[{at}]");
                match (wanted.get(at), found.get(at)) {
                    (Some(wanted), Some(found)) => differences(wanted, found, &path, into),
                    (Some(wanted), None) => note(into, format_args!("{path}: missing, recorded {}", short(wanted))),
                    (None, Some(found)) => note(into, format_args!("{path}: extra {}", short(found))),
                    (None, None) => {}
                }
            }
        }
        _ if wanted != found => {
            note(into, format_args!("{path}:\n      recorded {}\n      got      {}", short(wanted), short(found)))
        }
        _ => {}
    }
}

fn note(into: &mut String, line: fmt::Arguments) {
    writeln!(into, "    {line}").expect("a String takes all");
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 600 { text } else { format!("{}...", text.chars().take(600).collect::<String>()) }
}
