//! A client that keeps its connection, from an address of its own: the server gives each address its share.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

const AGAIN: Duration = Duration::from_millis(5);
/// How a call ends on a connection that was closed before it.
const CLOSED: [ErrorKind; 3] = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

pub struct Client {
    server: SocketAddr,
    from: SocketAddr,
    stream: BufReader<TcpStream>,
    /// Of a watch: the line whose end has not come.
    begun: Vec<u8>,
}

/// The n-th client's own address.
pub fn address(n: usize) -> SocketAddr {
    let [_, _, high, low] = (n as u32).to_be_bytes();
    (Ipv4Addr::new(127, 1, high, low.max(1)), 0).into()
}

fn stream(server: SocketAddr, from: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(from)?;
        socket.connect(server).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

impl Client {
    pub fn connect(server: SocketAddr, from: SocketAddr) -> Result<Client, String> {
        let stream = stream(server, from).map_err(|e| format!("connect to {server}: {e}"))?;
        Ok(Client { server, from, stream, begun: Vec::new() })
    }

    pub fn get(&mut self, path: &str, accept: &str) -> Result<Vec<u8>, String> {
        self.call("GET", path, &[("Accept", accept)], b"")
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        self.call("POST", path, &[("Content-Type", "application/json")], body)
    }

    pub fn patch(&mut self, path: &str, form: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        self.call("PATCH", path, &[("Content-Type", form)], body)
    }

    /// The body of an answer that says yes.
    pub fn call(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Vec<u8>, String> {
        let mut fresh = false;
        loop {
            let (code, answer) = match self.exchange(method, path, headers, body) {
                // The server closes a connection that was idle for long.
                Err(error) if !fresh && CLOSED.contains(&error.kind()) => {
                    fresh = true;
                    self.stream =
                        stream(self.server, self.from).map_err(|e| format!("connect to {}: {e}", self.server))?;
                    continue;
                }
                exchanged => exchanged.map_err(|e| format!("{method} {path}: {e}"))?,
            };
            match code {
                200..300 => return Ok(answer),
                // Too many large answers wait for their readers: the time until it is this one's turn counts.
                429 => std::thread::sleep(AGAIN),
                _ => return Err(format!("{method} {path}: {code} {}", String::from_utf8_lossy(&answer))),
            }
        }
    }

    /// Opens a watch; `event` reads what comes of it, and nothing else can be asked here.
    pub fn watch(&mut self, path: &str) -> Result<(), String> {
        let (code, _) = self.ask("GET", path, &[], b"").map_err(|e| format!("GET {path}: {e}"))?;
        if code == 200 { Ok(()) } else { Err(format!("GET {path}: {code}")) }
    }

    /// The next line of a watch; none once it has ended.
    pub fn event(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let rest = self.begun.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.begun, rest)));
            }
            let mut begun = std::mem::take(&mut self.begun);
            let more = self.chunk(&mut begun)?;
            self.begun = begun;
            if !more {
                return Ok(None);
            }
        }
    }

    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<(u16, Vec<u8>)> {
        let (code, length) = self.ask(method, path, headers, body)?;
        let mut answer = Vec::new();
        match length {
            Some(length) => self.read(length, &mut answer)?,
            None => while self.chunk(&mut answer)? {},
        }
        Ok((code, answer))
    }

    /// The code, and how long the body is, if that is said before it.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<(u16, Option<usize>)> {
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len()).into_bytes();
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n")?;
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(body);
        self.stream.get_mut().write_all(&text)?;
        let (mut line, mut code, mut length) = (String::new(), 0, Some(0));
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(status) = line.strip_prefix("HTTP/1.1 ") {
                code = status.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            } else if line.eq_ignore_ascii_case("transfer-encoding: chunked\r\n") {
                length = None;
            } else if line == "\r\n" {
                return Ok((code, length));
            }
        }
    }

    fn read(&mut self, length: usize, into: &mut Vec<u8>) -> std::io::Result<()> {
        let had = into.len();
        into.resize(had + length, 0);
        self.stream.read_exact(&mut into[had..])
    }

    /// Whether another follows. What is not a chunk breaks the connection.
    fn chunk(&mut self, into: &mut Vec<u8>) -> std::io::Result<bool> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim_end(), 16).map_err(|_| std::io::ErrorKind::InvalidData)?;
        self.read(length, into)?;
        self.stream.read_line(&mut line)?;
        Ok(length > 0)
    }
}
