//! A master without sockets and threads of its own: its store on tmpfs, its API, its controllers step by step, and a
//! clock that the history sets.

use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Durable, Resource, Time};
use coracle_api::strategy::Cidr;
use coracle_api::strategy::namespace::SYSTEM;
use coracle_http::{Body, Caller, Method, Request};
use coracle_master::commit::Registry;
use coracle_master::control::rules::ControlRules;
use coracle_master::control::{Controllers, Gate, Now, Rest, Step, wakes};
use coracle_master::making::Maker;
use coracle_master::prepare;
use coracle_master::serve::Serve;
use coracle_master::store::{self, FlatStore, KindRow, Store};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coracle_agent::runtime::fake::Random;

/// More steps at one moment mean controllers that answer themselves for ever.
const STEPS_MAX: usize = 400;
const BEGIN_MS: i64 = 1_800_000_000_000;

/// The clocks of the master's host.
pub struct Clocks {
    /// Since the history began.
    pub passed_ms: AtomicU64,
    /// The wall clock is that much ahead.
    pub ahead_ms: AtomicI64,
}

impl Clocks {
    pub fn wall(&self) -> Time {
        let passed = i64::try_from(self.passed_ms.load(Ordering::Relaxed)).expect("a short history");
        let ms = BEGIN_MS + passed + self.ahead_ms.load(Ordering::Relaxed);
        Time::from_seconds(ms.div_euclid(1000)).expect("a time")
    }

    pub fn passed(&self) -> Duration {
        Duration::from_millis(self.passed_ms.load(Ordering::Relaxed))
    }
}

/// The revision of the store at which a list was read, and its objects.
type ReadList = (u64, Rc<Vec<Value>>);

pub struct Master {
    pub clocks: Arc<Clocks>,
    dir: PathBuf,
    kinds: Arc<Kinds>,
    chance: Arc<Mutex<Random>>,
    rules: ControlRules,
    pub started: Duration,
    up: Option<Up>,
    read: RefCell<BTreeMap<(&'static str, &'static str), ReadList>>,
}

struct Up {
    store: Arc<dyn Store>,
    files: FlatStore,
    serve: Serve,
    registry: Arc<Registry>,
    step: Step,
}

impl Drop for Up {
    fn drop(&mut self) {
        // The next one opens the same directory at once.
        self.files.halt();
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.up = None;
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Master {
    pub fn new(seed: u64, rules: ControlRules) -> Master {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir =
            parent.join(format!("coracle-cluster-{}-{}", std::process::id(), NTH.fetch_add(1, Ordering::Relaxed)));
        let mut master = Master {
            clocks: Arc::new(Clocks { passed_ms: AtomicU64::new(0), ahead_ms: AtomicI64::new(0) }),
            dir,
            kinds: Arc::new(Kinds::builtin()),
            chance: Arc::new(Mutex::new(Random(!seed))),
            rules,
            started: Duration::ZERO,
            up: None,
            read: RefCell::default(),
        };
        master.start();
        master
    }

    pub fn start(&mut self) {
        let files = self.open();
        let store: Arc<dyn Store> = Arc::new(files.clone());
        let registry = Arc::new(Registry::new(self.kinds.clone(), store.clone(), Arc::new(self.maker(store.clone()))));
        for name in SYSTEM {
            registry.ensure_namespace(name).expect("room for a namespace");
        }
        registry.ensure_classes().expect("room for the classes");
        self.started = self.clocks.passed();
        let gate = Gate::new(registry.clone()).ruled_by(self.rules);
        let (wakes, inbox) = wakes();
        let hearing = wakes.clone();
        let serve = Serve::new(registry.clone(), None).heard_by(Box::new(move |key| hearing.hear(key)));
        let step = Step::new(store.clone(), gate, Controllers::builtin(), (wakes, inbox), self.now());
        self.up = Some(Up { store, files, serve, registry, step });
    }

    fn open(&self) -> FlatStore {
        let kinds = &self.kinds;
        let row = |kind: &Kind| KindRow {
            resource: kind.resource.clone(),
            api_version: kind.api_version().into(),
            kind: kind.kind.clone(),
        };
        let rules = store::StoreRules {
            sealing: Default::default(),
            edited: &|_, object| Ok(object),
            home: &|_| None,
            durable_by_sketch: &|_, _| None,
            kinds: kinds.stored().map(row).collect(),
            claims: &|key, object: &Value| {
                kinds.by_resource(&key.resource).map(|kind| prepare::claims(kind, object)).unwrap_or_default()
            },
            fault: &|key, object| prepare::fault(kinds.by_resource(&key.resource)?, object),
            durable: &|key, object| {
                kinds.by_resource(&key.resource).map_or(Durable::Whole, |kind| kind.strategy.durable(object))
            },
        };
        FlatStore::open(&self.dir, None, &rules).expect("the store always opens").store
    }

    fn maker(&self, store: Arc<dyn Store>) -> Maker {
        let (chance, clocks) = (self.chance.clone(), self.clocks.clone());
        let random = move |bytes: &mut [u8]| {
            let mut chance = chance.lock().expect("nobody panics with it");
            bytes.iter_mut().for_each(|byte| *byte = chance.draw().to_le_bytes()[0]);
        };
        Maker::simulated(store, Cidr::parse("10.96.0.0/22").expect("a range"), random, move || clocks.wall())
    }

    /// It dies; what is volatile is lost.
    pub fn die(&mut self) {
        self.up = None;
        self.read.borrow_mut().clear();
    }

    pub fn is_up(&self) -> bool {
        self.up.is_some()
    }

    fn up(&self) -> &Up {
        self.up.as_ref().expect("a master runs")
    }

    pub fn now(&self) -> Now {
        Now { wall: self.clocks.wall(), uptime: self.clocks.passed().saturating_sub(self.started) }
    }

    pub fn revision(&self) -> u64 {
        self.up().store.revision().0
    }

    pub fn controllers(&self) -> &Step {
        &self.up().step
    }

    /// The controllers of a master that started now.
    pub fn newcomer(&self) -> Step {
        let up = self.up();
        Step::new(
            up.store.clone(),
            Gate::new(up.registry.clone()).ruled_by(self.rules),
            Controllers::builtin(),
            wakes(),
            self.now(),
        )
    }

    pub fn set_clock_ahead(&self, ms: i64) {
        self.clocks.ahead_ms.fetch_add(ms, Ordering::Relaxed);
        if let Some(up) = &self.up {
            up.step.wakes().clock_was_set();
        }
    }

    /// The controllers, until they rest.
    pub fn work(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.step() != Rest::More {
                return;
            }
        }
        panic!("the controllers answer themselves for ever");
    }

    pub fn step(&mut self) -> Rest {
        let now = self.now();
        let Some(up) = &mut self.up else { return Rest::Until(None) };
        let rest = up.step.step(now);
        assert_eq!(up.step.effort().unrighted, 0, "the built-in roles allow what controllers do");
        rest
    }

    /// One request of a client.
    pub fn ask(&self, method: Method, target: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask_as("simulation", method, target, body)
    }

    /// One request of an agent.
    pub fn told(&self, method: Method, target: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask_as("coracle-agent/1", method, target, body)
    }

    fn ask_as(&self, name: &str, method: Method, target: &str, body: Option<&Value>) -> (u16, Value) {
        let type_name =
            if method == Method::PATCH { "application/strategic-merge-patch+json" } else { "application/json" };
        let request = Request {
            method,
            target: target.parse().expect("a path"),
            headers: [("content-type", type_name), ("user-agent", name)]
                .into_iter()
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
                .collect(),
            body: body.map(|body| body.to_string().into()).unwrap_or_default(),
            caller: Caller::Local,
            identity: Arc::default(),
        };
        let answer = self.up().serve.answer(&request);
        let bytes = match answer.body {
            Body::Whole(bytes) => bytes,
            Body::Long(long) => long.whole(),
            _ => panic!("{target}: not an answer to read at once"),
        };
        (answer.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// None: there is no such object.
    pub fn get(&self, target: &str) -> Option<Value> {
        Some(self.ask(Method::GET, target, None)).filter(|(code, _)| *code == 200).map(|(_, object)| object)
    }

    pub fn list(&self, target: &str) -> Vec<Value> {
        let (code, list) = self.ask(Method::GET, target, None);
        assert_eq!(code, 200, "{target}: {list}");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Every object of a core kind, as it is stored. Each revision is read once.
    pub fn stored(&self, plural: &'static str) -> Rc<Vec<Value>> {
        self.stored_of("", plural)
    }

    pub fn stored_of(&self, group: &'static str, plural: &'static str) -> Rc<Vec<Value>> {
        let revision = self.revision();
        let mut read = self.read.borrow_mut();
        if let Some((_, objects)) = read.get(&(group, plural)).filter(|(of, _)| *of == revision) {
            return objects.clone();
        }
        let items = self.up().store.list(&Resource { group: group.into(), plural: plural.into() }, None).items;
        let objects = Rc::new(items.iter().map(|stored| serde_json::from_slice(&stored.json).expect("JSON")).collect());
        read.insert((group, plural), (revision, Rc::clone(&objects)));
        objects
    }
}
