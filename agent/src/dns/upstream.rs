//! Asks the host's own resolvers, one after another.
//!
//!     resolv.conf, read for each question: a lease may have changed it -> a socket and a number of its own each -> the first that answers

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::accepts;
use super::resolv::{self, Resolver};

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Where systemd-resolved says whom it asks itself, for those that its own loopback address is out of reach for.
const BEHIND_RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
const RESOLV_CONF_BYTES_MAX: u64 = 64 * 1024;
const PORT: u16 = 53;
/// Then the next is asked.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Clients ask again after five seconds.
const ASKED_MAX: usize = 3;
const REPLY_BYTES_MAX: usize = 4096;

/// The host's resolv.conf; empty if there is none.
pub fn of_host() -> Resolver {
    let found = read(RESOLV_CONF);
    let loopback = |server: &String| server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !found.servers.is_empty() && found.servers.iter().all(loopback) {
        let behind = read(BEHIND_RESOLVED);
        if behind.servers.iter().any(|server| !loopback(server)) {
            return Resolver { servers: behind.servers, ..found };
        }
    }
    found
}

fn read(path: &str) -> Resolver {
    let mut text = String::new();
    // What is no text, or is not there, says nothing.
    let read = fs::File::open(path).and_then(|file| file.take(RESOLV_CONF_BYTES_MAX).read_to_string(&mut text));
    read.map(|_| resolv::read(&text)).unwrap_or_default()
}

/// The resolvers to ask; never this server itself.
pub fn servers(own: IpAddr) -> Vec<SocketAddr> {
    let all = read(RESOLV_CONF).servers.into_iter().filter_map(|server| server.parse::<IpAddr>().ok());
    all.filter(|server| *server != own).map(|server| SocketAddr::new(server, PORT)).collect()
}

/// The first answer, and which server gave it. `first` is asked first. Those that have failed, or will not say, are an answer if nobody else
/// has one.
pub async fn ask(query: &[u8], servers: &[SocketAddr], first: usize, tcp: bool, number: u16) -> Option<(Vec<u8>, usize)> {
    let mut query = query.to_vec();
    query.get_mut(..2)?.copy_from_slice(&number.to_be_bytes());
    let mut last = None;
    // A server alone is asked again: packets get lost.
    let rounds = servers.len().clamp(2, ASKED_MAX);
    for at in (0..rounds).filter(|_| !servers.is_empty()).map(|n| (first + n) % servers.len()) {
        let asked = match tcp {
            true => timeout(PATIENCE, over_tcp(&query, servers[at])).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            false => over_udp(&query, servers[at]).await,
        };
        match asked {
            Ok(reply) if matches!(reply.get(3).map(|flags| flags & 0x0f), Some(2 | 5)) => last = Some((reply, at)),
            Ok(reply) => return Some((reply, at)),
            Err(error) => log::debug!("DNS server {}: {error}", servers[at]),
        }
    }
    last
}

/// A socket that only this server can answer to, from a port that the kernel chose by chance.
async fn over_udp(query: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let until = Instant::now() + PATIENCE;
    let mut reply = vec![0; REPLY_BYTES_MAX];
    loop {
        let length = timeout_at(until, socket.recv(&mut reply)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        // Whatever is no answer to this question is somebody's guess.
        if accepts(query, &reply[..length]) {
            reply.truncate(length);
            return Ok(reply);
        }
    }
}

async fn over_tcp(query: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let mut reply = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut reply).await?;
    if accepts(query, &reply) { Ok(reply) } else { Err(io::ErrorKind::InvalidData.into()) }
}
