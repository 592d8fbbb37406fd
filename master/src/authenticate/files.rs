//! The tokens of the file `tokens.json`, by whom they were made: `ID.SECRET`.
//!
//! The file is read again when it differs, so that `token revoke` counts from the next request on.

use super::account::same;
use crate::cluster_keys::files::Stamp;
use crate::cluster_keys::revoked::from_hex;
use crate::cluster_keys::tokens::{StaticToken, TokenList};
use crate::cluster_keys::{ClusterKeys, TOKENS};
use crate::store::locked;
use coracle_api::meta::Time;
use coracle_http::Identity;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ID_LETTERS: usize = 6;
const SECRET_LETTERS_MAX: usize = 64;
/// The pause before a file that could not be read is read again: requests by strangers ask for it.
const RETRY: Duration = Duration::from_secs(1);
/// The group of hosts that join, of which a join token's other groups are subgroups.
const BOOTSTRAPPERS: &str = "system:bootstrappers";

/// The file as it was read last.
#[derive(Default)]
pub struct StaticTokens(Mutex<Known>);

#[derive(Default)]
struct Known {
    stamp: Option<Stamp>,
    /// The file that could not be read, when, and why.
    failed: Option<(Stamp, Instant, String)>,
    /// `None`: it has never been readable.
    list: Option<TokenList>,
    /// When this process saw a token with a limited life first, by id.
    seen: BTreeMap<String, Instant>,
}

/// The id of a token of this form, and SHA-256 of its secret.
pub fn parts(token: &str) -> Option<(&str, [u8; 32])> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = id.len() == ID_LETTERS && (1..=SECRET_LETTERS_MAX).contains(&secret.len());
    (fits && plain(id) && plain(secret)).then(|| (id, Sha256::digest(secret).into()))
}

impl StaticTokens {
    /// Whose a token is. `Err`: the token is known and does not count any more, or nobody knows which tokens there are.
    pub fn identity(
        &self,
        keys: &ClusterKeys,
        (id, secret): (&str, &[u8; 32]),
        now: Time,
    ) -> Result<Option<Identity>, String> {
        let mut known = locked(&self.0);
        let (folder, stamp) = (keys.folder(), keys.folder().stamp(TOKENS));
        known.read_changed(stamp, Instant::now(), || {
            let read = folder.read(TOKENS).and_then(|text| TokenList::parse(&text.unwrap_or_default()));
            read.map_err(|why| format!("{}: {why}", folder.path(TOKENS).display()))
        });
        let list = known.list.as_ref().ok_or_else(|| format!("{} cannot be read", folder.path(TOKENS).display()))?;
        let Some(token) = list.tokens.iter().find(|token| token.id == id) else { return Ok(None) };
        let run = known.seen.get(id).map(Instant::elapsed).unwrap_or_default();
        whose(token, secret, now, run)
    }
}

impl Known {
    /// Reads a file that differs from the file that was read last. One that cannot be read is read again after `RETRY`,
    /// or when it differs.
    fn read_changed(&mut self, stamp: Stamp, now: Instant, read: impl FnOnce() -> Result<TokenList, String>) {
        let waits =
            |(failed, at, _): &(Stamp, Instant, String)| *failed == stamp && now.saturating_duration_since(*at) < RETRY;
        if self.stamp == Some(stamp) && self.failed.is_none() || self.failed.as_ref().is_some_and(waits) {
            return;
        }
        match read() {
            Ok(list) => {
                self.take(list);
                (self.stamp, self.failed) = (Some(stamp), None);
            }
            Err(why) => {
                if self.failed.as_ref().is_none_or(|(_, _, before)| *before != why) {
                    log::error!("{why}; what was read before counts");
                }
                self.failed = Some((stamp, now, why));
            }
        }
    }

    fn take(&mut self, list: TokenList) {
        let mut before = std::mem::take(&mut self.seen);
        let limited = list.tokens.iter().filter(|token| token.life_s > 0);
        self.seen =
            limited.map(|token| (token.id.clone(), before.remove(&token.id).unwrap_or_else(Instant::now))).collect();
        self.list = Some(list);
    }
}

/// `run`: how long this process has known the token. A clock that stands does not make a token's life longer.
fn whose(token: &StaticToken, secret: &[u8; 32], now: Time, run: Duration) -> Result<Option<Identity>, String> {
    let hash = from_hex(&token.hash).and_then(|hash| <[u8; 32]>::try_from(hash).ok());
    if !hash.is_some_and(|hash| same(&hash, secret)) {
        return Ok(None);
    }
    let ended = token.expires != 0 && token.expires <= now.seconds();
    if ended || token.life_s != 0 && run.as_secs() >= token.life_s {
        return Err(format!("token {} has expired", token.id));
    }
    let mut groups = token.groups.clone();
    if token.join {
        // Whatever the file says: a token for joining gives no other power.
        groups.retain(|group| group == BOOTSTRAPPERS || group.starts_with("system:bootstrappers:"));
    }
    if !groups.iter().any(|group| group == Identity::AUTHENTICATED) {
        groups.push(Identity::AUTHENTICATED.to_owned());
    }
    Ok(Some(Identity { user: token.user.clone(), uid: token.uid.clone(), groups, ..Identity::none() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_token() {
        let secret: [u8; 32] = Sha256::digest("secret").into();
        let good = StaticToken {
            id: "abcdef".into(),
            hash: crate::cluster_keys::revoked::hex(&secret),
            user: "ann".into(),
            groups: vec!["staff".into()],
            ..StaticToken::default()
        };
        let now = Time::from_seconds(1000).expect("a time");
        let check = |token: StaticToken, run_s: u64, expected: Result<Option<&[&str]>, &str>| {
            let found = whose(&token, &secret, now, Duration::from_secs(run_s));
            let found = found.map(|found| found.map(|found| (found.user, found.groups)));
            let expected = expected.map(|groups| {
                groups.map(|groups| (token.user.clone(), groups.iter().map(|one| (*one).to_owned()).collect()))
            });
            assert_eq!(found, expected.map_err(str::to_owned), "{token:?} {run_s}");
        };
        let usual: &[&str] = &["staff", "system:authenticated"];
        let late = Err("token abcdef has expired");
        check(good.clone(), 0, Ok(Some(usual)));
        check(StaticToken { hash: crate::cluster_keys::revoked::hex(&[0; 32]), ..good.clone() }, 0, Ok(None));
        check(StaticToken { expires: 1001, ..good.clone() }, 0, Ok(Some(usual)));
        check(StaticToken { expires: 1000, ..good.clone() }, 0, late.clone());
        // The clock is far behind, and the process runs.
        check(StaticToken { expires: 9000, life_s: 60, ..good.clone() }, 59, Ok(Some(usual)));
        check(StaticToken { expires: 9000, life_s: 60, ..good.clone() }, 60, late);
        let groups = ["system:masters", "system:bootstrappers", "system:bootstrappers:x"];
        let groups = groups.map(str::to_owned).to_vec();
        let joining: &[&str] = &["system:bootstrappers", "system:bootstrappers:x", "system:authenticated"];
        check(StaticToken { join: true, groups, ..good }, 0, Ok(Some(joining)));
    }

    #[test]
    fn a_failed_read_is_repeated() {
        let (mut known, start, stamp) = (Known::default(), Instant::now(), Stamp::default());
        let reads = std::cell::Cell::new(0);
        let mut look = |after_ms: u64, outcome: Result<(), &str>| {
            known.read_changed(stamp, start + Duration::from_millis(after_ms), || {
                reads.set(reads.get() + 1);
                outcome.map(|()| TokenList::default()).map_err(str::to_owned)
            });
            (reads.get(), known.list.is_some())
        };
        assert_eq!(look(0, Err("too many open files")), (1, false));
        assert_eq!(look(999, Ok(())), (1, false), "strangers do not make it read the file at each request");
        assert_eq!(look(1000, Ok(())), (2, true));
        assert_eq!(look(9000, Ok(())), (2, true), "it has not changed since");
    }

    #[test]
    fn forms() {
        for (token, expected) in [
            ("abcdef.0123456789abcdef", true),
            ("abcdef.0123456789abcdef0123456789abcdef", true),
            ("abcdef.", false),
            ("abcde.0123456789abcdef", false),
            ("abcdef.0123-56789abcdef", false),
            ("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln", false),
        ] {
            assert_eq!(parts(token).is_some(), expected, "{token}");
        }
    }
}
