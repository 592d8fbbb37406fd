//! Durable writes: how many, how fast, and what reaches the device for each.

use super::layers::{ALL, Layer, Which};
use super::objects::{self, KEYS};
use super::process::Usage;
use coracle_tests::block::card::{Card, Pace};
use coracle_tests::block::host::{Host, Kind, Mounted};
use coracle_tests::block::random::Random;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub const WRITERS: [usize; 3] = [1, 16, 64];
const SECTOR_BYTES: u64 = 512;
const DISK_MB: u64 = 640;

/// What a device has taken.
#[derive(Clone, Copy)]
pub struct Device {
    pub bytes: u64,
    pub flushes: u64,
}

impl Device {
    /// With everything written that the kernel still held back.
    pub fn settled(mounted: &Mounted) -> Result<Device, String> {
        let folder = File::open(&mounted.at).map_err(|e| e.to_string())?;
        nix::unistd::syncfs(&folder).map_err(|e| format!("syncfs: {e}"))?;
        let path = format!("/sys/block/{}/stat", mounted.device);
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        match fields[..] {
            [_, _, _, _, _, _, sectors, _, _, _, _, _, _, _, _, flushes, ..] => {
                Ok(Device { bytes: sectors * SECTOR_BYTES, flushes })
            }
            _ => Err(format!("{path}: {text}")),
        }
    }

    pub fn since(self, before: Device) -> Device {
        Device { bytes: self.bytes - before.bytes, flushes: self.flushes - before.flushes }
    }
}

/// Where a measurement runs, each time on a fresh file system.
pub enum Ground {
    /// A file on this host's disk.
    Fast(PathBuf),
    /// The slow card; an empty file system for it lies in the file.
    Card(PathBuf),
}

impl Ground {
    pub fn fast(host: &Host) -> Result<Ground, String> {
        let image = host.folder("fast")?.join("disk.img");
        // Written once over, so that this host's file system has nothing more to allocate while it is measured.
        let file = File::create(&image).map_err(|e| e.to_string())?;
        let mut file = std::io::BufWriter::with_capacity(1 << 20, file);
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), DISK_MB << 20), &mut file)
            .map_err(|e| format!("{}: {e}", image.display()))?;
        file.into_inner().map_err(|e| e.to_string())?.sync_all().map_err(|e| e.to_string())?;
        Ok(Ground::Fast(image))
    }

    pub fn card(host: &Host) -> Result<Ground, String> {
        let image = host.memory().join("empty.img");
        File::create(&image).and_then(|file| file.set_len(DISK_MB << 20)).map_err(|e| e.to_string())?;
        Kind::Ext4.make(&image)?;
        Ok(Ground::Card(image))
    }

    pub fn mount(&self, host: &Host) -> Result<Mounted, String> {
        let at = host.memory().join("bench");
        match self {
            Ground::Fast(image) => {
                Kind::Ext4.make(image)?;
                let mounted = Mounted::image(Kind::Ext4, image, &at)?;
                mounted.direct()?;
                Ok(mounted)
            }
            Ground::Card(image) => {
                let card = Card::start(&host.memory().join("card"), DISK_MB, Pace::CARD, None, Some(image))?;
                Mounted::made(Kind::Ext4, card, &at)
            }
        }
    }
}

/// One system with so many writers.
pub struct Figures {
    pub rate: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub bytes: f64,
    pub flushes: f64,
    /// Of the one who asks and of the one who does it together: what is left of a rate on a host that has other things
    /// to do.
    pub cpu_us: f64,
}

/// A table: a row a system, a cell for each number of writers, the middle one of an odd number of rounds.
pub fn table(
    host: &Host,
    ground: &Ground,
    duration: Duration,
    rounds: usize,
) -> Result<Vec<(Which, Vec<Figures>)>, String> {
    let mut rows: Vec<(Which, Vec<Figures>)> =
        ALL.into_iter().chain([Which::Log]).map(|which| (which, Vec::new())).collect();
    // One number of writers after the other, and all systems in each round, so that a neighbour's noise meets all
    // alike.
    for writers in WRITERS {
        let mut measured: Vec<Vec<Figures>> = rows.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for ((which, _), measured) in rows.iter().zip(&mut measured) {
                measured.push(on_fresh(host, ground, *which, writers, duration)?);
            }
        }
        for ((_, cells), measured) in rows.iter_mut().zip(measured) {
            cells.push(middle(measured));
        }
    }
    Ok(rows)
}

/// What one writer could have at most.
pub fn block(host: &Host, ground: &Ground, duration: Duration, rounds: usize) -> Result<Figures, String> {
    let measured: Result<Vec<Figures>, String> =
        (0..rounds).map(|_| on_fresh(host, ground, Which::Block, 1, duration)).collect();
    measured.map(middle)
}

/// Of an odd number.
fn middle(mut measured: Vec<Figures>) -> Figures {
    measured.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    measured.swap_remove(measured.len() / 2)
}

fn on_fresh(host: &Host, ground: &Ground, which: Which, writers: usize, duration: Duration) -> Result<Figures, String> {
    measure(which, &ground.mount(host)?, writers, duration)
        .map_err(|why| format!("{}, {writers} writers: {why}", which.name()))
}

fn fill(layer: &dyn Layer) -> Result<(), String> {
    let writers = 64;
    std::thread::scope(|scope| {
        let write = move |writer: u64| {
            (writer..layer.first()).step_by(writers).try_for_each(|n| layer.put(&|| objects::pod(n % KEYS, n)))
        };
        let threads: Vec<_> = (0..writers as u64).map(|writer| scope.spawn(move || write(writer))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())))
    })?;
    layer.tidy()
}

fn measure(which: Which, mounted: &Mounted, writers: usize, duration: Duration) -> Result<Figures, String> {
    mounted.hurry(true)?;
    let layer = which.open(&mounted.at)?;
    fill(&*layer)?;
    let before = Device::settled(mounted)?;
    mounted.hurry(false)?;
    let cpu_ms = || -> Result<u64, String> {
        let pids = [Some(std::process::id()), layer.server()];
        pids.into_iter().flatten().map(|pid| Ok(Usage::of(pid)?.cpu_ms)).sum()
    };
    let cpu_before_ms = cpu_ms()?;
    let begun = Instant::now();
    let outcomes: Vec<Result<Vec<f64>, String>> = std::thread::scope(|scope| {
        let layer = &layer;
        let write = move |writer: usize| {
            let mut random = Random::new(writer as u64);
            let mut times_ms = Vec::new();
            while begun.elapsed() < duration {
                let (key, said) = (random.below(KEYS), times_ms.len() as u64);
                let asked = Instant::now();
                layer.put(&|| objects::pod(key, said))?;
                times_ms.push(asked.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times_ms)
        };
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || write(writer))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())))
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let used_ms = cpu_ms()? - cpu_before_ms;
    layer.close()?;
    let cost = Device::settled(mounted)?.since(before);
    let mut times_ms: Vec<f64> = outcomes.into_iter().collect::<Result<Vec<_>, String>>()?.concat();
    times_ms.sort_by(f64::total_cmp);
    let count = times_ms.len() as f64;
    let at = |part: f64| times_ms.get((count * part) as usize).copied().unwrap_or_default();
    Ok(Figures {
        rate: count / seconds,
        median_ms: at(0.5),
        p99_ms: at(0.99),
        bytes: cost.bytes as f64 / count,
        flushes: cost.flushes as f64 / count,
        cpu_us: used_ms as f64 * 1e3 / count,
    })
}
