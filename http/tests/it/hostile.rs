//! Hostile and unlucky clients of the network side. Each test ends with a good client that is served.
use super::wire::{Demo, PATIENCE, Peer, ask, codes, contains, eventually, get, last_get, serves};
use std::time::Duration;

const OK: &[u16] = &[200];
const BAD: &[u16] = &[400];

/// Any of these lists of codes, one code an answer.
type Wanted<'a> = &'a [&'a [u16]];

/// The request, then a good one on the same connection that asks the server to close: what comes back, by code.
fn say(plane: &coracle_http::network::NetworkPlane, request: &[u8]) -> Vec<u16> {
    let mut peer = Peer::tcp(plane);
    peer.send(&[request, &last_get("/small")].concat());
    codes(&peer.rest())
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /dump HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{body}").into_bytes()
}

#[test]
fn announced_lengths() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    for (length, want) in [
        ("9223372036854775807", 413),
        ("18446744073709551615", 400),
        ("18446744073709551616", 400),
        ("40000000000", 413),
        ("3145729", 413),
        ("-1", 400),
        ("+5", 400),
        ("5x", 400),
        ("5, 5", 400),
    ] {
        let mut peer = Peer::tcp(&plane);
        peer.send(&post(&format!("Content-Length: {length}"), "abc"));
        let got = codes(&peer.rest());
        assert!(got == [want] || (got == [431] && want == 400), "length {length}: {got:?}");
    }
    // Later on a connection that was good so far, and just within the limit.
    let mut peer = Peer::tcp(&plane);
    peer.send(&get("/small"));
    peer.until_text("small\n");
    peer.send(&post("Content-Length: 40000000000", "abc"));
    assert_eq!(codes(&peer.rest()), [413]);
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 3145728\r\nConnection: close", &"a".repeat(3 << 20)));
    assert!(contains(&peer.rest(), b"POST /dump 3145728"));
    // Chunked and longer than the limit: refused when it is.
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Transfer-Encoding: chunked", ""));
    let chunk = [b"10000\r\n", "a".repeat(1 << 16).as_bytes(), b"\r\n"].concat();
    while peer.send(&chunk) {}
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn refused_bodies_are_read_on_so_that_their_senders_find_the_answer() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let body = "a".repeat(12 << 20);
    let lengths = [(4 << 20, "more than is taken"), (body.len(), "more than the kernel takes")];
    for (bytes, what) in lengths {
        let length = format!("Content-Length: {bytes}");
        let chunked = format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", &body[..bytes]);
        for request in [post(&length, &body[..bytes]), post("Transfer-Encoding: chunked", &chunked)] {
            let mut peer = Peer::tcp(&plane);
            assert!(peer.send(&request), "{what}: all is sent before anything is read");
            assert!(peer.send(&last_get("/small")));
            assert_eq!(codes(&peer.rest()), [413, 200], "{what}");
        }
    }
    // Who reads at once has its answer while it still sends, and is let go when it has sent far too much.
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 40000000000", &body));
    assert_eq!(codes(peer.until_text("}").as_bytes()), [413]);
    while peer.send(body.as_bytes()) {}
    // Refused for another reason, and its body is not wanted either.
    let mut peer = Peer::tcp(&plane);
    let foreign = format!("POST /dump HTTP/1.1\r\nHost: example.com\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert!(peer.send(foreign.as_bytes()) && peer.send(&last_get("/small")));
    assert_eq!(codes(&peer.rest()), [403, 200]);
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn raw_signs_in_a_query_are_taken_and_no_body_is_touched() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    assert!(ask(Peer::tcp(&plane), "/dump?a>\"5\",b<2").ends_with("GET /dump?a%3E%225%22,b%3C2 0"));
    let mut peer = Peer::tcp(&plane);
    for _ in 0..2 {
        // A body that comes by itself and looks like a request.
        let body = b"GET /small?a=\"<>\" HTTP/1.1\r\n\r\n";
        peer.send(&post(&format!("Content-Length: {}\r\nExpect: 100-continue", body.len()), ""));
        assert_eq!(codes(peer.until_text("\r\n\r\n").as_bytes()), [100]);
        peer.send(body);
        peer.until_text(&format!("POST /dump {}", body.len()));
        peer.send(&get("/dump?>"));
        peer.until_text("GET /dump?%3E 0");
    }
    plane.stop();
}

#[test]
fn heads() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let with = |fields: usize, bytes: usize| {
        let fields: String = (0..fields).map(|i| format!("A{i}: {}\r\n", "b".repeat(bytes))).collect();
        let mut peer = Peer::tcp(&plane);
        peer.send(format!("GET /small HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n").as_bytes());
        codes(&peer.rest())
    };
    assert_eq!(with(62, 1), OK, "64 fields");
    assert_eq!(with(63, 1), [431], "65 fields");
    assert_eq!(with(30, 1000), OK, "31 KB");
    assert_eq!(with(40, 1000), [431], "41 KB");
    let mut peer = Peer::tcp(&plane);
    peer.send(b"GET / HTTP/1.1\r\nX: ");
    let taken = (0..64).take_while(|_| peer.send(&vec![b'a'; 1 << 20])).count();
    assert!(taken < 32, "an endless field: {taken} MiB were taken");
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn syntax() {
    let demo = Demo::new();
    let plane = demo.network(|limits| limits.body = Duration::from_secs(1));
    let both: &[u16] = &[200, 200];
    // Answered and closed, answered and gone on, or refused: never an answer to what stands in a body.
    let table: &[(&str, Vec<u8>, Wanted)] = &[
        (
            "length and chunked",
            post("Content-Length: 4\r\nTransfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\nGET /dump?smuggled"),
            &[OK, BAD],
        ),
        ("identity", post("Content-Length: 5\r\nTransfer-Encoding: identity", "hello"), &[BAD]),
        ("xchunked", post("Transfer-Encoding: xchunked", "0\r\n\r\n"), &[BAD]),
        ("chunked, gzip", post("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"), &[BAD]),
        ("gzip, chunked", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), &[&[501, 200]]),
        ("two lengths that differ", post("Content-Length: 3\r\nContent-Length: 5", "hello"), &[BAD]),
        ("one length twice", post("Content-Length: 5\r\nContent-Length: 5", "hello"), &[both, BAD]),
        ("space before the colon", post("Content-Length : 5", "hello"), &[BAD]),
        ("folded field", post("A: b\r\n  c", ""), &[BAD]),
        ("chunk size +5", post("Transfer-Encoding: chunked", "+5\r\nhello\r\n0\r\n\r\n"), &[BAD]),
        ("chunk size zz", post("Transfer-Encoding: chunked", "zz\r\nhello\r\n0\r\n\r\n"), &[BAD]),
        (
            "chunk size of 16 digits",
            post("Transfer-Encoding: chunked", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
            &[BAD, &[413], &[408]],
        ),
        (
            "chunk extension and trailer",
            post("Transfer-Encoding: chunked", "5;a=1\r\nhello\r\n0\r\nX: y\r\n\r\n"),
            &[both],
        ),
        (
            "endless chunk extension",
            post("Transfer-Encoding: chunked", &format!("5;{}", "a".repeat(100_000))),
            &[BAD, &[408], &[]],
        ),
        ("NUL in the path", get("/du\0mp"), &[BAD]),
        ("leading line end", [b"\r\n".as_slice(), &get("/small")].concat(), &[both]),
        ("no host", b"GET /small HTTP/1.1\r\n\r\n".to_vec(), &[&[400, 200]]),
        ("HTTP/1.0, which knows no host", b"GET /small HTTP/1.0\r\n\r\n".to_vec(), &[OK]),
        ("two hosts", b"GET /small HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_vec(), &[&[400, 200]]),
        ("foreign host", b"GET /small HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec(), &[&[403, 200]]),
        (
            "foreign origin",
            b"GET /small HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.com\r\n\r\n".to_vec(),
            &[&[403, 200]],
        ),
        ("HTTP/2.0 in words", b"GET /small HTTP/2.0\r\nHost: localhost\r\n\r\n".to_vec(), &[BAD, &[505]]),
        ("HTTP/0.9", b"GET /small\r\n\r\n".to_vec(), &[BAD]),
        ("preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[BAD, &[505], &[]]),
        ("absolute form", get("http://localhost/small"), &[both]),
        ("asterisk", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[&[400, 200]]),
        ("authority form", b"CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[&[400, 200], BAD]),
        ("no slash", get("small"), &[BAD, &[400, 200]]),
        ("odd method", b"G<T /small HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[BAD]),
        ("bad percent encoding reaches the handler", get("/dump?a=%zz%1"), &[both]),
        (
            "upgrade to HTTP/2",
            b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_vec(),
            &[both],
        ),
        ("unread body", b"GET /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".to_vec(), &[both]),
        ("panic", get("/panic"), &[&[500, 200]]),
    ];
    for (what, request, want) in table {
        let got = say(&plane, request);
        assert!(want.contains(&got.as_slice()), "{what}: {got:?} is none of {want:?}");
    }
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn refusals_are_status_documents() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    peer.send(b"GET /small HTTP/1.1\r\nHost: \"evil\"\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(peer.rest()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("403") && head.to_lowercase().contains("content-type: application/json"), "{head}");
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&"Status".into(), &403.into(), &"Forbidden".into())
    );
    plane.stop();
}

#[test]
fn versions_methods_and_expectations() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    peer.send(&get("/small").repeat(20));
    peer.send(&last_get("/small"));
    assert_eq!(codes(&peer.rest()), [200; 21], "pipelined, in order");
    let mut peer = Peer::tcp(&plane);
    peer.send(b"HEAD /list HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let head = String::from_utf8(peer.rest()).unwrap();
    assert!(head.contains("content-length: 4194304") && head.ends_with("\r\n\r\n") && head.len() < 1000, "{head}");
    let mut peer = Peer::tcp(&plane);
    peer.send(b"GET /watch HTTP/1.0\r\nHost: localhost\r\n\r\n");
    peer.until_text("\r\n\r\n");
    demo.publish(b"{}\n");
    demo.end_streams();
    assert_eq!(peer.rest(), b"{}\n", "to HTTP/1.0 without chunks, ended by the close");
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 4000000\r\nExpect: 100-continue", ""));
    assert_eq!(codes(&peer.rest()), [413], "refused before the body is sent");
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 5\r\nExpect: 100-continue\r\nConnection: close", ""));
    assert_eq!(codes(peer.until_text("\r\n\r\n").as_bytes()), [100]);
    peer.send(b"hello");
    assert_eq!(codes(&peer.rest()), OK);
    plane.stop();
}

#[test]
fn slow_senders() {
    let demo = Demo::new();
    // Long enough for those that are not slow on a machine that is.
    let plane = demo.network(|limits| {
        limits.head = Duration::from_secs(3);
        limits.body = Duration::from_secs(3);
    });
    let mut silent = Peer::tcp(&plane);
    let mut half_heads: Vec<Peer> = (0..32).map(|_| Peer::tcp(&plane)).collect();
    half_heads.iter_mut().for_each(|peer| assert!(peer.send(b"GET /small HTTP/1.1\r\nHo")));
    let mut half_body = Peer::tcp(&plane);
    half_body.send(&post("Content-Length: 10", "abc"));
    assert!(serves(Peer::tcp(&plane)));
    assert_eq!(codes(&half_body.rest()), [408]);
    for peer in &mut half_heads {
        assert!(codes(&peer.rest()).iter().all(|code| *code == 408));
    }
    assert_eq!(silent.rest(), b"");
    let mut idle = Peer::tcp(&plane);
    idle.send(&get("/small"));
    assert_eq!(codes(&idle.rest()), OK, "an idle connection is closed in time");
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn more_connections_than_there_are_places() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.connections_max = 6;
        limits.connections_per_address_max = 4;
    });
    let from = |last| Peer::tcp_from(&plane, [127, 0, 0, last], 1 << 16);
    // Nobody goes for another who has a stream.
    let open = |mut peer: Peer| {
        peer.send(&get("/watch"));
        let answer = peer.until(|all| contains(all, b"\r\n\r\n"));
        (peer, codes(&answer) == OK)
    };
    let mut kept: Vec<(Peer, bool)> = (0..4).map(|_| open(from(1))).collect();
    assert!(kept.iter().all(|(_, served)| *served));
    assert!(!open(from(1)).1, "the fifth of one address");
    kept.extend((0..2).map(|_| open(from(2))));
    assert!(kept.iter().all(|(_, served)| *served), "another address has its own share");
    assert!(!open(from(3)).1, "the seventh of all");
    drop(kept);
    eventually("places come back", || open(from(1)).1);
    plane.stop();
}

/// Two addresses hold all connections with heads that never end, and with answers that they do not take.
#[test]
fn slow_connections_close_out_nobody_else() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.connections_max = 6;
        limits.connections_per_address_max = 4;
    });
    let from = |last, bytes| Peer::tcp_from(&plane, [127, 0, 0, last], bytes);
    let mut watch = from(2, 1 << 16);
    watch.send(&get("/watch"));
    watch.until_text("\r\n\r\n");
    let mut reader = from(2, 4096);
    reader.send(&last_get("/list"));
    reader.until_text("HTTP/1.1 200");
    let mut slow: Vec<Peer> = Vec::new();
    for _ in 0..3 {
        slow.extend((0..8).map(|_| from(1, 1 << 16)));
        slow.iter_mut().for_each(|peer| _ = peer.send(b"GET /small HTTP/1.1\r\nHo"));
        for last in [1, 2, 3, 4] {
            assert!(serves(from(last, 1 << 16)), "127.0.0.{last}");
        }
    }
    // Who has fewer keeps what it has.
    demo.publish(b"{}\n");
    watch.until_text("{}\n");
    assert!(reader.rest().len() > 3 << 20, "all of the answer");
    drop(slow);
    plane.stop();
}

#[test]
fn a_burst_of_connections() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peers: Vec<Peer> = (0..40).map(|_| Peer::tcp(&plane)).collect();
    peers.iter_mut().for_each(|peer| assert!(peer.send(&last_get("/small"))));
    assert!(peers.iter_mut().all(|peer| codes(&peer.rest()) == OK));
    plane.stop();
}

#[test]
fn slow_handlers_are_shared_out() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.handlers_max = 2;
        limits.handlers_per_address_max = 1;
        limits.slot = Duration::from_millis(100);
    });
    let from = |last| Peer::tcp_from(&plane, [127, 0, 0, last], 1 << 16);
    let mut slow = from(1);
    slow.send(&last_get("/gate"));
    demo.waiting.recv_timeout(PATIENCE).unwrap();
    let refused = ask(from(1), "/small");
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"), "{refused}");
    assert!(serves(from(2)), "another address still finds a handler");
    let mut second = from(2);
    second.send(&last_get("/gate"));
    demo.waiting.recv_timeout(PATIENCE).unwrap();
    assert_eq!(codes(ask(from(3), "/small").as_bytes()), [429], "all handlers are busy");
    (1..4).for_each(|last| assert_eq!(codes(ask(from(last), "/livez").as_bytes()), OK, "health has its own"));
    // A client that leaves gives its handler's place back only when the handler ends.
    drop(slow);
    assert_eq!(codes(ask(from(1), "/small").as_bytes()), [429]);
    demo.open_gate();
    demo.open_gate();
    assert_eq!(codes(&second.rest()), OK);
    eventually("the handler of the client that left ends", || serves(from(1)));
    plane.stop();
}

#[test]
fn who_waits_to_write_keeps_nobody_from_reading() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.handlers_max = 1;
        limits.handlers_per_address_max = 1;
        limits.writers_max = 3;
        limits.writers_per_address_max = 2;
        limits.slot = Duration::from_millis(100);
    });
    let from = |last| Peer::tcp_from(&plane, [127, 0, 0, last], 1 << 16);
    let put = |path: &str| {
        format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
    };
    let mut slow: Vec<Peer> = [1, 1, 2].map(from).into();
    for peer in &mut slow {
        peer.send(&put("/gate"));
        demo.waiting.recv_timeout(PATIENCE).unwrap();
    }
    for last in [1, 2, 3] {
        let mut other = from(last);
        other.send(&put("/small"));
        assert_eq!(codes(&other.rest()), [429], "as many write as may, in all and from one address");
        assert!(serves(from(last)));
    }
    slow.iter().for_each(|_| demo.open_gate());
    assert!(slow.iter_mut().all(|peer| codes(&peer.rest()) == OK));
    plane.stop();
}

#[test]
fn requests_beyond_the_limit() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.requests_max = 2;
        limits.requests_per_address_max = 1;
    });
    let from = |last| Peer::tcp_from(&plane, [127, 0, 0, last], 1 << 16);
    let mut slow = from(1);
    slow.send(&last_get("/gate"));
    demo.waiting.recv_timeout(PATIENCE).unwrap();
    assert_eq!(codes(ask(from(1), "/small").as_bytes()), [429]);
    assert!(serves(from(2)));
    let mut second = from(2);
    second.send(&last_get("/gate"));
    demo.waiting.recv_timeout(PATIENCE).unwrap();
    assert_eq!(codes(ask(from(3), "/small").as_bytes()), [429]);
    (1..4).for_each(|last| assert_eq!(codes(ask(from(last), "/livez").as_bytes()), OK, "who asks for health is heard"));
    (0..2).for_each(|_| demo.open_gate());
    assert_eq!([codes(&slow.rest()), codes(&second.rest())], [OK, OK]);
    eventually("the place comes back", || serves(from(1)));
    plane.stop();
}

#[test]
fn bodies_on_their_way_keep_nobody_out() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.requests_max = 1;
        limits.requests_per_address_max = 1;
    });
    let mut slow: Vec<Peer> = (0..4).map(|_| Peer::tcp(&plane)).collect();
    for peer in &mut slow {
        peer.send(&post("Content-Length: 4\r\nConnection: close\r\nExpect: 100-continue", ""));
        peer.until_text("100 Continue");
        peer.send(b"ab");
    }
    assert!(serves(Peer::tcp(&plane)));
    for peer in &mut slow {
        peer.send(b"cd");
        assert!(contains(&peer.rest(), b"POST /dump 4"), "and are answered when they are there");
    }
    plane.stop();
}

#[test]
fn bodies_and_answers_have_a_budget() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.bodies_bytes_max = 1000;
        limits.answers_bytes_max = 1000;
    });
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 40000\r\nConnection: close", &"a".repeat(40000)));
    assert_eq!(codes(&peer.rest()), [429]);
    let mut peer = Peer::tcp(&plane);
    peer.send(&post("Content-Length: 8000\r\nConnection: close", &"a".repeat(8000)));
    assert_eq!(codes(&peer.rest()), OK, "a small one counts for nothing");
    // An answer of 4 MiB that its client does not take holds the whole budget, though it is larger.
    let mut reader = Peer::tcp_from(&plane, [127, 0, 0, 1], 4096);
    reader.send(&last_get("/list"));
    reader.until_text("HTTP/1.1 200");
    assert_eq!(codes(ask(Peer::tcp(&plane), "/list").as_bytes()), [429]);
    assert!(serves(Peer::tcp(&plane)), "a small answer still goes out");
    let other = || Peer::tcp_from(&plane, [127, 0, 0, 2], 1 << 16);
    assert!(ask(other(), "/list").len() > 4 << 20, "and a large one to another address");
    assert!(ask(other(), "/middle").len() > 40_000, "whatever its size");
    reader.rest();
    eventually("the budget comes back", || ask(Peer::tcp(&plane), "/list").len() > 4 << 20);
    plane.stop();
}

#[test]
fn readers_that_do_not_read() {
    let demo = Demo::new();
    let plane = demo.network(|limits| {
        limits.connections_max = 2;
        limits.answer = Duration::from_millis(200);
    });
    let mut readers: Vec<Peer> = (0..2).map(|_| Peer::tcp_from(&plane, [127, 0, 0, 1], 4096)).collect();
    readers.iter_mut().for_each(|reader| assert!(reader.send(&get("/list"))));
    readers.iter_mut().for_each(|reader| drop(reader.until_text("HTTP/1.1 200")));
    eventually("who does not take an answer in time is dropped", || serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn a_pipeline_without_end() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let mut peer = Peer::tcp(&plane);
    // A watch in front: what is behind it waits in the kernel, not in memory, and takes no handler.
    peer.send(&get("/watch"));
    peer.until_text("\r\n\r\n");
    let many = get("/small").repeat(1000);
    std::thread::spawn(move || while peer.send(&many) {});
    assert!((0..20).all(|_| serves(Peer::tcp(&plane))));
    demo.end_streams();
    assert!(serves(Peer::tcp(&plane)));
    plane.stop();
}

#[test]
fn stop_answers_what_is_in_flight() {
    let demo = Demo::new();
    let plane = demo.network(|_| {});
    let address = plane.address;
    let mut idle = Peer::tcp(&plane);
    idle.send(&get("/small"));
    idle.until_text("small\n");
    let mut watch = Peer::tcp(&plane);
    watch.send(&get("/watch"));
    watch.until_text("\r\n\r\n");
    let mut slow = Peer::tcp(&plane);
    slow.send(&get("/gate"));
    demo.waiting.recv_timeout(PATIENCE).unwrap();
    let stopping = std::thread::spawn(move || plane.stop());
    assert_eq!(idle.rest(), b"");
    assert_eq!(watch.rest(), b"0\r\n\r\n", "a watch ends as if its publisher had ended it");
    demo.open_gate();
    assert_eq!(codes(&slow.rest()), OK);
    stopping.join().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}
