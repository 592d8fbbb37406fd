use super::files::{ACCOUNTS, AUTHORITY_KEY, ISSUED};
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
    let store =
        crate::store_rules::with_rules(&kinds, crate::store::SealKeys::Off, |rules| FlatStore::open(dir, None, rules))
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

fn signed_request(keys: &ClusterKeys, usages: &[String]) -> String {
    keys.sign_request(request::tests::OF_A_NODE, &Requested { usages, ..Requested::default() }).expect("signed")
}

#[test]
fn openssl_takes_every_certificate_in_strict_mode() {
    let place = Place::new("strict");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&["shop.example.com", "2001:db8::5"])).expect("made");
    let write = |name: &str, text: &str| fs::write(place.0.join(name), text).expect("ours");
    write("ca.pem", &keys.authority());
    let (chain, key) = keys.server().expect("made");
    write("server.pem", &chain);
    let (client, _) = keys.sign_client("ann", &["a".into(), "b".into()], None).expect("signed");
    write("client.pem", &client);
    let usages = ["digital signature", "server auth"].map(str::to_owned);
    write("node.pem", &signed_request(&keys, &usages));
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
    assert!(!own.look().server);
    fs::write(place.0.join("k.pem"), "no key").expect("ours");
    assert!(own.look().server);
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
    assert!(!keys.is_revoked(&one), "nothing is read for a request");
    assert!(keys.look().revoked);
    assert_eq!([&one, &other, &bobs].map(|serial| keys.is_revoked(serial)), [true, true, false]);
    assert_eq!(command.revoke_user("ann"), Ok(0));
    // One that ann gets later counts.
    let later = serial(&keys.sign_client("ann", &[], None).expect("signed").0);
    assert!(!keys.is_revoked(&later));
    // A list that cannot be read is no empty one.
    fs::write(place.0.join("keys/revoked"), "what?\n").expect("ours");
    keys.look();
    assert!(keys.is_revoked(&one) && !keys.is_revoked(&bobs), "what was read before counts");
    let blind = ClusterKeys::of_directory(place.options(&[])).expect("they are there");
    assert!(blind.is_revoked(&bobs), "nothing was read before");
    assert!(keys.revoke(&bobs, "bob").is_err());
}

/// A read that fails is repeated also where the file looks as it did then.
#[test]
fn the_keeper_s_certificates_say_when_they_end() {
    let place = Place::new("ends");
    make_missing(&KeyFolder::of(&place.0), &Entropy::open().expect("a random device")).expect("room");
    let (chain, key, roots) = (place.0.join("chain.pem"), place.0.join("key.pem"), place.0.join("roots.pem"));
    let options = KeyOptions {
        server_files: Some((chain.clone(), key)),
        client_authorities: Some(roots.clone()),
        ..place.options(&[])
    };
    let keys = ClusterKeys::of_directory(options).expect("they are there");
    let ends = |seconds: u64| keys.sign_client("ann", &[], Some(Duration::from_secs(seconds))).expect("signed").0;
    let (soon, late) = (ends(1000), ends(100_000));
    fs::write(&chain, format!("{late}{soon}")).expect("ours");
    let told = keys.keepers_certificates();
    let left = told[0].1.as_ref().expect("it is read").seconds() - keys.now().seconds();
    assert!(told[0].0 == chain.display().to_string() && (900..=1000).contains(&left), "the first of a file: {told:?}");
    assert!(told[1].0 == roots.display().to_string() && told[1].1.is_err(), "it is not there: {told:?}");
    fs::write(&roots, "nothing").expect("ours");
    assert!(keys.keepers_certificates()[1].1.as_ref().is_err_and(|why| why.contains("no certificate is in it")));
}

#[test]
fn a_failed_read_is_repeated() {
    let place = Place::new("repeated");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    let told = Arc::new(AtomicU64::new(0));
    let (told_all, bad) = (told.clone(), Arc::new(AtomicU64::new(0)));
    let is_bad = bad.clone();
    keys.follow(Box::new(move |_| {
        told_all.fetch_add(1, Ordering::Relaxed);
        if is_bad.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err("no room".to_owned()) }
    }));
    let path = |name: &str| place.0.join("keys").join(name);
    let modified = |name: &str| fs::metadata(path(name)).expect("there").modified().expect("a time");
    for (name, good) in [("revoked", "0a0b ann\n".to_owned()), (AUTHORITY, keys.authority().to_string())] {
        fs::write(path(name), "?".repeat(good.len())).expect("ours");
        let stamp = keys.folder().stamp(name);
        for _ in 0..2 {
            let why = keys.take_up().expect_err("it cannot be read");
            assert!(why.contains(name), "{why}");
        }
        let at = modified(name);
        fs::write(path(name), &good).expect("ours");
        fs::OpenOptions::new().write(true).open(path(name)).expect("ours").set_modified(at).expect("ours");
        assert_eq!(keys.folder().stamp(name), stamp);
        assert_eq!((keys.take_up(), keys.take_up()), (Ok(()), Ok(())), "{name}");
    }
    assert!(keys.is_revoked(&[10, 11]));
    // A follower that has failed is told again, and no other is.
    let before = told.load(Ordering::Relaxed);
    bad.store(1, Ordering::Relaxed);
    fs::write(path("revoked"), "0c0d bob\n").expect("ours");
    assert_eq!([keys.take_up(), keys.take_up()], [(); 2].map(|()| Err("no room".to_owned())));
    bad.store(0, Ordering::Relaxed);
    assert_eq!((keys.take_up(), keys.take_up()), (Ok(()), Ok(())));
    assert_eq!(told.load(Ordering::Relaxed) - before, 3);
    fs::write(path(TOKENS), "what?").expect("ours");
    assert!(keys.take_up().expect_err("no tokens").contains(TOKENS));
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
    assert_eq!(keys.current().accounts.newest(), old.current().accounts.newest(), "tokens stay valid");
    for name in ["coracle-ca", "coracle-service-account-key"] {
        assert!(!has_secret(&registry, name), "{name}");
    }
    // Secrets that somebody makes later are theirs, and are no keys of the cluster.
    secrets(&registry, &file(AUTHORITY), "somebody's own", "somebody's own");
    let again = ClusterKeys::open(&registry, place.options(&[])).expect("opened");
    assert_eq!(again.authority(), keys.authority());
    assert!(has_secret(&registry, "coracle-ca") && has_secret(&registry, "coracle-service-account-key"));
}

/// Whoever once wrote Secrets in kube-system has planted keys, and the keeper removes the files for new ones.
#[test]
fn planted_secrets_are_no_identity() {
    let (place, other) = (Place::new("planted"), Place::new("planted-from"));
    let (_store, registry) = registry(&place.0);
    let (_, before) = super::tests::registry(&other.0);
    let planted = ClusterKeys::open(&before, other.options(&[])).expect("made");
    let file = |name: &str| fs::read_to_string(other.0.join("keys").join(name)).expect("made");
    let first = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    secrets(&registry, &file(AUTHORITY), &file(AUTHORITY_KEY), &file(ACCOUNTS));
    for name in [AUTHORITY, AUTHORITY_KEY, ACCOUNTS] {
        fs::remove_file(place.0.join("keys").join(name)).expect("ours");
    }
    let second = ClusterKeys::open(&registry, place.options(&[])).expect("made anew");
    assert!(![first.authority(), planted.authority()].contains(&second.authority()));
    assert_ne!(second.current().accounts.newest(), planted.current().accounts.newest());
    assert!(has_secret(&registry, "coracle-ca"), "it stays for the keeper to see");
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

/// A crash after the end of the master's own certificate, and before another was written.
#[test]
fn an_own_certificate_that_has_ended_is_made_anew() {
    let place = Place::new("own-ended");
    let (_store, registry) = registry(&place.0);
    let open = || ClusterKeys::open(&registry, place.options(&[])).expect("opened");
    for of in OwnClient::ALL {
        let keys = open();
        let first = keys.own_client(of).expect("made");
        let serial = |chain: &str| {
            let der = super::pem::unpem(certificate::LABEL, chain).expect("PEM");
            let parsed = certificate::parse(&der).expect("a certificate");
            parsed.tbs_certificate().serial_number().as_bytes().to_vec()
        };
        // No room for the new files: the certificate of before has ended all the same.
        let name = of.certificate_file();
        let partial = place.0.join("keys").join(format!("{name}.partial"));
        fs::create_dir(&partial).expect("ours");
        assert!(keys.make_own_client(of).is_err());
        assert!(keys.is_revoked(&serial(&first.0)), "{of:?}");
        fs::remove_dir(&partial).expect("ours");
        let second = open().own_client(of).expect("made anew");
        assert_ne!(second, first);
        assert!(!open().is_revoked(&serial(&second.0)), "{of:?}");
        let file = place.0.join("keys").join(&name);
        // A crash came before the new files: the certificate of before is not shown.
        fs::write(&file, &second.0).expect("ours");
        keys.revoke(&serial(&second.0), "test").expect("revoked");
        assert_ne!(open().own_client(of), Ok(second));
    }
}

/// The file of one authority alone, as a client has kept it.
fn write(place: &Place, name: &str, text: &str) {
    fs::write(place.0.join(name), text).expect("ours");
}

/// Whether openssl finds a way from a chain to what a client trusts, by a clock.
fn is_trusted(place: &Place, (trusted, chain): (&str, &str), purpose: &str, clock_s: u64) -> bool {
    let arguments = ["verify", "-x509_strict", "-CAfile", trusted, "-untrusted", chain, "-purpose", purpose];
    let clock = clock_s.to_string();
    let mut command = Command::new("openssl");
    command.args(arguments).args(["-attime", &clock, chain]).current_dir(&place.0);
    command.output().expect("openssl runs").status.success()
}

/// 1970, and 2099.
const CLOCKS_S: [u64; 2] = [1, 4_070_908_800];

#[test]
fn a_new_authority_is_noticed_by_no_client() {
    let place = Place::new("renewed");
    let (_store, registry) = registry(&place.0);
    let options = place.options(&[]);
    let keys = ClusterKeys::open(&registry, options.clone()).expect("made");
    let heard = Arc::new(AtomicU64::new(0));
    let counted = heard.clone();
    keys.follow(Box::new(move |change| {
        counted.fetch_add(u64::from(change.authorities), Ordering::Relaxed);
        Ok(())
    }));
    write(&place, "old.pem", &keys.authority());
    write(&place, "ann.pem", &keys.sign_client("ann", &[], None).expect("signed").0);
    let server = |keys: &ClusterKeys| write(&place, "server.pem", &keys.server().expect("made").0);
    let trusted = |file: &str| CLOCKS_S.map(|clock_s| is_trusted(&place, (file, "server.pem"), "sslserver", clock_s));

    // A command publishes it, and the running master takes it up.
    let command = ClusterKeys::of_directory(options.clone()).expect("they are there");
    command.publish_authority().expect("published");
    assert_eq!(keys.stage(), authorities::Stage::Single);
    assert!(keys.look().authorities && heard.load(Ordering::Relaxed) == 1);
    assert_eq!((keys.stage(), keys.signer_name().as_str()), (authorities::Stage::Waiting, "coracle"));
    assert!(!keys.renew_server(&options.names).expect("looked at"), "the old one signs");
    assert_eq!(keys.trust().root.matches("BEGIN CERTIFICATE").count(), 2);
    write(&place, "both.pem", &keys.authority());

    command.switch_authority().expect("switched");
    keys.tend(&options.names).expect("tended");
    assert_eq!((keys.stage(), keys.signer_name().as_str()), (authorities::Stage::Overlap, "coracle-2"));
    server(&keys);
    write(&place, "bob.pem", &keys.sign_client("bob", &[], None).expect("signed").0);
    let new = keys.authority().split_inclusive("-----END CERTIFICATE-----\n").next().expect("the first").to_owned();
    write(&place, "new.pem", &new);
    for file in ["old.pem", "both.pem", "new.pem"] {
        assert_eq!(trusted(file), [true; 2], "{file}");
    }
    for client in ["ann.pem", "bob.pem"] {
        assert!(is_trusted(&place, ("both.pem", client), "sslclient", 1), "{client}");
    }
    let kept = fs::read_to_string(place.0.join("keys/ca.key")).expect("there");
    assert_eq!(kept.matches("BEGIN PRIVATE KEY").count(), 1, "the old key is gone");
    let of_old = keys.signed_by_old().expect("a list");
    assert_eq!(of_old.iter().map(|one| one.user.as_str()).collect::<Vec<_>>(), ["ann"]);

    // A backup carries both, and what lies between them.
    let other = Place::new("renewed-restored");
    for (name, text) in keys.folder().all().expect("read") {
        KeyFolder::of(&other.0).write(&name, &text).expect("written");
    }
    let elsewhere = KeyOptions { data_dir: other.0.clone(), ..options.clone() };
    let restored = ClusterKeys::of_directory(elsewhere).expect("whole");
    assert_eq!((restored.stage(), restored.authority()), (keys.stage(), keys.authority()));
    assert!(!restored.renew_server(&options.names).expect("looked at"), "it is as it was");

    command.drop_old_authority().expect("dropped");
    keys.tend(&options.names).expect("tended");
    server(&keys);
    assert_eq!((trusted("old.pem"), trusted("new.pem")), ([false; 2], [true; 2]));
    assert_eq!(*keys.authority(), *new);
    assert!(!place.0.join("keys/ca-cross.crt").exists());
    assert!(command.drop_old_authority().is_err());
}

/// A host over thirteen years: it loses power every 45 days, which costs five days of running time, its address changes
/// every 100 days, and its clock says 1970 or 2099. A client keeps the authority of the first day.
#[test]
fn certificates_live_for_years() {
    const STEP_DAYS: u64 = 5;
    let place = Place::new("years");
    let (_store, registry) = registry(&place.0);
    let of_day = |day: u64| place.options(&[&format!("10.1.0.{}", 1 + day / 100)]);
    let mut keys = ClusterKeys::open(&registry, of_day(0)).expect("made");
    write(&place, "first.pem", &keys.authority());
    let (ann, _) = keys.sign_client("ann", &[], None).expect("signed");
    write(&place, "ann.pem", &ann);
    let (mut started, mut chains) = (0, vec![keys.server().expect("made").0]);
    for day in (0..13 * 365).step_by(usize::try_from(STEP_DAYS).expect("small")) {
        if day - started >= 45 {
            started = day;
            keys = ClusterKeys::open(&registry, of_day(day)).expect("opened");
        }
        let run = Duration::from_secs((day - started) * 24 * 3600);
        keys.tend_after(run, &of_day(day).names).expect("tended");
        let (chain, key) = keys.server().expect("a pair");
        assert_eq!(coracle_api::strategy::pem::mismatch(&chain, &key), None, "day {day}");
        if chains.last() != Some(&chain) {
            write(&place, "server.pem", &chain);
            for clock_s in CLOCKS_S {
                assert!(is_trusted(&place, ("first.pem", "server.pem"), "sslserver", clock_s), "day {day} {clock_s}");
            }
            chains.push(chain);
        }
    }
    // 48 addresses and a new authority; a certificate is rarely a year old. And no more.
    assert!((49..=62).contains(&chains.len()), "{}", chains.len());
    assert_eq!((keys.stage(), keys.signer_name().as_str()), (authorities::Stage::Overlap, "coracle-2"));
    write(&place, "both.pem", &keys.authority());
    assert!(is_trusted(&place, ("both.pem", "ann.pem"), "sslclient", 1), "a certificate of the first day counts");
    // The master's own certificates were made anew, and those of before count no more.
    let revoked = fs::read_to_string(place.0.join("keys/revoked")).expect("a list");
    let count = |user: &str| revoked.lines().filter(|line| line.ends_with(user)).count();
    assert!((10..=12).contains(&count("front-proxy-client")), "{revoked}");
    assert!((10..=13).contains(&count("kube-apiserver-kubelet-client")), "{revoked}");
}

#[test]
fn tokens_outlive_the_key_that_signed_them() {
    let place = Place::new("accounts");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    let account = token::Bound { name: "sa".into(), uid: "u".into() };
    let token = |keys: &ClusterKeys| keys.legacy_token(&token::LegacyClaims::new("ns", "s", &account));
    let before = token(&keys);
    let command = ClusterKeys::of_directory(place.options(&[])).expect("they are there");
    command.renew_account_key().expect("renewed");
    assert!(keys.look().accounts);
    let after = token(&keys);
    assert_ne!(after, before);
    assert!(keys.claims(&before).is_ok() && keys.claims(&after).is_ok());
    assert_eq!((keys.verifying().len(), keys.old_account_keys()), (2, 1));
    assert_eq!(command.drop_old_account_keys(), Ok(1));
    keys.look();
    assert!(keys.claims(&before).is_err() && keys.claims(&after).is_ok());
    assert_eq!(command.drop_old_account_keys(), Ok(0));
}

#[test]
fn certificates_end_with_their_node() {
    let place = Place::new("nodes");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    let usages = ["digital signature", "client auth"].map(str::to_owned);
    let sign = |by: &str, node: &str| {
        let requested = Requested { usages: &usages, by, node, ..Requested::default() };
        let pem = keys.sign_request(request::tests::OF_A_NODE, &requested).expect("signed");
        let der = super::pem::unpem(certificate::LABEL, &pem).expect("PEM");
        certificate::parse(&der).expect("a certificate").tbs_certificate().serial_number().as_bytes().to_vec()
    };
    let name = keys.issued().expect("a list").certificates.len();
    assert_eq!(name, 0);
    let first = sign("system:bootstrap:abcdef", "");
    let list = keys.issued().expect("a list");
    let node = list.certificates[0].node_name().expect("a node").to_owned();
    let start = |state: NodeState| keys.revoke_departed(|_| state.clone()).expect("done");
    // It has not registered yet, and a start does not catch it.
    assert_eq!((start(NodeState::Gone), keys.is_revoked(&first)), (0, false));
    // It has registered, and a crash came before that was noted.
    assert_eq!(start(NodeState::There("u1".into())), 0);
    assert_eq!(keys.issued().expect("a list").registered(), [(node.clone(), "u1".to_owned())]);
    let written = keys.folder().stamp(ISSUED);
    assert_eq!(keys.settle_node(&node, "u1"), Ok(0));
    assert_eq!(keys.folder().stamp(ISSUED), written, "nothing is written where nothing changes");
    assert_eq!((start(NodeState::There("u1".into())), start(NodeState::Unknown)), (0, 0));
    let renewed = sign(&format!("system:node:{node}"), "u1");
    // The Node went, a crash came, and the same name joins again.
    let again = sign("system:bootstrap:abcdef", "");
    assert_eq!(start(NodeState::Gone), 2);
    assert_eq!([&first, &renewed, &again].map(|serial| keys.is_revoked(serial)), [true, true, false]);
    keys.settle_node(&node, "u2").expect("settled");
    assert!(!keys.is_revoked(&again));
    // The deletion is heard of after the node has joined again.
    let third = sign("system:bootstrap:abcdef", "");
    assert_eq!(keys.settle_node(&node, "u3"), Ok(1));
    assert_eq!(keys.revoke_node(&node, &NodeState::There("u3".into())), Ok(0));
    assert_eq!([&again, &third].map(|serial| keys.is_revoked(serial)), [true, false]);
    assert_eq!(keys.revoke_node(&node, &NodeState::Unknown), Ok(0));
    assert_eq!(keys.revoke_node(&node, &NodeState::Gone), Ok(1));
    assert!(keys.is_revoked(&third));
}

/// Who asks for certificates again and again ends the oldest of them.
#[test]
fn a_superseded_certificate_counts_no_more() {
    let place = Place::new("superseded");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    let usages = ["digital signature", "client auth"].map(str::to_owned);
    let serials: Vec<Vec<u8>> = (0..issued::ISSUED_OF_NODE_MAX + 2)
        .map(|_| {
            let der = super::pem::unpem(certificate::LABEL, &signed_request(&keys, &usages)).expect("PEM");
            certificate::parse(&der).expect("a certificate").tbs_certificate().serial_number().as_bytes().to_vec()
        })
        .collect();
    let revoked: Vec<bool> = serials.iter().map(|serial| keys.is_revoked(serial)).collect();
    assert_eq!(revoked.iter().filter(|revoked| **revoked).count(), 2);
    assert!(revoked[0] && revoked[1]);
    assert_eq!(keys.issued().expect("a list").certificates.len(), issued::ISSUED_OF_NODE_MAX);
}

#[test]
fn own_clients_are_by_their_own_authorities() {
    let place = Place::new("own-authorities");
    let (_store, registry) = registry(&place.0);
    let keys = ClusterKeys::open(&registry, place.options(&[])).expect("made");
    write(&place, "ca.pem", &keys.authority());
    write(&place, "proxies.pem", &keys.trust().proxies);
    for (of, file, other, subject) in [
        (OwnClient::Kubelet, "ca.pem", "proxies.pem", ["kubeadm:cluster-admins", "kube-apiserver-kubelet-client"]),
        (OwnClient::Extension, "proxies.pem", "ca.pem", ["front-proxy-client", "front-proxy-client"]),
    ] {
        write(&place, "own.pem", &keys.own_client(of).expect("made").0);
        for clock_s in CLOCKS_S {
            assert!(is_trusted(&place, (file, "own.pem"), "sslclient", clock_s), "{of:?}");
        }
        assert!(!is_trusted(&place, (other, "own.pem"), "sslclient", 1), "{of:?}");
        let text = openssl(&["x509", "-in", "own.pem", "-noout", "-subject"], &place.0);
        assert!(subject.iter().all(|part| text.contains(part)), "{text}");
    }
}
