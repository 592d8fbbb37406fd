//! The rights of the master's own parts: the controllers and the scheduler act under their names in Kubernetes, with
//! the rights that the roles of every cluster give these names. PURE.
//!
//! The roles are those that this program was built with, and no objects: nobody can stop a controller by a change of
//! its role, or give a controller more. A service account token of such a name has what the stored roles give it.

use super::rbac::Grants;
use super::{Attributes, Authorizer, Chain, Decision, Masters, RuleList, bootstrap};
use coracle_http::Identity;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Whatever is no identity of a part of the master has no rights here, but for the administrators.
pub static OWN_PARTS: LazyLock<Chain> = LazyLock::new(|| Chain(vec![Arc::new(Masters), Arc::new(OwnParts::new())]));

const SCHEDULER: &str = "kube-scheduler";
const MANAGER: &str = "kube-controller-manager";

struct OwnParts {
    grants: Grants,
    passed: HashSet<String>,
}

impl OwnParts {
    fn new() -> OwnParts {
        let mut grants = Grants::default();
        for one in bootstrap::objects() {
            match one.object["roleRef"] {
                Value::Null => grants.role(&one.namespace, &one.name, Some(&one.object)),
                _ => grants.bind(&one.namespace, &one.name, &one.object),
            }
        }
        OwnParts { grants, passed: HashSet::new() }
    }
}

impl Authorizer for OwnParts {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision {
        self.grants.decide(attributes, identity, &self.passed)
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> RuleList {
        self.grants.rules(identity, namespace, &self.passed)
    }
}

/// The identity of a part by its name in Kubernetes: a service account of kube-system, but for programs of their own.
pub fn identity_of(part: &str) -> Identity {
    let authenticated = Identity::AUTHENTICATED.to_owned();
    match part {
        SCHEDULER | MANAGER => {
            Identity { user: format!("system:{part}"), groups: vec![authenticated], ..Identity::none() }
        }
        account => {
            let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"].map(str::to_owned);
            let groups = groups.into_iter().chain([authenticated]).collect();
            Identity { user: format!("system:serviceaccount:kube-system:{account}"), groups, ..Identity::none() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    #[test]
    fn a_part_has_its_own_rights() {
        let may = |part: &str, verb: &str, plural: &'static str, subresource: &str| {
            let asked = Attributes::resource(verb, &Resource::core(plural), subresource, ("ns", "x"));
            OWN_PARTS.authorize(&asked, &identity_of(part)).allows()
        };
        assert!(may("replication-controller", "create", "pods", ""));
        assert!(!may("replication-controller", "create", "pods", "binding"));
        assert!(!may("replication-controller", "update", "secrets", ""));
        assert!(
            may("kube-scheduler", "create", "pods", "binding")
                && may("kube-scheduler", "update", "persistentvolumes", "")
        );
        assert!(!may("kube-scheduler", "create", "pods", ""));
        assert!(may("kube-controller-manager", "delete", "secrets", ""));
        assert!(!may("default", "get", "pods", "") && may("generic-garbage-collector", "delete", "secrets", ""));
        let masters = Identity::administrator();
        let asked = Attributes::resource("create", &Resource::core("pods"), "", ("ns", ""));
        assert!(OWN_PARTS.authorize(&asked, &masters).allows());
    }
}
