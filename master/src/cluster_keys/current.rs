//! The files of the keys as they were read last. A running master looks after a command has told it, and every few
//! seconds beside: whoever asks reads memory alone. A file that cannot be read, and a change that a follower cannot
//! take up, are tried again at each look.

use super::account_keys::AccountKeys;
use super::authorities::Authorities;
use super::files::{
    ACCOUNTS, AUTHORITY, AUTHORITY_KEY, CROSS, KeyFolder, PROXY_AUTHORITY, REVOKED, SERVER, SERVER_KEY, Stamp, TOKENS,
    needed,
};
use super::revoked::RevokedList;
use super::tokens::TokenList;
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
    authorities: [Stamp; 4],
    /// The keeper's own authorities of clients.
    clients: Stamp,
    accounts: Stamp,
    revoked: Stamp,
    server: [Stamp; 2],
}

/// What the last look has left.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// A file that could not be read keeps its earlier stamp.
    seen: Seen,
    /// What a follower could not take up.
    untold: KeyChange,
    /// Logged once.
    trouble: Option<String>,
}

impl Looked {
    pub(super) fn at(seen: Seen) -> Looked {
        Looked { seen, ..Looked::default() }
    }
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

/// Told of each change, after it counts. `Err`: the change is not taken up, and the follower is told again.
pub type KeyFollower = Box<dyn Fn(KeyChange) -> Result<(), String> + Send + Sync>;

impl KeyChange {
    fn with(self, other: KeyChange) -> KeyChange {
        KeyChange {
            authorities: self.authorities || other.authorities,
            accounts: self.accounts || other.accounts,
            revoked: self.revoked || other.revoked,
            server: self.server || other.server,
        }
    }
}

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
            authorities: [bundle, key, cross, proxies],
            clients,
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
        self.look_and_tell().0
    }

    /// For a command, whose change shall count. `Err`: a file that cannot be used, or a change that is not taken up.
    pub fn take_up(&self) -> Result<(), String> {
        let tokens = self.folder.read(TOKENS).and_then(|text| TokenList::parse(&text.unwrap_or_default()));
        let tokens = tokens.map_err(|why| format!("{}: {why}", self.folder.path(TOKENS).display()));
        match self.look_and_tell().1 {
            None => tokens.map(drop),
            Some(why) => Err(why),
        }
    }

    /// What differs, and what went wrong.
    fn look_and_tell(&self) -> (KeyChange, Option<String>) {
        let (change, mut troubles) = self.read_changed();
        if change != KeyChange::default() {
            let told: Vec<String> =
                locked(&self.followers).iter().filter_map(|follower| follower(change).err()).collect();
            if !told.is_empty() {
                let mut looked = locked(&self.looked);
                looked.untold = looked.untold.with(change);
            }
            troubles.extend(told);
        }
        let trouble = Some(troubles.join("; ")).filter(|text| !text.is_empty());
        let mut looked = locked(&self.looked);
        if looked.trouble != trouble {
            looked.trouble.clone_from(&trouble);
            match &trouble {
                Some(why) => log::error!("{why}; what was read before counts"),
                None => log::info!("the files of the keys are in order again"),
            }
        }
        (change, trouble)
    }

    fn read_changed(&self) -> (KeyChange, Vec<String>) {
        let mut looked = locked(&self.looked);
        let mut change = std::mem::take(&mut looked.untold);
        // Before the files are read: what is written meanwhile is read again.
        let now = Seen::of(&self.folder, &self.options);
        let seen = &mut looked.seen;
        let mut troubles = Vec::new();
        if now.server != seen.server || now.clients != seen.clients {
            change.server |= now.server != seen.server;
            change.authorities |= now.clients != seen.clients;
            (seen.server, seen.clients) = (now.server, now.clients);
        }
        if now.authorities != seen.authorities || now.accounts != seen.accounts {
            match Current::read(&self.folder) {
                Ok(read) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                    change.authorities |= now.authorities != seen.authorities;
                    change.accounts |= now.accounts != seen.accounts;
                    (seen.authorities, seen.accounts) = (now.authorities, now.accounts);
                }
                Err(why) => troubles.push(why),
            }
        }
        if now.revoked != seen.revoked {
            match self.read_revoked() {
                Ok(()) => (change.revoked, seen.revoked) = (true, now.revoked),
                Err(why) => troubles.push(why),
            }
        }
        (change, troubles)
    }

    fn read_revoked(&self) -> Result<(), String> {
        let read = self.folder.read(REVOKED).and_then(|text| RevokedList::parse(&text.unwrap_or_default()));
        let list = read.map_err(|why| format!("{}: {why}", self.folder.path(REVOKED).display()))?;
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = Some(list);
        Ok(())
    }

    /// Reads the list of revoked certificates for the first time. Each look tries again where it cannot be read.
    pub(super) fn begin_revoked(&self) {
        let mut looked = locked(&self.looked);
        if let Err(why) = self.read_revoked() {
            log::error!("{why}; no certificate counts until it can be read");
            looked.seen.revoked = Stamp::default();
            looked.trouble = Some(why);
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
