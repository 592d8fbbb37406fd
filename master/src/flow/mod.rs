//! Fair shares: how many requests of a priority level may be in progress.
//!
//!     schema      which FlowSchema a request matches, and so which level it belongs to
//!     table       the schemas and levels of a cluster: those that are stored, and those of every cluster
//!     seats       the places of the levels: each has its share, and lends of what it does not use
//!
//! There are no queues: a request that finds its level full is refused, and its client asks again. Places for handlers
//! are shared by user and by address beside this, in `coracle_http`.

mod schema;
mod seats;
mod table;

use crate::authorize::{Attributes, MASTERS};
use crate::store::{Derived, Store};
use coracle_api::meta::Resource;
use coracle_http::budget::Party;
use coracle_http::network::RationedPlace;
use coracle_http::{HeaderName, HeaderValue, Identity};
use seats::Seats;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::FlowTable;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

pub struct Flows {
    store: Arc<dyn Store>,
    table: Derived<FlowTable>,
    seats: Mutex<Seats>,
}

impl Flows {
    pub fn new(store: Arc<dyn Store>) -> Flows {
        let resource = |plural: &'static str| Resource { group: GROUP.into(), plural: plural.into() };
        let resources = [resource("flowschemas"), resource("prioritylevelconfigurations")];
        let table = Derived::new(resources, |pages| FlowTable::of(&pages[0], &pages[1])).keeping(usize::MAX);
        Flows { store, table, seats: Mutex::default() }
    }

    /// A place for a request. `Err`: the words of a refusal.
    pub fn enter(
        self: &Arc<Flows>,
        attributes: &Attributes,
        identity: &Identity,
        party: Party,
    ) -> Result<RationedPlace, String> {
        let table = self.table.get(&*self.store, None);
        let (schema, level) = table.of_request(attributes, identity);
        let headers = headers(&schema.uid, &level.uid);
        if level.is_exempt {
            return Ok(RationedPlace { headers, held: Box::new(()) });
        }
        self.seats().take(&table.levels, &level.name, party)?;
        let held = Box::new(Seat { flows: self.clone(), level: level.name.clone(), party });
        Ok(RationedPlace { headers, held })
    }

    /// A place for whoever needs none, whatever is asked for. None: the places of the level count.
    pub fn exempt(&self, identity: &Identity) -> Option<RationedPlace> {
        if !identity.groups.iter().any(|group| group == MASTERS) {
            return None;
        }
        let (schema, level) = self.table.get(&*self.store, None).exempt();
        Some(RationedPlace { headers: headers(&schema, &level), held: Box::new(()) })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn headers(schema: &str, level: &str) -> Vec<(HeaderName, HeaderValue)> {
    let named = [(SCHEMA_UID, schema), (LEVEL_UID, level)].into_iter().filter(|(_, uid)| !uid.is_empty());
    named.filter_map(|(name, uid)| Some((name, HeaderValue::from_str(uid).ok()?))).collect()
}

/// A place that is taken; given back when dropped.
struct Seat {
    flows: Arc<Flows>,
    level: Arc<str>,
    party: Party,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flows.seats().give_back(&self.level, self.party);
    }
}
