//! The keys of one issuer: fetched over TLS by a thread of their own, kept, and fetched again.
//!
//!     discovery document -> jwks_uri -> key set -> keys
//!
//! They are fetched every `AGE`, and when a token names a key that is not known, at most once in `PAUSE`. A fetch that
//! fails leaves the keys that were known. Each issuer has its own thread and its own limits, so that an issuer out of
//! reach harms nobody else.

use super::config::Place;
use super::keys::{self, PublicKey};
use crate::cluster_keys::files;
use crate::store::locked;
use coracle_http::{Authorities, Clock, Fetch, HttpsUrl, fetch};
use serde::Deserialize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Keys are looked at again after this time: an issuer may have withdrawn one.
const AGE: Duration = Duration::from_secs(3600);
/// Tokens with unknown keys make no more fetches than one in this time, and a fetch that failed is tried again after
/// it, later after longer.
pub const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// How long an issuer may take for each of its two documents.
const PATIENCE: Duration = Duration::from_secs(10);
const DISCOVERY_BYTES_MAX: usize = 64 << 10;
const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// How long a request waits for keys that are being fetched.
const WAIT: Duration = Duration::from_secs(2);
/// Requests that wait at once, for all issuers together: half of the places for checks of credentials.
const WAITERS_MAX: usize = 2;
/// The authorities that Debian trusts, for issuers without an authority of their own.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

const BROKEN_OFF: &str = "the fetch has panicked: the log says where; please report it";

pub type Keys = Arc<Vec<PublicKey>>;

/// What the sources of all issuers share.
#[derive(Clone)]
pub struct Pace {
    /// Judges the dates of the issuers' certificates.
    pub clock: Clock,
    /// `PAUSE`, and none in tests.
    pub pause: Duration,
    pub waiters: Arc<AtomicUsize>,
}

pub struct KeySource {
    pub place: Place,
    pace: Pace,
    state: Mutex<State>,
    /// A fetch has ended.
    fetched: Condvar,
}

#[derive(Default)]
struct State {
    /// None: they were never fetched.
    keys: Option<Keys>,
    running: bool,
    begun: Option<Instant>,
    /// None: at once.
    due: Option<Instant>,
    failures: u32,
    trouble: Option<String>,
}

impl KeySource {
    pub fn new(place: Place, pace: Pace) -> KeySource {
        KeySource { place, pace, state: Mutex::default(), fetched: Condvar::new() }
    }

    pub fn keys(&self) -> Option<Keys> {
        locked(&self.state).keys.clone()
    }

    /// Why there are no keys.
    pub fn trouble(&self) -> Option<String> {
        let state = locked(&self.state);
        state.keys.is_none().then(|| state.trouble.clone()).flatten()
    }

    /// Fetches the keys if it is time. The time of the next fetch.
    pub fn look(self: &Arc<KeySource>) -> Instant {
        let mut state = locked(&self.state);
        let now = Instant::now();
        if !state.running && state.due.is_none_or(|due| due <= now) {
            self.begin(&mut state);
        }
        state.due.unwrap_or(now + PAUSE)
    }

    /// For a token whose key is not known: the keys after a fetch that has ended in time. None: there was no fetch.
    pub fn renewed(self: &Arc<KeySource>) -> Option<Keys> {
        let mut state = locked(&self.state);
        if !state.running {
            if state.begun.is_some_and(|begun| begun.elapsed() < self.pace.pause) {
                return None;
            }
            self.begin(&mut state);
        }
        if self.pace.waiters.fetch_add(1, Ordering::Relaxed) < WAITERS_MAX {
            let waited = self.fetched.wait_timeout_while(state, WAIT, |state| state.running);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.pace.waiters.fetch_sub(1, Ordering::Relaxed);
        if state.running { None } else { state.keys.clone() }
    }

    fn begin(self: &Arc<KeySource>, state: &mut State) {
        (state.running, state.begun, state.due) = (true, Some(Instant::now()), Some(Instant::now() + PAUSE));
        let source = self.clone();
        let started = thread::Builder::new().name("issuer-keys".to_owned()).spawn(move || {
            // Inside: where no thread starts, nothing ends.
            let mut fetch = Fetching { source, found: Err(BROKEN_OFF.to_owned()) };
            fetch.found = fetched(&fetch.source.place, &fetch.source.pace.clock);
        });
        if let Err(error) = started {
            state.running = false;
            log::warn!("a thread for the keys of {}: {error}", self.place.issuer);
        }
    }

    fn end(&self, found: Result<Vec<PublicKey>, String>) {
        let issuer = &self.place.issuer;
        let mut state = locked(&self.state);
        state.running = false;
        let pause = match found {
            Ok(keys) => {
                if state.trouble.take().is_some() || state.keys.is_none() {
                    log::info!("{issuer}: {} keys verify its tokens", keys.len());
                }
                state.failures = 0;
                state.keys = Some(Arc::new(keys));
                AGE
            }
            Err(why) => {
                if state.trouble.as_ref() != Some(&why) {
                    let then =
                        if state.keys.is_some() { "those that are known count" } else { "its tokens are refused" };
                    log::warn!("{issuer}: its keys cannot be fetched, {then}: {why}");
                }
                state.trouble = Some(why);
                let pause = PAUSE.saturating_mul(1 << state.failures.min(8)).min(PAUSE_MAX);
                state.failures = state.failures.saturating_add(1);
                pause
            }
        };
        state.due = Some(Instant::now() + pause);
        self.fetched.notify_all();
    }
}

/// A fetch ends even where its thread panics: the next fetch waits for the end.
struct Fetching {
    source: Arc<KeySource>,
    found: Result<Vec<PublicKey>, String>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.source.end(std::mem::replace(&mut self.found, Ok(Vec::new())));
    }
}

pub(super) fn fetched(place: &Place, clock: &Clock) -> Result<Vec<PublicKey>, String> {
    #[derive(Deserialize)]
    struct Discovery {
        issuer: String,
        jwks_uri: String,
    }
    let of_host = match &place.authority {
        Some(_) => String::new(),
        None => files::read_any(Path::new(SYSTEM_AUTHORITIES)).map_err(|why| {
            format!("{why}; install ca-certificates, or give the issuer's certificateAuthority in the file")
        })?,
    };
    let authorities = match &place.authority {
        Some(pem) => Authorities::Only(pem.as_bytes()),
        None => Authorities::OfHost(of_host.as_bytes()),
    };
    let document = |url: &str, bytes_max| {
        let url = HttpsUrl::parse(url).map_err(|why| format!("{url:?}: {why}"))?;
        fetch(Fetch { url: &url, authorities, clock: clock.clone(), bytes_max, patience: PATIENCE })
    };
    let discovery = document(&place.discovery, DISCOVERY_BYTES_MAX)?;
    let discovery: Discovery =
        serde_json::from_slice(&discovery).map_err(|error| format!("{}: {error}", place.discovery))?;
    if discovery.issuer != place.issuer {
        return Err(format!("{}: it is the document of the issuer {:?}", place.discovery, discovery.issuer));
    }
    let key_set = document(&discovery.jwks_uri, KEY_SET_BYTES_MAX)?;
    keys::parse(&key_set).map_err(|why| format!("{}: {why}", discovery.jwks_uri))
}
