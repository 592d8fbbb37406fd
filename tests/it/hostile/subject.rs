//! The server that is attacked: a process of its own, so that what it holds can be read off it and a crash is seen.

use crate::tls::{self, Asker, HTTP_1, Leaf};
use crate::transcript::Bed;
use bytes::Bytes;
use coracle_http::channel::{Sender, channel};
use coracle_http::network::{self, Identify, Port, TlsPort, everybody_is};
use coracle_http::{Answer, Body, Handler, Identity, KeySet, Limits, STREAM_ITEMS_MAX, StatusCode, Stream, TlsKeys};
use coracle_master::cluster_keys::{ClusterKeys, KeyOptions};
use coracle_master::config::{Config, SecureClients};
use coracle_tests::fuzz::connections::Targets;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The folder of a server that this process is to be.
const SERVE_IN: &str = "CORACLE_HOSTILE";
/// Far beyond what anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A handler's thread that has nothing to do ends after ten seconds.
const REQUEST_THREAD: &str = "request\n";
const EVENTS_EVERY: Duration = Duration::from_millis(20);
const SLOW: Duration = Duration::from_millis(15);
const LIST_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The network side with a handler of known behaviour and limits of a second.
    Bare,
    /// A master with its usual limits.
    Master,
}

/// What a process holds.
#[derive(Debug)]
pub struct Holding {
    pub threads: usize,
    /// What they lead to, with numbers as `N`.
    pub descriptors: Vec<String>,
    pub resident_kb: u64,
}

pub struct Subject {
    pub which: Which,
    pub address: SocketAddr,
    pub authority: String,
    /// Certificates that a stranger may have stolen; the first is good.
    pub leaves: Vec<Leaf>,
    folder: PathBuf,
    child: Mutex<Child>,
}

impl Subject {
    /// This very program, once more, as a server. `test`: the test that asks `serve_if_asked` first.
    pub fn start(which: Which, test: &str) -> Subject {
        let folder = Bed::empty_folder();
        let output = File::create(folder.join("output")).expect("a file");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture"])
            .env(SERVE_IN, &folder)
            .env("RUST_BACKTRACE", "1")
            // As `coracle_program::resident` sets it for the programs.
            .envs([
                ("MALLOC_ARENA_MAX", "1"),
                ("MALLOC_MMAP_THRESHOLD_", "131072"),
                ("MALLOC_TRIM_THRESHOLD_", "131072"),
            ])
            .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output)
            .spawn()
            .expect("it starts");
        let child = Mutex::new(child);
        let mut subject = Subject {
            which,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            authority: String::new(),
            leaves: Vec::new(),
            folder,
            child,
        };
        let address = subject.until("it listens", |subject| fs::read_to_string(subject.folder.join("address")).ok());
        subject.address = address.parse().expect("an address");
        let read = |name: &str| fs::read_to_string(subject.folder.join(name)).expect("a file of the server");
        let leaf = |number: usize| Leaf { chain: read(&format!("{number}.crt")), key: read(&format!("{number}.key")) };
        let (authority, leaves) = (read("ca.crt"), (0..LEAVES.len()).map(leaf).collect());
        subject.authority = authority;
        subject.leaves = leaves;
        subject
    }

    pub fn targets(&self) -> Targets<'static> {
        match self.which {
            Which::Bare => Targets {
                paths: &["/small", "/small", "/list", "/dump", "/slow", "/nowhere", "/livez"],
                endless: &["/watch"],
                credentials: &["Bearer a", "Basic YTpi"],
            },
            Which::Master => Targets {
                paths: &[
                    "/version",
                    "/livez",
                    "/api/v1/namespaces/default/pods",
                    "/api/v1/namespaces/default/configmaps?fieldManager=a&dryRun=All",
                    "/apis/apps/v1/namespaces/default/deployments/a",
                    "/openapi/v3",
                    "/apis",
                    "/api/v1/namespaces/default/pods/a/exec?command=sh&stdin=1",
                    "/api/v1/namespaces/default/services/a/proxy/b",
                    "/api/v1beta1/pods",
                    "/metrics",
                ],
                endless: &["/api/v1/namespaces/default/configmaps?watch=1", "/api/v1/configmaps?watch=1"],
                credentials: &["Bearer aaaaaa.0123456789abcdef", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.AA", "Basic YTpi"],
            },
        }
    }

    /// A path that anybody may read, and how its answer begins.
    pub fn good(&self) -> &'static str {
        match self.which {
            Which::Bare => "/small",
            Which::Master => "/version",
        }
    }

    pub fn is_well(&self) -> Result<(), String> {
        match self.child.lock().unwrap().try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("the server has ended: {ended:?}")),
        }
    }

    /// What it has printed: the words of a panic.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("output")).unwrap_or_default()
    }

    /// What it holds when no client is left and no handler runs.
    pub fn rests(&self) -> Holding {
        let pid = self.child.lock().unwrap().id();
        self.until("its handlers and connections end", |subject| {
            if subject.connections(pid)? > 0 {
                subject.publish();
                return None;
            }
            (!threads(pid).iter().any(|name| name == REQUEST_THREAD)).then_some(())
        });
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the kernel says it");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says that");
        Holding {
            threads: threads(pid).len(),
            descriptors: descriptors(pid),
            resident_kb: resident.split_whitespace().next().and_then(|kb| kb.parse().ok()).expect("a number"),
        }
    }

    /// Those that the server has not closed.
    fn connections(&self, pid: u32) -> Option<usize> {
        const ESTABLISHED: &str = "01";
        const CLOSE_WAIT: &str = "08";
        let sockets = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
        let port = format!(":{:04X}", self.address.port());
        let open = sockets.lines().skip(1).filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&port) && [ESTABLISHED, CLOSE_WAIT].contains(&words[3])
        });
        Some(open.count())
    }

    /// An event for all watches of a master. A client that has sent something behind a watch, and left, is noticed when
    /// it is sent something; without an event by the kernel, a minute later.
    fn publish(&self) {
        if self.which == Which::Master {
            let config = tls::config(&self.authority, Some(&self.leaves[0]), HTTP_1);
            let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"told"}}"#;
            let maps = "/api/v1/namespaces/default/configmaps";
            for (method, path, body) in [("POST", maps.to_owned(), body), ("DELETE", format!("{maps}/told"), "")] {
                let mut asker = Asker::new(self.address, config.clone(), "Connection: close\r\n".to_owned());
                let (code, answer) = asker.ask(method, &path, body);
                assert!(code < 300, "{method} {path}: {code} {}", String::from_utf8_lossy(&answer));
            }
        }
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut(&Subject) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if let Err(why) = self.is_well() {
                panic!("{what}: {why}\n{}", self.said());
            }
            assert!(begun.elapsed() < PATIENCE, "{what}\n{}", self.said());
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// It ends as a server does that is told to.
    pub fn stop(self) {
        let mut child = self.child.lock().unwrap();
        drop(child.stdin.take());
        let ended = child.wait().expect("it is ours");
        assert!(ended.success(), "{ended}: {}", self.said());
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that has ended by itself is gone already.
        let _ = child.kill();
        let _ = child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// In order.
fn descriptors(pid: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("the kernel lists them").flatten();
    let links = links.filter_map(|link| fs::read_link(link.path()).ok());
    let kind =
        |path: PathBuf| path.to_string_lossy().trim_end_matches(|c: char| c.is_ascii_digit() || c == ']').to_owned();
    let mut kinds: Vec<String> = links.map(kind).collect();
    kinds.sort();
    kinds
}

/// The names of all threads.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
}

/// Users and groups of the certificates.
const LEAVES: [(&str, &str); 3] = [("ann", "system:masters"), ("system:node:n", "system:nodes"), ("eve", "strangers")];

/// Is the server where this process was started as one, until its standard input ends.
pub fn serve_if_asked(which: Which) -> bool {
    let Some(folder) = std::env::var_os(SERVE_IN).map(PathBuf::from) else { return false };
    // Tasks and handlers that panic would go unseen.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }));
    match which {
        Which::Bare => serve_bare(&folder),
        Which::Master => serve_master(&folder),
    }
    true
}

fn serve_master(folder: &Path) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config {
        data_dir: folder.join("data"),
        admin_socket: folder.join("run/api.sock"),
        agent_sockets: folder.join("agents"),
        listen: None,
        secure_listen: Some(listen),
        secure_clients: SecureClients::Network,
        ..Config::default()
    };
    make_private(&config.data_dir);
    let master = coracle_master::start(&config).expect("it starts");
    show(folder, &keys_of(&config.data_dir), master.secure_address().expect("it listens"));
    wait_for_the_end();
    master.stop();
}

fn make_private(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).expect("a folder");
}

fn keys_of(data_dir: &Path) -> ClusterKeys {
    ClusterKeys::of_directory(KeyOptions { data_dir: data_dir.to_owned(), ..KeyOptions::default() }).expect("keys")
}

/// What the other side has to know; the address last.
fn show(folder: &Path, keys: &ClusterKeys, address: SocketAddr) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    write("ca.crt", &keys.authority());
    for (number, (user, group)) in LEAVES.iter().enumerate() {
        let (chain, key) = keys.sign_client(user, &[(*group).to_owned()], None).expect("a certificate");
        write(&format!("{number}.crt"), &chain);
        write(&format!("{number}.key"), &key);
    }
    write("address.partial", &address.to_string());
    fs::rename(folder.join("address.partial"), folder.join("address")).expect("a name");
}

fn wait_for_the_end() {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("it ends");
}

/// The keys come from a master that has run, so that they are those of every cluster.
fn serve_bare(folder: &Path) {
    let data_dir = folder.join("data");
    make_private(&data_dir);
    let config = Config {
        data_dir: data_dir.clone(),
        admin_socket: folder.join("run/api.sock"),
        agent_sockets: folder.join("agents"),
        listen: None,
        secure_listen: None,
        ..Config::default()
    };
    coracle_master::start(&config).expect("it starts").stop();
    let keys = keys_of(&data_dir);
    keys.renew_server(&coracle_master::server_names(&config)).expect("a certificate");
    let (chain, key) = keys.server().expect("a certificate");
    let authorities = keys.client_authorities_pem().expect("an authority");
    let set = KeySet {
        chain_pem: chain.as_bytes(),
        key_pem: key.as_bytes(),
        client_ca_pem: authorities.as_bytes(),
        proxy_ca_pem: b"",
    };
    let clock = Arc::new(|| Duration::from_secs(1_780_000_000));
    let tls = TlsPort { keys: Arc::new(TlsKeys::new(&set, clock).expect("keys")), is_revoked: Arc::new(|_| false) };
    let identify: Identify = everybody_is(Identity::anonymous());
    let listener = network::listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let plane = network::start(listener, handler(), Port::secure(short(), identify, tls)).expect("it serves");
    show(folder, &keys, plane.address);
    wait_for_the_end();
    plane.stop();
}

/// The usual limits with times that a test can wait for.
fn short() -> Limits {
    let second = Duration::from_secs(1);
    Limits {
        handshake: second,
        idle: second,
        head: second,
        body: second,
        slot: second,
        stall: second,
        answer: 2 * second,
        drain: second,
        ..Limits::EDGE
    }
}

fn handler() -> Handler {
    let watchers: Arc<Mutex<Vec<Sender>>> = Arc::default();
    let told = watchers.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(EVENTS_EVERY);
            told.lock().unwrap().retain(|watcher| watcher.try_send(Bytes::from_static(b"{}\n")).is_ok());
        }
    });
    Arc::new(move |request| match request.target.path() {
        "/small" | "/livez" => Answer::text(StatusCode::OK, "small\n"),
        "/list" => Answer::json(StatusCode::OK, vec![b' '; LIST_BYTES]),
        "/dump" => Answer::text(StatusCode::OK, request.body.len().to_string()),
        "/slow" => {
            thread::sleep(SLOW);
            Answer::text(StatusCode::OK, "slow\n")
        }
        "/watch" => {
            let (sender, events) = channel(STREAM_ITEMS_MAX);
            watchers.lock().unwrap().push(sender);
            Answer::new(StatusCode::OK, "application/json", Body::Stream(Stream { events, lease: Box::new(()) }))
        }
        _ => Answer::refuse(StatusCode::NOT_FOUND, "NotFound", "no such path"),
    })
}
