//! The keys of a cluster change while its master serves: what clients with old files see, and what proxies may say.
//! The client is OpenSSL's.

use coracle_master::cluster_keys::{ClusterKeys, KeyOptions, OwnClient};
use coracle_master::command;
use coracle_master::config::{Config, Deed};
use coracle_master::credentials::Credentials;
use coracle_master::credentials::keys::KeyDeed;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

struct Place {
    folder: PathBuf,
    config: Config,
    port: u16,
}

impl Place {
    fn new(name: &str) -> (Place, coracle_master::Master) {
        let folder = std::env::temp_dir().join(format!("coracle-it-{name}-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        let config = Config {
            data_dir: folder.join("data"),
            secure_listen: Some("127.0.0.1:0".parse().expect("an address")),
            admin_socket: folder.join("run/api.sock"),
            agent_sockets: folder.join("agents"),
            ..Config::default()
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir).expect("a new folder");
        let master = coracle_master::start(&config).expect("a master starts");
        let port = master.secure_address().expect("it listens").port();
        (Place { folder, config, port }, master)
    }

    fn keys(&self) -> ClusterKeys {
        let options = KeyOptions { data_dir: self.config.data_dir.clone(), ..KeyOptions::default() };
        ClusterKeys::of_directory(options).expect("they are there")
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).expect("ours");
    }

    /// A client certificate and its key in a file.
    fn client(&self, file: &str, user: &str) {
        let (certificate, key) = self.keys().sign_client(user, &["system:masters".into()], None).expect("signed");
        self.write(file, &format!("{certificate}{key}"));
    }

    fn own_client(&self, file: &str, of: OwnClient) {
        let (certificate, key) = self.keys().own_client(of).expect("made");
        self.write(file, &format!("{certificate}{key}"));
    }

    fn open(&self, trusted: &str, client: &str, request: &str) -> Child {
        let address = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-x509_strict", "-verify_return_error", "-connect", &address]);
        command.args(["-CAfile", trusted, "-cert", client, "-key", client]).current_dir(&self.folder);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().expect("openssl starts");
        let input = child.stdin.as_mut().expect("it is piped");
        // A client that does not trust the server is gone before it reads.
        let _ = input.write_all(request.as_bytes()).and_then(|()| input.flush());
        child
    }

    /// The whole answer. Nothing: there was no handshake.
    fn ask(&self, (trusted, client): (&str, &str), line: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        );
        let mut child = self.open(trusted, client, &request);
        let mut answer = String::new();
        child.stdout.take().expect("it is piped").read_to_string(&mut answer).expect("text");
        child.kill().ok();
        child.wait().expect("ours");
        answer
    }

    /// Waits until a config map says something.
    fn watch_until(&self, namespace: &str, map: &str, words: &str) {
        let of = format!("/api/v1/namespaces/{namespace}/configmaps?watch=1&fieldSelector=metadata.name={map}");
        let request = format!("GET {of} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut child = self.open("ca.pem", "ann.pem", &request);
        until(child.stdout.as_mut().expect("it is piped"), words);
        child.kill().ok();
        child.wait().expect("ours");
    }

    /// Who a client is, or the code of the refusal.
    fn who(&self, trusted: &str, client: &str, headers: &str) -> String {
        let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let answer = self.ask((trusted, client), &format!("POST {REVIEW}"), headers, body);
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 201") => {
                let review: serde_json::Value = serde_json::from_str(body).expect("JSON");
                review["status"]["userInfo"].to_string()
            }
            Some((head, _)) => head.split(' ').nth(1).unwrap_or_default().to_owned(),
            None => "no handshake".to_owned(),
        }
    }

    fn is(&self, (trusted, client): (&str, &str), user: &str) -> bool {
        self.who(trusted, client, "").contains(&format!("\"username\":\"{user}\""))
    }

    fn run(&self, deed: Credentials) {
        let code = command::run(&Deed::Credentials(deed.clone()), &self.config);
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS), "{deed:?}");
    }
}

fn until(from: &mut impl Read, text: &str) {
    let (mut all, mut byte) = (String::new(), [0]);
    while !all.contains(text) {
        assert_eq!(from.read(&mut byte).expect("it is open"), 1, "it ended: {all}");
        all.push(char::from(byte[0]));
    }
}

#[test]
fn keys_change_while_the_master_serves() {
    let (place, master) = Place::new("keys");
    place.write("old.pem", &place.keys().authority());
    place.write("ca.pem", &place.keys().authority());
    place.client("ann.pem", "ann");
    place.client("eve.pem", "eve");
    // Whoever has stolen the key of the authority signs certificates that no list knows.
    let list = place.config.data_dir.join("keys/issued.json");
    let listed = fs::read(&list).expect("it is there");
    place.client("forged.pem", "mallory");
    fs::write(&list, listed).expect("ours");
    let watch = "GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut forged = place.open("old.pem", "forged.pem", watch);
    let mut watch = place.open("old.pem", "ann.pem", watch);
    let mut events = watch.stdout.take().expect("it is piped");
    until(&mut events, "200 OK");
    let mut forged_events = forged.stdout.take().expect("it is piped");
    until(&mut forged_events, "200 OK");

    place.run(Credentials::Keys(KeyDeed::Renew));
    place.run(Credentials::Keys(KeyDeed::RenewAuthority { now: true }));
    place.run(Credentials::Keys(KeyDeed::List));
    let both = place.keys().authority();
    let new = both.split_inclusive("-----END CERTIFICATE-----\n").next().expect("the first");
    place.write("new.pem", new);
    place.client("bob.pem", "bob");
    for (trusted, client, user) in [("old.pem", "ann.pem", "ann"), ("old.pem", "bob.pem", "bob")] {
        assert!(place.is((trusted, client), user), "{trusted} {client}");
    }
    assert!(place.is(("new.pem", "ann.pem"), "ann") && place.is(("new.pem", "bob.pem"), "bob"));
    place.run(Credentials::UserRevoke("eve".into()));
    assert_eq!(place.who("old.pem", "eve.pem", ""), "401");
    place.run(Credentials::Keys(KeyDeed::RenewTokenKey));
    let key_set = || place.ask(("old.pem", "ann.pem"), "GET /openid/v1/jwks", "", "").matches("\"kid\"").count();
    assert_eq!(key_set(), 2);
    place.run(Credentials::Keys(KeyDeed::DropOldTokenKeys { take: true }));
    assert_eq!(key_set(), 1);

    // No connection was dropped, and every namespace hears of the new authority.
    let map = r#"{"metadata":{"name":"still-heard"}}"#;
    let made = place.ask(("old.pem", "ann.pem"), "POST /api/v1/namespaces/default/configmaps", "", map);
    assert!(made.contains("201 Created"), "{made}");
    until(&mut events, "still-heard");
    until(&mut forged_events, "still-heard");
    place.watch_until("default", "kube-root-ca.crt", r"-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----");

    place.run(Credentials::Keys(KeyDeed::DropOldAuthority { take: false }));
    assert!(place.is(("new.pem", "ann.pem"), "ann"), "it was only shown");
    place.run(Credentials::Keys(KeyDeed::DropOldAuthority { take: true }));
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).expect("the watch of a certificate by the old authority ends");
    forged_events.read_to_end(&mut rest).expect("and of a certificate that nobody has listed");
    for mut client in [watch, forged] {
        client.kill().ok();
        client.wait().expect("ours");
    }
    assert!(!place.is(("new.pem", "ann.pem"), "ann"));
    assert!(place.is(("new.pem", "bob.pem"), "bob"));
    assert_eq!(place.who("old.pem", "bob.pem", ""), "no handshake");
    master.stop();
    let life = fs::read_to_string(place.config.data_dir.join("keys/life.json")).expect("it is kept");
    assert!(life.starts_with("{\"running\":"), "{life}");
    fs::remove_dir_all(&place.folder).ok();
}

#[test]
fn a_proxy_speaks_for_users() {
    let (place, master) = Place::new("proxy-keys");
    place.write("ca.pem", &place.keys().authority());
    place.client("ann.pem", "ann");
    place.own_client("proxy.pem", OwnClient::Extension);
    place.own_client("kubelets.pem", OwnClient::Kubelet);
    let eve = "X-Remote-User: eve\r\nX-Remote-Group: g\r\nX-Remote-Uid: u1\r\n\
               X-Remote-Extra-example.com%2fproject: x\r\n";
    let said = place.who("ca.pem", "proxy.pem", eve);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let expected = serde_json::json!({"username": "eve", "uid": "u1", "groups": ["g", "system:authenticated"],
        "extra": {"example.com/project": ["x"]}});
    assert_eq!(said, expected);
    assert_eq!(place.who("ca.pem", "proxy.pem", ""), "401", "it speaks for nobody");
    // The headers of others say nothing.
    for (client, user) in [("ann.pem", "ann"), ("kubelets.pem", "kube-apiserver-kubelet-client")] {
        let said = place.who("ca.pem", client, eve);
        assert!(said.contains(&format!("\"username\":\"{user}\"")) && !said.contains("eve"), "{said}");
    }
    let (map, words) =
        ("extension-apiserver-authentication", r#""requestheader-allowed-names":"[\"front-proxy-client\"]""#);
    place.watch_until("kube-system", map, words);
    place.watch_until("kube-system", map, r#""requestheader-client-ca-file":"-----BEGIN CERTIFICATE-----"#);
    master.stop();
    fs::remove_dir_all(&place.folder).ok();
}
