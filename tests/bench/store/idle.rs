//! What an idle cluster writes in an hour, and a quiet one.

use super::layers::{ALL, Which};
use super::objects::{self, with_rules};
use super::writes::{Device, Ground};
use coracle_master::store::FlatStore;
use coracle_master::store::trial::Setup;
use coracle_tests::block::host::{Host, run};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The store brings its files up to date ten minutes after the first write.
const TIDY_EVERY_S: u64 = 600;
const HOUR: Duration = Duration::from_secs(3600);
const HOURS_A_YEAR: f64 = 24.0 * 365.0;
/// The first argument of a process that opens a store and rests.
const REST: &str = "rest-store";
/// It is looked at twice, so far apart. What is shown is that nothing can wake it, not that it was lucky for an hour.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// The hour's writes one after the other: what reaches the device does not depend on the time between them, but for the
/// journal of the file system, which is fairer to those who write much.
pub fn hour(host: &Host) -> Result<String, String> {
    let ground = Ground::fast(host)?;
    let mut text = format!(
        "  {} writes: 5 node leases each 10 s, 3 leaders' each 2 s, 20 events, 60 node statuses, 30 pod updates\n",
        objects::idle_hour().len()
    );
    let mut ours = None;
    for which in ALL {
        let mounted = ground.mount(host)?;
        let layer = which.open(&mounted.at)?;
        let mut known = BTreeSet::new();
        for (_, item) in objects::idle_hour() {
            if known.insert(item.key.clone()) {
                layer.put(&|| item.clone())?;
            }
        }
        layer.tidy()?;
        let before = Device::settled(&mounted)?;
        let mut tidied = 0;
        for (second, item) in objects::idle_hour() {
            if second / TIDY_EVERY_S > tidied {
                layer.tidy()?;
                tidied = second / TIDY_EVERY_S;
            }
            layer.put(&|| item.clone())?;
        }
        layer.close()?;
        let cost = Device::settled(&mounted)?.since(before);
        let bytes = cost.bytes as f64;
        let ratio = bytes / *ours.get_or_insert(bytes);
        text += &format!(
            "  {:<18}{:>9.2} MB {:>7} flushes {:>8.3} TB a year   {ratio:.1} x the store\n",
            which.name(),
            bytes / 1e6,
            cost.flushes,
            bytes * HOURS_A_YEAR / 1e12
        );
    }
    Ok(text)
}

/// An hour is not waited for (segments that are kept an hour for backups are given up at once here): no thread of a
/// store at rest has a timer that ends within it, so that nothing but a write can wake it (the weekly look at the files
/// only reads), and in the time in which it is looked at no byte reaches the device.
pub fn quiet(host: &Host) -> Result<String, String> {
    let ground = Ground::fast(host)?;
    let mounted = ground.mount(host)?;
    let layer = Which::Store.open(&mounted.at)?;
    (0..100).try_for_each(|n| layer.put(&|| objects::pod(n, 1)))?;
    layer.close()?;
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut resting = Command::new(me)
        .arg(REST)
        .arg(&mounted.at)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut line = String::new();
    if let Some(out) = resting.stdout.as_mut() {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).map_err(|e| e.to_string())?;
    }
    let pid = resting.id();
    // What an opened store has left to do is done by then, and what it has not is seen.
    std::thread::sleep(LOOK_AGAIN);
    let before = (Device::settled(&mounted)?, wakes(pid));
    std::thread::sleep(LOOK_AGAIN);
    let after = (Device::settled(&mounted)?, wakes(pid));
    let sleeping = threads(pid)?;
    drop(resting.stdin.take());
    resting.wait().map_err(|e| e.to_string())?;
    let cost = after.0.since(before.0);
    let met = cost.bytes == 0 && sleeping.iter().all(|thread| thread.timer.is_none_or(|left| left > HOUR));
    let threads: Vec<String> = sleeping.iter().map(Asleep::to_string).collect();
    Ok(format!(
        "  {} bytes, {} flushes, {} wake-ups while it was looked at; its threads: {}\n  aim: 0 bytes in a quiet hour: \
         {}\n",
        cost.bytes,
        cost.flushes,
        after.1 - before.1,
        threads.join(", "),
        if met { "met: nothing but a write can wake it within an hour" } else { "NOT MET" }
    ))
}

/// True: this process was one that rests.
pub fn child() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, word, at] = &arguments[..] else { return false };
    if word != REST {
        return false;
    }
    let setup = Setup { retained_bytes_max: 0, ..Setup::PRODUCT };
    let opened =
        with_rules(|rules| FlatStore::open_as(&Path::new(at).join("data"), None, rules, setup)).expect("a store opens");
    println!("open");
    // Until the one who looks is gone.
    std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new()).ok();
    opened.store.close().expect("a store closes");
    true
}

fn wakes(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let count = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| count(fs::read_to_string(task.path().join("status")).ok()?)).sum()
}

/// A thread that sleeps, and what is left of its timer where it has one.
struct Asleep {
    name: String,
    timer: Option<Duration>,
}

impl std::fmt::Display for Asleep {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.timer {
            None => write!(f, "{} sleeps without a timer", self.name),
            Some(left) => {
                write!(f, "{} sleeps another {:.1} hours", self.name, left.as_secs_f64() / HOUR.as_secs_f64())
            }
        }
    }
}

/// What each thread sleeps in, as the kernel says.
fn threads(pid: u32) -> Result<Vec<Asleep>, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(|e| e.to_string())?;
    let asleep = |task: &Path| -> Option<Asleep> {
        let name = fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let call = fs::read_to_string(task.join("syscall")).ok()?;
        let parts: Vec<&str> = call.split_whitespace().collect();
        // futex(address, operation, value, timeout): its number on the two processors that we build for.
        let is_futex = *parts.first()? == if cfg!(target_arch = "aarch64") { "98" } else { "202" };
        let at = u64::from_str_radix(parts.get(4)?.trim_start_matches("0x"), 16).ok()?;
        Some(Asleep { name, timer: (is_futex && at != 0).then(|| left_of(&memory, at)) })
    };
    Ok(tasks.flatten().filter_map(|task| asleep(&task.path())).collect())
}

/// What is left until the moment that a sleeper's `timespec` at this address names, by the clock that std waits by;
/// nothing where it cannot be read.
fn left_of(memory: &File, at: u64) -> Duration {
    let mut spec = [0; 16];
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    let (Ok(()), Ok(now)) = (memory.read_exact_at(&mut spec, at), now) else { return Duration::ZERO };
    let [seconds, nanoseconds] =
        [0, 8].map(|from| i64::from_ne_bytes(spec[from..from + 8].try_into().expect("eight bytes")));
    Duration::new(seconds.try_into().unwrap_or(0), nanoseconds.try_into().unwrap_or(0)).saturating_sub(now.into())
}

/// For the log of a run: which etcd and SQLite these are.
pub fn versions() -> String {
    let etcd = run(Command::new("etcd").arg("--version")).unwrap_or_default();
    format!("{}; SQLite {}", etcd.lines().next().unwrap_or_default(), rusqlite::version())
}
