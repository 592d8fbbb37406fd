//! One request on a connection of its own: the answer whole, or the lines of a stream as they come.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nothing that is waited for takes so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Ask<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

pub struct Reply {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// All of a name, in the order they came.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// JSON as it is; of a protobuf message what it says it is; else text.
    pub fn value(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        if kind == "application/vnd.kubernetes.protobuf" {
            return envelope(&self.body).unwrap_or_else(|| "<not k8s protobuf>".into());
        }
        let json = (kind == "application/json").then(|| serde_json::from_slice(&self.body).ok()).flatten();
        json.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned().into())
    }
}

pub fn ask(address: SocketAddr, ask: &Ask) -> std::io::Result<Reply> {
    let mut stream = open(address, ask)?;
    let (code, headers) = head(&mut stream)?;
    let mut body = Vec::new();
    if chunked(&headers) {
        while let Some(chunk) = chunk(&mut stream)? {
            body.extend_from_slice(&chunk);
        }
    } else {
        stream.read_to_end(&mut body)?;
    }
    Ok(Reply { code, headers, body })
}

/// A stream that stays open.
pub struct Lines {
    stream: BufReader<TcpStream>,
    pending: Vec<u8>,
}

pub enum Next {
    Line(Vec<u8>),
    /// Nothing more until then.
    Late,
    Ended,
}

impl Lines {
    pub fn next(&mut self, until: Instant) -> std::io::Result<Next> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                return Ok(Next::Line(std::mem::replace(&mut self.pending, rest)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Next::Late);
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            match chunk(&mut self.stream) {
                Ok(Some(bytes)) => self.pending.extend_from_slice(&bytes),
                Ok(None) => return Ok(Next::Ended),
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    return Ok(Next::Late);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The answer whole when it is no stream.
pub enum Opened {
    Whole(Reply),
    Stream { code: u16, headers: Vec<(String, String)>, lines: Lines },
}

pub fn watch(address: SocketAddr, ask: &Ask) -> std::io::Result<Opened> {
    let mut stream = open(address, ask)?;
    let (code, headers) = head(&mut stream)?;
    if code == 200 && chunked(&headers) {
        return Ok(Opened::Stream { code, headers, lines: Lines { stream, pending: Vec::new() } });
    }
    let mut body = Vec::new();
    stream.read_to_end(&mut body)?;
    Ok(Opened::Whole(Reply { code, headers, body }))
}

fn open(address: SocketAddr, ask: &Ask) -> std::io::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", ask.method, ask.path);
    for (name, value) in &ask.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if ask.body.is_some() || matches!(ask.method, "POST" | "PUT" | "PATCH") {
        head.push_str(&format!("Content-Length: {}\r\n", ask.body.as_ref().map_or(0, Vec::len)));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    // A refusal may come before the whole body went, and is there to read.
    let _ = stream.write_all(ask.body.as_deref().unwrap_or_default());
    Ok(BufReader::new(stream))
}

type Headers = Vec<(String, String)>;

fn head(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, Headers)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let code = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| std::io::Error::other("no status line"))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Ok((code, headers)),
        }
    }
}

fn chunked(headers: &Headers) -> bool {
    headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("transfer-encoding") && value == "chunked")
}

fn chunk(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut size = String::new();
    stream.read_line(&mut size)?;
    let size = usize::from_str_radix(size.trim(), 16).map_err(|_| std::io::Error::other("a chunk without a size"))?;
    let mut bytes = vec![0; size + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(size);
    Ok((size > 0).then_some(bytes))
}

/// apiVersion and kind of a Kubernetes protobuf message.
fn envelope(raw: &[u8]) -> Option<Value> {
    let rest = raw.strip_prefix(b"k8s\0\x0a")?;
    let mut fields = rest.get(1..1 + usize::from(*rest.first()?))?;
    let mut out = serde_json::Map::new();
    while let [tag, size, more @ ..] = fields {
        let name = match tag {
            0x0a => "apiVersion".to_owned(),
            0x12 => "kind".to_owned(),
            other => other.to_string(),
        };
        out.insert(name, String::from_utf8_lossy(more.get(..usize::from(*size))?).into_owned().into());
        fields = &more[usize::from(*size)..];
    }
    Some(serde_json::json!({"<protobuf>": out}))
}
