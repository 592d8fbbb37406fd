//! A whole cluster in one thread: the master's store, API, scheduler and controllers, and three hosts with the agent's
//! own loop and engines in memory. Messages come late and get lost, each part dies at any moment, clocks jump, people
//! roll out, scale and delete. At every moment what may never be is not; once the faults end, everything is as it was
//! asked for, and stays so.
//!
//!     CORACLE_SEED=17        this history alone, told
//!     CORACLE_HISTORIES=5000 those below this seed
//!     CORACLE_FIRST=1305     from this one on
//!     CORACLE_WITHOUT=OrderIsKept   with a seed: this rule is switched off

mod checks;
mod host;
mod master;
mod moves;
mod story;
mod theme;

use coracle_master::control::rules::{ControlRule, ControlRules};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// In CI; `make simulate` plays more.
const HISTORIES: u64 = 80;
/// The simulation uses both cores of a small host.
const THREADS: u64 = 2;

#[test]
fn every_history_ends_as_it_was_asked_for() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("CORACLE_SEED") {
        let without = std::env::var("CORACLE_WITHOUT").ok();
        let switched_off =
            ControlRule::ALL.into_iter().find(|rule| without.as_ref().is_some_and(|name| *name == format!("{rule:?}")));
        assert_eq!(story::run(seed, true, ControlRules { switched_off }), Vec::<String>::new());
        return;
    }
    let histories = number("CORACLE_HISTORIES").unwrap_or(HISTORIES);
    let next = AtomicU64::new(number("CORACLE_FIRST").unwrap_or(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= histories {
                return;
            }
            let wrongs = catch_unwind(AssertUnwindSafe(|| story::run(seed, false, ControlRules::default())))
                .unwrap_or_else(|_| vec!["a panic".to_owned()]);
            if !wrongs.is_empty() {
                next.store(histories, Ordering::Relaxed);
                panic!("CORACLE_SEED={seed} make some WORDS=cluster::\n{}", wrongs.join("\n"));
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().expect("a history failed; its seed stands above");
        }
    });
}

/// Each rule that is switched off must be missed within that many.
const HISTORIES_WITHOUT_A_RULE_MAX: u64 = 400;

#[test]
fn every_rule_of_the_controllers_is_missed() {
    // A rule that nobody misses is either not needed or not tested.
    let next = std::sync::Mutex::new(ControlRule::ALL.iter());
    let unmissed = std::sync::Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(rule) = next.lock().unwrap().next().copied() else { return };
            let rules = ControlRules { switched_off: Some(rule) };
            let missed = |seed: &u64| {
                let wrongs = catch_unwind(AssertUnwindSafe(|| story::run(*seed, false, rules)))
                    .unwrap_or_else(|_| vec!["a panic".to_owned()]);
                if let Some(last) = wrongs.last() {
                    println!("{rule:?}: seed {seed}: {last}");
                }
                !wrongs.is_empty()
            };
            if (0..HISTORIES_WITHOUT_A_RULE_MAX).find(missed).is_none() {
                unmissed.lock().unwrap().push(rule);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    assert_eq!(unmissed.into_inner().unwrap(), []);
}
