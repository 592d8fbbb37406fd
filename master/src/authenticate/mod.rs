//! Authentication: who sends a request.
//!
//!     client certificate -> token of a file, of a bootstrap Secret, of a service account, of an outside issuer
//!                        -> without credentials
//!
//!     presented      the token that a request shows
//!     account        a token of a service account against the objects that it depends on
//!     certificate    the user and groups in a client certificate
//!     front_proxy    the user for whom a proxy speaks
//!     bootstrap      tokens of Secrets, by which hosts join
//!     files          tokens that commands have made
//!     local_agent    the agent of this host, which shows nothing
//!     outside        tokens of outside issuers, and which paths are open without credentials
//!     remembered     signatures that were found good
//!     credential     what stands behind an identity, for the end of open streams
//!
//! Every request looks in the store again: a token ends with the write that deletes its pod, account or Secret.

mod account;
mod bootstrap;
mod certificate;
mod credential;
mod files;
mod front_proxy;
mod local_agent;
pub mod outside;
mod presented;
mod remembered;

use crate::cluster_keys::ClusterKeys;
use crate::cluster_keys::issuer::Issuer;
use crate::cluster_keys::token::{Unverified, Verified};
use crate::making::wall_clock;
use crate::store::{Store, Stored};
use coracle_api::meta::{Key, Time};
use coracle_http::network::{Identify, RequestSender, Unidentified};
use coracle_http::{Caller, ClientCertificate, Identity, header};
use credential::Credential;
use files::StaticTokens;
use outside::Outside;
pub use presented::without_token;
use remembered::{Remembered, Signed};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One line in the log for a kind of refusal in this time.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Who a client is that shows no credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutCredentials {
    /// Reaching the port is the proof.
    Administrator,
    Anonymous,
}

pub struct Authenticator {
    store: Arc<dyn Store>,
    /// `None`: the cluster's keys cannot be used, and no token of a service account counts.
    keys: Option<Arc<ClusterKeys>>,
    files: StaticTokens,
    remembered: Remembered,
    /// None: no file names outside issuers.
    outside: Option<Arc<Outside>>,
    administrator: Arc<Identity>,
    anonymous: Arc<Identity>,
    told: Mutex<BTreeMap<&'static str, ToldLine>>,
}

/// A line of the log, and those of its kind that were not written since.
struct ToldLine {
    at: Instant,
    more: u64,
}

/// Why a token is nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No part of this server knows the token.
    Unknown,
    /// The kind of the credential, for the log, and the reason.
    Because(&'static str, String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown => f.write_str("invalid bearer token"),
            Refused::Because(_, why) => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

/// A token that was found good.
pub struct Accepted {
    pub identity: Arc<Identity>,
    /// Those of the wanted audiences that the token is for.
    pub audiences: Vec<String>,
}

impl Authenticator {
    pub fn new(store: Arc<dyn Store>, keys: Option<Arc<ClusterKeys>>) -> Authenticator {
        Authenticator {
            store,
            keys,
            files: StaticTokens::default(),
            remembered: Remembered::default(),
            outside: None,
            administrator: Arc::new(Identity::administrator()),
            anonymous: Arc::new(Identity::anonymous()),
            told: Mutex::default(),
        }
    }

    /// Knows the tokens of outside issuers, too.
    pub fn with_outside(self, outside: Option<Arc<Outside>>) -> Authenticator {
        Authenticator { outside, ..self }
    }

    /// The time for ends that somebody asked for.
    pub fn now(&self) -> Time {
        self.keys.as_ref().map_or_else(wall_clock, |keys| keys.now())
    }

    /// Who issues the tokens of this cluster.
    pub fn issuer(&self) -> Issuer {
        self.keys.as_ref().map(|keys| keys.issuer().clone()).unwrap_or_default()
    }

    fn own_audience(&self) -> Vec<String> {
        vec![self.issuer().name().to_owned()]
    }

    /// For a port.
    pub fn identifying(self: &Arc<Authenticator>, without: WithoutCredentials) -> Identify {
        let authenticator = self.clone();
        Arc::new(move |sender| authenticator.identify(sender, without))
    }

    /// Who sends a request. A client that shows something wrong is nobody, however open the port is.
    pub fn identify(
        &self,
        sender: &RequestSender<'_>,
        without: WithoutCredentials,
    ) -> Result<Arc<Identity>, Unidentified> {
        self.shown(sender, without).map_err(|refused| {
            self.tell(sender, &refused);
            Unidentified("Unauthorized".to_owned())
        })
    }

    /// A certificate comes first, and whoever it names is not asked for a token.
    fn shown(&self, sender: &RequestSender<'_>, without: WithoutCredentials) -> Result<Arc<Identity>, Refused> {
        if let Some(certificate) = sender.certificate {
            let because = |why| Refused::Because("a certificate", why);
            if let Some(why) = self.ended(&certificate.serial, certificate.end_s) {
                return Err(because(format!("the certificate of {:?} {why}", certificate.common_name)));
            }
            let by_proxy = front_proxy::identity(certificate, sender.headers).map_err(because)?;
            if let Some(identity) = by_proxy.or_else(|| certificate::identity(certificate)) {
                return Ok(Arc::new(identity));
            }
        }
        let is_proxy = sender.certificate.is_some_and(|certificate| certificate.front_proxy);
        let token = presented::token(sender.headers).map_err(|why| Refused::Because("a token", why.to_owned()))?;
        match (token, without) {
            // A certificate of a proxy identifies no client by itself.
            (None, _) if is_proxy => {
                Err(Refused::Because("a certificate", "a proxy says no user in X-Remote-User".to_owned()))
            }
            (Some(token), _) => self.token(&token, &self.own_audience()).map(|accepted| accepted.identity),
            // Whoever shows something else than a token is not taken for the administrator.
            (None, WithoutCredentials::Administrator) if sender.headers.contains_key(header::AUTHORIZATION) => {
                Err(Refused::Because("Authorization", "the header holds no bearer token".to_owned()))
            }
            (None, WithoutCredentials::Administrator) => {
                let agent = local_agent::identity(sender.headers);
                let agent = agent.map_err(|why| Refused::Because("a node's name", why))?;
                Ok(agent.map_or_else(|| self.administrator.clone(), Arc::new))
            }
            (None, WithoutCredentials::Anonymous) => match &self.outside {
                Some(outside) if !outside.admits_anonymous(sender.path) => {
                    let why = format!("the file of --authentication-config does not open {} to it", sender.path);
                    Err(Refused::Because("a request without credentials", why))
                }
                _ => Ok(self.anonymous.clone()),
            },
        }
    }

    /// Whose a token is. `wanted`: the audiences, of which one must be the token's.
    pub fn token(&self, token: &str, wanted: &[String]) -> Result<Accepted, Refused> {
        let (hash, now) = (Sha256::digest(token).into(), self.now());
        let here = wanted.iter().any(|audience| audience == self.issuer().name());
        let accepted = |identity| Ok(Accepted { identity, audiences: self.own_audience() });
        // Whatever is known by itself is for this cluster alone.
        if here
            && let Some((id, secret)) = files::parts(token)
            && let Some(identity) = self.of_file(id, secret, now)?
        {
            return accepted(identity);
        }
        if here
            && let Some((id, secret)) = bootstrap::parts(token)
            && let Some(identity) = self.of_bootstrap(id, secret, now)?
        {
            return accepted(identity);
        }
        let signed = match self.signed(token, &hash) {
            Err(Refused::Unknown) if here => return accepted(self.of_outside(token, now)?),
            signed => signed?,
        };
        let because = |why| Refused::Because("a service account token", why);
        let audiences = signed.verified.audiences(&self.issuer(), wanted).map_err(because)?;
        self.check_account(&signed.verified, &signed.key, &hash).map_err(because)?;
        Ok(Accepted { identity: signed.identity.clone(), audiences })
    }

    /// Whether the credential behind an identity still counts: for streams that were begun with it.
    pub fn still_valid(&self, identity: &Identity) -> bool {
        let now = self.now();
        match Credential::behind(identity) {
            Ok(None) => true,
            Err(_) => false,
            Ok(Some(Credential::Account { verified, hash, key })) => self.check_account(&verified, &key, &hash).is_ok(),
            Ok(Some(Credential::File { id, hash })) => matches!(self.of_file(&id, hash, now), Ok(Some(_))),
            Ok(Some(Credential::Bootstrap { id, hash })) => matches!(self.of_bootstrap(&id, hash, now), Ok(Some(_))),
            Ok(Some(Credential::Certificate { serial, end, .. })) => self.ended(&serial, end).is_none(),
            Ok(Some(Credential::Outside { issuer, rules, key, end })) => {
                self.outside.as_ref().is_some_and(|outside| outside.still_counts(&issuer, (&rules, &key), end, now))
            }
        }
    }

    /// Whether a certificate that its authority vouches for is neither revoked nor past its end.
    pub fn counts(&self, certificate: &ClientCertificate) -> bool {
        self.ended(&certificate.serial, certificate.end_s).is_none()
    }

    /// What is wrong with the outside issuers.
    pub fn troubles(&self) -> Vec<String> {
        self.outside.as_ref().map(|outside| outside.troubles()).unwrap_or_default()
    }

    /// After a change of the keys that sign tokens.
    pub fn keys_changed(&self) {
        self.remembered.forget();
    }

    fn of_file(&self, id: &str, hash: [u8; 32], now: Time) -> Result<Option<Arc<Identity>>, Refused> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let found = self.files.identity(keys, (id, &hash), now);
        let found = found.map_err(|why| Refused::Because("a token of a file", why))?;
        Ok(found.map(|identity| Arc::new(Credential::File { id: id.to_owned(), hash }.of(identity))))
    }

    /// Why a certificate counts no more. Without keys nobody knows which certificates were revoked. `end`: in seconds
    /// since 1970.
    fn ended(&self, serial: &[u8], end: i64) -> Option<&'static str> {
        match self.keys.as_ref().is_none_or(|keys| keys.is_revoked(serial)) {
            true => Some("was revoked"),
            false => (self.now().seconds() > end).then_some("has ended"),
        }
    }

    /// Why a token of a service account counts for nothing now. `key`: the name of the key that has signed it; the key
    /// may have been dropped since.
    fn check_account(&self, verified: &Verified, key: &str, hash: &[u8; 32]) -> Result<(), String> {
        if !self.keys.as_ref().is_some_and(|keys| keys.has_account_key(key)) {
            return Err("the token is signed by no key of this cluster".to_owned());
        }
        account::check(verified, hash, self.now(), &|key: &Key| self.look(key))
    }

    fn of_bootstrap(&self, id: &str, hash: [u8; 32], now: Time) -> Result<Option<Arc<Identity>>, Refused> {
        let found = bootstrap::identity((id, &hash), now, &|key: &Key| self.look(key));
        let found = found.map_err(|why| Refused::Because("a bootstrap token", why))?;
        Ok(found.map(|identity| Arc::new(Credential::Bootstrap { id: id.to_owned(), hash }.of(identity))))
    }

    fn of_outside(&self, token: &str, now: Time) -> Result<Arc<Identity>, Refused> {
        let found = self.outside.as_ref().and_then(|outside| outside.identity(token, now)).ok_or(Refused::Unknown)?;
        let identity = found.map_err(|why| Refused::Because("a token of an outside issuer", why))?;
        // After a loss of the clock the token must not count again.
        self.keys.iter().for_each(|keys| keys.keep_time());
        Ok(Arc::new(identity))
    }

    fn signed(&self, token: &str, hash: &[u8; 32]) -> Result<Arc<Signed>, Refused> {
        if let Some(signed) = self.remembered.get(hash) {
            return Ok(signed);
        }
        let because = |why: &str| Refused::Because("a service account token", why.to_owned());
        let Some(keys) = &self.keys else {
            return Err(because("this cluster's signing key cannot be used, see the master's log"));
        };
        let verified = keys.claims(token).map_err(|unverified| match unverified {
            Unverified::Foreign => Refused::Unknown,
            Unverified::Wrong(why) => because(why),
        })?;
        let signed = Arc::new(Signed::new(verified, hash));
        self.remembered.put(*hash, signed.clone());
        Ok(signed)
    }

    fn look(&self, key: &Key) -> Result<Option<Stored>, String> {
        self.store.get(key).map_err(|damaged| format!("{key} cannot be read: {}", damaged.why))
    }

    /// The client is told nothing but that it is nobody; the keeper hears why.
    fn tell(&self, sender: &RequestSender<'_>, refused: &Refused) {
        let (kind, why) = match refused {
            Refused::Unknown => ("an unknown token", "nobody knows it"),
            Refused::Because(kind, why) => (*kind, why.as_str()),
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(more) = due(&mut told, kind, Instant::now()) else { return };
        let more = if more > 0 { format!(" ({more} more of these since the last line)") } else { String::new() };
        let from = match sender.caller {
            Caller::Network { address } => address.ip().to_string(),
            Caller::Local => "a Unix socket".to_owned(),
        };
        log::warn!("{kind} from {from} is refused: {why}{more}");
    }
}

/// How many of a kind went by without a line, if it is time for another line.
fn due(told: &mut BTreeMap<&'static str, ToldLine>, kind: &'static str, now: Instant) -> Option<u64> {
    if let Some(line) = told.get_mut(kind).filter(|line| now.duration_since(line.at) < LINE_EVERY) {
        line.more += 1;
        return None;
    }
    Some(told.insert(kind, ToldLine { at: now, more: 0 }).map_or(0, |line| line.more))
}

#[cfg(test)]
mod tests;
