//! The keys of the cluster: the authority for certificates, the server's certificate, the keys that sign the tokens of
//! service accounts, and the lists of what was given out and revoked.
//!
//!     first start: random numbers -> files in DATA_DIR/keys      later: files -> ClusterKeys
//!
//! They are files and no objects: no verb reaches them, and no pod can mount them. A backup carries them in a section
//! of its own. Nothing here is logged but names. Versions before this one kept two of them as Secrets in kube-system: a
//! start takes those over.

pub mod account_keys;
mod base64_url;
pub mod certificate;
pub mod clock;
pub mod files;
mod first_start;
pub mod host;
pub mod issued;
pub mod issuer;
pub mod names;
mod own_clients;
pub mod pem;
pub mod request;
pub mod revoked;
mod takeover;
pub mod token;
pub mod tokens;

use self::account_keys::AccountKeys;
use self::clock::HighWaterMark;
use self::files::{KeyFolder, Stamp};
use self::first_start::{draw, make_missing};
use self::issued::{IssuedCertificate, IssuedList};
use self::names::ServerNames;
use self::revoked::RevokedList;
use crate::commit::Registry;
use crate::making::{Entropy, wall_clock};
use crate::store::locked;
use coracle_api::meta::Time;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use x509_cert::Certificate;
use x509_cert::der::Encode;

pub use self::base64_url::{from_url_safe, url_safe};
pub use self::own_clients::OwnClient;

pub const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const ACCOUNTS: &str = "service-accounts.key";
const SERVER: &str = "server.crt";
const SERVER_KEY: &str = "server.key";
const CLOCK: &str = "clock";
/// The file of static tokens and bootstrap tokens.
pub const TOKENS: &str = "tokens.json";
const ISSUED: &str = "issued.json";
const REVOKED: &str = "revoked";

/// What the keys are made for.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    pub data_dir: PathBuf,
    /// The names of the server's certificate.
    pub names: ServerNames,
    /// A certificate and a key of the keeper's own, in the place of those that the authority signs.
    pub server_files: Option<(PathBuf, PathBuf)>,
    /// More authorities for client certificates.
    pub client_authorities: Option<PathBuf>,
}

/// The keys of the cluster.
pub struct ClusterKeys {
    folder: KeyFolder,
    options: KeyOptions,
    /// The certificates that everybody in the cluster trusts, as PEM. The first one signs.
    bundle: String,
    authority: Certificate,
    accounts: AccountKeys,
    entropy: Entropy,
    clock: Mutex<HighWaterMark>,
    started: Instant,
    revoked: Mutex<KnownRevoked>,
}

/// The list of revoked certificates as it was last read.
#[derive(Default)]
struct KnownRevoked {
    stamp: Option<Stamp>,
    /// `None`: it has never been readable, so that every certificate may be in it.
    list: Option<RevokedList>,
}

impl ClusterKeys {
    /// The keys of a master that starts: taken over from Secrets, or made where there are none. `Err`: a file that is
    /// there and cannot be used, or that cannot be written.
    pub fn open(registry: &Registry, options: KeyOptions) -> Result<ClusterKeys, String> {
        let folder = KeyFolder::of(&options.data_dir);
        takeover::take_over(registry, &folder)?;
        let entropy = Entropy::open().map_err(|error| format!("/dev/urandom: {error}"))?;
        make_missing(&folder, &entropy)?;
        let keys = ClusterKeys::of_files(folder, options, entropy)?;
        let names = keys.options.names.clone();
        if let Err(why) = keys.renew_server(&names) {
            // Whoever has a certificate goes on with it.
            log::error!("the server's certificate is not made anew: {why}");
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
        ClusterKeys::of_files(KeyFolder::of(&options.data_dir), options, entropy)
    }

    fn of_files(folder: KeyFolder, options: KeyOptions, entropy: Entropy) -> Result<ClusterKeys, String> {
        let bundle = needed(&folder, AUTHORITY)?;
        let unusable = |name: &str, why: String| format!("{}: {why}", folder.path(name).display());
        let der = pem::unpem(certificate::LABEL, &bundle)
            .ok_or_else(|| unusable(AUTHORITY, "it is no certificate".to_owned()))?;
        let authority = certificate::parse(&der).map_err(|why| unusable(AUTHORITY, why))?;
        let accounts = AccountKeys::parse(&needed(&folder, ACCOUNTS)?).map_err(|why| unusable(ACCOUNTS, why))?;
        let kept = folder.read(CLOCK)?;
        let mark = HighWaterMark::parse(kept.as_deref(), Duration::ZERO).map_err(|why| unusable(CLOCK, why))?;
        let (clock, started, revoked) = (Mutex::new(mark), Instant::now(), Mutex::default());
        Ok(ClusterKeys { folder, options, bundle, authority, accounts, entropy, clock, started, revoked })
    }

    /// The certificates of the authority, as PEM: what everybody in the cluster trusts.
    pub fn authority(&self) -> &str {
        &self.bundle
    }

    /// The hash of the authority's public key, by which a host that joins knows it.
    pub fn authority_hash(&self) -> String {
        let key = self.authority.tbs_certificate().subject_public_key_info().to_der().unwrap_or_default();
        revoked::hex(&Sha256::digest(key))
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

    /// The certificate and the key of the server, as PEM.
    pub fn server(&self) -> Result<(String, String), String> {
        let (chain, key) = match &self.options.server_files {
            None => (needed(&self.folder, SERVER)?, needed(&self.folder, SERVER_KEY)?),
            Some((chain, key)) => (files::read_any(chain)?, files::read_any(key)?),
        };
        match coracle_api::strategy::pem::mismatch(&chain, &key) {
            None => Ok((chain, key)),
            Some(why) => Err(format!("{}: {why}", self.server_paths().0.display())),
        }
    }

    fn server_paths(&self) -> (PathBuf, PathBuf) {
        let own = || (self.folder.path(SERVER), self.folder.path(SERVER_KEY));
        self.options.server_files.clone().unwrap_or_else(own)
    }

    /// Differs from before when the files behind `server` and `client_authorities_pem` differ.
    pub fn server_stamp(&self) -> [Stamp; 3] {
        let (chain, key) = self.server_paths();
        let clients = self.options.client_authorities.as_deref().map(Stamp::of).unwrap_or_default();
        [Stamp::of(&chain), Stamp::of(&key), clients]
    }

    /// Makes the server's certificate anew unless it is by the authority and for these names. Whether it was made anew.
    pub fn renew_server(&self, names: &ServerNames) -> Result<bool, String> {
        if self.options.server_files.is_some() || self.has_current_server(names)? {
            return Ok(false);
        }
        let (text, key) = self.new_key()?;
        let leaf = certificate::of_server(names, certificate::public_key(&key)?)?;
        let signed = self.sign(leaf)?;
        // A crash between the two leaves a pair that does not fit, which the next start finds.
        self.folder.write(SERVER_KEY, &text)?;
        self.folder.write(SERVER, &pem::pem(certificate::LABEL, &signed.1))?;
        log::info!("the server has a new certificate, for {} names", names.names.len() + names.addresses.len());
        Ok(true)
    }

    fn has_current_server(&self, names: &ServerNames) -> Result<bool, String> {
        let (Some(chain), Some(key)) = (self.folder.read(SERVER)?, self.folder.read(SERVER_KEY)?) else {
            return Ok(false);
        };
        if coracle_api::strategy::pem::mismatch(&chain, &key).is_some() {
            return Ok(false);
        }
        let certificate = pem::unpem(certificate::LABEL, &chain).and_then(|der| certificate::parse(&der).ok());
        Ok(certificate.is_some_and(|certificate| certificate::is_current(&certificate, &self.authority, names)))
    }

    /// The authorities whose certificates tell who a client is, as PEM.
    pub fn client_authorities_pem(&self) -> Result<String, String> {
        let more = self.options.client_authorities.as_deref().map(files::read_any).transpose()?;
        Ok(format!("{}{}", self.bundle, more.unwrap_or_default()))
    }

    /// A certificate and a key for a client, as PEM. `life`: `None` for ever.
    pub fn sign_client(
        &self,
        user: &str,
        groups: &[String],
        life: Option<Duration>,
    ) -> Result<(String, String), String> {
        let (text, key) = self.new_key()?;
        let end = life.map(|life| self.end(life));
        let leaf = certificate::of_client(user, groups, certificate::public_key(&key)?, end)?;
        let certificate = self.sign_and_note(leaf, user, groups, end)?;
        Ok((certificate, text))
    }

    /// The certificate that a request asks for, as PEM. Whether the requester may have it is decided before.
    pub fn sign_request(&self, pem: &str, usages: &[String], life: Option<Duration>) -> Result<String, String> {
        let request = request::parse(pem)?;
        request.verify().map_err(|why| format!("unable to verify certificate request signature: {why}"))?;
        let end = life.map(|life| self.end(life));
        let leaf = request.leaf(usages, end)?;
        self.sign_and_note(leaf, &request.common_name(), &request.organizations(), end)
    }

    /// Seconds since 1970 at which something ends that is made now.
    fn end(&self, life: Duration) -> Duration {
        self.keep_time();
        Duration::from_secs(u64::try_from(self.now().seconds()).unwrap_or_default()).saturating_add(life)
    }

    fn sign_and_note(
        &self,
        leaf: certificate::Leaf,
        user: &str,
        groups: &[String],
        end: Option<Duration>,
    ) -> Result<String, String> {
        let (serial, der) = self.sign(leaf)?;
        let made = self.now().seconds();
        let expires = end.map_or(0, |end| i64::try_from(end.as_secs()).unwrap_or(i64::MAX));
        let (serial, user, groups) = (revoked::hex(&serial), user.to_owned(), groups.to_vec());
        let one = IssuedCertificate { serial, user, groups, made, expires };
        self.folder.update(ISSUED, |text| {
            let mut list = IssuedList::parse(text)?;
            list.add(one, made)?;
            Ok((Some(list.text()), ()))
        })?;
        Ok(pem::pem(certificate::LABEL, &der))
    }

    fn sign(&self, leaf: certificate::Leaf) -> Result<(certificate::Serial, Vec<u8>), String> {
        let key = needed(&self.folder, AUTHORITY_KEY)?;
        let key =
            account_keys::read(&key).map_err(|why| format!("{}: {why}", self.folder.path(AUTHORITY_KEY).display()))?;
        let serial = certificate::serial(self.entropy.bytes());
        let der = certificate::signed(leaf, serial, &self.authority, &key)?;
        Ok((serial, der))
    }

    fn new_key(&self) -> Result<(String, p256::ecdsa::SigningKey), String> {
        let text = draw(&self.entropy)?;
        let key = account_keys::read(&text)?;
        Ok((text, key))
    }

    /// Whether the certificate with this serial number counts no more. A changed list counts from the next call on.
    pub fn is_revoked(&self, serial: &[u8]) -> bool {
        let mut known = locked(&self.revoked);
        let stamp = self.folder.stamp(REVOKED);
        if known.stamp != Some(stamp) {
            known.stamp = Some(stamp);
            let read = self.folder.read(REVOKED).and_then(|text| RevokedList::parse(&text.unwrap_or_default()));
            match read {
                Ok(list) => known.list = Some(list),
                Err(why) => log::error!("{}: {why}; what was read before counts", self.folder.path(REVOKED).display()),
            }
        }
        known.list.as_ref().is_none_or(|list| list.holds(serial))
    }

    /// Differs from before when certificates or tokens were revoked: what is open is to be judged again.
    pub fn revocations(&self) -> [Stamp; 2] {
        [self.folder.stamp(REVOKED), self.folder.stamp(TOKENS)]
    }

    /// Ends one certificate. `user`: for people who read the list.
    pub fn revoke(&self, serial: &[u8], user: &str) -> Result<(), String> {
        self.folder.update(REVOKED, |text| {
            let mut list = RevokedList::parse(text)?;
            list.add(serial, user)?;
            Ok((Some(list.text()), ()))
        })
    }

    /// Ends every certificate that a user has now, and gives their number.
    pub fn revoke_user(&self, user: &str) -> Result<usize, String> {
        let serials = IssuedList::parse(&self.folder.read(ISSUED)?.unwrap_or_default())?.take(user);
        if serials.is_empty() {
            return Ok(0);
        }
        self.folder.update(REVOKED, |text| {
            let mut list = RevokedList::parse(text)?;
            serials.iter().try_for_each(|serial| list.add(serial, user))?;
            Ok((Some(list.text()), ()))
        })?;
        // Only those that are revoked: one that was signed meanwhile stays.
        self.folder.update(ISSUED, |text| {
            let mut list = IssuedList::parse(text)?;
            list.certificates
                .retain(|one| revoked::from_hex(&one.serial).is_none_or(|serial| !serials.contains(&serial)));
            Ok((Some(list.text()), serials.len()))
        })
    }

    /// The certificates of clients that count.
    pub fn issued(&self) -> Result<IssuedList, String> {
        let text = self.folder.read(ISSUED)?.unwrap_or_default();
        IssuedList::parse(&text).map_err(|why| format!("{}: {why}", self.folder.path(ISSUED).display()))
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

fn needed(folder: &KeyFolder, name: &str) -> Result<String, String> {
    folder
        .read(name)?
        .ok_or_else(|| format!("{} is not there: start the master once, which makes it", folder.path(name).display()))
}

#[cfg(test)]
mod tests;
