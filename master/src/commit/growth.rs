//! One user fills the store slowly at most: what the documents of a user add to it has a rate. Events have limits of
//! their own, by number.
//!
//! Administrators have none: who may delete everything need not be kept from filling the store. The store's own limits
//! stand behind this: what is full is refused to everybody. A write that adds nothing is never refused, nor are the
//! signs of life of a node.

use crate::authorize::MASTERS;
use crate::store::locked;
use coracle_api::meta::Resource;
use coracle_http::Identity;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes that a user may add at once: a quarter of the smallest store, some thousand objects.
const BURST: f64 = 16.0 * 1024.0 * 1024.0;
/// Bytes a second after that: 28 MB an hour.
const RATE: f64 = 8.0 * 1024.0;
/// Users that are remembered; whoever may add most is forgotten first.
const USERS_MAX: usize = 1024;
/// The log has one line on refusals in this time: a flood of refusals must not become a flood of lines.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The signs of life of a node: of each kind a node has one object, and without them the pods of the node go elsewhere.
const SIGNS_OF_LIFE: [(&str, &str); 2] = [("", "nodes"), ("coordination.k8s.io", "leases")];
/// The controllers and the scheduler of a cluster make objects for everybody.
const CONTROLLERS: &str = "system:kube-";

/// What users have added.
pub(super) struct Growth {
    begun: Instant,
    users: Mutex<Users>,
    told: Mutex<Told>,
}

/// The last line of the log on a refusal.
#[derive(Default)]
struct Told {
    at: Option<Duration>,
    left_out: u64,
}

#[derive(Default)]
struct Users(BTreeMap<String, Room>);

/// The bytes that a user may still add; below zero where the last document was larger.
#[derive(Clone, Copy)]
struct Room {
    bytes: f64,
    at: Duration,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth { begun: Instant::now(), users: Mutex::default(), told: Mutex::default() }
    }
}

impl Growth {
    /// Whether a user may add something now. `Err`: in how many seconds it may.
    pub(super) fn may(&self, identity: &Identity) -> Result<(), u32> {
        if !is_bound(identity) {
            return Ok(());
        }
        locked(&self.users).may(&identity.user, self.begun.elapsed())
    }

    /// A refusal, which the log has at most once a minute. Some(n): a line is due, and n refusals had none.
    pub(super) fn refused(&self) -> Option<u64> {
        locked(&self.told).due(self.begun.elapsed())
    }

    /// A document of this user has taken the place of another. Where the store has shrunk, the user may add so much.
    pub(super) fn has_written(&self, identity: &Identity, (new, old): (usize, usize)) {
        if is_bound(identity) && new != old {
            locked(&self.users).add(&identity.user, signed(new) - signed(old), self.begun.elapsed());
        }
    }
}

pub(super) fn is_sign_of_life(identity: &Identity, resource: &Resource) -> bool {
    identity.is_node() && SIGNS_OF_LIFE.contains(&(&*resource.group, &*resource.plural))
}

fn is_bound(identity: &Identity) -> bool {
    !identity.user.starts_with(CONTROLLERS) && !identity.groups.iter().any(|group| group == MASTERS)
}

impl Told {
    fn due(&mut self, now: Duration) -> Option<u64> {
        if self.at.is_some_and(|at| now < at + LINE_EVERY) {
            self.left_out += 1;
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Room {
    fn filled(&self, now: Duration) -> f64 {
        (self.bytes + now.saturating_sub(self.at).as_secs_f64() * RATE).min(BURST)
    }
}

impl Users {
    fn may(&self, user: &str, now: Duration) -> Result<(), u32> {
        let bytes = self.0.get(user).map_or(BURST, |room| room.filled(now));
        if bytes > 0.0 { Ok(()) } else { Err(seconds(-bytes / RATE)) }
    }

    fn add(&mut self, user: &str, bytes: f64, now: Duration) {
        if !self.0.contains_key(user) && self.0.len() >= USERS_MAX {
            let fullest = self.0.iter().max_by(|(_, one), (_, other)| one.filled(now).total_cmp(&other.filled(now)));
            let fullest = fullest.map(|(user, _)| user.clone());
            fullest.map(|user| self.0.remove(&user));
        }
        let room = self.0.entry(user.to_owned()).or_insert(Room { bytes: BURST, at: now });
        *room = Room { bytes: (room.filled(now) - bytes).min(BURST), at: now.max(room.at) };
    }
}

#[expect(clippy::cast_precision_loss, reason = "a document has some megabytes")]
fn signed(bytes: usize) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hours, and never below zero")]
fn seconds(of: f64) -> u32 {
    of.ceil().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1024.0 * 1024.0;

    #[test]
    fn the_log_has_a_line_a_minute() {
        let mut told = Told::default();
        let lines: Vec<Option<u64>> = [0, 1, 59, 60, 61, 200].map(|s| told.due(Duration::from_secs(s))).into();
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn a_user_fills_the_store_slowly() {
        let at = Duration::from_secs;
        let mut users = Users::default();
        for _ in 0..16 {
            assert_eq!(users.may("ann", at(0)), Ok(()));
            users.add("ann", MB, at(0));
        }
        assert_eq!(users.may("ann", at(0)), Err(1));
        assert_eq!(users.may("bob", at(0)), Ok(()));
        assert_eq!(users.may("ann", at(1)), Ok(()));
        users.add("ann", MB, at(1));
        assert_eq!(users.may("ann", at(1)), Err(127), "the last document was larger than what was left");
        users.add("ann", -3.0 * MB, at(1));
        assert_eq!(users.may("ann", at(1)), Ok(()), "who deletes may add");
    }

    #[test]
    fn users_are_forgotten() {
        let mut users = Users::default();
        (0..USERS_MAX * 2).for_each(|n| users.add(&n.to_string(), MB, Duration::ZERO));
        assert_eq!(users.0.len(), USERS_MAX);
    }

    #[test]
    fn administrators_have_no_limit() {
        let identity = |user: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            Identity { user: user.to_owned(), groups, ..Identity::none() }
        };
        let growth = Growth::default();
        for (user, groups, bound) in [
            ("ann", &["system:authenticated"][..], true),
            ("root", &[MASTERS], false),
            ("system:kube-controller-manager", &[], false),
            ("system:node:n", &["system:nodes"], true),
        ] {
            let identity = identity(user, groups);
            growth.has_written(&identity, (40 << 20, 0));
            assert_eq!(growth.may(&identity).is_err(), bound, "{user}");
        }
    }
}
