//! The local side: the agent on this machine and the admin's command line, all of them root. tiny_http on a Unix
//! socket.
//!
//! No certificate, no clock, no runtime; own threads, so a flood on the network side does not reach it. tiny_http must
//! never see a byte that a stranger chose (it has no limits), so there is no TCP, no abstract socket and no access for
//! a group here.
//!
//!     supervisor --- a look after requests, else seldom: is the listener alive, was a connection overlooked
//!     tiny_http: accept -> a thread a connection -> queue -> 4 handlers -> whole answer
//!                                                              |-> a thread a stream
//!                                                              |-> a thread a request that may write: it waits for
//!                                                              |   the disk
//!                                                              \-> the same for one that reads, where it would take
//!                                                                  the last handler: that one is for who asks for
//!                                                                  health
use crate::network::{self, Identify, OnRefusal, RequestSender, Unidentified, everybody_is};
use crate::outbound::{self, Reached};
use crate::pull::{Next, next};
use crate::refusal::{Journal, Refusal};
use crate::upgrade;
use crate::{
    Answer, BODY_BYTES_MAX, Body, Caller, Forward, Handler, Identity, LocalLimits, NO_SNIFFING, Passes, Request, Stream,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tiny_http::{Header, Response, Server};

/// Bytes: the same work as on the network side.
const STACK_BYTES: usize = crate::network::HANDLER_STACK_BYTES;

/// Bytes that a client may announce and be refused: tiny_http allocates memory for the unread rest of a body. For
/// larger bodies, see `abandon`.
const REFUSED_BYTES_MAX: usize = 64 << 20;

/// The port of a Unix socket in a directory that only its owner can enter.
#[derive(Clone)]
pub struct LocalPort {
    pub identify: Identify,
    pub limits: LocalLimits,
    /// Told of refusals.
    pub refused: OnRefusal,
}

impl LocalPort {
    /// Root's: the administrator.
    pub fn of_root(limits: LocalLimits) -> LocalPort {
        LocalPort { identify: everybody_is(Identity::administrator()), limits, refused: Arc::new(|_| {}) }
    }
}

pub struct LocalPlane {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    stir: SyncSender<()>,
    supervisor: thread::JoinHandle<()>,
}

/// The state that all threads share.
struct Plane {
    path: PathBuf,
    handler: Handler,
    limits: LocalLimits,
    streams: AtomicUsize,
    /// Those of them that forward.
    forwards: AtomicUsize,
    writers: AtomicUsize,
    /// Handlers that answer something else than health.
    readers: AtomicUsize,
    journal: Journal,
    identify: Identify,
    refused: OnRefusal,
    /// Room for one: told of a request, the supervisor looks once.
    stir: SyncSender<()>,
}

/// Serves until `stop`. Fails where `prepare` does.
pub fn start(path: &Path, handler: Handler, port: LocalPort) -> io::Result<LocalPlane> {
    let LocalPort { identify, limits, refused } = port;
    prepare(path)?;
    let (stir, stirred) = sync_channel(1);
    let plane = Arc::new(Plane {
        path: path.to_owned(),
        handler,
        limits,
        streams: AtomicUsize::new(0),
        forwards: AtomicUsize::new(0),
        writers: AtomicUsize::new(0),
        readers: AtomicUsize::new(0),
        journal: Journal::default(),
        identify,
        refused,
        stir: stir.clone(),
    });
    let stopping = Arc::new(AtomicBool::new(false));
    let server = listen(&plane)?;
    let stop = stopping.clone();
    let supervisor = spawn("local", move || supervise(&plane, server, &stirred, &stop))?;
    Ok(LocalPlane { path: path.to_owned(), stopping, stir, supervisor })
}

impl LocalPlane {
    /// No new connections; what is being answered goes on. tiny_http neither closes nor answers idle connections then.
    pub fn stop(self) {
        self.stopping.store(true, Relaxed);
        let _ = self.stir.try_send(());
        self.supervisor.thread().unpark();
        if self.supervisor.join().is_err() {
            log::error!("the supervisor of {} had panicked", self.path.display());
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(run)
}

/// The directory is made and private. Fails if another process serves this path, or if others may enter its directory.
pub fn prepare(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| directory.is_absolute());
    let directory = directory
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path of a socket must be absolute"))?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let found = std::fs::metadata(directory)?;
    // Not mended here: it may be /tmp.
    if found.mode() & 0o077 != 0 || found.uid() != nix::unistd::geteuid().as_raw() {
        let directory = directory.display();
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("directory {directory} is open to others: give it to this user with mode 700, or choose another"),
        ));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is not a socket"));
        }
        _ => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves this socket")),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// tiny_http's accept thread ends for ever on its first error (descriptors, threads), and its pool overlooks
/// connections in a burst when earlier connections stay open. Each connection that comes and goes makes the pool serve
/// an overlooked connection.
///
/// Both happen only when a client connects, and then a handler sees a request or the error. The supervisor looks soon
/// after each such sign, and rarely without a sign. A sign right after a look was a request that the look helped out,
/// and more requests may wait: the next look makes several connections. An agent that reports now and then costs one
/// connection each time.
fn supervise(plane: &Arc<Plane>, mut server: Arc<Server>, stirred: &Receiver<()>, stopping: &AtomicBool) {
    let LocalLimits { probe_soon, probe_slow, probes, .. } = plane.limits;
    let (mut alive, mut looked) = (true, false);
    loop {
        let looks = match stirred.recv_timeout(if alive && !looked { probe_slow } else { probe_soon }) {
            Err(RecvTimeoutError::Timeout) if alive && looked => {
                looked = false;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => 1,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                if !stopping.load(Relaxed) {
                    thread::park_timeout(probe_soon);
                }
                if std::mem::replace(&mut looked, true) { probes } else { 1 }
            }
        };
        if stopping.load(Relaxed) {
            return retire(&server, &plane.limits);
        }
        match state((0..looks).map(|_| UnixStream::connect(&plane.path)).find_map(Result::err).map(|e| e.kind())) {
            State::Dead => {}
            found => {
                alive = found == State::Alive;
                continue;
            }
        }
        match listen(plane) {
            Ok(fresh) => {
                log::warn!("{} was dead or gone: listening anew", plane.path.display());
                retire(&server, &plane.limits);
                server = fresh;
                alive = true;
            }
            Err(e) => {
                plane.journal.say("listen", &format_args!("listen on {}: {e}", plane.path.display()));
                alive = false;
            }
        }
    }
}

/// The state of the listener's file, as far as a look tells.
#[derive(Debug, PartialEq)]
enum State {
    Alive,
    Dead,
    /// Whoever has no descriptor for a look cannot tell, and what has none left may have ended for it: there is another
    /// look soon.
    Unknown,
}

fn state(failed: Option<io::ErrorKind>) -> State {
    match failed {
        None => State::Alive,
        Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => State::Dead,
        Some(_) => State::Unknown,
    }
}

fn retire(server: &Server, limits: &LocalLimits) {
    for _ in 0..limits.handlers {
        server.unblock();
    }
}

fn listen(plane: &Arc<Plane>) -> io::Result<Arc<Server>> {
    // A dropped Server removes the file that it was bound to, which must not be its successor's.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let bound = plane.path.with_extension(format!("{}.{}", std::process::id(), TURN.fetch_add(1, Relaxed)));
    let _ = std::fs::remove_file(&bound);
    let listener = UnixListener::bind(&bound)?;
    std::fs::set_permissions(&bound, PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&bound, &plane.path)?;
    // tiny_http starts its threads with a call that panics when there are none.
    let server = catch_unwind(|| Server::from_listener(listener, None)).map_err(|_| io::Error::other("no threads"))?;
    let server = Arc::new(server.map_err(io::Error::other)?);
    for _ in 0..plane.limits.handlers {
        let (server, plane) = (server.clone(), plane.clone());
        spawn("local", move || {
            while let Ok(request) = server.recv() {
                let _ = plane.stir.try_send(());
                // A panic outside of the handler is tiny_http's: that request is lost, this thread is not.
                let _ = catch_unwind(AssertUnwindSafe(|| receive(&plane, request)));
            }
            // The accept thread has ended, or this server was retired.
            let _ = plane.stir.try_send(());
        })?;
    }
    Ok(server)
}

/// Requests that may write wait for the disk on threads of their own. Readers that do not take their answers occupy at
/// most all handlers but one: the last handler always answers health checks.
fn receive(plane: &Arc<Plane>, request: tiny_http::Request) -> io::Result<()> {
    if Method::from_bytes(request.method().as_str().as_bytes()).is_ok_and(|method| method.is_safe()) {
        if is_health(&request) {
            return answer(plane, request);
        }
        if let Some(_reader) = Reader::take(plane) {
            return answer(plane, request);
        }
    }
    let Some(writer) = Writer::take(plane) else {
        let refusal = Refusal::Busy("too many requests in progress");
        plane.journal.refused(&refusal, &"the local socket");
        return refuse(request, &refusal);
    };
    spawn("write", move || drop(answer(&writer.plane, request))).map(drop)
}

/// A request with a body does not count: a body that never comes would occupy the last handler.
fn is_health(request: &tiny_http::Request) -> bool {
    let path = request.url().split('?').next().unwrap_or_default();
    let in_chunks = request.headers().iter().any(|header| header.field.equiv("Transfer-Encoding"));
    let has_body = in_chunks || request.body_length().is_some_and(|length| length > 0);
    network::is_health(path) && !has_body
}

fn answer(plane: &Arc<Plane>, mut request: tiny_http::Request) -> io::Result<()> {
    let (announced, path) = (request.body_length().unwrap_or(0), request.url().to_owned());
    let answer = match read(plane, &mut request) {
        Ok(call) => catch_unwind(AssertUnwindSafe(|| (plane.handler)(call))).map_err(|_| Refusal::Failed),
        Err(refusal) => Err(refusal),
    };
    let Answer { status, headers, body } = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            plane.journal.refused(&refusal, &"the local socket");
            refusal.tell(&plane.refused, (&Caller::Local, request.method().as_str(), &path));
            if refusal == Refusal::TooLarge && announced > REFUSED_BYTES_MAX {
                return abandon(request, refusal.answer(&path));
            }
            refusal.answer(&path)
        }
    };
    let body = match body {
        Body::Whole(bytes) => return whole(request, status, &headers, bytes),
        Body::Long(long) => return whole(request, status, &headers, long.whole()),
        Body::Upgrade(_) => return decline(plane, request),
        Body::Forward(forward) if forward.passes == Passes::Upgrade => return decline(plane, request),
        body => body,
    };
    let Some(place) = StreamSlot::take(plane, matches!(body, Body::Forward(_))) else {
        let refusal = Refusal::Busy("too many streams in progress");
        plane.journal.refused(&refusal, &"the local socket");
        return refuse(request, &refusal);
    };
    // Without a thread the request is dropped, and tiny_http answers 500. Whether the client took it all is its own
    // affair.
    spawn("stream", move || {
        let done = match body {
            Body::Stream(stream) => follow(&place, request, status, &headers, stream),
            Body::Forward(forward) => pass_on(&place, request, &forward),
            Body::Whole(_) | Body::Long(_) | Body::Upgrade(_) => Ok(()),
        };
        drop(done);
    })
    .map(drop)
}

fn read(plane: &Plane, request: &mut tiny_http::Request) -> Result<Request, Refusal> {
    let method = Method::from_bytes(request.method().as_str().as_bytes()).map_err(|_| Refusal::Malformed("method"))?;
    let target = network::encoded(request.url().as_bytes());
    let uri = http::Uri::try_from(target.as_deref().unwrap_or(request.url().as_bytes()))
        .map_err(|_| Refusal::Malformed("request target is not a path"))?;
    let target = uri.path_and_query().filter(|target| target.as_str().starts_with('/')).cloned();
    let target = target.ok_or(Refusal::Malformed("request target is not a path"))?;
    let mut headers = HeaderMap::new();
    for header in request.headers() {
        let name = HeaderName::from_bytes(header.field.as_str().as_str().as_bytes());
        let value = HeaderValue::from_str(header.value.as_str());
        headers.append(
            name.map_err(|_| Refusal::Malformed("header name"))?,
            value.map_err(|_| Refusal::Malformed("header value"))?,
        );
    }
    let sender = RequestSender {
        caller: &Caller::Local,
        uid: Some(nix::unistd::geteuid().as_raw()),
        path: target.path(),
        headers: &headers,
        certificate: None,
    };
    let identity = (plane.identify)(&sender).map_err(|Unidentified(why)| Refusal::Unidentified(why))?;
    if request.body_length().is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(Refusal::TooLarge);
    }
    let mut body = Vec::new();
    // tiny_http takes all that follows for the body of a request that asks for an upgrade.
    let most = if upgrade::is_named(&headers) { length_of(&headers)? } else { u64::MAX };
    let most = most.min(BODY_BYTES_MAX as u64 + 1);
    request.as_reader().take(most).read_to_end(&mut body).map_err(|_| Refusal::Malformed("request body is broken"))?;
    if body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    Ok(Request { method, target, headers, body: body.into(), caller: Caller::Local, identity })
}

/// How long a body is by its header alone. One in chunks says nothing, and must not count as empty: it may hold the
/// options of a deletion.
fn length_of(headers: &HeaderMap) -> Result<u64, Refusal> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Err(Refusal::Malformed("a request that asks for an upgrade has no body in chunks"));
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(0) };
    let length = length.to_str().ok().and_then(|length| length.parse().ok()).filter(|_| lengths.next().is_none());
    length.ok_or(Refusal::Malformed("content-length"))
}

fn refuse(request: tiny_http::Request, refusal: &Refusal) -> io::Result<()> {
    let Answer { status, headers, body } = refusal.answer(request.url());
    let Body::Whole(bytes) = body else { return Ok(()) };
    whole(request, status, &headers, bytes)
}

/// tiny_http gives a connection away only together with a thread that waits for it.
fn decline(plane: &Plane, request: tiny_http::Request) -> io::Result<()> {
    let refusal = Refusal::Unspoken(
        "the local socket carries no upgrade to another protocol: ask for it on the plain port (--listen)",
    );
    plane.journal.refused(&refusal, &"the local socket");
    refuse(request, &refusal)
}

fn whole(request: tiny_http::Request, status: StatusCode, headers: &HeaderMap, bytes: Bytes) -> io::Result<()> {
    // Below the threshold the answer has a length; above, tiny_http would cut it into chunks of 8 KiB.
    request.respond(response(status, headers, bytes).with_chunked_threshold(usize::MAX))
}

fn response(status: StatusCode, headers: &HeaderMap, bytes: Bytes) -> Response<io::Cursor<Bytes>> {
    let length = bytes.len();
    let (name, value) = NO_SNIFFING;
    let headers = headers.iter().chain([(&name, &value)]);
    let headers =
        headers.filter_map(|(name, value)| Header::from_bytes(name.as_str(), value.as_bytes()).ok()).collect();
    Response::new(status.as_u16().into(), headers, io::Cursor::new(bytes), Some(length), None)
}

/// Dropping a request makes tiny_http allocate all that its client announced and did not send, which for a disk image
/// sent here by mistake ends the process. So the client gets its answer, and the rest of this connection, a thread and
/// two descriptors, is given up for good. tiny_http gives the bare connection only in exchange for an answer: an
/// interim answer, which clients skip.
fn abandon(request: tiny_http::Request, answer: Answer) -> io::Result<()> {
    let Body::Whole(bytes) = answer.body else { return Ok(()) };
    let mut rest = request.upgrade("close", Response::empty(100));
    let head =
        format!("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", answer.status, bytes.len());
    let head = format!("{head}X-Content-Type-Options: nosniff\r\n");
    let written =
        rest.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).and_then(|()| rest.write_all(&bytes));
    let written = written.and_then(|()| rest.flush());
    std::mem::forget(rest);
    written
}

/// A handler that answers what is not about health; given back when it has.
struct Reader<'a> {
    plane: &'a Plane,
}

impl Reader<'_> {
    fn take(plane: &Plane) -> Option<Reader<'_>> {
        let readers = plane.readers.fetch_add(1, Relaxed) + 1;
        let reader = Reader { plane };
        (readers < plane.limits.handlers).then_some(reader)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.plane.readers.fetch_sub(1, Relaxed);
    }
}

/// The place of a request that may write, or for which no handler is left; given back when its thread ends.
struct Writer {
    plane: Arc<Plane>,
}

impl Writer {
    fn take(plane: &Arc<Plane>) -> Option<Writer> {
        let writers = plane.writers.fetch_add(1, Relaxed) + 1;
        let writer = Writer { plane: plane.clone() };
        (writers <= plane.limits.writers_max).then_some(writer)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.plane.writers.fetch_sub(1, Relaxed);
    }
}

/// The place of a stream's thread; given back when the thread ends.
struct StreamSlot {
    plane: Arc<Plane>,
    forwards: bool,
}

impl StreamSlot {
    fn take(plane: &Arc<Plane>, forwards: bool) -> Option<StreamSlot> {
        let streams = plane.streams.fetch_add(1, Relaxed) + 1;
        let forwarded = plane.forwards.fetch_add(usize::from(forwards), Relaxed) + usize::from(forwards);
        let place = StreamSlot { plane: plane.clone(), forwards };
        let room = streams <= plane.limits.streams_max && !(forwards && forwarded > plane.limits.forwards_max);
        room.then_some(place)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.plane.streams.fetch_sub(1, Relaxed);
        self.plane.forwards.fetch_sub(usize::from(self.forwards), Relaxed);
    }
}

/// An answer written piece by piece: tiny_http's own streaming delivers in lumps of 8 KiB. To a client of HTTP/1.0 the
/// end of the connection is the end of the body.
struct Pieces {
    out: Box<dyn Write + Send>,
    chunked: bool,
    bare: bool,
}

impl Pieces {
    fn begin(request: tiny_http::Request, status: StatusCode, headers: &HeaderMap) -> io::Result<Pieces> {
        let bare = *request.method() == tiny_http::Method::Head;
        let chunked = *request.http_version() >= (1, 1);
        let mut out = request.into_writer();
        write!(
            out,
            "HTTP/1.1 {status}\r\n{}",
            if chunked { "Transfer-Encoding: chunked\r\n" } else { "Connection: close\r\n" }
        )?;
        let (name, value) = NO_SNIFFING;
        for (name, value) in headers.iter().filter(|(known, _)| **known != name).chain([(&name, &value)]) {
            write!(out, "{name}: ")?;
            out.write_all(value.as_bytes())?;
            out.write_all(b"\r\n")?;
        }
        out.write_all(b"\r\n")?;
        out.flush()?;
        Ok(Pieces { out, chunked, bare })
    }

    fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        // An empty chunk would be the end.
        if bytes.is_empty() {
            return Ok(());
        }
        if self.chunked {
            write!(self.out, "{:x}\r\n", bytes.len())?;
        }
        self.out.write_all(bytes)?;
        if self.chunked {
            self.out.write_all(b"\r\n")?;
        }
        self.out.flush()
    }

    fn end(mut self) -> io::Result<()> {
        if self.chunked {
            self.out.write_all(b"0\r\n\r\n")?;
        }
        self.out.flush()
    }

    /// The connection cannot be cut through tiny_http, but what is no chunk tells the client that the body is not
    /// whole.
    fn break_off(mut self) -> io::Result<()> {
        if self.chunked {
            self.out.write_all(b"broken off\r\n\r\n")?;
        }
        self.out.flush()
    }
}

fn follow(
    place: &StreamSlot,
    request: tiny_http::Request,
    status: StatusCode,
    headers: &HeaderMap,
    mut stream: Stream,
) -> io::Result<()> {
    let mut pieces = Pieces::begin(request, status, headers)?;
    // Between JSON documents a blank line means nothing; in a log it would be a line.
    let json = headers.get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/json"));
    let patience = if json { place.plane.limits.heartbeat } else { Duration::MAX };
    while !pieces.bare {
        match next(&mut stream, patience) {
            Next::Event(event) => pieces.piece(&event)?,
            Next::Nothing => pieces.piece(b"\n")?,
            Next::End => break,
        }
    }
    match pieces.bare {
        true => Ok(()),
        false => pieces.end(),
    }
}

/// The stream's thread has a small runtime of its own for it, so both sides forward with the same code.
fn pass_on(place: &StreamSlot, request: tiny_http::Request, forward: &Forward) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let mut forwarded = match runtime.block_on(outbound::forward(forward)) {
        Ok(Reached::Answer(forwarded)) => forwarded,
        Ok(Reached::Upgraded(..)) => return decline(&place.plane, request),
        Err(refusal) => {
            place.plane.journal.refused(&refusal, &"the local socket");
            return refuse(request, &refusal);
        }
    };
    let mut pieces = Pieces::begin(request, forwarded.status, &forwarded.headers)?;
    while !pieces.bare {
        match runtime.block_on(forwarded.piece()) {
            Some(Ok(bytes)) => pieces.piece(&bytes)?,
            Some(Err(e)) => {
                place
                    .plane
                    .journal
                    .say("forward", &format_args!("an answer forwarded from {} broke off: {e}", forward.address));
                return pieces.break_off();
            }
            None => return pieces.end(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_that_was_answered_says_that_all_is_well() {
        let no_descriptors = io::Error::from_raw_os_error(nix::libc::EMFILE).kind();
        for (failed, expected) in [
            (None, State::Alive),
            (Some(io::ErrorKind::ConnectionRefused), State::Dead),
            (Some(io::ErrorKind::NotFound), State::Dead),
            (Some(no_descriptors), State::Unknown),
        ] {
            assert_eq!(state(failed), expected, "{failed:?}");
        }
    }
}
