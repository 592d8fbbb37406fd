//! A master without sockets: its store on tmpfs, its `prepare`, its controllers step by step, imitated agents, and a
//! time of its own.

use coracle_api::kinds::Kinds;
use coracle_api::meta::{Durable, Key, Resource, Revision, Time};
use coracle_api::strategy::{Cidr, Deleting, Rules};
use coracle_master::commit::Registry;
use coracle_master::control::{Controllers, Gate, Now, Rest, Step, wakes};
use coracle_master::making::Maker;
use coracle_master::prepare::{self, Departure, Part, Preconditions, Standing};
use coracle_master::store::{self, FlatStore, KindRow, Store};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// More steps between two moments mean controllers that answer each other for ever.
const STEPS_MAX: usize = 200;
/// Longer than every silence, absence and back-off that there is.
const SETTLES_AFTER_S: u64 = 360;
/// Less than the silence that makes a node unknown.
const BEAT_S: u64 = 30;
const BEGIN_S: i64 = 1_800_000_000;
/// The label of a node that its pods get.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Kinds whose files are damaged now and then.
const DAMAGED: [&str; 6] = ["pods", "replicationcontrollers", "services", "endpoints", "nodes", "poddisruptionbudgets"];

pub struct Random(u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }
}

pub struct Bed {
    pub random: Random,
    /// Nodes whose agents live.
    pub speaking: BTreeSet<String>,
    /// Pods that nobody but a client may take away.
    pub bare: BTreeSet<String>,
    /// Every pod that runs gets ready.
    pub healthy: bool,
    /// Nodes take as many pods as usual ones do, not a few.
    pub roomy: bool,
    /// Nodes that were deleted, whether they came back or not: what is bound to one of them by hand may go with it.
    pub deleted_nodes: BTreeSet<String>,
    verbose: bool,
    dir: PathBuf,
    kinds: Arc<Kinds>,
    /// Seconds since the begin of the history; the uptime of a master counts from its start.
    clock: Arc<AtomicU64>,
    started_s: u64,
    chance: Arc<Mutex<Random>>,
    up: Option<Up>,
    /// What the agents found as it should be, at which revision: they look again when it has changed.
    seen: BTreeMap<Key, Revision>,
    /// Addresses by uid: what the containers know, whatever the master forgets.
    addresses: BTreeMap<String, String>,
}

/// A master that runs.
struct Up {
    store: Arc<dyn Store>,
    files: FlatStore,
    maker: Arc<Maker>,
    step: Step,
}

impl Drop for Up {
    fn drop(&mut self) {
        // The next master opens the same directory at once.
        self.files.halt();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.up = None;
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Bed {
    pub fn new(seed: u64, verbose: bool) -> Bed {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir =
            parent.join(format!("coracle-control-{}-{}", std::process::id(), NTH.fetch_add(1, Ordering::Relaxed)));
        let mut bed = Bed {
            random: Random(seed),
            speaking: BTreeSet::new(),
            bare: BTreeSet::new(),
            healthy: false,
            roomy: false,
            deleted_nodes: BTreeSet::new(),
            verbose,
            dir,
            kinds: Arc::new(Kinds::builtin()),
            clock: Arc::new(AtomicU64::new(0)),
            started_s: 0,
            chance: Arc::new(Mutex::new(Random(!seed))),
            up: None,
            seen: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        bed.start();
        bed
    }

    pub fn registry(&self) -> Registry {
        let store = self.up().store.clone();
        Registry::new(self.kinds.clone(), store.clone(), Arc::new(self.make_maker(store)))
    }

    fn make_maker(&self, store: Arc<dyn Store>) -> Maker {
        let (chance, clock) = (self.chance.clone(), self.clock.clone());
        let random = move |bytes: &mut [u8]| {
            let mut chance = chance.lock().expect("nobody panics with it");
            bytes.iter_mut().for_each(|byte| *byte = chance.draw() as u8);
        };
        let cidr = Cidr::parse("10.96.0.0/24").expect("a range");
        Maker::simulated(store, cidr, random, move || wall(clock.load(Ordering::Relaxed)))
    }

    fn start(&mut self) {
        let kinds = &self.kinds;
        let row = |kind: &coracle_api::kinds::Kind| KindRow {
            resource: kind.resource.clone(),
            api_version: kind.api_version().into(),
            kind: kind.kind.clone(),
        };
        let rules = store::StoreRules {
            sealing: Default::default(),
            edited: &|_, object| Ok(object),
            home: &|_| None,
            durable_by_sketch: &|_, _| None,
            kinds: kinds.iter().map(row).collect(),
            claims: &|key, object: &Value| {
                kinds.by_resource(&key.resource).map(|kind| prepare::claims(kind, object)).unwrap_or_default()
            },
            fault: &|key, object| prepare::fault(kinds.by_resource(&key.resource)?, object),
            durable: &|key, object| {
                kinds.by_resource(&key.resource).map_or(Durable::Whole, |kind| kind.strategy.durable(object))
            },
        };
        let files = FlatStore::open(&self.dir, None, &rules).expect("the store always opens").store;
        let store: Arc<dyn Store> = Arc::new(files.clone());
        let maker = Arc::new(self.make_maker(store.clone()));
        self.started_s = self.clock.load(Ordering::Relaxed);
        let namespace = kinds.by_resource(&Resource::core("namespaces")).expect("a kind");
        let made = json!({"metadata": {"name": "default"}});
        let write =
            maker.making(|making| prepare::create(namespace, "", made, Rules::default(), making)).expect("a namespace");
        // From the second start on it is there.
        let _ = store.write(write);
        let gate = Gate::new(Arc::new(Registry::new(self.kinds.clone(), store.clone(), maker.clone())));
        let step = Step::new(store.clone(), gate, Controllers::builtin(), wakes(), self.now());
        self.up = Some(Up { store, files, maker, step });
    }

    /// The master dies; what is volatile is lost.
    pub fn crash(&mut self) {
        self.tell("crash");
        self.up = None;
        self.start();
    }

    /// The master dies, and a file is not what it was.
    pub fn crash_with_damage(&mut self) {
        let mut files = Vec::new();
        for plural in DAMAGED {
            files.extend(self.objects(plural).into_iter().map(|(key, _)| key));
        }
        self.up = None;
        if !files.is_empty() {
            let key = files[self.random.below(files.len() as u64) as usize].clone();
            self.tell(&format!("damage {key}"));
            if &*key.resource.plural == "pods" {
                self.bare.remove(&key.name);
            }
            let mut found = Vec::new();
            walk(&self.dir, &mut found);
            let file = found
                .into_iter()
                .filter(|path| path.file_stem().is_some_and(|stem| stem.to_string_lossy() == *key.name));
            let of_kind = |path: &PathBuf| path.components().any(|part| part.as_os_str() == &*key.resource.plural);
            if let Some(path) =
                file.filter(of_kind).find(|path| !path.components().any(|part| part.as_os_str() == "quarantine"))
            {
                fs::write(path, "{\"half").expect("a file of the store");
            }
        }
        self.start();
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.up().store
    }

    pub fn controllers(&self) -> &Step {
        &self.up().step
    }

    fn up(&self) -> &Up {
        self.up.as_ref().expect("a master runs")
    }

    pub fn now(&self) -> Now {
        let s = self.clock.load(Ordering::Relaxed);
        Now { wall: wall(s), uptime: Duration::from_secs(s - self.started_s) }
    }

    pub fn tell(&self, what: &str) {
        if self.verbose {
            println!("{:>5} s: {what}", self.clock.load(Ordering::Relaxed));
        }
    }

    pub fn pass(&mut self, seconds: u64) {
        self.tell(&format!("{seconds} s pass"));
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }

    pub fn step(&mut self) -> Rest {
        let now = self.now();
        let step = &mut self.up.as_mut().expect("a master runs").step;
        let rest = step.step(now);
        assert_eq!(step.effort().unrighted, 0, "the built-in roles allow what controllers do");
        rest
    }

    /// Until nothing happens any more.
    pub fn settle(&mut self) {
        self.tell("quiet");
        for _ in 0..SETTLES_AFTER_S.div_ceil(BEAT_S) {
            self.rest();
            self.pass(BEAT_S);
        }
        self.rest();
    }

    fn rest(&mut self) {
        for _ in 0..STEPS_MAX {
            let before = self.store().revision();
            self.agents();
            let rest = self.step();
            if matches!(rest, Rest::Until(_)) && self.store().revision() == before {
                return;
            }
        }
        panic!("the controllers and the agents answer each other for ever");
    }

    /// So many seconds, in each of which all is done that there is to do. The answer: the CPU time of the controllers.
    pub fn work(&mut self, seconds: u64) -> Duration {
        let cpu =
            || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock"));
        let mut took = Duration::ZERO;
        for _ in 0..seconds {
            loop {
                let before = self.store().revision();
                self.agents();
                let since = cpu();
                let rest = self.step();
                took += cpu() - since;
                if matches!(rest, Rest::Until(_)) && self.store().revision() == before {
                    break;
                }
            }
            self.pass(1);
        }
        took
    }

    /// Every agent lives, every damaged object is given up.
    pub fn heal(&mut self, nodes: &[&str]) {
        self.tell("heal");
        self.speaking = nodes.iter().map(|node| (*node).to_owned()).collect();
        for plural in DAMAGED {
            for key in self.store().list(&resource(plural), None).damaged {
                self.store()
                    .write(store::Write::Delete { key, seen: Default::default() })
                    .expect("a damaged object can be given up");
            }
        }
    }

    /// Readable objects of a kind.
    pub fn objects(&self, plural: &'static str) -> Vec<(Key, Value)> {
        let items = self.store().list(&resource(plural), None).items;
        items
            .into_iter()
            .map(|stored| (Key::clone(&stored.key), serde_json::from_slice(&stored.json).expect("JSON")))
            .collect()
    }

    pub fn damaged(&self, plural: &'static str) -> Vec<Key> {
        self.store().list(&resource(plural), None).damaged
    }

    /// Whether it was made.
    pub fn create(&mut self, plural: &'static str, object: Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = key(plural, &name);
        let kind = self.kinds.by_resource(&key.resource).expect("a kind");
        let rules = Rules { old_names: true, ..Rules::default() };
        let write = self.up().maker.making(|making| prepare::create(kind, &key.namespace, object, rules, making));
        let write = write.unwrap_or_else(|unfit| panic!("{key}: {unfit}"));
        let made = self.store().write(write).is_ok();
        self.tell(&format!("create {key}: {made}"));
        made
    }

    pub fn change(&mut self, plural: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        self.tell(&format!("change {plural}/{name}"));
        self.update(&key(plural, name), Part::Main, change);
    }

    pub fn update(&mut self, key: &Key, part: Part, change: impl FnOnce(&mut Value)) {
        let Ok(Some(stored)) = self.store().get(key) else { return };
        let object: Value = serde_json::from_slice(&stored.json).expect("JSON");
        let mut new = object.clone();
        change(&mut new);
        if new == object {
            return;
        }
        let kind = self.kinds.by_resource(&key.resource).expect("a kind");
        let old = Standing { key, revision: stored.revision, object: &object };
        let rules = Rules { old_names: true, ..Rules::default() };
        // A change that may not be is one that no client makes.
        if let Ok(write) = self.up().maker.making(|making| prepare::update(kind, old, part, new, rules, making)) {
            self.store().write(write).expect("nobody else writes meanwhile");
        }
    }

    pub fn delete(&mut self, plural: &'static str, name: &str, grace_s: Option<i64>) {
        let key = key(plural, name);
        let Ok(Some(stored)) = self.store().get(&key) else { return };
        self.tell(&format!("delete {key} {grace_s:?}"));
        let object: Value = serde_json::from_slice(&stored.json).expect("JSON");
        let kind = self.kinds.by_resource(&key.resource).expect("a kind");
        let old = Standing { key: &key, revision: stored.revision, object: &object };
        let deleting = Deleting { grace_s, now: self.now().wall };
        let write =
            match prepare::depart(kind, old, &Preconditions::default(), deleting, None).expect("no preconditions") {
                Departure::Now | Departure::Last(_) => store::Write::Delete { key: key.clone(), seen: stored.revision },
                Departure::Marked(marked) => prepare::replace(kind, old, marked),
                Departure::Pending => return,
            };
        self.store().write(write).expect("nobody else writes meanwhile");
    }

    /// Its pods go after a while, and those that are bound to it before anybody has noticed.
    pub fn silence(&mut self, node: &str) {
        self.tell(&format!("silence {node}"));
        self.speaking.remove(node);
        let may_go = |pod: &Value| pod["spec"]["nodeName"].is_null() || pod["spec"]["nodeName"] == *node;
        for (key, _) in self.objects("pods").into_iter().filter(|(_, pod)| may_go(pod)) {
            self.bare.remove(&key.name);
        }
    }

    /// The node's object alone. Its agent may register again at once; else its pods go after a while.
    pub fn delete_node(&mut self, node: &str) {
        self.delete("nodes", node, None);
        self.deleted_nodes.insert(node.to_owned());
        if self.speaking.contains(node) && self.random.below(2) == 0 {
            return self.beat(node);
        }
        for (key, _) in self.objects("pods").into_iter().filter(|(_, pod)| pod["spec"]["nodeName"] == *node) {
            self.bare.remove(&key.name);
        }
    }

    /// The agent says that a pod is over.
    pub fn fail(&mut self, key: &Key) {
        self.tell(&format!("fail {key}"));
        self.update(key, Part::Status, |pod| {
            if !pod["spec"]["nodeName"].is_null() {
                pod["status"] = json!({"phase": "Failed"});
            }
        });
    }

    /// Every agent that lives registers, beats, reports what runs, and takes away what was deleted.
    pub fn agents(&mut self) {
        for node in self.speaking.clone() {
            self.beat(&node);
        }
        for stored in self.store().list(&Resource::core("pods"), None).items {
            if self.seen.get(&stored.key) == Some(&stored.revision) {
                continue;
            }
            let pod: Value = serde_json::from_slice(&stored.json).expect("JSON");
            if self.speaking.contains(pod["spec"]["nodeName"].as_str().unwrap_or_default()) {
                self.report(&stored.key, &pod);
                self.seen.insert(Key::clone(&stored.key), stored.revision);
            }
        }
    }

    fn beat(&mut self, name: &str) {
        let (key, roomy) = (key("nodes", name), self.roomy);
        match self.store().get(&key) {
            Ok(None) => drop(self.create(
                "nodes",
                json!({
                    "metadata": {"name": name, "labels": {"zone": name, ZONE: name}}, "status": node_status(self.roomy),
                }),
            )),
            Ok(Some(stored)) if self.seen.get(&key) != Some(&stored.revision) => {
                self.update(&key, Part::Status, |node| node["status"] = node_status(roomy));
                self.seen.insert(key.clone(), stored.revision);
            }
            Ok(Some(_)) => {}
            // It answers 500; there is nothing that an agent could do.
            Err(_) => return,
        }
        self.controllers().wakes().hear(&key);
    }

    fn report(&mut self, key: &Key, pod: &Value) {
        if pod["metadata"]["deletionTimestamp"].is_string() {
            return self.delete("pods", &key.name, Some(0));
        }
        if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
            return;
        }
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let next = self.addresses.len();
        let ip = self
            .addresses
            .entry(uid.clone())
            .or_insert_with(|| format!("10.244.{}.{}", next / 250, next % 250 + 1))
            .clone();
        // Some never get ready.
        let ready = if !self.healthy && uid.ends_with(['0', '1', '2']) { "False" } else { "True" };
        let conditions = json!([{"type": "Ready", "status": ready}, {"type": "PodScheduled", "status": "True"}]);
        let status = json!({"phase": "Running", "podIP": ip, "conditions": conditions});
        self.update(key, Part::Status, |pod| {
            let class = pod["status"]["qosClass"].take();
            pod["status"] = status;
            if class.is_string() {
                pod["status"]["qosClass"] = class;
            }
        });
    }
}

fn node_status(roomy: bool) -> Value {
    let room = if roomy {
        json!({"cpu": "4", "memory": "8Gi", "pods": "110"})
    } else {
        json!({"cpu": "1", "memory": "1Gi", "pods": "6"})
    };
    json!({"conditions": [{"type": "Ready", "status": "True"}], "capacity": room, "allocatable": room})
}

pub fn key(plural: &'static str, name: &str) -> Key {
    let namespace = if plural == "nodes" { "" } else { "default" };
    Key { resource: resource(plural), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn resource(plural: &'static str) -> Resource {
    match plural {
        "deployments" | "replicasets" | "statefulsets" => Resource { group: "apps".into(), plural: plural.into() },
        "poddisruptionbudgets" => Resource { group: "policy".into(), plural: plural.into() },
        _ => Resource::core(plural),
    }
}

fn wall(s: u64) -> Time {
    Time::from_seconds(BEGIN_S + s as i64).expect("a time")
}

fn walk(folder: &PathBuf, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the store") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
    found.sort();
}
