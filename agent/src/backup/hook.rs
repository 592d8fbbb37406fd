//! Runs the hooks of a pod through the running agent, as `exec` does.

use std::time::Duration;

use coracle_http::client::{CallError, Client};
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece};
use coracle_http::websocket::{Reader, Writer, begin};
use tokio::time::timeout;

use super::plan::Hooks;
use crate::inside::deed::{self, Deed, DeedKind, PodContainer};
use crate::inside::named::{Named, NamedKind};

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Of what a hook writes the end is kept, which says why it failed.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// Lines of a message: some programs point at a word in the last one.
const LAST_LINES: usize = 3;
const STATUS_BYTES_MAX: usize = 64 * 1024;

/// The error says why the hook failed, without its name.
pub async fn run(client: &Client, hooks: &Hooks, command: &[String]) -> Result<(), String> {
    let Hooks { namespace, called: pod, container, timeout: time, .. } = hooks;
    let deed = Deed {
        named: Named { kind: NamedKind::Pod, namespace: namespace.clone(), name: pod.clone() },
        container: Some(container.clone()),
        all_containers: false,
        what: DeedKind::Exec { stdin: false, tty: false, command: command.to_vec() },
    };
    let place = PodContainer { pod: pod.clone(), container: container.clone() };
    let target = deed.target(&place);
    let ran = async {
        let upgraded = client.web_socket(&target, "v5.channel.k8s.io").await.map_err(|error| match error {
            CallError::Refused(_, reply) => deed::refusal(&reply.body),
            other => other.to_string(),
        })?;
        let (mut reader, writer) = begin(upgraded);
        tokio::select! {
            ended = hear(&mut reader) => ended,
            never = answer_pings(writer) => never,
        }
    };
    timeout(*time, ran).await.unwrap_or_else(|_| Err(late(*time)))
}

fn late(time: Duration) -> String {
    format!("it has not ended in {} s (coracle.dev/backup-timeout)", time.as_secs())
}

async fn hear(reader: &mut Reader) -> Result<(), String> {
    let (mut channel, mut status, mut output) = (None, Vec::new(), Vec::new());
    while let Ok(Some(piece)) = reader.next().await {
        let Piece::Message { begins, mut bytes, .. } = piece else { continue };
        if begins {
            channel = None;
        }
        if channel.is_none() && !bytes.is_empty() {
            channel = Some(bytes.split_to(1)[0]);
        }
        match channel {
            Some(STDOUT | STDERR) => {
                output.extend_from_slice(&bytes);
                let over = output.len().saturating_sub(KEPT_BYTES_MAX);
                output.drain(..over);
            }
            Some(STATUS) if status.len() + bytes.len() <= STATUS_BYTES_MAX => status.extend_from_slice(&bytes),
            _ => {}
        }
    }
    match deed::ended(&status)? {
        0 => Ok(()),
        code => Err(failed(code, &output)),
    }
}

fn failed(code: u8, output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LAST_LINES)..] {
        [] => format!("exit code {code}"),
        last => format!("exit code {code}: {}", last.join("; ")),
    }
}

/// Until the connection ends, of which `hear` tells.
async fn answer_pings(mut writer: Writer) -> Result<(), String> {
    while let Some(ping) = writer.ping().await {
        if writer.pong(&ping).await.is_err() {
            break;
        }
    }
    let _ = writer.close(CLOSE_NORMAL).await;
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_last_lines() {
        assert_eq!(failed(3, b""), "exit code 3");
        assert_eq!(failed(1, b"a\nb\nERROR: no x\n  ^\n\n"), "exit code 1: b; ERROR: no x; ^");
        assert_eq!(late(Duration::from_secs(5)), "it has not ended in 5 s (coracle.dev/backup-timeout)");
    }
}
