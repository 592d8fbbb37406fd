//! Handshakes, connections at rest, and how soon a master with its keys is there.

use crate::load::{Client, Way, address};
use crate::median;
use crate::process::{cpu_us, pss_kb};
use crate::servers::{Ground, Server};
use crate::tls::{HTTP_1, HTTP_2};
use std::io;
use std::time::{Duration, Instant};

const LASTS: Duration = Duration::from_millis(1500);
const THREADS: usize = 4;
const IDLE: usize = 1000;
/// Each address has its share of connections.
const OF_ONE_ADDRESS: usize = 20;
const AIM_KB: f64 = 20.0;
const SETTLES: Duration = Duration::from_secs(2);
const STARTS: usize = 11;
const AIM_MS: f64 = 15.0;
/// A start is a burst: half a minute after it its memory has gone back.
const RESTS: Duration = Duration::from_secs(75);

fn way<'s>(ground: &Ground, server: &'s Server, protocol: &[u8]) -> Way<'s> {
    let config = Some(ground.config(Some(&ground.viewer), protocol));
    Way { address: server.secure, config, is_http2: protocol == HTTP_2, path: &server.path }
}

/// Each with one request. With a client's certificate, which the bare handler verifies, and without.
pub fn handshakes(ground: &Ground) -> Result<String, String> {
    let mut text = String::new();
    let mut ours = None;
    let (none, viewer) = (("without a client's certificate", None), ("with one", Some(&ground.viewer)));
    for (server, (what, leaf)) in [(ground.bare()?, none), (ground.nginx()?, none), (ground.bare()?, viewer)] {
        let config = Some(ground.config(leaf, HTTP_1));
        let way = Way { address: server.secure, config, is_http2: false, path: &server.path };
        let (before, begun) = (cpu_us(server.pid())?, Instant::now());
        let shake = |thread: usize| {
            let mut count = 0;
            while begun.elapsed() < LASTS {
                Client::open(&way, address(thread * 200 + count % 200)).and_then(|mut client| client.ask())?;
                count += 1;
            }
            Ok::<usize, io::Error>(count)
        };
        let shake = &shake;
        let counts: Result<Vec<usize>, String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || shake(thread))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<usize>>| {
                thread.join().map_err(|_| "a client panicked".to_owned())?.map_err(|e| e.to_string())
            };
            threads.into_iter().map(join).collect()
        });
        let count = counts?.iter().sum::<usize>() as f64;
        let rate = count / begun.elapsed().as_secs_f64();
        let cpu = (cpu_us(server.pid())? - before) as f64 / count;
        let ratio = ours.map(|ours: f64| format!("; the first / this: {:.2}", ours / rate)).unwrap_or_default();
        ours.get_or_insert(rate);
        text += &format!("  {}, {what}: {rate:.0} a second, {cpu:.0} us of CPU each{ratio}\n", server.name);
        server.stop();
    }
    Ok(text)
}

/// The limits of the port have room for a thousand as they are.
pub fn idle(ground: &Ground) -> Result<String, String> {
    let mut text = String::new();
    for (name, protocol) in ground.protocols() {
        for server in [ground.bare()?, ground.master()?, ground.nginx()?] {
            let way = way(ground, &server, protocol);
            let open = |n: usize| {
                Client::open(&way, address(n / OF_ONE_ADDRESS)).and_then(|mut client| client.ask().map(|()| client))
            };
            // What a first client makes is not a connection's.
            let first = open(0).map_err(|e| e.to_string())?;
            std::thread::sleep(SETTLES);
            let before = pss_kb(server.pid())?;
            let held: Vec<Client> = (0..IDLE).map(open).collect::<io::Result<_>>().map_err(|e| e.to_string())?;
            std::thread::sleep(SETTLES);
            let each = pss_kb(server.pid())?.saturating_sub(before) as f64 / IDLE as f64;
            let verdict = match server.name {
                "nginx" => String::new(),
                _ => format!("; aim {AIM_KB} kB: {}", if each <= AIM_KB { "met" } else { "NOT MET" }),
            };
            text += &format!("  {}, {name}: {each:.1} kB each of {IDLE}{verdict}\n", server.name);
            drop((first, held));
            server.stop();
        }
    }
    Ok(text)
}

/// From the start of the process to its first answer over TLS, with keys that are there; and its memory at rest.
pub fn ready(ground: &Ground) -> Result<String, String> {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..STARTS {
        last.take().into_iter().for_each(Server::stop);
        let begun = Instant::now();
        let server = ground.master()?;
        let client = Client::open(&way(ground, &server, HTTP_1), address(0));
        client.and_then(|mut client| client.ask()).map_err(|e| e.to_string())?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        last = Some(server);
    }
    let server = last.ok_or("it never started")?;
    std::thread::sleep(RESTS);
    let rest = pss_kb(server.pid())?;
    server.stop();
    let ms = median(times);
    let verdict = if ms <= AIM_MS { "met" } else { "NOT MET" };
    Ok(format!(
        "  {ms:.1} ms to a first answer over TLS; aim {AIM_MS} ms: {verdict}\n  at rest the master: {rest} kB PSS\n"
    ))
}
