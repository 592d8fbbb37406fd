//! Sets of completion indexes, as a job's status writes them: `0-2,5,7,8`. PURE.

use std::fmt;

/// In order, with room between each two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// What cannot be read is left out; so is all from `completions` on.
    pub fn parse(text: &str, completions: i32) -> Indexes {
        let mut all = Indexes::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            if first >= completions {
                break;
            }
            all.insert((first, last.min(completions - 1)));
        }
        all
    }

    pub fn of(indexes: impl IntoIterator<Item = i32>) -> Indexes {
        let mut all = Indexes::default();
        indexes.into_iter().for_each(|index| all.add(index));
        all
    }

    pub fn add(&mut self, index: i32) {
        self.insert((index, index));
    }

    pub fn with(&self, others: &Indexes) -> Indexes {
        let mut all = self.clone();
        others.0.iter().for_each(|range| all.insert(*range));
        all
    }

    fn insert(&mut self, (first, last): (i32, i32)) {
        if first < 0 || last < first {
            return;
        }
        // Ranges that overlap or touch the new range are joined with the new range.
        let from = self.0.partition_point(|range| range.1 < first - 1);
        let to = from + self.0[from..].partition_point(|range| range.0 <= last.saturating_add(1));
        let joined = self.0[from..to].iter().fold((first, last), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        self.0.splice(from..to, [joined]);
    }

    pub fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|range| range.1 < index);
        self.0.get(at).is_some_and(|range| range.0 <= index)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).fold(0, i32::saturating_add)
    }

    /// How many of these are among the others.
    pub fn shared(&self, others: &Indexes) -> i32 {
        let (mut shared, mut mine, mut theirs) = (0i32, self.0.iter().peekable(), others.0.iter().peekable());
        while let (Some(&&one), Some(&&other)) = (mine.peek(), theirs.peek()) {
            shared = shared.saturating_add((one.1.min(other.1) - one.0.max(other.0) + 1).max(0));
            if one.1 <= other.1 {
                mine.next()
            } else {
                theirs.next()
            };
        }
        shared
    }

    /// The first that are not among these, so many at most.
    pub fn missing(&self, completions: i32, count: usize) -> Vec<i32> {
        let (mut found, mut next) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let room = count - found.len();
            found.extend((next..first.min(completions)).take(room));
            next = next.max(last.saturating_add(1));
        }
        found
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        for (text, written) in [
            ("", ""),
            ("0", "0"),
            ("0,1", "0,1"),
            ("0,1,2", "0-2"),
            ("0-2,5,7,8", "0-2,5,7,8"),
            ("5,0-1,2", "0-2,5"),
            ("x,3,4-y,8-9", "3,8,9"),
            ("3-12", "3-9"),
            ("12,13", ""),
            ("0-1,2-3", "0-3"),
        ] {
            let all = Indexes::parse(text, 10);
            assert_eq!(all.to_string(), written, "{text}");
            assert_eq!(Indexes::parse(&all.to_string(), 10), all, "{text}");
        }
    }

    #[test]
    fn sums() {
        let all = Indexes::parse("0-2,5,7,8", 10);
        assert_eq!((all.count(), all.has(2), all.has(3), all.has(5), all.has(9)), (6, true, false, true, false));
        assert_eq!(all.missing(10, 9), [3, 4, 6, 9]);
        assert_eq!(all.missing(10, 2), [3, 4]);
        assert_eq!(Indexes::default().missing(3, 5), [0, 1, 2]);
        assert_eq!(Indexes::of([0, 1, 2]).missing(3, 5), [0; 0]);
        assert_eq!(all.shared(&Indexes::of([2, 3, 5, 6, 7, 8, 9])), 4);
        assert_eq!(all.with(&Indexes::of([3, 4])).to_string(), "0-5,7,8");
    }
}
