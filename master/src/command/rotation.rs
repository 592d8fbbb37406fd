//! The commands that change the cluster's keys: certificates of this host, the authority, the key that signs tokens.
//!
//! They write the files as the owner of the data directory and tell a running master, which takes the files up without
//! dropping a connection. Certificates of this host are made by the running master, which knows its own names.

use super::keys::{admin_is_ours, as_owner, refresh_admin, told, with_keys};
use super::reach::{Outcome, ask};
use crate::cluster_keys::authorities::Stage;
use crate::cluster_keys::issued::IssuedList;
use crate::cluster_keys::{ClusterKeys, KeyOptions};
use crate::config::Config;
use crate::credentials::keys::{KeyDeed, KeysReport, ends_with_authority, listed};
use crate::encryption::load;
use crate::owner;
use crate::page::RENEW_KEYS;
use crate::store::SharedKeys;

pub fn run(config: &Config, deed: KeyDeed) -> Result<Outcome, String> {
    match deed {
        KeyDeed::List => with_keys(config, |keys| Ok(listed(&report(keys)?))),
        KeyDeed::Renew => renew(config),
        KeyDeed::RenewAuthority { now } => renew_authority(config, now),
        KeyDeed::DropOldAuthority { take } => drop_old_authority(config, take),
        KeyDeed::RenewTokenKey => with_keys(config, |keys| {
            keys.renew_account_key()?;
            Ok("a new key signs tokens of service accounts; what older keys signed counts until coracle-master keys \
                drop-old-token-keys"
                .to_owned())
        })
        .map(|done| told(config, done)),
        KeyDeed::DropOldTokenKeys { take } => drop_old_token_keys(config, take),
    }
}

fn report(keys: &ClusterKeys) -> Result<KeysReport, String> {
    let (running_s, ages) = keys.ages()?;
    let signer = keys.signer_name();
    let others = keys.authority_names().into_iter().filter(|name| *name != signer);
    let authorities = std::iter::once(signer.clone()).chain(others).collect();
    Ok(KeysReport { stage: keys.stage(), authorities, ages, running_s, old_token_keys: keys.old_account_keys() })
}

fn renew(config: &Config) -> Result<Outcome, String> {
    // A running master knows the names that it was started with.
    if ask(config, "POST", RENEW_KEYS)?.is_none() {
        let names = crate::server_names(config);
        let sealing = SharedKeys::new(load(config.encryption_key.as_deref()));
        owner::as_owner(&config.data_dir, || {
            let options = KeyOptions { names: names.clone(), sealing, ..crate::keys_of(config) };
            ClusterKeys::of_directory(options)?.renew(&names)
        })?;
    }
    Ok(Outcome::good("the certificates of this host are new".to_owned()))
}

fn renew_authority(config: &Config, now: bool) -> Result<Outcome, String> {
    let is_ours = root_uses_it(config)?;
    let done = with_keys(config, |keys| {
        if keys.stage() == Stage::Waiting && !now {
            return Err("a new authority waits already: --now lets it sign".to_owned());
        }
        if keys.stage() != Stage::Waiting {
            keys.publish_authority()?;
        }
        if !now {
            return Ok("a new authority is published; it signs after 30 days of running time, or with --now".to_owned());
        }
        keys.switch_authority()?;
        Ok("the new authority signs; what the old one signed counts until coracle-master keys drop-old-ca".to_owned())
    })?;
    let done = told(config, done);
    if now {
        // The server shows a certificate by the new authority.
        renew(config)?;
    }
    if is_ours {
        refresh_admin(config)?;
    }
    Ok(done)
}

/// Whether root's kubeconfig is of this cluster. It is read as root, before anything changes.
fn root_uses_it(config: &Config) -> Result<bool, String> {
    let sealing = SharedKeys::new(load(config.encryption_key.as_deref()));
    let options = KeyOptions { data_dir: config.data_dir.clone(), sealing, ..KeyOptions::default() };
    ClusterKeys::of_directory(options).map(|keys| admin_is_ours(&keys))
}

fn drop_old_authority(config: &Config, take: bool) -> Result<Outcome, String> {
    let shown = as_owner(config, |keys| {
        if keys.stage() != Stage::Overlap {
            return Err("there is no old authority: nothing is to be dropped".to_owned());
        }
        Ok(ends_with_authority(&IssuedList { certificates: keys.signed_by_old()? }))
    })?;
    if !take {
        return Ok(Outcome::good(format!(
            "{shown}\nkubeconfigs and programs that hold the old authority alone will not trust this server; drop it: \
             coracle-master keys drop-old-ca --yes"
        )));
    }
    let is_ours = root_uses_it(config)?;
    with_keys(config, |keys| keys.drop_old_authority().map(|()| String::new()))?;
    let own =
        if is_ours { "; /etc/coracle/admin.kubeconfig has a new certificate, copies of the file end" } else { "" };
    let done = told(config, Outcome::good(format!("{shown}\nthe old authority counts no more{own}")));
    renew(config)?;
    if is_ours {
        refresh_admin(config)?;
    }
    Ok(done)
}

fn drop_old_token_keys(config: &Config, take: bool) -> Result<Outcome, String> {
    let old = as_owner(config, |keys| Ok(keys.old_account_keys()))?;
    let words = "tokens that they signed end: those of pods are made anew by the agents within an hour after a new key \
                 signs; delete and make again Secrets of type kubernetes.io/service-account-token";
    match (old, take) {
        (0, _) => Err("there is no older key: nothing is to be dropped".to_owned()),
        (old, false) => Ok(Outcome::good(format!(
            "{old} older keys verify tokens; {words}; drop them: coracle-master keys drop-old-token-keys --yes"
        ))),
        (_, true) => {
            let done = with_keys(config, |keys| {
                keys.drop_old_account_keys().map(|old| format!("{old} older keys count no more; {words}"))
            })?;
            Ok(told(config, done))
        }
    }
}
