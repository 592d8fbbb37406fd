//! HTTP/2 over TLS: the same answers and limits, and clients that send frames of their own making.
use super::keys::{H1, H2, Leaf, Secure};
use super::wire::{Demo, PATIENCE, Peer, eventually, serves};
use bytes::Bytes;
use coracle_http::network::{NetworkPlane, Port};
use coracle_http::{Method, Sessions, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

struct Client(SendRequest<Full<Bytes>>);

impl Client {
    async fn connect(secure: &Secure, plane: &NetworkPlane, leaf: Option<&Leaf>) -> Client {
        let socket = tokio::net::TcpStream::connect(plane.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let wire = TlsConnector::from(secure.config(leaf, H2)).connect(name, socket).await.unwrap();
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        // A server's limit is met, not guessed.
        builder.initial_max_send_streams(1000).max_header_list_size(1 << 20);
        let (sender, connection) = builder.handshake(TokioIo::new(wire)).await.unwrap();
        tokio::spawn(connection);
        Client(sender)
    }

    async fn send(&mut self, request: http::request::Builder, body: Bytes) -> http::Response<Incoming> {
        self.0.ready().await.unwrap();
        timeout(PATIENCE, self.0.send_request(request.body(Full::new(body)).unwrap())).await.unwrap().unwrap()
    }

    async fn open(&mut self, path: &str) -> http::Response<Incoming> {
        self.send(get(path), Bytes::new()).await
    }

    async fn ask(&mut self, path: &str) -> (u16, String) {
        whole(self.open(path).await).await
    }
}

fn get(path: &str) -> http::request::Builder {
    http::Request::get(format!("https://localhost{path}"))
}

async fn whole(answer: http::Response<Incoming>) -> (u16, String) {
    let code = answer.status().as_u16();
    let body = timeout(PATIENCE, answer.into_body().collect()).await.unwrap().unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// The next frame of a body that holds something. None: it has ended. Error: it was reset.
async fn item(body: &mut Incoming) -> Option<Result<String, hyper::Error>> {
    loop {
        let frame = match timeout(PATIENCE, body.frame()).await.unwrap()? {
            Ok(frame) => frame.into_data().unwrap(),
            Err(error) => return Some(Err(error)),
        };
        if !frame.is_empty() {
            return Some(Ok(String::from_utf8(frame.to_vec()).unwrap()));
        }
    }
}

#[test]
fn the_same_answers_as_over_http1() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let ann = secure.authority.client("ann", 7);
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, Some(&ann)).await;
        assert_eq!(client.ask("/user").await, (200, "ann".to_owned()));
        assert_eq!(client.ask("/dump?a%3E5").await, (200, "GET /dump?a%3E5 0".to_owned()));
        assert_eq!(client.ask("/list").await.1.len(), 4 << 20);
        assert_eq!(client.ask("/panic").await.0, 500);
        assert_eq!(client.ask("/nowhere").await.0, 404);
        let body = Bytes::from(vec![b'a'; 3 << 20]);
        let post = || http::Request::post("https://localhost/dump");
        assert_eq!(whole(client.send(post(), body).await).await, (200, format!("POST /dump {}", 3 << 20)));
        assert_eq!(client.send(post(), Bytes::from(vec![b'a'; (3 << 20) + 1])).await.status(), 413);
        let head = client.send(http::Request::head("https://localhost/list"), Bytes::new()).await;
        assert_eq!(head.headers()["content-length"], "4194304");
        assert_eq!(head.headers()["x-content-type-options"], "nosniff");
        let foreign = get("/small").header("origin", "https://example.com");
        assert_eq!(client.send(foreign, Bytes::new()).await.status(), StatusCode::FORBIDDEN);
        assert_eq!(client.send(get("/small").method(Method::CONNECT), Bytes::new()).await.status(), 400);
        // A head that is too long, and then one that is not.
        let long = get("/small").header("x-long", "a".repeat(40_000));
        assert_eq!(client.send(long, Bytes::new()).await.status(), 431);
        assert_eq!(client.ask("/small").await, (200, "small\n".to_owned()));
    });
    plane.stop();
}

#[test]
fn each_request_of_a_connection_has_its_own_sender() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        for name in ["bob", "eve"] {
            let request = get("/user").header("authorization", format!("Bearer {name}"));
            assert_eq!(whole(client.send(request, Bytes::new()).await).await.1, name);
        }
        assert_eq!(client.ask("/user").await.1, "system:anonymous");
    });
    plane.stop();
}

#[test]
fn watches_come_item_by_item_beside_other_requests() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(client.open("/watch").await.into_body());
        }
        for i in 0..3 {
            let event = format!("{{\"n\":{i}}}\n");
            demo.publish(event.as_bytes());
            for watch in &mut watches {
                assert_eq!(item(watch).await.unwrap().unwrap(), event);
            }
            assert_eq!(client.ask("/small").await.0, 200);
        }
        // A watch that is left is noticed, and the others go on.
        drop(watches.pop());
        demo.a_stream_is_left_soon().await;
        demo.publish(b"{}\n");
        for watch in &mut watches {
            assert_eq!(item(watch).await.unwrap().unwrap(), "{}\n");
        }
        demo.end_streams();
        for watch in &mut watches {
            assert!(item(watch).await.is_none(), "it ends cleanly");
        }
    });
    plane.stop();
}

#[test]
fn budgets_are_those_of_http1() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| {
        limits.streams_max = 18;
        limits.streams_per_connection_max = 20;
    });
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        let mut watches = Vec::new();
        for _ in 0..16 {
            watches.push(client.open("/watch").await);
        }
        let refused = client.open("/watch").await;
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
        // A user that is known has a share of its own, on the same connection.
        let known = get("/watch").header("authorization", "Bearer ann");
        assert_eq!(client.send(known, Bytes::new()).await.status(), 200);
        // Nodes have room of their own.
        let node = secure.authority.client_of("system:node:n1", "system:nodes", 9);
        let mut node = Client::connect(&secure, &plane, Some(&node)).await;
        for _ in 0..3 {
            watches.push(node.open("/watch").await);
            assert_eq!(watches.last().map(http::Response::status), Some(StatusCode::OK));
        }
        assert_eq!(node.open("/watch").await.status(), 429, "which has a limit, too");
    });
    plane.stop();
}

#[test]
fn a_stream_that_takes_nothing_is_reset_alone() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| {
        limits.answer = Duration::from_millis(300);
        limits.idle = Duration::from_millis(400);
        limits.stall = Duration::from_millis(200);
    });
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        let mut watch = client.open("/watch").await.into_body();
        // Its window is full, and is not opened.
        let mut starved = client.open("/list").await.into_body();
        let begun = Instant::now();
        // The others of its connection go on meanwhile.
        while begun.elapsed() < Duration::from_millis(900) {
            demo.publish(b"{}\n");
            assert_eq!(item(&mut watch).await.unwrap().unwrap(), "{}\n");
        }
        let mut bytes = 0;
        let ended = loop {
            match item(&mut starved).await {
                Some(Ok(part)) => bytes += part.len(),
                end => break (bytes, end.map(|part| part.is_err())),
            }
        };
        assert!(ended.0 < 4 << 20 && ended.1 == Some(true), "{ended:?}");
        assert_eq!(client.ask("/small").await.0, 200, "the connection goes on");
        drop(watch);
        demo.a_stream_is_left_soon().await;
        // And without any stream it is ended.
        let gone = async {
            while client.0.ready().await.is_ok() && !client.0.is_closed() {
                tokio::task::yield_now().await
            }
        };
        timeout(PATIENCE, gone).await.unwrap();
    });
    plane.stop();
}

#[test]
fn streams_of_one_user_end_and_others_of_the_connection_stay() {
    let (demo, secure, sessions) = (Demo::new(), Secure::new(), Sessions::default());
    let plane = demo.port(Port { sessions: sessions.clone(), ..secure.port(|_| {}) });
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        let of = |user: &str| get("/watch").header("authorization", format!("Bearer {user}"));
        let mut ann = client.send(of("ann"), Bytes::new()).await.into_body();
        let mut bob = client.send(of("bob"), Bytes::new()).await.into_body();
        assert_eq!(sessions.end_where(|asked| asked.identity.user == "ann"), 1);
        assert!(item(&mut ann).await.unwrap().is_err(), "it breaks");
        demo.a_stream_is_left_soon().await;
        demo.publish(b"{}\n");
        assert_eq!(item(&mut bob).await.unwrap().unwrap(), "{}\n");
    });
    plane.stop();
}

#[test]
fn a_certificate_that_is_revoked_ends_its_connection() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let ann = secure.authority.client("ann", 7);
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, Some(&ann)).await;
        assert_eq!(client.ask("/user").await.1, "ann");
        secure.revoked.lock().unwrap().push(7);
        assert_eq!(client.ask("/user").await.0, 401);
        let gone = async {
            while !client.0.is_closed() {
                tokio::task::yield_now().await
            }
        };
        timeout(PATIENCE, gone).await.unwrap();
    });
    plane.stop();
}

#[test]
fn a_stop_ends_streams_and_says_goodbye() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    on_a_runtime(async {
        let mut client = Client::connect(&secure, &plane, None).await;
        let mut watch = client.open("/watch").await.into_body();
        let stopped = tokio::task::spawn_blocking(move || plane.stop());
        assert!(item(&mut watch).await.is_none(), "it ends cleanly");
        timeout(PATIENCE, stopped).await.unwrap().unwrap();
    });
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame; kinds: 0 DATA, 1 HEADERS, 2 PRIORITY, 3 RST_STREAM, 4 SETTINGS, 6 PING, 8 WINDOW_UPDATE, 9 CONTINUATION.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// HEADERS of a GET, as HPACK writes them without its tables; END_STREAM and END_HEADERS as told.
fn request(stream: u32, flags: u8, more: &[u8]) -> Vec<u8> {
    let text = |index: u8, text: &str| [&[index, text.len() as u8], text.as_bytes()].concat();
    frame(1, flags, stream, &[vec![0x82, 0x87], text(4, "/small"), text(1, "localhost"), more.to_vec()].concat())
}

/// Sends this again and again, and reads nothing, until the server has closed; whoever else asks is answered meanwhile.
fn is_ended(secure: &Secure, plane: &NetworkPlane, first: &[u8], mut part: impl FnMut(u32) -> Vec<u8>) {
    let mut peer = secure.peer(plane, None, H2);
    let Peer::Tls(stream) = &peer else { panic!("over TLS") };
    stream.sock.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    peer.send(&[PREFACE, &frame(4, 0, 0, &[]), first].concat());
    let begun = Instant::now();
    let mut number = 0;
    while peer.send(&part(number)) {
        number += 1;
        assert!(begun.elapsed() < PATIENCE, "it goes on after {number} parts");
    }
    assert!(serves(secure.peer(plane, None, H1)), "others are served");
}

#[test]
fn floods_of_frames_end_their_connection_and_no_other() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |limits| limits.stall = Duration::from_secs(2));
    let many = |frame: Vec<u8>| move |_: u32| frame.repeat(100);
    let ended = |first: &[u8], part: &mut dyn FnMut(u32) -> Vec<u8>| is_ended(&secure, &plane, first, part);
    ended(b"", &mut many(frame(6, 0, 0, &[0; 8])));
    ended(b"", &mut many(frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])));
    ended(b"", &mut many(frame(2, 0, 1, &[0, 0, 0, 3, 16])));
    ended(b"", &mut many(frame(8, 0, 0, &[0, 0, 0, 1])));
    ended(b"", &mut many(frame(0x42, 0, 0, b"unknown")));
    // Of a stream that is open: its windows.
    let post = frame(1, 4, 1, &[&[0x83, 0x87, 4, 5], &b"/dump"[..], &[1, 1], b"a"].concat());
    ended(&post, &mut many(frame(8, 0, 1, &[0, 0, 0, 1])));
    ended(&post, &mut many(frame(0, 0, 1, b"")));
    // A head without end.
    ended(&frame(1, 1, 1, &[0x82, 0x87]), &mut many(frame(9, 0, 1, &[0, 1, b'a', 1, b'b'])));
    ended(&frame(1, 1, 1, &[0x82, 0x87]), &mut many(frame(9, 0, 1, b"")));
    // Requests that are taken back at once.
    let mut rapid = |number: u32| -> Vec<u8> {
        let each = |at: u32| [request(2 * at + 1, 5, b""), frame(3, 0, 2 * at + 1, &[0, 0, 0, 8])].concat();
        (number * 50..number * 50 + 50).flat_map(each).collect()
    };
    ended(b"", &mut rapid);
    // Streams that the client's own mistakes make this side reset.
    let mut provoked = |number: u32| -> Vec<u8> {
        let each = |at: u32| [request(2 * at + 1, 4, b""), frame(8, 0, 2 * at + 1, &[0, 0, 0, 0])].concat();
        (number * 50..number * 50 + 50).flat_map(each).collect()
    };
    ended(b"", &mut provoked);
    plane.stop();
}

#[test]
fn health_is_answered_while_all_floods_run() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let floods: [Vec<u8>; 4] = [
            frame(2, 0, 1, &[0, 0, 0, 3, 16]),
            frame(6, 0, 0, &[0; 8]),
            frame(8, 0, 0, &[0, 0, 0, 1]),
            frame(0x42, 0, 0, b"unknown"),
        ];
        for flood in floods {
            let (secure, plane, over) = (&secure, &plane, &over);
            scope.spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut peer = secure.peer(plane, None, H2);
                    peer.send(PREFACE);
                    while peer.send(&flood.repeat(100)) {}
                }
            });
        }
        // Connections that say nothing, and halves of handshakes.
        let held: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(plane.address).unwrap()).collect();
        for _ in 0..20 {
            let begun = Instant::now();
            assert!(serves(secure.peer(&plane, None, H1)));
            assert!(begun.elapsed() < PATIENCE / 4, "{:?}", begun.elapsed());
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(held);
    });
    eventually("it goes on", || serves(secure.peer(&plane, None, H1)));
    plane.stop();
}

#[test]
fn what_http2_may_not_say() {
    let (demo, secure) = (Demo::new(), Secure::new());
    let plane = secure.serve(&demo, |_| {});
    // A literal field without indexing: its name, its value.
    let field = |name: &str, value: &str| {
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    for (more, what) in [
        (field("upgrade", "websocket"), "an upgrade belongs to HTTP/1.1"),
        (field("connection", "upgrade"), "so does this"),
        (field("Upper", "a"), "names are in small letters"),
        (field(":path", "/a"), "twice, and behind others"),
    ] {
        let mut peer = secure.peer(&plane, None, H2);
        peer.send(&[PREFACE, &frame(4, 0, 0, &[]), &request(1, 5, &more)].concat());
        // RST_STREAM of this stream, or GOAWAY.
        let has = |all: &[u8], kind: u8| frames(all).iter().any(|(of, _)| *of == kind);
        let all = peer.until(|all| has(all, 3) || has(all, 7) || has(all, 1));
        assert!(!has(&all, 1) || frames(&all).iter().any(|(kind, first)| *kind == 1 && *first == 0x8c), "{what}");
    }
    // HTTP/1.1 where HTTP/2 was agreed on.
    let mut peer = secure.peer(&plane, None, H2);
    peer.send(&super::wire::get("/small"));
    assert!(!super::wire::contains(&peer.rest(), b"200"));
    plane.stop();
}

/// The kinds of the whole frames in what was read, and the first byte of each.
fn frames(mut all: &[u8]) -> Vec<(u8, u8)> {
    let mut found = Vec::new();
    while all.len() >= 9 {
        let length = usize::from(all[0]) << 16 | usize::from(all[1]) << 8 | usize::from(all[2]);
        if all.len() < 9 + length {
            break;
        }
        found.push((all[3], all.get(9).copied().unwrap_or_default()));
        all = &all[9 + length..];
    }
    found
}
