//! Tokens of outside OIDC issuers, and who may come without credentials: `--authentication-config`.
//!
//!     config       the file -> issuers, anonymous
//!     form         its fields
//!     source       the keys of an issuer, fetched and kept
//!     keys         a key set, and signatures
//!     jwt          a token taken apart and verified, its times
//!     mapping      claims -> identity
//!     expression   the part of CEL that rules and mappings are written in
//!
//! One thread looks every `LOOK` whether the file has changed and whether keys are due. A file that is wrong is said,
//! and the file that was read before counts. Before a file was ever right, tokens of issuers and requests without
//! credentials are refused: nobody knows who may come.

mod config;
mod expression;
mod form;
mod jwt;
mod keys;
mod mapping;
mod source;

use self::config::{AuthenticationConfig, Issuer};
use self::jwt::Unsigned;
use self::keys::PublicKey;
use self::source::{KeySource, Pace};
use super::credential::Credential;
use crate::cluster_keys::files::{self, Stamp};
use crate::store::locked;
use coracle_api::meta::Time;
use coracle_http::{Clock, Identity};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A changed file counts after this time, as in Kubernetes.
const LOOK: Duration = Duration::from_secs(60);

/// The issuers of a file, and the thread that looks after them.
pub struct Outside {
    shared: Arc<Shared>,
    /// The thread ends when this is dropped.
    _running: SyncSender<()>,
}

struct Shared {
    path: PathBuf,
    pace: Pace,
    /// None: the file was never right.
    known: Mutex<Option<Arc<Known>>>,
    trouble: Mutex<Option<String>>,
}

struct Known {
    config: AuthenticationConfig,
    /// One for each issuer, in the same order.
    sources: Vec<Arc<KeySource>>,
}

impl Outside {
    /// `clock`: judges the dates of the issuers' certificates.
    pub fn start(path: &Path, clock: Clock) -> io::Result<Outside> {
        Outside::start_with(path, clock, source::PAUSE)
    }

    fn start_with(path: &Path, clock: Clock, pause: Duration) -> io::Result<Outside> {
        let pace = Pace { clock, pause, waiters: Arc::default() };
        let shared = Shared { path: path.to_owned(), pace, known: Mutex::default(), trouble: Mutex::default() };
        let shared = Arc::new(shared);
        let stamp = Stamp::of(path);
        shared.read();
        let (running, ended) = sync_channel(1);
        let theirs = shared.clone();
        thread::Builder::new().name("issuers".to_owned()).spawn(move || theirs.keep(stamp, &ended))?;
        Ok(Outside { shared, _running: running })
    }

    /// Whose token this is. None: no issuer of the file has made it. Error: why it counts for nothing.
    pub fn identity(&self, token: &str, now: Time) -> Option<Result<Identity, String>> {
        let shown = jwt::parse(token)?;
        let Some(known) = self.shared.known() else {
            let why = format!("{} could never be read, see the log", self.shared.path.display());
            return Some(Err(why));
        };
        let (issuer, source) = known.issuer(shown.issuer())?;
        Some(judged(token, shown, (issuer, source), now).map_err(|why| format!("{}: {why}", issuer.place.issuer)))
    }

    /// Whether a token that was found good still counts.
    pub fn still_counts(&self, issuer: &str, (rules, key): (&[u8; 32], &[u8; 32]), end: i64, now: Time) -> bool {
        let Some(known) = self.shared.known() else { return false };
        let Some((found, source)) = known.issuer(issuer) else { return false };
        let is_known = || source.keys().is_some_and(|keys| keys.iter().any(|one| one.print == *key));
        found.print == *rules && now.seconds() <= end && is_known()
    }

    /// Whether a client without credentials may ask for this path.
    pub fn admits_anonymous(&self, path: &str) -> bool {
        let known = self.shared.known();
        known.is_some_and(|known| known.config.anonymous.as_ref().is_none_or(|anonymous| anonymous.admits(path)))
    }

    /// What is wrong with the file, and which issuers have no keys.
    pub fn troubles(&self) -> Vec<String> {
        let of_file = locked(&self.shared.trouble).clone();
        let known = self.shared.known();
        let sources = known.as_ref().map(|known| known.sources.as_slice()).unwrap_or_default();
        let of_issuers = sources.iter().filter_map(|source| {
            Some(format!(
                "{}: its tokens are refused, for its keys cannot be fetched: {}",
                source.place.issuer,
                source.trouble()?
            ))
        });
        of_file.into_iter().chain(of_issuers).collect()
    }
}

fn judged(
    token: &str,
    shown: jwt::Unverified<'_>,
    (issuer, source): (&Issuer, &Arc<KeySource>),
    now: Time,
) -> Result<Identity, String> {
    let keys = source.keys().or_else(|| source.renewed());
    let keys = keys.ok_or("its keys are not known yet, see the master's log and coracle-master status")?;
    let (claims, key) = match shown.verified(&keys) {
        Ok((claims, key)) => (claims, key.print),
        Err(Unsigned::Wrong(why)) => return Err(why),
        Err(Unsigned::UnknownKey(why)) => {
            let again = source.renewed().and_then(|keys| verified_again(token, &keys)).ok_or(why)?;
            again.map_err(|unsigned| match unsigned {
                Unsigned::UnknownKey(why) | Unsigned::Wrong(why) => why,
            })?
        }
    };
    let end = jwt::end(&claims, now)?;
    let identity = issuer.rules.identity(&claims)?;
    let credential = Credential::Outside { issuer: issuer.place.issuer.clone(), rules: issuer.print, key, end };
    Ok(credential.of(identity))
}

fn verified_again(token: &str, keys: &[PublicKey]) -> Option<Result<(jwt::Claims, [u8; 32]), Unsigned>> {
    Some(jwt::parse(token)?.verified(keys).map(|(claims, key)| (claims, key.print)))
}

impl Known {
    fn issuer(&self, name: &str) -> Option<(&Issuer, &Arc<KeySource>)> {
        let mut both = self.config.issuers.iter().zip(&self.sources);
        both.find(|(issuer, _)| issuer.place.issuer == name)
    }
}

impl Shared {
    fn known(&self) -> Option<Arc<Known>> {
        locked(&self.known).clone()
    }

    /// Runs until the sender of `ended` is gone.
    fn keep(&self, mut stamp: Stamp, ended: &Receiver<()>) {
        loop {
            let mut next = Instant::now() + LOOK;
            if let Some(known) = self.known() {
                next = known.sources.iter().map(KeySource::look).fold(next, Instant::min);
            }
            match ended.recv_timeout(next.saturating_duration_since(Instant::now()).max(Duration::from_secs(1))) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            let found = Stamp::of(&self.path);
            if found != stamp {
                stamp = found;
                self.read();
            }
        }
    }

    fn read(&self) {
        let read = files::read_any(&self.path)
            .and_then(|text| config::parse(&text).map_err(|why| format!("{}: {why}", self.path.display())));
        let before = self.known();
        match read {
            Ok(config) => {
                log::info!("{}: tokens of {} issuers count", self.path.display(), config.issuers.len());
                *locked(&self.trouble) = None;
                let known = self.taken(config, before.as_deref());
                *locked(&self.known) = Some(Arc::new(known));
            }
            Err(why) => {
                let then = match before {
                    Some(_) => "what was read before counts",
                    None => "tokens of outside issuers and requests without credentials are refused",
                };
                let why = format!("--authentication-config {why}; {then}");
                log::error!("{why}");
                *locked(&self.trouble) = Some(why);
            }
        }
    }

    /// An issuer that stays keeps its keys.
    fn taken(&self, config: AuthenticationConfig, before: Option<&Known>) -> Known {
        let source = |issuer: &Issuer| {
            let mut known = before.into_iter().flat_map(|known| &known.sources);
            let same = known.find(|source| source.place == issuer.place).cloned();
            same.unwrap_or_else(|| Arc::new(KeySource::new(issuer.place.clone(), self.pace.clone())))
        };
        let sources = config.issuers.iter().map(source).collect();
        Known { config, sources }
    }
}

#[cfg(test)]
mod tests;
