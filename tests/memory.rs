//! What an object costs in memory, and a start: the promises of the store, kept by processes of their own that do
//! nothing else.

use coracle_agent::facts::desired::Desired;
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::shown::Shown;
use coracle_agent::facts::uid_set::UidSet;
use coracle_agent::facts::wanted::Wanted;
use coracle_agent::facts::world::Node;
use coracle_agent::running::sync::{self, SyncChannels};
use coracle_agent::runtime::fake::Fake;
use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::config::Config;
use coracle_master::store::{FlatStore, KindRow, Store, StoreRules, Write};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

const OBJECTS: usize = 10_000;
/// For an object of compact JSON of this length ..
const JSON_BYTES: usize = 2_000;
/// .. this much of its length, and this much more.
const OF_JSON: f64 = 1.4;
const MORE_BYTES: f64 = 300.0;

/// Objects that are written over and over, so often, until the master is killed; all of it is in the journal.
const WRITTEN: usize = 8;
const WRITES: usize = 400;
const WRITTEN_BYTES: usize = 100 << 10;
/// A start reads a segment at a time, and keeps what is said last.
const START_BYTES_MAX: usize = 32 << 20;

/// Says to this program, run once more by itself, where it shall leave a data directory, a journal, or open one.
const FILL: &str = "CORACLE_MEMORY_FILL";
const BURST: &str = "CORACLE_MEMORY_BURST";
const START: &str = "CORACLE_MEMORY_START";
/// The same for rounds of a master, and of an agent.
const MASTER_ROUNDS: &str = "CORACLE_MEMORY_MASTER";
const AGENT_ROUNDS: &str = "CORACLE_MEMORY_AGENT";
/// Looks at what is awaited, before it is broken.
const PATIENCE: usize = 1200;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One is measured at a time.
static MEASURED: Mutex<()> = Mutex::new(());

#[test]
fn an_object_costs_little_more_than_its_text() {
    let rules = rules();
    if let Ok(folder) = std::env::var(FILL) {
        fill(Path::new(&folder));
        let store = FlatStore::open(&Path::new(&folder).join("data"), None, &rules).expect("it opens").store;
        return store.close().expect("the disk is well");
    }
    let _alone = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder("object");
    // Not by this process: what it had left free would count as nothing.
    again("an_object_costs_little_more_than_its_text", FILL, &folder);
    // What the process and a store of nothing take.
    drop(FlatStore::open(&folder.join("empty"), None, &rules).expect("an empty store opens"));
    let before = resident();
    let opened = FlatStore::open(&folder.join("data"), None, &rules).expect("it opens");
    let after = resident();
    assert_eq!(opened.objects, OBJECTS, "{:?}", opened.notes);
    let each = (after - before) as f64 / OBJECTS as f64;
    let json_bytes = opened.store.list(&Resource::core("configmaps"), None).items[0].json.len();
    let promised = OF_JSON * json_bytes as f64 + MORE_BYTES;
    eprintln!("{each:.0} bytes for an object of {json_bytes}, promised are {promised:.0}");
    drop(opened);
    fs::remove_dir_all(&folder).ok();
    assert!(each <= promised, "{each:.0} bytes for an object of {json_bytes}, promised are {promised:.0}");
}

#[test]
fn a_start_after_a_kill_holds_no_journal() {
    let (burst, start) = (std::env::var(BURST), std::env::var(START));
    if let Ok(folder) = burst {
        return write_over_and_over(Path::new(&folder));
    }
    if let Ok(folder) = start {
        let before = peak();
        let opened = FlatStore::open(&Path::new(&folder).join("data"), None, &rules()).expect("it opens");
        let took = peak() - before;
        assert_eq!(opened.objects, WRITTEN, "{:?}", opened.notes);
        return fs::write(Path::new(&folder).join("took"), took.to_string()).expect("room for a number");
    }
    let _alone = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder("start");
    again("a_start_after_a_kill_holds_no_journal", BURST, &folder);
    let is_brought = folder.join("data/objects/core/configmaps/default/config-0.json").exists();
    again("a_start_after_a_kill_holds_no_journal", START, &folder);
    let took: usize = fs::read_to_string(folder.join("took")).expect("it was said").parse().expect("a number");
    fs::remove_dir_all(&folder).ok();
    let journal = WRITES * WRITTEN_BYTES;
    eprintln!("{took} bytes for a start that reads {journal} of a journal");
    assert!(!is_brought, "the files say it: is there too little room for a journal?");
    assert!(took <= START_BYTES_MAX, "{took} bytes for a start that reads {journal} of a journal");
}

fn folder(word: &str) -> PathBuf {
    std::env::temp_dir().join(format!("coracle-memory-{}-{word}", std::process::id()))
}

/// Runs one test of this program once more, by itself.
fn again(test: &str, word: &str, folder: &Path) {
    let program = std::env::current_exe().expect("this program");
    let ended = Command::new(program)
        .args(["--exact", test])
        // As `coracle_program::resident` sets it for the programs.
        .envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")])
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .env(word, folder)
        .stdout(Stdio::null())
        .status()
        .expect("it runs");
    assert!(ended.success());
}

/// As a master does that is killed before any file says it.
fn write_over_and_over(folder: &Path) {
    let store = FlatStore::open(&folder.join("data"), None, &rules()).expect("it opens").store;
    let mut seen = Vec::new();
    for write in 0..WRITES {
        let (at, text) = (write % WRITTEN, "x".repeat(WRITTEN_BYTES));
        let key = Key {
            resource: Resource::core("configmaps"),
            namespace: "default".to_owned(),
            name: format!("config-{at}"),
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.name, "namespace": "default"},
            "data": {"write": write.to_string(), "text": text},
        });
        let (durable, claims) = (Durable::Whole, Vec::new());
        let write = match seen.get(at) {
            None => Write::Create { key, object, durable, claims },
            Some(seen) => Write::Update { key, object, seen: *seen, durable, claims },
        };
        let revision = store.write(write).expect("the disk is well").revision;
        if at < seen.len() { seen[at] = revision } else { seen.push(revision) }
    }
    store.halt();
}

fn rules() -> StoreRules<'static> {
    StoreRules {
        sealing: Default::default(),
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|_, _| Some(Durable::Whole),
        kinds: vec![KindRow {
            resource: Resource::core("configmaps"),
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
        }],
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        durable: &|_, _| Durable::Whole,
    }
}

/// Objects' files, as people may have written them.
fn fill(folder: &Path) {
    let at: PathBuf = folder.join("data/objects/core/configmaps/default");
    fs::create_dir_all(&at).expect("a new folder");
    // The master takes none that others may enter.
    fs::set_permissions(folder.join("data"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
    for number in 0..OBJECTS {
        let name = format!("a-config-of-some-name-{number:05}");
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": "default", "resourceVersion": (number + 1).to_string(),
                "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "tier": "frontend"},
            },
            "data": {},
        });
        let short = object.to_string().len();
        for line in 0..10 {
            object["data"][format!("line-{line}")] = Value::String("x".repeat((JSON_BYTES - short) / 10 - 12));
        }
        let text = serde_json::to_vec_pretty(&object).expect("a document");
        fs::write(at.join(format!("{name}.json")), text).expect("room for a file");
    }
}

fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("the kernel says it");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// The most that this process has ever had in memory.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel says it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it says that");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).expect("a number") << 10
}

/// Of the same, over and over: what one brings and takes away again leaves nothing.
const ROUNDS: usize = 10;
/// By then the history of the last events is full; from then on nothing may grow.
const ROUNDS_TO_FILL: usize = 7;
const PODS: usize = 60;
const EVENTS: usize = 900;
/// For the chance in where an allocator finds room: less than half a kilobyte of each object that has come and gone.
const GROWTH_BYTES_MAX: usize = (ROUNDS - ROUNDS_TO_FILL) * (PODS + EVENTS) * 512;

#[test]
fn a_master_does_not_grow_from_round_to_round() {
    const TEST: &str = "a_master_does_not_grow_from_round_to_round";
    if let Ok(folder) = std::env::var(MASTER_ROUNDS) {
        let folder = Path::new(&folder);
        fs::DirBuilder::new().mode(0o700).create(folder.join("run")).expect("a new folder");
        let (data_dir, admin_socket) = (folder.join("data"), folder.join("run/api.sock"));
        let config = Config { data_dir, admin_socket, listen: Some(([127, 0, 0, 1], 0).into()), ..Config::default() };
        let master = coracle_master::start(&config).expect("it starts");
        let address = master.address().expect("it listens");
        run_rounds(folder, |round| master_round(address, round));
        return master.stop();
    }
    grows_no_more(TEST, MASTER_ROUNDS);
}

#[test]
fn an_agent_does_not_grow_from_round_to_round() {
    const TEST: &str = "an_agent_does_not_grow_from_round_to_round";
    if let Ok(folder) = std::env::var(AGENT_ROUNDS) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        return tokio::task::LocalSet::new().block_on(&runtime, agent_rounds(Path::new(&folder)));
    }
    grows_no_more(TEST, AGENT_ROUNDS);
}

fn grows_no_more(test: &str, word: &str) {
    let _alone = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder(word);
    fs::create_dir_all(&folder).expect("a new folder");
    again(test, word, &folder);
    let rounds = fs::read_to_string(folder.join("rounds")).expect("they were told");
    fs::remove_dir_all(&folder).ok();
    let after: Vec<usize> = rounds.lines().map(|line| line.parse().expect("a number")).collect();
    eprintln!("{word}: {after:?} bytes after each round");
    assert_eq!(after.len(), ROUNDS);
    let (full, last) = (after[ROUNDS_TO_FILL - 1], after[ROUNDS - 1]);
    assert!(last <= full + GROWTH_BYTES_MAX, "{word}: {after:?} bytes after each round");
}

/// What the process holds after each.
fn run_rounds(folder: &Path, mut round: impl FnMut(usize)) {
    let mut after = String::new();
    for number in 0..ROUNDS {
        round(number);
        after.push_str(&format!("{}\n", resident()));
    }
    fs::write(folder.join("rounds"), after).expect("room for some numbers");
}

/// A namespace, and pods, a service and events in it, that all go again with it.
fn master_round(address: SocketAddr, round: usize) {
    let namespace = format!("round-{round}");
    let inside = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let post = |path: &str, object: Value| {
        assert_eq!(asked(address, "POST", path, &object.to_string()).0, 201, "{path} {object}")
    };
    post("/api/v1/namespaces", json!({"metadata": {"name": namespace}}));
    post(
        &inside("services"),
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    );
    for pod in 0..PODS {
        let name = format!("pod-{pod}");
        let spec = json!({
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "x".repeat(500)}]}],
        });
        post(&inside("pods"), json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}));
        for event in 0..EVENTS / PODS {
            let about = json!({"kind": "Pod", "namespace": namespace, "name": name});
            let metadata = json!({"name": format!("{name}.{event}"), "namespace": namespace});
            post(
                &inside("events"),
                json!({"metadata": metadata, "involvedObject": about, "reason": "Began", "message": "y".repeat(200)}),
            );
        }
    }
    for pod in 0..PODS {
        let path = format!("{}/pod-{pod}?gracePeriodSeconds=0", inside("pods"));
        assert_eq!(asked(address, "DELETE", &path, "").0, 200, "{path}");
    }
    let path = format!("/api/v1/namespaces/{namespace}");
    assert_eq!(asked(address, "DELETE", &path, "").0, 200, "{path}");
    // Its end is heard of, however long it takes.
    let stays = |_: &usize| asked(address, "GET", &path, "").0 != 404;
    assert!(
        (0..PATIENCE).take_while(stays).inspect(|_| thread::sleep(LOOK_AGAIN)).count() < PATIENCE,
        "{namespace} does not end"
    );
}

/// The code of the answer, and the answer.
fn asked(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}",
        body.len()
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    (answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line"), answer)
}

/// The agent's own loop, with an engine in memory, on a clock that stands still while there is something to do.
async fn agent_rounds(folder: &Path) {
    let (desired_in, desired) = watch::channel(Arc::new(Desired::default()));
    let (_verdicts_in, verdicts) = watch::channel(Arc::default());
    let (shown_in, mut shown) = watch::channel(Arc::new(Shown::default()));
    let (happenings, mut happened) = mpsc::channel(64);
    let (fake, wake) = (Rc::new(Fake::new(1)), Arc::new(Notify::new()));
    let node = Node {
        name: "n".into(),
        memory_bytes: 1 << 34,
        cpu_milli: 64_000,
        data_dir: "/data".into(),
        ..Node::default()
    };
    let (engine, rung) = (fake.clone(), wake.clone());
    let wall = fake.clone();
    let wall_ms = Rc::new(move || wall.with(|engine| engine.wall_ms()));
    let (_strain_in, strain) = watch::channel(Arc::default());
    let leaving = watch::channel(false).1;
    let (address, restarts) = (watch::channel(String::new()).1, watch::channel(Arc::default()).1);
    let ends = SyncChannels {
        desired,
        verdicts,
        strain,
        restarts,
        leaving,
        address,
        wake,
        node,
        wall_ms,
        shown: shown_in,
        happenings,
    };
    tokio::task::spawn_local(async move { sync::run(&*engine, ends).await });
    tokio::task::spawn_local(async move { while happened.recv().await.is_some() {} });
    let mut after = String::new();
    for round in 0..ROUNDS {
        let pods: Vec<Wanted> = (0..PODS).map(|pod| agent_pod(round, pod)).collect();
        let uids: UidSet = pods.iter().map(|wanted| wanted.name.uid.as_str()).collect();
        let pods = pods.into_iter().map(|wanted| (wanted.name.uid.clone(), Arc::new(wanted))).collect();
        desired_in.send_replace(Arc::new(Desired { pods, ..Desired::default() }));
        let runs = |status: &Value| status["phase"] == "Running";
        until(&mut shown, &rung, |shown| shown.statuses.len() == PODS && shown.statuses.values().all(runs)).await;
        desired_in.send_replace(Arc::new(Desired { gone: uids, ..Desired::default() }));
        until(&mut shown, &rung, |shown| shown.desired.pods.is_empty() && shown.world.containers.is_empty()).await;
        fake.with(|engine| engine.wrongs.clear());
        after.push_str(&format!("{}\n", resident()));
    }
    fs::write(folder.join("rounds"), after).expect("room for some numbers");
}

fn agent_pod(round: usize, pod: usize) -> Wanted {
    let metadata = json!({"namespace": "default", "name": format!("pod-{pod}"), "uid": format!("uid-{round}-{pod}")});
    let env = json!([{"name": "A", "value": "x".repeat(500)}]);
    let container = json!({"name": "c", "image": "steady:1", "env": env});
    Wanted::new(Source::Master, json!({"metadata": metadata, "spec": {"containers": [container]}})).expect("a pod")
}

/// The engine tells nothing by itself here.
async fn until(shown: &mut watch::Receiver<Arc<Shown>>, rung: &Notify, holds: impl Fn(&Shown) -> bool) {
    for _ in 0..PATIENCE {
        if holds(&shown.borrow_and_update()) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        rung.notify_one();
    }
    panic!("{:#?}", shown.borrow().statuses);
}
