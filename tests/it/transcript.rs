//! Conversations as text: requests, and what of the answers matters.
//!
//!     # a comment
//!     > POST /api/v1/namespaces/default/pods {"metadata": {"name": "a"}}
//!     ? GET /api/v1/namespaces/default/pods/a  the same, asked until it is answered as the script has it
//!     + Content-Type: application/json         a header of the request
//!     < 201 {"kind": "Pod"}                    the code, and a part of the answer: null is a field that is not there
//!     < Location: /api/v1/...                  a header of the answer
//!     = uid metadata.uid                       {{uid}} in later lines
//!     ~ {"type": "ADDED"}                      the next event of a watch; after the last one the stream has ended
//!
//! A line that begins with two blanks goes on with the one before.

use coracle_api::kinds::{Kind, KindConflict};
use coracle_api::meta::Resource;
use coracle_master::Master;
use coracle_master::config::Config;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nothing that a test asks for takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what takes a moment.
const PAUSE: Duration = Duration::from_millis(10);

/// A master of a test's own, with a folder of its own.
pub struct Bed {
    pub folder: PathBuf,
    master: Option<Master>,
    /// The folder is another test's.
    keeps: bool,
}

impl Bed {
    pub fn new() -> Bed {
        Bed::over(|_| {})
    }

    /// A master that places no pods and replicates none, as the server of the recorded conversations did not.
    pub fn without_workloads() -> Bed {
        Bed::set_up(|config| config.workloads = false)
    }

    /// A master that finds something in its data directory.
    pub fn over(found: impl FnOnce(&std::path::Path)) -> Bed {
        Bed::made(found, |_| {})
    }

    /// A master with a configuration that is other than the usual one.
    pub fn set_up(change: impl FnOnce(&mut Config)) -> Bed {
        Bed::made(|_| {}, change)
    }

    /// A folder of a test's own.
    pub fn empty_folder() -> PathBuf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Where there is memory for it: no test here is about the disk.
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = base.join(format!("coracle-it-{}-{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).expect("a new folder");
        folder
    }

    fn made(found: impl FnOnce(&std::path::Path), change: impl FnOnce(&mut Config)) -> Bed {
        let folder = Bed::empty_folder();
        Bed::begun(&folder, found, change)
    }

    /// A master over what another has left in this folder.
    pub fn living_in(folder: &std::path::Path) -> Bed {
        Bed::living_so(folder, |_| {})
    }

    /// The same with a configuration that is other than the usual one.
    pub fn living_so(folder: &std::path::Path, change: impl FnOnce(&mut Config)) -> Bed {
        let mut bed = Bed::begun(folder, |_| {}, change);
        bed.keeps = true;
        bed
    }

    fn begun(folder: &std::path::Path, found: impl FnOnce(&std::path::Path), change: impl FnOnce(&mut Config)) -> Bed {
        let mut config = Config {
            data_dir: folder.join("data"),
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            admin_socket: folder.join("run/api.sock"),
            agent_sockets: folder.join("agents"),
            ..Config::default()
        };
        change(&mut config);
        // The master takes none that others may enter.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir).expect("a new folder");
        found(&config.data_dir);
        let master = Some(coracle_master::start(&config).expect("a master starts"));
        Bed { folder: folder.to_owned(), master, keeps: false }
    }

    /// The master serves one more kind.
    pub fn define(&self, kind: Kind) -> Result<(), KindConflict> {
        self.master.as_ref().expect("it runs").define(kind)
    }

    /// The master serves the kinds of a resource no more.
    pub fn withdraw(&self, resource: &Resource) -> bool {
        self.master.as_ref().expect("it runs").withdraw(resource)
    }

    pub fn address(&self) -> SocketAddr {
        self.master.as_ref().and_then(Master::address).expect("it listens")
    }

    pub fn secure_address(&self) -> SocketAddr {
        self.master.as_ref().and_then(Master::secure_address).expect("it listens")
    }

    pub fn network(&self) -> Box<dyn Pipe> {
        let stream = TcpStream::connect(self.address()).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Box::new(stream)
    }

    pub fn local(&self) -> Box<dyn Pipe> {
        let stream = UnixStream::connect(self.folder.join("run/api.sock")).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Box::new(stream)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(master) = self.master.take() {
            master.stop();
        }
        if !self.keeps {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

pub trait Pipe: Read + Write {}
impl<T: Read + Write> Pipe for T {}

pub struct Reply {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// One request on a connection of its own; the answer whole.
pub fn ask(mut pipe: Box<dyn Pipe>, method: &str, path: &str, headers: &[(String, String)], body: &str) -> Reply {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    pipe.write_all(format!("{head}\r\n{body}").as_bytes()).expect("the request is taken");
    let mut answer = Vec::new();
    pipe.read_to_end(&mut answer).expect("the answer comes");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer has a head");
    let text = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = text.lines();
    let code = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status line");
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
    let body = &answer[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Reply { code, headers, body: if chunked { whole(body) } else { body.to_vec() } }
}

fn whole(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|bytes| bytes == b"\r\n").expect("a chunk has a size");
        let size =
            usize::from_str_radix(std::str::from_utf8(&chunks[..end]).expect("a size is text"), 16).expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 4 + size..];
    }
}

/// Runs a script on a new master, over TCP and once more over the local socket.
pub fn check(name: &str) {
    check_over(name, |_| {});
}

/// The same on a master that finds something in its data directory.
pub fn check_over(name: &str, found: impl Fn(&std::path::Path)) {
    check_on(name, || Bed::over(&found));
}

/// The same on masters that are set up like this.
pub fn check_on(name: &str, set_up: impl Fn() -> Bed) {
    let path = format!("{}/data/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let script = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let bed = set_up();
    run(name, &script, || bed.network());
    drop(bed);
    let bed = set_up();
    run(&format!("{name} over the local socket"), &script, || bed.local());
}

struct Step {
    line: usize,
    mark: char,
    text: String,
}

fn steps(script: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, line) in script.lines().enumerate() {
        let mark = line.chars().next().unwrap_or('#');
        match mark {
            '#' => {}
            ' ' => steps.last_mut().expect("something to go on with").text.push_str(line.trim_start()),
            '>' | '?' | '+' | '<' | '=' | '~' => {
                steps.push(Step { line: at + 1, mark, text: line[1..].trim().to_owned() })
            }
            _ => panic!("line {}: {line:?} begins with none of the marks", at + 1),
        }
    }
    steps
}

fn run(name: &str, script: &str, connect: impl Fn() -> Box<dyn Pipe>) {
    let steps = steps(script);
    let mut words: Vec<(String, String)> = Vec::new();
    let mut reply = None;
    let mut events: Vec<Value> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let mut text = step.text.clone();
        for (word, value) in &words {
            text = text.replace(&format!("{{{{{word}}}}}"), value);
        }
        let place = format!("{name}, line {}", step.line);
        match step.mark {
            '>' | '?' => {
                assert!(events.is_empty(), "{place}: events that the script does not have: {events:?}");
                let headers = steps[at + 1..].iter().take_while(|step| step.mark == '+');
                let headers: Vec<_> = headers
                    .filter_map(|step| step.text.split_once(": "))
                    .map(|(n, v)| (n.to_owned(), v.to_owned()))
                    .collect();
                let mut parts = text.splitn(3, ' ');
                let (method, path) = (parts.next().expect("a method"), parts.next().expect("a path"));
                let body = parts.next().unwrap_or_default();
                let mut answer = ask(connect(), method, path, &headers, body);
                let until = Instant::now() + PATIENCE;
                let awaited = steps[at + 1..]
                    .iter()
                    .find(|step| step.mark == '<')
                    .map(|step| step.text.clone())
                    .unwrap_or_default();
                let awaited =
                    words.iter().fold(awaited, |text, (word, value)| text.replace(&format!("{{{{{word}}}}}"), value));
                while step.mark == '?' && !is_answered(&awaited, &answer) && Instant::now() < until {
                    std::thread::sleep(PAUSE);
                    answer = ask(connect(), method, path, &headers, body);
                }
                if steps[at + 1..]
                    .iter()
                    .take_while(|step| !matches!(step.mark, '>' | '?'))
                    .any(|step| step.mark == '~')
                {
                    events = serde_json::Deserializer::from_slice(&answer.body)
                        .into_iter()
                        .collect::<Result<_, _>>()
                        .expect("JSON lines");
                }
                reply = Some(answer);
            }
            '+' => {}
            '<' => answered(&place, &text, reply.as_ref().expect("an answer after a request")),
            '=' => {
                let (word, path) = text.split_once(' ').expect("a word and a path");
                let body: Value = serde_json::from_slice(&reply.as_ref().expect("an answer").body).expect("JSON");
                let found = path.split('.').fold(&body, |value, field| &value[field]);
                let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                words.retain(|(known, _)| known != word);
                words.push((word.to_owned(), found));
            }
            '~' => {
                assert!(!events.is_empty(), "{place}: the watch ended before {text}");
                matches(&place, &text, &events.remove(0));
            }
            _ => unreachable!("steps() knows the marks"),
        }
    }
    assert!(events.is_empty(), "{name}: events that the script does not have: {events:?}");
}

fn answered(place: &str, text: &str, reply: &Reply) {
    let body = String::from_utf8_lossy(&reply.body);
    if let Some((header, value)) = text.split_once(": ").filter(|(header, _)| !header.contains(['{', ' '])) {
        let found: Vec<_> = reply
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(header))
            .map(|(_, value)| value.as_str())
            .collect();
        assert!(found.contains(&value), "{place}: {header}: {value:?} is not among {found:?}");
        return;
    }
    let (code, expected) = text.split_once(' ').unwrap_or((text, ""));
    assert_eq!(reply.code.to_string(), code, "{place}: {body}");
    match expected.strip_prefix('"') {
        _ if expected.is_empty() => {}
        Some(plain) => assert_eq!(body, plain.trim_end_matches('"'), "{place}"),
        None => matches(
            place,
            expected,
            &serde_json::from_str(&body).unwrap_or_else(|error| panic!("{place}: {error}: {body}")),
        ),
    }
}

/// Whether an answer that is waited for has come.
fn is_answered(text: &str, reply: &Reply) -> bool {
    let (code, expected) = text.split_once(' ').unwrap_or((text, ""));
    let expected: Value = serde_json::from_str(expected).unwrap_or_default();
    let found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    reply.code.to_string() == code && (expected.is_null() || part(&expected, &found) == expected)
}

fn matches(place: &str, expected: &str, found: &Value) {
    let expected: Value = serde_json::from_str(expected).unwrap_or_else(|error| panic!("{place}: {error}: {expected}"));
    let shown = part(&expected, found);
    assert_eq!(shown.to_string(), expected.to_string(), "{place}; all of it: {found}");
}

/// As much of what was found as is expected.
fn part(expected: &Value, found: &Value) -> Value {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => expected
            .iter()
            .map(|(name, value)| (name.clone(), part(value, found.get(name).unwrap_or(&Value::Null))))
            .collect(),
        (Value::Array(expected), Value::Array(found)) => {
            found.iter().enumerate().map(|(at, value)| part(expected.get(at).unwrap_or(&Value::Null), value)).collect()
        }
        _ => found.clone(),
    }
}
