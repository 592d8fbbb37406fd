//! Commands in running containers and connections to their own processes, for people: the client's input goes to the
//! process, and the output to the client.
//!
//! bollard reads such a connection in its own pieces and takes some bytes of a terminal for frames, so the http crate
//! opens it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bollard::exec::{CreateExecOptions, ResizeExecOptions};
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::ResizeContainerTTYOptions;
use bytes::{Bytes, BytesMut};
use coracle_http::Upgraded;
use coracle_http::client::CallError;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::sleep;

use super::super::conversation::{ClientMessage, CommandOutcome, Size, Streams, ToClient};
use super::connection::Docker;
use super::dialect::refusal;
use super::multiplexed::{Multiplexed, Output};
use crate::facts::engine::Failure;

/// The size of a single read from a command's output.
const READ_BYTES: usize = 16 * 1024;
/// How the engine begins to say, in the place of any output, that a command did not start.
const NOT_STARTED: &[u8] = b"OCI runtime exec failed";
/// Podman's way: the name of its runtime stands between the two.
const NOT_STARTED_HERE: (&[u8], &[u8]) = (b"Error: ", b": exec failed");
/// The longest such message.
const NOT_STARTED_BYTES_MAX: usize = 4096;
/// A command whose client has gone gets SIGHUP, and has this long to end by itself.
const HANG_UP: Duration = Duration::from_secs(5);
/// The keys on which the engine would let go of a terminal: a person must not be able to press them, and programs send
/// none of them twice.
const DETACH_KEYS: &str = "ctrl-@,ctrl-^,ctrl-@,ctrl-_,ctrl-@,ctrl-^,ctrl-@,ctrl-_";
/// For the output of a container that ended while a client was connected to it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The wait if the terminal does not exist yet when its first size comes.
const RESIZE_AGAIN: Duration = Duration::from_millis(50);
const RESIZE_TRIES: usize = 10;

/// The container or exec that a terminal belongs to.
#[derive(Clone, Debug)]
enum Of {
    Exec(String),
    Container(String),
}

/// A command that runs for a client. Dropped before the command's end, it ends the command: nobody would read the
/// output.
struct Running {
    docker: Arc<Docker>,
    exec: Option<String>,
}

impl Docker {
    /// Runs a command in a container until it ends.
    pub async fn run_command(
        self: &Arc<Docker>,
        container: &str,
        command: &[String],
        streams: Streams,
        heard: Receiver<ClientMessage>,
        to_client: &Sender<ToClient>,
    ) -> CommandOutcome {
        let failed =
            |failure: Failure| CommandOutcome::Failed(format!("error executing command in container: {failure}"));
        let client = match self.client().await {
            Ok(client) => client,
            Err(failure) => return failed(failure),
        };
        let options = CreateExecOptions {
            attach_stdin: Some(streams.stdin),
            attach_stdout: Some(streams.stdout),
            attach_stderr: Some(streams.stderr),
            tty: Some(streams.tty),
            detach_keys: Some(DETACH_KEYS.to_owned()),
            cmd: Some(command.to_vec()),
            ..Default::default()
        };
        let exec = match self.ask("create an exec", client.create_exec(container, options)).await {
            Ok(made) => made.id,
            Err(failure) => return failed(failure),
        };
        let body = json!({ "Detach": false, "Tty": streams.tty }).to_string();
        let connection = match self.take_over(&format!("/exec/{exec}/start"), body).await {
            Ok(connection) => connection,
            Err(failure) => return failed(failure),
        };
        let mut running = Running { docker: self.clone(), exec: Some(exec.clone()) };
        let last = self.converse(connection, Of::Exec(exec.clone()), streams, heard, to_client).await;
        running.exec = None;
        let found = match self.ask("inspect an exec", client.inspect_exec(&exec)).await {
            Ok(found) => found,
            Err(failure) => return failed(failure),
        };
        let started = found.pid.unwrap_or_default() != 0;
        match (found.exit_code, &last[..]) {
            (Some(126 | 127), [ToClient::Stdout(why) | ToClient::Stderr(why), ..]) if !started => {
                // Of Podman's lines the first is the reason.
                let why = String::from_utf8_lossy(why).trim().split("\nError: ").next().unwrap_or_default().to_owned();
                failed(Failure::Refused(format!("failed to exec in container: failed to start exec {exec:?}: {why}")))
            }
            (code, _) => {
                for piece in last {
                    let _ = to_client.send(piece).await;
                }
                match code {
                    Some(0) => CommandOutcome::Success,
                    Some(code) => CommandOutcome::Exit(code),
                    None => failed(Failure::Unavailable("the engine has lost the command".to_owned())),
                }
            }
        }
    }

    /// Connects a client to a container's own process until that ends, or closes what is connected.
    pub async fn attach(
        &self,
        container: &str,
        mut streams: Streams,
        heard: Receiver<ClientMessage>,
        to_client: &Sender<ToClient>,
    ) -> CommandOutcome {
        let failed = |failure: Failure| CommandOutcome::Failed(format!("error attaching to container: {failure}"));
        let client = match self.client().await {
            Ok(client) => client,
            Err(failure) => return failed(failure),
        };
        let ended = || failed(Failure::Refused("container is in CONTAINER_EXITED state".to_owned()));
        match self.inspect(&client, container).await {
            Ok(found) if !runs(&found) => return ended(),
            // Whether there is a terminal is the container's to say: its output has no frames then.
            Ok(found) => streams.tty = found.config.and_then(|config| config.tty).unwrap_or_default(),
            Err(failure) => return failed(failure),
        }
        let flag = |name: &str, is: bool| format!("{name}={}", u8::from(is));
        let query = [
            flag("stream", true),
            flag("stdin", streams.stdin),
            flag("stdout", streams.stdout),
            flag("stderr", streams.stderr),
            format!("detachKeys={}", DETACH_KEYS.replace('@', "%40").replace('^', "%5E").replace(',', "%2C")),
        ];
        match self.take_over(&format!("/containers/{container}/attach?{}", query.join("&")), String::new()).await {
            Ok(connection) => {
                let conversation =
                    self.converse(connection, Of::Container(container.to_owned()), streams, heard, to_client);
                let last = tokio::select! {
                    last = conversation => last,
                    () = self.attached_too_late(container) => return ended(),
                };
                for piece in last {
                    let _ = to_client.send(piece).await;
                }
                CommandOutcome::Success
            }
            Err(failure) => failed(failure),
        }
    }

    /// The engine also connects to a container that has just ended, and would wait for its next start. A container that
    /// still runs after the connection was made closes the connection at its end.
    async fn attached_too_late(&self, container: &str) {
        let Ok(client) = self.client().await else { return std::future::pending().await };
        let found = self.inspect(&client, container).await;
        if found.is_ok_and(|found| runs(&found)) {
            return std::future::pending().await;
        }
        // The last output of the container is still on its way.
        sleep(LAST_WORDS).await;
    }

    /// A connection to the engine that speaks no HTTP any more.
    async fn take_over(&self, path: &str, body: String) -> Result<Upgraded, Failure> {
        self.plain_client()?.take_over(path, "tcp", body.into()).await.map_err(|error| match error {
            CallError::Refused(_, reply) => {
                let words: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                let text = words["message"].as_str().map_or_else(|| format!("status {}", reply.status), str::to_owned);
                refusal("take over a connection", reply.status.as_u16(), text)
            }
            other => Failure::Unavailable(other.to_string()),
        })
    }

    /// Until there is no more output. What could be the engine's own word that nothing began is handed back, where
    /// nothing else came.
    async fn converse(
        &self,
        connection: Upgraded,
        of: Of,
        streams: Streams,
        heard: Receiver<ClientMessage>,
        to_client: &Sender<ToClient>,
    ) -> Vec<ToClient> {
        let (from, to) = split(connection);
        tokio::select! {
            last = outward(from, streams, to_client) => last,
            never = self.inward(to, of, heard) => match never {},
        }
    }

    /// What a client says; after its end there is nothing more to do.
    async fn inward(
        &self,
        mut to: WriteHalf<Upgraded>,
        of: Of,
        mut heard: Receiver<ClientMessage>,
    ) -> std::convert::Infallible {
        while let Some(said) = heard.recv().await {
            match said {
                // A command that reads no more input may still run: its input is dropped.
                ClientMessage::Stdin(bytes) => drop(to.write_all(&bytes).await),
                ClientMessage::StdinEnd => drop(to.shutdown().await),
                ClientMessage::Size(size) => self.resize(&of, size).await,
            }
        }
        std::future::pending().await
    }

    async fn resize(&self, of: &Of, Size { width, height }: Size) {
        for _ in 0..RESIZE_TRIES {
            let Ok(client) = self.client().await else { return };
            let resized = match of {
                Of::Exec(id) => {
                    self.ask("resize a terminal", client.resize_exec(id, ResizeExecOptions { height, width })).await
                }
                Of::Container(id) => {
                    let options = ResizeContainerTTYOptions { h: height.into(), w: width.into() };
                    self.ask("resize a terminal", client.resize_container_tty(id, options)).await
                }
            };
            if resized.is_ok() {
                return;
            }
            sleep(RESIZE_AGAIN).await;
        }
        log::debug!("the terminal of {of:?} keeps its size");
    }

    /// Sends SIGHUP, like a lost terminal, and kills a command that goes on, unless the command ignores SIGHUP as under
    /// `nohup`.
    async fn hang_up(&self, exec: &str) {
        let Some((pid, container)) = self.process_of(exec).await else { return };
        if !is_of(pid, &container) {
            return;
        }
        let _ = kill(Pid::from_raw(pid), Signal::SIGHUP);
        sleep(HANG_UP).await;
        if is_of(pid, &container) && !ignores_hang_up(pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// Kills the command of a late check, with its process group: each remaining process would hold a connection of the
    /// engine.
    pub(super) async fn kill_exec(&self, exec: &str) {
        let Some((pid, container)) = self.process_of(exec).await else { return };
        if !is_of(pid, &container) {
            return;
        }
        let process = Pid::from_raw(pid);
        // runc begins a session for each command, so its group is its own.
        if getpgid(Some(process)) == Ok(process) {
            let _ = killpg(process, Signal::SIGKILL);
        } else {
            let _ = kill(process, Signal::SIGKILL);
        }
    }

    /// The host's pid of a running exec, and the exec's container.
    async fn process_of(&self, exec: &str) -> Option<(i32, String)> {
        let client = self.client().await.ok()?;
        let found = self.ask("inspect an exec", client.inspect_exec(exec)).await.ok()?;
        let pid = found.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1);
        found.running.filter(|running| *running)?;
        Some((pid?, found.container_id?))
    }
}

/// Between the engine's answer and a signal the number may have become another's.
fn is_of(pid: i32, container: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(container))
}

/// As `nohup` makes it.
fn ignores_hang_up(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    ignored
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_some_and(|mask| mask & 1 << (Signal::SIGHUP as u64 - 1) != 0)
}

fn runs(found: &ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or_default()
}

/// Whether this could say that nothing has begun.
fn is_engines_word(output: &ToClient) -> bool {
    let (begin, then) = NOT_STARTED_HERE;
    let podmans = |bytes: &Bytes| {
        bytes.starts_with(begin) && bytes.windows(then.len()).take(NOT_STARTED_BYTES_MAX).any(|part| part == then)
    };
    match output {
        ToClient::Stdout(bytes) | ToClient::Stderr(bytes) if bytes.len() > NOT_STARTED_BYTES_MAX => false,
        ToClient::Stdout(bytes) => bytes.starts_with(NOT_STARTED) || podmans(bytes),
        ToClient::Stderr(bytes) => podmans(bytes),
        ToClient::Outcome(_) => false,
    }
}

async fn outward(mut from: ReadHalf<Upgraded>, streams: Streams, to_client: &Sender<ToClient>) -> Vec<ToClient> {
    let (mut frames, mut read) = (Multiplexed::default(), BytesMut::new());
    // The first output, where it could be the engine's and nothing else has come.
    let (mut first, mut held) = (true, Vec::new());
    loop {
        read.reserve(READ_BYTES);
        if !matches!(from.read_buf(&mut read).await, Ok(1..)) {
            return held;
        }
        loop {
            let output = match streams.tty {
                true => Some(read.split().freeze()).filter(|bytes| !bytes.is_empty()).map(Output::Stdout),
                false => frames.next(&mut read),
            };
            let Some(output) = output else { break };
            let output = match output {
                Output::Stdout(bytes) => ToClient::Stdout(bytes),
                Output::Stderr(bytes) => ToClient::Stderr(bytes),
            };
            let may_be_engines = if first { is_engines_word(&output) } else { is_its_second(&held, &output) };
            if may_be_engines {
                first = false;
                held.push(output);
                continue;
            }
            first = false;
            for message in std::mem::take(&mut held).into_iter().chain([output]) {
                if to_client.send(message).await.is_err() {
                    // The client has gone. The task that serves the client ends this future.
                    return std::future::pending().await;
                }
            }
        }
    }
}

/// Podman says a second time, at the end of the exec itself, that the command did not start.
fn is_its_second(held: &[ToClient], output: &ToClient) -> bool {
    match (held, output) {
        ([ToClient::Stdout(_) | ToClient::Stderr(_)], ToClient::Stdout(bytes) | ToClient::Stderr(bytes)) => {
            bytes.starts_with(NOT_STARTED_HERE.0) && bytes.len() <= NOT_STARTED_BYTES_MAX
        }
        _ => false,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(exec), Ok(runtime)) = (self.exec.take(), tokio::runtime::Handle::try_current()) else { return };
        let docker = self.docker.clone();
        runtime.spawn(async move { docker.hang_up(&exec).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_engine() {
        let check = |text: &str, of_stdout: bool, of_stderr: bool| {
            let bytes = || Bytes::from(text.to_owned());
            assert_eq!(
                (is_engines_word(&ToClient::Stdout(bytes())), is_engines_word(&ToClient::Stderr(bytes()))),
                (of_stdout, of_stderr),
                "{text:.60}"
            );
        };
        let docker = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"x\": not found";
        let podman = "Error: runc: exec failed: unable to start container process: exec: \"x\": not found: OCI runtime \
                      attempted ...";
        check(docker, true, false);
        check(podman, true, true);
        check("Error: no such file", false, false);
        check("", false, false);
        check(&format!("{docker}{}", "x".repeat(NOT_STARTED_BYTES_MAX)), false, false);
    }
}
