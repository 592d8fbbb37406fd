//! Issuers over TLS, with documents and keys of their own.

use super::config::Place;
use super::*;
use crate::cluster_keys::names::{NameSources, ServerNames};
use crate::cluster_keys::token::TOKEN_BYTES_MAX;
use crate::cluster_keys::{ClusterKeys, KeyOptions, pem, url_safe};
use coracle_http::network::{self, NetworkPlane, Port, TlsPort, everybody_is};
use coracle_http::{Answer, HeaderValue, KeySet, Limits, StatusCode, TlsKeys, header};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaKeyPair, RsaPublicKeyComponents};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOW_S: i64 = 1_900_000_000;

fn now() -> Time {
    Time::from_seconds(NOW_S).expect("a time")
}

fn clock() -> Clock {
    Arc::new(|| Duration::from_secs(NOW_S as u64))
}

/// A folder with the keys of a cluster, whose authority signs the certificates of issuers.
struct Bed {
    folder: PathBuf,
    keys: ClusterKeys,
}

impl Drop for Bed {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

impl Bed {
    fn new(name: &str) -> Bed {
        let folder = std::env::temp_dir().join(format!("coracle-outside-{name}-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).expect("a folder");
        let sources = NameSources { addresses: &[Ipv4Addr::LOCALHOST.into()], ..NameSources::default() };
        let names = ServerNames::of(&sources);
        let options = KeyOptions { data_dir: folder.clone(), names, ..KeyOptions::default() };
        let keys = ClusterKeys::open(&crate::commit::tests::in_memory(), options).expect("keys");
        Bed { folder, keys }
    }

    /// The part of a file for an issuer.
    fn jwt(&self, issuer: &TestIssuer) -> Value {
        json!({
            "issuer": {"url": issuer.url, "audiences": ["kube"], "certificateAuthority": &*self.keys.authority()},
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "oidc:"}, "groups": {"claim": "groups", "prefix": ""},
            },
        })
    }

    fn write(&self, jwt: &[Value], anonymous: Value) -> PathBuf {
        let path = self.folder.join("authentication.yaml");
        let mut file = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt,
        });
        file["anonymous"] = anonymous;
        fs::write(&path, file.to_string()).expect("a file");
        path
    }

    fn outside(&self, jwt: &[Value]) -> Outside {
        Outside::start_with(&self.write(jwt, Value::Null), clock(), Duration::ZERO).expect("a thread")
    }

    fn issuer(&self) -> TestIssuer {
        self.issuer_at((Ipv4Addr::LOCALHOST, 0).into())
    }

    fn issuer_at(&self, address: SocketAddr) -> TestIssuer {
        let (chain, key) = self.keys.server().expect("a certificate");
        let set =
            KeySet { chain_pem: chain.as_bytes(), key_pem: key.as_bytes(), client_ca_pem: b"", proxy_ca_pem: b"" };
        let keys = Arc::new(TlsKeys::new(&set, clock()).expect("keys"));
        let documents = Arc::<Mutex<BTreeMap<String, Document>>>::default();
        let asked = Arc::<AtomicUsize>::default();
        let (theirs, counted) = (documents.clone(), asked.clone());
        let handler = Arc::new(move |request: coracle_http::Request| {
            let document = locked(&theirs).get(request.target.path()).cloned();
            if request.target.path() == "/keys" {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            match document {
                None => Answer::text(StatusCode::NOT_FOUND, "nothing"),
                Some(Document::Text(text)) => Answer::json(StatusCode::OK, text),
                Some(Document::Moved(to)) => {
                    let mut answer = Answer::text(StatusCode::FOUND, "there");
                    answer.headers.insert(header::LOCATION, HeaderValue::from_str(&to).expect("an address"));
                    answer
                }
                Some(Document::Held(gate)) => {
                    // It goes on when the test has ended.
                    let _ = locked(&gate).recv();
                    Answer::text(StatusCode::NOT_FOUND, "late")
                }
            }
        });
        let tls = TlsPort { keys, is_revoked: Arc::new(|_| false) };
        let port = Port::secure(Limits::EDGE, everybody_is(Identity::anonymous()), tls);
        let plane = network::start(network::listen(address).expect("a port"), handler, port).expect("a thread");
        let issuer = TestIssuer { url: format!("https://{}", plane.address), plane, documents, asked };
        let discovery = json!({"issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url)});
        issuer.says("/.well-known/openid-configuration", Document::Text(discovery.to_string()));
        issuer
    }

    fn place(&self, issuer: &TestIssuer) -> Place {
        Place {
            issuer: issuer.url.clone(),
            discovery: format!("{}/.well-known/openid-configuration", issuer.url),
            authority: Some(self.keys.authority().to_string()),
        }
    }
}

#[derive(Clone)]
enum Document {
    Text(String),
    Moved(String),
    Held(Arc<Mutex<Receiver<()>>>),
}

struct TestIssuer {
    url: String,
    plane: NetworkPlane,
    documents: Arc<Mutex<BTreeMap<String, Document>>>,
    /// How often the keys were fetched.
    asked: Arc<AtomicUsize>,
}

impl TestIssuer {
    fn says(&self, path: &str, document: Document) {
        locked(&self.documents).insert(path.to_owned(), document);
    }

    fn has(&self, keys: &[&TestKey]) {
        let keys: Vec<&Value> = keys.iter().map(|key| &key.public).collect();
        self.says("/keys", Document::Text(json!({ "keys": keys }).to_string()));
    }

    fn claims(&self, change: Value) -> Value {
        let mut claims = json!({"iss": self.url, "aud": "kube", "sub": "ann", "exp": NOW_S + 600});
        for (name, value) in change.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        claims
    }
}

/// A key of an issuer.
struct TestKey {
    pair: Pair,
    public: Value,
}

enum Pair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl TestKey {
    fn p256(id: &str) -> TestKey {
        let (pair, public) = TestKey::elliptic(id, "P-256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING);
        TestKey { pair: Pair::P256(pair), public }
    }

    fn p384(id: &str) -> TestKey {
        let (pair, public) = TestKey::elliptic(id, "P-384", &signature::ECDSA_P384_SHA384_FIXED_SIGNING);
        TestKey { pair: Pair::P384(pair), public }
    }

    fn elliptic(id: &str, curve: &str, algorithm: &'static EcdsaSigningAlgorithm) -> (EcdsaKeyPair, Value) {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
        let point = &pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        let public = json!({"kty": "EC", "crv": curve, "kid": id, "use": "sig", "x": url_safe(x), "y": url_safe(y)});
        (pair, public)
    }

    /// None: there is no openssl here, which alone makes such keys.
    fn rsa(id: &str) -> Option<TestKey> {
        let arguments = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        let made = Command::new("openssl").args(arguments).output().ok()?;
        assert!(made.status.success(), "openssl genpkey: {}", made.status);
        let der = pem::unpem("PRIVATE KEY", &String::from_utf8_lossy(&made.stdout)).expect("a key in PEM");
        let pair = RsaKeyPair::from_pkcs8(&der).expect("a key");
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
        let public = json!({"kty": "RSA", "kid": id, "n": url_safe(&n), "e": url_safe(&e)});
        Some(TestKey { pair: Pair::Rsa(pair), public })
    }

    fn sign(&self, algorithm: &str, bytes: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa: &'static dyn signature::RsaEncoding = match (&self.pair, algorithm) {
            (Pair::P256(pair) | Pair::P384(pair), _) => {
                return pair.sign(&random, bytes).expect("it signs").as_ref().to_vec();
            }
            (_, "RS384") => &signature::RSA_PKCS1_SHA384,
            (_, "RS512") => &signature::RSA_PKCS1_SHA512,
            (_, "PS256") => &signature::RSA_PSS_SHA256,
            (_, "PS384") => &signature::RSA_PSS_SHA384,
            (_, "PS512") => &signature::RSA_PSS_SHA512,
            _ => &signature::RSA_PKCS1_SHA256,
        };
        let Pair::Rsa(pair) = &self.pair else { panic!("the others have signed") };
        let mut signed = vec![0; pair.public().modulus_len()];
        pair.sign(rsa, &random, bytes, &mut signed).expect("it signs");
        signed
    }

    fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.token_with(json!({"alg": algorithm, "kid": self.public["kid"]}), algorithm, claims)
    }

    fn token_with(&self, head: Value, algorithm: &str, claims: &Value) -> String {
        let signed = format!("{}.{}", url_safe(head.to_string().as_bytes()), url_safe(claims.to_string().as_bytes()));
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", url_safe(&signature))
    }
}

fn user(outside: &Outside, token: &str) -> Result<String, String> {
    outside.identity(token, now()).expect("a token of the issuer").map(|identity| identity.user)
}

fn refused(outside: &Outside, token: &str, expected: &str) {
    let why = user(outside, token).expect_err(expected);
    assert!(why.contains(expected), "{why}, expected {expected}");
}

#[test]
fn whose_tokens_count() {
    let bed = Bed::new("tokens");
    let (issuer, key) = (bed.issuer(), TestKey::p256("one"));
    issuer.has(&[&key, &TestKey::p384("two")]);
    let outside = bed.outside(&[bed.jwt(&issuer)]);
    let token = |change: Value| key.token("ES256", &issuer.claims(change));
    let good = token(json!({"groups": ["staff"]}));
    let identity = outside.identity(&good, now()).expect("of the issuer").expect("it is good");
    assert_eq!(
        (identity.user.as_str(), identity.groups.join(",").as_str()),
        ("oidc:ann", "staff,system:authenticated")
    );
    for (change, expected) in [
        (json!({"exp": NOW_S - 1}), "token is expired: it ended 1 s ago"),
        (json!({"exp": null}), "it has no claim exp"),
        (json!({"exp": "tomorrow"}), "exp is no time"),
        (json!({"nbf": NOW_S + 301}), "before the nbf"),
        (json!({"aud": "other"}), "expected audience"),
        (json!({"sub": null}), "username"),
    ] {
        refused(&outside, &token(change), expected);
    }
    assert_eq!(user(&outside, &token(json!({"nbf": NOW_S + 300}))), Ok("oidc:ann".to_owned()));
    // Of somebody else, or of nobody.
    for other in [token(json!({"iss": "https://else.example"})), "a.b.c".to_owned(), "x".to_owned()] {
        assert!(outside.identity(&other, now()).is_none(), "{other}");
    }
    let long = token(json!({"more": "x".repeat(TOKEN_BYTES_MAX)}));
    assert!(outside.identity(&long, now()).is_none(), "too long");
}

#[test]
fn what_a_token_says_of_its_algorithm_opens_nothing() {
    let bed = Bed::new("algorithms");
    let (issuer, key, other) = (bed.issuer(), TestKey::p256("one"), TestKey::p256("one"));
    issuer.has(&[&key]);
    let outside = bed.outside(&[bed.jwt(&issuer)]);
    let claims = issuer.claims(json!({}));
    let head = |head: Value| key.token_with(head, "ES256", &claims);
    assert_eq!(user(&outside, &head(json!({"alg": "ES256"}))), Ok("oidc:ann".to_owned()), "without kid all are tried");
    for (token, expected) in [
        (head(json!({"alg": "none", "kid": "one"})), "unsupported algorithm \"none\""),
        (head(json!({"alg": "HS256", "kid": "one"})), "unsupported algorithm \"HS256\""),
        (head(json!({"alg": "ES512", "kid": "one"})), "unsupported algorithm \"ES512\""),
        (head(json!({"alg": "RS256", "kid": "one"})), "failed to verify signature"),
        (head(json!({"alg": "ES384", "kid": "one"})), "failed to verify signature"),
        (head(json!({"alg": "ES256", "kid": "two"})), "no key of the issuer is called \"two\""),
        (head(json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false})), "crit"),
        (other.token("ES256", &claims), "failed to verify signature"),
        (other.token_with(json!({"alg": "ES256"}), "ES256", &claims), "no key of the issuer has signed"),
    ] {
        refused(&outside, &token, expected);
    }
    let token = key.token("ES256", &claims);
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    refused(&outside, &format!("{signed}."), "failed to verify signature");
    let (head, _) = signed.split_once('.').expect("two parts");
    let changed = url_safe(issuer.claims(json!({"sub": "root"})).to_string().as_bytes());
    refused(&outside, &format!("{head}.{changed}.{signature}"), "failed to verify signature");
    // A shared secret that everybody knows.
    let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, issuer_keys(&issuer).as_bytes());
    let head = url_safe(json!({"alg": "HS256", "kid": "one"}).to_string().as_bytes());
    let signed = format!("{head}.{}", url_safe(claims.to_string().as_bytes()));
    let tag = ring::hmac::sign(&hmac, signed.as_bytes());
    refused(&outside, &format!("{signed}.{}", url_safe(tag.as_ref())), "unsupported algorithm \"HS256\"");
}

fn issuer_keys(issuer: &TestIssuer) -> String {
    match locked(&issuer.documents).get("/keys") {
        Some(Document::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

#[test]
fn all_algorithms_of_kubernetes() {
    let bed = Bed::new("all");
    let (issuer, p256, p384) = (bed.issuer(), TestKey::p256("256"), TestKey::p384("384"));
    let Some(rsa) = TestKey::rsa("rsa") else {
        eprintln!("there is no openssl here: nothing is tried");
        return;
    };
    let mut bound = TestKey::rsa("bound").expect("as before");
    bound.public["alg"] = "RS256".into();
    let mut enciphers = TestKey::p256("enc");
    enciphers.public["use"] = "enc".into();
    issuer.has(&[&p256, &p384, &rsa, &bound, &enciphers]);
    let outside = bed.outside(&[bed.jwt(&issuer)]);
    let claims = issuer.claims(json!({}));
    for (key, algorithm) in [
        (&p256, "ES256"),
        (&p384, "ES384"),
        (&rsa, "RS256"),
        (&rsa, "RS384"),
        (&rsa, "RS512"),
        (&rsa, "PS256"),
        (&rsa, "PS384"),
        (&rsa, "PS512"),
        (&bound, "RS256"),
    ] {
        assert_eq!(user(&outside, &key.token(algorithm, &claims)), Ok("oidc:ann".to_owned()), "{algorithm}");
    }
    refused(&outside, &bound.token("PS256", &claims), "failed to verify signature");
    refused(&outside, &enciphers.token("ES256", &claims), "no key of the issuer is called \"enc\"");
    let wrong = rsa.token_with(json!({"alg": "PS256", "kid": "rsa"}), "RS256", &claims);
    refused(&outside, &wrong, "failed to verify signature");
}

#[test]
fn keys_that_change() {
    let bed = Bed::new("rotation");
    let (issuer, old, new) = (bed.issuer(), TestKey::p256("old"), TestKey::p256("new"));
    issuer.has(&[&old]);
    let outside = bed.outside(&[bed.jwt(&issuer)]);
    let claims = issuer.claims(json!({}));
    let first = outside.identity(&old.token("ES256", &claims), now()).expect("of the issuer").expect("it is good");
    let counts = |identity: &Identity, now_s: i64| match Credential::behind(identity) {
        Ok(Some(Credential::Outside { issuer, rules, key, end })) => {
            outside.still_counts(&issuer, (&rules, &key), end, Time::from_seconds(now_s).expect("a time"))
        }
        other => panic!("{other:?}"),
    };
    assert!(counts(&first, NOW_S) && counts(&first, NOW_S + 600) && !counts(&first, NOW_S + 601));
    issuer.has(&[&old, &new]);
    assert_eq!(user(&outside, &new.token("ES256", &claims)), Ok("oidc:ann".to_owned()), "the new key is looked for");
    assert!(counts(&first, NOW_S));
    // The issuer withdraws the old key, and a token with a third one makes the master look.
    issuer.has(&[&new]);
    refused(&outside, &TestKey::p256("third").token("ES256", &claims), "no key of the issuer is called \"third\"");
    assert!(!counts(&first, NOW_S), "what was begun with the old key ends");
    refused(&outside, &old.token("ES256", &claims), "no key of the issuer is called \"old\"");
    // Known keys count while the issuer is away.
    let TestIssuer { plane, documents, .. } = issuer;
    locked(&documents).clear();
    assert_eq!(user(&outside, &new.token("ES256", &claims)), Ok("oidc:ann".to_owned()));
    plane.stop();
    refused(&outside, &old.token("ES256", &claims), "no key of the issuer is called \"old\"");
    assert_eq!(user(&outside, &new.token("ES256", &claims)), Ok("oidc:ann".to_owned()));
    assert_eq!(outside.troubles(), Vec::<String>::new(), "its tokens count");
}

#[test]
fn unknown_keys_make_few_fetches() {
    let bed = Bed::new("few");
    let (issuer, key, unknown) = (bed.issuer(), TestKey::p256("one"), TestKey::p256("unknown"));
    issuer.has(&[&key]);
    let path = bed.write(&[bed.jwt(&issuer)], Value::Null);
    let outside = Outside::start_with(&path, clock(), Duration::from_secs(3600)).expect("a thread");
    let claims = issuer.claims(json!({}));
    assert_eq!(user(&outside, &key.token("ES256", &claims)), Ok("oidc:ann".to_owned()));
    for _ in 0..20 {
        refused(&outside, &unknown.token("ES256", &claims), "no key of the issuer is called \"unknown\"");
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 1);
}

#[test]
fn an_issuer_out_of_reach_harms_no_other() {
    let bed = Bed::new("away");
    let (away, slow, well, key) = (bed.issuer(), bed.issuer(), bed.issuer(), TestKey::p256("one"));
    well.has(&[&key]);
    let (release, gate) = sync_channel(0);
    slow.says("/keys", Document::Held(Arc::new(Mutex::new(gate))));
    let TestIssuer { url, plane, .. } = away;
    let address = plane.address;
    plane.stop();
    let of_away = json!({"iss": url, "aud": "kube", "sub": "ann", "exp": NOW_S + 600});
    let mut jwt = bed.jwt(&well);
    jwt["issuer"]["url"] = url.clone().into();
    let outside = bed.outside(&[jwt, bed.jwt(&slow), bed.jwt(&well)]);
    assert_eq!(user(&outside, &key.token("ES256", &well.claims(json!({})))), Ok("oidc:ann".to_owned()));
    refused(&outside, &key.token("ES256", &of_away), "its keys are not known yet");
    refused(&outside, &key.token("ES256", &slow.claims(json!({}))), "its keys are not known yet");
    assert_eq!(user(&outside, &key.token("ES256", &well.claims(json!({})))), Ok("oidc:ann".to_owned()));
    let troubles = outside.troubles();
    assert!(troubles.iter().any(|why| why.starts_with(&format!("{url}: its tokens are refused"))), "{troubles:?}");
    // It comes back, and the next token makes the master look.
    let back = bed.issuer_at(address);
    back.has(&[&key]);
    assert_eq!(user(&outside, &key.token("ES256", &of_away)), Ok("oidc:ann".to_owned()));
    assert!(!outside.troubles().iter().any(|why| why.starts_with(&url)), "{:?}", outside.troubles());
    drop(release);
}

#[test]
fn a_fetch_that_panics_is_not_the_last() {
    let bed = Bed::new("panics");
    let (issuer, key) = (bed.issuer(), TestKey::p256("one"));
    issuer.has(&[&key]);
    let asked = AtomicUsize::new(0);
    let clock: Clock = Arc::new(move || {
        assert!(asked.fetch_add(1, Ordering::Relaxed) > 0, "the first fetch panics");
        Duration::from_secs(NOW_S as u64)
    });
    let pace = source::Pace { clock, pause: Duration::ZERO, waiters: Arc::default() };
    let source = Arc::new(source::KeySource::new(bed.place(&issuer), pace));
    assert!(source.renewed().is_none());
    assert!(source.trouble().is_some_and(|why| why.contains("panicked")), "{:?}", source.trouble());
    assert_eq!(source.renewed().map(|keys| keys.len()), Some(1));
}

#[test]
fn documents_that_are_not_taken() {
    let bed = Bed::new("documents");
    let (issuer, key) = (bed.issuer(), TestKey::p256("one"));
    issuer.has(&[&key]);
    let text = |value: Value| Document::Text(value.to_string());
    let found = |place: &Place| source::fetched(place, &clock()).map(|keys| keys.len());
    let place = bed.place(&issuer);
    assert_eq!(found(&place), Ok(1));
    let many: Vec<Value> = (0..=keys::KEYS_MAX).map(|at| TestKey::p256(&at.to_string()).public).collect();
    let weak = json!({"kty": "RSA", "kid": "weak", "n": url_safe(&[0xff; 128]), "e": "AQAB"});
    let keys_at = |uri: &str| text(json!({"issuer": issuer.url, "jwks_uri": uri}));
    let discovery = "/.well-known/openid-configuration";
    let moved = format!("{}/keys", issuer.url);
    let good = keys_at(&moved);
    for (path, document, expected) in [
        (
            "/keys",
            Document::Text(format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(300 << 10))),
            "longer than 262144",
        ),
        ("/keys", text(json!({ "keys": many })), "65 keys, at most 64"),
        ("/keys", text(json!({"keys": []})), "it has no RSA key"),
        ("/keys", text(json!({"keys": [weak]})), "it has no RSA key"),
        ("/keys", text(json!({"keys": [{"kty": "oct", "k": "AAAA"}]})), "it has no RSA key"),
        ("/keys", Document::Text("<html>".to_owned()), "it is no key set"),
        ("/keys", Document::Moved(moved.clone()), "no redirect is followed"),
        (discovery, Document::Moved(format!("{moved}x")), "no redirect is followed"),
        (discovery, keys_at("http://127.0.0.1/keys"), "URL scheme must be https"),
        (discovery, keys_at(&format!("{}/none", issuer.url)), "404"),
        (
            discovery,
            text(json!({"issuer": "https://else.example", "jwks_uri": moved})),
            "it is the document of the issuer",
        ),
        (discovery, text(json!({"issuer": issuer.url})), "missing field `jwks_uri`"),
        (discovery, Document::Text("x".repeat(65 << 10)), "longer than 65536"),
    ] {
        let before = locked(&issuer.documents).get(path).cloned().expect("a document");
        issuer.says(path, document);
        let why = found(&place).expect_err(expected);
        assert!(why.contains(expected), "{why}, expected {expected}");
        issuer.says(path, before);
    }
    issuer.says(discovery, good);
    assert_eq!(found(&place), Ok(1));
    let foreign = Bed::new("documents-foreign");
    let why = found(&Place { authority: Some(foreign.keys.authority().to_string()), ..place.clone() });
    assert!(why.as_ref().is_err_and(|why| why.contains("invalid peer certificate")), "{why:?}");
    let why = found(&Place { authority: None, ..place });
    assert!(why.is_err(), "the host trusts no such authority: {why:?}");
}

#[test]
fn a_file_that_is_wrong() {
    let bed = Bed::new("file");
    let (issuer, key) = (bed.issuer(), TestKey::p256("one"));
    issuer.has(&[&key]);
    let path = bed.folder.join("authentication.yaml");
    fs::write(&path, "kind: Other").expect("a file");
    let outside = Outside::start_with(&path, clock(), Duration::ZERO).expect("a thread");
    let token = key.token("ES256", &issuer.claims(json!({})));
    refused(&outside, &token, "could never be read");
    assert!(!outside.admits_anonymous("/livez"), "nobody knows whether it is open");
    let troubles = outside.troubles();
    assert!(troubles[0].contains("authentication.yaml") && troubles[0].ends_with("are refused"), "{troubles:?}");
    bed.write(&[bed.jwt(&issuer)], json!({"enabled": true, "conditions": [{"path": "/livez"}]}));
    outside.shared.read();
    assert_eq!((user(&outside, &token), outside.troubles()), (Ok("oidc:ann".to_owned()), Vec::new()));
    assert!(outside.admits_anonymous("/livez") && !outside.admits_anonymous("/readyz"));
    fs::write(&path, "kind: Other").expect("a file");
    outside.shared.read();
    assert_eq!(user(&outside, &token), Ok("oidc:ann".to_owned()), "the file before it counts");
    assert!(outside.troubles()[0].ends_with("what was read before counts"), "{:?}", outside.troubles());
    bed.write(&[], json!({"enabled": false}));
    outside.shared.read();
    assert!(outside.identity(&token, now()).is_none(), "the issuer is gone");
    assert!(!outside.admits_anonymous("/livez"));
    bed.write(&[], Value::Null);
    outside.shared.read();
    assert!(outside.admits_anonymous("/livez"), "the file does not say");
}
