//! Carries out what is decided about certificates: an approval, a signature, the end of a node's certificates.

use super::act::{Gate, whole};
use crate::cluster_keys::ClusterKeys;
use crate::prepare::Part;
use coracle_api::meta::{Key, Revision};
use coracle_api::strategy::APPROVAL;
use coracle_schema::base64;
use serde_json::{Value, json};
use std::time::Duration;

impl Gate {
    /// Approves a signing request, as its subresource does.
    pub(super) fn approve(&self, key: &Key, seen: Revision, condition: &Value) -> Result<Option<Key>, String> {
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            match object["status"]["conditions"].as_array_mut() {
                Some(conditions) => conditions.push(condition.clone()),
                None => object["status"]["conditions"] = json!([condition]),
            }
            Ok(whole(Part::Share(&APPROVAL), object))
        })
    }

    /// Signs an approved request. Nothing is signed for a request that has changed or gone since.
    pub(super) fn sign(
        &self,
        key: &Key,
        seen: Revision,
        (request, usages, life): (&str, &[String], Option<Duration>),
    ) -> Result<Option<Key>, String> {
        let stored = self.registry.store.get(key).ok().flatten();
        if stored.is_none_or(|stored| stored.revision != seen) {
            return Ok(None);
        }
        let certificate = self.keys()?.sign_request(request, usages, life);
        let certificate = certificate.map_err(|why| format!("error auto signing csr: {why}"))?;
        let certificate = base64::encode(certificate.as_bytes());
        self.change(key, seen, |_, old| {
            let mut object = old.object.clone();
            object["status"]["certificate"] = certificate.as_str().into();
            Ok(whole(Part::Status, object))
        })
    }

    /// Ends every certificate of a user.
    pub(super) fn revoke(&self, user: &str) -> Result<Option<Key>, String> {
        // A master without keys has signed nothing.
        let Ok(keys) = self.keys() else { return Ok(None) };
        let count = keys.revoke_user(user)?;
        if count > 0 {
            log::info!("{user:?} is gone: {count} certificates count no more");
        }
        Ok(None)
    }

    fn keys(&self) -> Result<&ClusterKeys, String> {
        self.keys.as_deref().ok_or_else(|| "the keys of this cluster cannot be used, see the master's log".to_owned())
    }
}
