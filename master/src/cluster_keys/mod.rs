//! The keys of the cluster: the authority for certificates, the server's certificate, the keys that sign the tokens of
//! service accounts, and the lists of what was given out and revoked.
//!
//!     first start: random numbers -> files in DATA_DIR/keys      later: files -> ClusterKeys
//!
//! They are files and no objects: no verb reaches them, and no pod can mount them. A backup carries them in a section
//! of its own. Nothing here is logged but names. Versions before this one kept two of them as Secrets in kube-system: a
//! start takes those over.

pub mod account_keys;
pub mod authorities;
mod base64_url;
pub mod certificate;
pub mod clock;
mod current;
pub mod files;
mod first_start;
pub mod host;
pub mod issued;
pub mod issuer;
pub mod life;
pub mod names;
mod own_clients;
pub mod pem;
mod renewal;
pub mod request;
pub mod revoked;
mod revoking;
mod rotation;
mod signing;
mod takeover;
pub mod token;
pub mod tokens;

use self::clock::HighWaterMark;
use self::current::{Current, Looked, Seen};
use self::files::{CLOCK, KeyFolder, LIFE};
use self::first_start::make_missing;
use self::issuer::{Issuer, VerifyingCoordinates};
use self::life::RunningLife;
use self::names::ServerNames;
use self::revoked::RevokedList;
use crate::commit::Registry;
use crate::making::{Entropy, wall_clock};
use crate::store::{SharedKeys, locked};
use coracle_api::meta::Time;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use x509_cert::der::Encode;

pub use self::base64_url::{from_url_safe, url_safe};
pub use self::current::{KeyChange, KeyFollower};
pub use self::files::{AUTHORITY, TOKENS};
pub use self::own_clients::OwnClient;
pub use self::revoking::NodeState;
pub use self::signing::Requested;

/// What the keys are made for.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    pub data_dir: PathBuf,
    /// The names of the server's certificate.
    pub names: ServerNames,
    /// Who issues tokens.
    pub issuer: Issuer,
    /// A certificate and a key of the keeper's own, in the place of those that the authority signs.
    pub server_files: Option<(PathBuf, PathBuf)>,
    /// More authorities for client certificates.
    pub client_authorities: Option<PathBuf>,
    /// The keys that seal private keys on the disk.
    pub sealing: SharedKeys,
}

/// The keys of the cluster.
pub struct ClusterKeys {
    folder: KeyFolder,
    options: KeyOptions,
    entropy: Entropy,
    clock: Mutex<HighWaterMark>,
    started: Instant,
    life: Mutex<RunningLife>,
    current: RwLock<Arc<Current>>,
    /// `None`: the list has never been readable, so that every certificate may be in it.
    revoked: RwLock<Option<RevokedList>>,
    looked: Mutex<Looked>,
    followers: Mutex<Vec<KeyFollower>>,
}

impl ClusterKeys {
    /// The keys of a master that starts: taken over from Secrets, or made where there are none. `Err`: a file that is
    /// there and cannot be used, or that cannot be written.
    pub fn open(registry: &Registry, options: KeyOptions) -> Result<ClusterKeys, String> {
        let folder = KeyFolder::of(&options.data_dir).sealed_by(options.sealing.clone());
        takeover::take_over(registry, &folder)?;
        let entropy = Entropy::open().map_err(|error| format!("/dev/urandom: {error}"))?;
        make_missing(&folder, &entropy)?;
        folder.reseal().unwrap_or_else(|why| log::error!("{why}"));
        let keys = ClusterKeys::of_files(folder, options, entropy)?;
        let names = keys.options.names.clone();
        if let Err(why) = keys.finish_authorities().and_then(|()| keys.tend(&names)) {
            // Whoever has a certificate goes on with it.
            log::error!("the certificates of this host are not made anew: {why}");
        }
        let behind_s = locked(&keys.clock).behind_s(wall_clock());
        if behind_s > 0 {
            log::warn!(
                "the clock is {behind_s} s behind a time that was true before: tokens and certificates with an end are \
                 judged by that time. Where that time was wrong, remove {}",
                keys.folder.path(CLOCK).display()
            );
        }
        Ok(keys)
    }

    /// The keys of a data directory, for a command. `Err`: they are not there yet, or cannot be used.
    pub fn of_directory(options: KeyOptions) -> Result<ClusterKeys, String> {
        let entropy = Entropy::open().map_err(|error| format!("/dev/urandom: {error}"))?;
        ClusterKeys::of_files(KeyFolder::of(&options.data_dir).sealed_by(options.sealing.clone()), options, entropy)
    }

    fn of_files(folder: KeyFolder, options: KeyOptions, entropy: Entropy) -> Result<ClusterKeys, String> {
        let looked = Mutex::new(Looked::at(Seen::of(&folder, &options)));
        let current = RwLock::new(Arc::new(Current::read(&folder)?));
        let kept = folder.read(CLOCK)?;
        let mark = HighWaterMark::parse(kept.as_deref(), Duration::ZERO);
        let mark = mark.map_err(|why| format!("{}: {why}", folder.path(CLOCK).display()))?;
        let life = RunningLife::parse(folder.read(LIFE)?.as_deref()).unwrap_or_else(|why| {
            log::warn!("{}: {why}; certificates count as new", folder.path(LIFE).display());
            RunningLife::default()
        });
        let (clock, started, life) = (Mutex::new(mark), Instant::now(), Mutex::new(life));
        let (revoked, followers) = (RwLock::default(), Mutex::default());
        let keys = ClusterKeys { folder, options, entropy, clock, started, life, current, revoked, looked, followers };
        keys.begin_revoked();
        Ok(keys)
    }

    /// The hash of the public key of the authority that signs, by which a host that joins knows it.
    pub fn authority_hash(&self) -> String {
        let current = self.current();
        let key = current.authorities.signer().tbs_certificate().subject_public_key_info();
        revoked::hex(&Sha256::digest(key.to_der().unwrap_or_default()))
    }

    /// The time for ends that somebody asked for. It never goes back, also where the clock does.
    pub fn now(&self) -> Time {
        locked(&self.clock).now(wall_clock(), self.started.elapsed())
    }

    /// Something with an end is made or seen: the time is kept, at most once a day.
    pub fn keep_time(&self) {
        let now = self.now();
        let text = locked(&self.clock).keep(now);
        if let Some(Err(why)) = text.map(|text| self.folder.write(CLOCK, &text)) {
            log::warn!("{why}");
        }
    }

    /// Who issues the tokens of this cluster.
    pub fn issuer(&self) -> &Issuer {
        &self.options.issuer
    }

    /// The public keys that verify tokens.
    pub fn verifying(&self) -> Vec<VerifyingCoordinates> {
        self.current().accounts.public()
    }

    /// The folder of the keys, for the lists of tokens.
    pub fn folder(&self) -> &KeyFolder {
        &self.folder
    }

    /// Numbers that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        self.entropy.bytes()
    }
}

#[cfg(test)]
mod tests;
