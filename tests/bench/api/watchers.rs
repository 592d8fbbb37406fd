//! What it costs that many watch.

use super::Ground;
use super::client::address;
use super::server::{Server, Which, pod};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

/// Each address has its share of connections.
const WATCHERS: usize = 1000;
const OF_ONE_ADDRESS: usize = 50;
const AIM_PERCENT: f64 = 10.0;
const EVERY: Duration = Duration::from_millis(100);
const EVENTS: usize = 200;
const SETTLES: Duration = Duration::from_secs(2);
/// A server that is busy with so many at once says so, and is asked again.
const AGAIN: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(30);
const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn table(ground: &Ground) -> Result<String, String> {
    // Both sides of a thousand connections, the master's by inheritance.
    coracle_http::system::granted();
    let mut text = String::new();
    for (what, query) in [("all pods", ""), ("pods of one node each, by field", "&fieldSelector=spec.nodeName=edge-1")]
    {
        let mut ours = None;
        for &which in Which::all() {
            let measured = watched(ground, which, query)?;
            let aim = if measured.share <= AIM_PERCENT { "met" } else { "NOT MET" };
            let verdict = match ours {
                None => format!("aim {AIM_PERCENT} %: {aim}"),
                Some(share) => format!("the API / this: {:.3}", share / measured.share),
            };
            ours.get_or_insert(measured.share);
            text += &format!(
                "  {}: {WATCHERS} watchers of {what}, 10 events a second: {:.1} % of a core (alone {:.1} %), {:.1} us \
                 an event and watcher; {verdict}\n  {:.1} kB a watcher; {:.1} of {WATCHERS} were told of each event\n",
                which.name(),
                measured.share,
                measured.alone,
                measured.each_us,
                measured.each_kb,
                measured.heard
            );
        }
    }
    Ok(text)
}

struct Measured {
    /// Of a core, in hundredths: while many watch, and before.
    share: f64,
    alone: f64,
    each_us: f64,
    each_kb: f64,
    heard: f64,
}

fn watched(ground: &Ground, which: Which, query: &'static str) -> Result<Measured, String> {
    let folder = ground.path("watchers");
    let server = Server::start(which, &folder)?;
    server.fill(PODS, 0..1, pod)?;
    let alone = spent(&server, &AtomicU64::new(0))?;
    let idle = server.pss_kb()?;
    let (heard, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (address, heard_total, opened) = (server.address(), heard.clone(), open.clone());
    let clients = std::thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?.block_on(async {
            for n in 0..WATCHERS {
                tokio::spawn(watch(address, n / OF_ONE_ADDRESS + 1, query, opened.clone(), heard_total.clone()));
            }
            stopped.await.map_err(|e| e.to_string())
        })
    });
    let begun = Instant::now();
    while open.load(Ordering::Relaxed) < WATCHERS as u64 {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} of {WATCHERS} watches were opened", open.load(Ordering::Relaxed)));
        }
        std::thread::sleep(AGAIN);
    }
    std::thread::sleep(SETTLES);
    let grown_kb = server.pss_kb()?.saturating_sub(idle) as f64;
    let many = spent(&server, &heard)?;
    let _ = stop.send(());
    clients.join().map_err(|_| "the watchers panicked".to_owned())??;
    server.stop()?;
    ground.remove(&folder);
    Ok(Measured {
        share: many.cpu_ms / many.ms * 100.0,
        alone: alone.cpu_ms / alone.ms * 100.0,
        each_us: (many.cpu_ms - alone.cpu_ms).max(0.0) * 1e3 / (EVENTS * WATCHERS) as f64,
        each_kb: grown_kb / WATCHERS as f64,
        heard: many.events / EVENTS as f64,
    })
}

struct Spent {
    ms: f64,
    cpu_ms: f64,
    events: f64,
}

/// So many events, one after the other at their pace.
fn spent(server: &Server, heard: &AtomicU64) -> Result<Spent, String> {
    let mut client = server.client(0)?;
    let (before, heard_before, begun) = (server.usage()?, heard.load(Ordering::Relaxed), Instant::now());
    for n in 0..EVENTS {
        let status = format!(r#"{{"status":{{"message":"{n:06}"}}}}"#);
        client.patch(&format!("{PODS}/p0/status"), "application/merge-patch+json", status.as_bytes())?;
        std::thread::sleep((EVERY * (n as u32 + 1)).saturating_sub(begun.elapsed()));
    }
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(EVERY);
    let cpu_ms = (server.usage()?.cpu_ms - before.cpu_ms) as f64;
    Ok(Spent { ms, cpu_ms, events: (heard.load(Ordering::Relaxed) - heard_before) as f64 })
}

/// Counts what it is told. It ends with the runtime.
async fn watch(
    server: SocketAddr,
    from: usize,
    query: &'static str,
    open: Arc<AtomicU64>,
    heard: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 16 << 10];
    let mut stream = loop {
        let socket = TcpSocket::new_v4()?;
        socket.bind(address(from))?;
        let mut stream = socket.connect(server).await?;
        let request = format!("GET {PODS}?watch=true{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let length = stream.read(&mut bytes).await.unwrap_or(0);
        if bytes[..length].starts_with(b"HTTP/1.1 200") {
            break stream;
        }
        tokio::time::sleep(AGAIN).await;
    };
    open.fetch_add(1, Ordering::Relaxed);
    let mark = b"\"MODIFIED\"";
    loop {
        let length = stream.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        // Events are further apart than they take: none is torn over two reads but by chance.
        let events = bytes[..length].windows(mark.len()).filter(|window| window == mark).count();
        heard.fetch_add(events as u64, Ordering::Relaxed);
    }
}
