//! A server that a client of ours knows: its certificate is verified, and the client may show who it is.
use super::keys::{own, roots, roots_of_host};
use super::{BadKeys, CallersClock, Clock, cause, provider};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// By what a server is known, and by what the client is known to it.
pub struct TlsTrust<'a> {
    /// The authorities of which one has signed the server's certificate, in PEM. Those of the system do not count.
    pub ca_pem: &'a [u8],
    /// The name or address in the server's certificate. None: the host that is connected to.
    pub server_name: Option<&'a str>,
    /// The client's own chain and key, in PEM.
    pub certificate: Option<(&'a [u8], &'a [u8])>,
    /// A file with a bearer token. It is read for each request, so that a token that was renewed counts at once.
    pub token_file: Option<PathBuf>,
    /// Judges the dates of the server's certificate.
    pub clock: Clock,
}

/// Where a verified server listens.
#[derive(Clone)]
pub struct TlsTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) token_file: Option<PathBuf>,
    server_name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl TlsTarget {
    pub fn new(host: &str, port: u16, trust: TlsTrust<'_>) -> Result<TlsTarget, BadKeys> {
        let roots = roots(trust.ca_pem, "authorities of the server")?;
        TlsTarget::with_roots(host, port, roots, trust)
    }

    /// A server whose certificate is signed by one of the authorities that a host trusts.
    pub(crate) fn of_host(host: &str, port: u16, pem: &[u8], clock: Clock) -> Result<TlsTarget, BadKeys> {
        let trust = TlsTrust { ca_pem: pem, server_name: None, certificate: None, token_file: None, clock };
        TlsTarget::with_roots(host, port, roots_of_host(pem)?, trust)
    }

    fn with_roots(host: &str, port: u16, roots: RootCertStore, trust: TlsTrust<'_>) -> Result<TlsTarget, BadKeys> {
        let name = trust.server_name.unwrap_or(host).trim_matches(['[', ']']).to_owned();
        let server_name = ServerName::try_from(name.clone())
            .map_err(|_| BadKeys(format!("{name:?} is neither a name nor an address of a server")))?;
        let versions = ClientConfig::builder_with_details(provider(), Arc::new(CallersClock(trust.clock)))
            .with_safe_default_protocol_versions()
            .map_err(|error| BadKeys(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match trust.certificate {
            None => versions.with_no_client_auth(),
            Some((chain_pem, key_pem)) => {
                let (chain, key) = own(chain_pem, key_pem)?;
                versions
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| BadKeys(format!("certificate and key: {error}")))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        let (host, token_file) = (host.to_owned(), trust.token_file);
        Ok(TlsTarget { host, port, token_file, server_name, config: Arc::new(config) })
    }

    pub(crate) async fn open(&self, wire: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let opened = Box::pin(TlsConnector::from(self.config.clone()).connect(self.server_name.clone(), wire)).await;
        opened.map_err(|error| match cause(&error) {
            Some(why) => io::Error::new(error.kind(), format!("tls: {why}")),
            None => error,
        })
    }
}

impl PartialEq for TlsTarget {
    /// The same server, asked by the same client.
    fn eq(&self, other: &TlsTarget) -> bool {
        (&self.host, self.port, &self.server_name, &self.token_file)
            == (&other.host, other.port, &other.server_name, &other.token_file)
            && Arc::ptr_eq(&self.config, &other.config)
    }
}

impl fmt::Debug for TlsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsTarget({self})")
    }
}

impl fmt::Display for TlsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}:{}", self.host, self.port)
    }
}
