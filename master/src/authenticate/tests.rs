use super::*;
use crate::cluster_keys::token::{Bearer, Bound, Claims, LegacyClaims, Life};
use crate::cluster_keys::tokens::{TokenList, TokenWish};
use crate::cluster_keys::{KeyOptions, TOKENS};
use crate::store::Write;
use coracle_api::meta::{Durable, Resource};
use coracle_http::{HeaderMap, HeaderValue, header};
use coracle_schema::base64;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A store and keys of its own, and the folder that goes with them.
struct Bench {
    authenticator: Authenticator,
    keys: Arc<ClusterKeys>,
    store: Arc<dyn Store>,
    folder: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("coracle-authenticate-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).expect("a folder");
        let registry = crate::commit::tests::in_memory();
        let options = KeyOptions { data_dir: folder.clone(), ..KeyOptions::default() };
        let keys = Arc::new(ClusterKeys::open(&registry, options).expect("keys"));
        let store = registry.store.clone();
        Bench { authenticator: Authenticator::new(store.clone(), Some(keys.clone())), keys, store, folder }
    }

    fn put(&self, plural: &'static str, namespace: &str, name: &str, object: Value) {
        let key = key(plural, namespace, name);
        let write = Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() };
        self.store.write(write).expect("it is new");
    }

    fn delete(&self, plural: &'static str, namespace: &str, name: &str) {
        let key = key(plural, namespace, name);
        let seen = self.store.get(&key).expect("readable").expect("it is there").revision;
        self.store.write(Write::Delete { key, seen }).expect("it goes");
    }

    /// An account, a pod and a token that is bound to both.
    fn token(&self, seconds: i64) -> String {
        self.put("serviceaccounts", "ns", "sa", json!({"metadata": {"uid": "u"}}));
        self.put("pods", "ns", "p", json!({"metadata": {"uid": "up"}}));
        self.token_of(self.keys.issuer(), seconds)
    }

    /// A token for this account and this pod.
    fn token_of(&self, issuer: &Issuer, seconds: i64) -> String {
        let bound = |name: &str, uid: &str| Bound { name: name.into(), uid: uid.into() };
        let (pod, serviceaccount) = (Some(bound("p", "up")), bound("sa", "u"));
        let bearer = Bearer { namespace: "ns".into(), node: None, pod, secret: None, serviceaccount, warnafter: None };
        let life = Life { seconds, warn_after: None };
        let (now, audiences) = (self.authenticator.now(), vec![issuer.name().to_owned()]);
        self.keys.token(&Claims::new(issuer, bearer, audiences, "id".into(), (now, life)))
    }

    /// The user of a request with this header, or the refusal.
    fn ask(&self, authorization: Option<&str>, without: WithoutCredentials) -> Result<Arc<Identity>, String> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a value"));
        }
        self.authenticator.identify(&sender(&headers), without).map_err(|Unidentified(why)| why)
    }

    fn bearer(&self, token: &str) -> Result<Arc<Identity>, String> {
        self.ask(Some(&format!("Bearer {token}")), WithoutCredentials::Anonymous)
    }

    /// The error of a TokenReview.
    fn review(&self, token: &str) -> String {
        self.authenticator
            .token(token, &self.authenticator.own_audience())
            .err()
            .map(|why| why.to_string())
            .unwrap_or_default()
    }
}

fn key(plural: &'static str, namespace: &str, name: &str) -> Key {
    Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn sender(headers: &HeaderMap) -> RequestSender<'_> {
    RequestSender { caller: &Caller::Local, uid: None, path: "/", headers, certificate: None }
}

#[test]
fn a_bad_credential_is_nobody_on_every_port() {
    let bench = Bench::new("ports");
    let token = bench.token(600);
    let account = "system:serviceaccount:ns:sa";
    for (shown, on_plain, on_secure) in [
        (None, Ok("system:admin"), Ok("system:anonymous")),
        (Some("Basic YTpi".to_owned()), Err("Unauthorized"), Ok("system:anonymous")),
        (Some("Bearer".to_owned()), Err("Unauthorized"), Ok("system:anonymous")),
        (Some(format!("Bearer  {token}")), Err("Unauthorized"), Ok("system:anonymous")),
        (Some(format!("bearer {token}")), Ok(account), Ok(account)),
        (Some("Bearer nope".to_owned()), Err("Unauthorized"), Err("Unauthorized")),
        (Some(format!("Bearer {token}x")), Err("Unauthorized"), Err("Unauthorized")),
        (Some("Bearer abcdef.0123456789abcdef".to_owned()), Err("Unauthorized"), Err("Unauthorized")),
    ] {
        for (without, expected) in
            [(WithoutCredentials::Administrator, on_plain), (WithoutCredentials::Anonymous, on_secure)]
        {
            let found = bench.ask(shown.as_deref(), without).map(|identity| identity.user.clone());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{shown:?} {without:?}");
        }
    }
}

#[test]
fn a_token_ends_with_the_write_that_deletes_its_pod() {
    let bench = Bench::new("pod");
    // It would have ended before it begins, and hosts without a clock run pods, too.
    let token = bench.token(-1_000_000);
    let identity = bench.bearer(&token).expect("the pod is there");
    assert_eq!(identity.extra["authentication.kubernetes.io/pod-uid"], ["up"]);
    assert!(bench.authenticator.still_valid(&identity));
    bench.delete("pods", "ns", "p");
    assert!(!bench.authenticator.still_valid(&identity));
    assert_eq!(bench.bearer(&token), Err("Unauthorized".to_owned()));
    assert_eq!(bench.review(&token), "[invalid bearer token, service account token has been invalidated]");
    // A pod of this name is not the pod.
    bench.put("pods", "ns", "p", json!({"metadata": {"uid": "later"}}));
    assert!(bench.bearer(&token).is_err() && !bench.authenticator.still_valid(&identity));
    bench.delete("serviceaccounts", "ns", "sa");
    assert_eq!(bench.review(&token), "[invalid bearer token, serviceaccounts \"sa\" not found]");
}

#[test]
fn the_words_of_reviews() {
    let bench = Bench::new("review");
    let token = bench.token(600);
    assert_eq!(bench.review(&token), "");
    assert_eq!(bench.review("rubbish"), "invalid bearer token");
    let elsewhere = bench.authenticator.token(&token, &["vault".to_owned()]).err().map(|why| why.to_string());
    let words = "[invalid bearer token, token audiences [\"https://kubernetes.default.svc.cluster.local\"] is invalid \
                 for the target audiences [\"vault\"]]";
    assert_eq!(elsewhere.as_deref(), Some(words));
    let both = ["vault".to_owned(), Issuer::default().name().to_owned()];
    let accepted = bench.authenticator.token(&token, &both).map(|accepted| accepted.audiences);
    assert_eq!(accepted, Ok(bench.authenticator.own_audience()));
    // Issued while the cluster had another domain.
    let former = bench.token_of(&Issuer::of_domain("before.lan"), 600);
    assert_eq!(bench.review(&former), "");
    assert_eq!(bench.bearer(&former).map(|identity| identity.user.clone()), Ok("system:serviceaccount:ns:sa".into()));
}

#[test]
fn a_token_of_a_secret_ends_with_the_secret() {
    let bench = Bench::new("secret");
    bench.put("serviceaccounts", "ns", "sa", json!({"metadata": {"uid": "u"}}));
    let claims = LegacyClaims::new("ns", "s", &Bound { name: "sa".into(), uid: "u".into() });
    let token = bench.keys.legacy_token(&claims);
    assert_eq!(bench.review(&token), "[invalid bearer token, Token has been invalidated]");
    bench.put("secrets", "ns", "s", json!({"metadata": {}, "data": {"token": base64::encode(token.as_bytes())}}));
    let identity = bench.bearer(&token).expect("the Secret is there");
    assert_eq!((identity.user.as_str(), identity.extra.len()), ("system:serviceaccount:ns:sa", 0));
    assert!(bench.authenticator.still_valid(&identity));
    bench.delete("secrets", "ns", "s");
    assert!(!bench.authenticator.still_valid(&identity) && bench.bearer(&token).is_err());
}

#[test]
fn a_token_ends_with_the_key_that_signed_it() {
    let bench = Bench::new("token-key");
    let before = bench.token(600);
    bench.keys.renew_account_key().expect("renewed");
    let after = bench.token_of(bench.keys.issuer(), 600);
    let [old, new] = [&before, &after].map(|token| bench.bearer(token).expect("both keys count"));
    assert!(bench.authenticator.still_valid(&old) && bench.authenticator.still_valid(&new));
    assert_eq!(bench.keys.drop_old_account_keys(), Ok(1));
    assert!(!bench.authenticator.still_valid(&old) && bench.authenticator.still_valid(&new));
    // The signature is still remembered.
    assert_eq!(bench.bearer(&before), Err("Unauthorized".to_owned()));
    assert!(bench.bearer(&after).is_ok());
    let without = Authenticator::new(bench.store.clone(), None);
    assert!(!without.still_valid(&new));
}

#[test]
fn a_certificate_has_an_end() {
    let bench = Bench::new("certificate-end");
    let now_s = bench.authenticator.now().seconds();
    for (end_s, front_proxy, counts) in
        [(now_s + 1000, false, true), (now_s - 1, false, false), (now_s + 1000, true, true), (now_s - 1, true, false)]
    {
        let common_name = if front_proxy { "front-proxy-client" } else { "ann" }.to_owned();
        let (organizations, serial, fingerprint) = (Vec::new(), vec![7], [1; 32]);
        let standing = coracle_http::Standing::default();
        let certificate =
            ClientCertificate { common_name, organizations, serial, fingerprint, end_s, front_proxy, standing };
        let headers =
            HeaderMap::from_iter([("x-remote-user".parse().expect("a name"), HeaderValue::from_static("ann"))]);
        let sender = RequestSender { certificate: Some(&certificate), ..sender(&headers) };
        let found = bench.authenticator.identify(&sender, WithoutCredentials::Anonymous);
        assert_eq!(found.map(|identity| identity.user.clone()).ok(), counts.then(|| "ann".to_owned()), "{end_s}");
        assert_eq!(bench.authenticator.counts(&certificate), counts);
        let credential = Credential::Certificate { serial: vec![7], fingerprint, end: end_s };
        assert_eq!(bench.authenticator.still_valid(&credential.of(Identity::none())), counts);
    }
}

#[test]
fn a_token_of_a_file_ends_with_its_line() {
    let bench = Bench::new("file");
    let now_s = bench.authenticator.now().seconds();
    let change = |change: &dyn Fn(&mut TokenList) -> String| {
        let changed = bench.keys.folder().update(TOKENS, |text| {
            let mut list = TokenList::parse(text)?;
            let answer = change(&mut list);
            Ok((Some(list.text()), answer))
        });
        changed.expect("the file is written")
    };
    let wish = TokenWish { user: "ann".into(), groups: vec!["staff".into()], ..TokenWish::default() };
    let token = change(&|list| list.make(wish.clone(), now_s, [7; 64].map(|byte| byte)).unwrap_or_default());
    let identity = bench.bearer(&token).expect("it is in the file");
    assert_eq!(
        (identity.user.as_str(), &*identity.groups),
        ("ann", &["staff", Identity::AUTHENTICATED].map(str::to_owned)[..])
    );
    assert!(bench.authenticator.still_valid(&identity));
    let (id, _) = token.split_once('.').expect("two parts");
    assert!(bench.bearer(&format!("{id}.0123456789abcdef")).is_err());
    change(&|list| list.revoke(id).to_string());
    assert!(!bench.authenticator.still_valid(&identity) && bench.bearer(&token).is_err());
}

#[test]
fn a_bootstrap_token_ends_with_its_secret() {
    let bench = Bench::new("bootstrap");
    let encoded = |text: &str| base64::encode(text.as_bytes());
    let data = json!({"token-id": encoded("abcdef"), "token-secret": encoded("0123456789abcdef"),
        "usage-bootstrap-authentication": encoded("true")});
    let secret = json!({"metadata": {}, "type": "bootstrap.kubernetes.io/token", "data": data});
    bench.put("secrets", "kube-system", "bootstrap-token-abcdef", secret);
    let identity = bench.bearer("abcdef.0123456789abcdef").expect("the Secret is there");
    assert_eq!(identity.user, "system:bootstrap:abcdef");
    assert!(bench.authenticator.still_valid(&identity));
    assert!(bench.bearer("abcdef.0123456789abcdee").is_err());
    let elsewhere = bench.authenticator.token("abcdef.0123456789abcdef", &["vault".to_owned()]).err();
    assert_eq!(elsewhere, Some(Refused::Unknown));
    bench.delete("secrets", "kube-system", "bootstrap-token-abcdef");
    assert!(!bench.authenticator.still_valid(&identity));
}

#[test]
fn a_file_says_which_paths_are_open_without_credentials() {
    let bench = Bench::new("anonymous");
    let path = bench.folder.join("authentication.yaml");
    let ask = |anonymous: Value, without| {
        let (version, kind) = ("apiserver.config.k8s.io/v1", "AuthenticationConfiguration");
        let file = json!({"apiVersion": version, "kind": kind, "anonymous": anonymous});
        std::fs::write(&path, file.to_string()).expect("a file");
        let outside = Outside::start(&path, Arc::new(|| Duration::ZERO)).expect("a thread");
        let authenticator = Authenticator::new(bench.store.clone(), None).with_outside(Some(Arc::new(outside)));
        let found = authenticator.identify(&sender(&HeaderMap::new()), without);
        found.map(|identity| identity.user.clone()).map_err(|Unidentified(why)| why)
    };
    let refused = Err("Unauthorized".to_owned());
    for (anonymous, expected) in [
        (Value::Null, Ok(Identity::ANONYMOUS.to_owned())),
        (json!({"enabled": true}), Ok(Identity::ANONYMOUS.to_owned())),
        (json!({"enabled": true, "conditions": [{"path": "/"}]}), Ok(Identity::ANONYMOUS.to_owned())),
        (json!({"enabled": true, "conditions": [{"path": "/livez"}]}), refused.clone()),
        (json!({"enabled": false}), refused.clone()),
        (json!({"enabled": 1}), refused),
    ] {
        assert_eq!(ask(anonymous.clone(), WithoutCredentials::Anonymous), expected, "{anonymous}");
        // Reaching the port is the proof there.
        assert_eq!(ask(anonymous, WithoutCredentials::Administrator), Ok("system:admin".to_owned()));
    }
}

#[test]
fn who_showed_nothing_stays() {
    let bench = Bench::new("nothing");
    for identity in [Identity::administrator(), Identity::anonymous()] {
        assert!(bench.authenticator.still_valid(&identity), "{}", identity.user);
    }
    let unknown = Identity { credential: Some("{}".into()), ..Identity::none() };
    assert!(!bench.authenticator.still_valid(&unknown));
}

#[test]
fn a_kind_of_refusal_has_a_line_a_minute() {
    let (mut told, begun) = (BTreeMap::new(), Instant::now());
    let mut check = |kind, after_s: u64, expected: Option<u64>| {
        assert_eq!(due(&mut told, kind, begun + Duration::from_secs(after_s)), expected, "{kind} {after_s}");
    };
    check("a token", 0, Some(0));
    check("a token", 1, None);
    check("a certificate", 2, Some(0));
    check("a token", 59, None);
    check("a token", 60, Some(2));
    check("a token", 61, None);
}
