//! `coracle-agent exec` and `logs`: for a person at the host, without a master and without a further client. Both ask
//! the running agent over the agent's socket, as the master does.
//!
//!     deed PURE     the command line, the pod's container, the words of the answer
//!     terminal      the terminal that this is typed at

pub mod deed;
mod terminal;

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use coracle_http::Method;
use coracle_http::client::{CallError, Client, Target};
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece};
use coracle_http::websocket::{Reader, Writer, begin};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};

use deed::{Deed, DeedKind, PodContainer};
use terminal::Terminal;

/// Bytes of one read from standard input.
const READ_BYTES: usize = 16 * 1024;
/// Reads of standard input that wait for the command.
const READS_MAX: usize = 4;
/// Bytes of a last word.
const STATUS_BYTES_MAX: usize = 64 * 1024;

/// Channels of a command's WebSocket.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const SIZE: u8 = 4;
/// The channel on which a client names a channel that ends.
const CLOSE: u8 = 255;

/// The exit code is the command's; 1 where there is none, and why is told.
pub async fn run(deed: &Deed, socket: &Path) -> ExitCode {
    let done = ask(deed, socket).await;
    ExitCode::from(done.unwrap_or_else(|why| {
        eprintln!("coracle-agent: {}", coracle_api::printable::lines(&why.to_string()));
        1
    }))
}

async fn ask(deed: &Deed, socket: &Path) -> Result<u8, String> {
    let client = Client::new(Target::Unix(socket.to_owned()), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let pods = client.call(Method::GET, "/pods", None).await.map_err(|error| unheard(socket, error))?;
    let pods =
        serde_json::from_slice(&pods.body).map_err(|error| format!("the agent's pods cannot be read: {error}"))?;
    let places = deed.places(&pods)?;
    let connect = async |place: &PodContainer, protocol: &'static str| {
        let upgraded = client.web_socket(&deed.target(place), protocol).await;
        upgraded.map(begin).map_err(|error| unheard(socket, error))
    };
    let log = async |place: &PodContainer| {
        // The writer keeps the connection open.
        let (mut reader, _writer) = connect(place, "binary.k8s.io").await?;
        logs(&mut reader).await
    };
    match (&deed.what, places.as_slice()) {
        (DeedKind::Exec { stdin, tty, .. }, [place, ..]) => {
            let (reader, writer) = connect(place, "v5.channel.k8s.io").await?;
            exec(reader, writer, *stdin, *tty).await
        }
        (DeedKind::Exec { .. }, []) => Err("the pod has no container".to_owned()),
        (DeedKind::Logs(_), [place]) => log(place).await,
        (DeedKind::Logs(_), places) => {
            let said = async |place| {
                let shown = log(place).await;
                shown.unwrap_or_else(|why| {
                    let why = why.to_string();
                    eprintln!("coracle-agent: container {}: {}", place.container, coracle_api::printable::lines(&why));
                    1
                })
            };
            // Followed logs do not end, so all of them are printed concurrently.
            let beside = if deed.follows() { places.len().max(1) } else { 1 };
            let codes: Vec<u8> = stream::iter(places).map(said).buffered(beside).collect().await;
            Ok(codes.into_iter().max().unwrap_or(0))
        }
    }
}

fn unheard(socket: &Path, error: CallError) -> String {
    match error {
        CallError::Refused(_, reply) => deed::refusal(&reply.body),
        CallError::Unreachable(_, error) => format!(
            "no agent answers on {}: {error}; it answers root, and where its socket is say --config, --socket-dir and \
             --node-name",
            socket.display()
        ),
        other => other.to_string(),
    }
}

async fn logs(reader: &mut Reader) -> Result<u8, String> {
    while let Some(piece) = reader.next().await.map_err(|error| format!("the log breaks off: {error}"))? {
        if let Piece::Message { bytes, .. } = piece
            && !tell(std::io::stdout(), &bytes)
        {
            break;
        }
    }
    Ok(0)
}

/// Writes and flushes. False: the reader of `to` is gone.
fn tell(mut to: impl Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}

async fn exec(mut reader: Reader, writer: Writer, stdin: bool, tty: bool) -> Result<u8, String> {
    let terminal = tty.then(Terminal::take).transpose()?;
    let (typed_in, typed) = mpsc::channel(READS_MAX);
    if stdin {
        // It waits for a person, and ends with the program.
        std::thread::spawn(move || {
            let mut bytes = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = std::io::stdin().read(&mut bytes) {
                if typed_in.blocking_send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    let ended = tokio::select! {
        ended = hear(&mut reader) => ended,
        // After `speak` the connection takes no more input: received output is still read to the end.
        () = speak(writer, typed, stdin, terminal.as_ref()) => hear(&mut reader).await,
    };
    drop(terminal);
    ended
}

/// Copies the output of the command, until its exit status.
async fn hear(reader: &mut Reader) -> Result<u8, String> {
    let (mut channel, mut status) = (None, Vec::new());
    while let Ok(Some(piece)) = reader.next().await {
        let Piece::Message { begins, mut bytes, .. } = piece else { continue };
        if begins {
            channel = None;
        }
        if channel.is_none() && !bytes.is_empty() {
            channel = Some(bytes.split_to(1)[0]);
        }
        let heard = match channel {
            Some(STDOUT) => tell(std::io::stdout(), &bytes),
            Some(STDERR) => tell(std::io::stderr(), &bytes),
            Some(STATUS) if status.len() + bytes.len() <= STATUS_BYTES_MAX => {
                status.extend_from_slice(&bytes);
                true
            }
            _ => true,
        };
        if !heard {
            return Err("nobody reads what the command prints".to_owned());
        }
    }
    deed::ended(&status)
}

/// Copies the input and the sizes of the terminal; ends when the connection does.
async fn speak(mut writer: Writer, mut typed: Receiver<Vec<u8>>, stdin: bool, terminal: Option<&Terminal>) {
    let Ok(mut resized) = signal(SignalKind::window_change()) else { return };
    let (mut open, mut size) = (stdin, terminal.and_then(Terminal::size));
    loop {
        if let Some((height, width)) = size.take() {
            let size = json!({ "Width": width, "Height": height }).to_string();
            if writer.message(false, &[&[SIZE], size.as_bytes()]).await.is_err() {
                return;
            }
        }
        let said = tokio::select! {
            bytes = typed.recv(), if open => match bytes {
                Some(bytes) => writer.message(false, &[&[STDIN], &bytes]).await,
                None => {
                    open = false;
                    writer.message(false, &[&[CLOSE, STDIN]]).await
                }
            },
            ping = writer.ping() => match ping {
                Some(ping) => writer.pong(&ping).await,
                None => {
                    let _ = writer.close(CLOSE_NORMAL).await;
                    return;
                }
            },
            Some(()) = resized.recv(), if terminal.is_some() => {
                size = terminal.and_then(Terminal::size);
                Ok(())
            }
        };
        if said.is_err() {
            return;
        }
    }
}
