//! The client's end of TLS 1.3, for probes and for what is asked behind `proxy`: what a server says of itself is not
//! verified, as Kubernetes verifies it in neither place.
//!
//! One thread carries the bytes of all connections, and ends when there have been none for a while: the library's state
//! cannot change threads, as tasks do. The buffers of a connection are there as long as whoever holds the `Secret`.

use embedded_io_adapters::tokio_1::FromTokio;
use embedded_tls::{Aes128GcmSha256, TlsConfig, TlsConnection, TlsContext, TlsError, UnsecureProvider};
use rand_core::OsRng;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

/// The longest record of TLS 1.3, and what goes around it: servers choose how long theirs are.
const READ_BYTES: usize = 16 * 1024 + 256;
/// A greeting has to fit, and what is longer goes in several records.
const WRITE_BYTES: usize = 4 * 1024;
/// On their way between the task and its user, in each direction.
const PIECE_BYTES: usize = 4 * 1024;
/// A handshake takes the most of it.
const STACK_BYTES: usize = 512 * 1024;
/// Connections at once: each has some 45 KB.
const CONNECTIONS_MAX: usize = 512;
/// The thread ends after so long without a connection.
const IDLE: Duration = Duration::from_secs(10);

/// A connection whose bytes nobody on the way reads.
pub struct Secret {
    near: DuplexStream,
    /// The task ends when this does.
    _held: oneshot::Sender<()>,
}

/// A connection on its way to the thread.
struct Job {
    wire: std::net::TcpStream,
    host: String,
    far: DuplexStream,
    opened: oneshot::Sender<Result<(), String>>,
    gone: oneshot::Receiver<()>,
    _place: SemaphorePermit<'static>,
}

/// The way to the thread. None: there is none.
static THREAD: Mutex<Option<UnboundedSender<Job>>> = Mutex::new(None);
static PLACES: Semaphore = Semaphore::const_new(CONNECTIONS_MAX);

/// The error is in words for people.
pub async fn open(wire: TcpStream, host: &str) -> Result<Secret, String> {
    let (near, far) = duplex(PIECE_BYTES);
    let (opened, answer) = oneshot::channel();
    let (held, gone) = oneshot::channel();
    let (wire, host) = (wire.into_std().map_err(|error| error.to_string())?, host.to_owned());
    let full = |_| format!("tls: there are {CONNECTIONS_MAX} connections already");
    let _place = PLACES.try_acquire().map_err(full)?;
    hand_over(Job { wire, host, far, opened, gone, _place })?;
    answer.await.unwrap_or_else(|_| Err("EOF".to_owned()))?;
    Ok(Secret { near, _held: held })
}

/// To the thread that is there, or to a new one.
fn hand_over(mut job: Job) -> Result<(), String> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(jobs) = &*thread {
        match jobs.send(job) {
            Ok(()) => return Ok(()),
            Err(back) => job = back.0,
        }
    }
    let (jobs, waiting) = unbounded_channel();
    std::thread::Builder::new()
        .name("tls".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            if let Ok(runtime) = Builder::new_current_thread().enable_io().enable_time().build() {
                LocalSet::new().block_on(&runtime, carry_all(waiting));
            }
        })
        .map_err(|error| error.to_string())?;
    // A thread that has failed drops the job, and `open` then returns an error.
    let _ = jobs.send(job);
    *thread = Some(jobs);
    Ok(())
}

/// Runs until no connection is open and none has come for a while.
async fn carry_all(mut waiting: UnboundedReceiver<Job>) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            job = waiting.recv() => match job {
                Some(job) => drop(running.spawn_local(carry_one(job))),
                None => return,
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
            () = sleep(IDLE), if running.is_empty() => {
                let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
                // One may have come just now; behind the lock none comes any more.
                match waiting.try_recv() {
                    Ok(job) => drop(running.spawn_local(carry_one(job))),
                    Err(_) => {
                        *thread = None;
                        return;
                    }
                }
            }
        }
    }
}

async fn carry_one(job: Job) {
    let Job { wire, host, far, opened, mut gone, _place } = job;
    let Ok(wire) = TcpStream::from_std(wire) else { return };
    tokio::select! {
        () = carry(wire, &host, far, opened) => {}
        _ = &mut gone => {}
    }
}

async fn carry(wire: TcpStream, host: &str, mut far: DuplexStream, opened: oneshot::Sender<Result<(), String>>) {
    let (mut incoming, mut outgoing) = (vec![0; READ_BYTES], vec![0; WRITE_BYTES]);
    let mut secret = TlsConnection::<_, Aes128GcmSha256>::new(FromTokio::new(wire), &mut incoming, &mut outgoing);
    let mut config = TlsConfig::new().enable_rsa_signatures();
    // Only a name is told: an address is none.
    if host.parse::<IpAddr>().is_err() {
        config = config.with_server_name(host);
    }
    let provider = UnsecureProvider::new::<Aes128GcmSha256>(OsRng);
    let greeted = secret.open(TlsContext::new(&config, provider)).await.map_err(|error| words(&error));
    if opened.send(greeted).is_err() {
        return;
    }
    let (mut there, mut back) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut more = true;
    loop {
        tokio::select! {
            // What a read has begun stays in its buffer when the other direction comes first.
            read = secret.read(&mut back) => match read {
                Ok(bytes) if bytes > 0 && far.write_all(&back[..bytes]).await.is_ok() => {}
                _ => return,
            },
            read = far.read(&mut there), if more => match read {
                // It says no more, and may still listen.
                Ok(0) => more = false,
                Ok(bytes) if send(&mut secret, &there[..bytes]).await.is_ok() => {}
                _ => return,
            },
        }
    }
}

async fn send(
    secret: &mut TlsConnection<'_, FromTokio<TcpStream>, Aes128GcmSha256>,
    mut left: &[u8],
) -> Result<(), TlsError> {
    while !left.is_empty() {
        let taken = secret.write(left).await?;
        left = left.get(taken..).unwrap_or_default();
    }
    secret.flush().await
}

impl AsyncRead for Secret {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Secret {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.near).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_shutdown(cx)
    }
}

/// The likeliest cause of a failure, in words that help.
fn words(error: &TlsError) -> String {
    match error {
        TlsError::HandshakeAborted(_, alert) => format!("remote error: tls: {alert:?}; this side speaks TLS 1.3"),
        TlsError::UnknownContentType | TlsError::InvalidRecord => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        TlsError::InvalidSupportedVersions => "tls: the server speaks no TLS 1.3, and this side no other".to_owned(),
        TlsError::ConnectionClosed | TlsError::IoError | TlsError::Io(_) => "EOF".to_owned(),
        other => format!("tls: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use tokio::net::TcpListener;

    /// OpenSSL's own server, which takes one connection and answers each line with the same line backwards. None: there
    /// is no openssl here.
    fn server(dir: &Path, key: &[&str], more: &[&str]) -> Option<(Child, u16)> {
        let quiet = |command: &mut Command| {
            command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null()).status()
        };
        let certificate = [
            "req",
            "-x509",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=somebody.else",
            "-keyout",
            "key",
            "-out",
            "certificate",
        ];
        let made = quiet(Command::new("openssl").args(certificate).args(key)).ok()?;
        assert!(made.success(), "openssl req: {made}");
        let mut command = Command::new("openssl");
        command
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-naccept",
                "1",
                "-cert",
                "certificate",
                "-key",
                "key",
                "-rev",
            ])
            .args(more);
        let mut child =
            command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.filter_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.trim().parse().ok()).next();
        Some((child, port.expect("openssl says where it listens")))
    }

    async fn answer(port: u16) -> Result<String, String> {
        let wire = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET / HTTP/1.1 {}\n", "long".repeat(3000));
        let mut secret = open(wire, "127.0.0.1").await?;
        secret.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let (mut all, mut piece) = (Vec::new(), [0; 256]);
        while !all.contains(&b'\n') {
            let read = secret.read(&mut piece).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("EOF".to_owned());
            }
            all.extend_from_slice(&piece[..read]);
        }
        Ok(String::from_utf8_lossy(&all).lines().next().unwrap_or_default().chars().rev().collect())
    }

    #[tokio::test]
    async fn a_server_is_asked_and_not_verified() {
        let dir = std::env::temp_dir().join(format!("coracle-tls-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let elliptic = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"];
        let cases: [(&[&str], &[&str], &str); 4] = [
            (&["-newkey", "rsa:2048"], &[], "GET / HTTP/1.1 longlong"),
            (&elliptic, &["-num_tickets", "4"], "GET / HTTP/1.1 longlong"),
            // A certificate of ours is asked for, and not insisted on.
            (&elliptic, &["-verify", "1"], "GET / HTTP/1.1 longlong"),
            (&elliptic, &["-tls1_2"], "TLS 1.3"),
        ];
        for (key, more, expected) in cases {
            let Some((mut child, port)) = server(&dir, key, more) else {
                eprintln!("there is no openssl here: nothing is tried");
                break;
            };
            let found = answer(port).await.unwrap_or_else(|error| error);
            // The server process may wait for more input.
            let _ = child.kill();
            child.wait().unwrap();
            assert!(found.contains(expected), "{more:?}: {found}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[tokio::test]
    async fn a_server_without_tls_is_called_one() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = async {
            let (mut wire, _) = listener.accept().await.unwrap();
            wire.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await.unwrap();
            wire
        };
        let (found, _wire) = tokio::join!(answer(port), serve);
        assert_eq!(found, Err("http: server gave HTTP response to HTTPS client".to_owned()));
    }
}
