//! The handshake of a connection to a TLS port: the client certificate, and the version of HTTP.
//!
//! The handshake runs on the thread that does all IO of its port. A port that must not feel handshakes has another
//! thread: `start` makes a thread for each port.
use crate::tls::{TlsKeys, cause};
use crate::{ClientCertificate, Standing, tls};
use rustls::{AlertDescription, CertificateError, Error};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What Go's server says to a client that speaks no TLS.
const PLAIN: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes of a plain request that are read before it is answered: a connection that is closed with bytes unread is
/// reset, and the answer with it.
const PLAIN_BYTES: usize = 16 * 1024;

/// A connection that has shaken hands.
pub(super) struct Secured {
    pub(super) wire: TlsStream<TcpStream>,
    pub(super) http2: bool,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Unsecured {
    /// The client went before it had said anything, as a balancer does that looks whether a port is open.
    Left,
    /// It spoke HTTP without TLS.
    Plain,
    Broken(io::Error),
    /// The subject of its certificate is none.
    Subject(&'static str),
    /// Its certificate has ended during the handshake.
    Ended,
}

pub(super) async fn shake(keys: &Arc<TlsKeys>, mut socket: TcpStream) -> Result<Secured, Unsecured> {
    let mut first = [0];
    if socket.peek(&mut first).await.map_err(Unsecured::Broken)? == 0 {
        return Err(Unsecured::Left);
    }
    // A record of TLS begins with a number below all letters.
    if first[0].is_ascii_alphabetic() {
        let _ = socket.read(&mut vec![0; PLAIN_BYTES]).await;
        let _ = socket.write_all(PLAIN).await;
        let _ = socket.shutdown().await;
        return Err(Unsecured::Plain);
    }
    let current = keys.current();
    let wire = TlsAcceptor::from(current.config.clone()).accept(socket).await.map_err(Unsecured::Broken)?;
    let session = wire.get_ref().1;
    let http2 = session.alpn_protocol() == Some(tls::HTTP_2);
    let certificate = match session.peer_certificates() {
        Some(chain @ [der, ..]) => {
            let read = ClientCertificate::read(der).map_err(Unsecured::Subject)?;
            let standing = Standing::of(keys, current, chain).ok_or(Unsecured::Ended)?;
            Some(Arc::new(ClientCertificate { front_proxy: standing.is_of_proxy(), standing, ..read }))
        }
        _ => None,
    };
    Ok(Secured { wire, http2, certificate })
}

impl Unsecured {
    /// The key by which the log counts. None: it is no mistake.
    pub(super) fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Unsecured::Left => return None,
            Unsecured::Plain => "plain HTTP",
            Unsecured::Subject(_) => "client certificate's subject",
            Unsecured::Ended => "client certificate",
            Unsecured::Broken(error) => match cause(error) {
                Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
                    "client certificate's authority"
                }
                Some(Error::InvalidCertificate(_)) => "client certificate",
                Some(Error::NoApplicationProtocol) => "no common protocol",
                Some(Error::PeerIncompatible(_)) => "no common version of TLS",
                Some(Error::AlertReceived(_)) => "the client does not trust this port",
                Some(_) => "tls",
                None => "broken handshake",
            },
        })
    }
}

impl fmt::Display for Unsecured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsecured::Left => f.write_str("it left"),
            Unsecured::Plain => f.write_str("it speaks HTTP without TLS: its URL needs https://"),
            Unsecured::Subject(why) => f.write_str(why),
            Unsecured::Ended => f.write_str("its certificate has ended during the handshake"),
            Unsecured::Broken(error) => match cause(error) {
                Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
                    f.write_str("its certificate is of another authority: its kubeconfig is of another cluster")
                }
                Some(Error::InvalidCertificate(why)) => write!(f, "its certificate is not valid: {why:?}"),
                Some(Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::BadCertificate)) => {
                    f.write_str("it does not know the authority of this port: its kubeconfig is of another cluster")
                }
                Some(Error::AlertReceived(alert)) => write!(f, "it refuses this port's certificate: {alert:?}"),
                Some(why) => write!(f, "{why}"),
                None => write!(f, "{error}"),
            },
        }
    }
}
