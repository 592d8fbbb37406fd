//! Connections that are taken over: by a handler, and through a second server to the one behind it.
use super::wire::{Demo, Peer, Private, codes, eventually, last_get};
use coracle_http::local::LocalPort;
use coracle_http::network::{self, NetworkPlane, Port};
use coracle_http::{
    Answer, Forward, HeaderValue, Limits, LocalLimits, Passes, Request, Server, StatusCode, Upgrade, Upgraded, local,
};
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Says what it hears in capitals until nobody speaks, and then `END`.
async fn echo(mut upgraded: Upgraded, open: Arc<AtomicUsize>) {
    open.fetch_add(1, Ordering::Relaxed);
    let mut heard = [0; 1024];
    while let Ok(bytes @ 1..) = upgraded.read(&mut heard).await {
        upgraded.write_all(&heard[..bytes].to_ascii_uppercase()).await.unwrap();
        upgraded.flush().await.unwrap();
    }
    let _ = upgraded.write_all(b"END").await;
    let _ = upgraded.shutdown().await;
    open.fetch_sub(1, Ordering::Relaxed);
}

/// A server that goes on with `echo` at `/echo`, and with what nobody asked for at `/other`; and how many speak with
/// it.
fn echoing(limits: Limits) -> (NetworkPlane, Arc<AtomicUsize>) {
    echoing_on(Port::of_this_host(limits))
}

pub fn echoing_on(port: Port) -> (NetworkPlane, Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    let speaking = open.clone();
    let handler = Arc::new(move |request: Request| {
        let protocol = match request.target.path() {
            "/echo" | "/echo/for/hours" => "echo/1",
            "/other" => "other",
            _ => return Answer::refuse(StatusCode::NOT_FOUND, "NotFound", "no such path"),
        };
        let open = speaking.clone();
        let upgrade = Upgrade::new(move |upgraded| echo(upgraded, open));
        let stays = request.target.path() == "/echo/for/hours";
        let upgrade = if stays { upgrade.leaving_room() } else { upgrade };
        let mut answer = Answer::upgrade(HeaderValue::from_static(protocol), upgrade);
        answer.headers.insert("x-stream-protocol-version", HeaderValue::from_static("v4"));
        answer.headers.insert("set-cookie", HeaderValue::from_static("a=b"));
        answer
    });
    let listener = network::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    (network::start(listener, handler, port).unwrap(), open)
}

/// A server that passes everything on to that one.
fn passing_on(far: &NetworkPlane, limits: Limits) -> NetworkPlane {
    let listener = network::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let handler = passes_to(Server::Address(far.address));
    network::start(listener, handler, Port::of_this_host(limits)).unwrap()
}

fn passes_to(server: Server) -> coracle_http::Handler {
    Arc::new(move |request: Request| {
        let forward = Forward::get(server.clone(), request.target.clone(), super::wire::PATIENCE);
        Answer::forward(Forward {
            passes: Passes::Upgrade,
            leaves_room: request.target.path() == "/echo/for/hours",
            headers: request.headers.clone(),
            method: request.method.clone(),
            ..forward
        })
    })
}

fn ask(path: &str, more: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{more}\r\n").into_bytes()
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: none, ECHO/1\r\n";

fn end(peer: &Peer) {
    match peer {
        Peer::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        Peer::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        Peer::Tls(_) => panic!("a goodbye needs a stream that can be changed"),
    }
}

/// From the head to the last byte after this side has ended its own.
fn conversation(mut peer: Peer) {
    peer.send(&ask("/echo", UPGRADE));
    let head = peer.until_text("\r\n\r\n").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo/1\r\n"), "{head}");
    assert!(head.contains("connection: upgrade\r\n") && head.contains("x-stream-protocol-version: v4\r\n"), "{head}");
    for word in ["one", "GET /a>b HTTP/1.1\r\n"] {
        peer.send(word.as_bytes());
        assert_eq!(peer.until_text(&word.to_ascii_uppercase()), word.to_ascii_uppercase(), "as it is");
    }
    let large = vec![b'x'; 3 << 20];
    let Peer::Tcp(stream) = &peer else { panic!("over TCP") };
    let (mut writer, sent) = (stream.try_clone().unwrap(), large.clone());
    let writes = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    let heard = peer.until(|heard| heard.len() == large.len());
    writes.join().unwrap();
    assert!(heard == large.to_ascii_uppercase());
    end(&peer);
    assert_eq!(String::from_utf8(peer.rest()).unwrap(), "END", "the other way is open until that side ends it");
}

#[test]
fn a_handler_takes_over_a_connection() {
    let (plane, open) = echoing(Limits::EDGE);
    conversation(Peer::tcp(&plane));
    eventually("it has ended", || open.load(Ordering::Relaxed) == 0);
    plane.stop();
}

#[test]
fn through_a_second_server() {
    let (far, open) = echoing(Limits::EDGE);
    let near = passing_on(&far, Limits::EDGE);
    conversation(Peer::tcp(&near));
    // What leaves without a word ends it there as well.
    let mut peer = Peer::tcp(&near);
    peer.send(&ask("/echo", UPGRADE));
    let head = peer.until_text("\r\n\r\n");
    assert!(!head.contains("set-cookie"), "nothing of this origin: {head}");
    eventually("it speaks", || open.load(Ordering::Relaxed) == 1);
    drop(peer);
    eventually("it has ended", || open.load(Ordering::Relaxed) == 0);
    // A refusal there is an answer here.
    let mut peer = Peer::tcp(&near);
    peer.send(&ask("/nowhere", "Connection: Upgrade, close\r\nUpgrade: echo/1\r\n"));
    assert_eq!(codes(&peer.rest()), [404]);
    near.stop();
    far.stop();
}

#[test]
fn as_a_master_goes_on_to_an_agents_socket() {
    let directory = Private::new();
    let open = Arc::new(AtomicUsize::new(0));
    let speaking = open.clone();
    let handler: coracle_http::Handler = Arc::new(move |_| {
        let open = speaking.clone();
        let mut answer =
            Answer::upgrade(HeaderValue::from_static("echo/1"), Upgrade::new(move |upgraded| echo(upgraded, open)));
        answer.headers.insert("x-stream-protocol-version", HeaderValue::from_static("v4"));
        answer
    });
    let door = network::listen_unix(&directory.socket(), Arc::new(|_| true)).unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let agent = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(network::serve(door, handler, Port::of_this_host(Limits::EDGE), stopped)).unwrap();
    });
    let listener = network::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let handler = passes_to(Server::Socket(directory.socket()));
    let master = network::start(listener, handler, Port::of_this_host(Limits::EDGE)).unwrap();
    conversation(Peer::tcp(&master));
    master.stop();
    stop.send_replace(true);
    agent.join().unwrap();
}

#[test]
fn who_gets_none() {
    let (plane, _) = echoing(Limits::EDGE);
    let near = passing_on(&plane, Limits::EDGE);
    let close = "Connection: Upgrade, close\r\n";
    for (path, more, direct, through) in [
        ("/echo", "Connection: close\r\n".to_owned(), 400, 400),
        ("/echo", "Connection: close\r\nUpgrade: echo/1\r\n".to_owned(), 400, 400),
        ("/echo", format!("{close}Upgrade: websocket\r\n"), 400, 400),
        // It goes on with another than was asked for.
        ("/other", format!("{close}Upgrade: echo/1\r\n"), 400, 400),
        ("/echo", format!("{close}Upgrade: echo/1\r\nOrigin: http://example.com\r\n"), 403, 403),
        ("/nowhere", format!("{close}Upgrade: echo/1\r\n"), 404, 404),
    ] {
        for (plane, expected) in [(&plane, direct), (&near, through)] {
            let mut peer = Peer::tcp(plane);
            peer.send(&ask(path, &more));
            assert_eq!(codes(&peer.rest()), [expected], "{path} {more}");
        }
    }
    let mut peer = Peer::tcp(&plane);
    peer.send(b"GET /echo HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n");
    assert_eq!(codes(&peer.rest()), [400], "HTTP/1.0 cannot be left");
    near.stop();
    plane.stop();
}

#[test]
fn there_is_a_limit_and_places_come_free() {
    let (plane, open) = echoing(Limits { upgrades_max: 9, ..Limits::EDGE });
    let connect = || {
        let mut peer = Peer::tcp(&plane);
        peer.send(&ask("/echo", UPGRADE));
        let code = codes(peer.until_text("\r\n\r\n").as_bytes())[0];
        (peer, code)
    };
    // Eight of nine are one client's.
    let speaking: Vec<(Peer, u16)> = (0..8).map(|_| connect()).collect();
    assert!(speaking.iter().all(|(_, code)| *code == 101));
    assert_eq!(connect().1, 429);
    drop(speaking);
    eventually("all have ended", || open.load(Ordering::Relaxed) == 0);
    eventually("there is room", || connect().1 == 101);
    plane.stop();
}

#[test]
fn those_that_stay_for_hours_leave_room() {
    let few = Limits { upgrades_max: 9, tunnels_max: 4, ..Limits::EDGE };
    let (far, _) = echoing(few.clone());
    let (behind, _) = echoing(Limits::EDGE);
    let near = passing_on(&behind, few);
    for plane in [&far, &near] {
        let connect = |path: &str| {
            let mut peer = Peer::tcp(plane);
            peer.send(&ask(path, UPGRADE));
            let code = codes(peer.until_text("\r\n\r\n").as_bytes())[0];
            (peer, code)
        };
        let staying: Vec<(Peer, u16)> = (0..3).map(|_| connect("/echo/for/hours")).collect();
        assert!(staying.iter().all(|(_, code)| *code == 101));
        assert_eq!(connect("/echo/for/hours").1, 429);
        let others: Vec<(Peer, u16)> = (0..5).map(|_| connect("/echo")).collect();
        assert!(others.iter().all(|(_, code)| *code == 101));
    }
    near.stop();
    behind.stop();
    far.stop();
}

#[test]
fn a_stop_waits_for_none() {
    let (far, _) = echoing(Limits { drain: super::wire::PATIENCE * 10, ..Limits::EDGE });
    let near = passing_on(&far, Limits { drain: super::wire::PATIENCE * 10, ..Limits::EDGE });
    for plane in [&far, &near] {
        let mut peer = Peer::tcp(plane);
        peer.send(&ask("/echo", UPGRADE));
        peer.until_text("\r\n\r\n");
        std::mem::forget(peer);
    }
    near.stop();
    far.stop();
}

#[test]
fn the_local_side_carries_none() {
    let (far, _) = echoing(Limits::EDGE);
    let directory = Private::new();
    let upgrade = || Answer::upgrade(HeaderValue::from_static("echo/1"), Upgrade::new(|_| async {}));
    let (forwards, address) = (passes_to(Server::Address(far.address)), far.address);
    let handler =
        Arc::new(move |request: Request| if request.target.path() == "/here" { upgrade() } else { forwards(request) });
    let plane = local::start(&directory.socket(), handler, LocalPort::of_root(LocalLimits::HOST)).unwrap();
    for path in ["/here", "/echo"] {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(&ask(path, "Connection: Upgrade, close\r\nUpgrade: echo/1\r\n"));
        let answer = peer.until_text("--listen");
        assert!(answer.starts_with("HTTP/1.1 501") && answer.contains("plain port"), "{address} {answer}");
    }
    plane.stop();
    far.stop();
}

/// tiny_http takes all that follows an upgrade for the body. One whose length is not plain may hold the options of a
/// deletion.
#[test]
fn the_local_side_takes_no_body_for_empty_that_is_not() {
    let directory = Private::new();
    let length = |request: Request| Answer::text(StatusCode::OK, format!("{} bytes\n", request.body.len()));
    let plane = local::start(&directory.socket(), Arc::new(length), LocalPort::of_root(LocalLimits::HOST)).unwrap();
    let table = [
        ("Content-Length: 5\r\n\r\nhello", "HTTP/1.1 200", "5 bytes\n"),
        ("\r\n", "HTTP/1.1 200", "0 bytes\n"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400", "no body in chunks"),
        ("Content-Length: five\r\n\r\nhello", "HTTP/1.1 400", "content-length"),
        ("Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 400", "content-length"),
    ];
    for (rest, status, text) in table {
        let mut peer = Peer::unix(&directory.socket());
        let head = "DELETE /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: echo/1\r\n";
        peer.send(format!("{head}{rest}").as_bytes());
        let answer = peer.until_text(text);
        assert!(answer.starts_with(status), "{rest:?}: {answer}");
    }
    plane.stop();
}

/// Of the handlers that answer without one nothing changes.
#[test]
fn who_asks_for_an_upgrade_may_be_answered_plainly() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    peer.send(b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    peer.until_text("small\n");
    peer.send(&last_get("/small"));
    assert_eq!(codes(&peer.rest()), [200]);
    plane.stop();
}
