//! Where the intents of the controllers become writes, each under the name of its controller, and their tales events.

use super::controller::Now;
use super::correlate::{Correlator, Telling};
use super::event::{cut_message, document, moment, name_of, namespace_of};
use super::hand::{Hand, whole};
use super::intent::{About, EventDraft, Intent, Refusal};
use super::names::Actor;
use super::rules::ControlRules;
use super::settings::Permission;
use super::settings::{Own, Settings, TokenSigner, UnadoptedRoles, Zones};
use super::view::EVENTS;
use crate::agents::Agents;
use crate::cluster_keys::ClusterKeys;
use crate::commit::{MASTER, Registry};
use crate::prepare::{Part, Standing};
use crate::store::Damage;
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::namespace;
use coracle_http::Identity;
use coracle_program::zones::zone;
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
    unadopted: Option<UnadoptedRoles>,
}

impl Gate {
    pub fn kinds(&self) -> Arc<Kinds> {
        self.registry.kinds()
    }

    pub fn new(registry: Arc<Registry>) -> Gate {
        let (tales, correlator) = (AtomicU64::new(0), Mutex::default());
        let (node_grace, rules) = (Settings::NODE_GRACE, ControlRules::default());
        let (own, agents, keys, may_request) = (None, None, None, None);
        let unadopted = None;
        Gate {
            registry,
            tales,
            correlator,
            workloads: true,
            own,
            node_grace,
            agents,
            rules,
            keys,
            may_request,
            unadopted,
        }
    }

    /// Signs certificates. `may_request`: whether a user may create a subresource of certificatesigningrequests.
    pub fn signing(self, keys: Option<Arc<ClusterKeys>>, may_request: Option<Permission>) -> Gate {
        Gate { keys, may_request, ..self }
    }

    /// Leaves out roles from before access rules counted, where roles gather roles.
    pub fn leaving_out(self, unadopted: UnadoptedRoles) -> Gate {
        Gate { unadopted: Some(unadopted), ..self }
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
            unadopted: self.unadopted.as_ref().map(|unadopted| Arc::new(unadopted())).unwrap_or_default(),
        }
    }

    /// What was written, or None for a lost race: the winner's event brings the key back. `Err` is a refusal that will
    /// not pass by itself, in words.
    pub fn pass(&self, actor: Actor<'_>, intent: Intent, now: Now) -> Result<Option<Key>, Refusal> {
        self.hand(actor.writer(&intent)?).pass(intent, now)
    }

    /// Writes under this identity.
    fn hand<'g>(&'g self, identity: &'g Identity) -> Hand<'g> {
        Hand { gate: self, identity }
    }

    /// An event that cannot be stored is no reason for anything. `made`: what the tale is about was done to this
    /// object.
    pub fn tell(&self, actor: Actor<'_>, tale: &EventDraft, made: Option<&Key>, now: Now) {
        self.say(actor.teller(), tale, made, now);
    }

    fn say(&self, teller: &Identity, tale: &EventDraft, made: Option<&Key>, now: Now) {
        let made = made.filter(|_| tale.names_made).map(|key| key.name.as_str()).unwrap_or_default();
        let moment = moment(self.tales.fetch_add(1, Ordering::Relaxed), now);
        let message = format!("{}{made}", tale.message);
        let telling =
            self.correlator.lock().unwrap_or_else(PoisonError::into_inner).tell(tale, message, moment, now.uptime);
        let written = match telling {
            Telling::Nothing => return,
            Telling::New { message } => {
                let name = name_of(tale, moment);
                self.hand(teller)
                    .create(&EVENTS, &namespace_of(tale), &document(tale, (&name, &message, 1), now))
                    .map(drop)
            }
            Telling::Again { moment, count, message } => {
                self.tell_again(teller, tale, (&name_of(tale, moment), &message, count), now)
            }
        };
        if let Err(refusal) = written {
            log::debug!("event {} about {}: {}", tale.reason, tale.about.name, refusal.why);
        }
    }

    /// The event may have gone meanwhile: then it is made anew, and counts on.
    fn tell_again(
        &self,
        teller: &Identity,
        tale: &EventDraft,
        (name, message, count): (&str, &str, u32),
        now: Now,
    ) -> Result<(), Refusal> {
        let key = Key { resource: EVENTS, namespace: namespace_of(tale), name: name.to_owned() };
        let Ok(Some(stored)) = self.registry.store.get(&key) else {
            let event = document(tale, (name, message, count), now);
            return self.hand(teller).create(&EVENTS, &key.namespace, &event).map(drop);
        };
        let again = |_: &Kind, old: Standing<'_>| {
            let mut object = old.object.clone();
            object["count"] = count.into();
            object["lastTimestamp"] = now.wall.to_string().into();
            object["message"] = cut_message(message).into();
            Ok(whole(Part::Main, object))
        };
        self.hand(teller).change(&key, stored.revision, again).map(drop).map_err(Refusal::from)
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
            self.say(&MASTER, &tale, None, now);
        }
    }
}
