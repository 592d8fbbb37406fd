//! PURE. The public keys of an issuer, as its key set lists them (RFC 7517), and whether a key has signed a token.

use crate::cluster_keys::from_url_safe;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Keys of an issuer: large ones have ten.
pub const KEYS_MAX: usize = 64;
/// Bytes of an RSA key's number: 8,192 bits.
const RSA_BYTES_MAX: usize = 1024;

/// The algorithms that Kubernetes takes. `none` and those with a shared secret are not among them: whoever knows a
/// public key could sign with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

const ALGORITHMS: [(&str, Algorithm); 8] = [
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
];

impl Algorithm {
    pub fn of(name: &str) -> Option<Algorithm> {
        ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Empty: it has none.
    pub id: String,
    /// SHA-256 of the key.
    pub print: [u8; 32],
    /// The one algorithm that it is for, where the issuer says so.
    only: Option<String>,
    numbers: Numbers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The points are not compressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Key {
    kty: String,
    kid: String,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

/// The keys of a key set. Keys of other kinds and for other purposes are passed over. Error: it is no key set, or has
/// no key that a token can be signed with.
pub fn parse(text: &[u8]) -> Result<Vec<PublicKey>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(text).map_err(|error| format!("it is no key set: {error}"))?;
    if set.keys.len() > KEYS_MAX {
        return Err(format!("it has {} keys, at most {KEYS_MAX}", set.keys.len()));
    }
    let known: Vec<PublicKey> = set.keys.into_iter().filter_map(one).collect();
    match known.is_empty() {
        true => Err("it has no RSA key of 2048 bits and more, and no key of P-256 or P-384".to_owned()),
        false => Ok(known),
    }
}

fn one(key: Value) -> Option<PublicKey> {
    let key: Key = serde_json::from_value(key).ok()?;
    if key.purpose.as_ref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let numbers = match (key.kty.as_str(), key.crv.as_str()) {
        ("RSA", _) => {
            let number = |text: &str| {
                let bytes = from_url_safe(text)?;
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                Some(bytes[zeros..].to_vec())
            };
            let (n, e) = (number(&key.n)?, number(&key.e)?);
            let fits = (256..=RSA_BYTES_MAX).contains(&n.len()) && (1..=8).contains(&e.len());
            fits.then_some(Numbers::Rsa { n, e })?
        }
        ("EC", "P-256") => Numbers::P256(point(&key, 32)?),
        ("EC", "P-384") => Numbers::P384(point(&key, 48)?),
        _ => return None,
    };
    let mut print = Sha256::new();
    match &numbers {
        Numbers::Rsa { n, e } => [n, e].into_iter().for_each(|part| print.update(part)),
        Numbers::P256(point) | Numbers::P384(point) => print.update(point),
    }
    Some(PublicKey { id: key.kid, print: print.finalize().into(), only: key.alg, numbers })
}

/// `bytes`: of one coordinate.
fn point(key: &Key, bytes: usize) -> Option<Vec<u8>> {
    let (x, y) = (from_url_safe(&key.x)?, from_url_safe(&key.y)?);
    (x.len() == bytes && y.len() == bytes).then(|| [&[4][..], &x, &y].concat())
}

impl PublicKey {
    /// `name`: of the algorithm, as the token has it.
    pub fn has_signed(&self, name: &str, signed: &[u8], signed_by: &[u8]) -> bool {
        let Some(algorithm) = Algorithm::of(name) else { return false };
        if self.only.as_ref().is_some_and(|only| only != name) {
            return false;
        }
        let rsa = match algorithm {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 => {
                let Numbers::P256(point) = &self.numbers else { return false };
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                return key.verify(signed, signed_by).is_ok();
            }
            Algorithm::Es384 => {
                let Numbers::P384(point) = &self.numbers else { return false };
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                return key.verify(signed, signed_by).is_ok();
            }
        };
        let Numbers::Rsa { n, e } = &self.numbers else { return false };
        RsaPublicKeyComponents { n, e }.verify(rsa, signed, signed_by).is_ok()
    }
}
