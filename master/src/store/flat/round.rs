//! PURE. Where the look at all files stands, and when it goes on.

use coracle_api::meta::Key;
use std::sync::Arc;
use std::time::Duration;

/// A card loses bits over months, and reading all of it wears nothing; a master that restarts reads everything anyway.
pub const SCRUB_EVERY: Duration = Duration::from_secs(7 * 24 * 3600);
/// The pause between two files: 10,000 files take some minutes, and no request waits for the card.
const PAUSE: Duration = Duration::from_millis(20);

/// Where a round stands.
pub struct Scrub {
    /// In uptime.
    pub due: Duration,
    /// The last object that was looked at; None: a new round begins.
    pub after: Option<Arc<Key>>,
    pub healed: u64,
}

impl Default for Scrub {
    fn default() -> Scrub {
        Scrub { due: SCRUB_EVERY, after: None, healed: 0 }
    }
}

impl Scrub {
    /// A file was looked at, or there is none left. True: there may be another.
    pub fn went_on(&mut self, to: Option<Arc<Key>>, uptime: Duration) -> bool {
        let more = to.is_some();
        self.due = uptime + if more { PAUSE } else { SCRUB_EVERY };
        self.after = to;
        more
    }
}
