//! `exec`, `logs`, `restart`: for a person at the host, without a further client. They ask the running agent over the
//! agent's socket, as the master does, and the master of this host about the rest of the cluster.
//!
//!     deed PURE     the command line, the pod's container, the words of the answer
//!     named PURE    the names of pods and workloads
//!     find          the pod of a name: here, or on another node
//!     restart       asks for it, and waits; rollout PURE: when a workload of the API is through
//!     terminal      the terminal that this is typed at

pub mod deed;
mod find;
pub mod named;
mod restart;
mod rollout;
mod terminal;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use coracle_http::client::CallError;
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece};
use coracle_http::websocket::{Reader, Writer, begin};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};

use deed::{Deed, DeedKind, PodContainer};
use find::{Found, Programs};
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

/// The log of a container on another node may be quiet for long before it begins.
const FAR_LOG_HEAD: Duration = Duration::from_secs(86_400);

/// Where the programs of this host answer root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sockets {
    pub agent: PathBuf,
    pub master: PathBuf,
}

/// The exit code is the command's; 1 where there is none, and why is told. `name`: how this program is called.
pub async fn run(name: &str, deed: &Deed, sockets: &Sockets) -> ExitCode {
    let done = ask(name, deed, &Programs::new(sockets)).await;
    ExitCode::from(done.unwrap_or_else(|why| {
        eprintln!("{name}: {}", coracle_api::printable::lines(&why));
        1
    }))
}

async fn ask(name: &str, deed: &Deed, programs: &Programs) -> Result<u8, String> {
    if let DeedKind::Restart { patience } = deed.what {
        return restart::run(name, deed, programs, patience).await;
    }
    let (pod, called) = match programs.find(&deed.named).await? {
        Found::Here(pod, called) => (pod, called),
        Found::There(pod) => return ask_far(name, deed, programs, &pod).await,
    };
    let places = deed.places(&pod, &called);
    let connect = async |place: &PodContainer, protocol: &'static str| {
        let upgraded = programs.agent.web_socket(&deed.target(place), protocol).await;
        upgraded.map(begin).map_err(|error| unheard(&programs.sockets.agent, error))
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
        (_, places) => of_all(name, deed, places, log).await,
    }
}

/// The logs of all containers in turn.
async fn of_all(
    name: &str,
    deed: &Deed,
    places: &[PodContainer],
    log: impl AsyncFn(&PodContainer) -> Result<u8, String>,
) -> Result<u8, String> {
    if let [place] = places {
        return log(place).await;
    }
    let said = async |place| {
        let shown = log(place).await;
        shown.unwrap_or_else(|why| {
            eprintln!("{name}: container {}: {}", place.container, coracle_api::printable::lines(&why));
            1
        })
    };
    // Followed logs do not end, so all of them are printed concurrently.
    let beside = if deed.follows() { places.len().max(1) } else { 1 };
    let codes: Vec<u8> = stream::iter(places).map(said).buffered(beside).collect().await;
    Ok(codes.into_iter().max().unwrap_or(0))
}

/// Of a pod on another node: its log comes through the master. A command there would need a connection that the
/// master's local socket does not carry.
async fn ask_far(name: &str, deed: &Deed, programs: &Programs, pod: &serde_json::Value) -> Result<u8, String> {
    let (pod_name, node) = (named::words(pod), pod["spec"]["nodeName"].as_str().unwrap_or_default());
    if node.is_empty() {
        return Err(format!("pod {pod_name} has no node yet: `{name} status` says why"));
    }
    if let DeedKind::Exec { command, .. } = &deed.what {
        let (namespace, pod) = pod_name.split_once('/').unwrap_or_default();
        return Err(format!(
            "pod {pod_name} runs on node {node}: run this command there, or `kubectl exec -n {namespace} {pod} -- {}`",
            command.join(" ")
        ));
    }
    let log = async |place: &PodContainer| {
        let master = &programs.sockets.master;
        let pieces = programs.master.pieces(&deed.far_log(place), FAR_LOG_HEAD).await;
        let mut pieces = pieces.map_err(|error| unheard(master, error))?;
        while let Some(bytes) = pieces.next().await {
            if !tell(std::io::stdout(), &bytes.map_err(|error| format!("the log breaks off: {error}"))?) {
                break;
            }
        }
        Ok(0)
    };
    let (_, called) = pod_name.split_once('/').unwrap_or_default();
    of_all(name, deed, &deed.places(pod, called), log).await
}

fn unheard(socket: &Path, error: CallError) -> String {
    match error {
        CallError::Refused(_, reply) => deed::refusal(&reply.body),
        CallError::Unreachable(_, error) => format!(
            "nobody answers on {}: {error}; it answers root, and where the socket is say --config, --socket-dir and \
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
