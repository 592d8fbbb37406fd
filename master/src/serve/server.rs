//! What answers requests: the registry, and what is kept from one request to the next.

use super::described::Described;
use super::ends;
use super::giving::Giving;
use super::impersonate::Impersonations;
use super::lists::Lists;
use super::metrics::Metrics;
use super::places::Places;
use super::turns::Turns;
use super::watches::Watches;
use crate::agents::Agents;
use crate::audit::Audit;
use crate::authenticate::Authenticator;
use crate::authorize::Authorizer;
use crate::call::{Call, Verb, Version};
use crate::cluster_keys::ClusterKeys;
use crate::commit::{Registry, Terms, Writer};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::flow::Flows;
use crate::prepare::Part;
use crate::secure_port::SecureState;
use crate::store::Stored;
use crate::upkeep::Upkeep;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::status::Status;
use coracle_api::strategy::{Rules, ZoneFault};
use coracle_program::lull::WORTH_BYTES;
use coracle_program::zones;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Told of every sign of life of an object whose kind has heartbeats.
pub type Heard = Box<dyn Fn(&Key) + Send + Sync>;

pub struct Serve {
    pub(super) registry: Arc<Registry>,
    pub(super) heard: Heard,
    /// None: the cluster's own Secrets cannot be used.
    pub(super) keys: Option<Arc<ClusterKeys>>,
    /// Asked by reviews; the ports ask it themselves.
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) impersonations: Impersonations,
    /// Asked before anything is answered.
    pub(super) authorizer: Arc<dyn Authorizer>,
    /// None: the command line is answered nothing.
    pub(super) upkeep: Option<Upkeep>,
    /// None: nobody is told what is wrong.
    pub(super) desk: Option<Arc<Desk>>,
    pub(super) watches: Watches,
    pub(super) giving: Arc<Giving>,
    pub(super) lists: Lists,
    pub(super) turns: Arc<Turns>,
    pub(super) metrics: Metrics,
    pub(super) described: Described,
    /// Ended pods whose nodes reported a different phase.
    pub(super) ends: ends::Told,
    /// The turn among the endpoints of a service, for `proxy`.
    pub(super) turn: AtomicUsize,
    pub(super) agents: Agents,
    /// Where the pods of nodes are.
    pub(super) places: Places,
    pub(super) secure: Arc<SecureState>,
    pub(super) audit: Arc<Audit>,
    pub(super) flows: Arc<Flows>,
}

impl Serve {
    pub fn new(registry: Arc<Registry>, keys: Option<Arc<ClusterKeys>>) -> Serve {
        let watches = Watches::default();
        let views = watches.views.clone();
        registry.follow_kinds(Box::new(move |kinds| views.end_without(kinds)));
        let authenticator = Arc::new(Authenticator::new(registry.store.clone(), keys.clone()));
        let authorizer = registry.authorizer();
        let flows = Arc::new(Flows::new(registry.store.clone()));
        Serve {
            registry,
            authenticator,
            impersonations: Impersonations::default(),
            heard: Box::new(|_| {}),
            keys,
            authorizer,
            upkeep: None,
            desk: None,
            watches,
            giving: Arc::default(),
            lists: Lists::default(),
            turns: Arc::default(),
            metrics: Metrics::default(),
            described: Described::default(),
            ends: ends::Told::default(),
            turn: AtomicUsize::new(0),
            agents: Agents::of_this_host(PathBuf::new()),
            places: Places::default(),
            secure: Arc::default(),
            audit: Arc::default(),
            flows,
        }
    }

    /// The agents of the nodes; without them no agent can be asked.
    pub fn asking(self, agents: Agents) -> Serve {
        Serve { agents, ..self }
    }

    /// The state of the secure port, for the metrics.
    pub fn secured_by(self, secure: Arc<SecureState>) -> Serve {
        Serve { secure, ..self }
    }

    /// Requests are recorded in this audit log.
    pub fn recorded_by(self, audit: Arc<Audit>) -> Serve {
        Serve { audit, ..self }
    }

    /// The authenticator of the ports.
    pub fn asked_by(self, authenticator: Arc<Authenticator>) -> Serve {
        Serve { authenticator, ..self }
    }

    /// The requests of the command line.
    pub fn kept_by(self, upkeep: Upkeep) -> Serve {
        Serve { upkeep: Some(upkeep), ..self }
    }

    /// Where the problems of this cluster come together.
    pub fn telling(self, desk: Arc<Desk>) -> Serve {
        Serve { desk: Some(desk), ..self }
    }

    /// Another authorizer than the registry's.
    #[cfg(test)]
    pub(super) fn authorized_by(self, authorizer: impl Authorizer + 'static) -> Serve {
        Serve { authorizer: Arc::new(authorizer), ..self }
    }

    /// Sets the receiver of heartbeats.
    pub fn heard_by(self, heard: Heard) -> Serve {
        Serve { heard, ..self }
    }

    /// A start is a burst of work: once it is over, its memory goes back to the host.
    pub fn giving_back_what_a_start_took(self) -> Serve {
        self.giving.worked(&self.watches.timer, &self.registry.store, WORTH_BYTES);
        self
    }

    /// What a look at everything took goes back to the host once it is over.
    pub fn worked(&self, bytes: u64) {
        self.giving.worked(&self.watches.timer, &self.registry.store, bytes);
    }

    /// Reports a heartbeat: a written status.
    pub(super) fn hear(&self, call: &Call, part: Part, stored: &Stored, rehearsal: bool) {
        if call.kind.heartbeats && part == Part::Status && !rehearsal {
            (self.heard)(&stored.key);
        }
    }

    /// The object that a call names, as it stands.
    pub(super) fn standing(&self, call: &Call) -> Result<Stored, Fault> {
        self.named(call, &call.name)
    }

    /// The object of this name where the call is.
    pub(super) fn named(&self, call: &Call, name: &str) -> Result<Stored, Fault> {
        let key = key_of(call.kind, &call.namespace, name);
        match self.registry.store.get(&key) {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => Err(Status::not_found(&call.shown.resource, name).into()),
            Err(damaged) => Err(Fault::damaged(&key, &damaged.why)),
        }
    }

    /// How a client's change is written. The audit log hears whether it is rehearsed.
    pub(super) fn terms<'c>(&self, call: &'c Call, rehearsal: bool) -> Terms<'c> {
        let mut told = call.told.borrow_mut();
        (told.rehearses, told.writes) = (told.rehearses || rehearsal, told.writes || !rehearsal);
        let writer = if call.version.is_flat() { Writer::ClientOf2014 } else { Writer::Client };
        Terms {
            writer,
            identity: &call.identity,
            shown: Some(&call.shown.resource),
            rules: self.rules(call),
            rehearsal,
            advised: call.version == Version::V1,
        }
    }

    pub(super) fn rules(&self, call: &Call) -> Rules {
        let other_form = call.shown.alias.is_some();
        let patched = call.version == Version::V1 && call.verb == Verb::Patch;
        let (old_names, old_labels) = (call.version.is_flat(), call.version != Version::V1);
        let maker = &self.registry.maker;
        let service_cidr = (call.kind.resource == Resource::core("services")).then(|| maker.service_ranges());
        Rules {
            old_names,
            old_labels,
            service_cidr,
            node_ports: maker.node_ports(),
            patched,
            other_form,
            zone_fault: ZoneFault(zones::fault),
            ..Rules::default()
        }
    }
}

/// The key of the object that a call names.
pub fn key(call: &Call) -> Key {
    key_of(call.kind, &call.namespace, &call.name)
}

pub fn key_of(kind: &Kind, namespace: &str, name: &str) -> Key {
    Key { resource: kind.resource.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
}
