//! How soon a server is there, and what it keeps.

use super::Ground;
use super::server::{Server, Which, event, pod};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
/// Of one that takes seconds.
const KUBE_ROUNDS: usize = 3;
const MANY: usize = 5000;
/// What a start or a burst leaves to do is done by then.
const SETTLES: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(20);
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

pub fn ready(ground: &Ground) -> Result<String, String> {
    let folder = ground.path("ready");
    let mut text = String::new();
    let mut master = Server::start(Which::Ours, &folder)?;
    let (mut said, mut ours) = (0, Vec::new());
    for (pods, events) in [(0, 0), (1000, 0), (1000, 1000), (10_000, 1000)] {
        master.fill(PODS, said..pods, pod)?;
        if events > 0 && said <= 1000 && said > 0 && pods == 1000 {
            master.fill(EVENTS, 0..events, event)?;
        }
        said = pods;
        let (again, ms, cpu_ms) = restarted(master, ROUNDS)?;
        master = again;
        ours.push(ms);
        let begun = Instant::now();
        let bytes = read_all(&folder.join("data/objects"))?;
        let raw = begun.elapsed().as_secs_f64() * 1e3;
        text += &format!(
            "  {pods:>5} pods, {events:>4} events: {ms:6.1} ms, {cpu_ms:4.0} ms of CPU; {:.1} x a raw read of the \
             files ({} kB, {raw:.1} ms)\n",
            ms / raw,
            bytes >> 10
        );
    }
    master.stop()?;
    ground.remove(&folder);
    for &which in &Which::all()[1..] {
        let mut server = Server::start(which, &folder)?;
        for (pods, ours) in [0, 1000].into_iter().zip(&ours) {
            server.fill(PODS, 0..pods, pod)?;
            let (again, ms, cpu_ms) = restarted(server, KUBE_ROUNDS)?;
            server = again;
            let name = which.name();
            text += &format!(
                "  {pods:>5} pods, {name}: {ms:6.1} ms, {cpu_ms:4.0} ms of CPU; the API / this: {:.4}\n",
                ours / ms
            );
        }
        server.stop()?;
        ground.remove(&folder);
    }
    Ok(text)
}

/// The last of so many starts, and what a start takes: time, and time of processors.
fn restarted(mut server: Server, rounds: usize) -> Result<(Server, f64, f64), String> {
    let (mut times, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        server = server.again()?;
        times.push(server.ready_ms);
        cpu.push(server.usage()?.cpu_ms as f64);
    }
    Ok((server, median(times), median(cpu)))
}

struct Kept {
    idle: u64,
    quiet: String,
    json: f64,
    written: u64,
    started: u64,
}

pub fn memory(ground: &Ground) -> Result<String, String> {
    let Kept { idle, quiet, json, written, started } = kept(ground, Which::Ours)?;
    let line = |when: &str, kb: u64| {
        let grown = (kb.saturating_sub(idle) << 10) as f64;
        let over = (grown - 1.4 * json) / MANY as f64;
        format!(
            "  {MANY} pods, {:.1} MB of JSON, {when}: {kb} kB = {:.2} x beside the rest; {over:.0} bytes an object \
             over 1.4 x; aim 300: {}\n",
            json / 1e6,
            grown / json,
            if over <= 300.0 { "met" } else { "NOT MET" }
        )
    };
    let mut text =
        format!("  at rest {idle} kB; {quiet}") + &line("after the writes", written) + &line("after a start", started);
    for &which in &Which::all()[1..] {
        let other = kept(ground, which)?;
        text += &format!("  {}: {}", which.name(), other.quiet);
        for (when, ours, kb) in [
            ("at rest", idle, other.idle),
            ("after the writes", written, other.written),
            ("after a start", started, other.started),
        ] {
            text += &format!("  {when}: {kb} kB; the API / this: {:.4}\n", ours as f64 / kb as f64);
        }
    }
    Ok(text)
}

fn kept(ground: &Ground, which: Which) -> Result<Kept, String> {
    let folder = ground.path("memory");
    let server = Server::start(which, &folder)?;
    std::thread::sleep(SETTLES);
    let idle = server.pss_kb()?;
    let before = server.usage()?;
    std::thread::sleep(QUIET);
    let after = server.usage()?;
    let quiet = format!(
        "in {} s at rest {} ms of CPU, {} wake-ups, {} bytes written\n",
        QUIET.as_secs(),
        after.cpu_ms.saturating_sub(before.cpu_ms),
        after.wakes.saturating_sub(before.wakes),
        after.written - before.written
    );
    server.fill(PODS, 0..MANY, pod)?;
    std::thread::sleep(SETTLES);
    let written = server.pss_kb()?;
    let json = server.client(0)?.get(PODS, "application/json")?.len() as f64;
    let server = server.again()?;
    std::thread::sleep(SETTLES);
    let started = server.pss_kb()?;
    server.stop()?;
    ground.remove(&folder);
    Ok(Kept { idle, quiet, json, written, started })
}

fn read_all(folder: &Path) -> Result<usize, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        bytes += if path.is_dir() { read_all(&path)? } else { std::fs::read(&path).map_err(failed)?.len() };
    }
    Ok(bytes)
}

pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
