//! Hooks and probes: a command inside the container, a request or a connection to it from this host.

use std::future::Future;
use std::io;
use std::time::Duration;

use bollard::exec::{CreateExecOptions, StartExecResults};
use coracle_http::tls;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::{Check, CheckOutcome, Failure};
use super::connection::Docker;
use super::grpc;

/// The part of a command's output that a kubelet keeps.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;
/// The limit for an answer's status line, the only part that a probe reads.
const STATUS_LINE_BYTES_MAX: usize = 1024;

impl Docker {
    pub(super) async fn run_check(&self, id: &str, check: &Check, at_most: Duration) -> Result<CheckOutcome, Failure> {
        match check {
            Check::Exec { command } => self.exec(id, command, at_most).await,
            Check::Http { scheme, host, port, path, headers } => {
                Ok(http(scheme, host, *port, path, headers, at_most).await)
            }
            Check::Grpc { host, port, service } => Ok(grpc::health(host, *port, service, at_most).await),
            Check::Sleep { seconds } => {
                let asked = Duration::from_secs(*seconds);
                tokio::time::sleep(asked.min(at_most)).await;
                Ok(if asked <= at_most { passed(String::new()) } else { failed(String::new()) })
            }
            Check::Tcp { host, port } => Ok(match within(at_most, TcpStream::connect((host.as_str(), *port))).await {
                Some(Ok(_)) => passed(String::new()),
                Some(Err(error)) => failed(format!("dial tcp {host}:{port}: connect: {}", plain(&error))),
                None => failed(format!("dial tcp {host}:{port}: i/o timeout")),
            }),
        }
    }

    /// The engine cannot end a command that takes too long: it is left to itself, and the check has failed.
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
                let text = format!("command timed out: {:?} timed out after {}s", command.join(" "), at_most.as_secs());
                return Ok(failed(text));
            }
        }
        let exit_code = self.ask("inspect an exec", client.inspect_exec(&exec)).await?.exit_code;
        Ok(CheckOutcome {
            passed: exit_code == Some(0),
            exit_code,
            output: String::from_utf8_lossy(&output).into_owned(),
        })
    }
}

/// One GET, of whose answer only the status counts: 200 to 399 is well.
async fn http(
    scheme: &str,
    host: &str,
    port: u16,
    path: &str,
    headers: &[(String, String)],
    at_most: Duration,
) -> CheckOutcome {
    let secret = scheme.eq_ignore_ascii_case("https");
    let url = format!("{}://{host}:{port}{path}", if secret { "https" } else { "http" });
    let request = request(host, port, path, headers);
    let exchange = async {
        let wire = TcpStream::connect((host, port))
            .await
            .map_err(|e| format!("dial tcp {host}:{port}: connect: {}", plain(&e)))?;
        let line = if secret { ask(tls::open(wire, host).await?, &request).await } else { ask(wire, &request).await };
        let line = line.map_err(|e| plain(&e))?;
        status_code(&line).ok_or_else(|| "the answer is not HTTP".to_owned())
    };
    match within(at_most, exchange).await {
        Some(Ok(code)) if (200..400).contains(&code) => passed(String::new()),
        Some(Ok(code)) => failed(format!("HTTP probe failed with statuscode: {code}")),
        Some(Err(error)) => failed(format!("Get \"{url}\": {error}")),
        None => {
            failed(format!("Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"))
        }
    }
}

/// The first line of the answer, and perhaps more.
async fn ask(mut wire: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<Vec<u8>> {
    wire.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() < STATUS_LINE_BYTES_MAX {
        if wire.read_buf(&mut line).await? == 0 {
            break;
        }
    }
    Ok(line)
}

fn request(host: &str, port: u16, path: &str, headers: &[(String, String)]) -> String {
    // What would end a line or a field early does not belong into one.
    let clean = |text: &str| text.replace(['\r', '\n', '\0'], "");
    let path = clean(path).replace(' ', "%20");
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    let named = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut text = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in
        [("Host", format!("{host}:{port}")), ("User-Agent", "coracle-probe/1".to_owned()), ("Accept", "*/*".to_owned())]
    {
        if !named(name) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    for (name, value) in headers {
        text += &format!("{}: {}\r\n", clean(name), clean(value));
    }
    text + "\r\n"
}

fn status_code(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line.split(|byte| *byte == b'\n').next()?).ok()?;
    line.strip_prefix("HTTP/")?.split_ascii_whitespace().nth(1)?.parse().ok()
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
    CheckOutcome { passed: true, exit_code: None, output }
}

pub(super) fn failed(output: String) -> CheckOutcome {
    CheckOutcome { passed: false, exit_code: None, output }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        let check = |line: &str, code| assert_eq!(status_code(line.as_bytes()), code, "{line}");
        check("HTTP/1.1 200 OK\r\nX: y\r\n", Some(200));
        check("HTTP/1.0 404\r\n", Some(404));
        check("SSH-2.0-OpenSSH\r\n", None);
        check("HTTP/1.1 abc\r\n", None);
        check("", None);
    }

    #[test]
    fn a_header_cannot_end_its_line() {
        let text = request("10.0.0.1", 80, "/a b", &[("host".into(), "x\r\nEvil: 1".into())]);
        assert_eq!(text.lines().next(), Some("GET /a%20b HTTP/1.1"));
        assert!(text.contains("host: xEvil: 1\r\n") && !text.contains("Host: 10"), "{text}");
    }
}
