//! Every rule of the protocol is missed: with one switched off some history breaks a promise. A rule that nobody misses is either not
//! needed or not tested.

use super::crash::{broken, number};
use super::lives::Setting;
use crate::store::protocol::Protocol;

/// Within so many histories one has to break; most do within fifty. `CORACLE_HISTORIES` asks for another number.
const HISTORIES_MAX: u64 = 3_000;

struct Mutant {
    rule: &'static str,
    switch: fn(&mut Protocol),
}

const MUTANTS: [Mutant; 19] = [
    Mutant { rule: "sync_before_answer", switch: |rules| rules.sync_before_answer = false },
    Mutant { rule: "sync_journal_folder", switch: |rules| rules.sync_journal_folder = false },
    Mutant { rule: "checksums", switch: |rules| rules.checksums = false },
    Mutant { rule: "own_lines", switch: |rules| rules.own_lines = false },
    Mutant { rule: "fence", switch: |rules| rules.fence = false },
    Mutant { rule: "carry", switch: |rules| rules.carry = false },
    Mutant { rule: "rejournal", switch: |rules| rules.rejournal = false },
    Mutant { rule: "fresh_segment", switch: |rules| rules.fresh_segment = false },
    Mutant { rule: "align", switch: |rules| rules.align = false },
    Mutant { rule: "later_batch_is_damage", switch: |rules| rules.later_batch_is_damage = false },
    Mutant { rule: "leave_failed_file", switch: |rules| rules.leave_failed_file = false },
    Mutant { rule: "burn", switch: |rules| rules.burn = false },
    Mutant { rule: "reserve", switch: |rules| rules.reserve = false },
    Mutant { rule: "sync_objects", switch: |rules| rules.sync_objects = false },
    Mutant { rule: "sync_each_folder", switch: |rules| rules.sync_each_folder = false },
    Mutant { rule: "objects_before_head", switch: |rules| rules.objects_before_head = false },
    Mutant { rule: "sync_head", switch: |rules| rules.sync_head = false },
    Mutant { rule: "rename_head", switch: |rules| rules.rename_head = false },
    Mutant { rule: "head_before_unlink", switch: |rules| rules.head_before_unlink = false },
];

#[test]
fn every_rule_is_missed() {
    let asked = number("CORACLE_HISTORIES");
    let mut unmissed = Vec::new();
    for Mutant { rule, switch } in MUTANTS {
        let mut protocol = Protocol::WHOLE;
        switch(&mut protocol);
        let setting = Setting { protocol, ..Setting::WHOLE };
        let found = (0..asked.unwrap_or(HISTORIES_MAX)).find_map(|seed| Some((seed, broken(seed, setting).err()?)));
        match found {
            Some((seed, broken)) => eprintln!("{rule}: seed {seed}: {}", broken.chars().take(200).collect::<String>()),
            None => unmissed.push(rule),
        }
    }
    assert_eq!(unmissed, [] as [&str; 0]);
}

/// What a start reads may be in the cache alone, when the one before was killed between its write and its fsync. Two rules see to that, and
/// either is enough as long as no fsync fails: a start makes durable what it is about to believe, and writes the last batch again.
/// So one switch alone misses nothing, and both do.
#[test]
fn a_start_believes_nothing_that_a_cut_can_take_back() {
    let first = |rejournal: bool, sync_at_start: bool, histories: u64| {
        let setting = Setting { protocol: Protocol { rejournal, sync_at_start, ..Protocol::WHOLE }, fails: false, ..Setting::WHOLE };
        (0..histories).find(|seed| broken(*seed, setting).inspect_err(|broken| eprintln!("seed {seed}: {broken}")).is_err())
    };
    let both = first(false, false, HISTORIES_MAX);
    eprintln!("rejournal and sync_at_start: seed {both:?}");
    assert!(both.is_some());
    assert_eq!((first(true, false, 100), first(false, true, 100)), (None, None));
}
