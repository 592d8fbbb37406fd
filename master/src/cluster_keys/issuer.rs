//! The documents by which programs elsewhere verify this cluster's tokens: OpenID Connect Discovery. PURE.

use super::token::ISSUER;
use super::{ClusterKeys, url_safe};
use serde_json::{Value, json};

/// RFC 7517.
pub const KEY_SET_TYPE: &str = "application/jwk-set+json";

/// A public key: its name in tokens, and its coordinates.
pub type VerifyingCoordinates = (String, [u8; 32], [u8; 32]);

/// Where the keys are: below the issuer's own name, which leads to this server from every pod.
pub fn configuration() -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

/// All keys that verify.
pub fn key_set(keys: &[VerifyingCoordinates]) -> Value {
    let one = |(id, x, y): &VerifyingCoordinates| {
        json!({
            "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": "ES256", "x": url_safe(x), "y": url_safe(y),
        })
    };
    json!({"keys": keys.iter().map(one).collect::<Vec<_>>()})
}

impl ClusterKeys {
    /// The public keys that verify tokens.
    pub fn verifying(&self) -> Vec<VerifyingCoordinates> {
        self.current().accounts.public()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_find_the_keys() {
        let set = key_set(&[("k".to_owned(), [0; 32], [255; 32]), ("l".to_owned(), [1; 32], [2; 32])]);
        let first = json!({
            "use": "sig", "kty": "EC", "kid": "k", "crv": "P-256", "alg": "ES256",
            "x": "A".repeat(43), "y": format!("{}8", "_".repeat(42)),
        });
        assert_eq!((set["keys"].as_array().map(Vec::len), &set["keys"][0]), (Some(2), &first));
        let said = configuration();
        let issuer = said["issuer"].as_str().expect("an issuer");
        assert!(said["jwks_uri"].as_str().is_some_and(|at| at.starts_with(issuer)), "{said}");
    }
}
