//! A port asks each request who sends it.
use super::wire::{Demo, Peer, Private, ask, codes};
use coracle_http::local::LocalPort;
use coracle_http::network::{Identify, Port, RequestSender, Unidentified};
use coracle_http::{Identity, Limits, LocalLimits, header, local};
use std::sync::Arc;

/// The user whose name the request brings, and nobody without.
fn by_name() -> Identify {
    Arc::new(|sender: &RequestSender<'_>| {
        let shown = sender.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let user = shown.and_then(|value| value.strip_prefix("Bearer "));
        let user = user.ok_or_else(|| Unidentified("a token is needed".to_owned()))?;
        Ok(Arc::new(Identity { user: user.to_owned(), ..Identity::none() }))
    })
}

fn request(fields: &str) -> Vec<u8> {
    format!("GET /user HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes()
}

#[test]
fn each_request_of_a_connection_has_its_own_sender() {
    let (demo, directory) = (Demo::new(), Private::new());
    let port = Port { identify: by_name(), ..Port::of_this_host(Limits::EDGE) };
    let plane = demo.port(port);
    let local_port = LocalPort { identify: by_name(), ..LocalPort::of_root(LocalLimits::HOST) };
    let local = local::start(&directory.socket(), demo.handler.clone(), local_port).unwrap();
    for mut peer in [Peer::tcp(&plane), Peer::unix(&directory.socket())] {
        peer.send(&request("Authorization: Bearer ann\r\n"));
        peer.until_text("\r\n\r\nann");
        peer.send(&request(""));
        let refused = peer.until_text("a token is needed");
        assert_eq!(codes(refused.as_bytes()), [401], "{refused}");
        assert!(refused.contains(r#""reason":"Unauthorized""#), "{refused}");
        peer.send(&request("Authorization: Bearer bob\r\n"));
        peer.until_text("\r\n\r\nbob");
    }
    local.stop();
    plane.stop();
}

#[test]
fn a_port_of_this_host_serves_the_administrator() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    assert!(ask(Peer::tcp(&plane), "/user").ends_with("system:admin"));
    plane.stop();
}
