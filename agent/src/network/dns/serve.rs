//! The server's sockets: bound where the cluster's DNS address is known, and asked by pods and by this host alone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

use super::answer::{self, AnswerFacts, Ask, Step, finish, given_back, step};
use super::cache::AnswerCache;
use super::crowd::Crowd;
use super::upstream;
use super::zone::Zone;
use crate::facts::happening::Happening;
use crate::facts::pod_cidr::PodCidr;
use crate::host::trouble::Trouble;
use crate::network::net;

const PORT: u16 = 53;
/// No question is longer.
const QUERY_BYTES_MAX: usize = 4096;
/// Questions under way to upstream servers, each over its own socket: in total, and for each client address. Further
/// questions wait.
const ASKING_MAX: usize = 256;
const ASKING_EACH_MAX: usize = 8;
/// Questions under way or waiting, some KiB each: for each client address, and in total. Further questions fail, and
/// the client asks again.
const WAITING_EACH_MAX: usize = 64;
const WAITING_MAX: usize = 1024;
/// The time limit of a waiting question: clients ask again after some seconds.
const WAIT: Duration = Duration::from_secs(4);
/// Connections at once: for each client address, and in total.
const CONNECTIONS_EACH_MAX: usize = 8;
const CONNECTIONS_MAX: usize = 128;
/// The time limit of a silent connection.
const SILENCE: Duration = Duration::from_secs(10);
/// The waits between attempts to bind the address, which another program may use for now.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The served zone, and the server's address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedZone {
    pub zone: Arc<Zone>,
    /// None: the cluster has no DNS address, or another DNS server serves the address.
    pub address: Option<IpAddr>,
}

/// A question for upstream servers, and whether the client asked over TCP.
type Question = (Vec<u8>, bool);
/// None: no result yet. Then the answer, or None if no upstream server answered.
type Told = Option<Option<Rc<[u8]>>>;

struct Server {
    names: watch::Receiver<Arc<ServedZone>>,
    address: IpAddr,
    pods: PodCidr,
    /// Whom to ask what this zone does not know.
    upstreams: Box<dyn Fn() -> Vec<SocketAddr>>,
    cache: RefCell<AnswerCache>,
    waiting: Crowd,
    asking: Semaphore,
    /// By client address.
    asking_each: RefCell<BTreeMap<IpAddr, Weak<Semaphore>>>,
    under_way: RefCell<BTreeMap<Question, watch::Receiver<Told>>>,
    chance: File,
    begun: Instant,
    /// Counts the answers: each answer begins with the next address.
    turn: Cell<usize>,
    /// The index of the resolver that answered last.
    first: Cell<usize>,
}

/// Never ends. `pods`: where this host's pods ask from.
pub async fn run(
    mut names: watch::Receiver<Arc<ServedZone>>,
    pods: PodCidr,
    (node, happenings): (String, mpsc::Sender<Happening>),
) {
    let mut trouble = Trouble::default();
    let mut retry = RETRY;
    loop {
        let address = names.borrow_and_update().address;
        let Some(at) = address else {
            if names.changed().await.is_err() {
                return;
            }
            continue;
        };
        let failed = async {
            match open(at, pods.clone(), names.clone()).await {
                Ok((server, udp, tcp)) => {
                    trouble.note(Ok(()), |_| (), || log::info!("DNS: pods are answered at {at}"));
                    retry = RETRY;
                    log::debug!("DNS: answers at {at}");
                    serve(Rc::new(server), Rc::new(udp), tcp).await
                }
                Err(why) => why,
            }
        };
        let mut heard = names.clone();
        let moved = async {
            loop {
                if heard.changed().await.is_err() || heard.borrow().address != address {
                    return;
                }
            }
        };
        tokio::select! {
            why = failed => {
                let is_bad = |why: &str| {
                    let what = format!("pods cannot be answered at {at}: {why}; it is tried again");
                    log::warn!("DNS: {what}");
                    // A queue that is full loses events, never more.
                    let _ = happenings.try_send(Happening::of_node(&node, "DNSUnavailable", what));
                };
                trouble.note(Err(why), is_bad, || ());
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
            () = moved => {}
        }
    }
}

async fn open(
    at: IpAddr,
    pods: PodCidr,
    names: watch::Receiver<Arc<ServedZone>>,
) -> Result<(Server, UdpSocket, TcpListener), String> {
    net::make_local(at).await?;
    let udp = UdpSocket::bind((at, PORT)).await.map_err(|error| format!("bind {at}:{PORT}/UDP: {error}"))?;
    let tcp = TcpListener::bind((at, PORT)).await.map_err(|error| format!("bind {at}:{PORT}/TCP: {error}"))?;
    let server = Server::new(names, at, pods, Box::new(move || upstream::servers(at)))?;
    Ok((server, udp, tcp))
}

/// Runs until a socket fails, and returns the reason.
async fn serve(server: Rc<Server>, udp: Rc<UdpSocket>, tcp: TcpListener) -> String {
    let connections = Crowd::new(CONNECTIONS_EACH_MAX, CONNECTIONS_MAX);
    let mut packet = vec![0; QUERY_BYTES_MAX];
    loop {
        tokio::select! {
            received = udp.recv_from(&mut packet) => match received {
                Ok((length, from)) => packet_came(&server, &udp, &packet[..length], from),
                // Such as that an earlier answer did not arrive.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return format!("read a packet: {error}"),
            },
            accepted = tcp.accept() => match accepted {
                Ok((stream, from)) => {
                    if server.admits(from.ip())
                        && let Some(place) = connections.enter(from.ip())
                    {
                        let server = server.clone();
                        spawn_local(async move {
                            let _place = place;
                            converse(&server, stream, from.ip()).await
                        });
                    }
                }
                Err(error) => return format!("accept a connection: {error}"),
            },
        }
    }
}

fn packet_came(server: &Rc<Server>, udp: &Rc<UdpSocket>, packet: &[u8], from: SocketAddr) {
    if !server.admits(from.ip()) {
        return;
    }
    match server.step(packet, true) {
        Step::Drop => {}
        // A queue of the kernel that is full loses packets, as networks do.
        Step::Answer(bytes) => drop(udp.try_send_to(&bytes, from)),
        Step::Ask(ask) => match server.kept(&ask) {
            Some(bytes) => drop(udp.try_send_to(&bytes, from)),
            None => {
                let (server, udp) = (server.clone(), udp.clone());
                spawn_local(async move {
                    let bytes = server.elsewhere(&ask, from.ip(), false).await;
                    let _ = udp.send_to(&bytes, from).await;
                });
            }
        },
    }
}

/// Answers the questions of a TCP connection in order. A length precedes each message.
async fn converse(server: &Server, mut stream: TcpStream, from: IpAddr) -> Option<()> {
    loop {
        let length = timeout(SILENCE, stream.read_u16()).await.ok()?.ok()?;
        let mut query = vec![0; usize::from(length).min(QUERY_BYTES_MAX)];
        timeout(SILENCE, stream.read_exact(&mut query)).await.ok()?.ok()?;
        let bytes = match server.step(&query, false) {
            Step::Drop => return None,
            Step::Answer(bytes) => bytes,
            Step::Ask(ask) => match server.kept(&ask) {
                Some(bytes) => bytes,
                None => server.elsewhere(&ask, from, true).await,
            },
        };
        let length = u16::try_from(bytes.len()).ok()?;
        timeout(SILENCE, stream.write_all(&[&length.to_be_bytes(), bytes.as_slice()].concat())).await.ok()?.ok()?;
    }
}

impl Server {
    fn new(
        names: watch::Receiver<Arc<ServedZone>>,
        address: IpAddr,
        pods: PodCidr,
        upstreams: Box<dyn Fn() -> Vec<SocketAddr>>,
    ) -> Result<Server, String> {
        Ok(Server {
            names,
            address,
            pods,
            upstreams,
            cache: RefCell::default(),
            waiting: Crowd::new(WAITING_EACH_MAX, WAITING_MAX),
            asking: Semaphore::new(ASKING_MAX),
            asking_each: RefCell::default(),
            under_way: RefCell::default(),
            chance: File::open("/dev/urandom").map_err(|error| format!("/dev/urandom: {error}"))?,
            begun: Instant::now(),
            turn: Cell::new(0),
            first: Cell::new(0),
        })
    }

    /// No host of the LAN is served: an open resolver is abused for attacks on third parties.
    fn admits(&self, from: IpAddr) -> bool {
        let of_pod = self.pods.borrow().is_some_and(|pods| pods.contains(from));
        of_pod || from.is_loopback() || from == self.address
    }

    fn step(&self, query: &[u8], udp: bool) -> Step {
        self.turn.set(self.turn.get().wrapping_add(1));
        let names = self.names.borrow();
        step(&AnswerFacts { zone: &names.zone, server: Some(self.address), turn: self.turn.get() }, query, udp)
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn kept(&self, ask: &Ask) -> Option<Vec<u8>> {
        let reply = self.cache.borrow().get(&ask.same, self.now_ms())?;
        Some(finish(ask, Some(&reply)))
    }

    /// A question under way is not sent again: many copies at once would let an attacker guess the id of an answer.
    async fn elsewhere(&self, ask: &Ask, from: IpAddr, tcp: bool) -> Vec<u8> {
        let Some(_place) = self.waiting.enter(from) else { return finish(ask, None) };
        let question = (ask.same.clone(), tcp);
        let reply = match self.heard_soon(&question) {
            Some(other) => told(other).await,
            None => {
                let own = self.places_of(from);
                let turn = async { (own.acquire().await, self.asking.acquire().await) };
                let Ok((Ok(_own), Ok(_any))) = timeout(WAIT, turn).await else { return finish(ask, None) };
                // Another client may have asked the same question meanwhile.
                if let Some(bytes) = self.kept(ask) {
                    return bytes;
                }
                match self.heard_soon(&question) {
                    Some(other) => told(other).await,
                    None => self.asked(ask, question).await,
                }
            }
        };
        finish(ask, reply.as_deref())
    }

    fn heard_soon(&self, question: &Question) -> Option<watch::Receiver<Told>> {
        self.under_way.borrow().get(question).cloned()
    }

    fn places_of(&self, who: IpAddr) -> Rc<Semaphore> {
        let mut each = self.asking_each.borrow_mut();
        if let Some(places) = each.get(&who).and_then(Weak::upgrade) {
            return places;
        }
        // Drops the entries of clients without questions under way.
        each.retain(|_, places| places.strong_count() > 0);
        let places = Rc::new(Semaphore::new(ASKING_EACH_MAX));
        each.insert(who, Rc::downgrade(&places));
        places
    }

    async fn asked(&self, ask: &Ask, question: Question) -> Option<Rc<[u8]>> {
        let (tell, heard) = watch::channel(None);
        self.under_way.borrow_mut().insert(question.clone(), heard);
        let reply = self.fetched(ask, question.1).await.map(Rc::from);
        self.under_way.borrow_mut().remove(&question);
        tell.send_replace(Some(reply.clone()));
        reply
    }

    async fn fetched(&self, ask: &Ask, tcp: bool) -> Option<Vec<u8>> {
        let servers = (self.upstreams)();
        let mut number = [0; 2];
        (&self.chance).read_exact(&mut number).ok()?;
        let number = u16::from_be_bytes(number);
        let mut asked = upstream::ask(&ask.query, &servers, self.first.get(), false, number).await;
        // The client has room for all of it, or for some where it would get nothing.
        let whole = |reply: &[u8]| answer::is_cut(reply) && (tcp || answer::says_nothing(reply));
        if asked.as_ref().is_some_and(|(reply, _)| whole(reply)) {
            let again = upstream::ask(&ask.query, &servers, self.first.get(), true, number).await;
            asked = if tcp { again } else { again.or(asked) };
        }
        let (mut reply, by) = asked?;
        self.first.set(by);
        given_back(&mut reply, &ask.query);
        self.cache.borrow_mut().keep(&ask.same, &reply, self.now_ms());
        Some(reply)
    }
}

async fn told(mut other: watch::Receiver<Told>) -> Option<Rc<[u8]>> {
    other.wait_for(Option::is_some).await.ok()?.clone()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::pod_cidr;
    use crate::network::dns::upstream::tests::{QUERY, any_port, dead, locally, reply, tcp, udp, with_length};
    use std::net::Ipv4Addr;

    const WHOLE: [u8; 2] = [0x81, 0x80];

    /// A server that asks these, at a port of the loopback for both protocols.
    async fn served(elsewhere: Vec<SocketAddr>) -> SocketAddr {
        let names = ServedZone { zone: Arc::new(Zone::new("cluster.local", &[])), address: None };
        let names = watch::channel(Arc::new(names)).1;
        let server =
            Server::new(names, Ipv4Addr::LOCALHOST.into(), pod_cidr::given(None), Box::new(move || elsewhere.clone()))
                .unwrap();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(at).await.unwrap();
        spawn_local(serve(Rc::new(server), Rc::new(udp), tcp));
        at
    }

    /// What a client with that number gets over UDP.
    async fn asked(at: SocketAddr, number: u8, query: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(at).await.unwrap();
        let mut query = query.to_vec();
        query[1] = number;
        socket.send(&query).await.unwrap();
        let mut reply = vec![0; 4096];
        let length = socket.recv(&mut reply).await.unwrap();
        reply.truncate(length);
        assert_eq!(reply[..2], [0, number], "the client's own number");
        reply
    }

    async fn asked_over_tcp(at: SocketAddr, query: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(&with_length(query.to_vec())).await.unwrap();
        let mut reply = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut reply).await.unwrap();
        reply
    }

    fn code(reply: &[u8]) -> u8 {
        reply[3] & 0x0f
    }

    #[tokio::test]
    async fn what_is_known_is_not_asked_again() {
        locally(async {
            let (upstream, came) = udp(|query| vec![reply(query, WHOLE, 1)]).await;
            let at = served(vec![upstream]).await;
            for number in 1..4 {
                assert_eq!(asked(at, number, QUERY).await.last(), Some(&1));
            }
            assert_eq!(*came.borrow(), 1);
            // No upstream server is asked for names of the zone.
            let own = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01x\x01d\x03svc\x07cluster\x05local\0\0\x01\0\x01";
            assert_eq!(code(&asked(at, 4, own).await), 3);
            assert_eq!(*came.borrow(), 1);
        })
        .await;
    }

    #[tokio::test]
    async fn a_lie_is_neither_given_back_nor_kept() {
        locally(async {
            let mut lies = true;
            let (upstream, _) = udp(move |query| {
                let mut lie = reply(query, WHOLE, 66);
                lie[0] ^= 1;
                if std::mem::take(&mut lies) { vec![lie] } else { vec![lie, reply(query, WHOLE, 1)] }
            })
            .await;
            let at = served(vec![upstream]).await;
            assert_eq!(asked(at, 1, QUERY).await.last(), Some(&1), "it was asked again");
            assert_eq!(asked(at, 2, QUERY).await.last(), Some(&1));
        })
        .await;
    }

    #[tokio::test]
    async fn where_nobody_answers_it_says_so_and_goes_on() {
        locally(async {
            let at = served(vec![dead().await, dead().await]).await;
            assert_eq!(code(&asked(at, 1, QUERY).await), 2);
            assert_eq!(code(&asked_over_tcp(at, QUERY).await), 2);
            let at = served(Vec::new()).await;
            assert_eq!(code(&asked(at, 1, QUERY).await), 2);
            // What is no question is not answered; the next one is.
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            for bytes in [&[][..], &[0], &reply(QUERY, WHOLE, 1)] {
                socket.send_to(bytes, at).await.unwrap();
            }
            assert_eq!(code(&asked(at, 2, QUERY).await), 2);
        })
        .await;
    }

    #[tokio::test]
    async fn equal_questions_are_asked_once() {
        locally(async {
            let (upstream, came) = udp(|query| vec![reply(query, WHOLE, 1)]).await;
            let at = served(vec![upstream]).await;
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let count = 40;
            for number in 0..count {
                let mut query = QUERY.to_vec();
                query[1] = number;
                query[13] = if number % 2 == 0 { b'E' } else { b'e' };
                client.send_to(&query, at).await.unwrap();
            }
            let mut numbers = std::collections::BTreeSet::new();
            let mut answer = [0; 4096];
            for _ in 0..count {
                let length = client.recv(&mut answer).await.unwrap();
                assert_eq!(answer[length - 1], 1);
                assert_eq!(answer[13], if answer[1] % 2 == 0 { b'E' } else { b'e' }, "in the client's own letters");
                numbers.insert(answer[1]);
            }
            assert_eq!((numbers.len(), *came.borrow()), (usize::from(count), 1));
        })
        .await;
    }

    /// A question with a different name for each number.
    fn question(number: u8) -> Vec<u8> {
        let mut query = QUERY.to_vec();
        (query[13], query[14]) = (b'a' + number / 16, b'a' + number % 16);
        query
    }

    #[tokio::test]
    async fn one_who_asks_much_leaves_room_for_others() {
        locally(async {
            // The upstream server stays silent for names that begin with `a` to `d`.
            let silent = |query: &[u8]| (b'a'..=b'd').contains(&query[13].to_ascii_lowercase());
            let (upstream, came) =
                udp(move |query| if silent(query) { Vec::new() } else { vec![reply(query, WHOLE, 1)] }).await;
            let at = served(vec![upstream]).await;
            let greedy = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            for number in 0..64 {
                greedy.send_to(&question(number), at).await.unwrap();
            }
            let other = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).await.unwrap();
            other.send_to(&question(100), at).await.unwrap();
            let mut answer = [0; 4096];
            let length = other.recv(&mut answer).await.unwrap();
            assert_eq!((code(&answer[..length]), answer[length - 1]), (0, 1), "another is answered meanwhile");
            assert!(*came.borrow() <= ASKING_EACH_MAX + 1, "{}", came.borrow());
            // One more of the first does not even wait.
            greedy.send_to(&question(101), at).await.unwrap();
            let length = greedy.recv(&mut answer).await.unwrap();
            assert_eq!((&answer[12..15], code(&answer[..length])), (&question(101)[12..15], 2));
        })
        .await;
    }

    #[tokio::test]
    async fn silent_connections_of_one_leave_room_for_others() {
        locally(async {
            let (upstream, _) = udp(|query| vec![reply(query, WHOLE, 1)]).await;
            let at = served(vec![upstream]).await;
            let mut held = Vec::new();
            for _ in 0..CONNECTIONS_EACH_MAX {
                held.push(TcpStream::connect(at).await.unwrap());
            }
            let mut over = TcpStream::connect(at).await.unwrap();
            assert!(matches!(over.read(&mut [0]).await, Ok(0) | Err(_)), "there is no room for it");
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
            let mut stream = socket.connect(at).await.unwrap();
            stream.write_all(&with_length(QUERY.to_vec())).await.unwrap();
            assert!(stream.read_u16().await.unwrap() > 0);
        })
        .await;
    }

    #[tokio::test]
    async fn what_was_cut_to_nothing_is_asked_whole() {
        locally(async {
            let whole = tcp(any_port(), |query| with_length(reply(query, WHOLE, 1))).await;
            let packets = UdpSocket::bind(whole).await.unwrap();
            spawn_local(async move {
                let mut packet = vec![0; 4096];
                while let Ok((length, from)) = packets.recv_from(&mut packet).await {
                    packet[2..4].copy_from_slice(&[0x83, 0x80]);
                    packets.send_to(&packet[..length], from).await.unwrap();
                }
            });
            let at = served(vec![whole]).await;
            let reply = asked(at, 1, QUERY).await;
            assert!(!answer::is_cut(&reply) && reply.last() == Some(&1), "{reply:?}");
        })
        .await;
    }

    #[tokio::test]
    async fn what_was_cut_is_asked_whole_for_who_has_room() {
        locally(async {
            let whole = tcp(any_port(), |query| with_length(reply(query, WHOLE, 1))).await;
            let packets = UdpSocket::bind(whole).await.unwrap();
            spawn_local(async move {
                let mut packet = vec![0; 4096];
                while let Ok((length, from)) = packets.recv_from(&mut packet).await {
                    packets.send_to(&reply(&packet[..length], [0x83, 0x80], 8), from).await.unwrap();
                }
            });
            let at = served(vec![whole]).await;
            let over_udp = asked(at, 1, QUERY).await;
            assert!(answer::is_cut(&over_udp), "{over_udp:?}");
            let over_tcp = asked_over_tcp(at, QUERY).await;
            assert!(!answer::is_cut(&over_tcp) && over_tcp.last() == Some(&1), "{over_tcp:?}");
        })
        .await;
    }
}
