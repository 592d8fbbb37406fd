//! Carries out what the controllers want: every intent goes through `prepare` and `Store::write`, like a client's request.

use super::Now;
use super::intent::{Intent, Tale};
use crate::making::Maker;
use crate::prepare::{self, Part, Preconditions, Standing};
use crate::store::{Refused, Store, Stored, Write};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::strategy::{Deleting, Rules, bind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A look that ended in a refusal is repeated after this.
pub const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Where intents become writes.
pub struct Gate {
    pub kinds: Arc<Kinds>,
    pub maker: Arc<Maker>,
}

impl Gate {
    /// `Err` is a refusal that will not pass by itself, in words. A lost race is none: the winner's event brings the key back.
    pub fn pass(&self, store: &Store, intent: Intent, now: Now) -> Result<(), String> {
        let Some(write) = self.prepare(store, intent, now)? else { return Ok(()) };
        match store.write(write) {
            Ok(_) | Err(Refused::Stale { .. } | Refused::Missing | Refused::Exists { .. }) => Ok(()),
            Err(refused) => Err(refused.to_string()),
        }
    }

    /// None: what it was about has changed or gone since it was decided.
    fn prepare(&self, store: &Store, intent: Intent, now: Now) -> Result<Option<Write>, String> {
        match intent {
            Intent::Create { resource, namespace, object } => self.create(&resource, &namespace, object).map(Some),
            Intent::Tell(tale) => self.create(&Resource::core("events"), &namespace_of(&tale), event(&tale, now)).map(Some),
            Intent::Update { key, seen, object } => self.update(store, &key, seen, Part::Main, |_| object),
            Intent::Status { key, seen, status } => self.update(store, &key, seen, Part::Status, |old| {
                let mut object = old.clone();
                object["status"] = status;
                object
            }),
            Intent::Bind { key, seen, node } => self.bind(store, &key, seen, &node, now),
            Intent::Delete { key, seen, at_once } => {
                let kind = self.kind(&key.resource)?;
                let Some((stored, object)) = standing(store, &key, seen) else { return Ok(None) };
                let old = Standing { key: &key, revision: stored.revision, object: &object };
                let deleting = Deleting { grace_s: at_once.then_some(0), now: now.wall };
                prepare::delete(kind, old, &Preconditions::default(), deleting).map(Some).map_err(|unfit| unfit.to_string())
            }
        }
    }

    fn create(&self, resource: &Resource, namespace: &str, object: Value) -> Result<Write, String> {
        let kind = self.kind(resource)?;
        // What controllers make comes of objects that were taken as they are, ids of 2014 among them.
        let rules = Rules { old_names: true, service_cidr: None };
        self.maker.making(|making| prepare::create(kind, namespace, object, rules, making)).map_err(|unfit| unfit.to_string())
    }

    fn update(
        &self,
        store: &Store,
        key: &Key,
        seen: Revision,
        part: Part,
        change: impl FnOnce(&Value) -> Value,
    ) -> Result<Option<Write>, String> {
        let kind = self.kind(&key.resource)?;
        let Some((stored, object)) = standing(store, key, seen) else { return Ok(None) };
        let new = change(&object);
        let old = Standing { key, revision: stored.revision, object: &object };
        let rules = Rules { old_names: true, service_cidr: None };
        let write = self.maker.making(|making| prepare::update(kind, old, part, new, rules, making));
        write.map(Some).map_err(|unfit| unfit.to_string())
    }

    fn bind(&self, store: &Store, key: &Key, seen: Revision, node: &str, now: Now) -> Result<Option<Write>, String> {
        let kind = self.kind(&key.resource)?;
        let Some((stored, object)) = standing(store, key, seen) else { return Ok(None) };
        let bound = bind(&object, &json!({"target": {"kind": "Node", "name": node}}), now.wall)?;
        Ok(Some(prepare::replace(kind, Standing { key, revision: stored.revision, object: &object }, bound)))
    }

    fn kind(&self, resource: &Resource) -> Result<&Kind, String> {
        self.kinds.by_resource(resource).ok_or_else(|| format!("{resource} is no kind of this server"))
    }
}

/// The object at the revision that the controller saw.
fn standing(store: &Store, key: &Key, seen: Revision) -> Option<(Stored, Value)> {
    let stored = store.get(key).ok().flatten().filter(|stored| stored.revision == seen)?;
    let object = serde_json::from_slice(&stored.json).ok()?;
    Some((stored, object))
}

fn namespace_of(tale: &Tale) -> String {
    // Events about what has no namespace are kept in `default`, as in Kubernetes.
    if tale.about.namespace.is_empty() { "default".to_owned() } else { tale.about.namespace.clone() }
}

fn event(tale: &Tale, now: Now) -> Value {
    let about = &tale.about;
    let at = now.wall.to_string();
    // Unique by revision and reason: each is told once.
    let name = format!("{}.{:x}{:08x}", about.name, about.revision.0, now.uptime.as_micros() & 0xffff_ffff);
    json!({
        "metadata": {"name": name, "namespace": namespace_of(tale)},
        "involvedObject": {
            "apiVersion": "v1", "kind": about.kind, "namespace": about.namespace, "name": about.name, "uid": about.uid,
            "resourceVersion": about.revision.to_string(),
        },
        "type": tale.severity, "reason": tale.reason, "message": tale.message, "source": {"component": tale.source},
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    })
}
