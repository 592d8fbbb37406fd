//! What a browser is told, and what of one is not answered.
use super::wire::{Demo, Peer, Private, ask, codes, contains, last_get};
use coracle_http::local::LocalPort;
use coracle_http::{LocalLimits, local};

/// The head of an answer, in small letters; not of an interim one.
fn head(peer: &mut Peer, request: &[u8]) -> String {
    peer.send(request);
    loop {
        let all = peer.until(|all| contains(all, b"\r\n\r\n"));
        let all = String::from_utf8_lossy(&all).to_lowercase();
        let last = all.split("\r\n\r\n").find(|part| !part.starts_with("http/1.1 100")).unwrap_or_default();
        if last.starts_with("http/1.1 ") {
            return last.to_owned();
        }
    }
}

#[test]
fn no_answer_is_taken_for_what_it_does_not_say_it_is() {
    let (far, near) = (Demo::new(), Demo::new());
    let (far_plane, plane) = (far.network(|_| {}), near.network(|_| {}));
    let directory = Private::new();
    let local = local::start(&directory.socket(), near.handler.clone(), LocalPort::of_root(LocalLimits::HOST)).unwrap();
    let forward = |path: &str| last_get(&format!("/forward/{}/20000/{path}", far_plane.address.port()));
    let large = b"POST /dump HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000000\r\n\r\n".to_vec();
    let requests: [(Vec<u8>, u16); 10] = [
        (last_get("/small"), 200),
        (last_get("/list"), 200),
        (last_get("/nowhere"), 404),
        (last_get("/panic"), 500),
        (b"HEAD /list HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), 200),
        (b"GET x HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), 400),
        (large, 413),
        (last_get("/log"), 200),
        (forward("small"), 200),
        (forward("panic"), 500),
    ];
    let peers: [&dyn Fn() -> Peer; 2] = [&|| Peer::tcp(&plane), &|| Peer::unix(&directory.socket())];
    for peer in peers {
        let mut kept = Vec::new();
        for (request, code) in &requests {
            let mut peer = peer();
            let head = head(&mut peer, request);
            // What hyper refuses by itself goes out without a call of ours, and hyper gives no way to its fields: a
            // carrier that read all that it writes would cost every answer. Such a refusal has no body that could be
            // taken for anything.
            let bare = head.contains("content-length: 0");
            assert_eq!(head.matches("x-content-type-options: nosniff").count(), usize::from(!bare), "{head}");
            assert_eq!(codes(head.to_uppercase().as_bytes()), [*code], "{head}");
            kept.extend(request.starts_with(b"GET /log").then_some(peer));
        }
        drop(kept);
    }
    local.stop();
    plane.stop();
    far_plane.stop();
}

#[test]
fn pages_of_other_ports_are_not_answered() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let asked = |fields: &str| {
        let mut peer = Peer::tcp(&plane);
        let port = plane.address.port();
        let fields = fields.replace("OWN", &port.to_string());
        peer.send(
            format!(
                "POST /dump HTTP/1.1\r\nHost: localhost:{port}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\
                 \r\n"
            )
            .as_bytes(),
        );
        codes(&peer.rest())
    };
    for (fields, code) in [
        ("", 200),
        ("Origin: http://localhost:OWN\r\nSec-Fetch-Site: same-origin\r\n", 200),
        ("Origin: http://localhost:30080\r\nSec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://localhost:30080\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Service-Worker: script\r\n", 403),
    ] {
        assert_eq!(asked(fields), [code], "{fields:?}");
    }
    plane.stop();
}

#[test]
fn an_agents_answers_are_text_or_json() {
    let (far, near) = (Demo::new(), Demo::new());
    let (far_plane, plane) = (far.network(|_| {}), near.network(|_| {}));
    let port = far_plane.address.port();
    for (path, content) in
        [("small", "text/plain; charset=utf-8"), ("list", "application/json"), ("page", "text/plain; charset=utf-8")]
    {
        let answer = ask(Peer::tcp(&plane), &format!("/forward/{port}/20000/{path}")).to_lowercase();
        assert!(
            answer.contains(&format!("content-type: {content}\r\n")),
            "{path}: {}",
            answer.split("\r\n\r\n").next().unwrap_or_default()
        );
    }
    let page = ask(Peer::tcp(&far_plane), "/page");
    assert!(page.contains("text/html"), "{page}");
    plane.stop();
    far_plane.stop();
}
