//! How many requests of one client are recorded that changed nothing: who is refused all day, or only rehearses, must
//! not push the writes of others out of a file of bounded size. PURE.

use std::collections::BTreeMap;
use std::time::Duration;

/// Lines at once of one client. All unknown clients count as one client.
const BURST: f64 = 60.0;
/// Lines a second after that.
const RATE: f64 = 0.2;
/// Clients that are told apart; more count as one.
const CLIENTS_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Bound {
    clients: BTreeMap<String, Room>,
    left_out: u64,
}

struct Room {
    tokens: f64,
    at: Duration,
    left_out: u64,
}

impl Room {
    fn filled(&self, now: Duration) -> f64 {
        (self.tokens + now.saturating_sub(self.at).as_secs_f64() * RATE).min(BURST)
    }
}

impl Bound {
    /// None: it is left out. Else how many of this client were left out since the last one that was not. `now` does not
    /// go back.
    pub(super) fn take(&mut self, client: &str, now: Duration) -> Option<u64> {
        if !self.clients.contains_key(client) && self.clients.len() >= CLIENTS_MAX {
            self.forget_quiet(now);
        }
        let client = if self.clients.contains_key(client) || self.clients.len() < CLIENTS_MAX { client } else { "" };
        let fresh = || Room { tokens: BURST, at: now, left_out: 0 };
        let room = self.clients.entry(client.to_owned()).or_insert_with(fresh);
        (room.tokens, room.at) = (room.filled(now), now);
        if room.tokens < 1.0 {
            room.left_out += 1;
            self.left_out += 1;
            return None;
        }
        room.tokens -= 1.0;
        Some(std::mem::take(&mut room.left_out))
    }

    /// What was left out of clients that are forgotten, the next line of an unknown client tells.
    fn forget_quiet(&mut self, now: Duration) {
        let mut left_out = 0;
        self.clients.retain(|client, room| {
            let stays = client.is_empty() || room.filled(now) < BURST;
            left_out += if stays { 0 } else { room.left_out };
            stays
        });
        if left_out > 0 {
            let fresh = Room { tokens: BURST, at: now, left_out: 0 };
            self.clients.entry(String::new()).or_insert(fresh).left_out += left_out;
        }
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_all_day_is_counted() {
        let at = Duration::from_secs;
        let mut bound = Bound::default();
        let recorded = (0..100).filter(|_| bound.take("ann", at(0)).is_some()).count();
        assert_eq!((recorded, bound.left_out()), (60, 40));
        assert_eq!(bound.take("bob", at(0)), Some(0));
        assert_eq!(bound.take("ann", at(4)), None);
        assert_eq!(bound.take("ann", at(5)), Some(41), "one in five seconds");
        assert_eq!(bound.take("ann", at(5)), None);
    }

    #[test]
    fn clients_have_a_bound() {
        let mut bound = Bound::default();
        for n in 0..CLIENTS_MAX * 3 {
            for _ in 0..70 {
                bound.take(&n.to_string(), Duration::ZERO);
            }
        }
        assert!(bound.clients.len() <= CLIENTS_MAX + 1);
        let (before, later) = (bound.left_out(), Duration::from_secs(3600));
        assert_eq!(bound.take("late", later), Some(0), "whoever was quiet for an hour takes no place");
        assert_eq!(bound.take("", later), Some(before), "nothing that was left out is forgotten");
        assert!(bound.clients.len() <= 2);
    }
}
