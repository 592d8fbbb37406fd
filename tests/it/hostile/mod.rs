//! Hostile clients of a port that speaks TLS, by the thousand: each does what a throw of the dice says
//! (`tests/fuzz/connections`). The server is a process of its own. It does not panic; whoever behaves is answered
//! throughout; afterwards its threads, descriptors and memory are back.
//!
//!     make test-hostile                            a million connections, half against each server
//!     CORACLE_CONNECTIONS=5000 make some WORDS=hostile
//!     CORACLE_SEED=N CORACLE_CONNECTIONS=16 ...    those with the seeds from N on, as a failure says

mod neighbour;
mod play;
mod subject;

use coracle_tests::fuzz::Dice;
use coracle_tests::fuzz::connections::script;
use neighbour::Neighbour;
use play::Player;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use subject::{Subject, Which};

/// What `make check` has time for.
const OF_BARE: u64 = 5_000;
const OF_MASTER: u64 = 2_500;
/// Connections at a time.
const PLAYERS: usize = 12;
/// Connections after which the server has all that it keeps for its whole life.
const SETTLING: u64 = 400;
const SEED_OF_SETTLING: u64 = 1 << 40;
/// Letters of a script that a failure prints.
const SHOWN: usize = 2000;
/// For the chance in where an allocator finds room.
const GROWTH_KB_MAX: u64 = 6 * 1024;

#[test]
fn strangers_at_a_bare_handler() {
    if subject::serve_if_asked(Which::Bare) {
        return;
    }
    storm(Which::Bare, "hostile::strangers_at_a_bare_handler", OF_BARE);
}

#[test]
fn strangers_at_a_master() {
    if subject::serve_if_asked(Which::Master) {
        return;
    }
    storm(Which::Master, "hostile::strangers_at_a_master", OF_MASTER);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn storm(which: Which, test: &str, usual: u64) {
    let first = number("CORACLE_SEED").unwrap_or(1);
    let count = number("CORACLE_CONNECTIONS").map_or(usual, |count| count.div_ceil(2));
    let subject = Subject::start(which, test);
    play_all(&subject, SEED_OF_SETTLING..SEED_OF_SETTLING + SETTLING);
    let before = subject.rests();
    let begun = Instant::now();
    let neighbour = Neighbour::begin(&subject);
    play_all(&subject, first..first + count);
    let told = neighbour.end();
    eprintln!("{which:?}: {count} connections in {:.1} s; {told}", begun.elapsed().as_secs_f64());
    let after = subject.rests();
    eprintln!(
        "{which:?}: {} threads, {} kB, then {} threads, {} kB",
        before.threads, before.resident_kb, after.threads, after.resident_kb
    );
    assert!(after.threads <= before.threads, "threads stay: {before:?}, then {after:?}");
    assert!(after.descriptors.len() <= before.descriptors.len(), "descriptors stay: {before:?}, then {after:?}");
    let grown = after.resident_kb.saturating_sub(before.resident_kb);
    assert!(grown <= GROWTH_KB_MAX, "memory stays: {before:?}, then {after:?}");
    subject.stop();
}

/// Stops at the first that finds a fault, and names the seeds that were under way.
fn play_all(subject: &Subject, seeds: std::ops::Range<u64>) {
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for number in 0..PLAYERS {
            let (next, has_failed, failed) = (&next, &has_failed, &failed);
            let end = seeds.end;
            scope.spawn(move || {
                let player = Player::new(subject, number);
                while !has_failed.load(Relaxed) {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= end {
                        return;
                    }
                    let mut dice = Dice::of(seed);
                    let script = script(&subject.targets(), &mut dice);
                    let played = player.play(&script, &mut dice).and_then(|()| subject.is_well());
                    if let Err(why) = played {
                        has_failed.store(true, Relaxed);
                        let mut about = format!("{why} (seed {seed}) {script:?}");
                        about.truncate(SHOWN);
                        failed.lock().unwrap().get_or_insert((seed, about));
                    }
                }
            });
        }
    });
    if let Some((seed, why)) = failed.into_inner().unwrap() {
        // Those that were under way beside it may be to blame.
        let (first, many) = (seed.saturating_sub(2 * PLAYERS as u64), 2 * 2 * PLAYERS);
        panic!("{why}\n{}\nCORACLE_SEED={first} CORACLE_CONNECTIONS={} plays them again", subject.said(), 2 * many);
    }
}
