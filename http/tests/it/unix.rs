//! The network side on a Unix socket: who is let in, what lies at its path, and how it is asked from the other end.
use super::wire::{Demo, Peer, Private, ask, codes, eventually, get, last_get, serves};
use coracle_http::network::{self, Admits, Port, UnixDoor, listen_unix};
use coracle_http::{Limits, StatusCode};
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// The plane on a runtime of its own, until it is dropped.
struct UnixPlane {
    drain: Option<watch::Sender<bool>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl UnixPlane {
    fn serve(door: UnixDoor, demo: &Demo, limits: Limits) -> UnixPlane {
        let (drain, drained) = watch::channel(false);
        let handler = demo.handler.clone();
        let run = move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(network::serve(door, handler, Port::of_this_host(limits), drained)).unwrap();
        };
        UnixPlane { drain: Some(drain), thread: Some(thread::spawn(run)) }
    }

    fn open(path: &Path, demo: &Demo) -> UnixPlane {
        UnixPlane::serve(listen_unix(path, ourselves()).unwrap(), demo, Limits::EDGE)
    }
}

impl Drop for UnixPlane {
    fn drop(&mut self) {
        drop(self.drain.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn ourselves() -> Admits {
    Arc::new(|uid| uid == geteuid().as_raw())
}

fn refusal(path: &Path) -> (io::ErrorKind, String) {
    let error = listen_unix(path, ourselves()).err().expect("it is refused");
    (error.kind(), error.to_string())
}

#[test]
fn whole_answers_and_streams() {
    let (demo, private) = (Demo::new(), Private::new());
    let path = private.0.join("deep/n1.sock");
    let plane = UnixPlane::open(&path, &demo);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    // Whoever is admitted finds it, whatever his user and this process' umask.
    assert_eq!((mode(&path), mode(path.parent().unwrap()), mode(&private.0)), (0o666, 0o755, 0o755));
    assert!(ask(Peer::unix(&path), "/who").ends_with("local"));
    let mut kept = Peer::unix(&path);
    kept.send(&get("/small"));
    kept.until_text("small\n");
    kept.send(&last_get("/nowhere"));
    assert_eq!(codes(&kept.rest()), [404]);
    let mut watcher = Peer::unix(&path);
    watcher.send(&get("/watch"));
    watcher.until_text("\r\n\r\n");
    for event in ["one\n", "two\n"] {
        demo.publish(event.as_bytes());
        watcher.until_text(event);
    }
    drop(watcher);
    demo.a_stream_is_left();
    assert_eq!(
        codes(&ask_raw(&path, b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000000\r\n\r\n")),
        [413]
    );
    drop(plane);
    assert!(!path.exists(), "the file goes with its listener");
}

fn ask_raw(path: &Path, request: &[u8]) -> Vec<u8> {
    let mut peer = Peer::unix(path);
    peer.send(request);
    peer.rest()
}

#[test]
fn who_is_not_admitted_is_not_heard() {
    let (demo, private) = (Demo::new(), Private::new());
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = asked.clone();
    let nobody: Admits = Arc::new(move |uid| {
        seen.lock().unwrap().push(uid);
        false
    });
    let path = private.socket();
    let plane = UnixPlane::serve(listen_unix(&path, nobody).unwrap(), &demo, Limits::EDGE);
    assert_eq!(ask(Peer::unix(&path), "/small"), "");
    assert_eq!(*asked.lock().unwrap(), [geteuid().as_raw()]);
    drop(plane);
}

#[test]
fn a_user_has_his_share_of_the_connections() {
    let (demo, private) = (Demo::new(), Private::new());
    let limits = Limits { connections_max: 8, connections_per_address_max: 2, ..Limits::EDGE };
    let path = private.socket();
    let plane = UnixPlane::serve(listen_unix(&path, ourselves()).unwrap(), &demo, limits);
    let follow = || {
        let mut peer = Peer::unix(&path);
        peer.send(&get("/log"));
        let head = String::from_utf8(peer.until(|all| all.ends_with(b"\r\n\r\n"))).unwrap();
        (peer, head.starts_with("HTTP/1.1 200"))
    };
    let (first, second, third) = (follow(), follow(), follow());
    assert!(first.1 && second.1 && !third.1, "two follow quietly, the third is closed");
    drop(first);
    eventually("a place is free again", || serves(Peer::unix(&path)));
    drop(plane);
}

#[test]
fn what_lies_at_the_path() {
    let (demo, private) = (Demo::new(), Private::new());
    let path = private.socket();
    // Left by a killed process: nobody listens.
    fs::create_dir(&private.0).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let plane = UnixPlane::open(&path, &demo);
    assert!(serves(Peer::unix(&path)));
    let (kind, text) = refusal(&path);
    assert!(kind == io::ErrorKind::AddrInUse && text.contains("another process serves"), "{text}");
    // Another took the path, though nobody should: it keeps it when this one ends.
    fs::remove_file(&path).unwrap();
    let other = UnixPlane::open(&path, &demo);
    drop(plane);
    assert!(serves(Peer::unix(&path)));
    drop(other);
    for make in
        [&|path: &Path| fs::write(path, "mine").unwrap(), &|path: &Path| symlink("/run/docker.sock", path).unwrap()]
            as [&dyn Fn(&Path); 2]
    {
        make(&path);
        let (kind, text) = refusal(&path);
        assert!(kind == io::ErrorKind::AlreadyExists && text.contains("not a socket: take it away"), "{text}");
        assert!(fs::symlink_metadata(&path).is_ok(), "it is left alone");
        fs::remove_file(&path).unwrap();
    }
    fs::set_permissions(&private.0, Permissions::from_mode(0o777)).unwrap();
    let (kind, text) = refusal(&path);
    assert!(kind == io::ErrorKind::PermissionDenied && text.contains("chmod 0755"), "{text}");
    assert_eq!(refusal(Path::new("relative/n1.sock")).0, io::ErrorKind::InvalidInput);
}

/// An address of a Unix socket has 107 bytes; the name of a node up to 253.
#[test]
fn a_long_path_is_served_and_asked() {
    let (far, near, private) = (Demo::new(), Demo::new(), Private::new());
    let path = private.0.join("d".repeat(200)).join(format!("{}.sock", "n".repeat(250)));
    let _far = UnixPlane::open(&path, &far);
    let plane = near.network(|_| {});
    let answer = by_socket(&plane, &path, "dump");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("GET /dump 0"), "{answer}");
    plane.stop();
}

fn by_socket(plane: &network::NetworkPlane, path: &Path, rest: &str) -> String {
    let mut peer = Peer::tcp(plane);
    let request = format!(
        "GET /by-socket/{rest} HTTP/1.1\r\nHost: localhost\r\nX-Socket: {}\r\nConnection: close\r\n\r\n",
        path.display()
    );
    peer.send(request.as_bytes());
    String::from_utf8_lossy(&peer.rest()).into_owned()
}

#[test]
fn only_sockets_are_asked_and_no_links() {
    let (far, near, private) = (Demo::new(), Demo::new(), Private::new());
    let path = private.socket();
    let _far = UnixPlane::open(&path, &far);
    let plane = near.network(|_| {});
    assert!(by_socket(&plane, &path, "who").ends_with("local"));
    let (link, file, none) = (private.0.join("link.sock"), private.0.join("file.sock"), private.0.join("none.sock"));
    symlink(&path, &link).unwrap();
    fs::write(&file, "").unwrap();
    for (path, why) in [(&link, "not a socket"), (&file, "not a socket"), (&none, "No such file")] {
        let answer = by_socket(&plane, path, "small");
        let code = StatusCode::BAD_GATEWAY.as_u16();
        assert!(codes(answer.as_bytes()) == [code] && answer.contains(why), "{path:?}: {answer}");
    }
    plane.stop();
}
