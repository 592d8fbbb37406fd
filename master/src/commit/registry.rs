//! The registry itself: the kinds that are served, the store, and the locks that writes take.

use super::change::unadmitted;
use super::consult::{Adviser, advisers};
use super::event_rate::event_rate;
use super::growth::Growth;
use super::view::{KeptLists, StoreView};
use crate::admit::{self, AdmissionOperation, AdmissionOptions, AdmissionRequest, EventCount, Remarks};
use crate::authorize::{AllowAll, Authorizer};
use crate::making::Maker;
use crate::prepare::InvalidDocument;
use crate::store::{Store, locked};
use coracle_api::kinds::{Kind, KindConflict, Kinds};
use coracle_api::meta::Resource;
use coracle_api::strategy::furniture::Trust;
use coracle_http::Identity;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Told of the table that is served from now on.
pub type KindsFollower = Box<dyn Fn(&Kinds) + Send + Sync>;

/// The kinds, the store, and all that a write needs.
pub struct Registry {
    /// Replaced as a whole where a kind is defined or taken away at run time.
    kinds: RwLock<Arc<Kinds>>,
    /// Told of every other table, in order.
    kinds_followers: Mutex<Vec<KindsFollower>>,
    pub store: Arc<dyn Store>,
    pub maker: Arc<Maker>,
    trust: RwLock<Option<Arc<Trust>>>,
    pub(super) authorizer: Arc<dyn Authorizer>,
    lists: KeptLists,
    pub(super) options: AdmissionOptions,
    pub(super) event_rate: Box<EventCount>,
    pub(super) growth: Growth,
    pub(super) advisers: Vec<Adviser>,
    /// Held from the counting of quotas until what was counted for is written. Only namespaces with quotas know it.
    pub(super) counting: Mutex<()>,
    /// Shared by creates from the last look at their namespace until they are stored; alone for the deletion of a
    /// namespace.
    pub(super) homes: RwLock<()>,
}

impl Registry {
    pub fn new(kinds: Arc<Kinds>, store: Arc<dyn Store>, maker: Arc<Maker>) -> Registry {
        Registry {
            kinds: RwLock::new(kinds),
            kinds_followers: Mutex::default(),
            store,
            maker,
            trust: RwLock::default(),
            authorizer: Arc::new(AllowAll),
            lists: KeptLists::new(),
            options: AdmissionOptions::default(),
            event_rate: event_rate(),
            growth: Growth::default(),
            advisers: advisers(),
            counting: Mutex::default(),
            homes: RwLock::default(),
        }
    }

    /// The kinds that are served now. A request keeps the table that it began with.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The row of a resource.
    pub fn kind(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).row(resource)
    }

    /// Serves one more kind, from the next request on, with the objects of it that the store has.
    pub fn define(&self, kind: Kind) -> Result<(), KindConflict> {
        self.change_kinds(|kinds| kinds.with(kind))
    }

    /// Serves the kinds of a resource no more. Their objects stay in the store. `false`: no such kind is served.
    pub fn withdraw(&self, resource: &Resource) -> bool {
        self.change_kinds(|kinds| kinds.without(resource).ok_or(())).is_ok()
    }

    /// Calls `follower` after each change of the table, before the change returns to its caller.
    pub fn follow_kinds(&self, follower: KindsFollower) {
        locked(&self.kinds_followers).push(follower);
    }

    fn change_kinds<E>(&self, change: impl FnOnce(&Kinds) -> Result<Kinds, E>) -> Result<(), E> {
        // Held until all are told: nobody is told of the table before last.
        let followers = locked(&self.kinds_followers);
        let changed = Arc::new(change(&self.kinds())?);
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = changed.clone();
        followers.iter().for_each(|follower| follower(&changed));
        Ok(())
    }

    /// The stored objects, as admission and quotas look at them.
    pub(super) fn view(&self) -> StoreView<'_> {
        StoreView { store: &*self.store, lists: &self.lists }
    }

    /// The authorities of the cluster, from now on.
    pub fn trust(&self, trust: Trust) {
        *self.trust.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(trust));
    }

    /// The authorizer of requests, whom admission asks too. Without it everything is allowed.
    pub fn authorized_by(self, authorizer: Arc<dyn Authorizer>) -> Registry {
        Registry { authorizer, ..self }
    }

    /// With the plugins of admission that somebody asks for.
    pub fn admitting(self, options: AdmissionOptions) -> Registry {
        Registry { options, ..self }
    }

    /// Asks admission about the create of a subresource that is not stored: an eviction, a token.
    pub fn admits(
        &self,
        kind: &Kind,
        (subresource, namespace, name): (&'static str, &str, &str),
        object: &mut Value,
        identity: &Identity,
    ) -> Result<(), InvalidDocument> {
        let (view, remarks) = (self.view(), Remarks::default());
        let request = AdmissionRequest {
            view: &view,
            authorizer: &*self.authorizer,
            kind,
            subresource,
            operation: AdmissionOperation::Create,
            namespace,
            name,
            old: None,
            identity,
            suffix: None,
            events: None,
            options: self.options,
            remarks: &remarks,
        };
        let admitted = admit::mutate(&request, object).and_then(|()| admit::judge(&request, object));
        admitted.map_err(|refusal| unadmitted(name.to_owned(), refusal))
    }

    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        self.authorizer.clone()
    }

    /// None: this master has no keys.
    pub fn trusted(&self) -> Option<Arc<Trust>> {
        self.trust.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
