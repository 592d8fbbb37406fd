//! Finds the refused ones among many items, given only whether a set of them is accepted as a whole. PURE.
//!
//!     all are refused -> halves, each tried together with what was taken -> the ones that cannot be split any more

use std::ops::Range;

/// Tries of one search: sixteen that are refused among a thousand take some 180.
const TRIES_MAX: usize = 256;

/// Things are numbers from 0.
pub struct Sieve {
    taken: Vec<usize>,
    refused: Vec<(usize, String)>,
    /// The last one is tried next.
    open: Vec<Range<usize>>,
    tries: usize,
}

impl Sieve {
    /// `count` things that were refused together, and why.
    pub fn new(count: usize, why: &str) -> Sieve {
        let mut sieve = Sieve { taken: Vec::new(), refused: Vec::new(), open: Vec::new(), tries: 0 };
        match count {
            // It is heard once more: that all were refused may have had a reason that has passed.
            1 => sieve.open.push(0..1),
            _ => sieve.split(0..count, why),
        }
        sieve
    }

    /// The items to try together next. None: the search is over.
    pub fn next(&self) -> Option<Vec<usize>> {
        let range = self.open.last()?;
        Some(self.taken.iter().copied().chain(range.clone()).collect())
    }

    /// How the try ended.
    pub fn judge(&mut self, verdict: Result<(), String>) {
        let Some(range) = self.open.pop() else { return };
        self.tries += 1;
        match verdict {
            Ok(()) => self.taken.extend(range),
            Err(why) if self.tries < TRIES_MAX => self.split(range, &why),
            // Of these some might be taken; that most are at once is worth more.
            Err(why) => self.refused.extend(range.map(|one| (one, why.clone()))),
        }
    }

    /// The items that are taken together, and each refused item with the reason, in order.
    pub fn end(mut self) -> (Vec<usize>, Vec<(usize, String)>) {
        self.taken.sort_unstable();
        self.refused.sort_unstable();
        (self.taken, self.refused)
    }

    fn split(&mut self, range: Range<usize>, why: &str) {
        let middle = range.start + range.len() / 2;
        match range.len() {
            0 => {}
            1 => self.refused.push((range.start, why.to_owned())),
            _ => self.open.extend([middle..range.end, range.start..middle]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accepted items, the refused ones, and the number of tries.
    fn sift(count: usize, refuses: impl Fn(&[usize]) -> bool) -> (Vec<usize>, Vec<usize>, usize) {
        let mut sieve = Sieve::new(count, "all");
        while let Some(these) = sieve.next() {
            sieve.judge(if refuses(&these) { Err("no".to_owned()) } else { Ok(()) });
        }
        let tries = sieve.tries;
        let (taken, refused) = sieve.end();
        (taken, refused.into_iter().map(|(one, _)| one).collect(), tries)
    }

    #[test]
    fn the_ones_that_are_refused_are_found() {
        for (count, bad) in [(1, vec![0]), (2, vec![1]), (7, vec![0, 6]), (1000, vec![0, 499, 500, 999])] {
            let (taken, refused, tries) = sift(count, |these| these.iter().any(|one| bad.contains(one)));
            assert_eq!((taken.len(), &refused), (count - bad.len(), &bad));
            assert!(tries <= bad.len() * 2 * 11, "{tries} of {count}");
        }
        // Two items are refused only together: the first item is taken.
        let (taken, refused, _) = sift(10, |these| these.contains(&2) && these.contains(&7));
        assert_eq!((taken.len(), refused), (9, vec![7]));
    }

    #[test]
    fn one_alone_is_heard_once_more() {
        assert_eq!(sift(1, |_| false), (vec![0], vec![], 1));
        assert_eq!(sift(1, |_| true), (vec![], vec![0], 1));
        assert_eq!(sift(0, |_| true), (vec![], vec![], 0));
    }

    #[test]
    fn a_search_ends() {
        let (taken, refused, tries) = sift(10_000, |these| these.iter().any(|one| one % 3 == 0));
        assert_eq!(taken.len() + refused.len(), 10_000);
        assert!(tries < TRIES_MAX + 20, "{tries}");
    }
}
