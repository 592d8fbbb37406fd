//! How soon a master is there, and what it keeps.

use super::Ground;
use super::master::{Master, event, pod};
use super::process::{Usage, pss_kb};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const MANY: usize = 5000;
/// What a start or a burst leaves to do is done by then.
const SETTLES: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_secs(20);
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

pub fn ready(ground: &Ground) -> Result<String, String> {
    let folder = ground.path("ready");
    let mut text = String::new();
    let (mut master, mut said) = (Master::start(&folder)?, 0);
    for (pods, events) in [(0, 0), (1000, 0), (1000, 1000), (10_000, 1000)] {
        master.fill(PODS, said..pods, pod)?;
        if events > 0 && said <= 1000 && said > 0 && pods == 1000 {
            master.fill(EVENTS, 0..events, event)?;
        }
        said = pods;
        let (mut times, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            master = master.again()?;
            times.push(master.ready_ms);
            cpu.push(Usage::of(master.pid())?.cpu_ms as f64);
        }
        let begun = Instant::now();
        let bytes = read_all(&folder.join("data/objects"))?;
        let (ms, raw) = (median(times), begun.elapsed().as_secs_f64() * 1e3);
        text += &format!(
            "  {pods:>5} pods, {events:>4} events: {ms:6.1} ms, {:4.0} ms of CPU; {:.1} x a raw read of the files ({} kB, {raw:.1} ms)\n",
            median(cpu),
            ms / raw,
            bytes >> 10
        );
    }
    master.stop()?;
    ground.remove(&folder);
    Ok(text)
}

pub fn memory(ground: &Ground) -> Result<String, String> {
    let folder = ground.path("memory");
    let master = Master::start(&folder)?;
    std::thread::sleep(SETTLES);
    let idle = pss_kb(master.pid())?;
    let before = Usage::of(master.pid())?;
    std::thread::sleep(QUIET);
    let after = Usage::of(master.pid())?;
    let quiet = format!(
        "  at rest {idle} kB; in {} s {} ms of CPU, {} wake-ups, {} bytes written\n",
        QUIET.as_secs(),
        after.cpu_ms.saturating_sub(before.cpu_ms),
        after.wakes.saturating_sub(before.wakes),
        after.written - before.written
    );
    master.fill(PODS, 0..MANY, pod)?;
    std::thread::sleep(SETTLES);
    let written = pss_kb(master.pid())?;
    let json = master.client(0)?.get(PODS, "application/json")?.len();
    let master = master.again()?;
    std::thread::sleep(SETTLES);
    let started = pss_kb(master.pid())?;
    master.stop()?;
    ground.remove(&folder);
    let line = |when: &str, kb: u64| {
        let grown = (kb.saturating_sub(idle) << 10) as f64;
        let over = (grown - 1.4 * json as f64) / MANY as f64;
        format!(
            "  {MANY} pods, {:.1} MB of JSON, {when}: {kb} kB = {:.2} x beside the rest; {over:.0} bytes an object over 1.4 x; aim 300: {}\n",
            json as f64 / 1e6,
            grown / json as f64,
            if over <= 300.0 { "met" } else { "NOT MET" }
        )
    };
    Ok(quiet + &line("after the writes", written) + &line("after a start", started))
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
