//! Carries out what is decided about certificates: an approval, a signature, the end of a node's certificates.

use super::hand::{Hand, whole};
use super::signing::{add_condition, failed};
use super::since::Now;
use super::view::node_key;
use crate::cluster_keys::tokens::TokenList;
use crate::cluster_keys::{ClusterKeys, NodeState, Requested, TOKENS, request};
use crate::prepare::Part;
use crate::store::{Store, Stored};
use coracle_api::meta::{Key, Revision};
use coracle_api::strategy::APPROVAL;
use coracle_api::strategy::doc::text;
use coracle_schema::base64;
use serde_json::Value;
use std::time::Duration;

impl Hand<'_> {
    /// Approves a signing request, as its subresource does.
    pub(super) fn approve(&self, key: &Key, seen: Revision, condition: &Value) -> Result<Option<Key>, String> {
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            add_condition(&mut object["status"], condition.clone());
            Ok(whole(Part::Share(&APPROVAL), object))
        })
    }

    /// Signs an approved request. Nothing is signed for a request that has changed or gone since. A request by a join
    /// token is a use of the token, and fails where no use is left.
    pub(super) fn sign(
        &self,
        key: &Key,
        seen: Revision,
        (request, usages, life): (&str, &[String], Option<Duration>),
        now: Now,
    ) -> Result<Option<Key>, String> {
        let stored = self.gate.registry.store.get(key).ok().flatten();
        let Some(stored) = stored.filter(|stored| stored.revision == seen) else { return Ok(None) };
        let object: Value =
            serde_json::from_slice(&stored.json).map_err(|error| format!("{key} cannot be read: {error}"))?;
        let (user, uid) = (text(&object["spec"], "username"), text(&object["metadata"], "uid"));
        let keys = self.keys()?;
        if !count_use(keys, user, uid)? {
            let why = format!(
                "no use is left of the join token of {user}: make another with `coracle-master token create --join`, \
                 or one for more hosts with `--uses N`"
            );
            let condition = failed(&why, now.wall);
            return self.change(key, seen, |_, old| {
                let mut object = old.object.clone();
                add_condition(&mut object["status"], condition.clone());
                Ok(whole(Part::Status, object))
            });
        }
        let node = request::parse(request)?.common_name().strip_prefix("system:node:").map(str::to_owned);
        let node = match node.map(|name| node_state(&*self.gate.registry.store, &name)) {
            Some(NodeState::There(uid)) => uid,
            _ => String::new(),
        };
        let certificate = keys.sign_request(request, &Requested { usages, life, by: user, node: &node });
        let certificate = certificate.map_err(|why| format!("error auto signing csr: {why}"))?;
        let certificate = base64::encode(certificate.as_bytes());
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            object["status"]["certificate"] = certificate.as_str().into();
            Ok(whole(Part::Status, object))
        })
    }

    /// Ends the certificates of a node that was deleted.
    pub(super) fn revoke(&self, node: &str) -> Result<Option<Key>, String> {
        // A master without keys has signed nothing.
        let Ok(keys) = self.keys() else { return Ok(None) };
        let count = keys.revoke_node(node, &node_state(&*self.gate.registry.store, node))?;
        if count > 0 {
            log::info!("node {node} is gone: {count} certificates count no more");
        }
        Ok(None)
    }

    /// The certificates of a node's name belong to the Node from now on.
    pub(super) fn settle(&self, node: &str, uid: &str) -> Result<Option<Key>, String> {
        let Ok(keys) = self.keys() else { return Ok(None) };
        let count = keys.settle_node(node, uid)?;
        if count > 0 {
            log::info!("node {node} has joined again: {count} certificates of before count no more");
        }
        Ok(None)
    }

    fn keys(&self) -> Result<&ClusterKeys, String> {
        self.gate
            .keys
            .as_deref()
            .ok_or_else(|| "the keys of this cluster cannot be used, see the master's log".to_owned())
    }
}

/// What the store knows of a Node.
pub fn node_state(store: &dyn Store, name: &str) -> NodeState {
    let read = |stored: &Stored| serde_json::from_slice::<Value>(&stored.json).ok();
    match store.get(&node_key(name)) {
        Ok(None) => NodeState::Gone,
        Ok(Some(stored)) => match read(&stored) {
            Some(object) => NodeState::There(text(&object["metadata"], "uid").to_owned()),
            None => NodeState::Unknown,
        },
        Err(_) => NodeState::Unknown,
    }
}

/// Counts the use of a join token by the request with this uid that the token's user has made. `false`: no use is left.
fn count_use(keys: &ClusterKeys, user: &str, uid: &str) -> Result<bool, String> {
    if TokenList::bootstrap_id(user).is_none() {
        return Ok(true);
    }
    keys.folder().update(TOKENS, |text| {
        let before = TokenList::parse(text)?;
        let mut list = before.clone();
        let may_join = list.joined(user, uid);
        Ok(((list != before).then(|| list.text()), may_join))
    })
}

#[cfg(test)]
mod tests {
    use super::super::act::Gate;
    use super::super::intent::Intent;
    use super::super::names::Actor;
    use super::super::signing::REQUESTS;
    use super::*;
    use crate::cluster_keys::KeyOptions;
    use crate::cluster_keys::tokens::TokenWish;
    use crate::commit::{Change, Made, Registry, Terms, Writer};
    use crate::making::Maker;
    use crate::prepare::{Ownership, Standing};
    use crate::store::{FlatStore, SealKeys};
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::Time;
    use coracle_api::strategy::{Cidr, NodePorts};
    use coracle_http::Identity;
    use serde_json::json;
    use std::fs;
    use std::sync::Arc;

    /// Of a store in memory, with uids that differ.
    fn registry() -> Arc<Registry> {
        let kinds = Arc::new(Kinds::builtin());
        let store: Arc<dyn Store> =
            Arc::new(crate::store_rules::with_rules(&kinds, SealKeys::Off, FlatStore::in_memory));
        let cidr = Cidr::parse("10.0.0.0/8").expect("a network");
        let maker = Maker::new(store.clone(), cidr, NodePorts::default()).expect("a random device");
        Arc::new(Registry::new(kinds, store, Arc::new(maker)))
    }

    #[test]
    fn a_join_token_signs_as_often_as_it_says() {
        let data_dir = std::env::temp_dir().join(format!("coracle-certify-{}", std::process::id()));
        fs::remove_dir_all(&data_dir).ok();
        fs::create_dir_all(&data_dir).expect("ours");
        let registry = registry();
        let options = KeyOptions { data_dir: data_dir.clone(), ..KeyOptions::default() };
        let keys = Arc::new(ClusterKeys::open(&registry, options).expect("made"));
        let gate = Gate::new(registry.clone()).signing(Some(keys.clone()), None);
        let token = keys.folder().update(TOKENS, |_| {
            let mut list = TokenList::default();
            let wish = TokenWish { join: true, uses: 1, ..TokenWish::default() };
            let token = list.make(wish, 0, keys.random())?;
            Ok((Some(list.text()), token))
        });
        let token = token.expect("a token");
        let counted = format!("system:bootstrap:{}", token.split('.').next().unwrap_or_default());
        let status = |name: &str, user: &str| {
            let kind = registry.kind(&REQUESTS).expect("a row");
            let pem = request::tests::OF_A_NODE;
            let usages = ["digital signature", "client auth"];
            let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": {"name": name}, "spec": {"request": base64::encode(pem.as_bytes()), "usages": usages,
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet"}});
            let identity = Identity { user: user.to_owned(), ..Identity::none() };
            let terms = Terms { identity: &identity, ..Terms::of(Writer::Client) };
            let make = |_: Option<Standing<'_>>| Ok(Made::document(Part::Main, object.clone(), Ownership::Untold));
            let made = registry.commit::<String>(&Change::create(&kind, "", &make), &terms);
            let stored = made.map_err(|why| why.to_string()).expect("it is new").stored;
            let key = Key { resource: REQUESTS, namespace: String::new(), name: name.to_owned() };
            let (request, usages) = (pem.to_owned(), usages.map(str::to_owned).to_vec());
            let intent = Intent::Sign { key: key.clone(), seen: stored.revision, request, usages, life: None };
            let now = Now { wall: Time::from_seconds(0).expect("a time"), uptime: Duration::ZERO };
            assert_eq!(
                gate.pass(Actor { controller: "signing requests", of: &REQUESTS }, intent, now),
                Ok(Some(key.clone())),
                "{name}"
            );
            let stored = registry.store.get(&key).expect("whole").expect("it is there");
            serde_json::from_slice::<Value>(&stored.json).expect("JSON")["status"].take()
        };
        assert!(!text(&status("first", &counted), "certificate").is_empty());
        let second = status("second", &counted);
        assert_eq!((text(&second, "certificate"), text(&second["conditions"][0], "type")), ("", "Failed"));
        assert!(text(&second["conditions"][0], "message").starts_with("no use is left"), "{second}");
        // A Secret's token, and a user without a token.
        for user in ["system:bootstrap:secret", "ann"] {
            assert!(!text(&status(user.rsplit(':').next().unwrap_or_default(), user), "certificate").is_empty());
        }
        fs::remove_dir_all(&data_dir).expect("ours");
    }
}
