//! PURE. When certificates and authorities are made anew: by the running time of the master, for the clock on the wall
//! may say anything.
//!
//!     a certificate of this host    after a year      a new authority signs    30 days after it was published
//!     the authority                 after ten years
//!
//! The file says how long masters have run in all, and at which running time each serial number was seen first. It is
//! written when something was made, four hours after a start, then once a day, and at a stop. A power cut costs at most
//! a day of running time, and a run of less than four hours that ends by one does not count.

use super::authorities::Stage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
const YEAR_S: u64 = 365 * DAY_S;
/// How long a certificate of this host is used.
pub const LEAF_S: u64 = YEAR_S;
/// How long an authority signs before the next one is published.
pub const AUTHORITY_S: u64 = 10 * YEAR_S;
/// How long a new authority is published before it signs: whoever reads the list of authorities has read it anew.
pub const WAIT_S: u64 = 30 * DAY_S;
/// A run is worth a write after this time, so that hosts that are switched off each evening count.
const FIRST_KEPT_S: u64 = 4 * HOUR_S;
const KEPT_S: u64 = DAY_S;
/// A stop after a shorter time writes nothing.
const STOP_S: u64 = 60;

/// A thing with an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aging {
    Server,
    KubeletClient,
    FrontProxyClient,
    /// The authority that signs.
    Authority,
    /// A new authority that does not sign yet.
    NextAuthority,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A new certificate.
    Leaf(Aging),
    /// A new authority is to be published.
    NewAuthority,
    /// The new authority is to sign.
    Switch,
}

/// The text of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    /// Seconds that masters have run.
    running: u64,
    /// By serial number, in hexadecimal digits: the running time when it was seen first.
    seen: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningLife {
    /// Running time at the start of this run.
    before_s: u64,
    seen: BTreeMap<String, u64>,
    /// What the file says.
    kept_s: u64,
    /// The file lacks a serial number.
    is_new: bool,
    has_kept: bool,
}

impl RunningLife {
    /// `text`: the file's content, if there is a file.
    pub fn parse(text: Option<&str>) -> Result<RunningLife, String> {
        let kept: Kept = match text.map(str::trim) {
            None | Some("") => Kept::default(),
            Some(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
        };
        let Kept { running, seen } = kept;
        Ok(RunningLife { before_s: running, seen, kept_s: running, is_new: false, has_kept: false })
    }

    /// How long masters have run. `run`: since this one has started.
    pub fn running_s(&self, run: Duration) -> u64 {
        self.before_s.saturating_add(run.as_secs())
    }

    /// What is due, and notes what is new. `things`: what there is, with serial numbers.
    pub fn due(&mut self, run: Duration, stage: Stage, things: &[(Aging, String)]) -> Vec<Due> {
        let now_s = self.running_s(run);
        let before = self.seen.len();
        self.seen.retain(|serial, _| things.iter().any(|(_, one)| one == serial));
        self.is_new |= self.seen.len() != before;
        let mut due = Vec::new();
        for (thing, serial) in things {
            let first_s = match self.seen.get(serial) {
                Some(first_s) => *first_s,
                None => {
                    self.seen.insert(serial.clone(), now_s);
                    self.is_new = true;
                    now_s
                }
            };
            let age_s = now_s.saturating_sub(first_s);
            match (thing, stage) {
                (Aging::Authority, Stage::Single) if age_s >= AUTHORITY_S => due.push(Due::NewAuthority),
                (Aging::NextAuthority, Stage::Waiting) if age_s >= WAIT_S => due.push(Due::Switch),
                (Aging::Authority | Aging::NextAuthority, _) => {}
                (leaf, _) if age_s >= LEAF_S => due.push(Due::Leaf(*leaf)),
                _ => {}
            }
        }
        due
    }

    /// The text to be written now, if it is time. `stops`: the master does.
    pub fn keep(&mut self, run: Duration, stops: bool) -> Option<String> {
        let now_s = self.running_s(run);
        let unkept_s = now_s.saturating_sub(self.kept_s);
        let after_s = match (stops, self.has_kept) {
            (true, _) => STOP_S,
            (false, false) => FIRST_KEPT_S,
            (false, true) => KEPT_S,
        };
        if !self.is_new && unkept_s < after_s {
            return None;
        }
        // A write that only notes something new does not put off the first of a run.
        self.has_kept |= unkept_s >= after_s;
        (self.kept_s, self.is_new) = (now_s, false);
        let kept = Kept { running: now_s, seen: self.seen.clone() };
        serde_json::to_string(&kept).ok().map(|text| format!("{text}\n"))
    }

    /// For people: the age of a serial number.
    pub fn age_s(&self, run: Duration, serial: &str) -> Option<u64> {
        self.seen.get(serial).map(|first_s| self.running_s(run).saturating_sub(*first_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * DAY_S)
    }

    fn of(thing: Aging, serial: &str) -> Vec<(Aging, String)> {
        vec![(thing, serial.to_owned())]
    }

    #[test]
    fn what_is_due_when() {
        for (thing, stage, after_s, expected) in [
            (Aging::Server, Stage::Single, LEAF_S, Some(Due::Leaf(Aging::Server))),
            (Aging::KubeletClient, Stage::Overlap, LEAF_S, Some(Due::Leaf(Aging::KubeletClient))),
            (Aging::Authority, Stage::Single, AUTHORITY_S, Some(Due::NewAuthority)),
            // Somebody has to drop the old one first.
            (Aging::Authority, Stage::Overlap, 5 * AUTHORITY_S, None),
            (Aging::NextAuthority, Stage::Waiting, WAIT_S, Some(Due::Switch)),
            (Aging::NextAuthority, Stage::Overlap, 5 * WAIT_S, None),
        ] {
            let mut life = RunningLife::default();
            let things = of(thing, "01");
            let at = |seconds| Duration::from_secs(seconds);
            assert_eq!(life.due(at(7), stage, &things), []);
            assert_eq!(life.due(at(7 + after_s - 1), stage, &things), [], "{thing:?}");
            assert_eq!(life.due(at(7 + after_s), stage, &things), Vec::from_iter(expected), "{thing:?}");
            // Another serial number is another thing.
            assert_eq!(life.due(at(7 + after_s), stage, &of(thing, "02")), [], "{thing:?}");
        }
    }

    #[test]
    fn it_is_written_seldom() {
        let mut life = RunningLife::parse(None).expect("none yet");
        let things = of(Aging::Server, "01");
        life.due(Duration::ZERO, Stage::Single, &things);
        assert!(life.keep(Duration::ZERO, false).is_some(), "something is new");
        let mut writes = Vec::new();
        for hour in 0..24 * 10 {
            let run = Duration::from_secs(hour * HOUR_S);
            life.due(run, Stage::Single, &things);
            writes.extend(life.keep(run, false).map(|_| hour));
        }
        assert_eq!(writes, [4, 28, 52, 76, 100, 124, 148, 172, 196, 220]);
        let run = Duration::from_secs(220 * HOUR_S + 59);
        assert_eq!(life.keep(run, true), None);
        let text = life.keep(run + Duration::from_secs(1), true).expect("a minute");
        // The next run goes on.
        let mut next = RunningLife::parse(Some(&text)).expect("a file");
        assert_eq!(next.running_s(Duration::ZERO), 220 * HOUR_S + 60);
        assert_eq!(next.age_s(Duration::ZERO, "01"), Some(220 * HOUR_S + 60));
        assert_eq!(
            (next.due(Duration::ZERO, Stage::Single, &things), next.keep(Duration::ZERO, false)),
            (vec![], None)
        );
        // A thing that is gone is forgotten.
        next.due(Duration::ZERO, Stage::Single, &of(Aging::Server, "02"));
        assert!(!next.keep(Duration::ZERO, false).expect("a change").contains("\"01\""));
        for bad in ["x", "[1", r#"{"running":-1}"#] {
            assert!(RunningLife::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    /// Ten years of a host that is switched off each evening, without a stop.
    #[test]
    fn hosts_that_lose_power_each_day_renew_all_the_same() {
        let (mut text, mut made, mut writes): (Option<String>, u32, u32) = (None, 0, 0);
        let mut serial = 1_u32;
        for _ in 0..3652 {
            let mut life = RunningLife::parse(text.as_deref()).expect("a file");
            for tenth in 0..=8 * 6 {
                let run = Duration::from_secs(tenth * 600);
                let things = of(Aging::Server, &format!("{serial:02x}"));
                if !life.due(run, Stage::Single, &things).is_empty() {
                    (serial, made) = (serial + 1, made + 1);
                }
                if let Some(kept) = life.keep(run, false) {
                    (text, writes) = (Some(kept), writes + 1);
                }
            }
        }
        // Four of eight hours count: 609 days.
        assert!((1..=3).contains(&made), "{made}");
        assert!(writes <= 3652 + 2 * made + 1, "{writes}");
        assert!(RunningLife::parse(text.as_deref()).expect("a file").running_s(Duration::ZERO) >= days(600).as_secs());
    }
}
