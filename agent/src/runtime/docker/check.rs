//! Hooks and probes: a command inside the container, a request or a connection to it from this host.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use bollard::exec::{CreateExecOptions, StartExecResults};
use futures_util::StreamExt;
use tokio::net::TcpStream;

use super::connection::Docker;
use super::get::{self, Get};
use super::grpc;
use crate::facts::engine::{Check, CheckOutcome, Failure, Purpose};
use crate::network::dns::names::Names;

/// The part of a command's output that a kubelet keeps.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

impl Docker {
    pub(super) async fn run_check(
        &self,
        id: &str,
        check: &Check,
        purpose: Purpose,
        at_most: Duration,
    ) -> Result<CheckOutcome, Failure> {
        match check {
            Check::Exec { command } => self.exec(id, command, at_most).await,
            Check::Http { scheme, host, port, path, headers } => {
                let get = Get { scheme, host, port: *port, path, headers };
                Ok(get::get(&self.names, &get, purpose, at_most).await)
            }
            Check::Grpc { host, port, service } => Ok(grpc::health(&self.names, host, *port, service, at_most).await),
            Check::Broken { why } => Err(Failure::Config(why.clone())),
            Check::Sleep { seconds } => {
                let asked = Duration::from_secs(*seconds);
                tokio::time::sleep(asked.min(at_most)).await;
                Ok(if asked <= at_most { passed(String::new()) } else { failed(String::new()) })
            }
            Check::Tcp { host, port } => Ok(match within(at_most, dial(&self.names, host, *port)).await {
                Some(Ok(_)) => passed(String::new()),
                Some(Err(error)) => failed(error),
                None => failed(format!("dial tcp {}: i/o timeout", joined(host, *port))),
            }),
        }
    }

    /// The engine cannot end a command that takes too long: the agent kills it, as a kubelet's runtime does, and the
    /// check has failed.
    async fn exec(&self, id: &str, command: &[String], at_most: Duration) -> Result<CheckOutcome, Failure> {
        let client = self.client().await?;
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..Default::default()
        };
        let exec = self.ask("create an exec", client.create_exec(id, options)).await?.id;
        let mut output = Vec::new();
        let run = async {
            // Starting an exec answers when runc has it, so the limit of a change holds for it as well.
            let started = self.change("start an exec", client.start_exec(&exec, None)).await?;
            if let StartExecResults::Attached { output: mut pieces, .. } = started {
                while let Some(piece) = pieces.next().await {
                    let Ok(piece) = piece else { break };
                    let room = OUTPUT_BYTES_MAX.saturating_sub(output.len());
                    output.extend(piece.as_ref().iter().take(room));
                }
            }
            Ok::<(), Failure>(())
        };
        match within(at_most, run).await {
            Some(ended) => ended?,
            None => {
                self.kill_exec(&exec).await;
                let text = format!("command timed out: {:?} timed out after {}s", command.join(" "), at_most.as_secs());
                return Ok(failed(text));
            }
        }
        let exit_code = self.ask("inspect an exec", client.inspect_exec(&exec)).await?.exit_code;
        Ok(CheckOutcome {
            passed: exit_code == Some(0),
            exit_code,
            output: String::from_utf8_lossy(&output).into_owned(),
            note: None,
        })
    }
}

/// To an address, or to the first of a name's that takes the connection. The error is in the words of programs in
/// Go.
pub(super) async fn dial(names: &Names, host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => names.addresses(host).await.map_err(|error| format!("dial tcp: {error}"))?,
    };
    let mut why = format!("dial tcp: lookup {host}: no such host");
    for address in addresses {
        match TcpStream::connect((address, port)).await {
            Ok(wire) => return Ok(wire),
            Err(error) => {
                why = format!("dial tcp {}: connect: {}", joined(&address.to_string(), port), plain(&error));
            }
        }
    }
    Err(why)
}

/// An address of IPv6 stands in brackets.
pub(super) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, call).await.ok()
}

/// The words that the kubelet's users know, without Rust's number of the error.
pub(super) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

pub(super) fn passed(output: String) -> CheckOutcome {
    CheckOutcome { passed: true, output, ..CheckOutcome::default() }
}

pub(super) fn failed(output: String) -> CheckOutcome {
    CheckOutcome { passed: false, output, ..CheckOutcome::default() }
}
