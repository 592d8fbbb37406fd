//! Tokens of service accounts: what they claim, and whether a claim still holds. PURE. The signature has no chance in
//! it.

use super::{ClusterKeys, from_url_safe, url_safe};
use coracle_api::meta::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Who gives tokens out, and for whom they are when nobody says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// A token with one object's name is some hundred bytes; what is much longer is none of ours.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// A token may be used so long before it was made: clocks differ.
const LEEWAY_S: i64 = 60;

/// An object by name and by what makes it this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The claims of a token about the bearer, in the order and by the names of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub bearer: Bearer,
    pub nbf: i64,
    pub sub: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bearer {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bound>,
    pub serviceaccount: Bound,
}

impl Bearer {
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.serviceaccount.name)
    }

    pub fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl Claims {
    pub fn new(bearer: Bearer, audiences: Vec<String>, id: String, now: Time, life_s: i64) -> Claims {
        let now = now.seconds();
        let (exp, sub) = (now.saturating_add(life_s), bearer.user());
        Claims { aud: audiences, exp, iat: now, iss: ISSUER.to_owned(), jti: id, bearer, nbf: now, sub }
    }

    /// Those of the wanted audiences that the token is for, or why it counts for nothing at this time.
    pub fn good(&self, wanted: &[String], now: Time) -> Result<Vec<String>, String> {
        let now = now.seconds();
        if self.iss != ISSUER {
            return Err(format!("the token was issued by {:?}", self.iss));
        }
        if now >= self.exp {
            return Err("service account token has expired".to_owned());
        }
        if now.saturating_add(LEEWAY_S) < self.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        let for_both: Vec<String> = self.aud.iter().filter(|one| wanted.contains(one)).cloned().collect();
        if for_both.is_empty() {
            return Err(format!("token audiences {:?} is invalid for the target audiences {wanted:?}", self.aud));
        }
        Ok(for_both)
    }
}

impl ClusterKeys {
    /// A token as a JWS in compact form.
    pub fn token(&self, claims: &Claims) -> String {
        self.keep_time();
        let head = json!({"alg": "ES256", "kid": self.accounts.newest()}).to_string();
        let claims = serde_json::to_string(claims).expect("claims are texts and numbers");
        let signed = format!("{}.{}", url_safe(head.as_bytes()), url_safe(claims.as_bytes()));
        let signature = url_safe(&self.accounts.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// What a token claims, if this cluster signed it. `Err`: the reason for a refusal.
    pub fn claims(&self, token: &str) -> Result<Claims, &'static str> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err("the token is too long");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("the token is no JWT")?;
        let (head, claims) = signed.split_once('.').ok_or("the token is no JWT")?;
        let head: serde_json::Value = parsed(head).ok_or("the token is no JWT")?;
        // What a token says of its own algorithm is compared, never followed.
        let key = head["kid"].as_str().filter(|_| head["alg"] == "ES256").unwrap_or_default();
        let signature = from_url_safe(signature).ok_or("the token is no JWT")?;
        match self.accounts.has_signed(key, signed.as_bytes(), &signature) {
            None => return Err("the token is signed by no key of this cluster"),
            Some(false) => return Err("the signature of the token is wrong"),
            Some(true) => {}
        }
        parsed(claims).ok_or("the token claims nothing that a service account could")
    }
}

fn parsed<T: for<'d> Deserialize<'d>>(part: &str) -> Option<T> {
    serde_json::from_slice(&from_url_safe(part)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_keys::tests::keys;

    fn identity(number: u8) -> ClusterKeys {
        keys(&format!("token-{number}"))
    }

    fn at(seconds: i64) -> Time {
        Time::from_seconds(1_600_000_000 + seconds).expect("a time")
    }

    fn claims() -> Claims {
        let bound = |name: &str| Bound { name: name.into(), uid: format!("u-{name}") };
        let bearer = Bearer {
            namespace: "ns".into(),
            node: None,
            pod: Some(bound("p")),
            secret: None,
            serviceaccount: bound("sa"),
        };
        Claims::new(bearer, vec!["a".into(), "b".into()], "id".into(), at(0), 600)
    }

    #[test]
    fn a_token_says_what_it_was_told() {
        let (ours, claims) = (identity(1), claims());
        let token = ours.token(&claims);
        assert_eq!(ours.claims(&token), Ok(claims));
        let parts: Vec<&str> = token.split('.').collect();
        let shown: serde_json::Value = parsed(parts[1]).expect("claims");
        let expected = json!({"aud": ["a", "b"], "exp": 1_600_000_600, "iat": 1_600_000_000, "nbf": 1_600_000_000,
            "jti": "id",
            "iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:ns:sa",
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "u-sa"},
                "pod": {"name": "p", "uid": "u-p"}}});
        assert_eq!(shown, expected);
        assert_eq!(from_url_safe(parts[2]).map(|signature| signature.len()), Some(64));
    }

    #[test]
    fn tokens_of_others() {
        let ours = identity(1);
        let token = ours.token(&claims());
        let parts: Vec<&str> = token.split('.').collect();
        let none = url_safe(br#"{"alg":"none","kid":"k"}"#);
        let other = identity(2).token(&claims());
        let other: Vec<&str> = other.split('.').collect();
        for bad in [
            String::new(),
            "a.b".into(),
            format!("{}.{}", parts[0], parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{}.{}.{}", parts[0], parts[1], other[2]),
            format!("{}.{}.{}", parts[0], other[1].replace('a', "b"), other[2]),
            format!("{token}="),
            "x".repeat(TOKEN_BYTES_MAX + 1),
        ] {
            assert!(ours.claims(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn when_and_for_whom() {
        let claims = claims();
        let check = |wanted: &[&str], seconds: i64, expected: Result<&[&str], &str>| {
            let wanted: Vec<String> = wanted.iter().map(|one| (*one).to_owned()).collect();
            let found = claims.good(&wanted, at(seconds));
            let expected = expected
                .map(|list| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(found, expected, "{wanted:?} {seconds}");
        };
        check(&["b", "c"], 0, Ok(&["b"]));
        check(&["b"], 599, Ok(&["b"]));
        check(&["b"], -60, Ok(&["b"]));
        check(&["b"], -61, Err("service account token is not valid yet"));
        check(&["b"], 600, Err("service account token has expired"));
        check(&["c"], 0, Err("token audiences [\"a\", \"b\"] is invalid for the target audiences [\"c\"]"));
    }
}
