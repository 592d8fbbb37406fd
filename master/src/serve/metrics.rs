//! `/metrics`: figures that were counted or are read off the kernel when somebody asks, as Prometheus reads them.
//!
//! Labels come from the kind table and from fixed words, never from what a client sends: their number has an end.

use crate::audit::AuditFigures;
use crate::call::{Call, Verb, Version};
use crate::store::Store;
use crate::through::{ProxyKind, ProxyRequest};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::Resource;
use coracle_http::{Answer, Body, StatusCode, closed_connections, refused_by_code};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{Display, Write};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Kinds of requests that are told apart: all verbs of all kinds and the codes that they have in practice are far
/// fewer.
const SERIES_MAX: usize = 4096;

/// In seconds: the bounds of Kubernetes that the alerts of Kubernetes name, and necessary bounds in between.
const BOUNDS_S: [f64; 12] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 1.0, 5.0, 10.0, 30.0, 60.0];

/// The labels of one series of requests, named as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    group: Cow<'static, str>,
    resource: Cow<'static, str>,
    subresource: &'static str,
    version: Cow<'static, str>,
    verb: &'static str,
    /// `resource` one object, `namespace`, `cluster`, or nothing: a page.
    scope: &'static str,
    dry_run: &'static str,
}

impl Series {
    /// A page about the server, or no path of ours.
    pub fn page(method: &str) -> Series {
        let verb = ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().find(|verb| *verb == method);
        let verb = verb.unwrap_or(if method == "HEAD" { "GET" } else { "OTHER" });
        Series { verb, ..Series::default() }
    }

    /// `applies`: a patch is a configuration that is applied.
    pub fn of(call: &Call, applies: bool) -> Series {
        let part = call.share.map(|share| share.name).unwrap_or_default();
        let patch = if applies { "APPLY" } else { "PATCH" };
        let (verb, subresource) = match call.verb {
            Verb::List => ("LIST", ""),
            Verb::Watch => ("WATCH", ""),
            Verb::Get => ("GET", ""),
            Verb::Create => ("POST", ""),
            Verb::Update => ("PUT", ""),
            Verb::Patch => (patch, ""),
            Verb::Delete => ("DELETE", ""),
            Verb::DeleteCollection => ("DELETECOLLECTION", ""),
            Verb::GetStatus => ("GET", "status"),
            Verb::UpdateStatus => ("PUT", "status"),
            Verb::PatchStatus => (patch, "status"),
            Verb::GetPart => ("GET", part),
            Verb::UpdatePart => ("PUT", part),
            Verb::PatchPart => (patch, part),
            Verb::GetScale => ("GET", "scale"),
            Verb::UpdateScale => ("PUT", "scale"),
            Verb::PatchScale => (patch, "scale"),
            Verb::Evict => ("POST", "eviction"),
            Verb::Bind if call.shown.resource.plural == "bindings" => ("POST", ""),
            Verb::Bind => ("POST", "binding"),
            Verb::Token => ("POST", "token"),
            Verb::Log => ("GET", "log"),
            Verb::Exec => ("CONNECT", "exec"),
            Verb::Attach => ("CONNECT", "attach"),
            Verb::PortForward => ("CONNECT", "portforward"),
        };
        let scope = match () {
            () if !call.name.is_empty() || verb == "POST" => "resource",
            () if !call.namespace.is_empty() => "namespace",
            () => "cluster",
        };
        let dry_run = if call.options.dry_run.is_empty() { "" } else { "All" };
        Series { subresource, verb, scope, dry_run, ..Series::about(call.shown, call.version) }
    }

    pub fn through(through: &ProxyRequest) -> Series {
        let subresource = if through.means == ProxyKind::Redirect { "redirect" } else { "proxy" };
        Series { subresource, verb: "CONNECT", scope: "resource", ..Series::about(through.kind, through.version) }
    }

    fn about(kind: &Kind, version: Version) -> Series {
        let version = if version == Version::V1 { kind.version.clone() } else { version.name().into() };
        let Resource { group, plural } = kind.resource.clone();
        Series { group, resource: plural, version, ..Series::default() }
    }

    fn labels(&self) -> [(&'static str, &str); 8] {
        [
            ("component", "apiserver"),
            ("dry_run", self.dry_run),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }
}

/// Requests by how long they took.
#[derive(Clone, Default)]
struct Durations {
    /// Within each bound, and not within the one before.
    within: [u64; BOUNDS_S.len()],
    count: u64,
    sum: Duration,
}

impl Durations {
    fn took(&mut self, time: Duration) {
        self.count += 1;
        self.sum += time;
        if let Some(at) = BOUNDS_S.iter().position(|bound| time.as_secs_f64() <= *bound) {
            self.within[at] += 1;
        }
    }
}

/// The requests that were answered.
#[derive(Default)]
struct Requests {
    answered: BTreeMap<(Series, u16), u64>,
    took: BTreeMap<Series, Durations>,
    /// Requests left out because the table was full.
    untold: u64,
}

impl Requests {
    fn count(&mut self, asked: Series, code: u16, time: Option<Duration>) {
        if let Some(time) = time {
            let full = self.took.len() >= SERIES_MAX;
            match self.took.get_mut(&asked) {
                Some(durations) => durations.took(time),
                None if full => {}
                None => self.took.entry(asked.clone()).or_default().took(time),
            }
        }
        let full = self.answered.len() >= SERIES_MAX;
        match self.answered.entry((asked, code)) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(_) if full => self.untold += 1,
            Entry::Vacant(free) => drop(free.insert(1)),
        }
    }
}

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<Requests>,
    streams: Arc<AtomicU64>,
}

/// Counts as open until it is dropped.
struct OpenStream(Arc<AtomicU64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What keeps clients away.
#[derive(Default)]
pub struct Troubles {
    /// Why the secure port is not open.
    pub secure: Option<String>,
    /// What is wrong with outside issuers.
    pub issuers: Vec<String>,
}

impl Metrics {
    /// One request that was answered, or is being streamed. `time`: until its answer was there.
    pub fn count(&self, asked: Series, time: Duration, answer: &mut Answer) {
        // How long a watch takes, or another server, is said by neither.
        let time = (asked.verb != "WATCH" && asked.verb != "CONNECT").then_some(time);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).count(asked, answer.status.as_u16(), time);
        if let Body::Stream(stream) = &mut answer.body {
            self.streams.fetch_add(1, Ordering::Relaxed);
            let open = OpenStream(self.streams.clone());
            let lease = std::mem::replace(&mut stream.lease, Box::new(()));
            stream.lease = Box::new((lease, open));
        }
    }

    pub fn answer(&self, (store, kinds): (&dyn Store, &Kinds), troubles: &Troubles, audit: AuditFigures) -> Answer {
        let mut text = String::with_capacity(16 * 1024);
        self.requests(&mut text);
        let streams = self.streams.load(Ordering::Relaxed);
        one(&mut text, "coracle_open_streams", "gauge", "Watches that are open.", streams);
        if let Some(why) = &troubles.secure {
            head(&mut text, "coracle_secure_port_trouble", "gauge", "Why the secure port is not open.");
            line(&mut text, "coracle_secure_port_trouble", &[("why", why)], 1);
        }
        if !troubles.issuers.is_empty() {
            head(&mut text, "coracle_issuer_trouble", "gauge", "Why tokens of outside issuers are refused.");
            troubles.issuers.iter().for_each(|why| line(&mut text, "coracle_issuer_trouble", &[("why", why)], 1));
        }
        of_carriers(&mut text);
        of_audit(&mut text, audit);
        of_store(&mut text, store, kinds);
        of_process(&mut text);
        answer(text)
    }

    fn requests(&self, text: &mut String) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        head(text, "apiserver_request_total", "counter", "Requests answered, by verb, resource and code.");
        for ((asked, code), count) in &requests.answered {
            let code = code.to_string();
            let labels: Vec<(&str, &str)> = [("code", code.as_str())].into_iter().chain(asked.labels()).collect();
            line(text, "apiserver_request_total", &labels, *count);
        }
        head(
            text,
            "apiserver_request_duration_seconds",
            "histogram",
            "How long answers took, but for watches and other servers' answers.",
        );
        for (asked, durations) in &requests.took {
            histogram(text, asked, durations);
        }
        one(
            text,
            "coracle_requests_untold_total",
            "counter",
            "Requests of more kinds than there are rows for.",
            requests.untold,
        );
    }
}

/// A page in Prometheus' text form.
pub fn answer(text: String) -> Answer {
    Answer::new(StatusCode::OK, CONTENT_TYPE, Body::Whole(text.into()))
}

fn histogram(text: &mut String, asked: &Series, durations: &Durations) {
    let labels = asked.labels();
    let mut bucket = |bound: &str, count: u64| {
        let labels: Vec<(&str, &str)> = labels.into_iter().chain([("le", bound)]).collect();
        line(text, "apiserver_request_duration_seconds_bucket", &labels, count);
    };
    let mut sum = 0;
    for (bound, count) in BOUNDS_S.iter().zip(durations.within) {
        sum += count;
        bucket(&bound.to_string(), sum);
    }
    bucket("+Inf", durations.count);
    line(text, "apiserver_request_duration_seconds_sum", &labels, durations.sum.as_secs_f64());
    line(text, "apiserver_request_duration_seconds_count", &labels, durations.count);
}

/// What no handler saw: requests that were refused before, and connections without a request.
fn of_carriers(text: &mut String) {
    let refused = "coracle_refused_requests_total";
    head(text, refused, "counter", "Requests refused before they were looked at, by code and reason.");
    for (code, reason, count) in refused_by_code() {
        line(text, refused, &[("code", &code.to_string()), ("reason", reason)], count);
    }
    let closed = "coracle_closed_connections_total";
    head(text, closed, "counter", "Connections closed without an answer, by reason.");
    for (reason, count) in closed_connections() {
        line(text, closed, &[("reason", reason)], count);
    }
}

fn of_audit(text: &mut String, audit: AuditFigures) {
    let AuditFigures { recorded, lost, left_out } = audit;
    one(text, "apiserver_audit_event_total", "counter", "Audit events recorded.", recorded);
    one(text, "apiserver_audit_error_total", "counter", "Audit events that could not be written.", lost);
    let help = "Requests that changed nothing, left out of the audit log because their client had many.";
    one(text, "coracle_audit_left_out_total", "counter", help, left_out);
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
    one(
        text,
        "coracle_store_writable",
        "gauge",
        "Whether the disk takes writes.",
        u64::from(health.degraded.is_none()),
    );
    let behind = u64::from(health.behind.is_some());
    one(text, "coracle_store_files_stuck", "gauge", "Whether the files cannot be brought up to the journal.", behind);
    one(text, "coracle_store_bytes", "gauge", "What all objects take in memory.", health.fill.bytes);
    one(text, "coracle_store_bytes_max", "gauge", "What they may take.", health.fill.bytes_max);
    let figures = health.figures;
    one(text, "coracle_store_commits_total", "counter", "Appends to the journal that are durable.", figures.commits);
    one(text, "coracle_store_records_total", "counter", "Changes that were made durable.", figures.records);
    one(
        text,
        "coracle_store_journal_bytes",
        "gauge",
        "Journal that the files have not caught up with.",
        figures.journal_bytes,
    );
    one(
        text,
        "coracle_store_damaged_objects",
        "gauge",
        "Files that could not be read as objects.",
        health.damaged.len() as u64,
    );
    one(
        text,
        "coracle_store_closed_objects",
        "gauge",
        "Objects that are sealed by keys which are not at hand.",
        health.shut.len() as u64,
    );
    if let Some(why) = &health.keyless {
        head(text, "coracle_encryption_trouble", "gauge", "Why nothing is sealed though a key file is named.");
        line(text, "coracle_encryption_trouble", &[("why", why)], 1);
    }
}

/// The kernel's figures of this process; unknown ones are left out.
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
    let now = fs::read_to_string("/proc/self/stat").ok().zip(fs::read_to_string("/proc/stat").ok());
    if let Some((used, started)) = now.and_then(|(own, host)| times(&own, &host)) {
        one(text, "process_cpu_seconds_total", "counter", "User and system CPU time spent in seconds.", used);
        one(text, "process_start_time_seconds", "gauge", "When the process started, since 1970.", started);
    }
    if let Some(threads) = kilobytes("Threads") {
        one(text, "process_threads", "gauge", "Threads.", threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        one(text, "process_open_fds", "gauge", "Open file descriptors.", open.count() as u64);
    }
}

/// The processor time that a process has used, and when it was started, in seconds.
fn times(own: &str, host: &str) -> Option<(f64, f64)> {
    /// The kernel tells times in these whatever it counts in itself.
    const TICKS_A_SECOND: f64 = 100.0;
    // The name of the program, which comes before, may hold anything.
    let fields: Vec<f64> =
        own.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    let booted: f64 = host.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(((fields.get(11)? + fields.get(12)?) / TICKS_A_SECOND, booted + fields.get(19)? / TICKS_A_SECOND))
}

fn one(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    head(text, name, kind, help);
    line(text, name, &[], value);
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail; the results are dropped.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Label values are ours: they need no escapes.
fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Route, parse};

    #[test]
    fn requests_are_named_as_kubernetes_names_them() {
        fn check(request: &str, applies: bool, expected: &str) {
            let kinds = Kinds::builtin();
            let (method, target) = request.split_once(' ').unwrap();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let asked = match parse(&kinds, method, path, query) {
                Ok(Route::Object(call)) => Series::of(&call, applies),
                Ok(Route::ProxyRequest(through)) => Series::through(&through),
                _ => Series::page(method),
            };
            let Series { group, resource, subresource, version, verb, scope, dry_run } = asked;
            assert_eq!(
                [&*group, &*version, &*resource, subresource, verb, scope, dry_run].join(" "),
                expected,
                "{request}"
            );
        }
        let pods = "/api/v1/namespaces/n/pods";
        check(&format!("GET {pods}"), false, " v1 pods  LIST namespace ");
        check("GET /api/v1/pods", false, " v1 pods  LIST cluster ");
        check(&format!("GET {pods}?watch=true"), false, " v1 pods  WATCH namespace ");
        check(&format!("GET {pods}/p"), false, " v1 pods  GET resource ");
        check(&format!("POST {pods}?dryRun=All"), false, " v1 pods  POST resource All");
        check(&format!("PUT {pods}/p/status"), false, " v1 pods status PUT resource ");
        check(&format!("PATCH {pods}/p"), false, " v1 pods  PATCH resource ");
        check(&format!("PATCH {pods}/p/status"), true, " v1 pods status APPLY resource ");
        check(&format!("PATCH {pods}/p/ephemeralcontainers"), false, " v1 pods ephemeralcontainers PATCH resource ");
        check(&format!("DELETE {pods}"), false, " v1 pods  DELETECOLLECTION namespace ");
        check(&format!("DELETE {pods}/p"), false, " v1 pods  DELETE resource ");
        check(&format!("POST {pods}/p/eviction"), false, " v1 pods eviction POST resource ");
        check(&format!("POST {pods}/p/binding"), false, " v1 pods binding POST resource ");
        check(&format!("GET {pods}/p/log"), false, " v1 pods log GET resource ");
        check(&format!("GET {pods}/p/proxy/"), false, " v1 pods proxy CONNECT resource ");
        check("POST /api/v1/namespaces/n/bindings", false, " v1 bindings  POST resource ");
        check("GET /apis/apps/v1/namespaces/n/deployments/d/scale", false, "apps v1 deployments scale GET resource ");
        check(
            "GET /apis/autoscaling/v1/horizontalpodautoscalers",
            false,
            "autoscaling v1 horizontalpodautoscalers  LIST cluster ",
        );
        check("GET /api/v1beta1/redirect/pods/p", false, " v1beta1 pods redirect CONNECT resource ");
        check("GET /healthz", false, "    GET  ");
        check("HEAD /nowhere", false, "    GET  ");
        check("PURGE /nowhere", false, "    OTHER  ");
    }

    #[test]
    fn durations_add_up() {
        let mut requests = Requests::default();
        for ms in [1, 5, 6, 700, 90_000] {
            requests.count(Series::page("GET"), 200, Some(Duration::from_millis(ms)));
        }
        let mut text = String::new();
        histogram(&mut text, &Series::page("GET"), &requests.took[&Series::page("GET")]);
        let values: Vec<&str> = text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(_, value)| value).collect();
        assert_eq!(values, ["2", "3", "3", "3", "3", "3", "3", "4", "4", "4", "4", "4", "5", "90.712", "5"]);
        assert!(
            text.contains(",verb=\"GET\",version=\"\",le=\"0.005\"} 2\n") && text.contains("le=\"+Inf\"} 5\n"),
            "{text}"
        );
    }

    #[test]
    fn times_of_a_process() {
        let own = "1 (a) b) S 2 3 4 5 6 7 8 9 10 11 120 30 14 15 16 17 18 19 1000 21";
        assert_eq!(times(own, "cpu 1\nbtime 1600000000\n"), Some((1.5, 1_600_000_010.0)));
        assert_eq!(times("", ""), None);
    }
}
