//! Clients of a secure port: whom they trust, which certificate they show, from which address of this host they come.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Nothing that a test asks for takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub const HTTP_1: &[u8] = b"http/1.1";
pub const HTTP_2: &[u8] = b"h2";

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Leaf {
    pub chain: String,
    pub key: String,
}

/// A stream over TLS.
pub type Secret = StreamOwned<ClientConnection, TcpStream>;

pub fn config(authority: &str, leaf: Option<&Leaf>, protocol: &[u8]) -> Arc<ClientConfig> {
    config_of(authority, leaf, protocol, rustls::DEFAULT_VERSIONS)
}

pub fn config_of(
    authority: &str,
    leaf: Option<&Leaf>,
    protocol: &[u8],
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
    let config = config.with_root_certificates(roots);
    let mut config = match leaf {
        None => config.with_no_client_auth(),
        Some(Leaf { chain, key }) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(|one| one.expect("a certificate"));
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(chain.collect(), key).expect("a certificate and its key")
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    // Each connection shakes hands by itself, as that of a stranger does.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

pub fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(config.clone(), name).expect("a client")
}

/// From another address of this host: a server counts by address.
pub fn connect(server: SocketAddr, from: [u8; 4], patience: Duration) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&server.into())?;
    let socket: TcpStream = socket.into();
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

pub fn open(server: SocketAddr, config: &Arc<ClientConfig>, patience: Duration) -> io::Result<Secret> {
    Ok(StreamOwned::new(session(config), connect(server, [127, 0, 0, 1], patience)?))
}

/// A client that keeps its connection for as long as the server does.
pub struct Asker {
    server: SocketAddr,
    config: Arc<ClientConfig>,
    /// Fields of every request, each with its line's end.
    pub fields: String,
    stream: Option<BufReader<Secret>>,
}

impl Asker {
    pub fn new(server: SocketAddr, config: Arc<ClientConfig>, fields: String) -> Asker {
        Asker { server, config, fields, stream: None }
    }

    /// The code and the body of an answer that ends.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let (mut stream, head) = self.begin(method, path, body);
        let mut whole = Vec::new();
        let length = head.length.unwrap_or_default();
        match head.is_chunked {
            true => while chunk(&mut stream, &mut whole).expect("a chunk") {},
            false if method != "HEAD" => {
                whole.resize(length, 0);
                stream.read_exact(&mut whole).expect("the body comes");
            }
            false => {}
        }
        if !head.closes && (head.is_chunked || head.length.is_some()) {
            self.stream = Some(stream);
        }
        (head.code, whole)
    }

    /// The code of an answer that may not end, and the rest of it.
    pub fn open(&mut self, path: &str) -> (u16, BufReader<Secret>) {
        let (stream, head) = self.begin("GET", path, "");
        (head.code, stream)
    }

    fn begin(&mut self, method: &str, path: &str, body: &str) -> (BufReader<Secret>, Head) {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{}\r\n",
            body.len(),
            self.fields
        );
        let text = head + body;
        let again = self.stream.take().and_then(|mut stream| {
            stream.get_mut().write_all(text.as_bytes()).ok()?;
            Some((Head::read(&mut stream).ok()?, stream))
        });
        if let Some((head, stream)) = again {
            return (stream, head);
        }
        // The server has closed the one that was kept.
        let mut stream = BufReader::new(open(self.server, &self.config, PATIENCE).expect("it accepts"));
        stream.get_mut().write_all(text.as_bytes()).expect("the request is taken");
        let head = Head::read(&mut stream).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        (stream, head)
    }
}

struct Head {
    code: u16,
    length: Option<usize>,
    is_chunked: bool,
    closes: bool,
}

impl Head {
    fn read(stream: &mut BufReader<Secret>) -> io::Result<Head> {
        let mut head = Head { code: 0, length: None, is_chunked: false, closes: false };
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_lowercase();
            match line.split_once(": ") {
                None if line.is_empty() => return Ok(head),
                None => head.code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default(),
                Some(("content-length", value)) => head.length = value.parse().ok(),
                Some(("transfer-encoding", value)) => head.is_chunked = value == "chunked",
                Some(("connection", value)) => head.closes = value == "close",
                Some(_) => {}
            }
        }
    }
}

/// Whether another follows.
fn chunk(stream: &mut BufReader<Secret>, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
    let had = into.len();
    into.resize(had + length, 0);
    stream.read_exact(&mut into[had..])?;
    stream.read_line(&mut line)?;
    Ok(length > 0)
}
