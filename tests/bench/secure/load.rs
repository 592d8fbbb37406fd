//! Clients that ask again and again on connections that they keep.

use crate::process::cpu_us;
use crate::servers::PATIENCE;
use crate::tls;
use rustls::{ClientConfig, StreamOwned};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The window of the connection is opened once, for all that will come.
const WINDOW: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xfe, 0, 0];

/// One connection.
pub struct Client {
    stream: Box<dyn Stream + Send>,
    is_http2: bool,
    next: u32,
    read: Vec<u8>,
    request: Vec<u8>,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Whom to ask, and how.
#[derive(Clone)]
pub struct Way<'a> {
    pub address: SocketAddr,
    /// None: without TLS.
    pub config: Option<Arc<ClientConfig>>,
    pub is_http2: bool,
    pub path: &'a str,
}

pub struct Figures {
    pub rate: f64,
    pub median_us: f64,
    pub p99_us: f64,
    /// Of the server, for a request.
    pub cpu_us: f64,
}

/// The n-th client's own address.
pub fn address(n: usize) -> [u8; 4] {
    [127, 1, (n / 250) as u8, 1 + (n % 250) as u8]
}

impl Client {
    pub fn open(way: &Way<'_>, from: [u8; 4]) -> io::Result<Client> {
        let socket = tls::connect(way.address, from, PATIENCE)?;
        let mut stream: Box<dyn Stream + Send> = match &way.config {
            None => Box::new(socket),
            Some(config) => Box::new(StreamOwned::new(tls::session(config), socket)),
        };
        let request = match way.is_http2 {
            true => {
                stream.write_all(&[PREFACE, WINDOW].concat())?;
                // Indexed GET and https, then the path and the authority without the table.
                let path = [&[4, way.path.len() as u8], way.path.as_bytes()].concat();
                [&[0x82, 0x87][..], &path, &[1, 9], b"localhost"].concat()
            }
            false => format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", way.path).into_bytes(),
        };
        Ok(Client { stream, is_http2: way.is_http2, next: 1, read: Vec::new(), request })
    }

    pub fn ask(&mut self) -> io::Result<()> {
        if self.is_http2 { self.ask_http2() } else { self.ask_http1() }
    }

    fn more(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.read.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn ask_http1(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.request)?;
        self.read.clear();
        loop {
            self.more()?;
            let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.read[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let length: usize = length.filter(|_| head.starts_with("http/1.1 200")).ok_or_else(|| wrong(head))?;
            while self.read.len() < end + 4 + length {
                self.more()?;
            }
            return Ok(());
        }
    }

    fn ask_http2(&mut self) -> io::Result<()> {
        let stream = self.next;
        self.next += 2;
        let length = (self.request.len() as u32).to_be_bytes();
        let head = [&length[1..], &[1, 5], &stream.to_be_bytes()[..]].concat();
        self.stream.write_all(&[&head[..], &self.request].concat())?;
        let (mut at, mut is_ok) = (0, false);
        loop {
            while self.read.len() < at + 9 {
                self.more()?;
            }
            let frame = &self.read[at..at + 9];
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
            let (kind, flags) = (frame[3], frame[4]);
            let of = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
            while self.read.len() < at + 9 + length {
                self.more()?;
            }
            let payload = &self.read[at + 9..at + 9 + length];
            match kind {
                // 200 stands at 8 of HPACK's table.
                1 if of == stream => is_ok = payload.iter().take(4).any(|byte| *byte == 0x88),
                3 | 7 => return Err(wrong(format!("frame {kind}: {payload:?}"))),
                4 if flags & 1 == 0 => self.stream.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0])?,
                _ => {}
            }
            at += 9 + length;
            if of == stream && kind <= 1 && flags & 1 == 1 {
                self.read.drain(..at);
                return if is_ok { Ok(()) } else { Err(wrong(format!("stream {of} is not answered with 200"))) };
            }
        }
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// So many clients for so long.
pub fn run(way: &Way<'_>, pid: u32, clients: usize, lasts: Duration) -> Result<Figures, String> {
    let open = |n| Client::open(way, address(n)).and_then(|mut client| client.ask().map(|()| client));
    let clients: Vec<Client> = (0..clients).map(open).collect::<io::Result<_>>().map_err(|e| e.to_string())?;
    let (before, begun) = (cpu_us(pid)?, Instant::now());
    let work = |mut client: Client| {
        let mut times = Vec::new();
        while begun.elapsed() < lasts {
            let asked = Instant::now();
            client.ask().map_err(|e| e.to_string())?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        Ok::<_, String>(times)
    };
    let work = &work;
    let times: Result<Vec<Vec<f64>>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || work(client))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".into()))).collect()
    });
    let lasted = begun.elapsed().as_secs_f64();
    let cpu = (cpu_us(pid)? - before) as f64;
    let mut times = times?.concat();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let count = times.len() as f64;
    Ok(Figures { rate: count / lasted, median_us: at(0.5), p99_us: at(0.99), cpu_us: cpu / count })
}
