//! Carries out what the controllers want: every intent becomes a change, which goes into the registry like a client's.

use super::controller::Now;
use super::correlate::{Correlator, Telling};
use super::event::{cut_message, document, moment, name_of, namespace_of};
use super::intent::{About, Doing, EventDraft, Intent, Refusal};
use super::rules::ControlRules;
use super::settings::Permission;
use super::settings::{Own, Settings, TokenSigner, Zones};
use super::view::EVENTS;
use crate::agents::Agents;
use crate::cluster_keys::ClusterKeys;
use crate::commit::{Change, CommitError, Made, NamespaceError, Outcome, Registry, Terms, Writer};
use crate::prepare::{self, InvalidDocument, Ownership, Part, Preconditions, Standing};
use crate::store::Damage;
use crate::zones::zone;
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::strategy::finalizer::{FOREGROUND, ORPHAN};
use coracle_api::strategy::meta::{without_finalizer, without_owners};
use coracle_api::strategy::{Deleting, DeletionPropagation, bind, namespace};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Damaged files that are told as events; the log and `/readyz?verbose` name all of them.
const DAMAGE_EVENTS_MAX: usize = 100;

/// Where intents become writes.
pub struct Gate {
    pub(super) registry: Arc<Registry>,
    /// Counts the events that were told: two events of the same moment need different names.
    tales: AtomicU64,
    correlator: Mutex<Correlator>,
    workloads: bool,
    own: Option<Arc<Own>>,
    node_grace: Duration,
    /// `None`: no agent is asked.
    pub(super) agents: Option<Agents>,
    rules: ControlRules,
    /// `None`: nothing is signed.
    pub(super) keys: Option<Arc<ClusterKeys>>,
    /// `None`: no request for a certificate is approved by rule.
    may_request: Option<Permission>,
}

impl Gate {
    pub fn kinds(&self) -> Arc<Kinds> {
        self.registry.kinds()
    }

    pub fn new(registry: Arc<Registry>) -> Gate {
        let (tales, correlator) = (AtomicU64::new(0), Mutex::default());
        let (node_grace, rules) = (Settings::NODE_GRACE, ControlRules::default());
        let (own, agents, keys, may_request) = (None, None, None, None);
        Gate { registry, tales, correlator, workloads: true, own, node_grace, agents, rules, keys, may_request }
    }

    /// Signs certificates. `may_request`: whether a user may create a subresource of certificatesigningrequests.
    pub fn signing(self, keys: Option<Arc<ClusterKeys>>, may_request: Option<Permission>) -> Gate {
        Gate { keys, may_request, ..self }
    }

    /// Recounts the usage of a namespace's quotas.
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

    /// Takes nodes for gone after such a silence.
    pub fn awaiting_nodes_for(self, node_grace: Duration) -> Gate {
        Gate { node_grace, ..self }
    }

    /// For simulations.
    pub fn ruled_by(self, rules: ControlRules) -> Gate {
        Gate { rules, ..self }
    }

    /// Asks the agents what their pods take.
    pub fn measured_by(self, agents: Agents) -> Gate {
        Gate { agents: Some(agents), ..self }
    }

    pub fn settings(&self) -> Settings {
        let own = self.own.clone().filter(|_| self.workloads);
        Settings {
            node_grace: self.node_grace,
            own,
            trust: self.registry.trusted(),
            signer: self.keys.clone().map(TokenSigner::of),
            may_request: self.may_request.clone(),
            zones: Zones(zone),
            measured: self.agents.is_some(),
            rules: self.rules,
        }
    }

    /// What was written, or None for a lost race: the winner's event brings the key back. `Err` is a refusal that will
    /// not pass by itself, in words.
    pub fn pass(&self, intent: Intent, now: Now) -> Result<Option<Key>, Refusal> {
        let deleting = match &intent {
            Intent::Create { resource, namespace, object } => return self.create(resource, namespace, object),
            Intent::Delete { key, .. } | Intent::Collect { key, .. } => Some(key.clone()),
            _ => None,
        };
        let refused = |why| Refusal { doing: deleting.map_or(Doing::Changing, Doing::Deleting), ..Refusal::from(why) };
        self.carry_out(intent, now).map_err(refused)
    }

    fn carry_out(&self, intent: Intent, now: Now) -> Result<Option<Key>, String> {
        match intent {
            // It is told with what it is about, and made by itself.
            Intent::Tell(_) | Intent::Announce(_) | Intent::Then(_) | Intent::Create { .. } => Ok(None),
            Intent::Update { key, seen, object } => {
                self.change(&key, seen, |_, _| Ok(whole(Part::Main, object.clone())))
            }
            Intent::Status { key, seen, status } => self.change(&key, seen, |_, old| {
                let mut object = old.object.clone();
                object["status"] = status.clone();
                Ok(whole(Part::Status, object))
            }),
            Intent::Note { key, seen, object } => {
                self.change(&key, seen, |_, _| Ok(whole(Part::Status, object.clone())))
            }
            Intent::Bind { key, seen, node } => {
                self.change(&key, seen, |_, old| self.bound(old.object, &node, now).map(Made::Own))
            }
            Intent::Emptied { key, seen } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, namespace::emptied(old.object))))
            }
            Intent::Delete { key, seen, at_once } => {
                self.delete(&key, seen, |kind, old| departed(kind, old, at_once.then_some(0), None, now))
            }
            Intent::Disrupt { key, seen, status } => self.disrupt(&key, seen, &status, now),
            Intent::Collect { key, seen, foreground } => self.delete(&key, seen, |kind, old| {
                // What it says itself, by a finalizer, comes first.
                let fate = if foreground { Some(DeletionPropagation::Foreground) } else { parting(old.object) };
                departed(kind, old, None, fate, now)
            }),
            Intent::Disown { key, seen, owners } => {
                self.change(&key, seen, |kind, old| Ok(Made::relieved(kind, without_owners(old.object, &owners))))
            }
            Intent::Approve { key, seen, condition } => self.approve(&key, seen, &condition),
            Intent::Sign { key, seen, request, usages, life } => self.sign(&key, seen, (&request, &usages, life), now),
            Intent::Revoke { node } => self.revoke(&node),
            Intent::Settle { node, uid } => self.settle(&node, &uid),
            Intent::Release { key, seen, finalizer } => self.change(&key, seen, |kind, old| {
                Ok(Made::relieved(kind, without_finalizer(old.object, finalizer.unwrap_or_default())))
            }),
        }
    }

    /// An event that cannot be stored is no reason for anything. `made`: what the tale is about was done to this
    /// object.
    pub fn tell(&self, tale: &EventDraft, made: Option<&Key>, now: Now) {
        let made = made.filter(|_| tale.names_made).map(|key| key.name.as_str()).unwrap_or_default();
        let moment = moment(self.tales.fetch_add(1, Ordering::Relaxed), now);
        let message = format!("{}{made}", tale.message);
        let telling =
            self.correlator.lock().unwrap_or_else(PoisonError::into_inner).tell(tale, message, moment, now.uptime);
        let written = match telling {
            Telling::Nothing => return,
            Telling::New { message } => {
                let name = name_of(tale, moment);
                self.create(&EVENTS, &namespace_of(tale), &document(tale, (&name, &message, 1), now)).map(drop)
            }
            Telling::Again { moment, count, message } => {
                self.tell_again(tale, (&name_of(tale, moment), &message, count), now)
            }
        };
        if let Err(refusal) = written {
            log::debug!("event {} about {}: {}", tale.reason, tale.about.name, refusal.why);
        }
    }

    /// The event may have gone meanwhile: then it is made anew, and counts on.
    fn tell_again(
        &self,
        tale: &EventDraft,
        (name, message, count): (&str, &str, u32),
        now: Now,
    ) -> Result<(), Refusal> {
        let key = Key { resource: EVENTS, namespace: namespace_of(tale), name: name.to_owned() };
        let Ok(Some(stored)) = self.registry.store.get(&key) else {
            return self.create(&EVENTS, &key.namespace, &document(tale, (name, message, count), now)).map(drop);
        };
        let again = |_: &Kind, old: Standing<'_>| {
            let mut object = old.object.clone();
            object["count"] = count.into();
            object["lastTimestamp"] = now.wall.to_string().into();
            object["message"] = cut_message(message).into();
            Ok(whole(Part::Main, object))
        };
        self.change(&key, stored.revision, again).map(drop).map_err(Refusal::from)
    }

    /// Reports damaged files as events about the objects in these files: an object's events show its damage.
    pub fn tell_files(&self, reason: &'static str, files: &[Damage], now: Now) {
        // Damage without an object is reported on the namespace that stands for the cluster.
        let cluster = Key {
            resource: Resource::core("namespaces"),
            namespace: String::new(),
            name: namespace::CLUSTER.to_owned(),
        };
        for damage in files.iter().take(DAMAGE_EVENTS_MAX) {
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
            let tale = EventDraft::warning("store", about, reason, message);
            self.tell(&tale, None, now);
        }
    }

    fn create(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<Option<Key>, Refusal> {
        let said =
            object["metadata"]["name"].as_str().or(object["metadata"]["generateName"].as_str()).unwrap_or_default();
        let doing = Doing::Making(resource.clone(), said.to_owned());
        let refused = |why: String| Refusal { doing: doing.clone(), ..Refusal::from(why) };
        let make = |_: Option<Standing<'_>>| Ok(whole(Part::Main, object.clone()));
        let kind = self.kind(resource).map_err(refused)?;
        let change = Change::create(&kind, namespace, &make);
        match self.registry.commit::<String>(&change, &Terms::of(Writer::Controller)) {
            Ok(committed) => Ok(Some(Key::clone(&committed.stored.key))),
            Err(barred) if barred.is_taken() && !object["metadata"]["name"].is_null() => Ok(None),
            // The namespace is being deleted, and with it the object that needs the new object: no event is told.
            Err(CommitError::NamespaceError(NamespaceError::Ending { .. })) => Ok(None),
            Err(CommitError::NamespaceError(NamespaceError::Missing)) => {
                Err(refused(format!("namespace {namespace} is not there: nothing is made in it")))
            }
            Err(CommitError::InvalidDocument(InvalidDocument::Forbidden { name, why })) => {
                let gist = format!("{resource} {said:?} is forbidden: {why}");
                Err(Refusal { why: format!("{resource} {name:?} is forbidden: {why}"), gist, doing })
            }
            Err(barred) => Err(refused(barred.to_string())),
        }
    }

    /// A change of the object that the controller saw; None: it has changed or gone since, or there is nothing to
    /// change.
    pub(super) fn change<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        self.write(key, seen, false, make)
    }

    fn delete<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        self.write(key, seen, true, make)
    }

    fn write<'a>(
        &'a self,
        key: &'a Key,
        seen: Revision,
        deletes: bool,
        make: impl Fn(&Kind, Standing<'_>) -> Result<Made<'a>, String>,
    ) -> Result<Option<Key>, String> {
        let kind = self.kind(&key.resource)?;
        let make = |old: Option<Standing<'_>>| match old {
            Some(old) if old.revision == seen => make(&kind, old).map_err(Some),
            _ => Err(None),
        };
        let change = Change { deletes, ..Change::update(&kind, &key.namespace, &key.name, &make) };
        match self.registry.commit(&change, &Terms::of(Writer::Controller)) {
            Ok(committed) => Ok((committed.outcome != Outcome::Unchanged).then(|| key.clone())),
            Err(CommitError::Writer(None) | CommitError::Missing | CommitError::Damaged { .. }) => Ok(None),
            Err(CommitError::Writer(Some(why))) => Err(why),
            Err(barred) => Err(barred.to_string()),
        }
    }

    fn disrupt(&self, key: &Key, seen: Revision, status: &Value, now: Now) -> Result<Option<Key>, String> {
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            object["status"] = status.clone();
            Ok(whole(Part::Status, object))
        })?;
        // A writer since then has seen the reason of the deletion, or was quicker and the key is looked at again.
        let stored = self.registry.store.get(key).ok().flatten();
        let Some(stored) = stored.filter(|stored| says(&stored.json, status)) else { return Ok(None) };
        self.delete(key, stored.revision, |kind, old| departed(kind, old, None, None, now))
    }

    fn bound(&self, pod: &Value, node: &str, now: Now) -> Result<Value, String> {
        let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
        let found =
            self.registry.store.get(&key).ok().flatten().and_then(|stored| serde_json::from_slice(&stored.json).ok());
        bind(pod, &json!({"target": {"kind": "Node", "name": node}}), &found.unwrap_or_default(), now.wall)
    }

    fn kind(&self, resource: &Resource) -> Result<Arc<Kind>, String> {
        self.registry.kind(resource).ok_or_else(|| format!("{resource} is no kind of this server"))
    }
}

/// Whether an object has the conditions of this status.
fn says(json: &[u8], status: &Value) -> bool {
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    object["status"]["conditions"] == status["conditions"]
}

/// The controllers' writes record no owner of fields.
pub(super) fn whole<'a>(part: Part, object: Value) -> Made<'a> {
    Made::document(part, object, Ownership::Untold)
}

fn departed<'a>(
    kind: &Kind,
    old: Standing<'_>,
    grace_s: Option<i64>,
    fate: Option<DeletionPropagation>,
    now: Now,
) -> Result<Made<'a>, String> {
    let deleting = Deleting { grace_s, now: now.wall };
    let departure = prepare::depart(kind, old, &Preconditions::default(), deleting, fate);
    departure.map(Made::from).map_err(|unfit| unfit.to_string())
}

/// The fate of a collected object's dependents: they are deleted too, unless the object's finalizers say otherwise.
fn parting(object: &Value) -> Option<DeletionPropagation> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let says = finalizers.is_some_and(|all| all.iter().any(|one| one == ORPHAN || one == FOREGROUND));
    (!says).then_some(DeletionPropagation::Background)
}
