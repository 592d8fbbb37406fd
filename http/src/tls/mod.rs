//! TLS of both ends, by rustls with ring's cryptography.
//!
//!     open        a client that verifies nothing: probes, and `https:` behind `proxy`, as in Kubernetes
//!     target      a client that verifies the server, and may show a certificate or a token of its own
//!     keys        a port's certificate and the authorities of its clients, which change while it serves
//!     clients     whether a client's certificate names a user, or a proxy that speaks for users
//!     standing    whether it still counts, while its connection is open

mod clients;
mod keys;
mod standing;
mod target;

pub(crate) use keys::HTTP_2;
pub use keys::{BadKeys, KeySet, TlsKeys, check_authorities};
pub use standing::Standing;
pub use target::{TlsTarget, TlsTrust};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The time since 1970 by which certificates are judged. A host whose clock is wrong may know better than its clock.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A connection whose bytes nobody on the way reads, to a server that may be anybody.
pub struct Secret(TlsStream<TcpStream>);

/// The error is in words for people.
pub async fn open(wire: TcpStream, host: &str) -> Result<Secret, String> {
    // Only a name is told: an address is none.
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.unwrap_or(ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into()));
    let config = unverified().map_err(|error| format!("tls: {error}"))?;
    let opened = Box::pin(TlsConnector::from(config).connect(name, wire)).await;
    opened.map(Secret).map_err(|error| words(&error))
}

fn unverified() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let versions = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = versions.dangerous().with_custom_certificate_verifier(Arc::new(Unverified)).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}

/// Takes every certificate, and every signature: who does not know the server learns nothing from its key.
#[derive(Debug)]
struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}

/// The clock of a caller, as rustls asks for it.
pub(crate) struct CallersClock(pub(crate) Clock);

impl fmt::Debug for CallersClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallersClock")
    }
}

impl TimeProvider for CallersClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)()))
    }
}

impl AsyncRead for Secret {
    /// Many servers end a connection without the goodbye of TLS; the answer itself says whether it is whole.
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_read(cx, buffer)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}

impl AsyncWrite for Secret {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// What rustls says of an error of a connection. None: it is none of TLS.
pub(crate) fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
}

/// The likeliest cause of a failure, in words that help.
fn words(error: &io::Error) -> String {
    match cause(error) {
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(Error::InvalidMessage(_)) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
        secret.flush().await.map_err(|error| error.to_string())?;
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
        let cases: [(&[&str], &[&str], &str); 7] = [
            (&["-newkey", "rsa:2048"], &[], "GET / HTTP/1.1 longlong"),
            (&elliptic, &["-num_tickets", "4"], "GET / HTTP/1.1 longlong"),
            // A certificate of ours is asked for, and not insisted on.
            (&elliptic, &["-verify", "1"], "GET / HTTP/1.1 longlong"),
            (&elliptic, &["-tls1_2"], "GET / HTTP/1.1 longlong"),
            (&["-newkey", "rsa:2048"], &["-tls1_2"], "GET / HTTP/1.1 longlong"),
            (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"], &[], "GET / HTTP/1.1 longlong"),
            (&elliptic, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "tls:"),
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
