//! EventRateLimit: one source of events, one namespace or one user does not fill the store. PURE.
//!
//! Buckets of tokens as in Kubernetes: an event takes a token of each of its buckets, and a bucket fills again at its
//! rate. Kubernetes has no limits until somebody configures them; these are for a small host.

use crate::authorize::MASTERS;
use coracle_api::strategy::doc::text;
use coracle_http::Identity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Buckets of a limit that are remembered: a full one is forgotten first.
const BUCKETS_MAX: usize = 1024;

/// What shares a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

struct Limit {
    shared: Shared,
    /// Events a second.
    rate: f64,
    /// Events at once.
    burst: f64,
}

/// A host of 100 pods says some hundred events when it starts.
const LIMITS: [Limit; 4] = [
    Limit { shared: Shared::SourceAndObject, rate: 0.5, burst: 50.0 },
    Limit { shared: Shared::Namespace, rate: 10.0, burst: 1000.0 },
    Limit { shared: Shared::User, rate: 20.0, burst: 2000.0 },
    Limit { shared: Shared::Server, rate: 50.0, burst: 5000.0 },
];

impl Shared {
    fn word(self) -> &'static str {
        match self {
            Shared::Server => "Server",
            Shared::Namespace => "Namespace",
            Shared::User => "User",
            Shared::SourceAndObject => "SourceAndObject",
        }
    }
}

/// The keys of the buckets of an event, in the order of the limits. `None`: the event does not count there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKeys([Option<String>; 4]);

impl EventKeys {
    /// An administrator is bound by the limit for one object alone: who may delete everything need not be kept from
    /// filling the store.
    pub(super) fn of(namespace: &str, identity: &Identity, event: &Value) -> EventKeys {
        let is_administrator = identity.groups.iter().any(|group| group == MASTERS);
        let (source, object) = (&event["source"], &event["involvedObject"]);
        let said = ["component", "host"].map(|field| text(source, field));
        let about = ["kind", "namespace", "name", "uid", "apiVersion"].map(|field| text(object, field));
        EventKeys(LIMITS.map(|limit| match limit.shared {
            Shared::SourceAndObject => Some(said.iter().chain(&about).copied().collect()),
            _ if is_administrator => None,
            Shared::Server => Some(String::new()),
            Shared::Namespace => Some(namespace.to_owned()),
            Shared::User => Some(identity.user.clone()),
        }))
    }
}

/// Takes a token of each bucket of an event.
pub type EventCount = dyn Fn(&EventKeys) -> Result<(), TooManyEvents> + Send + Sync;

/// The state of all buckets.
#[derive(Debug)]
pub struct EventBuckets([BTreeMap<String, Bucket>; 4]);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

/// The limits that an event exceeds, and when the next event of the kind is let through.
#[derive(Debug, PartialEq)]
pub struct TooManyEvents {
    pub why: String,
    pub retry_after_s: u32,
}

impl Default for EventBuckets {
    fn default() -> EventBuckets {
        EventBuckets([const { BTreeMap::new() }; 4])
    }
}

impl EventBuckets {
    /// Takes a token of each bucket that has one. `now`: the time since some start, which does not go back.
    pub fn take(&mut self, keys: &EventKeys, now: Duration) -> Result<(), TooManyEvents> {
        let mut exceeded = Vec::new();
        let mut wait_s: f64 = 0.0;
        for ((limit, buckets), key) in LIMITS.iter().zip(&mut self.0).zip(&keys.0) {
            let Some(key) = key else { continue };
            if !buckets.contains_key(key) && buckets.len() >= BUCKETS_MAX {
                make_room(buckets, limit, now);
            }
            let bucket = buckets.entry(key.clone()).or_insert(Bucket { tokens: limit.burst, at: now });
            *bucket = Bucket { tokens: bucket.filled(limit, now), at: bucket.at.max(now) };
            if bucket.tokens < 1.0 {
                wait_s = wait_s.max((1.0 - bucket.tokens) / limit.rate);
                exceeded.push(format!("limit reached on type {} for key {key}", limit.shared.word()));
            } else {
                bucket.tokens -= 1.0;
            }
        }
        match exceeded.as_slice() {
            [] => Ok(()),
            [one] => Err(TooManyEvents { why: one.clone(), retry_after_s: whole(wait_s) }),
            all => Err(TooManyEvents { why: format!("[{}]", all.join(", ")), retry_after_s: whole(wait_s) }),
        }
    }
}

impl Bucket {
    fn filled(&self, limit: &Limit, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        (self.tokens + passed * limit.rate).min(limit.burst)
    }
}

/// Forgets the full buckets, which say nothing, or else the fullest.
fn make_room(buckets: &mut BTreeMap<String, Bucket>, limit: &Limit, now: Duration) {
    buckets.retain(|_, bucket| bucket.filled(limit, now) < limit.burst);
    if buckets.len() >= BUCKETS_MAX {
        let fullest =
            buckets.iter().max_by(|(_, one), (_, other)| one.filled(limit, now).total_cmp(&other.filled(limit, now)));
        if let Some(key) = fullest.map(|(key, _)| key.clone()) {
            buckets.remove(&key);
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds, and never below zero")]
fn whole(seconds: f64) -> u32 {
    seconds.ceil().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(object: &str, namespace: &str, user: &str) -> EventKeys {
        EventKeys([object, namespace, user, ""].map(|key| Some(key.to_owned())))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_administrator_is_bound_by_one_object_alone() {
        let event = serde_json::json!({"source": {"component": "c"}, "involvedObject": {"name": "n"}});
        let of = |groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            EventKeys::of("a", &Identity { user: "u".into(), groups, ..Identity::none() }, &event)
        };
        assert_eq!(of(&["people"]), keys("cn", "a", "u"));
        assert_eq!(of(&[MASTERS]), EventKeys([Some("cn".into()), None, None, None]));
    }

    #[test]
    fn a_source_that_says_too_much_waits() {
        let mut buckets = EventBuckets::default();
        let loud = keys("loud", "a", "u");
        for _ in 0..50 {
            assert_eq!(buckets.take(&loud, at(0)), Ok(()));
        }
        let why = "limit reached on type SourceAndObject for key loud".to_owned();
        assert_eq!(buckets.take(&loud, at(0)), Err(TooManyEvents { why, retry_after_s: 2 }));
        assert_eq!(buckets.take(&keys("quiet", "a", "u"), at(0)), Ok(()), "others of the namespace");
        assert_eq!(buckets.take(&loud, at(2)), Ok(()), "one every two seconds");
        assert!(buckets.take(&loud, at(2)).is_err());
        assert_eq!(buckets.take(&loud, at(1)).map_err(|full| full.retry_after_s), Err(2), "no clock goes back");
    }

    #[test]
    fn a_namespace_that_says_too_much_leaves_room_for_others() {
        let mut buckets = EventBuckets::default();
        let refused = (0..3000).filter_map(|n| buckets.take(&keys(&n.to_string(), "a", "u"), at(0)).err()).count();
        assert_eq!(refused, 2000, "a burst of 1000 for a namespace");
        let why = "[limit reached on type Namespace for key a, limit reached on type User for key u]".to_owned();
        let both = buckets.take(&keys("x", "a", "u"), at(0));
        assert_eq!(both, Err(TooManyEvents { why, retry_after_s: 1 }), "and so is its user");
        assert_eq!(buckets.take(&keys("x", "b", "v"), at(0)), Ok(()));
    }

    #[test]
    fn buckets_are_forgotten() {
        let mut buckets = EventBuckets::default();
        for n in 0..u64::try_from(BUCKETS_MAX).expect("small") * 3 {
            let _ = buckets.take(&keys(&n.to_string(), &n.to_string(), &n.to_string()), at(n));
            assert!(buckets.0.iter().all(|buckets| buckets.len() <= BUCKETS_MAX));
        }
    }
}
