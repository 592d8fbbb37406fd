//! Every rule of the protocol is missed: with one switched off some history breaks a promise. A rule that nobody misses
//! is either not needed or not tested.

use super::crash::{broken, number};
use super::lives::Setting;
use crate::store::flat::protocol::{Protocol, ProtocolRule};

/// Within so many histories one has to break; most do within fifty. `CORACLE_HISTORIES` asks for another number.
const HISTORIES_MAX: u64 = 3_000;

/// These are missed elsewhere: `SyncAtStart` below, `Account` where copies are opened.
const ELSEWHERE: [ProtocolRule; 2] = [ProtocolRule::SyncAtStart, ProtocolRule::Account];

#[test]
fn every_rule_is_missed() {
    let asked = number("CORACLE_HISTORIES");
    let mut unmissed = Vec::new();
    for rule in ProtocolRule::ALL.into_iter().filter(|rule| !ELSEWHERE.contains(rule)) {
        let setting = Setting { protocol: Protocol::WHOLE.without(rule), ..Setting::WHOLE };
        let found = (0..asked.unwrap_or(HISTORIES_MAX)).find_map(|seed| Some((seed, broken(seed, setting).err()?)));
        match found {
            Some((seed, broken)) => {
                eprintln!("{rule:?}: seed {seed}: {}", broken.chars().take(200).collect::<String>())
            }
            None => unmissed.push(rule),
        }
    }
    assert_eq!(unmissed, []);
}

/// What a start reads may be in the cache alone, when the one before was killed between its write and its fsync. Two
/// rules see to that, and either is enough as long as no fsync fails: a start makes durable what it is about to
/// believe, and writes the last batch again. So one switch alone misses nothing, and both do.
#[test]
fn a_start_believes_nothing_that_a_cut_can_take_back() {
    let first = |protocol: Protocol, histories: u64| {
        let setting = Setting { protocol, fails: false, ..Setting::WHOLE };
        (0..histories)
            .find(|seed| broken(*seed, setting).inspect_err(|broken| eprintln!("seed {seed}: {broken}")).is_err())
    };
    let both =
        first(Protocol::WHOLE.without(ProtocolRule::Rejournal).without(ProtocolRule::SyncAtStart), HISTORIES_MAX);
    eprintln!("rejournal and sync_at_start: seed {both:?}");
    assert!(both.is_some());
    assert_eq!(
        (
            first(Protocol::WHOLE.without(ProtocolRule::SyncAtStart), 100),
            first(Protocol::WHOLE.without(ProtocolRule::Rejournal), 100)
        ),
        (None, None)
    );
}
