//! Requests in progress that end because their user may no longer ask.
use super::keys::{H1, Secure};
use super::wire::{Demo, Peer, contains, eventually, get};
use coracle_http::Sessions;
use coracle_http::network::Port;
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
