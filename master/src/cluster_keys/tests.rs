use super::*;
use crate::cluster_keys::names::NameSources;
use crate::commit::Registry;
use crate::making::Maker;
use crate::store::{FlatStore, Store};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::{Cidr, NodePorts};
use coracle_schema::base64;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of its own, which goes with the value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("coracle-keys-{name}-{}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).expect("ours");
        Place(path)
    }

    fn options(&self, more: &[&str]) -> KeyOptions {
        let more: Vec<String> = more.iter().map(|one| (*one).to_owned()).collect();
        let services = ["10.96.0.1".parse().expect("an address")];
        let sources = NameSources {
            host: Some("shop"),
            services: &services,
            domain: "cluster.local",
            more: &more,
            ..NameSources::default()
        };
        KeyOptions { data_dir: self.0.clone(), names: ServerNames::of(&sources), ..KeyOptions::default() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("ours");
    }
}

/// Keys of a cluster of their own. Their folder is gone: what they hold in memory alone can be asked.
pub fn keys(name: &str) -> ClusterKeys {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let place = Place::new(&format!("{name}-{}", MADE.fetch_add(1, Ordering::Relaxed)));
    let entropy = Entropy::open().expect("a random device");
    make_missing(&KeyFolder::of(&place.0), &entropy).expect("room");
    ClusterKeys::of_directory(place.options(&[])).expect("they are there")
}

fn registry(dir: &Path) -> (FlatStore, Registry) {
    let kinds = Arc::new(Kinds::builtin());
    let store = crate::with_rules(&kinds, crate::store::SealKeys::Off, |rules| FlatStore::open(dir, None, rules))
        .expect("a store")
        .store;
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let cidr = Cidr::parse("10.96.0.0/16").expect("a network");
    let maker = Maker::new(shared.clone(), cidr, NodePorts::default()).expect("a random device");
    (store, Registry::new(kinds, shared, Arc::new(maker)))
}

fn openssl(arguments: &[&str], dir: &Path) -> String {
    let done = Command::new("openssl").args(arguments).current_dir(dir).output().expect("openssl runs");
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "openssl {arguments:?}: {said}");
    said
}

#[test]
fn openssl_takes_every_certificate_in_strict_mode() {
    let place = Place::new("strict");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&["shop.example.com", "2001:db8::5"])).expect("made");
    let write = |name: &str, text: &str| fs::write(place.0.join(name), text).expect("ours");
    write("ca.pem", keys.authority());
    let (chain, key) = keys.server().expect("made");
    write("server.pem", &chain);
    let (client, _) = keys.sign_client("ann", &["a".into(), "b".into()], None).expect("signed");
    write("client.pem", &client);
    let usages = ["digital signature", "server auth"].map(str::to_owned);
    write("node.pem", &keys.sign_request(request::tests::OF_A_NODE, &usages, None).expect("signed"));
    for (file, purpose, attime) in [
        ("server.pem", "sslserver", "1"),
        ("server.pem", "sslserver", "4102444800"),
        ("client.pem", "sslclient", "1"),
        ("node.pem", "sslserver", "1800000000"),
    ] {
        let said = openssl(
            &["verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", purpose, "-attime", attime, file],
            &place.0,
        );
        assert!(said.contains("OK"), "{file}: {said}");
    }
    for name in ["localhost", "kubernetes.default.svc.cluster.local", "shop", "shop.example.com"] {
        openssl(&["verify", "-x509_strict", "-CAfile", "ca.pem", "-verify_hostname", name, "server.pem"], &place.0);
    }
    for address in ["127.0.0.1", "::1", "10.96.0.1", "2001:db8::5"] {
        openssl(&["verify", "-x509_strict", "-CAfile", "ca.pem", "-verify_ip", address, "server.pem"], &place.0);
    }
    let text = openssl(&["x509", "-in", "client.pem", "-noout", "-subject", "-dates", "-ext", "keyUsage"], &place.0);
    assert!(text.contains("O=a, O=b, CN=ann") || text.contains("O = a, O = b, CN = ann"), "{text}");
    assert!(text.contains("notBefore=Jan  1 00:00:00 1970 GMT\nnotAfter=Dec 31 23:59:59 9999 GMT"), "{text}");
    assert_eq!(coracle_api::strategy::pem::mismatch(&chain, &key), None);
}

#[test]
fn a_server_s_certificate_is_made_anew_when_its_names_change() {
    let place = Place::new("names");
    let (_store, registry) = registry(&place.0);
    let open =
        |more: &[&str]| ClusterKeys::open(&registry, place.options(more)).expect("opened").server().expect("made");
    let first = open(&[]);
    assert_eq!(open(&[]), first);
    let second = open(&["b.example.com"]);
    assert_ne!(second, first);
    // A crash came between its two files.
    fs::write(place.0.join("keys/server.key"), first.1).expect("ours");
    assert_ne!(open(&["b.example.com"]), second);
    // A certificate of the keeper's own is served, also when it changes.
    for (name, text) in [("c.pem", &second.0), ("k.pem", &second.1)] {
        fs::write(place.0.join(name), text).expect("ours");
    }
    let files = Some((place.0.join("c.pem"), place.0.join("k.pem")));
    let own = ClusterKeys::open(&registry, KeyOptions { server_files: files, ..place.options(&[]) }).expect("opened");
    assert_eq!(own.server(), Ok(second.clone()));
    let stamp = own.server_stamp();
    fs::write(place.0.join("k.pem"), "no key").expect("ours");
    assert_ne!(own.server_stamp(), stamp);
    let why = own.server().expect_err("they belong to each other no more");
    assert!(why.contains("c.pem"), "{why}");
}

#[test]
fn a_revoked_certificate_counts_no_more() {
    let place = Place::new("revoked");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    let serial = |pem: &str| {
        let der = super::pem::unpem(certificate::LABEL, pem).expect("PEM");
        let parsed = certificate::parse(&der).expect("a certificate");
        parsed.tbs_certificate().serial_number().as_bytes().to_vec()
    };
    let one = serial(&keys.sign_client("ann", &[], None).expect("signed").0);
    let other = serial(&keys.sign_client("ann", &[], Some(Duration::from_secs(60))).expect("signed").0);
    let bobs = serial(&keys.sign_client("bob", &[], None).expect("signed").0);
    assert_eq!(keys.issued().expect("a list").certificates.len(), 3);
    let before = keys.revocations();
    assert!(!keys.is_revoked(&one));
    // By a command, which has the same files.
    let command = ClusterKeys::of_directory(place.options(&[])).expect("they are there");
    assert_eq!(command.revoke_user("ann"), Ok(2));
    assert_ne!(keys.revocations(), before);
    assert_eq!([&one, &other, &bobs].map(|serial| keys.is_revoked(serial)), [true, true, false]);
    assert_eq!(command.revoke_user("ann"), Ok(0));
    // One that ann gets later counts.
    let later = serial(&keys.sign_client("ann", &[], None).expect("signed").0);
    assert!(!keys.is_revoked(&later));
    // A list that cannot be read is no empty one.
    fs::write(place.0.join("keys/revoked"), "what?\n").expect("ours");
    assert!(keys.is_revoked(&one) && !keys.is_revoked(&bobs), "what was read before counts");
    let blind = ClusterKeys::of_directory(place.options(&[])).expect("they are there");
    assert!(blind.is_revoked(&bobs), "nothing was read before");
    assert!(keys.revoke(&bobs, "bob").is_err());
}

/// Secrets as versions before this one made them.
fn secrets(registry: &Registry, certificate: &str, key: &str, account: &str) {
    let data = |texts: &[(&str, &str)]| -> Value {
        texts.iter().map(|(key, text)| ((*key).to_owned(), Value::from(base64::encode(text.as_bytes())))).collect()
    };
    let kind = registry.kind(&Resource::core("secrets")).expect("a kind");
    for (name, data) in [
        ("coracle-ca", data(&[("tls.crt", certificate), ("tls.key", key)])),
        ("coracle-service-account-key", data(&[("key.pem", account)])),
    ] {
        let document = json!({"metadata": {"name": name}, "type": "x/y", "data": data});
        registry.make_own(&kind, "kube-system", &document).map(drop).expect("made");
    }
}

fn has_secret(registry: &Registry, name: &str) -> bool {
    let key = Key { resource: Resource::core("secrets"), namespace: "kube-system".into(), name: name.to_owned() };
    registry.store.get(&key).expect("whole").is_some()
}

#[test]
fn secrets_of_before_are_taken_over_and_removed() {
    let (place, other) = (Place::new("taken"), Place::new("taken-from"));
    let (_store, registry) = registry(&place.0);
    let (_, before) = super::tests::registry(&other.0);
    let old = ClusterKeys::open(&before, other.options(&[])).expect("made");
    let file = |name: &str| fs::read_to_string(other.0.join("keys").join(name)).expect("made");
    secrets(&registry, &file(AUTHORITY), &file(AUTHORITY_KEY), &file(ACCOUNTS));
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("taken over");
    assert_eq!((keys.authority(), keys.authority_hash()), (old.authority(), old.authority_hash()));
    assert_eq!(keys.accounts.newest(), old.accounts.newest(), "tokens stay valid");
    for name in ["coracle-ca", "coracle-service-account-key"] {
        assert!(!has_secret(&registry, name), "{name}");
    }
    // Secrets that somebody makes later are theirs, and are no keys of the cluster.
    secrets(&registry, &file(AUTHORITY), "somebody's own", "somebody's own");
    let again = ClusterKeys::open(&registry, place.options(&[])).expect("opened");
    assert_eq!(again.authority(), keys.authority());
    assert!(has_secret(&registry, "coracle-ca") && has_secret(&registry, "coracle-service-account-key"));
}

/// A power cut between the two files of the authority.
#[test]
fn a_takeover_that_broke_off_goes_on() {
    let (place, other) = (Place::new("broken-off"), Place::new("broken-off-from"));
    let (_store, registry) = registry(&place.0);
    let (_, before) = super::tests::registry(&other.0);
    let old = ClusterKeys::open(&before, other.options(&[])).expect("made");
    let file = |name: &str| fs::read_to_string(other.0.join("keys").join(name)).expect("made");
    secrets(&registry, &file(AUTHORITY), &file(AUTHORITY_KEY), &file(ACCOUNTS));
    let folder = KeyFolder::of(&place.0);
    folder.write(AUTHORITY_KEY, "somebody's own").expect("written");
    let why = ClusterKeys::open(&registry, place.options(&[])).map(drop).expect_err("two authorities");
    assert!(why.contains("keys/ca.key is of another authority than secrets/kube-system/coracle-ca"), "{why}");
    folder.write(AUTHORITY_KEY, &file(AUTHORITY_KEY)).expect("written");
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("taken over");
    assert_eq!(keys.authority(), old.authority());
    assert!(!has_secret(&registry, "coracle-ca"));
}

#[test]
fn a_secret_that_is_unusable_makes_no_new_identity() {
    let place = Place::new("unusable");
    let (_store, registry) = registry(&place.0);
    secrets(&registry, "x", "y", "z");
    let why = ClusterKeys::open(&registry, place.options(&[])).map(drop).expect_err("unusable");
    assert!(why.starts_with("secrets/kube-system/coracle-ca: tls.crt is no certificate; put it right"), "{why}");
    assert!(!place.0.join("keys/ca.crt").exists());
}

#[test]
fn what_nobody_knows_is_not_to_be_deleted() {
    let place = Place::new("unknown");
    let (store, before) = registry(&place.0);
    secrets(&before, "x", "y", "z");
    store.halt();
    drop((store, before));
    fs::remove_dir_all(place.0.join("wal")).expect("a journal");
    let (store, registry) = registry(&place.0);
    let why = ClusterKeys::open(&registry, place.options(&[])).map(drop).expect_err("acknowledged records are missing");
    assert!(store.frozen().is_some() && why.starts_with("secrets/kube-system/coracle-ca: wal/"), "{why}");
    assert!(why.contains("store salvage") && !why.contains("delete"), "{why}");
    assert!(!place.0.join("keys").exists(), "no new identity is made");
}

#[test]
fn the_master_has_names_of_its_own() {
    let place = Place::new("own");
    let (_store, registry) = registry(&place.0);
    let open = || ClusterKeys::open(&registry, place.options(&[])).expect("opened");
    let first = open().own_client(OwnClient::Kubelet).expect("made");
    assert_eq!(open().own_client(OwnClient::Kubelet), Ok(first.clone()));
    assert_ne!(open().own_client(OwnClient::Extension).expect("made"), first);
    for file in [AUTHORITY, AUTHORITY_KEY] {
        fs::remove_file(place.0.join("keys").join(file)).expect("ours");
    }
    assert_ne!(open().own_client(OwnClient::Kubelet), Ok(first), "the authority is another");
}

#[test]
fn half_an_authority_is_told() {
    let place = Place::new("half");
    let (_store, registry) = registry(&place.0);
    let first = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    // A crash came before the certificate.
    fs::remove_file(place.0.join("keys/ca.crt")).expect("ours");
    let second = ClusterKeys::open(&registry, place.options(&[])).expect("made again of the key");
    assert_eq!(second.authority_hash(), first.authority_hash());
    fs::remove_file(place.0.join("keys/ca.key")).expect("ours");
    let why = ClusterKeys::open(&registry, place.options(&[])).map(drop).expect_err("half of it");
    assert!(why.contains("keys/ca.key is not there, and ca.crt is: put it back"), "{why}");
}
