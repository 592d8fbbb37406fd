//! Carries out what the controllers want: every intent becomes a change, which goes into the registry like a client's.

use super::cluster::{Own, Settings};
use super::controller::Now;
use super::intent::{About, Contents, Intent, Item, Tale};
use super::view::namespace_key;
use crate::commit::{Barred, Change, Homeless, Made, Outcome, Registry, Terms, Writer};
use crate::prepare::{self, Departure, Ownership, Part, Preconditions, Standing, Unfit};
use crate::store::{Damage, Stored};
use coracle_api::kinds::{Kind, Kinds, Verb};
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use coracle_api::strategy::meta::{without_finalizer, without_owners};
use coracle_api::strategy::{Deleting, Fate, bind, namespace};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A look that ended in a refusal is repeated after this.
pub const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Damaged files that are told as events; the log and `/readyz?verbose` name all of them.
const DAMAGE_TOLD_MAX: usize = 100;
/// What an event's name keeps of the name of its object; the rest makes it unique.
const EVENT_NAME_BYTES_MAX: usize = 220;
/// Longest message of an event that says when it happened to the microsecond.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

/// Where intents become writes.
pub struct Gate {
    registry: Arc<Registry>,
    /// Counts what was told, so that two tales of one moment have two names.
    told: AtomicU64,
    workloads: bool,
    own: Option<Arc<Own>>,
}

impl Gate {
    pub fn kinds(&self) -> Arc<Kinds> {
        self.registry.kinds()
    }

    pub fn new(registry: Arc<Registry>) -> Gate {
        Gate { registry, told: AtomicU64::new(0), workloads: true, own: None }
    }

    /// Counts what is used of the quotas of a namespace.
    pub fn recount(&self, namespace: &str) {
        self.registry.recount(namespace);
    }

    /// Whether pods are placed, replicated and guarded at all.
    pub fn with_workloads(self, workloads: bool) -> Gate {
        Gate { workloads, ..self }
    }

    pub fn has_workloads(&self) -> bool {
        self.workloads
    }

    /// Keeps what is the cluster's own: the service of the API, and the range of service addresses.
    pub fn keeping(self, own: Own) -> Gate {
        Gate { own: Some(Arc::new(own)), ..self }
    }

    pub fn settings(&self) -> Settings {
        Settings { own: self.own.clone().filter(|_| self.workloads), authority: self.registry.authority() }
    }

    /// Of all that stands in namespaces.
    pub fn contained(&self) -> Vec<Resource> {
        let kinds = self.registry.kinds();
        kinds.stored().filter(|kind| kind.namespaced && kind.offers(Verb::List)).map(|kind| kind.resource.clone()).collect()
    }

    /// All that a namespace holds. `None`: it is gone, or cannot be read.
    pub fn contents(&self, name: &str) -> Option<Contents> {
        let store = &self.registry.store;
        let stored = store.get(&namespace_key(name)).ok()??;
        let namespace = serde_json::from_slice(&stored.json).ok()?;
        let mut contents = Contents { namespace, seen: stored.revision, ..Contents::default() };
        for resource in self.contained() {
            let page = store.list(&resource, Some(name));
            contents.items.extend(page.items.iter().map(item));
            contents.damaged.extend(page.damaged);
        }
        Some(contents)
    }

    /// What was written, or None for a lost race: the winner's event brings the key back. `Err` is a refusal that will not pass by itself,
    /// in words.
    pub fn pass(&self, intent: Intent, now: Now) -> Result<Option<Key>, String> {
        match intent {
            Intent::Create { resource, namespace, object } => self.create(&resource, &namespace, &object),
            // It is told with what it is about.
            Intent::Tell(_) => Ok(None),
            Intent::Update { key, seen, object } => self.change(&key, seen, |_, _| Ok(whole(Part::Main, object.clone()))),
            Intent::Status { key, seen, status } => self.change(&key, seen, |_, old| {
                let mut object = old.object.clone();
                object["status"] = status.clone();
                Ok(whole(Part::Status, object))
            }),
            Intent::Bind { key, seen, node } => self.change(&key, seen, |_, old| self.bound(old.object, &node, now).map(Made::Own)),
            Intent::Emptied { key, seen } => self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, namespace::emptied(old.object)))),
            Intent::Delete { key, seen, at_once } => {
                self.change(&key, seen, |kind, old| departed(kind, old, at_once.then_some(0), None, now))
            }
            Intent::Collect { key, seen, foreground } => self.change(&key, seen, |kind, old| {
                // What it says itself, by a finalizer, comes first.
                let fate = if foreground { Some(Fate::Foreground) } else { parting(old.object) };
                departed(kind, old, None, fate, now)
            }),
            Intent::Disown { key, seen, owners } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, without_owners(old.object, &owners))))
            }
            Intent::Release { key, seen, finalizer } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, without_finalizer(old.object, finalizer.unwrap_or_default()))))
            }
        }
    }

    /// An event that cannot be stored is no reason for anything. `made`: what the tale is about was done to this object.
    pub fn tell(&self, tale: &Tale, made: Option<&Key>, now: Now) {
        let made = made.filter(|_| tale.names_made).map(|key| key.name.as_str()).unwrap_or_default();
        let object = event(tale, made, self.told.fetch_add(1, Ordering::Relaxed), now);
        if let Err(why) = self.create(&Resource::core("events"), &namespace_of(tale), &object) {
            log::debug!("event {} about {}: {why}", tale.reason, tale.about.name);
        }
    }

    /// Damaged files, as events about the objects that they were: whoever looks at one hears of it.
    pub fn tell_files(&self, reason: &'static str, files: &[Damage], now: Now) {
        // What is no object's is told of the namespace that is the cluster.
        let cluster = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: namespace::CLUSTER.to_owned() };
        for damage in files.iter().take(DAMAGE_TOLD_MAX) {
            let key = damage.key.as_ref().unwrap_or(&cluster);
            let Some(kind) = self.registry.kind(&key.resource) else { continue };
            let (api_version, namespace, name) = (kind.api_version().into(), key.namespace.clone(), key.name.clone());
            let about = About {
                api_version,
                kind: kind.kind.clone(),
                namespace,
                name,
                uid: String::new(),
                revision: self.registry.store.revision(),
            };
            let message = damage.to_string();
            let tale = Tale { about, severity: "Warning", reason, message, names_made: false, source: "store" };
            self.tell(&tale, None, now);
        }
    }

    fn create(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<Option<Key>, String> {
        let make = |_: Option<Standing<'_>>| Ok(whole(Part::Main, object.clone()));
        let kind = self.kind(resource)?;
        let change = Change::create(&kind, namespace, &make);
        match self.registry.commit::<String>(&change, &Terms::of(Writer::Controller)) {
            Ok(committed) => Ok(Some(Key::clone(&committed.stored.key))),
            Err(barred) if barred.is_taken() && !object["metadata"]["name"].is_null() => Ok(None),
            Err(Barred::Homeless(Homeless::Missing | Homeless::Ending { .. })) => {
                Err(format!("namespace {namespace} is not there, or it ends: nothing is made in it"))
            }
            Err(Barred::Unfit(Unfit::Forbidden { why, .. })) => {
                // The same words at every attempt: not by a name that was made for this one.
                let name = object["metadata"]["generateName"].as_str().or(object["metadata"]["name"].as_str()).unwrap_or_default();
                Err(format!("{resource} {name:?} is forbidden: {why}"))
            }
            Err(barred) => Err(barred.to_string()),
        }
    }

    /// A change of the object that the controller saw; None: it has changed or gone since, or there is nothing to change.
    fn change<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        let kind = self.kind(&key.resource)?;
        let make = |old: Option<Standing<'_>>| match old {
            Some(old) if old.revision == seen => make(&kind, old).map_err(Some),
            _ => Err(None),
        };
        let change = Change::update(&kind, &key.namespace, &key.name, &make);
        match self.registry.commit(&change, &Terms::of(Writer::Controller)) {
            Ok(committed) => Ok((committed.outcome != Outcome::Unchanged).then(|| key.clone())),
            Err(Barred::Writer(None) | Barred::Missing | Barred::Damaged { .. }) => Ok(None),
            Err(Barred::Writer(Some(why))) => Err(why),
            Err(barred) => Err(barred.to_string()),
        }
    }

    fn bound(&self, pod: &Value, node: &str, now: Now) -> Result<Value, String> {
        let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
        let found = self.registry.store.get(&key).ok().flatten().and_then(|stored| serde_json::from_slice(&stored.json).ok());
        bind(pod, &json!({"target": {"kind": "Node", "name": node}}), &found.unwrap_or_default(), now.wall)
    }

    fn kind(&self, resource: &Resource) -> Result<Arc<Kind>, String> {
        self.registry.kind(resource).ok_or_else(|| format!("{resource} is no kind of this server"))
    }
}

/// Nobody owns what the controllers write.
fn whole<'a>(part: Part, object: Value) -> Made<'a> {
    Made::document(part, object, Ownership::Untold)
}

fn departed<'a>(kind: &Kind, old: Standing<'_>, grace_s: Option<i64>, fate: Option<Fate>, now: Now) -> Result<Made<'a>, String> {
    let deleting = Deleting { grace_s, now: now.wall };
    match prepare::depart(kind, old, &Preconditions::default(), deleting, fate) {
        // Nobody waits to see it once more.
        Ok(Departure::Last(_)) => Ok(Made::Gone),
        departed => departed.map(Made::from).map_err(|unfit| unfit.to_string()),
    }
}

fn item(stored: &Stored) -> Item {
    let meta: Meta = serde_json::from_slice(&stored.json).unwrap_or_default();
    let ObjectMeta { deletion_timestamp, finalizers, .. } = meta.metadata;
    Item { key: Key::clone(&stored.key), revision: stored.revision, deleting: deletion_timestamp.is_some(), finalizers }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    metadata: ObjectMeta,
}

/// What becomes of what a collected object owns: that goes too, unless its finalizers say otherwise.
fn parting(object: &Value) -> Option<Fate> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let says = finalizers.is_some_and(|all| all.iter().any(|one| one == ORPHAN || one == FOREGROUND));
    (!says).then_some(Fate::Background)
}

fn namespace_of(tale: &Tale) -> String {
    // Events about what has no namespace are kept in `default`, as in Kubernetes.
    if tale.about.namespace.is_empty() { "default".to_owned() } else { tale.about.namespace.clone() }
}

/// The beginning of a text that is too long.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

fn event(tale: &Tale, made: &str, nth: u64, now: Now) -> Value {
    let about = &tale.about;
    let at = now.wall.to_string();
    let message = format!("{}{made}", tale.message);
    // As Kubernetes calls them: by the moment.
    let moment = now.wall.0.as_nanosecond().unsigned_abs() + u128::from(nth);
    json!({
        "metadata": {"name": format!("{}.{moment:016x}", cut(&about.name, EVENT_NAME_BYTES_MAX)), "namespace": namespace_of(tale)},
        "involvedObject": {
            "apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace, "name": about.name, "uid": about.uid,
            "resourceVersion": about.revision.to_string(),
        },
        "type": tale.severity, "reason": tale.reason, "message": cut(&message, EVENT_MESSAGE_BYTES_MAX), "source": {"component": tale.source},
        // Clients of events.k8s.io/v1 take no event without its time; one that has it says who reports what was done.
        "eventTime": format!("{:.6}", now.wall.0),
        "reportingComponent": tale.source, "reportingInstance": tale.source, "action": tale.reason,
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    })
}
