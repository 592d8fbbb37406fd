//! How often calls of the engine in memory go wrong, and the dice for it.

/// splitmix64: a seed is all that it takes to see the same again.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// How often what goes wrong, in percent of calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The call is not done, and the caller is told that nobody knows.
    pub lost_before: u64,
    /// The call is done, and the caller is told that nobody knows.
    pub lost_after: u64,
    /// A listing is a while on its way, or shows an earlier moment: one after the last acknowledged call.
    pub late_listing: u64,
    /// Nothing answers.
    pub down: bool,
    /// Listings answer; whatever would change something does not.
    pub stuck: bool,
}
