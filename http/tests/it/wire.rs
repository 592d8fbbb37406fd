//! The server under test with handlers of known behaviour, and a peer that writes what it likes.
use bytes::Bytes;
use coracle_http::channel::{self, channel as stream_channel};
use coracle_http::network::{self, NetworkPlane, Port};
use coracle_http::{
    Answer, Body, Caller, Forward, Handler, Limits, Request, STREAM_ITEMS_MAX, Server, StatusCode, Stream,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes: a test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the handlers do, and what the test sees of it.
pub struct Demo {
    pub handler: Handler,
    watchers: Arc<Mutex<Vec<channel::Sender>>>,
    gate: Arc<(Mutex<usize>, Condvar)>,
    /// A word for each stream whose lease was dropped.
    left: Arc<Mutex<Receiver<()>>>,
    /// A word for each handler that waits at the gate.
    pub waiting: Receiver<()>,
}

struct Lease(Sender<()>);

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Demo {
    pub fn new() -> Demo {
        let watchers: Arc<Mutex<Vec<channel::Sender>>> = Arc::default();
        let gate: Arc<(Mutex<usize>, Condvar)> = Arc::default();
        let (leave, left) = channel();
        let (wait, waiting) = channel();
        let (leave, wait) = (Mutex::new(leave), Mutex::new(wait));
        let (watching, at) = (watchers.clone(), gate.clone());
        let handler: Handler = Arc::new(move |request: Request| match request.target.path() {
            "/small" | "/livez" => Answer::text(StatusCode::OK, "small\n"),
            "/list" => Answer::json(StatusCode::OK, vec![b' '; 4 << 20]),
            // A little more than what no budget counts.
            "/middle" => Answer::json(StatusCode::OK, vec![b' '; 40_000]),
            "/dump" => {
                Answer::text(StatusCode::OK, format!("{} {} {}", request.method, request.target, request.body.len()))
            }
            "/page" => Answer::new(StatusCode::OK, "text/html", Body::Whole(Bytes::from_static(b"<script>"))),
            "/user" => Answer::text(StatusCode::OK, request.identity.user.clone()),
            "/who" => Answer::text(StatusCode::OK, if request.caller == Caller::Local { "local" } else { "network" }),
            "/panic" => panic!("asked for"),
            "/gate" => {
                wait.lock().unwrap().send(()).unwrap();
                let opened = at.1.wait_while(at.0.lock().unwrap(), |permits| *permits == 0).unwrap();
                let mut permits = opened;
                *permits -= 1;
                Answer::text(StatusCode::OK, "through\n")
            }
            "/watch" | "/log" => {
                let (sender, events) = stream_channel(STREAM_ITEMS_MAX);
                watching.lock().unwrap().push(sender);
                let lease = Box::new(Lease(leave.lock().unwrap().clone()));
                let content = if request.target.path() == "/log" { "text/plain" } else { "application/json" };
                Answer::new(StatusCode::OK, content, Body::Stream(Stream { events, lease }))
            }
            // /forward/PORT/IDLE_MS/PATH
            path if path.starts_with("/forward/") => {
                let mut words = path.splitn(5, '/').skip(2);
                let mut number = || words.next().unwrap().parse::<u64>().unwrap();
                let address = SocketAddr::from(([127, 0, 0, 1], number() as u16));
                let idle = Duration::from_millis(number());
                Answer::forward(Forward::get(address, format!("/{}", words.next().unwrap()).parse().unwrap(), idle))
            }
            // The socket's file stands in the head.
            path if path.starts_with("/by-socket/") => {
                let server = Server::Socket(request.headers["x-socket"].to_str().unwrap().into());
                let target = path.strip_prefix("/by-socket").unwrap().parse().unwrap();
                Answer::forward(Forward::get(server, target, PATIENCE))
            }
            _ => Answer::refuse(StatusCode::NOT_FOUND, "NotFound", "no such path"),
        });
        Demo { handler, watchers, gate, left: Arc::new(Mutex::new(left)), waiting }
    }

    /// Lets one handler through the gate, now or when it comes.
    pub fn open_gate(&self) {
        *self.gate.0.lock().unwrap() += 1;
        self.gate.1.notify_one();
    }

    pub fn watchers(&self) -> usize {
        self.watchers.lock().unwrap().len()
    }

    /// As publishers do: a slow watcher is dropped, never waited for.
    pub fn publish(&self, event: &[u8]) {
        let event = Bytes::copy_from_slice(event);
        self.watchers.lock().unwrap().retain(|watcher| watcher.try_send(event.clone()).is_ok());
    }

    pub fn end_streams(&self) {
        self.watchers.lock().unwrap().clear();
    }

    pub fn a_stream_is_left(&self) {
        self.left.lock().unwrap().recv_timeout(PATIENCE).expect("the lease is dropped");
    }

    pub fn has_a_stream_left(&self) -> bool {
        self.left.lock().unwrap().try_recv().is_ok()
    }

    /// The same from a task: the connection that is dropped needs its runtime to end.
    pub async fn a_stream_is_left_soon(&self) {
        let left = self.left.clone();
        let left = tokio::task::spawn_blocking(move || left.lock().unwrap().recv_timeout(PATIENCE));
        left.await.unwrap().expect("the lease is dropped");
    }

    pub fn network(&self, change: impl FnOnce(&mut Limits)) -> NetworkPlane {
        let mut limits = Limits::EDGE;
        change(&mut limits);
        self.port(Port::of_this_host(limits))
    }

    pub fn port(&self, port: Port) -> NetworkPlane {
        let listener = network::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        network::start(listener, self.handler.clone(), port).unwrap()
    }
}

pub enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Peer {
    pub fn tcp(plane: &NetworkPlane) -> Peer {
        Peer::Tcp(patient(TcpStream::connect(plane.address).unwrap()))
    }

    /// From another address of this host, or with a small receive buffer.
    pub fn tcp_from(plane: &NetworkPlane, from: [u8; 4], receive_bytes: usize) -> Peer {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(receive_bytes).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&plane.address.into()).unwrap();
        Peer::Tcp(patient(socket.into()))
    }

    pub fn unix(path: &Path) -> Peer {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer::Unix(stream)
    }

    /// Whether all of it was taken; a server may close before.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        match self {
            Peer::Tcp(stream) => stream.write_all(bytes),
            Peer::Unix(stream) => stream.write_all(bytes),
            Peer::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
        .is_ok()
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Peer::Tcp(stream) => stream.read(buffer),
            Peer::Unix(stream) => stream.read(buffer),
            Peer::Tls(stream) => stream.read(buffer),
        }
    }

    /// Everything until the server closes, or resets.
    pub fn rest(&mut self) -> Vec<u8> {
        self.until(|_| false)
    }

    pub fn until(&mut self, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while !enough(&all) {
            match self.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => all.extend_from_slice(&buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the server neither answers nor closes after {:?}", String::from_utf8_lossy(&all))
                }
                Err(_) => break,
            }
        }
        all
    }

    pub fn until_text(&mut self, text: &str) -> String {
        let all = self.until(|all| contains(all, text.as_bytes()));
        let all = String::from_utf8(all).unwrap();
        assert!(all.contains(text), "{all:?} holds {text:?}");
        all
    }
}

pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

/// The status codes of the answers in what a peer has read.
pub fn codes(all: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(all).replace("HTTP/1.0 ", "HTTP/1.1 ");
    text.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect()
}

pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

pub fn last_get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

/// One request on a connection of its own, and all of the answer.
pub fn ask(mut peer: Peer, path: &str) -> String {
    peer.send(&last_get(path));
    String::from_utf8_lossy(&peer.rest()).into_owned()
}

pub fn serves(peer: Peer) -> bool {
    codes(ask(peer, "/small").as_bytes()) == [200]
}

/// Asks again until it is so: for what the server does in its own time.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A private directory that goes with its owner.
pub struct Private(pub PathBuf);

impl Private {
    pub fn new() -> Private {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let name = format!("coracle-http-{}-{}", std::process::id(), TURN.fetch_add(1, Ordering::Relaxed));
        Private(std::env::temp_dir().join(name))
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("api.sock")
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
