//! `/metrics`: figures that were counted or are read off the kernel when somebody asks, as Prometheus reads them.
//!
//! Labels come from the kind table and from fixed words, never from what a client sends: their number has an end.

use crate::call::{Call, Verb, Version};
use crate::store::Store;
use crate::through::{Means, Through};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::Resource;
use coracle_http::{Answer, Body, StatusCode};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Kinds of requests that are told apart: all verbs of all kinds and the codes that they have in practice are far fewer.
const SERIES_MAX: usize = 4096;

/// What the requests of one row have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// None: a page about the server, or no path of ours.
    asked: Option<Asked>,
    code: u16,
}

/// What a call is counted as.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    resource: Resource,
    version: Cow<'static, str>,
    done: Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Here(Verb),
    /// By another server, through this one.
    Proxy,
    Redirect,
}

impl Asked {
    pub fn of(call: &Call) -> Asked {
        Asked::new(call.shown, call.version, Done::Here(call.verb))
    }

    pub fn through(through: &Through) -> Asked {
        let done = if through.means == Means::Redirect { Done::Redirect } else { Done::Proxy };
        Asked::new(through.kind, through.version, done)
    }

    fn new(kind: &Kind, version: Version, done: Done) -> Asked {
        let version = if version == Version::V1 { kind.version.clone() } else { version.name().into() };
        Asked { resource: kind.resource.clone(), version, done }
    }
}

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Row, u64>>,
    /// Requests that found no row left.
    untold: AtomicU64,
    streams: Arc<AtomicU64>,
}

/// Counts as open until it is dropped.
struct OpenStream(Arc<AtomicU64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// One request that was answered, or is being streamed.
    pub fn count(&self, asked: Option<Asked>, answer: &mut Answer) {
        let row = Row { asked, code: answer.status.as_u16() };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let full = requests.len() >= SERIES_MAX;
        match requests.get_mut(&row) {
            Some(count) => *count += 1,
            None if full => drop(self.untold.fetch_add(1, Ordering::Relaxed)),
            None => drop(requests.insert(row, 1)),
        }
        if let Body::Stream(stream) = &mut answer.body {
            self.streams.fetch_add(1, Ordering::Relaxed);
            let open = OpenStream(self.streams.clone());
            let lease = std::mem::replace(&mut stream.lease, Box::new(()));
            stream.lease = Box::new((lease, open));
        }
    }

    pub fn answer(&self, store: &dyn Store, kinds: &Kinds) -> Answer {
        let mut text = String::with_capacity(16 * 1024);
        self.requests(&mut text);
        let streams = self.streams.load(Ordering::Relaxed);
        one(&mut text, "coracle_open_streams", "gauge", "Watches that are open.", streams);
        of_store(&mut text, store, kinds);
        of_process(&mut text);
        Answer::new(StatusCode::OK, CONTENT_TYPE, Body::Whole(text.into()))
    }

    fn requests(&self, text: &mut String) {
        head(text, "apiserver_request_total", "counter", "Requests answered, by verb, resource and code.");
        for (row, count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (code, mut labels) = (row.code.to_string(), Vec::new());
            labels.push(("code", code.as_str()));
            let verb;
            if let Some(asked) = &row.asked {
                verb = match asked.done {
                    Done::Here(verb) => format!("{verb:?}").to_lowercase(),
                    other => format!("{other:?}").to_lowercase(),
                };
                labels.push(("group", &asked.resource.group));
                labels.push(("resource", &asked.resource.plural));
                labels.push(("verb", &verb));
                labels.push(("version", &asked.version));
            }
            line(text, "apiserver_request_total", &labels, *count);
        }
        let untold = self.untold.load(Ordering::Relaxed);
        one(text, "coracle_requests_untold_total", "counter", "Requests of more kinds than there are rows for.", untold);
    }
}

fn of_store(text: &mut String, store: &dyn Store, kinds: &Kinds) {
    let health = store.health();
    head(text, "apiserver_resource_objects", "gauge", "Objects stored.");
    // What is shown in several forms is stored, and counted, once.
    for kind in kinds.stored().filter(|kind| kind.offers(coracle_api::kinds::Verb::List)) {
        let count = store.list(&kind.resource, None).items.len();
        let labels = [("group", &*kind.resource.group), ("resource", &*kind.resource.plural)];
        line(text, "apiserver_resource_objects", &labels, count as u64);
    }
    one(text, "coracle_store_revision", "gauge", "The revision of the last write.", store.revision().0);
    one(text, "coracle_store_writable", "gauge", "Whether the disk takes writes.", u64::from(health.degraded.is_none()));
    let behind = u64::from(health.behind.is_some());
    one(text, "coracle_store_files_stuck", "gauge", "Whether the files cannot be brought up to the journal.", behind);
    let figures = health.figures;
    one(text, "coracle_store_commits_total", "counter", "Appends to the journal that are durable.", figures.commits);
    one(text, "coracle_store_records_total", "counter", "Changes that were made durable.", figures.records);
    one(text, "coracle_store_journal_bytes", "gauge", "Journal that the files have not caught up with.", figures.journal_bytes);
    one(text, "coracle_store_damaged_objects", "gauge", "Files that could not be read as objects.", health.damaged.len() as u64);
}

/// What the kernel says of this process; what it does not say is left out.
fn of_process(text: &mut String) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    if let Some(resident) = kilobytes("VmRSS") {
        one(text, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident * 1024);
    }
    if let Some(peak) = kilobytes("VmHWM") {
        one(text, "coracle_process_peak_memory_bytes", "gauge", "The most memory that was resident.", peak * 1024);
    }
    if let Some(threads) = kilobytes("Threads") {
        one(text, "process_threads", "gauge", "Threads.", threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        one(text, "process_open_fds", "gauge", "Open file descriptors.", open.count() as u64);
    }
}

fn one(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(text, name, kind, help);
    line(text, name, &[], value);
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail; the results are dropped.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Label values are ours: they need no escapes.
fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}
