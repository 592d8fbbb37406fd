//! Asks the host's own resolvers, one after another.
//!
//!     resolv.conf, read for each question: a lease may have changed it -> a socket and a number of its own each
//!         -> the first that answers

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::accepts;
use crate::facts::resolv::{self, Resolver};

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Where systemd-resolved lists its upstream servers, for clients that cannot reach the loopback address of
/// systemd-resolved.
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

/// The first answer, and which server gave it. `first` is asked first. A server's error or refusal is returned only if
/// no other server answers.
pub async fn ask(
    query: &[u8],
    servers: &[SocketAddr],
    first: usize,
    tcp: bool,
    number: u16,
) -> Option<(Vec<u8>, usize)> {
    let mut query = query.to_vec();
    query.get_mut(..2)?.copy_from_slice(&number.to_be_bytes());
    let mut last = None;
    // A server alone is asked again: packets get lost.
    let rounds = servers.len().clamp(2, ASKED_MAX);
    for at in (0..rounds).filter(|_| !servers.is_empty()).map(|n| (first + n) % servers.len()) {
        let asked = match tcp {
            true => timeout(PATIENCE, over_tcp(&query, servers[at]))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
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
        let length = timeout_at(until, socket.recv(&mut reply))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
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

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;
    use tokio::task::{LocalSet, spawn_local};

    /// Asks for the address of `example.com`.
    pub const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
    /// Bytes 2 and 3 (the flags) of a whole answer, of a truncated answer, and of a server failure.
    const WHOLE: [u8; 2] = [0x81, 0x80];
    const CUT: [u8; 2] = [0x83, 0x80];
    const FAILED: [u8; 2] = [0x81, 0x82];

    /// The question again, with an address whose last number is `last`.
    pub fn reply(query: &[u8], flags: [u8; 2], last: u8) -> Vec<u8> {
        let mut reply = query.to_vec();
        reply[2..4].copy_from_slice(&flags);
        reply[7] = 1;
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
        reply
    }

    fn whole(query: &[u8], last: u8) -> Vec<u8> {
        reply(query, WHOLE, last)
    }

    /// Another question than was asked.
    fn of_another(query: &[u8]) -> Vec<u8> {
        let mut other = whole(query, 66);
        other[13] = b'E';
        other
    }

    fn of_another_number(query: &[u8]) -> Vec<u8> {
        let mut other = whole(query, 66);
        other[0] ^= 1;
        other
    }

    /// A UDP server. `says`: the packets to send for a received packet. Returns the number of received packets, too.
    pub async fn udp(mut says: impl FnMut(&[u8]) -> Vec<Vec<u8>> + 'static) -> (SocketAddr, Rc<RefCell<usize>>) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (at, came) = (socket.local_addr().unwrap(), Rc::new(RefCell::new(0)));
        let counted = came.clone();
        spawn_local(async move {
            let mut packet = vec![0; REPLY_BYTES_MAX];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                *counted.borrow_mut() += 1;
                for bytes in says(&packet[..length]) {
                    socket.send_to(&bytes, from).await.unwrap();
                }
            }
        });
        (at, came)
    }

    /// What each connection is answered, length and all.
    pub async fn tcp(at: SocketAddr, says: impl Fn(&[u8]) -> Vec<u8> + 'static) -> SocketAddr {
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let length = stream.read_u16().await.unwrap();
                let mut query = vec![0; usize::from(length)];
                stream.read_exact(&mut query).await.unwrap();
                stream.write_all(&says(&query)).await.unwrap();
            }
        });
        at
    }

    pub fn with_length(bytes: Vec<u8>) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes.as_slice()].concat()
    }

    /// An address where nobody is.
    pub async fn dead() -> SocketAddr {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
    }

    pub fn any_port() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    pub async fn locally(test: impl Future<Output = ()>) {
        LocalSet::new().run_until(test).await;
    }

    /// The last number of the address, and which server said it.
    async fn asked(servers: &[SocketAddr], first: usize, tcp: bool) -> Option<(u8, usize)> {
        let (reply, by) = ask(QUERY, servers, first, tcp, 0x4711).await?;
        assert_eq!(reply[..2], [0x47, 0x11]);
        Some((*reply.last().unwrap(), by))
    }

    #[tokio::test]
    async fn servers_that_lie_are_not_believed() {
        locally(async {
            // Each lie comes before the truth, at the same socket.
            type Lie = fn(&[u8]) -> Vec<u8>;
            let lies: [Lie; 5] = [
                of_another_number,
                of_another,
                |query| query.to_vec(),
                |query| whole(query, 66)[..13].to_vec(),
                |_| Vec::new(),
            ];
            for lie in lies {
                let (liar, _) = udp(move |query| vec![lie(query), whole(query, 1)]).await;
                assert_eq!(asked(&[liar], 0, false).await, Some((1, 0)));
                let said = tcp(any_port(), move |query| with_length(lie(query))).await;
                let honest = tcp(any_port(), |query| with_length(whole(query, 2))).await;
                assert_eq!(asked(&[said, honest], 0, true).await, Some((2, 1)), "a lie alone");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn the_next_is_asked_where_one_is_dead_or_silent() {
        locally(async {
            let (good, _) = udp(|query| vec![whole(query, 1)]).await;
            let (silent, came) = udp(|_| Vec::new()).await;
            let gone = dead().await;
            assert_eq!(asked(&[gone, good], 0, false).await, Some((1, 1)));
            assert_eq!(asked(&[gone, good], 1, false).await, Some((1, 1)), "who answered last is asked first");
            assert_eq!(asked(&[silent, good], 0, false).await, Some((1, 1)));
            assert_eq!(*came.borrow(), 1);
            assert_eq!(asked(&[gone], 0, false).await, None);
            assert_eq!(asked(&[], 0, false).await, None);
            // A packet that got lost.
            let mut first = true;
            let (lossy, _) =
                udp(move |query| if std::mem::take(&mut first) { Vec::new() } else { vec![whole(query, 3)] }).await;
            assert_eq!(asked(&[lossy], 0, false).await, Some((3, 0)));
        })
        .await;
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_is_nobodys() {
        locally(async {
            // Its answer comes when the next server has been asked.
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let slow = socket.local_addr().unwrap();
            let (next_asked, is_asked) = oneshot::channel();
            let late = spawn_local(async move {
                let mut packet = vec![0; REPLY_BYTES_MAX];
                let (length, from) = socket.recv_from(&mut packet).await.unwrap();
                let query: Vec<u8> = is_asked.await.unwrap();
                assert_eq!(query, packet[..length], "the same question");
                // The client's socket is closed, or ignores the packet.
                let _ = socket.send_to(&whole(&query, 66), from).await;
            });
            let mut sender = Some(next_asked);
            let (good, _) = udp(move |query| {
                sender.take().unwrap().send(query.to_vec()).unwrap();
                vec![whole(query, 1)]
            })
            .await;
            assert_eq!(asked(&[slow, good], 0, false).await, Some((1, 1)));
            late.await.unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn one_that_has_failed_is_believed_where_nobody_knows_better() {
        locally(async {
            let (failed, _) = udp(|query| vec![reply(query, FAILED, 9)]).await;
            let (good, _) = udp(|query| vec![whole(query, 1)]).await;
            assert_eq!(asked(&[failed, good], 0, false).await, Some((1, 1)));
            assert_eq!(asked(&[failed, dead().await], 0, false).await, Some((9, 0)));
            let (cut, _) = udp(|query| vec![reply(query, CUT, 8)]).await;
            assert_eq!(asked(&[cut, good], 0, false).await, Some((8, 0)), "the client is to ask again over TCP");
        })
        .await;
    }

    #[tokio::test]
    async fn over_tcp_the_whole_answer_is_awaited() {
        locally(async {
            let good = tcp(any_port(), |query| with_length(whole(query, 1))).await;
            assert_eq!(asked(&[good], 0, true).await, Some((1, 0)));
            let half = tcp(any_port(), |query| with_length(whole(query, 66))[..20].to_vec()).await;
            let none = tcp(any_port(), |_| Vec::new()).await;
            assert_eq!(asked(&[half, none, good], 0, true).await, Some((1, 2)));
            assert_eq!(asked(&[half, none, dead().await], 0, true).await, None);
        })
        .await;
    }
}
