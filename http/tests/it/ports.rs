//! A port asks each request who sends it.
use super::wire::{Demo, Peer, Private, ask, codes, eventually};
use coracle_http::local::LocalPort;
use coracle_http::network::{
    Identify, OnRefusal, Port, Ration, RationedPlace, RationedRequest, RefusedRequest, RequestSender, Unidentified,
};
use coracle_http::{HeaderName, HeaderValue, Identity, Limits, LocalLimits, header, local, refused_by_code};
use std::sync::{Arc, Mutex};

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
fn a_request_over_its_share_is_told_to_come_again() {
    let demo = Demo::new();
    let ration: Ration = Arc::new(|asked: &RationedRequest<'_>| match asked.identity.user.as_str() {
        "ann" => Err("this level is full".to_owned()),
        _ => {
            let name = (HeaderName::from_static("x-level"), HeaderValue::from_static("low"));
            Ok(RationedPlace { headers: vec![name], held: Box::new(()) })
        }
    });
    let plane = demo.port(Port { identify: by_name(), ration, ..Port::of_this_host(Limits::EDGE) });
    let mut peer = Peer::tcp(&plane);
    peer.send(&request("Authorization: Bearer ann\r\n"));
    let refused = peer.until_text("this level is full");
    assert_eq!(codes(refused.as_bytes()), [429], "{refused}");
    assert!(refused.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{refused}");
    peer.send(&request("Authorization: Bearer bob\r\n"));
    assert!(peer.until_text("\r\n\r\nbob").contains("\r\nx-level: low\r\n"));
    let counted = refused_by_code().into_iter().find(|(code, reason, _)| *code == 429 && reason.contains("share"));
    assert!(counted.is_some_and(|(.., count)| count > 0));
    plane.stop();
}

#[test]
fn who_keeps_a_record_hears_of_refusals_on_every_port() {
    let (demo, directory) = (Demo::new(), Private::new());
    let told: Arc<Mutex<Vec<(u16, String)>>> = Arc::default();
    let heard = told.clone();
    let refused: OnRefusal = Arc::new(move |refused: &RefusedRequest<'_>| {
        heard.lock().unwrap().push((refused.code, refused.path.to_owned()));
    });
    let port = Port { identify: by_name(), refused: refused.clone(), ..Port::of_this_host(Limits::EDGE) };
    let plane = demo.port(port);
    let local_port = LocalPort { identify: by_name(), refused, ..LocalPort::of_root(LocalLimits::HOST) };
    let local = local::start(&directory.socket(), demo.handler.clone(), local_port).unwrap();
    for mut peer in [Peer::tcp(&plane), Peer::unix(&directory.socket())] {
        peer.send(b"GET /user?token=secret HTTP/1.1\r\nHost: localhost\r\n\r\n");
        peer.until_text("a token is needed");
    }
    let mut foreign = Peer::tcp(&plane);
    foreign.send(b"GET /user HTTP/1.1\r\nHost: example.com\r\n\r\n");
    foreign.until_text("Forbidden");
    let told = told.lock().unwrap().clone();
    assert_eq!(told, [(401, "/user".to_owned()), (401, "/user".to_owned()), (403, "/user".to_owned())]);
    local.stop();
    plane.stop();
}

#[test]
fn what_is_no_http_is_counted() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let counted = |code: u16, reason: &str| {
        let found = refused_by_code().into_iter().find(|(of, why, _)| (*of, *why) == (code, reason));
        found.map_or(0, |(.., count)| count)
    };
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    for (text, code, reason) in [("nonsense\r\n\r\n", 400, "no HTTP"), (long.as_str(), 431, "head too large")] {
        let before = counted(code, reason);
        let mut peer = Peer::tcp(&plane);
        peer.send(text.as_bytes());
        peer.until_text(&code.to_string());
        eventually("it is counted", || counted(code, reason) > before);
    }
    plane.stop();
}

#[test]
fn a_port_of_this_host_serves_the_administrator() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    assert!(ask(Peer::tcp(&plane), "/user").ends_with("system:admin"));
    plane.stop();
}
