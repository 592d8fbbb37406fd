//! PURE. The keys that sign the tokens of service accounts. The newest signs; every key of the list verifies what names
//! it, so that a change of the key ends no token.

use super::base64_url::url_safe;
use super::pem::{blocks, pem};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey};
use p256::{PublicKey, SecretKey};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

pub const LABEL: &str = "PRIVATE KEY";
/// Keys that verify at the same time: one a year for decades.
pub const KEYS_MAX: usize = 64;

/// The newest first.
pub struct AccountKeys {
    keys: Vec<AccountKey>,
}

struct AccountKey {
    secret: SecretKey,
    /// Made of the secret for the first token: no start waits for the arithmetic.
    made: OnceLock<Made>,
}

struct Made {
    signing: SigningKey,
    id: String,
}

impl AccountKey {
    fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let id = id(&self.secret.public_key());
            Made { signing: SigningKey::from(&self.secret), id }
        })
    }
}

/// The name of a public key, as a token names its key.
fn id(public: &PublicKey) -> String {
    let der = public.to_public_key_der().expect("a key of the curve has a form");
    url_safe(&Sha256::digest(der.as_bytes()))
}

impl AccountKeys {
    /// `Err`: no key, or one that cannot be read.
    pub fn parse(text: &str) -> Result<AccountKeys, String> {
        let begun = text.matches(&format!("-----BEGIN {LABEL}-----")).count();
        let mut keys = Vec::new();
        for der in blocks(LABEL, text) {
            let secret =
                SecretKey::from_pkcs8_der(&der).map_err(|_| "it holds a key that is no P-256 key in PKCS #8")?;
            keys.push(AccountKey { secret, made: OnceLock::new() });
        }
        match keys.len() {
            0 => Err("it holds no P-256 key in PKCS #8".to_owned()),
            few if few < begun => Err("it holds a key that is not whole".to_owned()),
            many if many > KEYS_MAX => Err(format!("it holds {many} keys, at most {KEYS_MAX}: remove the last ones")),
            _ => Ok(AccountKeys { keys }),
        }
    }

    /// The name of the key that signs.
    pub fn newest(&self) -> &str {
        &self.keys[0].made().id
    }

    /// The numbers r and s, by the newest key.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let signature: Signature = self.keys[0].made().signing.sign(bytes);
        signature.to_bytes().into()
    }

    /// `None`: no key has this name.
    pub fn has_signed(&self, id: &str, bytes: &[u8], signature: &[u8]) -> Option<bool> {
        let key = self.keys.iter().map(AccountKey::made).find(|key| key.id == id)?;
        let signature = Signature::from_slice(signature);
        Some(signature.is_ok_and(|signature| VerifyingKey::from(&key.signing).verify(bytes, &signature).is_ok()))
    }

    /// The public keys, for who verifies tokens elsewhere: name, and the coordinates x and y.
    pub fn public(&self) -> Vec<(String, [u8; 32], [u8; 32])> {
        let one = |key: &AccountKey| {
            let point = key.secret.public_key().to_sec1_point(false);
            let half = |from: usize| <[u8; 32]>::try_from(&point.as_bytes()[from..from + 32]).expect("65 bytes");
            (key.made().id.clone(), half(1), half(33))
        };
        self.keys.iter().map(one).collect()
    }
}

/// A key as text. `random`: its number. `None`: the number is none of the curve, which happens once in 2^32.
pub fn written(random: &[u8; 32]) -> Option<String> {
    let secret = SecretKey::from_slice(random).ok()?;
    let der = secret.to_pkcs8_der().ok()?;
    Some(pem(LABEL, der.as_bytes()))
}

/// The first key of a text.
pub fn read(text: &str) -> Result<SigningKey, String> {
    let der = blocks(LABEL, text).next().ok_or("it is no P-256 key in PKCS #8")?;
    let secret = SecretKey::from_pkcs8_der(&der).map_err(|_| "it is no P-256 key in PKCS #8")?;
    Ok(SigningKey::from(&secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_signs_and_all_verify() {
        let (old, new) = (written(&[1; 32]).expect("a key"), written(&[2; 32]).expect("a key"));
        let before = AccountKeys::parse(&old).expect("a list");
        let signature = before.sign(b"x");
        let after = AccountKeys::parse(&format!("{new}{old}")).expect("a list");
        assert_ne!(after.newest(), before.newest());
        assert_eq!(after.has_signed(before.newest(), b"x", &signature), Some(true));
        assert_eq!(after.has_signed(before.newest(), b"y", &signature), Some(false));
        assert_eq!(after.has_signed(after.newest(), b"x", &signature), Some(false));
        assert_eq!(AccountKeys::parse(&new).expect("a list").has_signed(before.newest(), b"x", &signature), None);
        assert_eq!(after.public().len(), 2);
    }

    #[test]
    fn a_list_that_is_not_whole_is_refused() {
        let key = written(&[1; 32]).expect("a key");
        let torn = format!("{key}{}", &key[..key.len() / 2]);
        for (text, expected) in [
            ("", "no P-256 key"),
            (torn.as_str(), "not whole"),
            ("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n", "no P-256 key"),
            (&key.repeat(KEYS_MAX + 1), "at most 64"),
        ] {
            let why = AccountKeys::parse(text).map(drop).expect_err("refused");
            assert!(why.contains(expected), "{why}");
        }
    }
}
