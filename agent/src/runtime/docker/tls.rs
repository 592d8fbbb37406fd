//! A question over TLS, as probes and hooks ask it: what the server says of itself is not verified, as a kubelet does not.
//!
//! TLS 1.3 alone. Its buffers live as long as one question.

use std::net::IpAddr;

use embedded_io_adapters::tokio_1::FromTokio;
use embedded_tls::{Aes128GcmSha256, TlsConfig, TlsConnection, TlsContext, TlsError, UnsecureProvider};
use rand_core::OsRng;
use tokio::net::TcpStream;

/// The longest record of TLS 1.3, and what goes around it: servers choose how long theirs are.
const READ_BYTES: usize = 16 * 1024 + 256;
/// A greeting has to fit, and what is longer goes in several records.
const WRITE_BYTES: usize = 4 * 1024;

/// The beginning of the answer: its first line, as far as it is not longer than `line_bytes_max`.
pub(super) async fn ask(wire: TcpStream, host: &str, request: &str, line_bytes_max: usize) -> Result<Vec<u8>, String> {
    let (mut incoming, mut outgoing) = (vec![0; READ_BYTES], vec![0; WRITE_BYTES]);
    let mut secret = TlsConnection::<_, Aes128GcmSha256>::new(FromTokio::new(wire), &mut incoming, &mut outgoing);
    let mut config = TlsConfig::new().enable_rsa_signatures();
    // Only a name is told: an address is none.
    if host.parse::<IpAddr>().is_err() {
        config = config.with_server_name(host);
    }
    let provider = UnsecureProvider::new::<Aes128GcmSha256>(OsRng);
    secret.open(TlsContext::new(&config, provider)).await.map_err(|error| words(&error))?;
    let mut left = request.as_bytes();
    while !left.is_empty() {
        let taken = secret.write(left).await.map_err(|error| words(&error))?;
        left = left.get(taken..).unwrap_or_default();
    }
    secret.flush().await.map_err(|error| words(&error))?;
    let mut line = Vec::new();
    let mut piece = [0; 256];
    while !line.contains(&b'\n') && line.len() < line_bytes_max {
        match secret.read(&mut piece).await {
            Ok(0) | Err(TlsError::ConnectionClosed) => break,
            Ok(read) => line.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) => return Err(words(&error)),
        }
    }
    Ok(line)
}

/// What is likeliest to be wrong, in words that help.
fn words(error: &TlsError) -> String {
    match error {
        TlsError::HandshakeAborted(_, alert) => format!("remote error: tls: {alert:?}; this agent speaks TLS 1.3"),
        TlsError::UnknownContentType | TlsError::InvalidRecord => "http: server gave HTTP response to HTTPS client".to_owned(),
        TlsError::InvalidSupportedVersions => "tls: the server speaks no TLS 1.3, and this agent no other".to_owned(),
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

    /// OpenSSL's own server, which takes one connection and answers it with a page. None: there is no openssl here.
    fn server(dir: &Path, key: &[&str], more: &[&str]) -> Option<(Child, u16)> {
        let quiet =
            |command: &mut Command| command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null()).status();
        let certificate = ["req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=somebody.else", "-keyout", "key", "-out", "certificate"];
        let made = quiet(Command::new("openssl").args(certificate).args(key)).ok()?;
        assert!(made.success(), "openssl req: {made}");
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert", "certificate", "-key", "key", "-www"]).args(more);
        let mut child = command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = told.filter_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.trim().parse().ok()).next();
        Some((child, port.expect("openssl says where it listens")))
    }

    async fn answer(port: u16) -> Result<String, String> {
        let wire = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "long".repeat(3000));
        let line = Box::pin(ask(wire, "127.0.0.1", &request, 1024)).await?;
        Ok(String::from_utf8_lossy(&line).lines().next().unwrap_or_default().to_owned())
    }

    #[tokio::test]
    async fn a_server_is_asked_and_not_verified() {
        let dir = std::env::temp_dir().join(format!("coracle-tls-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let elliptic = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"];
        let cases: [(&[&str], &[&str], &str); 4] = [
            (&["-newkey", "rsa:2048"], &[], "HTTP/1.0 200 ok"),
            (&elliptic, &["-num_tickets", "4"], "HTTP/1.0 200 ok"),
            // A certificate of ours is asked for, and not insisted on.
            (&elliptic, &["-verify", "1"], "HTTP/1.0 200 ok"),
            (&elliptic, &["-tls1_2"], "TLS 1.3"),
        ];
        for (key, more, expected) in cases {
            let Some((mut child, port)) = server(&dir, key, more) else {
                eprintln!("there is no openssl here: nothing is tried");
                break;
            };
            let found = answer(port).await.unwrap_or_else(|error| error);
            // It may wait for another word.
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
            tokio::io::AsyncWriteExt::write_all(&mut wire, b"HTTP/1.0 400 Bad Request\r\n\r\n").await.unwrap();
            wire
        };
        let (found, _wire) = tokio::join!(answer(port), serve);
        assert_eq!(found, Err("http: server gave HTTP response to HTTPS client".to_owned()));
    }
}
