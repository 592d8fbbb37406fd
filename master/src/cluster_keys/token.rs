//! Tokens of service accounts: what they claim, and whether a claim still holds. PURE. The signature has no chance in
//! it.
//!
//!     Claims         of a TokenRequest: with an end, and perhaps bound to a pod, a node or a Secret
//!     LegacyClaims   of a Secret of type kubernetes.io/service-account-token: without an end

use super::issuer::Issuer;
use super::{ClusterKeys, from_url_safe, url_safe};
use coracle_api::meta::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The issuer of tokens in Secrets, in the words of Kubernetes.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// A token with one object's name is some hundred bytes; a much longer token is none of ours.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Clocks differ: a token counts for so long before its begin and after its end.
pub const LEEWAY_S: i64 = 60;

/// The life of the tokens that admission mounts into pods.
const MOUNTED_LIFE_S: i64 = 3607;
/// The longest life of a token: kube-apiserver has an option for it, `--service-account-max-token-expiration`.
pub const LIFE_S_MAX: i64 = 365 * 24 * 3600;

/// An object by name, and the uid that tells it from later objects of this name.
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
    /// The end that was asked for, where the token got a later end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// The claims of a token in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyClaims {
    pub iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub uid: String,
    pub sub: String,
}

/// The claims of a token that this cluster has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    Bound(Claims),
    Legacy(LegacyClaims),
}

/// Why a token counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// The token does not say that it is of this cluster.
    Foreign,
    Wrong(&'static str),
}

/// How long a token lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub seconds: i64,
    /// The life that was asked for, where it is shorter.
    pub warn_after: Option<i64>,
}

impl Life {
    /// The life of a token for which so many seconds were asked. `mounted`: the token is bound to a pod, and for this
    /// cluster alone. Old client libraries read the file of a mounted token only once: a token with the marked life
    /// that admission mounts lives for a year, as in Kubernetes. Nobody gets a longer life.
    pub fn of(asked_s: i64, mounted: bool) -> Life {
        match mounted && asked_s == MOUNTED_LIFE_S {
            true => Life { seconds: LIFE_S_MAX, warn_after: Some(asked_s) },
            false => Life { seconds: asked_s.min(LIFE_S_MAX), warn_after: None },
        }
    }

    /// The life as the answer tells it.
    pub fn told_s(self) -> i64 {
        self.warn_after.unwrap_or(self.seconds)
    }
}

pub fn user_of(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

pub fn groups_of(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

impl Bearer {
    pub fn user(&self) -> String {
        user_of(&self.namespace, &self.serviceaccount.name)
    }
}

impl Claims {
    pub fn new(
        issuer: &Issuer,
        mut bearer: Bearer,
        audiences: Vec<String>,
        id: String,
        (now, life): (Time, Life),
    ) -> Claims {
        let now = now.seconds();
        bearer.warnafter = life.warn_after.map(|seconds| now.saturating_add(seconds));
        let (exp, sub) = (now.saturating_add(life.seconds), bearer.user());
        Claims { aud: audiences, exp, iat: now, iss: issuer.name().to_owned(), jti: id, bearer, nbf: now, sub }
    }

    /// Why the token counts for nothing at this time.
    pub fn check_time(&self, now: Time) -> Result<(), &'static str> {
        let now = now.seconds();
        if now.saturating_sub(LEEWAY_S) > self.exp {
            return Err("service account token has expired");
        }
        if now.saturating_add(LEEWAY_S) < self.nbf {
            return Err("service account token is not valid yet");
        }
        Ok(())
    }
}

impl LegacyClaims {
    pub fn new(namespace: &str, secret: &str, account: &Bound) -> LegacyClaims {
        LegacyClaims {
            iss: LEGACY_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.name.clone(),
            uid: account.uid.clone(),
            sub: user_of(namespace, &account.name),
        }
    }
}

impl Verified {
    /// Those of the wanted audiences that the token is for. A token without audiences is for this cluster alone. One
    /// that is for this cluster by its domain of before is for this cluster.
    pub fn audiences(&self, issuer: &Issuer, wanted: &[String]) -> Result<Vec<String>, String> {
        let own = [issuer.name().to_owned()];
        let of = match self {
            Verified::Bound(claims) => claims.aud.as_slice(),
            Verified::Legacy(_) => &own,
        };
        let is_same = |one: &str, wanted: &str| one == wanted || wanted == issuer.name() && Issuer::is_one(one);
        let both = of.iter().filter_map(|one| wanted.iter().find(|wanted| is_same(one, wanted)).cloned());
        let for_both: Vec<String> = both.collect();
        if for_both.is_empty() {
            let (of, wanted) = (listed(of), listed(wanted));
            return Err(format!("token audiences {of} is invalid for the target audiences {wanted}"));
        }
        Ok(for_both)
    }
}

/// A list of texts as Go prints it.
fn listed(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" "))
}

impl ClusterKeys {
    /// A token as a JWS in compact form.
    pub fn token(&self, claims: &Claims) -> String {
        // Tokens of pods are renewed while nothing else happens, and end with their pods: the time need not be kept.
        if claims.bearer.pod.is_none() {
            self.keep_time();
        }
        self.signed(claims)
    }

    /// The token for a Secret of type kubernetes.io/service-account-token.
    pub fn legacy_token(&self, claims: &LegacyClaims) -> String {
        self.signed(claims)
    }

    fn signed(&self, claims: &impl Serialize) -> String {
        let current = self.current();
        let head = json!({"alg": "ES256", "kid": current.accounts.newest()}).to_string();
        let claims = serde_json::to_string(claims).expect("claims are texts and numbers");
        let signed = format!("{}.{}", url_safe(head.as_bytes()), url_safe(claims.as_bytes()));
        let signature = url_safe(&current.accounts.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// What a token claims, and the name of the key that signed it, if this cluster did.
    pub fn claims(&self, token: &str) -> Result<(Verified, String), Unverified> {
        let parts = parts(token).ok_or(Unverified::Foreign)?;
        // What a token says of its own algorithm is compared, never followed.
        let key = parts.head["kid"].as_str().filter(|_| parts.head["alg"] == "ES256").unwrap_or_default();
        let signature = from_url_safe(parts.signature).ok_or(Unverified::Wrong("the signature is malformed"))?;
        match self.current().accounts.has_signed(key, parts.signed.as_bytes(), &signature) {
            None => return Err(Unverified::Wrong("the token is signed by no key of this cluster")),
            Some(false) => return Err(Unverified::Wrong("the signature of the token is wrong")),
            Some(true) => {}
        }
        Ok((parts.claims()?, key.to_owned()))
    }

    /// Whether the key of this name still counts.
    pub fn has_account_key(&self, name: &str) -> bool {
        self.current().accounts.has(name)
    }
}

/// A token that says that it is of this cluster, taken apart.
struct Parts<'t> {
    head: serde_json::Value,
    /// The bytes that are signed.
    signed: &'t str,
    signature: &'t str,
    payload: Vec<u8>,
    legacy: bool,
}

/// `None`: no token that this cluster could have signed.
fn parts(token: &str) -> Option<Parts<'_>> {
    #[derive(Deserialize)]
    struct IssuedBy {
        iss: String,
    }
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (head, payload) = signed.split_once('.')?;
    let (head, payload) = (parsed(head)?, from_url_safe(payload)?);
    let IssuedBy { iss } = serde_json::from_slice(&payload).ok()?;
    let known = Issuer::is_one(&iss) || iss == LEGACY_ISSUER;
    known.then(|| Parts { head, signed, signature, legacy: iss == LEGACY_ISSUER, payload })
}

impl Parts<'_> {
    fn claims(&self) -> Result<Verified, Unverified> {
        let read = match self.legacy {
            true => serde_json::from_slice(&self.payload).map(Verified::Legacy),
            false => serde_json::from_slice(&self.payload).map(Verified::Bound),
        };
        read.map_err(|_| Unverified::Wrong("the token claims nothing that a service account could"))
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
            warnafter: None,
        };
        let life = Life { seconds: 600, warn_after: None };
        Claims::new(&Issuer::default(), bearer, vec!["a".into(), "b".into()], "id".into(), (at(0), life))
    }

    #[test]
    fn a_token_says_what_it_was_told() {
        let (ours, claims) = (identity(1), claims());
        let token = ours.token(&claims);
        let (read, key) = ours.claims(&token).expect("it is ours");
        assert_eq!(read, Verified::Bound(claims));
        assert!(ours.has_account_key(&key) && !ours.has_account_key(""));
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
    fn a_token_of_a_secret_has_no_end() {
        let ours = identity(1);
        let claims = LegacyClaims::new("ns", "s", &Bound { name: "sa".into(), uid: "u".into() });
        let token = ours.legacy_token(&claims);
        let shown: serde_json::Value = parsed(token.split('.').nth(1).expect("a payload")).expect("claims");
        let expected = json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:sa",
            "kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "sa",
            "kubernetes.io/serviceaccount/service-account.uid": "u",
        });
        assert_eq!(shown, expected);
        let (read, _) = ours.claims(&token).expect("it is ours");
        let issuer = Issuer::default();
        let own = vec![issuer.name().to_owned()];
        assert_eq!(read.audiences(&issuer, &own), Ok(own.clone()));
        assert!(read.audiences(&issuer, &["other".to_owned()]).is_err());
        assert_eq!(read, Verified::Legacy(claims));
    }

    #[test]
    fn whose_tokens_are_not_looked_at() {
        let ours = identity(1);
        let sealed = |claims: serde_json::Value| ours.signed(&claims);
        let wrong = |why| Err(Unverified::Wrong(why));
        let nothing = wrong("the token claims nothing that a service account could");
        for (token, expected) in [
            ("rubbish".to_owned(), Err(Unverified::Foreign)),
            ("a.b.c".to_owned(), Err(Unverified::Foreign)),
            (sealed(json!({"iss": "https://elsewhere"})), Err(Unverified::Foreign)),
            (sealed(json!({"sub": "x"})), Err(Unverified::Foreign)),
            (sealed(json!({"iss": Issuer::default().name(), "sub": "x"})), nothing.clone()),
            (sealed(json!({"iss": LEGACY_ISSUER, "sub": "x"})), nothing),
            (identity(2).token(&claims()), wrong("the token is signed by no key of this cluster")),
            (format!("{}AA", ours.token(&claims())), wrong("the signature of the token is wrong")),
            (format!("{}!", ours.token(&claims())), wrong("the signature is malformed")),
        ] {
            assert_eq!(ours.claims(&token), expected, "{token}");
        }
    }

    #[test]
    fn when() {
        let claims = claims();
        let (late, early) = ("service account token has expired", "service account token is not valid yet");
        for (seconds, expected) in [
            (0, Ok(())),
            (660, Ok(())),
            (661, Err(late)),
            (-60, Ok(())),
            (-61, Err(early)),
            (i64::from(i32::MAX), Err(late)),
        ] {
            assert_eq!(claims.check_time(at(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn for_whom() {
        let verified = Verified::Bound(claims());
        let check = |wanted: &[&str], expected: Result<&[&str], &str>| {
            let texts = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
            let issuer = Issuer::of_domain("shop.lan");
            assert_eq!(
                verified.audiences(&issuer, &texts(wanted)),
                expected.map(texts).map_err(str::to_owned),
                "{wanted:?}"
            );
        };
        check(&["b", "c"], Ok(&["b"]));
        // The domain was another one.
        let former = Verified::Bound(Claims { aud: vec![Issuer::default().name().to_owned()], ..claims() });
        let now = Issuer::of_domain("shop.lan");
        let own = vec![now.name().to_owned()];
        assert_eq!(former.audiences(&now, &own), Ok(own.clone()));
        assert!(former.audiences(&now, &["https://kubernetes.default.svc.other.lan".to_owned()]).is_err());
        check(&["c"], Err("token audiences [\"a\" \"b\"] is invalid for the target audiences [\"c\"]"));
    }

    #[test]
    fn a_longer_life_says_what_was_asked() {
        let life = Life { seconds: 31_536_000, warn_after: Some(3607) };
        let Claims { exp, iat, bearer, .. } =
            Claims::new(&Issuer::default(), claims().bearer, Vec::new(), "id".into(), (at(0), life));
        assert_eq!((exp - iat, bearer.warnafter.map(|at| at - iat)), (31_536_000, Some(3607)));
    }

    #[test]
    fn lives() {
        let check = |asked_s, mounted, seconds, warn_after| {
            assert_eq!(Life::of(asked_s, mounted), Life { seconds, warn_after }, "{asked_s} {mounted}");
        };
        check(600, false, 600, None);
        check(3607, false, 3607, None);
        check(3607, true, LIFE_S_MAX, Some(3607));
        check(3608, true, 3608, None);
        check(LIFE_S_MAX, false, LIFE_S_MAX, None);
        check(1 << 32, true, LIFE_S_MAX, None);
    }
}
