//! What the ports ask about requests beside their answers: a place for a request, and whether a request in progress
//! would still be allowed.

use super::{Serve, impersonate};
use crate::authorize::Attributes;
use crate::call::{self, Route};
use bytes::Bytes;
use coracle_api::meta::Revision;
use coracle_http::network::{Ration, RationedRequest};
use coracle_http::{Caller, InProgress, Request};
use std::sync::Arc;

impl Serve {
    /// Shares places among the requests of a port, by flow schemas and priority levels. A client that acts as another
    /// user has the places of its own user.
    pub fn ration(self: &Arc<Serve>) -> Ration {
        let serve = self.clone();
        Arc::new(move |asked: &RationedRequest<'_>| {
            let RationedRequest { party, identity, method, target } = *asked;
            let kinds = serve.registry.kinds();
            let (path, query) = (target.path(), target.query().unwrap_or_default());
            let route = call::parse(&kinds, method.as_str(), path, query);
            let attributes = Attributes::of(&route, method.as_str(), path);
            serve.flows.enter(&attributes, identity, party)
        })
    }

    /// When what decides about requests has changed last.
    pub fn rights_changed(&self) -> Revision {
        self.authorizer.changed()
    }

    /// Whether a request in progress would still be allowed, if it were sent now. What the port or the path would say
    /// counts for allowed: only its user's rights are asked for.
    pub fn still_allows(&self, asked: &InProgress) -> bool {
        let InProgress { identity, caller, method, target, impersonation, .. } = asked;
        if *caller == Caller::Local {
            return true;
        }
        let request = Request {
            method: method.clone(),
            target: target.clone(),
            headers: impersonation.clone(),
            body: Bytes::new(),
            caller: caller.clone(),
            identity: identity.clone(),
        };
        let kinds = self.registry.kinds();
        let (path, query) = (target.path(), target.query().unwrap_or_default());
        let route = call::parse(&kinds, method.as_str(), path, query);
        let attributes = Attributes::of(&route, method.as_str(), path);
        if matches!(route, Ok(Route::Page(_)) | Err(_)) {
            return true;
        }
        let Ok(acting) = impersonate::acting(self, &attributes, &request) else { return false };
        let identity = &acting.as_ref().unwrap_or(&request).identity;
        let entry = match &route {
            Ok(Route::Object(call)) if call.enters() => Some(Attributes::of_entry(call)),
            _ => None,
        };
        [Some(attributes), entry]
            .into_iter()
            .flatten()
            .all(|attributes| self.authorizer.authorize(&attributes, identity).allows())
    }
}
