//! The files of the keys as they were read last. A running master looks after a command has told it, and every few
//! seconds beside: whoever asks reads memory alone.

use super::account_keys::AccountKeys;
use super::authorities::Authorities;
use super::files::{
    ACCOUNTS, AUTHORITY, AUTHORITY_KEY, CROSS, KeyFolder, PROXY_AUTHORITY, REVOKED, SERVER, SERVER_KEY, Stamp, needed,
};
use super::revoked::RevokedList;
use super::{ClusterKeys, KeyOptions};
use crate::store::locked;
use coracle_api::strategy::furniture::Trust;
use std::sync::{Arc, PoisonError};

/// What is read of the files.
pub(super) struct Current {
    /// The certificates that everybody in the cluster trusts, as PEM.
    pub(super) bundle: Arc<str>,
    /// The authority of proxies that speak for users. Empty: this master has none.
    pub(super) proxies: Arc<str>,
    pub(super) authorities: Authorities,
    pub(super) accounts: AccountKeys,
}

/// Which files were read: a part differs when its files do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    authorities: [Stamp; 5],
    accounts: Stamp,
    revoked: Stamp,
    server: [Stamp; 2],
}

/// What differs from before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// The authorities that are trusted.
    pub authorities: bool,
    /// The keys that sign and verify tokens.
    pub accounts: bool,
    pub revoked: bool,
    /// The server's certificate.
    pub server: bool,
}

/// Told of each change, after it counts.
pub type KeyFollower = Box<dyn Fn(KeyChange) + Send + Sync>;

impl Current {
    pub(super) fn read(folder: &KeyFolder) -> Result<Current, String> {
        let bundle = needed(folder, AUTHORITY)?;
        let unusable = |name: &str, why: String| format!("{}: {why}", folder.path(name).display());
        // The key of an authority may be kept elsewhere until something is to be signed.
        let keys = folder.read(AUTHORITY_KEY)?.unwrap_or_default();
        let cross = folder.read(CROSS)?;
        let authorities =
            Authorities::parse(&bundle, &keys, cross.as_deref()).map_err(|why| unusable(AUTHORITY, why))?;
        let accounts = AccountKeys::parse(&needed(folder, ACCOUNTS)?).map_err(|why| unusable(ACCOUNTS, why))?;
        let proxies = folder.read(PROXY_AUTHORITY)?.unwrap_or_default().into();
        Ok(Current { bundle: bundle.into(), proxies, authorities, accounts })
    }
}

impl Seen {
    pub(super) fn of(folder: &KeyFolder, options: &KeyOptions) -> Seen {
        let [bundle, key, cross, proxies] =
            [AUTHORITY, AUTHORITY_KEY, CROSS, PROXY_AUTHORITY].map(|name| folder.stamp(name));
        let clients = options.client_authorities.as_deref().map(Stamp::of).unwrap_or_default();
        let server = match &options.server_files {
            Some((chain, key)) => [Stamp::of(chain), Stamp::of(key)],
            None => [SERVER, SERVER_KEY].map(|name| folder.stamp(name)),
        };
        Seen {
            server,
            authorities: [bundle, key, cross, proxies, clients],
            accounts: folder.stamp(ACCOUNTS),
            revoked: folder.stamp(REVOKED),
        }
    }
}

impl ClusterKeys {
    pub(super) fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Told of each later change.
    pub fn follow(&self, follower: KeyFollower) {
        locked(&self.followers).push(follower);
    }

    /// Reads the files that differ. With a file that cannot be used everything stays as it was read before.
    pub fn look(&self) -> KeyChange {
        let mut seen = locked(&self.seen);
        // Before the files are read: what is written meanwhile is read again.
        let now = Seen::of(&self.folder, &self.options);
        let change = KeyChange {
            authorities: now.authorities != seen.authorities,
            accounts: now.accounts != seen.accounts,
            revoked: now.revoked != seen.revoked,
            server: now.server != seen.server,
        };
        *seen = now;
        if change == KeyChange::default() {
            return change;
        }
        if change.authorities || change.accounts {
            match Current::read(&self.folder) {
                Ok(read) => *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read),
                Err(why) => log::error!("{why}; what was read before counts"),
            }
        }
        if change.revoked {
            self.read_revoked();
        }
        drop(seen);
        locked(&self.followers).iter().for_each(|follower| follower(change));
        change
    }

    pub(super) fn read_revoked(&self) {
        match self.folder.read(REVOKED).and_then(|text| RevokedList::parse(&text.unwrap_or_default())) {
            Ok(list) => *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = Some(list),
            Err(why) => log::error!("{}: {why}; what was read before counts", self.folder.path(REVOKED).display()),
        }
    }

    /// The certificates of the authorities, as PEM: what everybody in the cluster trusts.
    pub fn authority(&self) -> Arc<str> {
        self.current().bundle.clone()
    }

    /// The authorities, as ConfigMaps and Secrets tell them.
    pub fn trust(&self) -> Trust {
        let current = self.current();
        let clients = self.client_authorities_pem().unwrap_or_else(|why| {
            log::error!("{why}; the authorities of clients are told without it");
            current.bundle.to_string()
        });
        Trust { root: current.bundle.to_string(), clients, proxies: current.proxies.to_string() }
    }
}
