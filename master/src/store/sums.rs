//! PURE. What the objects' files sum up to, in parts by their paths: a start sees by it whether any file is another than it was, and which
//! it may be.
//!
//! What a file adds is the checksum of its path, that of its content, and both mixed up. So it shows where no more than one file makes
//! the difference by being gone or unknown, whichever it is: all others of its part are as they were.

use super::document::crc32;
use super::names;
use coracle_api::meta::Key;
use serde::{Deserialize, Serialize};

/// Where two files of a part are gone or unknown, nobody knows of its others. HEAD.json is to stay within a block of the disk.
const PARTS: usize = 64;
/// In hexadecimal.
const DIGITS: usize = 32;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Sums(Vec<u128>);

/// Files that may be others than they were, by their parts.
pub struct Doubts(Vec<bool>);

/// What the paths of some files sum up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathSum(u32);

impl PathSum {
    pub fn of(path: &str) -> PathSum {
        PathSum(crc32(path.as_bytes()))
    }
}

/// As HEAD.json says them.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    /// An older master knew one sum, of what is neither mixed up nor in parts.
    One(u64),
    Parts(String),
}

impl Default for Sums {
    fn default() -> Sums {
        Sums(vec![0; PARTS])
    }
}

impl Sums {
    pub fn add(&mut self, key: &Key, crc: u32) {
        let (part, adds) = adds(key, crc);
        self.0[part] = self.0[part].wrapping_add(adds);
    }

    pub fn take(&mut self, key: &Key, crc: u32) {
        let (part, adds) = adds(key, crc);
        self.0[part] = self.0[part].wrapping_sub(adds);
    }

    /// Whether files that sum up to `now` are as these were.
    pub fn are(&self, now: &Sums) -> bool {
        self.differences(now).all(|difference| difference == 0)
    }

    /// The parts in which more than one file makes the difference, in each of the ways that they are counted.
    pub fn doubts(&self, ways: &[&Sums]) -> Doubts {
        let mut doubts = Doubts(vec![true; self.0.len()]);
        for now in ways {
            doubts.0.iter_mut().zip(self.differences(now)).for_each(|(doubt, difference)| *doubt &= !is_of_one(difference));
        }
        doubts
    }

    /// Files that are not among those that sum up to `now`, each where it is the only one of its part.
    pub fn alone(&self, now: &Sums) -> Vec<PathSum> {
        let one = |difference: &u128| *difference != 0 && is_of_one(*difference);
        self.differences(now).filter(one).map(|difference| PathSum(difference as u32)).collect()
    }

    /// What is to be added to `now`, part by part.
    fn differences(&self, now: &Sums) -> impl Iterator<Item = u128> {
        let one = self.0.len() == 1;
        let sum = || vec![now.0.iter().fold(0, |sum: u128, part| sum.wrapping_add(*part))];
        let parts = if one { sum() } else { now.0.clone() };
        let digits = if one { u128::from(u64::MAX) } else { u128::MAX };
        self.0.iter().zip(parts).map(move |(were, are)| were.wrapping_sub(are) & digits)
    }
}

impl Doubts {
    pub fn hold(&self, key: &Key) -> bool {
        self.0[part(crc32(names::path(key).as_bytes()), self.0.len())]
    }

    pub fn any(&self) -> bool {
        self.0.contains(&true)
    }
}

impl TryFrom<Written> for Sums {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Sums, &'static str> {
        let text = match written {
            Written::One(sum) => return Ok(Sums(vec![sum.into()])),
            Written::Parts(text) if text.len() == PARTS * DIGITS && text.is_ascii() => text,
            Written::Parts(_) => return Err("not as many parts as there are"),
        };
        let part = |at: usize| u128::from_str_radix(&text[at * DIGITS..(at + 1) * DIGITS], 16);
        (0..PARTS).map(part).collect::<Result<_, _>>().map(Sums).map_err(|_| "no hexadecimal number")
    }
}

impl From<Sums> for Written {
    fn from(Sums(parts): Sums) -> Written {
        match parts[..] {
            [one] => Written::One(one as u64),
            _ => Written::Parts(parts.iter().map(|part| format!("{part:032x}")).collect()),
        }
    }
}

/// The part of a file, and what it adds to it.
fn adds(key: &Key, crc: u32) -> (usize, u128) {
    let path = crc32(names::path(key).as_bytes());
    let both = u64::from(crc) << 32 | u64::from(path);
    (part(path, PARTS), u128::from(mixed(both)) << 64 | u128::from(both))
}

/// Whether no more than one file adds it.
fn is_of_one(difference: u128) -> bool {
    (difference >> 64) as u64 == mixed(difference as u64)
}

fn part(path: u32, parts: usize) -> usize {
    path as usize % parts
}

/// No sum of some such numbers is another one; and nothing mixed up is nothing. As SplitMix64 ends.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    fn key(number: u32) -> Key {
        Key { resource: Resource::core("pods"), namespace: "ns".to_owned(), name: format!("p-{number}") }
    }

    fn of(files: impl IntoIterator<Item = (u32, u32)>) -> Sums {
        let mut sums = Sums::default();
        files.into_iter().for_each(|(number, crc)| sums.add(&key(number), crc));
        sums
    }

    fn all() -> impl Iterator<Item = (u32, u32)> {
        (0..1000).map(|number| (number, number * 7919))
    }

    /// As an older HEAD.json says it.
    fn one(sums: &Sums) -> Sums {
        Sums::try_from(Written::One(sums.0.iter().fold(0, |sum: u64, part| sum.wrapping_add(*part as u64)))).expect("a number")
    }

    /// So many parts are in doubt.
    fn check(then: &Sums, now: &Sums, parts: usize) {
        assert_eq!(then.doubts(&[now]).0.iter().filter(|doubt| **doubt).count(), parts);
        assert_eq!(then.are(now), then == now);
    }

    #[test]
    fn one_file_of_a_part_explains_itself_and_no_older_one() {
        let then = of(all());
        check(&then, &then, 0);
        let without = |gone: u32| all().filter(move |(number, _)| *number != gone);
        (0..1000).for_each(|gone| check(&then, &of(without(gone)), 0));
        // An older one, alone or beside one that is gone: of its part, or of another.
        let older = |(number, crc)| (number, if number == 5 { crc + 1 } else { crc });
        check(&then, &of(all().map(older)), 1);
        (0..1000).filter(|gone| *gone != 5).for_each(|gone| check(&then, &of(without(gone).map(older)), 1));
        // Put there, or two that changed places.
        check(&then, &of(all().chain([(1000, 5)])), 1);
        assert!(of([(1, 8), (2, 9)]).doubts(&[&of([(1, 9), (2, 8)])]).any());
        let two: Vec<u32> = (0..1000).filter(|number| then.doubts(&[&of(all().map(older))]).hold(&key(*number))).take(2).collect();
        check(&then, &of(all().filter(|(number, _)| !two.contains(number))), 1);
    }

    #[test]
    fn a_file_that_is_gone_alone_is_known_by_its_path() {
        let then = of(all());
        assert_eq!(then.alone(&then), []);
        let path = |number: u32| PathSum::of(&names::path(&key(number)));
        for gone in 0..1000 {
            let mut now = of(all().filter(|(number, _)| *number != gone));
            assert_eq!(then.alone(&now), [path(gone)]);
            // Of another that came nothing is said.
            now.add(&key(2000), 7);
            assert!(then.alone(&now).iter().all(|alone| *alone == path(gone)));
        }
        assert_eq!(one(&then).alone(&of(all().skip(1))), []);
    }

    #[test]
    fn the_sum_of_an_older_master_tells_a_difference_and_no_part() {
        let then = one(&of(all()));
        assert!(then.are(&of(all())) && !then.doubts(&[&of(all())]).any());
        let now = of(all().skip(1));
        assert!(!then.are(&now) && then.doubts(&[&now]).hold(&key(500)));
    }

    #[test]
    fn they_are_written_and_read() {
        for sums in [of(all()), Sums::default(), one(&of(all()))] {
            let text = serde_json::to_string(&sums).expect("plain");
            assert_eq!(serde_json::from_str::<Sums>(&text).expect("as it was written"), sums);
        }
        for text in ["\"\"", "\"00\"", "null", "-1", &format!("\"{}\"", "g".repeat(PARTS * DIGITS))] {
            assert!(serde_json::from_str::<Sums>(text).is_err(), "{text}");
        }
    }
}
