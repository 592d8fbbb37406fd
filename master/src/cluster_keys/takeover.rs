//! Takes the keys over that versions before this one kept as Secrets in kube-system. Their tokens and certificates stay
//! valid. A Secret goes once the files hold what it says. Where this version has made keys before, a Secret with that
//! name is somebody's who may write Secrets: it is never the identity of the cluster.

use super::account_keys::{self, AccountKeys};
use super::files::{ACCOUNTS, AUTHORITY, AUTHORITY_KEY, ISSUED, KeyFolder, LIFE, PROXY_AUTHORITY, SERVER, Stamp};
use super::{certificate, pem};
use crate::commit::Registry;
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::namespace::CLUSTER;
use coracle_schema::base64;
use serde_json::Value;

const SECRETS: Resource = Resource::core("secrets");
/// Held `tls.crt` and `tls.key`, of type kubernetes.io/tls.
const AUTHORITY_SECRET: &str = "coracle-ca";
/// What a start makes after the keys are taken over, and what later use leaves. `adoption.json` is none of these: it is
/// written before.
const MADE_LATER: [&str; 4] = [ISSUED, LIFE, PROXY_AUTHORITY, SERVER];
/// Held `key.pem`, of type coracle.dev/signing-key.
const ACCOUNTS_SECRET: &str = "coracle-service-account-key";

/// `Err`: it is not known whether there is a Secret, or a Secret cannot be used. Nothing new is made then: all that the
/// old keys signed would count no more.
pub fn take_over(registry: &Registry, folder: &KeyFolder) -> Result<(), String> {
    let is_empty = |name: &str| folder.read(name).map(|text| text.is_none());
    if MADE_LATER.iter().any(|name| folder.stamp(name) != Stamp::default()) {
        if is_empty(AUTHORITY)? || is_empty(AUTHORITY_KEY)? || is_empty(ACCOUNTS)? {
            warn_of_planted(registry)?;
        }
        remove_both(registry, folder);
        return Ok(());
    }
    if is_empty(AUTHORITY)? || is_empty(AUTHORITY_KEY)? {
        if let Some(secret) = secret(registry, AUTHORITY_SECRET)? {
            let (certificate, key) = authority(&secret).map_err(|why| unusable(AUTHORITY_SECRET, &why))?;
            // One file alone is of a takeover that broke off, or of somebody's own authority.
            for (name, text) in [(AUTHORITY, &certificate), (AUTHORITY_KEY, &key)] {
                if folder.read(name)?.is_some_and(|held| held != *text) {
                    return Err(format!(
                        "{} is of another authority than secrets/{CLUSTER}/{AUTHORITY_SECRET}: remove \
                                        the file or the Secret",
                        folder.path(name).display()
                    ));
                }
            }
            folder.write(AUTHORITY_KEY, &key)?;
            folder.write(AUTHORITY, &certificate)?;
            log::info!("secrets/{CLUSTER}/{AUTHORITY_SECRET} is taken over to {}", folder.path(AUTHORITY).display());
        }
    }
    if is_empty(ACCOUNTS)? {
        if let Some(secret) = secret(registry, ACCOUNTS_SECRET)? {
            let key = text(&secret, "key.pem").ok_or_else(|| unusable(ACCOUNTS_SECRET, "key.pem is not there"))?;
            AccountKeys::parse(&key).map_err(|why| unusable(ACCOUNTS_SECRET, &format!("key.pem: {why}")))?;
            folder.write(ACCOUNTS, &key)?;
            log::info!("secrets/{CLUSTER}/{ACCOUNTS_SECRET} is taken over to {}", folder.path(ACCOUNTS).display());
        }
    }
    remove_both(registry, folder);
    Ok(())
}

fn warn_of_planted(registry: &Registry) -> Result<(), String> {
    for name in [AUTHORITY_SECRET, ACCOUNTS_SECRET] {
        if secret(registry, name)?.is_some() {
            log::warn!(
                "secrets/{CLUSTER}/{name} is not taken over: this cluster has had keys in files since. Delete it"
            );
        }
    }
    Ok(())
}

fn remove_both(registry: &Registry, folder: &KeyFolder) {
    for (name, field, file) in [(AUTHORITY_SECRET, "tls.key", AUTHORITY_KEY), (ACCOUNTS_SECRET, "key.pem", ACCOUNTS)] {
        remove(registry, folder, (name, field, file)).unwrap_or_else(|why| log::warn!("{why}"));
    }
}

/// A Secret that says something else than the file is somebody's own, and stays.
fn remove(registry: &Registry, folder: &KeyFolder, (name, field, file): (&str, &str, &str)) -> Result<(), String> {
    let Some(secret) = secret(registry, name)? else { return Ok(()) };
    let said = text(&secret, field).filter(|said| !said.trim().is_empty());
    let held = folder.read(file)?.unwrap_or_default();
    if !said.is_some_and(|said| held.contains(said.trim())) {
        return Ok(());
    }
    registry.remove_own(&key(name)).map_err(|why| format!("secrets/{CLUSTER}/{name} stays: {why}"))
}

fn authority(secret: &Value) -> Result<(String, String), String> {
    let certificate = text(secret, "tls.crt").filter(|text| pem::unpem(certificate::LABEL, text).is_some());
    let certificate = certificate.ok_or("tls.crt is no certificate")?;
    let key = text(secret, "tls.key").filter(|text| account_keys::read(text).is_ok());
    Ok((certificate, key.ok_or("tls.key is no P-256 key in PKCS #8")?))
}

fn key(name: &str) -> Key {
    Key { resource: SECRETS, namespace: CLUSTER.to_owned(), name: name.to_owned() }
}

fn unusable(name: &str, why: &str) -> String {
    format!("secrets/{CLUSTER}/{name}: {why}; put it right, or delete it and start again for a new identity")
}

fn secret(registry: &Registry, name: &str) -> Result<Option<Value>, String> {
    let key = key(name);
    let read =
        |stored: &Stored| serde_json::from_slice(&stored.json).map_err(|error| unusable(name, &error.to_string()));
    // The store's reason contains the remedy: where it is unknown whether the Secret exists, deletion is no remedy.
    let stored = registry.store.get(&key).map_err(|damaged| format!("{key}: {}", damaged.why))?;
    stored.as_ref().map(read).transpose()
}

fn text(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(base64::decode(secret["data"][key].as_str()?).ok()?).ok()
}
