//! PURE. When the segments of the journal were written to. All are of one size, and a copy takes a file of the same size and the same second
//! for the one that it has (rsync does): so each that was written to gets a later date once no more was written for some seconds.

use std::time::Duration;

/// More than the second that a write may share with an earlier one.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Each segment that was written to since it had its date, and when last, in uptime; None: since somebody asked.
#[derive(Default)]
pub struct Dates {
    written: Vec<(u64, Option<Duration>)>,
    /// The keeper knows of it.
    awaited: bool,
}

impl Dates {
    pub fn written(&mut self, segment: u64) {
        self.written.retain(|(other, _)| *other != segment);
        self.written.push((segment, None));
    }

    /// Whether the keeper is to be told.
    pub fn are_news(&mut self, uptime: Duration) -> bool {
        self.written.iter_mut().for_each(|(_, at)| _ = at.get_or_insert(uptime));
        !self.written.is_empty() && !self.awaited
    }

    /// The segments whose time has come.
    pub fn settled(&mut self, uptime: Duration) -> Vec<u64> {
        self.are_news(uptime);
        let is_settled = |(_, at): &mut (u64, Option<Duration>)| at.is_some_and(|at| uptime >= at + SETTLED_AFTER);
        self.written.extract_if(.., is_settled).map(|(segment, _)| segment).collect()
    }

    /// When the next one comes, of which the keeper knows from here on.
    pub fn next(&mut self) -> Option<Duration> {
        self.awaited = !self.written.is_empty();
        self.written.iter().filter_map(|(_, at)| *at).min().map(|at| at + SETTLED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_gets_its_date_once_after_its_last_write() {
        let s = Duration::from_secs;
        let mut dates = Dates::default();
        assert!(!dates.are_news(s(1)) && dates.next().is_none(), "at rest nobody is woken");
        dates.written(1);
        assert!(dates.are_news(s(10)));
        assert_eq!((dates.settled(s(11)), dates.next()), (vec![], Some(s(12))));
        dates.written(1);
        assert!(!dates.are_news(s(11)), "the keeper looks at twelve");
        assert_eq!((dates.settled(s(12)), dates.next()), (vec![], Some(s(13))), "not while it is written");
        dates.written(2);
        dates.are_news(s(13));
        assert_eq!((dates.settled(s(13)), dates.next()), (vec![1], Some(s(15))));
        assert_eq!((dates.settled(s(15)), dates.next()), (vec![2], None));
        assert_eq!((dates.settled(s(99)), dates.next()), (vec![], None), "and never again");
    }
}
