//! The agent's own loop on a paused clock, with an engine in memory that loses calls, shows listings late and goes away, an agent
//! that dies at any step, people who edit, delete and kill, and a wall clock that jumps. After each history the faults end,
//! and what is there must be what is wanted: one live instance of each container and no leftovers.
//!
//! A failure prints its seed; `CORACLE_SEED=N cargo test -p coracle-tests --test it simulation` replays it alone.

mod by_hand;
mod checks;
mod history;

use coracle_agent::plan::{Rule, Rules};

/// In CI; `CORACLE_HISTORIES` asks for another number.
const HISTORIES: u64 = 6_000;
/// Each rule that is switched off must be missed within that many.
const HISTORIES_WITHOUT_A_RULE_MAX: u64 = 4_000;
/// The simulation uses both cores of a small host.
const THREADS: u64 = 2;

#[test]
fn every_history_settles() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("CORACLE_SEED") {
        Some(seed) => {
            // Alone, it tells what the agent does.
            log::set_logger(&Teller).unwrap();
            log::set_max_level(log::LevelFilter::Debug);
            seed..seed + 1
        }
        None => 0..number("CORACLE_HISTORIES").unwrap_or(HISTORIES),
    };
    let failed = first_failure(seeds, Rules::default(), THREADS);
    if let Some((seed, wrongs)) = failed {
        panic!("CORACLE_SEED={seed}\n{}", wrongs.join("\n"));
    }
}

#[test]
fn every_rule_is_missed() {
    // A rule that nobody misses is either not needed or not tested.
    let unmissed: Vec<Rule> = std::thread::scope(|scope| {
        let halves: Vec<_> = Rule::ALL
            .chunks(Rule::ALL.len().div_ceil(2))
            .map(|rules| {
                scope.spawn(|| {
                    let missed = |rule: &Rule| {
                        let rules = Rules { switched_off: Some(*rule) };
                        let found = first_failure(0..HISTORIES_WITHOUT_A_RULE_MAX, rules, 1);
                        if std::env::var_os("CORACLE_SEED").is_some() {
                            eprintln!("{rule:?}: {found:?}");
                        }
                        found.is_none()
                    };
                    rules.iter().copied().filter(missed).collect::<Vec<_>>()
                })
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert_eq!(unmissed, []);
}

/// The agent's log, with the time of the history.
struct Teller;

impl log::Log for Teller {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("coracle_agent") || metadata.target().starts_with("it::")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{:8.3} {}", history::seconds(), record.args());
        }
    }

    fn flush(&self) {}
}

/// The lowest seed that goes wrong, as far as the threads got.
fn first_failure(seeds: std::ops::Range<u64>, rules: Rules, threads: u64) -> Option<(u64, Vec<String>)> {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stop = &stop;
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads)
            .map(|lane| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    for seed in seeds.filter(|seed| seed % threads == lane || threads == 1) {
                        if stop.load(std::sync::atomic::Ordering::Relaxed) {
                            return None;
                        }
                        let wrongs = history::run(seed, rules);
                        if !wrongs.is_empty() {
                            stop.store(true, std::sync::atomic::Ordering::Relaxed);
                            return Some((seed, wrongs));
                        }
                    }
                    None
                })
            })
            .collect();
        lanes.into_iter().filter_map(|lane| lane.join().unwrap()).min_by_key(|(seed, _)| *seed)
    })
}
