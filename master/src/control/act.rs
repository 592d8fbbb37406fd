//! Carries out what the controllers want: every intent goes through `prepare` and `Store::write`, like a client's request.

use super::cluster::{Own, Settings};
use super::controller::Now;
use super::intent::{About, Contents, Intent, Item, Tale};
use super::view::namespace_key;
use crate::admit::{
    self,
    ledger::{Barred, Ledger},
};
use crate::furnish::Furnisher;
use crate::making::Maker;
use crate::prepare::{self, Ownership, Part, Preconditions, Standing, Unfit};
use crate::store::{Damage, Refused, Store, Stored, Write};
use coracle_api::kinds::{Kind, Kinds, Verb};
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use coracle_api::strategy::meta::{without_finalizer, without_owners};
use coracle_api::strategy::{Deleting, Fate, Making, Rules, bind, namespace};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A look that ended in a refusal is repeated after this.
pub const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A generated name that is taken is made anew so often.
const NAMES_MAX: usize = 16;
/// Damaged files that are told as events; the log and `/readyz?verbose` name all of them.
const DAMAGE_TOLD_MAX: usize = 100;
/// What an event's name keeps of the name of its object; the rest makes it unique.
const EVENT_NAME_BYTES_MAX: usize = 220;
/// Longest message of an event that says when it happened to the microsecond.
const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

/// Where intents become writes.
pub struct Gate {
    kinds: Arc<Kinds>,
    maker: Arc<Maker>,
    /// Counts what was told, so that two tales of one moment have two names.
    told: AtomicU64,
    workloads: bool,
    authority: Option<Arc<str>>,
    own: Option<Arc<Own>>,
    ledger: Arc<Ledger>,
}

impl Gate {
    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.kinds
    }

    pub fn new(kinds: Arc<Kinds>, maker: Arc<Maker>) -> Gate {
        let ledger = Arc::new(Ledger::new(kinds.clone(), maker.clone()));
        Gate { kinds, maker, told: AtomicU64::new(0), workloads: true, authority: None, own: None, ledger }
    }

    /// With whom what is used of quotas is counted.
    pub fn charging(self, ledger: Arc<Ledger>) -> Gate {
        Gate { ledger, ..self }
    }

    /// Counts what is used of the quotas of a namespace.
    pub fn recount(&self, store: &dyn Store, namespace: &str) {
        self.ledger.recount(store, namespace);
    }

    /// Whether pods are placed, replicated and guarded at all.
    pub fn with_workloads(self, workloads: bool) -> Gate {
        Gate { workloads, ..self }
    }

    pub fn has_workloads(&self) -> bool {
        self.workloads
    }

    /// Whom everybody in the cluster trusts: the authority's certificate.
    pub fn trusting(self, authority: Option<&str>) -> Gate {
        Gate { authority: authority.map(Arc::from), ..self }
    }

    /// Keeps what is the cluster's own: the service of the API, and the range of service addresses.
    pub fn keeping(self, own: Own) -> Gate {
        Gate { own: Some(Arc::new(own)), ..self }
    }

    pub fn settings(&self) -> Settings {
        Settings { own: self.own.clone().filter(|_| self.workloads), authority: self.authority.clone() }
    }

    /// Of all that stands in namespaces.
    pub fn contained(&self) -> impl Iterator<Item = &Resource> {
        self.kinds.stored().filter(|kind| kind.namespaced && kind.offers(Verb::List)).map(|kind| &kind.resource)
    }

    /// All that a namespace holds. `None`: it is gone, or cannot be read.
    pub fn contents(&self, store: &dyn Store, name: &str) -> Option<Contents> {
        let stored = store.get(&namespace_key(name)).ok()??;
        let namespace = serde_json::from_slice(&stored.json).ok()?;
        let mut contents = Contents { namespace, seen: stored.revision, ..Contents::default() };
        for resource in self.contained() {
            let page = store.list(resource, Some(name));
            contents.items.extend(page.items.iter().map(item));
            contents.damaged.extend(page.damaged);
        }
        Some(contents)
    }

    /// What was written, or None for a lost race: the winner's event brings the key back. `Err` is a refusal that will not pass by itself,
    /// in words.
    pub fn pass(&self, store: &dyn Store, intent: Intent, now: Now) -> Result<Option<Key>, String> {
        if let Intent::Create { resource, namespace, object } = intent {
            return self.create(store, &resource, &namespace, &object);
        }
        let Some(write) = self.prepare(store, intent, now)? else { return Ok(None) };
        match store.write(write) {
            Ok(stored) => Ok(Some(Key::clone(&stored.key))),
            Err(Refused::Stale { .. } | Refused::Missing) => Ok(None),
            Err(refused) => Err(refused.to_string()),
        }
    }

    /// An event that cannot be stored is no reason for anything. `made`: what the tale is about was done to this object.
    pub fn tell(&self, store: &dyn Store, tale: &Tale, made: Option<&Key>, now: Now) {
        let made = made.filter(|_| tale.names_made).map(|key| key.name.as_str()).unwrap_or_default();
        let object = event(tale, made, self.told.fetch_add(1, Ordering::Relaxed), now);
        if let Err(why) = self.create(store, &Resource::core("events"), &namespace_of(tale), &object) {
            log::debug!("event {} about {}: {why}", tale.reason, tale.about.name);
        }
    }

    /// Damaged files, as events about the objects that they were: whoever looks at one hears of it.
    pub fn tell_files(&self, store: &dyn Store, reason: &'static str, files: &[Damage], now: Now) {
        // What is no object's is told of the namespace that is the cluster.
        let cluster = Key { resource: Resource::core("namespaces"), namespace: String::new(), name: namespace::CLUSTER.to_owned() };
        for damage in files.iter().take(DAMAGE_TOLD_MAX) {
            let key = damage.key.as_ref().unwrap_or(&cluster);
            let Some(kind) = self.kinds.by_resource(&key.resource) else { continue };
            let (api_version, namespace, name) = (kind.api_version().into(), key.namespace.clone(), key.name.clone());
            let about = About { api_version, kind: kind.kind.clone(), namespace, name, uid: String::new(), revision: store.revision() };
            let message = damage.to_string();
            let tale = Tale { about, severity: "Warning", reason, message, names_made: false, source: "store" };
            self.tell(store, &tale, None, now);
        }
    }

    /// None: what it was about has changed or gone since it was decided.
    fn prepare(&self, store: &dyn Store, intent: Intent, now: Now) -> Result<Option<Write>, String> {
        match intent {
            // They need no old object; see `pass` and `tell`.
            Intent::Create { .. } | Intent::Tell(_) => Ok(None),
            Intent::Update { key, seen, object } => self.update(store, &key, seen, Part::Main, |_| object),
            Intent::Status { key, seen, status } => self.update(store, &key, seen, Part::Status, |old| {
                let mut object = old.clone();
                object["status"] = status;
                object
            }),
            Intent::Bind { key, seen, node } => self.bind(store, &key, seen, &node, now),
            Intent::Emptied { key, seen } => {
                let kind = self.kind(&key.resource)?;
                let Some((stored, object)) = standing(store, &key, seen) else { return Ok(None) };
                let emptied = namespace::emptied(&object);
                if (kind.strategy.released)(&emptied) {
                    return Ok(Some(Write::Delete { key, seen: stored.revision }));
                }
                Ok(Some(prepare::replace(kind, Standing { key: &key, revision: stored.revision, object: &object }, emptied)))
            }
            Intent::Delete { key, seen, at_once } => {
                let kind = self.kind(&key.resource)?;
                let Some((stored, object)) = standing(store, &key, seen) else { return Ok(None) };
                let old = Standing { key: &key, revision: stored.revision, object: &object };
                let deleting = Deleting { grace_s: at_once.then_some(0), now: now.wall };
                prepare::delete(kind, old, &Preconditions::default(), deleting, None).map_err(|unfit| unfit.to_string())
            }
            Intent::Collect { key, seen, foreground } => {
                let kind = self.kind(&key.resource)?;
                let Some((stored, object)) = standing(store, &key, seen) else { return Ok(None) };
                let old = Standing { key: &key, revision: stored.revision, object: &object };
                let deleting = Deleting { grace_s: None, now: now.wall };
                // What it says itself, by a finalizer, comes first.
                let fate = if foreground { Some(Fate::Foreground) } else { parting(&object) };
                prepare::delete(kind, old, &Preconditions::default(), deleting, fate).map_err(|unfit| unfit.to_string())
            }
            Intent::Disown { key, seen, owners } => self.relieve(store, &key, seen, |object| without_owners(object, &owners)),
            Intent::Release { key, seen, finalizer } => {
                self.relieve(store, &key, seen, |object| without_finalizer(object, finalizer.unwrap_or_default()))
            }
        }
    }

    fn create(&self, store: &dyn Store, resource: &Resource, namespace: &str, object: &Value) -> Result<Option<Key>, String> {
        let kind = self.kind(resource)?;
        if kind.namespaced && !lives(store, namespace) {
            return Err(format!("namespace {namespace} is not there, or it ends: nothing is made in it"));
        }
        // What controllers make comes of objects that were taken as they are, ids of 2014 among them.
        let rules = Rules { old_names: true, ..Rules::default() };
        let generated = object["metadata"]["name"].is_null();
        if &*resource.plural == "pods" {
            // Before the first pod in it.
            Furnisher { store, kinds: &self.kinds, maker: &self.maker, authority: self.authority.as_deref() }.furnish(namespace);
        }
        let admit = |stage, object: &mut Value| admit::create(&store, kind, namespace, stage, object);
        for _ in 0..NAMES_MAX {
            let made = |making: &mut Making<'_>| {
                prepare::create_admitted(kind, namespace, object.clone(), rules, making, Ownership::Untold, &admit)
            };
            let write = self.maker.making(made).map_err(|unfit| unmade(resource, unfit))?;
            match self.ledger.commit(store, kind, write, None, false) {
                Ok(stored) => return Ok(Some(Key::clone(&stored.key))),
                Err(Barred::Refused(Refused::Exists { .. } | Refused::Damaged { .. })) if generated => {}
                Err(Barred::Refused(Refused::Exists { .. })) => return Ok(None),
                Err(Barred::Refused(refused)) => return Err(refused.to_string()),
                Err(Barred::Forbidden(why)) => {
                    let name = object["metadata"]["generateName"].as_str().or(object["metadata"]["name"].as_str()).unwrap_or_default();
                    return Err(format!("{resource} {name:?} is forbidden: {why}"));
                }
            }
        }
        Err(format!("{NAMES_MAX} generated names were all taken"))
    }

    fn update(
        &self,
        store: &dyn Store,
        key: &Key,
        seen: Revision,
        part: Part,
        change: impl FnOnce(&Value) -> Value,
    ) -> Result<Option<Write>, String> {
        let kind = self.kind(&key.resource)?;
        let Some((stored, object)) = standing(store, key, seen) else { return Ok(None) };
        let new = change(&object);
        let old = Standing { key, revision: stored.revision, object: &object };
        let rules = Rules { old_names: true, ..Rules::default() };
        let write = self.maker.making(|making| prepare::update(kind, old, part, new, rules, making));
        write.map(Some).map_err(|unfit| unfit.to_string())
    }

    fn relieve(&self, store: &dyn Store, key: &Key, seen: Revision, change: impl FnOnce(&Value) -> Value) -> Result<Option<Write>, String> {
        let kind = self.kind(&key.resource)?;
        let Some((stored, object)) = standing(store, key, seen) else { return Ok(None) };
        let old = Standing { key, revision: stored.revision, object: &object };
        Ok(Some(prepare::relieve(kind, old, change(&object))))
    }

    fn bind(&self, store: &dyn Store, key: &Key, seen: Revision, node: &str, now: Now) -> Result<Option<Write>, String> {
        let kind = self.kind(&key.resource)?;
        let Some((stored, object)) = standing(store, key, seen) else { return Ok(None) };
        let place = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
        let place = store.get(&place).ok().flatten().and_then(|stored| serde_json::from_slice(&stored.json).ok());
        let bound = bind(&object, &json!({"target": {"kind": "Node", "name": node}}), &place.unwrap_or_default(), now.wall)?;
        Ok(Some(prepare::replace(kind, Standing { key, revision: stored.revision, object: &object }, bound)))
    }

    fn kind(&self, resource: &Resource) -> Result<&Kind, String> {
        self.kinds.by_resource(resource).ok_or_else(|| format!("{resource} is no kind of this server"))
    }
}

/// Why prepare let something not through, in the words that its owner is told.
fn unmade(resource: &Resource, unfit: Unfit) -> String {
    if matches!(unfit, Unfit::Forbidden { .. }) { format!("{resource} {unfit}") } else { unfit.to_string() }
}

/// Whether something can be made in a namespace. What nobody can read is there.
fn lives(store: &dyn Store, name: &str) -> bool {
    match store.get(&namespace_key(name)) {
        Ok(Some(stored)) => !namespace::is_ending(&serde_json::from_slice(&stored.json).unwrap_or_default()),
        Ok(None) => false,
        Err(_) => true,
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

/// The object at the revision that the controller saw.
fn standing(store: &dyn Store, key: &Key, seen: Revision) -> Option<(Stored, Value)> {
    let stored = store.get(key).ok().flatten().filter(|stored| stored.revision == seen)?;
    let object = serde_json::from_slice(&stored.json).ok()?;
    Some((stored, object))
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
