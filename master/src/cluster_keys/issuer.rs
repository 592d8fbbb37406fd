//! Who issues this cluster's tokens, and the documents by which programs elsewhere verify them: OpenID Connect
//! Discovery. PURE.

use super::base64_url::url_safe;
use coracle_api::strategy::is_subdomain;
use serde_json::{Value, json};

/// RFC 7517.
pub const KEY_SET_TYPE: &str = "application/jwk-set+json";

/// A public key: its name in tokens, and its coordinates.
pub type VerifyingCoordinates = (String, [u8; 32], [u8; 32]);

/// The name of the API in pods, without the domain.
const NAME: &str = "https://kubernetes.default.svc.";

/// The issuer of tokens, who is also the audience of tokens for this cluster: `https://kubernetes.default.svc.DOMAIN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer(String);

impl Default for Issuer {
    fn default() -> Issuer {
        Issuer::of_domain("cluster.local")
    }
}

impl Issuer {
    pub fn of_domain(domain: &str) -> Issuer {
        Issuer(format!("{NAME}{domain}"))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether a text names the issuer, by this domain or another. The domain of a cluster may change, and what was
    /// issued before still counts: the signature tells whose a token is.
    pub fn is_one(text: &str) -> bool {
        text.strip_prefix(NAME).is_some_and(is_subdomain)
    }
}

/// Where the keys are: below the issuer's own name, which leads to this server from every pod.
pub fn configuration(issuer: &Issuer) -> Value {
    let issuer = issuer.name();
    json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/openid/v1/jwks"),
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
        let said = configuration(&Issuer::of_domain("shop.lan"));
        assert_eq!(said["issuer"], "https://kubernetes.default.svc.shop.lan");
        for (text, is_one) in [
            (Issuer::default().name(), true),
            ("https://kubernetes.default.svc.shop.lan", true),
            ("https://kubernetes.default.svc.", false),
            ("https://kubernetes.default.svc", false),
            ("https://kubernetes.default.svc.a/b", false),
            ("http://kubernetes.default.svc.shop.lan", false),
        ] {
            assert_eq!(Issuer::is_one(text), is_one, "{text}");
        }
        let issuer = said["issuer"].as_str().expect("an issuer");
        assert!(said["jwks_uri"].as_str().is_some_and(|at| at.starts_with(issuer)), "{said}");
    }
}
