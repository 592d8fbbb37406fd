//! What the original servers v0.4 and v0.16.2 were asked and answered (`tests/data/v1beta1/observed`), asked of a
//! master of our own: in v1beta1 as it was, in v1beta2 with the version changed, and in v1beta3 with each document and
//! path said anew.
//!
//! An answer is alike when its code and reason are the same and everything that the old answer shows is shown: our own
//! additions pass. What differs stands in `intended.txt`, each with its reason; a line there that matches nothing
//! fails.
//!
//!     CORACLE_OBSERVED=show cargo test -p coracle-tests --test it observed -- --nocapture
//!         every difference, matched or not

use crate::transcript::{Bed, Pipe, ask};
use coracle_api::old::{self, Version};
use coracle_api::strategy::Cidr;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::{env, fs};

const SERVERS: [&str; 2] = ["v0.4", "v0.16.2"];
/// What is another at each run.
const VARYING: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "uuid",
    "portalIP",
    "nodePort",
    "endpoints.kubernetes.io/last-change-trigger-time",
];

fn data(path: &str) -> String {
    let path = format!("{}/data/v1beta1/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

struct Step {
    name: String,
    method: String,
    path: String,
    /// None: nothing is sent.
    body: Option<Value>,
    /// None: a step of ours.
    observed: Option<(u16, Value)>,
}

fn steps(server: &str) -> Vec<Step> {
    let order = data("order.txt");
    let lines = order.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| {
            if let Some(own) = line.strip_prefix("! ") {
                let mut parts = own.splitn(3, ' ').map(str::to_owned);
                let (method, path) = (parts.next().expect("a method"), parts.next().expect("a path"));
                let body = parts.next().map(|body| serde_json::from_str(&body).expect("JSON"));
                return Some(Step { name: own.to_owned(), method, path, body, observed: None });
            }
            let path = format!("observed/{server}/{line}.json");
            let file = format!("{}/data/v1beta1/{path}", env!("CARGO_MANIFEST_DIR"));
            if !std::path::Path::new(&file).exists() {
                return None;
            }
            let record: Value = serde_json::from_str(&data(&path)).expect("JSON");
            let text = |field: &str| record[field].as_str().unwrap_or_else(|| panic!("{path}: no {field}")).to_owned();
            let body = Some(record["request"].clone()).filter(|body| !body.is_null());
            let code = record["status"].as_u64().expect("a code") as u16;
            let observed = Some((code, record["response"].clone()));
            Some(Step { name: line.to_owned(), method: text("method"), path: text("path"), body, observed })
        })
        .collect()
}

/// A conversation with one server, and what its words for objects and revisions are here.
struct Talk {
    bed: Bed,
    version: Version,
    /// Uids and addresses.
    words: BTreeMap<String, String>,
    revisions: BTreeMap<String, String>,
}

struct Answered {
    code: u16,
    document: Value,
}

/// A watch of which only the times of its events count.
struct News(Box<dyn Pipe>);

impl News {
    /// Until something is told. The pipe is not patient for ever.
    fn wait(&mut self) {
        let length = self.0.read(&mut [0; 4096]).expect("something happens");
        assert!(length > 0, "the watch goes on");
    }
}

impl Talk {
    fn new(version: Version) -> Talk {
        // Nothing is placed or replicated: what the answers hold does not depend on who is faster.
        let bed = Bed::set_up(|config| {
            config.service_cidr = Cidr::parse("10.0.0.0/16").expect("a network");
            config.workloads = false;
        });
        Talk { bed, version, words: BTreeMap::new(), revisions: BTreeMap::new() }
    }

    /// None: the request cannot be said in this version.
    fn ask(&self, step: &Step) -> Option<Answered> {
        let of_2014 = ["/api/v1beta1/operations", "/api/v1beta1/ns/", "/api/v1beta1/namespaces/other/pods"];
        let elsewhere =
            !step.path.starts_with("/api/v1beta1/") || of_2014.iter().any(|path| step.path.starts_with(path));
        if !self.version.is_flat() && (elsewhere || step.path == "/api/v1beta1/") {
            return None;
        }
        let body = match &step.body {
            None => String::new(),
            // v1beta3 is JSON alone.
            Some(Value::String(text)) if !self.version.is_flat() && !text.is_empty() => return None,
            Some(Value::String(text)) => text.clone(),
            Some(body) => self.said(step, body)?.to_string(),
        };
        let mut headers = Vec::new();
        if step.method == "PATCH" {
            headers.push(("Content-Type".to_owned(), "application/merge-patch+json".to_owned()));
        }
        let path = self.path(&step.method, &step.path);
        // Endpoints follow their service in a moment: whatever is told of them, they are asked for again.
        let mut news = (step.method == "GET" && step.path.contains("/endpoints")).then(|| self.news_of_endpoints());
        let reply = loop {
            let followed = news.is_none() || self.endpoints_have_followed();
            let reply = ask(self.bed.network(), &step.method, &path, &headers, &body);
            let expected = followed && step.observed.as_ref().is_none_or(|(code, _)| reply.code == *code);
            match &mut news {
                Some(news) if !expected => news.wait(),
                _ => break reply,
            }
        };
        let document = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        Some(Answered { code: reply.code, document })
    }

    fn news_of_endpoints(&self) -> News {
        let mut watch = self.bed.network();
        watch
            .write_all(b"GET /api/v1/endpoints?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("the request is taken");
        News(watch)
    }

    /// Whether each service that selects pods has them.
    fn endpoints_have_followed(&self) -> bool {
        let names = |plural: &str, counts: fn(&Value) -> bool| -> BTreeSet<String> {
            let reply = ask(self.bed.network(), "GET", &format!("/api/v1/{plural}"), &[], "");
            let list: Value = serde_json::from_slice(&reply.body).expect("JSON");
            let items = list["items"].as_array().expect("a list").iter().filter(|item| counts(item));
            items.map(|item| format!("{} {}", item["metadata"]["namespace"], item["metadata"]["name"])).collect()
        };
        names("services", |service| service["spec"]["selector"].as_object().is_some_and(|labels| !labels.is_empty()))
            .is_subset(&names("endpoints", |_| true))
    }

    /// A document that was sent, with the uid and revision that its object has here.
    fn said(&self, step: &Step, body: &Value) -> Option<Value> {
        let mut body = body.clone();
        for field in ["uid", "portalIP"] {
            if let Some(word) = body[field].as_str().and_then(|word| self.words.get(word)) {
                body[field] = json!(word);
            }
        }
        if let Some(revision) =
            body.get("resourceVersion").and_then(|revision| self.revisions.get(&revision.to_string()))
        {
            body["resourceVersion"] = json!(revision.parse::<u64>().expect("a number"));
        }
        if self.version == Version::V1beta1 || step.method == "DELETE" {
            return Some(body);
        }
        if step.method == "PATCH" {
            return Some(if self.version.is_flat() { body } else { json!({ "metadata": body }) });
        }
        if body["apiVersion"] == "v1beta1" {
            body["apiVersion"] = json!(self.version.name());
        }
        if self.version.is_flat() {
            return Some(body);
        }
        let kind = body["kind"].as_str().unwrap_or("Pod").to_owned();
        // What is said wrongly on purpose cannot be said anew.
        if body.get("apiVersion").is_some_and(|version| version != "v1beta3") {
            return None;
        }
        body.as_object_mut()?.remove("apiVersion");
        let decoded = old::decode(Version::V1beta1, &kind, &body).ok()?;
        Some(old::encode(self.version, &decoded.object))
    }

    /// `/api/v1beta1/pods/x?namespace=n` in the paths of the version.
    fn path(&self, method: &str, path: &str) -> String {
        let rest =
            path.strip_prefix("/api/v1beta1/").filter(|rest| !rest.is_empty() && self.version != Version::V1beta1);
        let Some(rest) = rest else { return path.to_owned() };
        if self.version.is_flat() {
            return format!("/api/v1beta2/{rest}");
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let namespace = query.split('&').find_map(|pair| pair.strip_prefix("namespace="));
        let query: Vec<&str> =
            query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("namespace=")).collect();
        let (lead, rest) = match rest.split_once('/') {
            Some((lead @ ("proxy" | "redirect" | "watch"), rest)) => (format!("{lead}/"), rest),
            _ => (String::new(), rest),
        };
        let rest = rest.replacen("minions", "nodes", 1);
        let (plural, name) = rest.split_once('/').unwrap_or((&rest, ""));
        let plural = plural.to_lowercase();
        let of_cluster = ["nodes", "namespaces", "operations", "boundpods", "validate"].contains(&plural.as_str());
        let place = match namespace {
            _ if of_cluster => String::new(),
            Some(namespace) => format!("namespaces/{namespace}/"),
            // A list of none is a list of all.
            None if method == "GET" && name.is_empty() => String::new(),
            None => "namespaces/default/".to_owned(),
        };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{}", query.join("&").replace("labels=", "labelSelector="))
        };
        format!("/api/{}/{lead}{place}{plural}{name}{query}", self.version.name())
    }

    fn learn(&mut self, observed: &Value, ours: &Value) {
        for field in ["uid", "portalIP"] {
            if let (Some(theirs), Some(ours)) = (observed[field].as_str(), ours[field].as_str()) {
                self.words.insert(theirs.to_owned(), ours.to_owned());
            }
        }
        if let (Some(theirs), Some(ours)) = (observed["resourceVersion"].as_u64(), ours["resourceVersion"].as_u64()) {
            self.revisions.insert(theirs.to_string(), ours.to_string());
        }
    }
}

/// What Go shows when nothing is set is nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        Value::Bool(true) => false,
    }
}

/// Every value of `was` that is absent or another in `is`.
fn lost(path: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
    match (was, is) {
        (was, is) if was == is || (is_nothing(was) && is_nothing(is)) => {}
        (Value::Object(was), Value::Object(is)) => {
            for (name, value) in was.iter().filter(|(name, _)| !VARYING.contains(&name.as_str())) {
                lost(&format!("{path}.{name}"), value, is.get(name).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(was), Value::Array(is)) => {
            for (at, value) in was.iter().enumerate() {
                lost(&format!("{path}[]"), value, by_id(is, value).or(is.get(at)).unwrap_or(&Value::Null), found);
            }
        }
        (was, is) => found.push(format!("{} {was} -> {is}", path.trim_start_matches('.'))),
    }
}

/// Of a list of objects, the one with the same id.
fn by_id<'v>(list: &'v [Value], of: &Value) -> Option<&'v Value> {
    let id = of.get("id").filter(|id| !id.is_null())?;
    Some(list.iter().find(|entry| entry.get("id") == Some(id)).unwrap_or(&Value::Null))
}

fn differences(observed: &(u16, Value), ours: &Answered) -> Vec<String> {
    let (code, document) = observed;
    let mut found = Vec::new();
    if *code != ours.code {
        found.push(format!("code {code} -> {}", ours.code));
    }
    // Of a refusal the words differ from year to year; who decides anything goes by code and reason.
    if document["kind"] == "Status" && ours.document["kind"] == "Status" {
        for name in ["status", "reason"] {
            lost(name, &document[name], &ours.document[name], &mut found);
        }
        return found;
    }
    // Another code has another document.
    if *code / 100 == ours.code / 100 {
        lost("", document, &ours.document, &mut found);
    }
    found
}

/// `WHO STEP WHAT: REASON`, with a star for anything.
struct Rule {
    text: String,
    reason: String,
}

fn rules() -> Vec<Rule> {
    let text = data("intended.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(" :: ").unwrap_or_else(|| panic!("intended.txt: {line:?} gives no reason")))
        .map(|(text, reason)| Rule { text: text.to_owned(), reason: reason.to_owned() })
        .collect()
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text
            .strip_prefix(head)
            .is_some_and(|text| (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..]))),
    }
}

fn check(found: &[String], prefix: &[&str]) {
    let rules = rules();
    let rules: Vec<&Rule> =
        rules.iter().filter(|rule| prefix.iter().any(|prefix| rule.text.starts_with(prefix))).collect();
    let show = env::var("CORACLE_OBSERVED").is_ok();
    let mut used = BTreeSet::new();
    let mut unmatched = Vec::new();
    // The master notes it on a node when it comes to that, before or after somebody asks.
    for difference in found.iter().filter(|difference| !difference.contains("node.alpha.kubernetes.io/ttl")) {
        let matching: Vec<&&Rule> = rules.iter().filter(|rule| fits(&rule.text, difference)).collect();
        if show {
            eprintln!("{difference}    {}", matching.first().map_or("!", |rule| rule.reason.as_str()));
        }
        used.extend(matching.iter().map(|rule| rule.text.clone()));
        if matching.is_empty() {
            unmatched.push(difference.as_str());
        }
    }
    assert!(
        unmatched.is_empty(),
        "{} differences without a reason in intended.txt:\n{}",
        unmatched.len(),
        unmatched.join("\n")
    );
    let unused: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).filter(|text| !used.contains(*text)).collect();
    assert!(unused.is_empty(), "differ no more, take them out of intended.txt:\n{}", unused.join("\n"));
}

/// In v1beta1 and v1beta2 the answers are those of the old servers.
#[test]
fn old_servers_and_ours_answer_alike() {
    let mut found = Vec::new();
    for server in SERVERS {
        for version in [Version::V1beta1, Version::V1beta2] {
            let mut talk = Talk::new(version);
            for step in steps(server) {
                let mut ours = talk.ask(&step).expect("the flat versions say the same");
                let Some(observed) = &step.observed else { continue };
                talk.learn(&observed.1, &ours.document);
                // Paths and versions are its own; what else is other is told.
                if version != Version::V1beta1 && step.path.starts_with("/api/v1beta1/") {
                    let text =
                        ours.document.to_string().replace("\"apiVersion\":\"v1beta2\"", "\"apiVersion\":\"v1beta1\"");
                    ours.document =
                        serde_json::from_str(&text.replace("/api/v1beta2/", "/api/v1beta1/")).expect("JSON");
                }
                let of_version = if version == Version::V1beta1 { "" } else { "v1beta2 " };
                found.extend(
                    differences(observed, &ours)
                        .into_iter()
                        .map(|what| format!("{of_version}{server} {} {what}", step.name)),
                );
            }
        }
    }
    // What v1beta2 says otherwise than v1beta1, and nothing else, is told of it.
    let of_v1beta1: BTreeSet<String> = found.iter().filter(|text| !text.starts_with("v1beta2 ")).cloned().collect();
    found.retain(|text| text.strip_prefix("v1beta2 ").is_none_or(|text| !of_v1beta1.contains(text)));
    check(&found, &["v0.", "*", "v1beta2 "]);
}

/// The same conversation in v1beta3 comes to the same objects.
#[test]
fn v1beta3_comes_to_the_same() {
    let mut found = Vec::new();
    for server in SERVERS {
        let (mut flat, mut upright) = (Talk::new(Version::V1beta1), Talk::new(Version::V1beta3));
        for step in steps(server) {
            let first = flat.ask(&step).expect("as it was");
            let Some(second) = upright.ask(&step) else { continue };
            let in_flat = in_v1beta1(&second.document);
            if let Some((_, observed)) = &step.observed {
                flat.learn(observed, &first.document);
                upright.learn(observed, &in_flat);
            }
            let differing =
                differences(&(first.code, first.document), &Answered { code: second.code, document: in_flat });
            found.extend(differing.into_iter().map(|what| format!("v1beta3 {server} {} {what}", step.name)));
        }
    }
    check(&found, &["v1beta3 "]);
}

/// What was answered in v1beta3, as v1beta1 would say it.
fn in_v1beta1(document: &Value) -> Value {
    let kind = document["kind"].as_str().unwrap_or_default();
    let v1 = |kind: &str, document: &Value| {
        let mut document = document.clone();
        document.as_object_mut().map(|fields| fields.remove("kind"));
        old::decode(Version::V1beta3, kind, &document).map(|decoded| decoded.object)
    };
    match kind.strip_suffix("List") {
        _ if kind == "Status" || kind.is_empty() => document.clone(),
        None => v1(kind, document).map_or(Value::Null, |object| old::encode(Version::V1beta1, &object)),
        Some(kind) => {
            let items: Vec<Value> =
                document["items"].as_array().into_iter().flatten().filter_map(|item| v1(kind, item).ok()).collect();
            let list = json!({"kind": format!("{kind}List"), "metadata": document["metadata"], "items": items});
            old::encode(Version::V1beta1, &list)
        }
    }
}
