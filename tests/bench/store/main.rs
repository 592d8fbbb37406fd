//! `make bench-store`: what the store promises of speed, wear and memory, in one run, as ratios to others in the same
//! run: the layer that it had before its journal, SQLite and etcd.
//!
//! Nothing is asserted of time; a row that could not be measured says so and fails the bench.

mod etcd;
mod idle;
mod layers;
mod objects;
#[allow(dead_code)]
#[path = "../process.rs"]
mod process;
mod reads;
mod writes;

use coracle_tests::block::card::serve_if_asked;
use coracle_tests::block::host::Host;
use layers::Which;
use std::process::ExitCode;
use std::time::Duration;
use writes::{Figures, Ground, WRITERS};

const MEMORY_MB: u64 = 4096;
/// Long enough that many writers meet files that are brought up to the journal, more than once.
const FAST: Duration = Duration::from_secs(6);
/// A disk that others use as well differs by two from one moment to the next.
const FAST_ROUNDS: usize = 3;
const SLOW: Duration = Duration::from_secs(4);

type Row = (&'static str, fn(&Host) -> Result<String, String>);

const ROWS: &[Row] = &[
    ("writes, a fast disk", fast),
    ("writes, a slow card (a model)", card),
    ("starting, memory", reads::starts),
    ("a cold start on the card", reads::cold),
    ("reading 10,000 objects", reads::list),
    ("telling 1,000 watchers", reads::fan_out),
    ("an idle hour of five nodes", idle::hour),
    ("a quiet hour", idle::quiet),
];

fn main() -> ExitCode {
    if serve_if_asked() || reads::child() || idle::child() {
        return ExitCode::SUCCESS;
    }
    let host = match Host::enter(MEMORY_MB) {
        Ok(host) => host,
        Err(why) => {
            eprintln!("bench: {why}; run `make bench-store`");
            return ExitCode::FAILURE;
        }
    };
    println!("against {}\n", idle::versions());
    // `make bench-store ROWS=card` measures what has the word in its name.
    let wanted = std::env::var("ROWS").unwrap_or_default();
    let mut failed = 0;
    for (name, measure) in ROWS.iter().filter(|(name, _)| name.contains(&wanted)) {
        match measure(&host) {
            Ok(text) => println!("{name}\n{text}"),
            Err(why) => {
                println!("{name}: NOT MEASURED: {why}\n");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fast(host: &Host) -> Result<String, String> {
    let ground = Ground::fast(host)?;
    let rows = writes::table(host, &ground, FAST, FAST_ROUNDS)?;
    let block = writes::block(host, &ground, FAST, FAST_ROUNDS)?;
    let faster =
        aim("durable writes at least 4 x etcd's", &rows, Which::Etcd, |store, etcd| store.rate / etcd.rate, 4.0);
    Ok(written(&rows) + &bound(&rows, &block) + &faster + &fewer_bytes(&rows))
}

fn card(host: &Host) -> Result<String, String> {
    let rows = writes::table(host, &Ground::card(host)?, SLOW, 1)?;
    let faster =
        aim("durable writes at least 1.5 x etcd's", &rows, Which::Etcd, |store, etcd| store.rate / etcd.rate, 1.5);
    let shorter = aim(
        "a commit shorter than a file an object's",
        &rows,
        Which::Files,
        |store, files| files.median_ms / store.median_ms,
        1.0,
    );
    Ok(written(&rows) + &faster + &shorter + &fewer_bytes(&rows))
}

/// What this host's disk and processors leave to whoever makes writes durable, beside etcd: to one writer the sync of a
/// block, to many a log alone. Where that is less than the aim, no store can meet it here.
fn bound(rows: &[(Which, Vec<Figures>)], block: &Figures) -> String {
    let to_etcd = |which| ratios(rows, which, Which::Etcd, |one, etcd| one.rate / etcd.rate);
    let block = rows.iter().find(|(which, _)| *which == Which::Etcd).map(|(_, cells)| block.rate / cells[0].rate);
    let cells: Vec<String> = WRITERS
        .iter()
        .zip(to_etcd(Which::Store).zip(block.into_iter().chain(to_etcd(Which::Log).skip(1))))
        .map(|(writers, (store, most))| format!("{writers} writers x {store:.1} of x {most:.1}"))
        .collect();
    format!(
        "  writes a second to etcd's, of what can be had (one writer: a block and its sync; many: a log alone, which \
         neither checks nor keeps anything): {}\n",
        cells.join("; ")
    )
}

fn fewer_bytes(rows: &[(Which, Vec<Figures>)]) -> String {
    let fewer = |what: &str, other, times| aim(what, rows, other, |store, other| other.bytes / store.bytes, times);
    fewer("fewer device bytes than etcd", Which::Etcd, 1.0)
        + &fewer("fewer device bytes than SQLite", Which::Sqlite, 1.0)
        + &fewer("at most half of the device bytes of a file an object", Which::Files, 2.0)
}

/// Whether a ratio is at least so much with every number of writers.
fn aim(
    what: &str,
    rows: &[(Which, Vec<Figures>)],
    other: Which,
    ratio: fn(&Figures, &Figures) -> f64,
    times: f64,
) -> String {
    let ratios: Vec<f64> = ratios(rows, Which::Store, other, ratio).collect();
    let said: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.1}")).collect();
    let met = ratios.iter().all(|ratio| *ratio >= times);
    format!("  aim: {what}: x {}: {}\n", said.join(", "), if met { "met" } else { "NOT MET" })
}

/// Of one system to another, for each number of writers.
fn ratios(
    rows: &[(Which, Vec<Figures>)],
    one: Which,
    other: Which,
    ratio: fn(&Figures, &Figures) -> f64,
) -> impl Iterator<Item = f64> {
    let cells =
        |of: Which| rows.iter().find(|(which, _)| *which == of).map(|(_, cells)| cells.as_slice()).unwrap_or_default();
    cells(one).iter().zip(cells(other)).map(move |(one, other)| ratio(one, other))
}

fn written(rows: &[(Which, Vec<Figures>)]) -> String {
    let mut text = format!("  {:<18}", "2 KB objects");
    for writers in WRITERS {
        text += &format!("{:>38}", format!("{writers} writers: /s, median/p99 ms, bytes"));
    }
    text.push('\n');
    for (which, cells) in rows {
        text += &format!("  {:<18}", which.name());
        for cell in cells {
            text += &format!("{:>12.0} {:>8.2}/{:<7.1}{:>9.0}", cell.rate, cell.median_ms, cell.p99_ms, cell.bytes);
        }
        let cpu: Vec<String> = cells.iter().map(|cell| format!("{:.0}", cell.cpu_us)).collect();
        text +=
            &format!("   {:.2} flushes a write of one writer; {} us CPU a write\n", cells[0].flushes, cpu.join(", "));
    }
    let store = &rows[0].1;
    for (which, cells) in &rows[1..] {
        let ratio = |of: fn(&Figures) -> f64| {
            let ratios: Vec<String> =
                store.iter().zip(cells).map(|(store, other)| format!("{:.2}", of(store) / of(other))).collect();
            ratios.join(", ")
        };
        text += &format!(
            "  store / {:<16} writes a second x {}; median x {}; p99 x {}; device bytes x {}\n",
            which.name(),
            ratio(|cell| cell.rate),
            ratio(|cell| cell.median_ms),
            ratio(|cell| cell.p99_ms),
            ratio(|cell| cell.bytes)
        );
    }
    text
}
