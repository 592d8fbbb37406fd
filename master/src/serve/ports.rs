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
            if let Some(place) = serve.flows.exempt(identity) {
                return Ok(place);
            }
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

#[cfg(test)]
mod tests {
    use super::super::access_tests::{bind, governed, identity};
    use super::*;
    use coracle_http::budget::Party;
    use coracle_http::{HeaderMap, Method};
    use serde_json::json;

    fn asked(user: &str, target: &str, impersonated: Option<&'static str>) -> InProgress {
        let mut impersonation = HeaderMap::new();
        impersonated.map(|user| impersonation.insert("impersonate-user", coracle_http::HeaderValue::from_static(user)));
        let groups = if user == "root" { "system:masters" } else { "system:authenticated" };
        InProgress {
            identity: identity(user, &[groups]),
            certificate: None,
            caller: Caller::Network { address: ([10, 0, 0, 9], 1).into() },
            method: Method::GET,
            target: target.parse().expect("a path"),
            impersonation,
        }
    }

    #[test]
    fn a_request_in_progress_is_asked_about_again() {
        let (registry, _) = governed();
        let serve = Serve::new(registry.clone(), None);
        let before = serve.rights_changed();
        bind(&registry, ("a", "ann"), "edit");
        let changed = serve.rights_changed();
        assert!(changed > before);
        let (watch, exec) = ("/api/v1/namespaces/a/pods?watch=1", "/api/v1/namespaces/a/pods/p/exec?command=sh");
        let log = "/api/v1/namespaces/a/pods/p/log?follow=1";
        let check = |user: &str, target: &str, acting: Option<&'static str>, expected: bool| {
            assert_eq!(serve.still_allows(&asked(user, target, acting)), expected, "{user} {target} {acting:?}");
        };
        for target in [watch, exec, log] {
            check("ann", target, None, true);
            check("root", target, None, true);
            check("root", target, Some("ann"), true);
            check("bob", target, None, false);
        }
        check("ann", "/version", None, true);
        check("ann", "/nowhere/at/all", None, true);
        let kind = registry
            .kind(&coracle_api::meta::Resource {
                group: "rbac.authorization.k8s.io".into(),
                plural: "rolebindings".into(),
            })
            .expect("a row");
        let key = super::super::server::key_of(&kind, "a", "ann");
        let stored = registry.store.get(&key).expect("readable").expect("there");
        let gone = crate::store::Write::Delete { key, seen: stored.revision };
        registry.store.write(gone).expect("it goes");
        assert!(serve.rights_changed() > changed);
        for target in [watch, exec, log] {
            check("ann", target, None, false);
            check("root", target, Some("ann"), false);
            check("root", target, None, true);
        }
        let local = InProgress { caller: Caller::Local, ..asked("ann", watch, None) };
        assert!(serve.still_allows(&local));
    }

    #[test]
    fn a_storm_of_one_user_leaves_places_to_others() {
        let (registry, _) = governed();
        let serve = Arc::new(Serve::new(registry, None));
        let ration = serve.ration();
        let target = "/api/v1/pods".parse().expect("a path");
        let enter = |user: &str, groups: &[&str]| {
            let identity = identity(user, &[groups, &["system:authenticated"]].concat());
            let party = Party::named(user);
            ration(&RationedRequest { party, identity: &identity, method: &Method::GET, target: &target })
        };
        let storm: Vec<_> = std::iter::from_fn(|| enter("ann", &[]).ok()).collect();
        assert!(storm.len() < 192 && storm.iter().all(|place| place.headers.is_empty()), "{}", storm.len());
        let why = enter("ann", &[]).err().expect("too many");
        assert!(why.contains("Priority level global-default"), "{why}");
        enter("bob", &[]).map(drop).expect("another user of the same level");
        enter("system:serviceaccount:kube-system:x", &["system:serviceaccounts:kube-system"])
            .map(drop)
            .expect("a controller");
        enter("root", &["system:masters"]).map(drop).expect("an administrator");
        drop(storm);
        enter("ann", &[]).map(drop).expect("again");
        let (api, group) = ("flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io");
        let schema = json!({
            "apiVersion": api, "kind": "FlowSchema", "metadata": {"name": "mine"},
            "spec": {
                "matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "workload-low"},
                "rules": [{
                    "subjects": [{"kind": "User", "user": {"name": "ann"}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true}],
                }],
            },
        });
        let plural = coracle_api::meta::Resource { group: group.into(), plural: "flowschemas".into() };
        let kind = serve.registry.kind(&plural).expect("a row");
        serve.registry.make_own(&kind, "", &schema).expect("a schema");
        let place = enter("ann", &[]).unwrap_or_else(|why| panic!("{why}"));
        let named: Vec<&str> = place.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(named, ["x-kubernetes-pf-flowschema-uid"]);
    }
}
