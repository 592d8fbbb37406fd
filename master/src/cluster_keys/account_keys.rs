//! PURE. The keys that sign the tokens of service accounts. The newest signs; every key of the list verifies what names
//! it, so that a change of the key ends no token. Of an old key the list has the public half alone.

use super::base64_url::url_safe;
use super::pem::{blocks, pem};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use p256::{PublicKey, SecretKey};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

pub const LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";
/// Keys that verify at the same time: one a year for decades.
pub const KEYS_MAX: usize = 64;

/// The newest first.
pub struct AccountKeys {
    keys: Vec<AccountKey>,
    /// Halves that verify what older keys signed.
    old: Vec<OldKey>,
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

struct OldKey {
    public: PublicKey,
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
        let begun = |label: &str| text.matches(&format!("-----BEGIN {label}-----")).count();
        let mut keys = Vec::new();
        for der in blocks(LABEL, text) {
            let secret =
                SecretKey::from_pkcs8_der(&der).map_err(|_| "it holds a key that is no P-256 key in PKCS #8")?;
            keys.push(AccountKey { secret, made: OnceLock::new() });
        }
        let mut old = Vec::new();
        for der in blocks(PUBLIC_LABEL, text) {
            let public = PublicKey::from_public_key_der(&der).map_err(|_| "it holds a public key of no P-256 key")?;
            old.push(OldKey { id: id(&public), public });
        }
        match (keys.len(), old.len()) {
            (0, _) => Err("it holds no P-256 key in PKCS #8".to_owned()),
            (few, _) if few < begun(LABEL) => Err("it holds a key that is not whole".to_owned()),
            (_, few) if few < begun(PUBLIC_LABEL) => Err("it holds a key that is not whole".to_owned()),
            (many, old) if many + old > KEYS_MAX => {
                Err(format!("it holds {} keys, at most {KEYS_MAX}: remove the last ones", many + old))
            }
            _ => Ok(AccountKeys { keys, old }),
        }
    }

    /// The name of the key that signs.
    pub fn newest(&self) -> &str {
        &self.keys[0].made().id
    }

    /// Whether a key has this name.
    pub fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.made().id == id) || self.old.iter().any(|key| key.id == id)
    }

    /// Keys that verify and sign no more.
    pub fn old_count(&self) -> usize {
        self.keys.len() - 1 + self.old.len()
    }

    /// The numbers r and s, by the newest key.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let signature: Signature = self.keys[0].made().signing.sign(bytes);
        signature.to_bytes().into()
    }

    /// `None`: no key has this name.
    pub fn has_signed(&self, id: &str, bytes: &[u8], signature: &[u8]) -> Option<bool> {
        let of_secret = self.keys.iter().map(AccountKey::made).find(|key| key.id == id);
        let of_old = || self.old.iter().find(|key| key.id == id).map(|key| VerifyingKey::from(&key.public));
        let key = of_secret.map(|key| VerifyingKey::from(&key.signing)).or_else(of_old)?;
        let signature = Signature::from_slice(signature);
        Some(signature.is_ok_and(|signature| key.verify(bytes, &signature).is_ok()))
    }

    /// The public keys, for who verifies tokens elsewhere: name, and the coordinates x and y.
    pub fn public(&self) -> Vec<(String, [u8; 32], [u8; 32])> {
        let one = |id: &str, public: &PublicKey| {
            let point = public.to_sec1_point(false);
            let half = |from: usize| <[u8; 32]>::try_from(&point.as_bytes()[from..from + 32]).expect("65 bytes");
            (id.to_owned(), half(1), half(33))
        };
        let of_secrets = self.keys.iter().map(|key| one(&key.made().id, &key.secret.public_key()));
        of_secrets.chain(self.old.iter().map(|key| one(&key.id, &key.public))).collect()
    }

    /// The list with a new key in front, and the public halves of all others.
    pub fn renewed(&self, new: &str) -> Result<String, String> {
        let mut text = new.to_owned();
        let secrets = self.keys.iter().map(|key| key.secret.public_key());
        for public in secrets.chain(self.old.iter().map(|key| key.public)) {
            let der = public.to_public_key_der().map_err(|error| error.to_string())?;
            text.push_str(&pem(PUBLIC_LABEL, der.as_bytes()));
        }
        AccountKeys::parse(&text).map(|_| text)
    }

    /// The list with the key alone that signs.
    pub fn newest_alone(&self) -> Result<String, String> {
        let der = self.keys[0].secret.to_pkcs8_der().map_err(|error| error.to_string())?;
        Ok(pem(LABEL, der.as_bytes()))
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
    fn of_an_old_key_the_public_half_is_left() {
        let [first, second, third] = [1, 2, 3].map(|number| written(&[number; 32]).expect("a key"));
        let before = AccountKeys::parse(&first).expect("a list");
        let signature = before.sign(b"x");
        let text = before.renewed(&second).expect("renewed");
        let text = AccountKeys::parse(&text).expect("a list").renewed(&third).expect("renewed");
        assert_eq!((text.matches("PRIVATE KEY-----").count(), text.matches("PUBLIC KEY-----").count()), (2, 4));
        let after = AccountKeys::parse(&text).expect("a list");
        assert_eq!((after.old_count(), after.public().len()), (2, 3));
        assert_eq!(after.public()[2].0, before.newest());
        assert_eq!(after.has_signed(before.newest(), b"x", &signature), Some(true));
        assert_eq!(after.has_signed(before.newest(), b"y", &signature), Some(false));
        let alone = AccountKeys::parse(&after.newest_alone().expect("a text")).expect("a list");
        assert!(after.has(before.newest()) && !alone.has(before.newest()) && alone.has(after.newest()));
        assert_eq!((alone.old_count(), alone.newest()), (0, after.newest()));
        assert_eq!(alone.has_signed(before.newest(), b"x", &signature), None);
        assert!(AccountKeys::parse(&text[..text.len() - 40]).is_err(), "it is not whole");
        assert!(AccountKeys::parse(&text.repeat(22)).is_err(), "too many");
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
