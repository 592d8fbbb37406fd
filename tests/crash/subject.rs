//! What is tested: the store through its one door, and the layer of plain files that it is compared with.

use coracle_api::meta::{Durable, Key, Resource};
use coracle_master::store::trial::{Protocol, Setup};
use coracle_master::store::{FlatStore, KindRow, OpenError, Opened, Refused, Store, StoreRules, Stored, Write};
use coracle_tests::block::plain::{self, Plain};
use coracle_tests::block::random::Random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAMESPACES: u64 = 3;
const NAMES: u64 = 12;
const DELETE_PERCENT: u64 = 20;

pub enum Subject {
    Store(Protocol),
    /// With the last revision used, which the layer does not keep.
    Plain(plain::Rules, Arc<Mutex<u64>>),
}

/// Sizes at which a short workload fills many segments and sees many checkpoints.
const SMALL: Setup = Setup {
    segment_bytes: 64 << 10,
    checkpoint_bytes: 96 << 10,
    backlog_bytes_max: 64 << 20,
    // Superseded ones are written over at once.
    retained_bytes_max: 0,
    reserve: 100,
    ..Setup::PRODUCT
};
/// A store that was let go may be held a moment longer by what its own thread was at.
const AGAIN: Duration = Duration::from_millis(5);
const TRIES_MAX: usize = 1000;

/// Objects of a kind, and how much of them is worth flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Class {
    Whole,
    WithoutStatus,
    Volatile,
}

const CLASSES: [(Class, &str, &str); 3] = [
    (Class::Whole, "configmaps", "ConfigMap"),
    (Class::WithoutStatus, "pods", "Pod"),
    (Class::Volatile, "events", "Event"),
];

/// A write that somebody wants.
pub struct Wish {
    class: Class,
    namespace: String,
    name: String,
    delete: bool,
    /// What the object is to say; for a pod only in its status, where `status_only`.
    text: String,
    status_only: bool,
}

/// What it was answered.
pub struct Written {
    pub revision: u64,
    pub key: String,
    pub effect: Effect,
}

/// What a power cut has to leave of it.
pub enum Effect {
    Put(String),
    Removed,
    /// It lives in memory alone.
    Nothing,
}

/// What is found after a power cut.
#[derive(Debug, PartialEq)]
pub struct Seen {
    /// None: the layer keeps none beside its objects.
    pub revision: Option<u64>,
    /// What is durable of the objects, by key.
    pub objects: BTreeMap<String, String>,
}

pub trait Layer: Send + Sync {
    /// None: somebody else was faster, or there was nothing to do.
    fn write(&self, wish: &Wish) -> Result<Option<Written>, String>;
    fn checkpoint(&self) -> Result<(), String>;
    fn close(&self) -> Result<(), String>;
}

impl Wish {
    pub fn random(id: u64, random: &mut Random) -> Wish {
        let class = CLASSES[[0, 0, 0, 1, 1, 1, 2][random.below(7) as usize]].0;
        let longest = if random.percent(12) { 9000 } else { 2500 };
        let filler = "y".repeat(100 + random.below(longest) as usize);
        Wish {
            class,
            namespace: format!("ns-{}", random.below(NAMESPACES)),
            name: format!("o-{:02}", random.below(NAMES)),
            delete: random.percent(DELETE_PERCENT),
            text: format!("{id} {filler}"),
            status_only: random.percent(30),
        }
    }

    fn kind(&self) -> (&'static str, &'static str) {
        CLASSES.iter().find(|row| row.0 == self.class).map(|row| (row.1, row.2)).unwrap()
    }

    fn key(&self) -> Key {
        Key { resource: Resource::core(self.kind().0), namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// `old`: the object as it stands.
    fn object(&self, old: Option<&Value>) -> Value {
        let metadata = json!({"name": self.name, "namespace": self.namespace, "labels": {"app": "crash"}});
        let mut object = json!({"apiVersion": "v1", "kind": self.kind().1, "metadata": metadata, "text": self.text});
        if self.class == Class::WithoutStatus {
            object["status"] = json!({"seen": self.text});
            if let Some(old) = old.filter(|_| self.status_only) {
                object["text"] = old["text"].clone();
            }
        }
        object
    }
}

impl Subject {
    pub fn open(&self, at: &Path, volatile: Option<&Path>) -> Result<Box<dyn Layer>, String> {
        let root = at.join("store");
        match self {
            Subject::Store(protocol) => Ok(Box::new(Real(open(&root, volatile, *protocol)?.store))),
            Subject::Plain(rules, last) => {
                Ok(Box::new(PlainLayer(Plain::open(&root, *rules, last.clone()).map_err(|e| e.to_string())?)))
            }
        }
    }

    /// Opens what a power cut left, and looks at it.
    pub fn look(&self, at: &Path) -> Result<Seen, String> {
        let root = at.join("store");
        match self {
            Subject::Store(protocol) => seen(&open(&root, None, *protocol)?.store),
            Subject::Plain(..) => {
                let objects = Plain::read(&root).map_err(|e| e.to_string())?;
                let torn = objects.iter().find(|(_, text)| serde_json::from_str::<Value>(text).is_err());
                if let Some((name, text)) = torn {
                    return Err(format!("{name} is torn: {} bytes that are no JSON", text.len()));
                }
                Ok(Seen { revision: None, objects })
            }
        }
    }

    /// Opens it, takes one more write, has everything brought to its place, and closes; the revision of that write,
    /// where there was one.
    pub fn settle(&self, at: &Path) -> Result<Option<u64>, String> {
        let Subject::Store(protocol) = self else { return Ok(None) };
        let layer = Real(open(&at.join("store"), None, *protocol)?.store);
        let mut random = Random::new(0);
        let probe =
            Wish { name: "probe".to_owned(), delete: false, class: Class::Whole, ..Wish::random(0, &mut random) };
        let made = layer.write(&probe)?.ok_or("an object of a new name could not be made")?;
        let removed = layer.write(&Wish { delete: true, ..probe })?.ok_or("an object could not be deleted")?;
        if removed.revision <= made.revision {
            return Err(format!("revision {} came after {}", removed.revision, made.revision));
        }
        layer.checkpoint()?;
        layer.close()?;
        Ok(Some(made.revision))
    }
}

fn open(root: &Path, volatile: Option<&Path>, protocol: Protocol) -> Result<Opened, String> {
    let row = |(_, plural, kind): (Class, &'static str, &'static str)| KindRow {
        resource: Resource::core(plural),
        api_version: "v1".into(),
        kind: kind.into(),
    };
    let rules = StoreRules {
        sealing: Default::default(),
        edited: &|_, object| Ok(object),
        home: &|_| None,
        durable_by_sketch: &|_, _| None,
        kinds: CLASSES.map(row).into(),
        claims: &|_, _| Vec::new(),
        fault: &|_, _| None,
        durable: &|key, _| {
            durable(CLASSES.iter().find(|row| row.1 == key.resource.plural).map_or(Class::Whole, |row| row.0))
        },
    };
    for _ in 0..TRIES_MAX {
        match FlatStore::open_as(root, volatile, &rules, Setup { protocol, ..SMALL }) {
            Err(OpenError::InUse { .. }) => std::thread::sleep(AGAIN),
            other => return other.map_err(|e| format!("it does not open: {e}")),
        }
    }
    Err("its directory is never let go".to_owned())
}

fn durable(class: Class) -> Durable {
    match class {
        Class::Whole => Durable::Whole,
        Class::WithoutStatus => Durable::WithoutStatus,
        Class::Volatile => Durable::Nothing,
    }
}

struct Real(FlatStore);

impl Layer for Real {
    fn write(&self, wish: &Wish) -> Result<Option<Written>, String> {
        let (key, durable) = (wish.key(), durable(wish.class));
        let now = self.0.get(&key).map_err(|damaged| format!("{key}: {damaged:?}"))?;
        let old = now.as_ref().map(|stored| serde_json::from_slice::<Value>(&stored.json).unwrap());
        let write = match (&now, wish.delete) {
            (None, true) => return Ok(None),
            (Some(stored), true) => Write::Delete { key: key.clone(), seen: stored.revision },
            (None, false) => Write::Create { key: key.clone(), object: wish.object(None), durable, claims: Vec::new() },
            (Some(stored), false) => {
                let object = wish.object(old.as_ref());
                Write::Update { key: key.clone(), object, seen: stored.revision, durable, claims: Vec::new() }
            }
        };
        let stored = match self.0.write(write) {
            Ok(stored) => stored,
            Err(Refused::Exists { .. } | Refused::Missing | Refused::Stale { .. }) => return Ok(None),
            Err(other) => return Err(format!("{key}: {other}")),
        };
        let effect = match wish.class {
            Class::Volatile => Effect::Nothing,
            _ if wish.delete => Effect::Removed,
            class => Effect::Put(projection(&stored, class)),
        };
        Ok(Some(Written { revision: stored.revision.0, key: key.to_string(), effect }))
    }

    fn checkpoint(&self) -> Result<(), String> {
        self.0.flush().map_err(|e| format!("checkpoint: {e}"))
    }

    fn close(&self) -> Result<(), String> {
        self.0.close().map_err(|e| format!("close: {e}"))
    }
}

/// What of an object outlives a power cut. What lost its status has a fresh revision.
fn projection(stored: &Stored, class: Class) -> String {
    let mut object: Value = serde_json::from_slice(&stored.json).unwrap();
    if class == Class::WithoutStatus {
        object.as_object_mut().unwrap().remove("status");
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    }
    object.to_string()
}

fn seen(store: &FlatStore) -> Result<Seen, String> {
    let health = store.health();
    if let Some(damage) = health.damaged.first() {
        return Err(format!("damaged: {damage}"));
    }
    if let Some(why) = health.degraded {
        return Err(format!("degraded: {why}"));
    }
    let mut objects = BTreeMap::new();
    for (class, plural, _) in CLASSES {
        let items = store.list(&Resource::core(plural), None).items;
        if class == Class::Volatile && !items.is_empty() {
            return Err(format!("{} volatile objects were on the disk", items.len()));
        }
        objects.extend(items.iter().map(|stored| (stored.key.to_string(), projection(stored, class))));
    }
    Ok(Seen { revision: Some(store.revision().0), objects })
}

struct PlainLayer(Plain);

impl Layer for PlainLayer {
    /// One file for all that is not volatile; the layer knows no part of an object.
    fn write(&self, wish: &Wish) -> Result<Option<Written>, String> {
        if wish.class == Class::Volatile {
            return Ok(None);
        }
        let name = wish.key().to_string().replace('/', "_");
        let mut left = None;
        let text = |revision: u64| {
            let mut object = wish.object(None);
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            left = (!wish.delete).then(|| object.to_string());
            left.clone()
        };
        let revision = self.0.write(&name, text).map_err(|e| format!("{name}: {e}"))?;
        Ok(Some(Written { revision, key: name, effect: left.map_or(Effect::Removed, Effect::Put) }))
    }

    fn checkpoint(&self) -> Result<(), String> {
        Ok(())
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}
