//! Stands in for the images of the guestbook of 2014, which no registry has any more: `redis-master`, `redis-slave` and
//! `frontend`. The redis half speaks redis' inline commands (SET, GET, PING, SYNC) over a map in memory; the slave
//! follows its master as the original did, by the service variables of its environment.
//!
//!     frontend  GET /set?VALUE -> SET at the master's service,  GET /get -> GET at the slave's service
//!
//! And for who serves and who asks, over TCP and UDP:
//!
//!     say NAME              at port 7: each line, or datagram, is answered with NAME and the address that it came from
//!     ask tcp|udp ADDRESS   prints the answer
use std::collections::BTreeMap;
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What is stored, and the slaves that follow it.
#[derive(Default)]
struct Redis {
    values: BTreeMap<String, String>,
    slaves: Vec<TcpStream>,
}

fn main() {
    let role = env::args().nth(1).unwrap_or_default();
    let result = match role.as_str() {
        "redis-master" => serve_redis(Arc::default()),
        "redis-slave" => {
            let redis: Arc<Mutex<Redis>> = Arc::default();
            let followed = redis.clone();
            thread::spawn(move || follow(&followed));
            serve_redis(redis)
        }
        "frontend" => serve_pages(),
        "say" => say(&env::args().nth(2).unwrap_or_default()),
        "ask" => heard(&env::args().nth(2).unwrap_or_default(), &env::args().nth(3).unwrap_or_default()),
        _ => {
            eprintln!("usage: guestbook-standin redis-master|redis-slave|frontend|say NAME|ask tcp|udp ADDRESS:PORT");
            std::process::exit(2);
        }
    };
    if let Err(e) = result {
        eprintln!("{role}: {e}");
        std::process::exit(1);
    }
}

fn serve_redis(redis: Arc<Mutex<Redis>>) -> io::Result<()> {
    for client in TcpListener::bind("0.0.0.0:6379")?.incoming() {
        let (client, redis) = (client?, redis.clone());
        thread::spawn(move || converse(client, &redis));
    }
    Ok(())
}

fn converse(client: TcpStream, redis: &Mutex<Redis>) -> io::Result<()> {
    let mut out = client.try_clone()?;
    for line in BufReader::new(client).lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        let mut redis = redis.lock().expect("no thread panics while it holds the map");
        match (words.next().unwrap_or_default().to_uppercase().as_str(), words.next(), words.next()) {
            ("PING", ..) => out.write_all(b"+PONG\r\n")?,
            ("SET", Some(key), Some(value)) => {
                redis.values.insert(key.to_owned(), value.to_owned());
                let sent = format!("SET {key} {value}\r\n");
                redis.slaves.retain_mut(|slave| slave.write_all(sent.as_bytes()).is_ok());
                out.write_all(b"+OK\r\n")?;
            }
            ("GET", Some(key), _) => match redis.values.get(key) {
                Some(value) => write!(out, "${}\r\n{value}\r\n", value.len())?,
                None => out.write_all(b"$-1\r\n")?,
            },
            ("SYNC", ..) => {
                for (key, value) in &redis.values {
                    write!(out, "SET {key} {value}\r\n")?;
                }
                redis.slaves.push(out.try_clone()?);
            }
            _ => out.write_all(b"-ERR unknown command\r\n")?,
        }
    }
    Ok(())
}

/// Copies what the master has and gets, for ever; a master that is away is tried again.
fn follow(redis: &Mutex<Redis>) {
    loop {
        if let Err(e) = follow_once(redis) {
            eprintln!("master: {e}");
        }
        thread::sleep(Duration::from_millis(300));
    }
}

fn follow_once(redis: &Mutex<Redis>) -> io::Result<()> {
    let mut master = connect("REDISMASTER")?;
    master.write_all(b"SYNC\r\n")?;
    for line in BufReader::new(master).lines() {
        let line = line?;
        if let Some((key, value)) = line.strip_prefix("SET ").and_then(|pair| pair.split_once(' ')) {
            redis
                .lock()
                .expect("no thread panics while it holds the map")
                .values
                .insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(())
}

/// The address of a service, from the variables that every container is given.
fn connect(service: &str) -> io::Result<TcpStream> {
    let variable = |name: &str| {
        env::var(format!("{service}_SERVICE_{name}"))
            .map_err(|_| io::Error::other(format!("{service}_SERVICE_{name} is not set")))
    };
    TcpStream::connect((variable("HOST")?.as_str(), variable("PORT")?.parse().map_err(io::Error::other)?))
}

fn serve_pages() -> io::Result<()> {
    for client in TcpListener::bind("0.0.0.0:80")?.incoming() {
        let client = client?;
        thread::spawn(move || page(client));
    }
    Ok(())
}

fn page(mut client: TcpStream) -> io::Result<()> {
    let mut head = String::new();
    BufReader::new(client.try_clone()?).read_line(&mut head)?;
    let target = head.split(' ').nth(1).unwrap_or("/");
    let answer = match target.split_once('?') {
        Some(("/set", value)) => ask("REDISMASTER", &format!("SET message {value}\r\n"), 1),
        _ if target == "/get" => ask("REDISSLAVE", "GET message\r\n", 2),
        _ => Ok("guestbook".to_owned()),
    };
    let (code, body) = match answer {
        Ok(body) => ("200 OK", body),
        Err(e) => ("502 Bad Gateway", e.to_string()),
    };
    write!(client, "HTTP/1.0 {code}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The last of so many lines of the reply to one command.
fn ask(service: &str, command: &str, lines: usize) -> io::Result<String> {
    let mut redis = connect(service)?;
    redis.set_read_timeout(Some(Duration::from_secs(2)))?;
    redis.write_all(command.as_bytes())?;
    let mut last = String::new();
    for line in BufReader::new(redis).lines().take(lines) {
        last = line?;
        if last == "$-1" {
            break;
        }
    }
    Ok(last)
}

/// At port 7, over both.
fn say(name: &str) -> io::Result<()> {
    let (datagrams, called) = (UdpSocket::bind("0.0.0.0:7")?, name.to_owned());
    thread::spawn(move || -> io::Result<()> {
        loop {
            let (_, peer) = datagrams.recv_from(&mut [0; 512])?;
            datagrams.send_to(format!("{called} from {}\n", peer.ip()).as_bytes(), peer)?;
        }
    });
    for client in TcpListener::bind("0.0.0.0:7")?.incoming() {
        let (mut client, called) = (client?, name.to_owned());
        thread::spawn(move || -> io::Result<()> {
            let peer = client.peer_addr()?.ip();
            for line in BufReader::new(client.try_clone()?).lines() {
                line?;
                client.write_all(format!("{called} from {peer}\n").as_bytes())?;
            }
            Ok(())
        });
    }
    Ok(())
}

fn heard(protocol: &str, address: &str) -> io::Result<()> {
    let patience = Some(Duration::from_secs(2));
    let mut answer = String::new();
    if protocol == "udp" {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(patience)?;
        socket.connect(address)?;
        socket.send(b"?\n")?;
        let mut text = [0; 512];
        let length = socket.recv(&mut text)?;
        answer.push_str(&String::from_utf8_lossy(&text[..length]));
    } else {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(patience)?;
        stream.write_all(b"?\n")?;
        BufReader::new(stream).read_line(&mut answer)?;
    }
    print!("{answer}");
    Ok(())
}
