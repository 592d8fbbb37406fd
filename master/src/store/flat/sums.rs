//! PURE. One number over all objects' files: a start sees by it whether any file is another than it was.
//!
//! Each file adds the checksums of path and content, so that the order does not matter, and a changed file removes the
//! old pair and adds the new pair.

use super::document::crc32;
use super::names;
use coracle_api::meta::Key;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "u64")]
pub struct Sums(u64);

/// As HEAD.json says it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(u64),
    /// An older master wrote it in parts, each twice as long, of which the second half counts here.
    Parts(String),
}

/// Hexadecimal digits of a part.
const PART_DIGITS: usize = 32;

impl Sums {
    pub fn add(&mut self, key: &Key, crc: u32) {
        self.0 = self.0.wrapping_add(adds(key, crc));
    }

    pub fn plus(self, other: Sums) -> Sums {
        Sums(self.0.wrapping_add(other.0))
    }

    pub fn take(&mut self, key: &Key, crc: u32) {
        self.0 = self.0.wrapping_sub(adds(key, crc));
    }
}

impl TryFrom<Written> for Sums {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Sums, &'static str> {
        let text = match written {
            Written::One(sum) => return Ok(Sums(sum)),
            Written::Parts(text) if !text.is_empty() && text.len().is_multiple_of(PART_DIGITS) && text.is_ascii() => {
                text
            }
            Written::Parts(_) => return Err("no parts of a sum"),
        };
        let part =
            |at: usize| u128::from_str_radix(&text[at..at + PART_DIGITS], 16).map_err(|_| "no hexadecimal number");
        (0..text.len()).step_by(PART_DIGITS).try_fold(Sums(0), |sum, at| Ok(Sums(sum.0.wrapping_add(part(at)? as u64))))
    }
}

impl From<Sums> for u64 {
    fn from(Sums(sum): Sums) -> u64 {
        sum
    }
}

fn adds(key: &Key, crc: u32) -> u64 {
    u64::from(crc) << 32 | u64::from(crc32(names::path(key).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    fn of(files: impl IntoIterator<Item = (u32, u32)>) -> Sums {
        let key = |number: u32| Key {
            resource: Resource::core("pods"),
            namespace: "ns".to_owned(),
            name: format!("p-{number}"),
        };
        let mut sums = Sums::default();
        files.into_iter().for_each(|(number, crc)| sums.add(&key(number), crc));
        sums
    }

    #[test]
    fn a_file_that_is_another_or_gone_shows_and_order_does_not() {
        let all = || (0..100).map(|number| (number, number * 7919));
        assert_eq!(of(all()), of((0..100).rev().map(|number| (number, number * 7919))));
        for other in 0..100 {
            assert_ne!(of(all()), of(all().filter(|(number, _)| *number != other)));
            assert_ne!(of(all()), of(all().map(|(number, crc)| (number, if number == other { crc + 1 } else { crc }))));
        }
    }

    #[test]
    fn it_is_written_as_a_number_and_read_in_parts_as_well() {
        let sum = of([(1, 8), (2, 9)]);
        let text = serde_json::to_string(&sum).expect("plain");
        assert_eq!(text, sum.0.to_string());
        assert_eq!(serde_json::from_str::<Sums>(&text).expect("as it was written"), sum);
        // One part for each file, with what is mixed up of it before, and one of no file.
        let parts = [of([(1, 8)]), of([(2, 9)]), Sums(0)].map(|Sums(part)| format!("{:016x}{part:016x}", 77)).concat();
        assert_eq!(serde_json::from_str::<Sums>(&format!("{parts:?}")).expect("the form of before"), sum);
        for text in ["\"\"", "\"00\"", "null", "-1", &format!("\"{}\"", "g".repeat(64))] {
            assert!(serde_json::from_str::<Sums>(text).is_err(), "{text}");
        }
    }
}
