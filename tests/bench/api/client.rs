//! A client that keeps its connection, from an address of its own: the server gives each address its share.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

const AGAIN: Duration = Duration::from_millis(5);

pub struct Client {
    stream: BufReader<TcpStream>,
}

/// The n-th client's own address.
pub fn address(n: usize) -> SocketAddr {
    let [_, _, high, low] = (n as u32).to_be_bytes();
    (Ipv4Addr::new(127, 1, high, low.max(1)), 0).into()
}

impl Client {
    pub fn connect(server: SocketAddr, from: SocketAddr) -> Result<Client, String> {
        let failed = |e: std::io::Error| format!("connect to {server}: {e}");
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(from)?;
            socket.connect(server).await?.into_std()
        });
        let stream = stream.map_err(failed)?;
        stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true)).map_err(failed)?;
        Ok(Client { stream: BufReader::with_capacity(64 << 10, stream) })
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

    fn call(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Vec<u8>, String> {
        loop {
            let (code, answer) =
                self.exchange(method, path, headers, body).map_err(|e| format!("{method} {path}: {e}"))?;
            match code {
                200..300 => return Ok(answer),
                // Too many large answers wait for their readers: the time until it is this one's turn counts.
                429 => std::thread::sleep(AGAIN),
                _ => return Err(format!("{method} {path}: {code} {}", String::from_utf8_lossy(&answer))),
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
                break;
            }
        }
        let mut answer = Vec::new();
        match length {
            Some(length) => self.read(length, &mut answer)?,
            None => while self.chunk(&mut answer)? {},
        }
        Ok((code, answer))
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
