//! Tokens whose signature was found good: a check of a signature costs ten times as much as all else of a request.
//!
//! Only what the signature says is remembered, never whether a token still counts. The memory is bounded: beyond the
//! limit the tokens that were not shown for the longest time go.

use super::credential::Credential;
use crate::cluster_keys::token::Verified;
use coracle_http::Identity;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens in a generation; there are two. A token takes a kilobyte.
const GENERATION_MAX: usize = 256;

/// What the signature of a token says.
pub struct Signed {
    pub verified: Verified,
    /// The name of the key that has signed.
    pub key: String,
    pub identity: Arc<Identity>,
}

impl Signed {
    pub fn new((verified, key): (Verified, String), hash: &[u8; 32]) -> Signed {
        let identity = super::account::identity(&verified);
        let credential = Credential::Account { verified: verified.clone(), hash: *hash, key: key.clone() };
        Signed { verified, key, identity: Arc::new(credential.of(identity)) }
    }
}

/// By SHA-256 of the token.
type Tokens = HashMap<[u8; 32], Arc<Signed>>;

#[derive(Default)]
pub struct Remembered(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: Tokens,
    old: Tokens,
}

impl Remembered {
    pub fn get(&self, hash: &[u8; 32]) -> Option<Arc<Signed>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signed) = generations.young.get(hash) {
            return Some(signed.clone());
        }
        let signed = generations.old.get(hash)?.clone();
        generations.put(*hash, signed.clone());
        Some(signed)
    }

    pub fn put(&self, hash: [u8; 32], signed: Arc<Signed>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(hash, signed);
    }

    /// After a change of the keys nothing that was signed by an old key may count by memory.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Generations::default();
    }
}

impl Generations {
    fn put(&mut self, hash: [u8; 32], signed: Arc<Signed>) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, signed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_keys::token::{Bound, LegacyClaims};

    fn hash(number: usize) -> [u8; 32] {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        hash
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let remembered = Remembered::default();
        let account = Bound { name: "a".into(), uid: "u".into() };
        let signed = |number| {
            let claims = LegacyClaims::new("ns", "s", &account);
            Arc::new(Signed::new((Verified::Legacy(claims), "k".to_owned()), &hash(number)))
        };
        for number in 0..10 * GENERATION_MAX {
            remembered.put(hash(number), signed(number));
            assert!(remembered.get(&hash(0)).is_some(), "{number}: it is used all the time");
        }
        let held = (0..10 * GENERATION_MAX).filter(|number| {
            let generations = remembered.0.lock().expect("unpoisoned");
            generations.young.contains_key(&hash(*number)) || generations.old.contains_key(&hash(*number))
        });
        let held = held.count();
        assert!((GENERATION_MAX..=2 * GENERATION_MAX).contains(&held), "{held}");
        remembered.forget();
        assert!(remembered.get(&hash(0)).is_none());
    }
}
