//! A client that behaves, beside those that do not: it is answered throughout, on connections that it keeps and on new
//! ones, in HTTP/1.1 and HTTP/2.

use super::subject::{PATIENCE, Subject};
use crate::tls::{self, HTTP_1, HTTP_2, Secret};
use coracle_tests::fuzz::connections::{PREFACE, SETTINGS, get, request};
use rustls::{ClientConfig, StreamOwned};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const FROM: [u8; 4] = [127, 0, 0, 2];
/// Requests on a connection before the next: the window of HTTP/2 is not opened again.
const KEPT: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

pub struct Neighbour {
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<Duration>>>,
}

impl Neighbour {
    pub fn begin(subject: &Subject) -> Neighbour {
        let over = Arc::new(AtomicBool::new(false));
        let (address, path) = (subject.address, subject.good());
        let of = |protocol| tls::config(&subject.authority, Some(&subject.leaves[0]), protocol);
        let (first, second) = (of(HTTP_1), of(HTTP_2));
        let ends = over.clone();
        Neighbour { over, thread: thread::spawn(move || ask_on(address, path, (&first, &second), &ends)) }
    }

    /// How long it waited for its answers, in words.
    pub fn end(self) -> String {
        self.over.store(true, Relaxed);
        let mut times = self.thread.join().expect("no panic").expect("who behaves is answered");
        times.sort();
        assert!(!times.is_empty());
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        format!("{} good answers, p50 {:.1} ms, p99 {:.1} ms, worst {:.1} ms", times.len(), at(0.5), at(0.99), at(1.0))
    }
}

fn ask_on(
    address: SocketAddr,
    path: &str,
    (first, second): (&Arc<ClientConfig>, &Arc<ClientConfig>),
    over: &AtomicBool,
) -> io::Result<Vec<Duration>> {
    let open = |config: &Arc<ClientConfig>| -> io::Result<Secret> {
        Ok(StreamOwned::new(tls::session(config), tls::connect(address, FROM, PATIENCE)?))
    };
    let mut times = Vec::new();
    while !over.load(Relaxed) {
        let (mut one, mut two) = (open(first)?, open(second)?);
        two.write_all(&[PREFACE, SETTINGS].concat())?;
        for at in 0..KEPT {
            let asked = Instant::now();
            one.write_all(&request("GET", path, ""))?;
            read_http1(&mut one)?;
            times.push(asked.elapsed());
            let asked = Instant::now();
            two.write_all(&get(2 * at + 1, path))?;
            read_http2(&mut two, 2 * at + 1)?;
            times.push(asked.elapsed());
            if over.load(Relaxed) {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
    Ok(times)
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// One answer with its length, and nothing behind it.
fn read_http1(stream: &mut Secret) -> io::Result<()> {
    let (mut all, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(wrong(format!("closed after {:?}", String::from_utf8_lossy(&all)))),
            count => all.extend_from_slice(&buffer[..count]),
        }
        let text = String::from_utf8_lossy(&all).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if !head.starts_with("http/1.1 200") {
            return Err(wrong(text));
        }
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
        if length.is_some_and(|length| body.len() >= length) {
            return Ok(());
        }
    }
}

/// Frames until this stream has ended with the answer 200.
fn read_http2(stream: &mut Secret, number: u32) -> io::Result<()> {
    let mut is_ok = false;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let (kind, flags, of) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        match kind {
            // Its settings are acknowledged.
            4 if flags & 1 == 0 => stream.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0])?,
            3 | 7 => return Err(wrong(format!("frame {kind} of stream {of}: {payload:?}"))),
            // 200 stands at 8 of HPACK's table, behind an update of the table's size perhaps.
            1 if of == number => is_ok = payload.iter().take(4).any(|byte| *byte == 0x88),
            _ => {}
        }
        if of == number && kind <= 1 && flags & 1 == 1 {
            return if is_ok { Ok(()) } else { Err(wrong(format!("stream {of} is not answered with 200"))) };
        }
    }
}
