//! Answers that come from another server, on both sides.
use super::wire::{Demo, Peer, Private, ask, codes, get, last_get};
use coracle_http::local::LocalPort;
use coracle_http::network::NetworkPlane;
use coracle_http::{LocalLimits, local};
use std::net::TcpListener;

/// The same through both sides; `far` is the server behind.
fn on_both_sides(check: impl Fn(&Demo, &NetworkPlane, &dyn Fn() -> Peer)) {
    let far = Demo::new();
    let far_plane = far.network(|_| {});
    let near = Demo::new();
    let plane = near.network(|_| {});
    check(&far, &far_plane, &|| Peer::tcp(&plane));
    let directory = Private::new();
    let local = local::start(&directory.socket(), near.handler.clone(), LocalPort::of_root(LocalLimits::HOST)).unwrap();
    check(&far, &far_plane, &|| Peer::unix(&directory.socket()));
    local.stop();
    plane.stop();
    far_plane.stop();
}

#[test]
fn status_type_and_body_pass() {
    on_both_sides(|_, far, peer| {
        let port = far.address.port();
        let answer = ask(peer(), &format!("/forward/{port}/20000/dump?a=%20b"));
        // The query belongs to the request that was forwarded here, not to the target that its handler chose.
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("GET /dump 0"), "{answer}");
        assert!(answer.to_lowercase().contains("content-type: text/plain"), "{answer}");
        let answer = ask(peer(), &format!("/forward/{port}/20000/nowhere"));
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("no such path"), "{answer}");
        let answer = ask(peer(), &format!("/forward/{port}/20000/list"));
        assert!(answer.len() > 4 << 20);
        let mut head = peer();
        head.send(
            format!("HEAD /forward/{port}/20000/small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        let answer = String::from_utf8(head.rest()).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n") && !answer.contains("small"),
            "{answer}"
        );
    });
}

#[test]
fn a_log_that_is_followed_comes_line_by_line() {
    on_both_sides(|far, far_plane, peer| {
        let mut reader = peer();
        reader.send(&last_get(&format!("/forward/{}/20000/log", far_plane.address.port())));
        reader.until_text("\r\n\r\n");
        for line in ["first\n", "second\n"] {
            far.publish(line.as_bytes());
            reader.until_text(line);
        }
        far.end_streams();
        reader.until_text("0\r\n\r\n");
        far.a_stream_is_left();
    });
}

#[test]
fn who_leaves_ends_what_is_behind() {
    on_both_sides(|far, far_plane, peer| {
        let mut reader = peer();
        reader.send(&get(&format!("/forward/{}/20000/log", far_plane.address.port())));
        reader.until_text("\r\n\r\n");
        drop(reader);
        // The local side notices at the next line.
        super::wire::eventually("the stream behind is left", || {
            far.publish(b"line\n");
            far.has_a_stream_left()
        });
    });
}

#[test]
fn a_server_that_is_not_there_or_silent() {
    on_both_sides(|_, far, peer| {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let answer = ask(peer(), &format!("/forward/{closed}/20000/small"));
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("\"kind\":\"Status\""), "{answer}");
        // It accepts, in its backlog, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let answer = ask(peer(), &format!("/forward/{port}/100/small"));
        assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("\"kind\":\"Status\""), "{answer}");
        // Silent in the middle of a body: what came is shown not to be whole.
        let mut reader = peer();
        reader.send(&last_get(&format!("/forward/{}/3000/log", far.address.port())));
        let all = reader.rest();
        assert_eq!(codes(&all), [200]);
        assert!(!all.ends_with(b"0\r\n\r\n"), "{:?}", String::from_utf8_lossy(&all));
    });
}

#[test]
fn forwarded_answers_leave_room_for_watches_on_the_local_side() {
    let far = Demo::new();
    let far_plane = far.network(|_| {});
    let near = Demo::new();
    let directory = Private::new();
    let limits = LocalLimits { forwards_max: 1, ..LocalLimits::HOST };
    let local = local::start(&directory.socket(), near.handler.clone(), LocalPort::of_root(limits)).unwrap();
    let open = |path: &str| {
        let mut peer = Peer::unix(&directory.socket());
        peer.send(&last_get(path));
        let code = codes(peer.until_text("\r\n\r\n").as_bytes());
        (peer, code)
    };
    let follow = format!("/forward/{}/20000/log", far_plane.address.port());
    let first = open(&follow);
    assert_eq!((first.1.as_slice(), open(&follow).1.as_slice()), ([200].as_slice(), [429].as_slice()));
    assert_eq!(open("/watch").1, [200]);
    local.stop();
    far_plane.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_log() {
    let far = Demo::new();
    let far_plane = far.network(|_| {});
    let near = Demo::new();
    let plane = near.network(|limits| limits.drain = std::time::Duration::from_secs(3600));
    let mut reader = Peer::tcp(&plane);
    reader.send(&get(&format!("/forward/{}/3600000/log", far_plane.address.port())));
    reader.until_text("\r\n\r\n");
    let stopping = std::thread::spawn(move || plane.stop());
    assert!(!reader.rest().ends_with(b"0\r\n\r\n"));
    stopping.join().unwrap();
    far_plane.stop();
}
