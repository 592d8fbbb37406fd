//! The places of priority levels: each has its share of all places, lends what it may of the places that it does not
//! use, and gets these back as soon as those who borrowed them have been answered. PURE.

use coracle_http::budget::Party;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Places in all: fewer than the requests that a port lets be in progress (`Limits::requests_max`), so that what is
/// lent leaves room for the lender.
const SEATS: u64 = 192;
/// Of the places of a level one party may have at most this many times those that it leaves to others, as of all
/// limits of `coracle_http`.
const TIMES: u64 = coracle_http::BYTES_TIMES as u64;
/// As Kubernetes sets it.
const SHARES: u64 = 30;

#[derive(Debug)]
pub(super) struct PriorityLevel {
    pub(super) name: Arc<str>,
    /// Empty: it is no stored object.
    pub(super) uid: String,
    pub(super) is_exempt: bool,
    pub(super) shares: u64,
    lendable_percent: u64,
    /// None: as much as others lend.
    borrows_percent: Option<u64>,
}

/// Places that are taken, by level.
#[derive(Default)]
pub(super) struct Seats(BTreeMap<String, Taken>);

#[derive(Default)]
struct Taken {
    all: u64,
    parties: HashMap<Party, u64>,
}

impl PriorityLevel {
    pub(super) fn read(name: &str, uid: &str, spec: &Value) -> PriorityLevel {
        let is_exempt = spec["type"] == "Exempt";
        let (said, shares) = if is_exempt { (&spec["exempt"], 0) } else { (&spec["limited"], SHARES) };
        PriorityLevel {
            name: name.into(),
            uid: uid.to_owned(),
            is_exempt,
            shares: said["nominalConcurrencyShares"].as_u64().unwrap_or(shares),
            lendable_percent: said["lendablePercent"].as_u64().unwrap_or_default().min(100),
            borrows_percent: said["borrowingLimitPercent"].as_u64(),
        }
    }

    /// The level's share of all places.
    fn seats(&self, all_shares: u64) -> u64 {
        (SEATS * self.shares).div_ceil(all_shares.max(1))
    }
}

impl Seats {
    /// `Err`: the words of a refusal.
    pub(super) fn take(
        &mut self,
        levels: &BTreeMap<String, PriorityLevel>,
        name: &str,
        party: Party,
    ) -> Result<(), String> {
        let most = self.may_have(levels, name);
        let taken = self.0.entry(name.to_owned()).or_default();
        let of_party = taken.parties.get(&party).copied().unwrap_or_default();
        let left = most.saturating_sub(taken.all + 1);
        let fits = taken.all < most && (of_party == 0 || of_party < left.saturating_mul(TIMES));
        if !fits {
            return Err(format!(
                "Too many requests, please try again later. Priority level {name} has {most} places, and {} are taken",
                taken.all
            ));
        }
        taken.all += 1;
        *taken.parties.entry(party).or_default() += 1;
        Ok(())
    }

    pub(super) fn give_back(&mut self, name: &str, party: Party) {
        let Some(taken) = self.0.get_mut(name) else { return };
        taken.all -= 1;
        if let Some(of_party) = taken.parties.get_mut(&party) {
            *of_party -= 1;
            if *of_party == 0 {
                taken.parties.remove(&party);
            }
        }
        if taken.all == 0 {
            self.0.remove(name);
        }
    }

    /// The places that a level may have now: the places of the level, and the places that other levels lend and no
    /// level has borrowed.
    fn may_have(&self, levels: &BTreeMap<String, PriorityLevel>, name: &str) -> u64 {
        let all_shares = levels.values().map(|level| level.shares).sum();
        let (mut lent, mut borrowed) = (0, 0);
        for (other, level) in levels.iter().filter(|(other, _)| *other != name) {
            let (seats, taken) = (level.seats(all_shares), self.0.get(other).map_or(0, |taken| taken.all));
            lent += (seats * level.lendable_percent / 100).min(seats.saturating_sub(taken));
            borrowed += taken.saturating_sub(seats);
        }
        let Some(level) = levels.get(name) else { return 1 };
        let own = level.seats(all_shares);
        let limit = level.borrows_percent.map_or(u64::MAX, |percent| own * percent / 100);
        // Who has a request at all has a place.
        (own + lent.saturating_sub(borrowed).min(limit)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn levels(of: &[(&str, u64, u64, Option<u64>)]) -> BTreeMap<String, PriorityLevel> {
        let level = |(name, shares, lends, borrows): &(&str, u64, u64, Option<u64>)| {
            let limited = json!({"nominalConcurrencyShares": shares, "lendablePercent": lends,
                "borrowingLimitPercent": borrows});
            ((*name).to_owned(), PriorityLevel::read(name, "", &json!({"type": "Limited", "limited": limited})))
        };
        of.iter().map(level).collect()
    }

    fn fill(seats: &mut Seats, levels: &BTreeMap<String, PriorityLevel>, name: &str, user: &str) -> u64 {
        let taken = std::iter::from_fn(|| seats.take(levels, name, Party::named(user)).ok());
        taken.count() as u64
    }

    /// As many users as it takes.
    fn fill_by_all(seats: &mut Seats, levels: &BTreeMap<String, PriorityLevel>, name: &str) -> u64 {
        (0..200).map(|n| fill(seats, levels, name, &format!("user-{n}"))).sum()
    }

    #[test]
    fn a_level_keeps_what_it_does_not_lend() {
        let levels = levels(&[("high", 1, 50, None), ("low", 2, 0, None)]);
        let mut seats = Seats::default();
        assert_eq!(fill_by_all(&mut seats, &levels, "low"), 128 + 32, "its own, and half of the other's");
        assert_eq!(fill_by_all(&mut seats, &levels, "high"), 64, "all of its own");
        assert!(seats.take(&levels, "low", Party::Local).unwrap_err().contains("Priority level low has 128 places"));
    }

    #[test]
    fn a_level_borrows_no_more_than_its_limit() {
        let levels = levels(&[("high", 1, 100, None), ("low", 1, 0, Some(25))]);
        let mut seats = Seats::default();
        assert_eq!(fill_by_all(&mut seats, &levels, "low"), 96 + 24);
    }

    #[test]
    fn what_is_borrowed_is_lent_once() {
        let levels = levels(&[("lender", 1, 100, None), ("one", 1, 0, None), ("two", 1, 0, None)]);
        let mut seats = Seats::default();
        assert_eq!(fill_by_all(&mut seats, &levels, "one"), 128);
        assert_eq!(fill_by_all(&mut seats, &levels, "two"), 64);
    }

    #[test]
    fn one_user_leaves_places_to_others() {
        let levels = levels(&[("low", 1, 0, None)]);
        let mut seats = Seats::default();
        let first = fill(&mut seats, &levels, "low", "ann");
        assert!((130..=SEATS * 3 / 4).contains(&first), "{first}");
        assert!(fill(&mut seats, &levels, "low", "bob") > 10);
        (0..first).for_each(|_| seats.give_back("low", Party::named("ann")));
        assert_eq!(fill(&mut seats, &levels, "low", "cyd") > 10, true);
    }

    #[test]
    fn a_level_of_no_shares_still_answers() {
        let levels = levels(&[("none", 0, 0, None), ("all", 1, 0, None)]);
        let mut seats = Seats::default();
        assert_eq!(fill(&mut seats, &levels, "none", "ann"), 1);
        seats.give_back("none", Party::named("ann"));
        assert!(seats.0.is_empty());
    }
}
