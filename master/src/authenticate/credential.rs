//! The credential behind an identity. PURE. An open stream keeps its identity, and so its credential: the stream is
//! ended when the credential ends. No secret is in a credential.

use crate::cluster_keys::token::Verified;
use coracle_http::Identity;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    /// A token of a service account. `hash`: SHA-256 of the token; `key`: the name of the key that has signed.
    Account { verified: Verified, hash: [u8; 32], key: String },
    /// A token of a file. `hash`: SHA-256 of the token's secret part.
    File { id: String, hash: [u8; 32] },
    /// A Secret of Kubernetes' bootstrap type. `hash`: SHA-256 of the token's secret part.
    Bootstrap { id: String, hash: [u8; 32] },
    /// By serial number, and SHA-256 of the certificate. `end`: in seconds since 1970.
    Certificate { serial: Vec<u8>, fingerprint: [u8; 32], end: i64 },
    /// A token of an outside issuer. `rules`: SHA-256 of what the file says of the issuer; `key`: of the key that has
    /// signed; `end`: in seconds since 1970.
    Outside { issuer: String, rules: [u8; 32], key: [u8; 32], end: i64 },
}

impl Credential {
    /// The identity with this credential behind it.
    pub fn of(&self, identity: Identity) -> Identity {
        let words = serde_json::to_string(self).expect("a credential is texts and numbers");
        Identity { credential: Some(words.into()), ..identity }
    }

    /// The credential behind an identity. `Ok(None)`: nothing was shown. `Err`: nobody knows what was shown.
    pub fn behind(identity: &Identity) -> Result<Option<Credential>, String> {
        let Some(words) = &identity.credential else { return Ok(None) };
        serde_json::from_str(words).map(Some).map_err(|error| format!("a credential cannot be read: {error}"))
    }
}
