//! RBAC of the store's objects: what is compiled from them is never older than an answered write.

use super::rbac::{self, Grants};
use super::{Attributes, Authorizer, Decision, RuleList};
use crate::store::{Derived, Page, Store, Stored, locked};
use coracle_api::meta::Revision;
use coracle_http::Identity;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Roles and bindings, and the authorizer that they make.
pub struct Rbac {
    store: Arc<dyn Store>,
    grants: Derived<Grants>,
    /// The ids of bindings that do not count.
    passed: Mutex<Arc<HashSet<String>>>,
}

impl Rbac {
    pub fn new(store: Arc<dyn Store>) -> Rbac {
        // There is one value, and no request is answered without it.
        let grants = Derived::new(rbac::resources(), compile).keeping(usize::MAX);
        Rbac { store, grants, passed: Mutex::default() }
    }

    /// Bindings that do not count from now on; all others do.
    pub fn pass_over(&self, ids: HashSet<String>) {
        *locked(&self.passed) = Arc::new(ids);
    }

    fn passed(&self) -> Arc<HashSet<String>> {
        locked(&self.passed).clone()
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision {
        self.grants.get(&*self.store, None).decide(attributes, identity, &self.passed())
    }

    fn changed(&self) -> Revision {
        rbac::resources().into_iter().map(|resource| self.store.changed(&resource)).max().unwrap_or_default()
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> RuleList {
        self.grants.get(&*self.store, None).rules(identity, namespace, &self.passed())
    }
}

fn compile(pages: &[Page]) -> Grants {
    let mut grants = Grants::default();
    let parsed = |stored: &Stored| serde_json::from_slice::<Value>(&stored.json).ok();
    for (page, of_roles) in pages.iter().zip([true, true, false, false]) {
        for stored in &page.items {
            let (key, object) = (&stored.key, parsed(stored));
            match object {
                object if of_roles => grants.role(&key.namespace, &key.name, object.as_ref()),
                Some(binding) => grants.bind(&key.namespace, &key.name, &binding),
                None => {}
            }
        }
        if of_roles {
            page.damaged.iter().for_each(|key| grants.role(&key.namespace, &key.name, None));
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Registry;
    use crate::commit::tests::in_memory;
    use coracle_api::meta::Resource;
    use serde_json::json;

    const GROUP: &str = "rbac.authorization.k8s.io";

    fn make(registry: &Registry, plural: &'static str, object: &Value) {
        let kind = registry.kind(&Resource { group: GROUP.into(), plural: plural.into() }).expect("a row");
        registry.make_own(&kind, "a", object).unwrap_or_else(|why| panic!("{object}: {why}"));
    }

    #[test]
    fn a_decision_knows_of_every_answered_write() {
        let registry = in_memory();
        let rbac = Rbac::new(registry.store.clone());
        let pods = Attributes::resource("list", &Resource::core("pods"), "", ("a", ""));
        for n in 0..1000 {
            let (role, user) = (format!("role-{n}"), format!("user-{n}"));
            let rule = json!({"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]});
            let reference = json!({"apiGroup": GROUP, "kind": "Role", "name": role});
            let subject = json!({"apiGroup": GROUP, "kind": "User", "name": user});
            make(&registry, "roles", &json!({"metadata": {"name": role}, "rules": [rule]}));
            make(
                &registry,
                "rolebindings",
                &json!({"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}),
            );
            let asker = Identity { user, ..Identity::none() };
            if n % 100 == 0 {
                assert!(rbac.authorize(&pods, &asker).allows(), "{n}");
            }
        }
        let asker = Identity { user: "user-500".to_owned(), ..Identity::none() };
        assert!(rbac.authorize(&pods, &asker).allows());
        assert_eq!(rbac.rules(&asker, "a").rules.len(), 1);
    }
}
