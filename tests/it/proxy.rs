//! The way through the master to other servers: what goes there, what comes back, and where it never leads.

use crate::transcript::{Bed, Reply, ask, check};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn refusals() {
    check("v1-proxy");
}

/// Another server: says what it was asked, and answers what it is told by the path.
struct Far {
    address: SocketAddr,
    asked: Receiver<Asked>,
}

#[derive(Debug)]
struct Asked {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Far {
    fn at(address: IpAddr) -> Far {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        Far { address, asked: answering(move || listener.accept().map(|(stream, _)| stream)) }
    }

    fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).expect("it is asked")
    }

    fn is_left_alone(&self) -> bool {
        self.asked.try_recv().is_err()
    }
}

/// The same on a socket's file: what it was asked.
fn agent_at(socket: &Path) -> Receiver<Asked> {
    let listener = UnixListener::bind(socket).expect("a socket");
    answering(move || listener.accept().map(|(stream, _)| stream))
}

fn answering<S: Read + Write>(accept: impl Fn() -> io::Result<S> + Send + 'static) -> Receiver<Asked> {
    let (tell, asked) = channel();
    thread::spawn(move || {
        while let Ok(mut stream) = accept() {
            let Some(request) = read(&mut stream) else { continue };
            answer(stream, &request);
            if tell.send(request).is_err() {
                return;
            }
        }
    });
    asked
}

fn read(stream: &mut impl Read) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line: line.trim_end().to_owned(), headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn answer(mut stream: impl Write, request: &Asked) {
    let head = match request.line.split(' ').nth(1).unwrap_or_default() {
        "/moved" => "HTTP/1.1 302 Found\r\nLocation: /login?x=1\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "/teapot" => "HTTP/1.1 418 I'm a teapot\r\nX-Far: yes\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
                      Keep-Alive: 5\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n<a href=\"/x\">tea</a>\r\n"
            .to_owned(),
        "/stream" => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n";
            let events: String = (0..3).map(|n| format!("8\r\nevent {n}\n\r\n")).collect();
            format!("{head}{events}0\r\n\r\n")
        }
        "/changes" => {
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw".to_owned()
        }
        path if path.starts_with("/containerLogs/") => {
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nfar".to_owned()
        }
        _ => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nfar".to_owned(),
    };
    let _ = stream.write_all(head.as_bytes());
}

/// Set for a test that runs once more in a namespace of its own.
const INSIDE: &str = "CORACLE_INSIDE_NAMESPACE";
/// Of those that documentation may use: nobody has it.
const ADDRESS_INSIDE: &str = "203.0.113.7";

/// This host's address towards others. None: it has no other than itself.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((ADDRESS_INSIDE, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    Some(address).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

/// An address that is asked through. Where the host has none, the test runs again in a network namespace that has one,
/// and this is None: there is no more to do here.
fn address_for(test: &str) -> Option<IpAddr> {
    if let Some(address) = own_address() {
        return Some(address);
    }
    assert!(std::env::var_os(INSIDE).is_none(), "a namespace was made and {ADDRESS_INSIDE} is not in it");
    let steps = format!(
        "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && ip addr add {ADDRESS_INSIDE}/32 dev lo && exec \"$0\" \"$@\""
    );
    let program = std::env::current_exe().expect("this program");
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "sh", "-c", &steps]).arg(program).args(["--exact", test]).env(INSIDE, "1");
    let output = inside.output().expect("unshare of util-linux");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && String::from_utf8_lossy(&said).contains("1 passed"),
        "this host has no address but loopback, so {test} ran in a network namespace of its own (it takes unshare, ip \
         of iproute2, and leave to make user namespaces; or give the host an address: ip addr add {ADDRESS_INSIDE}/32 \
         dev lo):\n{}",
        String::from_utf8_lossy(&said)
    );
    None
}

fn send(bed: &Bed, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ask(bed.network(), method, path, &headers, body)
}

/// A token of service account `default`, which may do everything.
fn token_of_an_administrator(bed: &Bed) -> String {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": "default"});
    let binding = json!({"metadata": {"name": "default"}, "roleRef": role, "subjects": [subject]});
    must(bed, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let given = must(bed, "POST", path, &json!({"spec": {}}));
    given["status"]["token"].as_str().expect("a token").to_owned()
}

fn must(bed: &Bed, method: &str, path: &str, body: &Value) -> Value {
    let reply = send(bed, method, path, &[("Content-Type", "application/json")], &body.to_string());
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(reply.code < 300, "{method} {path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// The agent of node n, which says that its host has this address, and that its pods have others.
fn agent_says(bed: &Bed, address: IpAddr) {
    fs::create_dir(bed.folder.join("agents")).expect("a new folder");
    let listener = UnixListener::bind(bed.folder.join("agents/n.sock")).expect("a socket");
    let node = json!({"name": "n", "address": address.to_string(), "podCIDR": PODS}).to_string();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let Some(asked) = read(&mut stream) else { continue };
            assert!(asked.line.starts_with("GET /node "), "{}", asked.line);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}", node.len());
            let _ = stream.write_all(format!("{head}\r\n\r\n{node}").as_bytes());
        }
    });
}

/// Of documentation.
const PODS: &str = "198.51.100.0/24";

/// A pod of the host's network that says that it is at this address.
fn pod_at(bed: &Bed, name: &str, address: &str, port: u16) {
    pod_of((bed, name), true, address, port);
}

fn pod_of((bed, name): (&Bed, &str), host_network: bool, address: &str, port: u16) {
    let container = json!({"name": "c", "image": "i", "ports": [{"containerPort": port, "name": "web"}]});
    let spec = json!({"nodeName": "n", "hostNetwork": host_network, "containers": [container]});
    let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
    must(bed, "POST", "/api/v1/namespaces/default/pods", &pod);
    let status = json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    let reply = send(
        bed,
        "PATCH",
        &path,
        &[("Content-Type", "application/merge-patch+json")],
        &json!({"status": status}).to_string(),
    );
    assert_eq!(reply.code, 200);
}

#[test]
fn a_pod_is_asked_and_its_answer_comes_back() {
    let Some(address) = address_for("proxy::a_pod_is_asked_and_its_answer_comes_back") else { return };
    let (bed, far) = (Bed::new(), Far::at(address));
    agent_says(&bed, address);
    pod_at(&bed, "p", &address.to_string(), far.address.port());
    let base = "/api/v1/namespaces/default/pods/p/proxy";
    let bearer = format!("Bearer {}", token_of_an_administrator(&bed));
    let given = [
        ("Authorization", bearer.as_str()),
        ("Cookie", "session=of-another-port"),
        ("X-Remote-User", "admin"),
        ("X_Remote_Group", "system:masters"),
        ("Impersonate-User", "root"),
        ("Impersonate-Group", "system:masters"),
        ("X-Mine", "1"),
        ("Connection", "close, X-Hop, X-Forwarded-Host, X-Forwarded-For, X-Forwarded-Uri"),
        ("X-Hop", "2"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("Content-Type", "text/x"),
    ];
    let reply = send(&bed, "PATCH", &format!("{base}/a//b%2Fc/?q=%20&q"), &given, "body");
    assert_eq!((reply.code, &reply.body[..]), (200, &b"far"[..]));
    let asked = far.asked();
    assert_eq!((asked.line.as_str(), asked.body.as_str()), ("PATCH /a//b%2Fc/?q=%20&q HTTP/1.1", "body"));
    assert_eq!(asked.header("host"), Some(far.address.to_string().as_str()));
    for (name, expected) in [
        ("authorization", None),
        ("cookie", None),
        ("x-remote-user", None),
        ("x_remote_group", None),
        ("impersonate-user", None),
        ("impersonate-group", None),
        ("x-hop", None),
        ("x-mine", Some("1")),
        ("content-type", Some("text/x")),
        ("x-forwarded-host", Some("localhost")),
        ("x-forwarded-for", Some("192.0.2.1, 127.0.0.1")),
        ("x-forwarded-uri", Some(format!("{base}/a//b%2Fc/").as_str())),
    ] {
        assert_eq!(asked.header(name), expected, "{name}");
    }

    // Codes, headers and pages come as they are, but for what would speak of this origin; links and a Location there
    // lead through here.
    let reply = send(&bed, "GET", &format!("{base}/teapot"), &[], "");
    let found = |name: &str| {
        reply.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(
        (reply.code, String::from_utf8_lossy(&reply.body).as_ref()),
        (418, format!("<a href=\"{base}/x\">tea</a>\r\n").as_str())
    );
    assert_eq!((found("set-cookie"), found("x-far"), found("keep-alive")), (vec![], vec!["yes"], vec![]));
    assert_eq!(found("content-security-policy"), ["sandbox allow-scripts allow-forms allow-popups"]);
    assert_eq!((found("x-content-type-options"), found("content-type")), (vec!["nosniff"], vec!["text/html"]));
    let reply = send(&bed, "GET", &format!("{base}/moved"), &[], "");
    assert_eq!(
        (
            reply.code,
            reply.headers.iter().any(|header| *header == ("location".to_owned(), format!("{base}/login?x=1")))
        ),
        (302, true)
    );
    let reply = send(&bed, "GET", &format!("{base}/stream"), &[], "");
    assert_eq!(reply.body, b"event 0\nevent 1\nevent 2\n");
    assert_eq!(send(&bed, "HEAD", &format!("{base}/teapot"), &[], "").code, 418);

    // Nobody asked for another protocol.
    let reply = send(&bed, "GET", &format!("{base}/changes"), &[], "");
    assert_eq!((reply.code, String::from_utf8_lossy(&reply.body).contains("nobody asked for")), (502, true));
    far.asked();

    // A page's own links need the slash.
    let reply = send(&bed, "GET", &format!("{base}?a=b"), &[], "");
    assert_eq!(
        (reply.code, reply.headers.iter().any(|header| *header == ("location".to_owned(), format!("{base}/?a=b")))),
        (301, true)
    );
    (0..4).for_each(|_| drop(far.asked()));

    // The same in every form of the path.
    let port = far.address.port();
    for path in [
        format!("/api/v1/namespaces/default/pods/http:p:{port}/proxy/x"),
        "/api/v1/namespaces/default/pods/p:web/proxy/x".to_owned(),
        "/api/v1/proxy/namespaces/default/pods/p/x".to_owned(),
        "/api/v1beta1/proxy/pods/p/x".to_owned(),
        "/api/v1beta2/proxy/ns/default/pods/p/x".to_owned(),
        "/api/v1beta3/proxy/namespaces/default/pods/p/x".to_owned(),
        "/api/v1beta3/namespaces/default/pods/p/proxy/x".to_owned(),
    ] {
        assert_eq!(send(&bed, "GET", &path, &[], "").code, 200, "{path}");
        assert_eq!(far.asked().line, "GET /x HTTP/1.1", "{path}");
    }
    let reply = send(&bed, "GET", "/api/v1beta1/redirect/pods/p", &[], "");
    assert_eq!(
        (
            reply.code,
            reply.headers.iter().any(|header| *header == ("location".to_owned(), format!("http://{}", far.address)))
        ),
        (307, true)
    );

    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    assert_eq!(send(&bed, "GET", &format!("{base}/x"), &upgrade, "").code, 501);
    assert!(far.is_left_alone());

    // Over the local socket too.
    let reply = ask(bed.local(), "POST", &format!("{base}/teapot"), &[], "b");
    assert_eq!((reply.code, far.asked().body.as_str()), (418, "b"));
}

/// OpenSSL's own server, which takes one connection and answers it with a page.
#[test]
fn a_pod_is_asked_over_tls() {
    let Some(address) = address_for("proxy::a_pod_is_asked_over_tls") else { return };
    let dir = std::env::temp_dir().join(format!("coracle-proxy-tls-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command
            .args(arguments.split(' '))
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::piped());
        command.spawn().expect("openssl is here: apt-get install openssl")
    };
    let made =
        openssl("req -x509 -nodes -days 1 -newkey rsa:2048 -subj /CN=somebody.else -keyout key -out certificate")
            .wait()
            .unwrap();
    assert!(made.success(), "openssl req: {made}");
    let mut server = openssl(&format!("s_server -accept {address}:0 -naccept 1 -cert certificate -key key -www"));
    let printed = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port: u16 = printed
        .filter_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.trim().parse().ok())
        .next()
        .expect("a port");

    let bed = Bed::new();
    agent_says(&bed, address);
    pod_at(&bed, "p", &address.to_string(), port);
    let reply = send(&bed, "GET", &format!("/api/v1/namespaces/default/pods/https:p:{port}/proxy/"), &[], "");
    let page = String::from_utf8_lossy(&reply.body);
    assert_eq!((reply.code, page.contains("TLSv1.3")), (200, true), "{page}");
    server.kill().unwrap();
    server.wait().unwrap();

    // One that speaks no TLS is called so.
    let far = Far::at(address);
    pod_at(&bed, "q", &address.to_string(), far.address.port());
    let path = format!("/api/v1/namespaces/default/pods/https:q:{}/proxy/", far.address.port());
    let reply = send(&bed, "GET", &path, &[], "");
    let page = String::from_utf8_lossy(&reply.body);
    assert_eq!((reply.code, page.contains("cannot be asked")), (502, true), "{page}");
    fs::remove_dir_all(&dir).unwrap();
}

/// Returns when a watch has told of the address: the endpoints follow their service.
fn has_endpoints(bed: &Bed, service: &str, address: &str) {
    let path = format!("/api/v1/namespaces/default/endpoints?watch=true&fieldSelector=metadata.name%3D{service}");
    let mut watch = bed.network();
    watch
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        .expect("the request is taken");
    let lines = BufReader::new(watch).lines();
    let event = lines.map(|line| line.expect("events come")).find(|line| line.contains(&format!("{address:?}")));
    assert!(event.is_some(), "the watch ended before");
}

#[test]
fn a_service_is_asked_through_its_ready_endpoints() {
    let Some(address) = address_for("proxy::a_service_is_asked_through_its_ready_endpoints") else { return };
    let (bed, far) = (Bed::new(), Far::at(address));
    agent_says(&bed, address);
    pod_at(&bed, "web", &address.to_string(), far.address.port());
    let service = json!({
        "metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "web"}]},
    });
    must(&bed, "POST", "/api/v1/namespaces/default/services", &service);
    has_endpoints(&bed, "s", &address.to_string());
    assert_eq!(send(&bed, "GET", "/api/v1/namespaces/default/services/s:80/proxy/x?a=b", &[], "").code, 200);
    assert_eq!(far.asked().line, "GET /x?a=b HTTP/1.1");
    assert_eq!(send(&bed, "GET", "/api/v1beta1/proxy/services/s/x?namespace=default", &[], "").code, 200);
    assert_eq!(far.asked().line, "GET /x?namespace=default HTTP/1.1");
    let reply = send(&bed, "GET", "/api/v1/redirect/namespaces/default/services/s", &[], "");
    assert_eq!(
        (
            reply.code,
            reply.headers.iter().any(|header| *header == ("location".to_owned(), format!("http://{}", far.address)))
        ),
        (307, true)
    );
}

/// Whatever the agent said of it, no browser makes a page of it.
fn is_bare_text(reply: &Reply) {
    let found = |name: &str| reply.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let expected = (Some("text/plain; charset=utf-8"), Some("nosniff"), None);
    assert_eq!((found("content-type"), found("x-content-type-options"), found("set-cookie")), expected);
}

/// A master whose agents' sockets have a directory, with a node of that name.
fn with_node(node: &Value) -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.folder.join("agents")).expect("a new folder");
    must(&bed, "POST", "/api/v1/nodes", node);
    bed
}

/// As `kubectl log` of 2015 asks.
#[test]
fn an_agent_is_asked_on_the_socket_of_its_node() {
    let bed = with_node(&json!({"metadata": {"name": "n"}}));
    let agent = agent_at(&bed.folder.join("agents/n.sock"));
    for path in [
        "/api/v1beta1/proxy/minions/n/containerLogs/default/p/c?follow=false",
        "/api/v1/nodes/n/proxy/containerLogs/default/p/c?follow=false",
        "/api/v1/nodes/n:10250/proxy/containerLogs/default/p/c?follow=false",
        "/proxy/minion/n/containerLogs/default/p/c?follow=false",
    ] {
        let reply = send(&bed, "GET", path, &[("Cookie", "a")], "");
        assert_eq!((reply.code, &reply.body[..]), (200, &b"far"[..]), "{path}");
        is_bare_text(&reply);
        let asked = agent.recv_timeout(PATIENCE).expect("it is asked");
        assert_eq!(asked.line, "GET /containerLogs/default/p/c?follow=false HTTP/1.1", "{path}");
        assert_eq!(
            (asked.header("host"), asked.header("origin"), asked.header("cookie")),
            (Some("localhost"), None, None)
        );
    }
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    must(&bed, "POST", "/api/v1/namespaces/default/pods", &pod);
    for pipe in [bed.network(), bed.local()] {
        let reply = ask(pipe, "GET", "/api/v1/namespaces/default/pods/p/log?follow=true", &[], "");
        assert_eq!((reply.code, &reply.body[..]), (200, &b"far"[..]));
        let asked = agent.recv_timeout(PATIENCE).expect("it is asked");
        assert!(asked.line.starts_with("GET /containerLogs/default/p/c?follow=true"), "{}", asked.line);
    }
    for (method, path, code) in [
        ("POST", "/api/v1/nodes/n/proxy/containerLogs/default/p/c", 405),
        ("GET", "/api/v1/nodes/n/proxy/exec/default/p/c", 403),
        ("GET", "/api/v1/nodes/n/proxy/", 403),
        ("GET", "/api/v1/nodes/n/proxy/containerLogs/../secret.txt", 400),
        ("GET", "/api/v1/nodes/n/proxy/containerLogs/%2e%2e/secret.txt", 400),
        ("GET", "/api/v1/nodes/n/proxy/containerLogs/..%2fsecret.txt", 400),
        ("GET", "/proxy/minion/n/containerLogs/../secret.txt", 400),
        ("GET", "/api/v1/nodes/n:80/proxy/", 400),
        ("GET", "/api/v1beta1/redirect/minions/n", 503),
    ] {
        assert_eq!(send(&bed, method, path, &[], "").code, code, "{method} {path}");
    }
    assert!(agent.try_recv().is_err(), "it is left alone");
}

/// Neither what a node says of its agent nor how it is called leads to another server of this host.
#[test]
fn no_object_says_where_agents_are() {
    let (far, other) = (Far::at([127, 0, 0, 1].into()), "coracle.dev/agent-address");
    let bed = with_node(&json!({"metadata": {"name": "n", "annotations": {other: far.address.to_string()}}}));
    let agents = bed.folder.join("agents");
    let engine = agent_at(&bed.folder.join("docker.sock"));
    let refused = |path: &str, code: u16, why: &str| {
        let reply = send(&bed, "GET", path, &[], "");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(reply.code == code && text.contains(why), "{path}: {} {text}", reply.code);
    };
    let pods = "/api/v1/nodes/n/proxy/pods";
    refused(pods, 502, "n.sock cannot be asked: No such file");
    symlink(bed.folder.join("docker.sock"), agents.join("n.sock")).expect("a new link");
    refused(pods, 502, "n.sock cannot be asked: there is something that is not a socket");
    fs::remove_file(agents.join("n.sock")).expect("the link");
    fs::write(agents.join("n.sock"), "").expect("a new file");
    refused(pods, 502, "not a socket");
    for node in ["..%2Fdocker", "%2Frun%2Fdocker", "..", "%2E%2E%2Fdocker"] {
        let reply = send(&bed, "GET", &format!("/api/v1/nodes/{node}/proxy/pods"), &[], "");
        assert!((400..500).contains(&reply.code), "{node}: {}", reply.code);
    }
    for name in ["../docker", "/run/docker", "docker.sock/.."] {
        let node = json!({"metadata": {"name": name, "annotations": {other: "/run/docker.sock"}}});
        let reply = send(&bed, "POST", "/api/v1/nodes", &[("Content-Type", "application/json")], &node.to_string());
        assert_eq!(reply.code, 422, "{name}");
    }
    // A pod that says it is there, whatever node that is.
    let pod = json!({"metadata": {"name": "p", "annotations": {other: far.address.to_string()}},
        "spec": {"nodeName": "docker", "containers": [{"name": "c", "image": "i"}]}});
    must(&bed, "POST", "/api/v1/namespaces/default/pods", &pod);
    refused("/api/v1/namespaces/default/pods/p/log", 503, "the node is not registered");
    assert!(far.is_left_alone() && engine.try_recv().is_err());
}

/// Whatever a tenant or a node writes of an address, nobody is sent to this host or its neighbours but for a pod.
#[test]
fn an_address_of_no_pod_is_never_asked() {
    let Some(address) = address_for("proxy::an_address_of_no_pod_is_never_asked") else { return };
    let (bed, far) = (Bed::new(), Far::at(address));
    agent_says(&bed, address);
    let (own, port) = (address.to_string(), far.address.port());
    let refused = |path: &str, why: &str| {
        for path in [format!("{path}/proxy/x"), path.replacen("/api/v1/", "/api/v1/redirect/", 1)] {
            let reply = send(&bed, "GET", &path, &[], "");
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(reply.code == 400 && text.contains(why), "{path}: {} {text}", reply.code);
        }
    };
    // A pod of the pods' network that says that it is the host, a neighbour, the metadata of a cloud.
    for (name, at) in [("host", own.as_str()), ("far", "192.0.2.1"), ("cloud", "169.254.169.254")] {
        pod_of((&bed, name), false, at, port);
        refused(&format!("/api/v1/namespaces/default/pods/{name}:{port}"), "address not allowed");
    }
    // A pod of the host's network that names another port, or says that it is elsewhere.
    pod_at(&bed, "other-port", &own, 9);
    refused(&format!("/api/v1/namespaces/default/pods/other-port:{port}"), "does not name it");
    pod_at(&bed, "elsewhere", "192.0.2.1", port);
    refused("/api/v1/namespaces/default/pods/elsewhere", "not the address of the pod's node");
    // Endpoints that a person has written, with and without a node and a pod that are made up.
    must(
        &bed,
        "POST",
        "/api/v1/namespaces/default/services",
        &json!({"metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]}}),
    );
    for (place, why) in [
        (json!({ "ip": own }), "names no node"),
        (json!({"ip": own, "nodeName": "n"}), "outside of the range"),
        (json!({"ip": own, "nodeName": "n", "targetRef": {"kind": "Pod", "name": "other-port"}}), "does not name it"),
        (json!({"ip": "192.0.2.1", "nodeName": "n", "targetRef": {"kind": "Pod", "name": "none"}}), "outside of"),
    ] {
        let subsets = json!([{"addresses": [place], "ports": [{"port": port}]}]);
        let endpoints = json!({"metadata": {"name": "s"}, "subsets": subsets});
        let path = "/api/v1/namespaces/default/endpoints/s";
        send(&bed, "DELETE", path, &[], "");
        must(&bed, "POST", "/api/v1/namespaces/default/endpoints", &endpoints);
        refused("/api/v1/namespaces/default/services/s", why);
    }
    // A node: its agent alone, whatever its addresses are.
    let addresses = json!([{"type": "InternalIP", "address": own}]);
    must(&bed, "POST", "/api/v1/nodes", &json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}}));
    refused(&format!("/api/v1/nodes/n:{port}"), "nothing but its agent is asked");
    assert!(far.is_left_alone());
}

/// Whatever an object says of its address, nobody is sent to this host's own loopback or to the wire's neighbours.
#[test]
fn loopback_is_never_asked() {
    let (bed, far) = (Bed::new(), Far::at([127, 0, 0, 1].into()));
    let port = far.address.port();
    for (name, address) in
        [("a", "127.0.0.1"), ("b", "::ffff:127.0.0.1"), ("c", "0.0.0.0"), ("d", "169.254.169.254"), ("e", "::1")]
    {
        pod_at(&bed, name, address, port);
        for path in
            [format!("/api/v1/namespaces/default/pods/{name}/proxy/"), format!("/api/v1beta1/redirect/pods/{name}")]
        {
            let reply = send(&bed, "GET", &path, &[], "");
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(reply.code == 400 && text.contains("address not allowed"), "{path}: {} {text}", reply.code);
        }
    }
    assert!(far.is_left_alone());
    // Refused or not, such requests are counted as what they are.
    let metrics = String::from_utf8(send(&bed, "GET", "/metrics", &[], "").body).expect("text");
    for (means, version) in [("proxy", "v1"), ("redirect", "v1beta1")] {
        let line = format!(
            "apiserver_request_total{{code=\"400\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",\
             scope=\"resource\",subresource=\"{means}\",verb=\"CONNECT\",version=\"{version}\"}} 5"
        );
        assert!(metrics.lines().any(|metric| metric == line), "{line} in\n{metrics}");
    }
}
