//! The agent's own loop on a paused clock, with an engine in memory that loses calls, shows listings late and goes
//! away, an agent that dies at any step, people who edit, delete and kill, and a wall clock that jumps. After each
//! history the faults end, and what is there must be what is wanted: one live instance of each container and no
//! leftovers.
//!
//! Pods have init containers and sidecars, probes and hooks that begin and cease to fail, volumes whose content
//! changes, resources that are resized, deadlines, policies of their own; hosts come under pressure. `witness` holds
//! each step against what may never be, `checks` what there is in the end against what was asked for. A rule of the
//! plan that is switched off is missed by one of the two.
//!
//!     CORACLE_SEED=17                  this history alone, told
//!     CORACLE_HISTORIES=5000           so many
//!     CORACLE_WITHOUT=SidecarsEndLast  this rule is switched off

mod beside;
mod by_hand;
mod checks;
mod deeds;
mod history;
mod pods;
mod theme;
mod witness;

use coracle_agent::plan::{Rule, Rules};

/// In CI; `CORACLE_HISTORIES` asks for another number.
const HISTORIES: u64 = 1_000;
/// Each rule that is switched off must be missed within that many.
const HISTORIES_WITHOUT_A_RULE_MAX: u64 = 400;
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
    let without = std::env::var("CORACLE_WITHOUT").ok();
    let switched_off =
        Rule::ALL.into_iter().find(|rule| without.as_ref().is_some_and(|name| *name == format!("{rule:?}")));
    let failed = first_failure(seeds, Rules { switched_off }, THREADS);
    if let Some((seed, wrongs)) = failed {
        panic!("CORACLE_SEED={seed}\n{}", wrongs.join("\n"));
    }
}

#[test]
fn every_rule_is_missed() {
    // A rule that nobody misses is either not needed or not tested.
    // Which of the dead containers go first where the disk is short is seen by the table of `plan::tests` alone.
    let next = std::sync::Mutex::new(Rule::ALL.iter().filter(|rule| **rule != Rule::StrainFreesDead));
    let unmissed = std::sync::Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(rule) = next.lock().unwrap().next().copied() else { return };
            let rules = Rules { switched_off: Some(rule) };
            match first_failure(0..HISTORIES_WITHOUT_A_RULE_MAX, rules, 1) {
                Some((seed, wrongs)) => println!("{rule:?}: seed {seed}: {}", wrongs.last().unwrap()),
                None => unmissed.lock().unwrap().push(rule),
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    assert_eq!(unmissed.into_inner().unwrap(), []);
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
