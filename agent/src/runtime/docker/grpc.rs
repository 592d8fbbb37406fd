//! A gRPC health check (`grpc.health.v1.Health/Check`) in clear text over HTTP/2, as a kubelet makes it: one call, one
//! answer.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client;
use http::{HeaderMap, Method, Request, Version};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::check::{dial, failed, joined, passed, within};
use crate::facts::engine::CheckOutcome;
use crate::network::dns::names::Names;

/// The longest accepted answer. A health check's answer has seven bytes.
const ANSWER_BYTES_MAX: usize = 1024;
/// The limit for the headers and trailers of an answer: by default a server may send 16 MB.
const HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// What a server may send before it is read.
const WINDOW_BYTES: u32 = 16 * 1024;
/// A message begins with whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;
/// `service` of the request and `status` of the answer both have number 1.
const SERVICE: u8 = 1 << 3 | 2;
const STATUS: u8 = 1 << 3;
const SERVING: u64 = 1;
const UNIMPLEMENTED: &str = "12";

/// How the server answered.
enum Answer {
    Status(u64),
    /// The gRPC error code, and its message.
    Refused(String, String),
}

pub(super) async fn health(names: &Names, host: &str, port: u16, service: &str, at_most: Duration) -> CheckOutcome {
    let (address, begun) = (joined(host, port), Instant::now());
    let wire = match within(at_most, dial(names, host, port)).await {
        Some(Ok(wire)) => wire,
        Some(Err(error)) => {
            return failed(format!("error: failed to connect service at {address:?}: {error}"));
        }
        None => {
            return failed(format!(
                "timeout: failed to connect service {address:?} within {at_most:?}: context deadline exceeded"
            ));
        }
    };
    health_of(wire, &address, service, at_most.saturating_sub(begun.elapsed()), at_most).await
}

async fn health_of(wire: TcpStream, address: &str, service: &str, left: Duration, at_most: Duration) -> CheckOutcome {
    match within(left, ask(wire, address, service)).await {
        Some(Ok(Answer::Status(SERVING))) => passed("service healthy".to_owned()),
        Some(Ok(Answer::Status(status))) => failed(format!("service unhealthy (responded with {:?})", word(status))),
        Some(Ok(Answer::Refused(code, message))) if code == UNIMPLEMENTED => failed(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Some(Ok(Answer::Refused(code, message))) => {
            failed(format!("error: health rpc probe failed: rpc error: code = {code} desc = {message}"))
        }
        Some(Err(error)) => failed(format!("error: health rpc probe failed: {error}")),
        None => failed(format!("timeout: health rpc did not complete within {at_most:?}")),
    }
}

async fn ask(wire: TcpStream, address: &str, service: &str) -> Result<Answer, h2::Error> {
    let (client, connection) = client::Builder::new()
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .enable_push(false)
        .handshake::<_, Bytes>(wire)
        .await?;
    let call = async {
        let mut client = client.ready().await?;
        let request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(format!("http://{address}/grpc.health.v1.Health/Check"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", agent())
            .body(())
            .map_err(|_| h2::Error::from(h2::Reason::INTERNAL_ERROR))?;
        let (response, mut body) = client.send_request(request, false)?;
        body.send_data(message(service), true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut answer = BytesMut::new();
        while let Some(piece) = body.data().await {
            let piece = piece?;
            body.flow_control().release_capacity(piece.len())?;
            if answer.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(h2::Reason::ENHANCE_YOUR_CALM.into());
            }
            answer.extend_from_slice(&piece);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        Ok(refusal(&head.headers).or_else(|| refusal(&trailers)).unwrap_or_else(|| Answer::Status(status(&answer))))
    };
    // The connection moves the call on, and ends with it.
    tokio::select! {
        answer = call => answer,
        ended = connection => Err(ended.err().unwrap_or_else(|| h2::Reason::NO_ERROR.into())),
    }
}

/// As a kubelet calls itself.
fn agent() -> String {
    format!("kube-probe/1.{}", coracle_api::KUBERNETES_MINOR)
}

fn refusal(fields: &HeaderMap) -> Option<Answer> {
    let text = |name: &str| fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    fields
        .get("grpc-status")
        .filter(|code| *code != "0")
        .map(|_| Answer::Refused(text("grpc-status"), text("grpc-message")))
}

/// The request, as a message of gRPC.
fn message(service: &str) -> Bytes {
    let mut request = BytesMut::new();
    if !service.is_empty() {
        request.put_u8(SERVICE);
        put_number(&mut request, service.len());
        request.put_slice(service.as_bytes());
    }
    let mut message = BytesMut::with_capacity(HEAD_BYTES + request.len());
    message.put_u8(0);
    message.put_u32(u32::try_from(request.len()).unwrap_or(u32::MAX));
    message.extend_from_slice(&request);
    message.freeze()
}

/// Seven bits a byte, the lowest first.
fn put_number(to: &mut BytesMut, mut number: usize) {
    while number >= 0x80 {
        to.put_u8((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.put_u8(number as u8);
}

/// Zero, as protobuf has it, where none is given.
fn status(answer: &[u8]) -> u64 {
    match answer.get(HEAD_BYTES..) {
        Some([STATUS, value, ..]) => u64::from(*value),
        _ => 0,
    }
}

fn word(status: u64) -> &'static str {
    match status {
        1 => "SERVING",
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[test]
    fn messages() {
        assert_eq!(&message("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&message("a.B")[..], [0, 0, 0, 0, 5, 10, 3, b'a', b'.', b'B']);
        let long = "s".repeat(300);
        assert_eq!(&message(&long)[5..8], [10, 0xac, 2]);
        assert_eq!([status(&[]), status(&[0, 0, 0, 0, 0]), status(&[0, 0, 0, 0, 2, 8, 2])], [0, 0, 2]);
    }

    async fn asked(port: u16) -> CheckOutcome {
        let wire = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let limit = Duration::from_secs(20);
        health_of(wire, "127.0.0.1:1", "", limit, limit).await
    }

    /// Fields that go on for ever: no more of them is kept than an answer may have.
    #[tokio::test]
    async fn endless_fields_are_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let (mut wire, _) = listener.accept().await.unwrap();
            let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
                let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
                [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
            };
            // Settings; then the beginning of fields: a value of 15 MB, of which the rest is in continuations.
            wire.write_all(&frame(4, 0, 0, &[])).await.unwrap();
            let mut sent = frame(1, 0, 1, b"\x88\x00\x01a\x7f\x81\xff\xff\x06");
            let mut bytes = 0;
            // A closed connection accepts no more bytes.
            while wire.write_all(&sent).await.is_ok() {
                sent = frame(9, 0, 1, &[b'x'; 16 * 1024]);
                bytes += sent.len();
            }
            bytes
        };
        let (sent, outcome) = tokio::join!(server, asked(port));
        assert!(!outcome.passed && !outcome.output.starts_with("timeout"), "{outcome:?}");
        assert!(sent < 15 << 20, "{sent}");
    }

    /// One server of one answer.
    async fn check(answer: &'static [u8], code: &'static str, expected: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let (wire, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(wire).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                body.send_data(Bytes::from_static(answer), false).unwrap();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", code.parse().unwrap());
                trailers.insert("grpc-message", "why".parse().unwrap());
                body.send_trailers(trailers).unwrap();
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            () = server => unreachable!(),
            outcome = asked(port) => outcome,
        };
        assert_eq!((outcome.passed, outcome.output.as_str()), (expected == "service healthy", expected));
    }

    #[tokio::test]
    async fn answers() {
        check(&[0, 0, 0, 0, 2, 8, 1], "0", "service healthy").await;
        check(&[0, 0, 0, 0, 2, 8, 2], "0", "service unhealthy (responded with \"NOT_SERVING\")").await;
        check(&[], "5", "error: health rpc probe failed: rpc error: code = 5 desc = why").await;
        let without = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): why";
        check(&[], "12", without).await;
    }
}
