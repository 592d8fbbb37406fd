//! Requests in progress that end because their user may no longer ask.
use super::keys::{Authority, H1, NOW_S, Secure};
use super::wire::{Demo, Peer, codes, contains, eventually, get, serves};
use coracle_http::network::Port;
use coracle_http::{KeySet, Sessions};
use std::sync::atomic::Ordering;

fn request(path: &str, user: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {user}\r\n\r\n").into_bytes()
}

#[test]
fn watches_of_one_user_end_on_all_ports() {
    let (demo, secure, sessions) = (Demo::new(), Secure::new(), Sessions::default());
    let of_tls = demo.port(Port { sessions: sessions.clone(), ..secure.port(|_| {}) });
    let identify = super::keys::by_certificate();
    let limits = coracle_http::Limits::EDGE;
    let of_plain = demo.port(Port { identify, sessions: sessions.clone(), ..Port::of_this_host(limits) });
    let ann = secure.authority.client("ann", 7);
    let watch = |mut peer: Peer, request: Vec<u8>| {
        peer.send(&request);
        peer.until_text("\r\n\r\n");
        peer
    };
    let mut over: Vec<Peer> = vec![
        watch(secure.peer(&of_tls, Some(&ann), H1), get("/watch")),
        watch(secure.peer(&of_tls, None, H1), request("/watch", "ann")),
        watch(Peer::tcp(&of_plain), request("/watch", "ann")),
    ];
    let mut stays = watch(Peer::tcp(&of_plain), request("/watch", "bob"));
    assert_eq!(sessions.len(), 4);
    assert_eq!(sessions.end_where(|asked| asked.certificate.as_ref().is_some_and(|of| of.serial == [7])), 1);
    eventually("it is forgotten", || sessions.len() == 3);
    demo.a_stream_is_left();
    assert_eq!(sessions.end_where(|asked| asked.identity.user == "ann"), 2);
    (0..2).for_each(|_| demo.a_stream_is_left());
    for peer in &mut over {
        assert!(!contains(&peer.rest(), b"0\r\n\r\n"), "it breaks, and is not taken for the end of a watch");
    }
    demo.publish(b"{}\n");
    stays.until_text("{}\n");
    of_tls.stop();
    of_plain.stop();
    assert!(sessions.is_empty());
}

#[test]
fn upgraded_connections_end_as_well() {
    let (secure, sessions) = (Secure::new(), Sessions::default());
    let (plane, open) = super::upgrade::echoing_on(Port { sessions: sessions.clone(), ..secure.port(|_| {}) });
    let ann = secure.authority.client("ann", 7);
    let mut peer = secure.peer(&plane, Some(&ann), H1);
    peer.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n");
    peer.until_text("\r\n\r\n");
    peer.send(b"a");
    peer.until_text("A");
    assert_eq!(open.load(Ordering::Relaxed), 1);
    assert_eq!(sessions.end_where(|asked| asked.identity.user == "ann"), 1);
    assert_eq!(peer.rest(), b"");
    plane.stop();
}

/// A watch and a second connection that has had an answer, both open.
fn two_open(peer: impl Fn() -> Peer) -> [Peer; 2] {
    let (mut watch, mut other) = (peer(), peer());
    watch.send(&get("/watch"));
    watch.until_text("\r\n\r\n");
    other.send(&get("/small"));
    other.until_text("small\n");
    [watch, other]
}

fn still_served(peer: &mut Peer) {
    peer.send(&get("/small"));
    peer.until_text("small\n");
}

fn refused(mut peer: Peer) {
    peer.send(&get("/small"));
    assert_eq!(codes(&peer.rest()), [401]);
}

/// Whoever has stolen the key of an authority has certificates in no list.
#[test]
fn what_a_dropped_authority_has_signed_ends() {
    let (demo, secure, sessions) = (Demo::new(), Secure::new(), Sessions::default());
    let plane = demo.port(Port { sessions: sessions.clone(), ..secure.port(|_| {}) });
    let (server, first, second) = (secure.authority.server(2), secure.authority.pem(), Authority::new("second"));
    let replace = |clients: &str, proxies: &str| {
        let keys = KeySet {
            chain_pem: server.chain_pem.as_bytes(),
            key_pem: server.key_pem.as_bytes(),
            client_ca_pem: clients.as_bytes(),
            proxy_ca_pem: proxies.as_bytes(),
        };
        secure.keys.replace(&keys).unwrap();
        sessions.end_where(|asked| asked.certificate.as_ref().is_some_and(|of| !of.still_counts()))
    };
    let (ann, bob) = (secure.authority.client("ann", 7), second.client("bob", 7));
    let [mut anns_watch, mut anns] = two_open(|| secure.peer(&plane, Some(&ann), H1));
    // An authority more, and a new certificate of the server, end nothing.
    assert_eq!(replace(&format!("{}{first}", second.pem()), ""), 0);
    still_served(&mut anns);
    let [mut bobs_watch, mut bobs] = two_open(|| secure.peer(&plane, Some(&bob), H1));
    assert_eq!(replace(&second.pem(), ""), 1);
    assert!(!contains(&anns_watch.rest(), b"0\r\n\r\n"), "it breaks");
    refused(anns);
    still_served(&mut bobs);
    demo.publish(b"{}\n");
    bobs_watch.until_text("{}\n");
    // A user does not become a proxy on an open connection.
    assert_eq!(replace(&first, &second.pem()), 1);
    refused(bobs);
    assert!(serves(secure.peer(&plane, Some(&bob), H1)));
    plane.stop();
}

#[test]
fn a_certificate_that_ends_ends_what_is_open() {
    let (demo, secure, sessions) = (Demo::new(), Secure::new(), Sessions::default());
    let plane = demo.port(Port { sessions: sessions.clone(), ..secure.port(|_| {}) });
    let ann = secure.authority.client("ann", 7);
    let [mut watch, mut other] = two_open(|| secure.peer(&plane, Some(&ann), H1));
    let look = || sessions.end_where(|asked| asked.certificate.as_ref().is_some_and(|of| !of.still_counts()));
    still_served(&mut other);
    assert_eq!(look(), 0);
    secure.clock_s.store(NOW_S + 20 * 365 * 86_400, Ordering::Relaxed);
    refused(other);
    assert_eq!(look(), 1);
    assert!(!contains(&watch.rest(), b"0\r\n\r\n"), "it breaks");
    plane.stop();
}
