//! Authorities, certificates and TLS peers of the tests.
use super::wire::{Demo, Peer, patient};
use coracle_http::network::{Identify, NetworkPlane, Port, RequestSender, TlsPort};
use coracle_http::{ClientCertificate, Clock, Identity, KeySet, Limits, TlsKeys};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const H2: &[&[u8]] = &[b"h2"];
pub const H1: &[&[u8]] = &[b"http/1.1"];

/// 2026 by the clock of a port, until a test sets it.
pub const NOW_S: u64 = 1_780_000_000;

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub struct Leaf {
    pub chain_pem: String,
    pub key_pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// An authority that this one has signed.
    pub fn below(&self, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    fn leaf(&self, mut params: CertificateParams, serial: u8, usage: ExtendedKeyUsagePurpose) -> Leaf {
        params.serial_number = Some(SerialNumber::from(vec![serial]));
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf { chain_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }

    pub fn server(&self, serial: u8) -> Leaf {
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        self.leaf(params, serial, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Of a user in a group, until the end of 2030.
    pub fn client(&self, user: &str, serial: u8) -> Leaf {
        self.client_of(user, "clients", serial)
    }

    pub fn client_of(&self, user: &str, group: &str, serial: u8) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.not_after = date_time_ymd(2030, 12, 31);
        self.leaf(params, serial, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// What a test has of a secure port.
pub struct Secure {
    pub authority: Authority,
    pub keys: Arc<TlsKeys>,
    /// Serials of certificates that were withdrawn.
    pub revoked: Arc<Mutex<Vec<u8>>>,
    pub clock_s: Arc<AtomicU64>,
}

impl Secure {
    pub fn new() -> Secure {
        let authority = Authority::new("authority");
        let server = authority.server(1);
        let clock_s = Arc::new(AtomicU64::new(NOW_S));
        let read = clock_s.clone();
        let clock: Clock = Arc::new(move || Duration::from_secs(read.load(Ordering::Relaxed)));
        let client_ca = authority.pem();
        let keys = KeySet {
            chain_pem: server.chain_pem.as_bytes(),
            key_pem: server.key_pem.as_bytes(),
            client_ca_pem: client_ca.as_bytes(),
            proxy_ca_pem: b"",
        };
        let keys = Arc::new(TlsKeys::new(&keys, clock).unwrap());
        Secure { authority, keys, revoked: Arc::default(), clock_s }
    }

    pub fn port(&self, change: impl FnOnce(&mut Limits)) -> Port {
        let mut limits = Limits::EDGE;
        change(&mut limits);
        let revoked = self.revoked.clone();
        let is_revoked = move |of: &ClientCertificate| revoked.lock().unwrap().contains(&of.serial[0]);
        let tls = TlsPort { keys: self.keys.clone(), is_revoked: Arc::new(is_revoked) };
        Port::secure(limits, by_certificate(), tls)
    }

    pub fn serve(&self, demo: &Demo, change: impl FnOnce(&mut Limits)) -> NetworkPlane {
        demo.port(self.port(change))
    }

    pub fn clock(&self) -> Clock {
        Arc::new(|| Duration::from_secs(NOW_S))
    }

    /// A client that trusts this port, shows this certificate and speaks these protocols.
    pub fn config(&self, client: Option<&Leaf>, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let mut config = match client {
            None => config.with_no_client_auth(),
            Some(leaf) => {
                let chain = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    pub fn peer(&self, plane: &NetworkPlane, client: Option<&Leaf>, protocols: &[&[u8]]) -> Peer {
        tls(TcpStream::connect(plane.address).unwrap(), self.config(client, protocols))
    }
}

pub fn tls(socket: TcpStream, config: Arc<ClientConfig>) -> Peer {
    let name = ServerName::try_from("localhost").unwrap();
    Peer::Tls(Box::new(StreamOwned::new(ClientConnection::new(config, name).unwrap(), patient(socket))))
}

/// The user of the certificate, or of `Bearer NAME`, or nobody in particular.
pub fn by_certificate() -> Identify {
    Arc::new(|sender: &RequestSender<'_>| {
        let bearer = sender.headers.get("authorization").and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        let name = |of: &ClientCertificate| match of.front_proxy {
            true => format!("proxy {}", of.common_name),
            false => of.common_name.clone(),
        };
        let user = sender.certificate.map(name).or(bearer);
        let groups = sender.certificate.map(|certificate| certificate.organizations.clone()).unwrap_or_default();
        let user = user.unwrap_or_else(|| "system:anonymous".to_owned());
        Ok(Arc::new(Identity { user, groups, ..Identity::none() }))
    })
}
