//! HTTP by hand over one kept connection: a client that hides nothing from the test.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// What a list shows: by name, which of its writer's writes each object carries.
pub struct Found {
    pub revision: u64,
    pub objects: BTreeMap<String, u64>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, stream: None }
    }

    /// An error: nobody knows whether it was done.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(self.address)?),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             \r\n",
            body.len()
        );
        stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let (code, length) = read_head(&mut stream)?;
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        self.stream = Some(stream);
        Ok((code, serde_json::from_slice(&text).unwrap_or_default()))
    }

    pub fn configmaps(&mut self) -> Found {
        let (code, list) = self.call("GET", "/api/v1/namespaces/default/configmaps", "").unwrap();
        assert_eq!(code, 200, "{list}");
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let ours = list["items"].as_array().unwrap().iter().filter(|item| item["data"]["write"].is_string());
        Found { revision, objects: ours.map(whole).collect() }
    }
}

/// An object that is not whole is one that nobody wrote.
fn whole(item: &Value) -> (String, u64) {
    let data = &item["data"];
    let number = |field: &str| data[field].as_str().unwrap_or_default().parse::<u64>().unwrap_or(u64::MAX);
    let filler = data["filler"].as_str().unwrap_or_default();
    assert!(number("write") == number("again") && number("length") == filler.len() as u64, "torn: {item}");
    (item["metadata"]["name"].as_str().unwrap().to_owned(), number("write"))
}

fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, usize)> {
    let (mut code, mut length) = (0, None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            code = rest[..3].parse().unwrap();
        }
        if let Some(rest) = line.strip_prefix("content-length:") {
            length = rest.trim().parse().ok();
        }
    }
    Ok((code, length.expect("an answer that is no stream says its length")))
}
