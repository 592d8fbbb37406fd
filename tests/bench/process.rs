//! What a process costs, as the kernel counts it.

use std::fs;

/// A kernel clock tick, which USER_HZ fixes at a hundredth of a second for every program.
const TICK_MS: u64 = 10;

/// Totals since the process started.
#[derive(Default)]
pub struct Usage {
    pub cpu_ms: u64,
    /// Times that a thread was put on a processor because something happened.
    pub wakes: u64,
    /// That went to a block device.
    pub written: u64,
}

impl Usage {
    pub fn of(pid: u32) -> Result<Usage, String> {
        let stat = read(pid, "stat")?;
        // The name may hold blanks; what follows its bracket does not.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |n: usize| {
            fields.get(n).and_then(|f| f.parse::<u64>().ok()).ok_or_else(|| format!("/proc/{pid}/stat: {stat}"))
        };
        Ok(Usage {
            cpu_ms: (ticks(11)? + ticks(12)?) * TICK_MS,
            wakes: wakes(pid)?,
            written: labelled(&read(pid, "io")?, "write_bytes:")?,
        })
    }
}

/// Since the process started, to the microsecond.
pub fn cpu_us(pid: u32) -> Result<i64, String> {
    let failed = |e: nix::Error| format!("the time of process {pid}: {e}");
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid as i32)).map_err(failed)?;
    Ok(nix::time::clock_gettime(clock).map(std::time::Duration::from).map_err(failed)?.as_micros() as i64)
}

/// The memory that is its own, and its share of what it shares.
pub fn pss_kb(pid: u32) -> Result<u64, String> {
    labelled(&read(pid, "smaps_rollup")?, "Pss:")
}

fn wakes(pid: u32) -> Result<u64, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| format!("/proc/{pid}/task: {e}"))?;
    let mut sum = 0;
    for thread in threads.flatten() {
        // A thread may end while it is looked at.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
        sum += labelled(&status, "\nvoluntary_ctxt_switches:")?;
    }
    Ok(sum)
}

fn labelled(text: &str, label: &str) -> Result<u64, String> {
    let rest = text.split(label).nth(1).ok_or_else(|| format!("no {label}"))?;
    rest.split_whitespace().next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("{label} has no number"))
}

fn read(pid: u32, file: &str) -> Result<String, String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(|e| format!("/proc/{pid}/{file}: {e}"))
}
