//! The local side: the same answers, and what makes tiny_http dependable.
use super::wire::{Demo, PATIENCE, Peer, Private, ask, codes, contains, eventually, get, last_get, serves};
use coracle_http::local::LocalPort;
use coracle_http::{LocalLimits, local};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

fn limits() -> LocalLimits {
    let soon = Duration::from_millis(50);
    LocalLimits { streams_max: 32, heartbeat: soon, probe_soon: soon, ..LocalLimits::HOST }
}

fn serve(demo: &Demo) -> (Private, local::LocalPlane) {
    let directory = Private::new();
    let plane = local::start(&directory.socket(), demo.handler.clone(), LocalPort::of_root(limits())).unwrap();
    (directory, plane)
}

#[test]
fn the_same_answers_as_on_the_network() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let path = directory.socket();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory.0), mode(&path)), (0o700, 0o600));
    assert!(ask(Peer::unix(&path), "/who").ends_with("local"));
    assert_eq!(codes(ask(Peer::unix(&path), "/nowhere").as_bytes()), [404]);
    assert!(ask(Peer::unix(&path), "/dump?a>5").ends_with("GET /dump?a%3E5 0"));
    assert_eq!(codes(ask(Peer::unix(&path), "/panic").as_bytes()), [500]);
    let list = ask(Peer::unix(&path), "/list");
    assert!(list.contains("Content-Length: 4194304") && list.len() > 4 << 20);
    let mut kept = Peer::unix(&path);
    for _ in 0..3 {
        kept.send(&get("/small"));
        kept.until_text("small\n");
    }
    kept.send(b"HEAD /list HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let head = String::from_utf8(kept.rest()).unwrap();
    assert!(head.contains("Content-Length: 4194304") && head.len() < 1000, "{head}");
    plane.stop();
    assert!(!path.exists());
}

#[test]
fn bodies() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let post = |fields: &str, body: &[u8]| {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(
            format!("POST /dump HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n\r\n").as_bytes(),
        );
        peer.send(body);
        String::from_utf8(peer.rest()).unwrap()
    };
    let full = vec![b'a'; 3 << 20];
    assert!(post("Content-Length: 3145728", &full).contains("POST /dump 3145728"));
    assert!(post("Content-Length: 3145729", &[full.as_slice(), b"a"].concat()).starts_with("HTTP/1.1 413"));
    let chunk = [b"10000\r\n", vec![b'a'; 1 << 16].as_slice(), b"\r\n"].concat();
    assert!(
        post("Transfer-Encoding: chunked", &[chunk.as_slice(), b"0\r\n\r\n"].concat()).contains("POST /dump 65536")
    );
    // A disk image sent here by mistake: refused, and the process lives.
    let mut peer = Peer::unix(&directory.socket());
    peer.send(b"POST /dump HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000000000\r\n\r\nabc");
    peer.until_text("limit is 3145728");
    assert!((0..8).all(|_| serves(Peer::unix(&directory.socket()))));
    plane.stop();
}

#[test]
fn a_watch() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let mut peer = Peer::unix(&directory.socket());
    peer.send(&get("/watch"));
    let head = peer.until_text("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-type: application/json"), "{head}");
    peer.until_text("1\r\n\n\r\n");
    demo.publish(b"{}\n");
    peer.until_text("3\r\n{}\n\r\n");
    demo.end_streams();
    peer.until_text("0\r\n\r\n");
    demo.a_stream_is_left();
    peer.send(&last_get("/small"));
    assert!(contains(&peer.rest(), b"small\n"), "the connection goes on");
    // A watcher that leaves is noticed although nothing happens.
    let mut peer = Peer::unix(&directory.socket());
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    drop(peer);
    demo.a_stream_is_left();
    // To HTTP/1.0 without chunks.
    let mut peer = Peer::unix(&directory.socket());
    peer.send(b"GET /log HTTP/1.0\r\nHost: localhost\r\n\r\n");
    peer.until_text("\r\n\r\n");
    demo.publish(b"line\n");
    demo.end_streams();
    assert_eq!(peer.rest(), b"line\n");
    plane.stop();
}

#[test]
fn a_burst_of_watches_and_one_too_many() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let mut peers: Vec<Peer> = (0..40).map(|_| Peer::unix(&directory.socket())).collect();
    peers.iter_mut().for_each(|peer| assert!(peer.send(&get("/watch"))));
    let answers: Vec<u16> = peers.iter_mut().flat_map(|peer| codes(peer.until_text("\r\n\r\n").as_bytes())).collect();
    let count = |code| answers.iter().filter(|answer| **answer == code).count();
    assert_eq!((count(200), count(429)), (32, 8), "all 40 are answered, those beyond the places with 429");
    assert!(serves(Peer::unix(&directory.socket())), "short requests pass beside them");
    drop(peers);
    eventually("the places come back", || {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(&get("/watch"));
        codes(peer.until_text("\r\n\r\n").as_bytes()) == [200]
    });
    plane.stop();
}

/// They wait for the disk, as long as it takes.
#[test]
fn those_who_write_keep_nobody_from_reading() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let put = |path: &str| {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(
            format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        peer
    };
    let mut slow: Vec<Peer> = Vec::new();
    for _ in 0..limits().writers_max {
        slow.push(put("/gate"));
        demo.waiting.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(codes(&put("/small").rest()), [429], "as many write as may");
    assert!(serves(Peer::unix(&directory.socket())));
    slow.iter().for_each(|_| demo.open_gate());
    assert!(slow.iter_mut().all(|peer| codes(&peer.rest()) == [200]));
    eventually("the places come back", || codes(&put("/small").rest()) == [200]);
    plane.stop();
}

/// Whoever watches over this server would restart it for their sake.
#[test]
fn those_who_read_keep_nobody_from_health() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let ask = |path: &str| {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(&last_get(path));
        peer
    };
    let mut slow: Vec<Peer> = Vec::new();
    for _ in 0..limits().handlers - 1 + limits().writers_max {
        slow.push(ask("/gate"));
        demo.waiting.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(codes(&ask("/small").rest()), [429], "as many as may");
    assert_eq!(codes(&ask("/livez").rest()), [200]);
    // A body that does not come is nothing that this one waits for.
    let mut endless = Peer::unix(&directory.socket());
    endless.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
    assert_eq!(codes(&ask("/livez?verbose").rest()), [200]);
    slow.iter().for_each(|_| demo.open_gate());
    assert!(slow.iter_mut().all(|peer| codes(&peer.rest()) == [200]));
    eventually("the places come back", || codes(&ask("/small").rest()) == [200]);
    drop(endless);
    plane.stop();
}

#[test]
fn one_instance_a_path() {
    let demo = Demo::new();
    let (directory, plane) = serve(&demo);
    let start =
        |path: &Path| local::start(path, demo.handler.clone(), LocalPort::of_root(limits())).map_err(|e| e.kind());
    assert_eq!(start(&directory.socket()).err(), Some(std::io::ErrorKind::AddrInUse));
    assert!(serves(Peer::unix(&directory.socket())), "the first is unharmed");
    plane.stop();
    // Left by a process that was killed.
    drop(UnixListener::bind(directory.socket()).unwrap());
    let plane = start(&directory.socket()).unwrap();
    assert!(serves(Peer::unix(&directory.socket())));
    plane.stop();
    std::fs::write(directory.socket(), "precious").unwrap();
    assert_eq!(start(&directory.socket()).err(), Some(std::io::ErrorKind::AlreadyExists));
    assert_eq!(std::fs::read(directory.socket()).unwrap(), b"precious");
    std::fs::set_permissions(&directory.0, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(start(&directory.0.join("other.sock")).err(), Some(std::io::ErrorKind::PermissionDenied));
    assert_eq!(start(Path::new("relative.sock")).err(), Some(std::io::ErrorKind::InvalidInput));
}

#[test]
fn a_socket_file_that_somebody_removed_comes_back() {
    let demo = Demo::new();
    let directory = Private::new();
    let seldom = LocalLimits { probe_slow: Duration::from_millis(100), ..limits() };
    let plane = local::start(&directory.socket(), demo.handler.clone(), LocalPort::of_root(seldom)).unwrap();
    std::fs::remove_file(directory.socket()).unwrap();
    eventually("the listener is rebuilt", || directory.socket().exists());
    assert!(serves(Peer::unix(&directory.socket())));
    plane.stop();
}
