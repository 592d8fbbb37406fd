//! The keys of a TLS port: each accepted connection takes those of its moment, so that they change while the port
//! serves and no connection is dropped. Effects: none; whoever has files reads them.
use super::clients::{ClientAuthorities, Signer};
use super::{CallersClock, Clock, provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// How HTTP/2 is named in a handshake.
pub(crate) const HTTP_2: &[u8] = b"h2";

/// The protocols over TLS, best first.
const PROTOCOLS: [&[u8]; 2] = [HTTP_2, b"http/1.1"];

/// The certificates and the key of a port, in PEM.
#[derive(Clone, Copy)]
pub struct KeySet<'a> {
    /// The port's own certificate, and the certificates between it and its authority.
    pub chain_pem: &'a [u8],
    pub key_pem: &'a [u8],
    /// The authorities whose clients are known. Empty: clients are not asked for certificates.
    pub client_ca_pem: &'a [u8],
    /// The authorities whose clients speak for other users. Empty: there is none.
    pub proxy_ca_pem: &'a [u8],
}

/// The keys that a port's next connections use.
pub struct TlsKeys {
    clock: Clock,
    current: RwLock<Current>,
}

/// The keys of one moment.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) config: Arc<ServerConfig>,
    pub(super) clients: Option<Arc<ClientAuthorities>>,
}

/// Why a set of keys is not taken: the part, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeys(pub String);

impl TlsKeys {
    /// The clock judges the dates of clients' certificates.
    pub fn new(keys: &KeySet<'_>, clock: Clock) -> Result<TlsKeys, BadKeys> {
        let current = RwLock::new(config(keys, &clock)?);
        Ok(TlsKeys { clock, current })
    }

    /// The next handshakes use these keys. With an error they use the keys of before.
    pub fn replace(&self, keys: &KeySet<'_>) -> Result<(), BadKeys> {
        let fresh = config(keys, &self.clock)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(crate) fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who of these authorities vouches for a chain now.
    pub(super) fn signer(&self, of: Option<&ClientAuthorities>, chain: &[CertificateDer<'_>]) -> Option<Signer> {
        of.and_then(|clients| clients.signer(chain, UnixTime::since_unix_epoch((self.clock)())))
    }

    /// Seconds since 1970.
    pub(super) fn now_s(&self) -> i64 {
        i64::try_from((self.clock)().as_secs()).unwrap_or(i64::MAX)
    }
}

fn config(keys: &KeySet<'_>, clock: &Clock) -> Result<Current, BadKeys> {
    let (chain, key) = own(keys.chain_pem, keys.key_pem)?;
    let clock = Arc::new(CallersClock(clock.clone()));
    let versions = ServerConfig::builder_with_details(provider(), clock)
        .with_safe_default_protocol_versions()
        .map_err(|error| BadKeys(error.to_string()))?;
    let clients = match keys.client_ca_pem.trim_ascii().is_empty() {
        true => None,
        false => Some(Arc::new(ClientAuthorities::new(keys.client_ca_pem, keys.proxy_ca_pem)?)),
    };
    let versions = match &clients {
        None => versions.with_no_client_auth(),
        Some(clients) => versions.with_client_cert_verifier(clients.clone()),
    };
    let mut config =
        versions.with_single_cert(chain, key).map_err(|error| BadKeys(format!("certificate and key: {error}")))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // A resumed session would skip the check of the client's certificate, and costs memory here.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Current { config: Arc::new(config), clients })
}

/// A certificate with what lies between it and its authority, and its key.
pub(super) fn own(
    chain_pem: &[u8],
    key_pem: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), BadKeys> {
    let chain = certificates(chain_pem, "certificate")?;
    // The parser's words may hold a part of the key.
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| BadKeys("key: no private key in PEM".to_owned()))?;
    Ok((chain, key))
}

/// What is wrong with certificates of authorities in PEM.
pub fn check_authorities(pem: &[u8]) -> Result<(), BadKeys> {
    roots(pem, "authorities").map(drop)
}

/// The collection of a host, where single certificates may be too odd to be read.
pub(super) fn roots_of_host(pem: &[u8]) -> Result<RootCertStore, BadKeys> {
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    match taken {
        0 => Err(BadKeys("the host trusts no authority".to_owned())),
        _ => Ok(roots),
    }
}

pub(super) fn roots(pem: &[u8], what: &str) -> Result<RootCertStore, BadKeys> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, what)? {
        roots.add(certificate).map_err(|error| BadKeys(format!("{what}: {error}")))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, BadKeys> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| BadKeys(format!("{what}: {error}")))?;
    if all.is_empty() {
        return Err(BadKeys(format!("{what}: no certificate in PEM")));
    }
    Ok(all)
}

impl fmt::Debug for TlsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKeys")
    }
}

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadKeys {}
