//! A port that speaks TLS: who is let in, who is known, and what comes of mistakes and floods.
use super::keys::{Authority, H1, H2, NOW_S, Secure, tls};
use super::wire::{Demo, Peer, ask, codes, contains, eventually, get, last_get, patient, serves};
use coracle_http::client::{Client, Target};
use coracle_http::network::{NetworkPlane, Port};
use coracle_http::{KeySet, Method, StatusCode, TlsTarget, TlsTrust};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn user(peer: Peer) -> String {
    ask(peer, "/user").rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
}

#[test]
fn a_certificate_says_who_comes() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let ann = secure.authority.client("ann", 7);
    assert_eq!(user(secure.peer(&plane, Some(&ann), H1)), "ann");
    assert_eq!(user(secure.peer(&plane, Some(&ann), &[])), "ann", "without a protocol it is HTTP/1.1");
    assert_eq!(user(secure.peer(&plane, None, H1)), "system:anonymous");
    // Each request may bring a token of its own.
    let mut peer = secure.peer(&plane, None, H1);
    for name in ["bob", "eve"] {
        peer.send(format!("GET /user HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {name}\r\n\r\n").as_bytes());
        peer.until_text(&format!("\r\n\r\n{name}"));
    }
    plane.stop();
}

#[test]
fn certificates_that_are_not_taken() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let foreign = Authority::new("authority").client("ann", 7);
    assert!(codes(ask(secure.peer(&plane, Some(&foreign), H1), "/small").as_bytes()).is_empty(), "another authority");
    let server = secure.authority.server(8);
    assert!(codes(ask(secure.peer(&plane, Some(&server), H1), "/small").as_bytes()).is_empty(), "of a server");
    let ann = secure.authority.client("ann", 7);
    assert!(serves(secure.peer(&plane, Some(&ann), H1)));
    // The port's clock judges it, not the host's.
    secure.clock_s.store(NOW_S + 20 * 365 * 86_400, Ordering::Relaxed);
    assert!(codes(ask(secure.peer(&plane, Some(&ann), H1), "/small").as_bytes()).is_empty(), "ended");
    secure.clock_s.store(NOW_S, Ordering::Relaxed);
    assert!(serves(secure.peer(&plane, Some(&ann), H1)));
    plane.stop();
}

/// The authority of proxies signs no users, and an authority of users no proxies, whatever its name is.
#[test]
fn a_proxy_is_known_by_its_authority() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let (server, users) = (secure.authority.server(2), secure.authority.pem());
    let (proxies, same_name) = (Authority::new("proxies"), Authority::new("authority"));
    let both = format!("{}{}", proxies.pem(), same_name.pem());
    let keys = KeySet {
        chain_pem: server.chain_pem.as_bytes(),
        key_pem: server.key_pem.as_bytes(),
        client_ca_pem: users.as_bytes(),
        proxy_ca_pem: both.as_bytes(),
    };
    secure.keys.replace(&keys).unwrap();
    for (authority, expected) in [(&secure.authority, "ann"), (&proxies, "proxy ann"), (&same_name, "proxy ann")] {
        let ann = authority.client("ann", 7);
        for protocols in [H1, &[]] {
            assert_eq!(user(secure.peer(&plane, Some(&ann), protocols)), expected);
        }
    }
    // What an authority below that of proxies has signed is nobody's.
    let between = proxies.below("authority");
    let mut below = between.client("ann", 7);
    below.chain_pem.push_str(&between.pem());
    assert!(codes(ask(secure.peer(&plane, Some(&below), H1), "/small").as_bytes()).is_empty());
    let stranger = Authority::new("stranger").client("ann", 7);
    assert!(codes(ask(secure.peer(&plane, Some(&stranger), H1), "/small").as_bytes()).is_empty());
    plane.stop();
}

#[test]
fn a_certificate_that_is_revoked_ends_its_connection() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let (ann, bob) = (secure.authority.client("ann", 7), secure.authority.client("bob", 8));
    let mut open = secure.peer(&plane, Some(&ann), H1);
    open.send(&get("/small"));
    open.until_text("small\n");
    secure.revoked.lock().unwrap().push(7);
    open.send(&get("/small"));
    let all = open.rest();
    assert!(codes(&all) == [401] && contains(&all, b"revoked"), "{}", String::from_utf8_lossy(&all));
    assert_eq!(codes(ask(secure.peer(&plane, Some(&ann), H1), "/small").as_bytes()), [401]);
    assert!(serves(secure.peer(&plane, Some(&bob), H1)));
    plane.stop();
}

#[test]
fn keys_change_while_it_serves() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let shown = |peer: &mut Peer| {
        peer.send(&get("/small"));
        peer.until_text("small\n");
        let Peer::Tls(stream) = peer else { panic!("over TLS") };
        stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let mut before = secure.peer(&plane, None, H1);
    let first = shown(&mut before);
    let (server, ca) = (secure.authority.server(2), secure.authority.pem());
    let good = KeySet {
        chain_pem: server.chain_pem.as_bytes(),
        key_pem: server.key_pem.as_bytes(),
        client_ca_pem: ca.as_bytes(),
        proxy_ca_pem: b"",
    };
    let other = secure.authority.server(3);
    for (bad, why) in [
        (KeySet { key_pem: other.key_pem.as_bytes(), ..good }, "certificate and key"),
        (KeySet { key_pem: b"", ..good }, "key:"),
        (KeySet { chain_pem: b"", ..good }, "certificate:"),
        (KeySet { client_ca_pem: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ..good }, "client"),
    ] {
        let error = secure.keys.replace(&bad).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
    assert_eq!(shown(&mut secure.peer(&plane, None, H1)), first, "a broken set changes nothing");
    secure.keys.replace(&good).unwrap();
    assert_ne!(shown(&mut secure.peer(&plane, None, H1)), first);
    assert_eq!(shown(&mut before), first, "what is open goes on");
    plane.stop();
}

#[test]
fn clients_that_are_mistaken() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let answer = ask(Peer::tcp(&plane), "/small");
    assert!(codes(answer.as_bytes()) == [400] && answer.contains("HTTP request to an HTTPS server"), "{answer}");
    assert_eq!(ask(secure.peer(&plane, None, &[b"spdy/1"]), "/small"), "", "no common protocol");
    let stranger = Secure::new();
    assert_eq!(ask(stranger.peer(&plane, None, H1), "/small"), "", "it does not trust this port");
    let mut noise = Peer::tcp(&plane);
    noise.send(&[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5, 6]);
    noise.rest();
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(b"GET /small HTTP/1.1\r\nHost: a\r\nOrigin: https://example.com\r\nConnection: close\r\n\r\n");
    assert_eq!(codes(&peer.rest()), [403], "a page shows its reader's certificate");
    assert!(serves(secure.peer(&plane, None, H1)));
    plane.stop();
}

#[test]
fn slow_handshakes_end_and_others_pass_them() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| {
        limits.handshake = Duration::from_millis(300);
        limits.handshakes_max = 8;
        limits.handshakes_per_address_max = 4;
    });
    // Half a handshake, and nothing at all.
    let half = || {
        let mut peer = Peer::tcp(&plane);
        peer.send(&[0x16, 3, 1, 2]);
        peer
    };
    let mut open: Vec<Peer> = (0..40).map(|number| if number % 2 == 0 { half() } else { Peer::tcp(&plane) }).collect();
    for _ in 0..4 {
        open.push(half());
        assert!(serves(secure.peer(&plane, None, H1)), "one that shakes hands takes the place of one that does not");
    }
    for mut peer in open {
        assert_eq!(peer.rest(), b"", "it is closed");
    }
    plane.stop();
}

#[test]
fn a_port_may_be_for_some_addresses_alone() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let admits = Arc::new(|address: std::net::IpAddr| address == std::net::IpAddr::from([127, 0, 0, 2]));
    let plane = demo.port(Port { admits, ..secure.port(|_| {}) });
    let mut refused = TcpStream::connect(plane.address).unwrap();
    refused.set_read_timeout(Some(super::wire::PATIENCE)).unwrap();
    let read = refused.read(&mut [0; 16]);
    assert!(matches!(read, Ok(0) | Err(_)), "closed before a byte was read: {read:?}");
    let Peer::Tcp(socket) = Peer::tcp_from(&plane, [127, 0, 0, 2], 64 << 10) else { panic!("over TCP") };
    assert!(serves(tls(socket, secure.config(None, H1))));
    plane.stop();
}

#[test]
fn watches_are_carried_item_by_item() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    for i in 0..3 {
        demo.publish(format!("{{\"n\":{i}}}\n").as_bytes());
        assert_eq!(peer.until_text("}\n\r\n"), format!("8\r\n{{\"n\":{i}}}\n\r\n"));
    }
    demo.end_streams();
    peer.until_text("0\r\n\r\n");
    demo.a_stream_is_left();
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    drop(peer);
    demo.a_stream_is_left();
    plane.stop();
}

/// Each user has shares of its own, behind one address; who is not known shares with its address.
#[test]
fn shares_are_by_user() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| {
        limits.requests_per_address_max = 1;
        limits.handlers_max = 3;
    });
    let gate = |user: Option<&str>| {
        let mut peer = secure.peer(&plane, None, H1);
        let token = user.map(|user| format!("Authorization: Bearer {user}\r\n")).unwrap_or_default();
        peer.send(format!("GET /gate HTTP/1.1\r\nHost: a\r\n{token}\r\n").as_bytes());
        peer
    };
    let held: Vec<Peer> = [Some("ann"), Some("bob"), None].map(gate).into();
    (0..3).for_each(|_| demo.waiting.recv_timeout(super::wire::PATIENCE).unwrap());
    for user in [Some("ann"), None] {
        let text = gate(user).until_text("\"code\":429");
        assert!(text.to_lowercase().contains("retry-after: 1"), "{text}");
    }
    // Health has places of its own, and so have nodes.
    assert_eq!(codes(ask(secure.peer(&plane, None, H1), "/livez").as_bytes()), [200]);
    (0..3).for_each(|_| demo.open_gate());
    held.into_iter().for_each(|mut peer| drop(peer.until_text("through\n")));
    plane.stop();
}

/// From the head to the last byte after this side has ended its own.
#[test]
fn upgraded_connections_speak_both_ways_and_end_by_halves() {
    let secure = Secure::new();
    let (plane, open) = super::upgrade::echoing_on(secure.port(|_| {}));
    for protocol in ["echo/1", "SPDY/3.1, echo/1"] {
        let mut peer = secure.peer(&plane, None, H1);
        let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        peer.send(head.as_bytes());
        let head = peer.until_text("\r\n\r\n").to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 101"), "{head}");
        peer.send(b"GET /a>b\r\n");
        assert_eq!(peer.until_text("GET /A>B\r\n"), "GET /A>B\r\n", "as it is");
        let part = vec![b'x'; 64 << 10];
        for _ in 0..32 {
            peer.send(&part);
            assert_eq!(peer.until(|heard| heard.len() == part.len()).len(), part.len());
        }
        let Peer::Tls(stream) = &mut peer else { panic!("over TLS") };
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert_eq!(String::from_utf8(peer.rest()).unwrap(), "END", "the other way is open until that side ends it");
    }
    eventually("they have ended", || open.load(Ordering::Relaxed) == 0);
    plane.stop();
}

#[test]
fn a_stop_says_goodbye() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    let idle = secure.peer(&plane, None, H2);
    plane.stop();
    assert!(contains(&peer.rest(), b"0\r\n\r\n"));
    drop(idle);
}

fn trust<'a>(secure: &Secure, ca: &'a str) -> TlsTrust<'a> {
    TlsTrust { ca_pem: ca.as_bytes(), server_name: None, certificate: None, token_file: None, clock: secure.clock() }
}

fn target(plane: &NetworkPlane, trust: TlsTrust<'_>) -> Client {
    let target = TlsTarget::new("127.0.0.1", plane.address.port(), trust).unwrap();
    Client::new(Target::Tls(Box::new(target)), "test")
}

#[test]
fn the_client_verifies_and_shows_who_it_is() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let ann = secure.authority.client("ann", 7);
    let ask = |client: Client| {
        on_a_runtime(async move {
            let reply = client.call(Method::GET, "/user", None).await.map_err(|error| error.to_string())?;
            assert_eq!(reply.status, StatusCode::OK);
            Ok::<String, String>(String::from_utf8(reply.body.to_vec()).unwrap())
        })
    };
    let ca = secure.authority.pem();
    let trust = || trust(&secure, &ca);
    assert_eq!(ask(target(&plane, trust())), Ok("system:anonymous".to_owned()));
    let named = |name| TlsTrust { server_name: Some(name), ..trust() };
    assert_eq!(ask(target(&plane, named("localhost"))), Ok("system:anonymous".to_owned()));
    let own = (ann.chain_pem.as_bytes(), ann.key_pem.as_bytes());
    assert_eq!(ask(target(&plane, TlsTrust { certificate: Some(own), ..trust() })), Ok("ann".to_owned()));
    let other = Authority::new("another").pem();
    let late: coracle_http::Clock = Arc::new(|| Duration::from_secs(4097 * 31_557_600));
    for (wrong, why) in [
        (named("elsewhere"), "elsewhere"),
        (TlsTrust { ca_pem: other.as_bytes(), ..trust() }, "UnknownIssuer"),
        (TlsTrust { clock: late, ..trust() }, "xpired"),
    ] {
        let error = ask(target(&plane, wrong)).unwrap_err();
        assert!(error.contains("tls: ") && error.contains(why), "{error}");
    }
    // The token is read again for each request.
    let path = std::env::temp_dir().join(format!("coracle-secure-{}", std::process::id()));
    let client = target(&plane, TlsTrust { token_file: Some(path.clone()), ..trust() });
    for token in ["bob", "eve"] {
        std::fs::write(&path, format!("{token}\n")).unwrap();
        assert_eq!(ask(client.clone()), Ok(token.to_owned()));
    }
    std::fs::remove_file(&path).unwrap();
    assert!(ask(client).unwrap_err().contains(path.to_str().unwrap()));
    plane.stop();
}

#[test]
fn requests_over_tls_are_mended_and_bounded_as_without() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| limits.head = Duration::from_millis(200));
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(&last_get("/dump?a>5"));
    assert!(contains(&peer.rest(), b"GET /dump?a%3E5 0"));
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(b"POST /dump HTTP/1.1\r\nHost: a\r\nContent-Length: 40000000000\r\n\r\n");
    assert_eq!(codes(&peer.rest()), [413]);
    let mut peer = secure.peer(&plane, None, H1);
    peer.send(b"GET /small HTTP/1.1\r\nHost: a\r\n");
    assert!(codes(&peer.rest()).is_empty(), "a head that does not end");
    // TLS says goodbye, or not.
    let socket = patient(TcpStream::connect(plane.address).unwrap());
    let mut peer = tls(socket, secure.config(None, H1));
    peer.send(&get("/small"));
    peer.until_text("small\n");
    drop(peer);
    assert!(serves(secure.peer(&plane, None, H1)));
    plane.stop();
}
