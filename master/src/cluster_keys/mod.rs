//! The identity of the cluster: the key that signs service account tokens, and the certificate authority.
//!
//!     first start: random numbers -> two Secrets in kube-system      later: two Secrets -> ClusterKeys
//!
//! They are objects like any other, so the journal, backups and copies of the data directory hold them. Nothing here is
//! logged but their names. A Secret that is deleted is made anew at the next start: what the old one signed is worth
//! nothing from then on.

mod der;
pub mod issuer;
pub mod token;

use crate::commit::Registry;
use crate::making::Maker;
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::namespace::CLUSTER;
use coracle_schema::base64;
use p256::SecretKey;
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

const SECRETS: Resource = Resource::core("secrets");
/// Holds `tls.crt` and `tls.key`, of type kubernetes.io/tls.
pub const AUTHORITY_SECRET: &str = "coracle-ca";
/// Holds `key.pem`, of type coracle.dev/signing-key.
pub const SIGNING_SECRET: &str = "coracle-service-account-key";
const AUTHORITY_NAME: &str = "coracle";
const DESCRIPTION: &str = "kubernetes.io/description";
/// Random numbers that are no key of the curve come up once in 2^32.
const DRAWS_MAX: usize = 4;

/// The identity of the cluster, read once at the start.
pub struct ClusterKeys {
    /// The authority's certificate, as PEM.
    authority: String,
    secret: SecretKey,
    /// Made of it for the first token: no start waits for the arithmetic.
    signing: OnceLock<Signing>,
}

struct Signing {
    key: SigningKey,
    /// Names the key in what it signs.
    id: String,
}

impl ClusterKeys {
    /// What the store holds, made if it holds none. `Err`: a Secret that is there and cannot be used, or that cannot be
    /// written.
    pub fn open(registry: &Registry) -> Result<ClusterKeys, String> {
        let authority = secret(registry, AUTHORITY_SECRET, |maker| {
            let key = draw(maker);
            let certificate = der::authority(AUTHORITY_NAME, &serial(maker), &public(&key), |bytes| sign(&key, bytes));
            let data = [("tls.crt", der::pem("CERTIFICATE", &certificate)), ("tls.key", written(&key))];
            document(
                AUTHORITY_SECRET,
                "kubernetes.io/tls",
                "The authority of this cluster: whoever reads it can be anybody in it.",
                &data,
            )
        })?;
        let authority = text(&authority, "tls.crt").filter(|pem| der::unpem("CERTIFICATE", pem).is_some());
        let authority = authority.ok_or_else(|| unusable(AUTHORITY_SECRET, "tls.crt is no certificate"))?;
        let signing = secret(registry, SIGNING_SECRET, |maker| {
            let words = "Signs the tokens of service accounts: whoever reads it can be any of them.";
            document(SIGNING_SECRET, "coracle.dev/signing-key", words, &[("key.pem", written(&draw(maker)))])
        })?;
        let key = text(&signing, "key.pem").and_then(|pem| der::secret(&der::unpem("PRIVATE KEY", &pem)?));
        let secret = key.and_then(|key| SecretKey::from_slice(&key).ok());
        let secret = secret.ok_or_else(|| unusable(SIGNING_SECRET, "key.pem is no P-256 key in PKCS #8"))?;
        Ok(ClusterKeys { authority, secret, signing: OnceLock::new() })
    }

    fn signing(&self) -> &Signing {
        self.signing.get_or_init(|| {
            let key = SigningKey::from(&self.secret);
            let id = url_safe(&Sha256::digest(der::public_key(&public(&key))));
            Signing { key, id }
        })
    }

    /// The public keys that verify tokens.
    pub fn verifying(&self) -> Vec<issuer::VerifyingCoordinates> {
        let (point, half) = (public(&self.signing().key), |bytes: &[u8]| bytes.try_into().expect("32 of 65 bytes"));
        vec![(self.signing().id.clone(), half(&point[1..33]), half(&point[33..]))]
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        sign(&self.signing().key, bytes)
    }

    fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else { return false };
        VerifyingKey::from(&self.signing().key).verify(bytes, &signature).is_ok()
    }
}

fn unusable(name: &str, why: &str) -> String {
    format!("secrets/{CLUSTER}/{name}: {why}; put it right, or delete it and start again for a new identity")
}

/// A Secret of the cluster's own, made unless it is there.
fn secret(registry: &Registry, name: &str, make: impl FnOnce(&Maker) -> Value) -> Result<Value, String> {
    let key = Key { resource: SECRETS, namespace: CLUSTER.to_owned(), name: name.to_owned() };
    let read =
        |stored: &Stored| serde_json::from_slice(&stored.json).map_err(|error| unusable(name, &error.to_string()));
    // The store's reason contains the remedy: if it is unknown whether the Secret exists, deletion is no remedy.
    if let Some(stored) = registry.store.get(&key).map_err(|damaged| format!("{key}: {}", damaged.why))? {
        return read(&stored);
    }
    let kind = registry.kind(&SECRETS).ok_or("no secrets are served")?;
    match registry.make_own(&kind, CLUSTER, &make(&registry.maker)) {
        Ok(stored) => {
            log::info!("{key} is made: this cluster has an identity of its own");
            read(&stored)
        }
        Err(barred) if barred.is_taken() => Err(format!("{key}: somebody else made it at this moment, start again")),
        Err(barred) => Err(format!("make {key}: {barred}")),
    }
}

fn document(name: &str, kind: &str, words: &str, texts: &[(&str, String)]) -> Value {
    let data: serde_json::Map<String, Value> =
        texts.iter().map(|(key, text)| ((*key).to_owned(), base64::encode(text.as_bytes()).into())).collect();
    json!({"metadata": {"name": name, "annotations": {DESCRIPTION: words}}, "type": kind, "data": data})
}

fn text(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(base64::decode(secret["data"][key].as_str()?).ok()?).ok()
}

fn draw(maker: &Maker) -> SigningKey {
    let keys = (0..DRAWS_MAX).find_map(|_| SigningKey::from_slice(&maker.random::<32>()).ok());
    keys.expect("nearly every number is a key of the curve")
}

/// Positive, and never twice.
fn serial(maker: &Maker) -> [u8; 16] {
    let mut serial = maker.random::<16>();
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

fn public(key: &SigningKey) -> [u8; 65] {
    let point = key.verifying_key().to_sec1_point(false);
    point.as_bytes().try_into().expect("an uncompressed point has 65 bytes")
}

fn written(key: &SigningKey) -> String {
    let secret: [u8; 32] = key.to_bytes().into();
    der::pem("PRIVATE KEY", &der::private_key(der::Pair { secret: &secret, public: &public(key) }))
}

fn sign(key: &SigningKey, bytes: &[u8]) -> [u8; 64] {
    let signature: Signature = key.sign(bytes);
    signature.to_bytes().into()
}

/// Base64 as tokens have it: for paths, without padding.
fn url_safe(bytes: &[u8]) -> String {
    base64::encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

pub fn from_url_safe(text: &str) -> Option<Vec<u8>> {
    if text.contains(['+', '/', '=', '\n', '\r']) {
        return None;
    }
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    base64::decode(&(text.replace('-', "+").replace('_', "/") + &padding)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FlatStore, Store};
    use coracle_api::kinds::Kinds;
    use coracle_api::strategy::{Cidr, NodePorts};
    use std::sync::Arc;

    #[test]
    fn what_nobody_knows_is_not_to_be_deleted() {
        let dir = std::env::temp_dir().join(format!("coracle-identity-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        let kinds = Arc::new(Kinds::builtin());
        let open = || {
            let store = crate::with_rules(&kinds, |rules| FlatStore::open(&dir, None, rules)).expect("it opens").store;
            let shared: Arc<dyn Store> = Arc::new(store.clone());
            let maker =
                Maker::new(shared.clone(), Cidr::parse("10.96.0.0/16").expect("a network"), NodePorts::default())
                    .expect("there is chance");
            (ClusterKeys::open(&Registry::new(kinds.clone(), shared, Arc::new(maker))), store)
        };
        let (made, store) = open();
        made.map(drop).expect("it is made");
        store.halt();
        drop(store);
        std::fs::remove_dir_all(dir.join("wal")).expect("it is there");
        let (unknown, store) = open();
        let why = unknown.map(drop).expect_err("acknowledged records are missing");
        assert!(store.frozen().is_some() && why.starts_with("secrets/kube-system/coracle-ca: wal/"), "{why}");
        assert!(why.contains("store salvage") && !why.contains("delete"), "{why}");
        std::fs::remove_dir_all(&dir).expect("it is ours");
    }
}
