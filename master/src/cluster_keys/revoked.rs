//! PURE. The serial numbers of certificates that count no more: one in a line, in hexadecimal digits, behind it the
//! user. Both programs read the list. A certificate never ends by a date that nobody asked for, so that this list is
//! what ends it.

use std::collections::BTreeMap;

/// Serial numbers in one list; each takes some 100 bytes.
pub const REVOKED_MAX: usize = 50_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedList {
    /// By number, without leading zeros: the name of the user.
    serials: BTreeMap<Vec<u8>, String>,
}

impl RevokedList {
    /// `Err`: a line that is none. A list that cannot be read must not be taken for an empty one.
    pub fn parse(text: &str) -> Result<RevokedList, String> {
        let mut list = RevokedList::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (digits, user) = line.split_once(' ').unwrap_or((line, ""));
            let serial = from_hex(digits)
                .ok_or_else(|| format!("line {}: {digits:?} is no serial number in hexadecimal digits", at + 1))?;
            list.add(&serial, user.trim())?;
        }
        Ok(list)
    }

    pub fn text(&self) -> String {
        let lines = self.serials.iter().map(|(serial, user)| format!("{} {user}\n", hex(serial)));
        format!("# Certificates that count no more: serial number and user.\n{}", lines.collect::<String>())
    }

    pub fn holds(&self, serial: &[u8]) -> bool {
        self.serials.contains_key(bare(serial))
    }

    pub fn len(&self) -> usize {
        self.serials.len()
    }

    pub fn is_empty(&self) -> bool {
        self.serials.is_empty()
    }

    /// `user`: for people.
    pub fn add(&mut self, serial: &[u8], user: &str) -> Result<(), String> {
        if self.serials.len() >= REVOKED_MAX && !self.holds(serial) {
            return Err(format!(
                "it holds {REVOKED_MAX} serial numbers already, which is the most: change the authority"
            ));
        }
        // A name is one word of a line.
        let user = user.split_whitespace().collect::<Vec<_>>().join("_");
        self.serials.insert(bare(serial).to_vec(), user);
        Ok(())
    }
}

fn bare(serial: &[u8]) -> &[u8] {
    let first = serial.iter().position(|byte| *byte != 0).unwrap_or(serial.len());
    &serial[first..]
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let is_hex = !digits.is_empty() && digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hex {
        return None;
    }
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let mut list = RevokedList::default();
        list.add(&[0, 0x4a, 1], "ann of sales").expect("room");
        list.add(&[0x80], "").expect("room");
        let text = list.text();
        assert!(text.ends_with("4a01 ann_of_sales\n80 \n"), "{text}");
        let read = RevokedList::parse(&text).expect("a list");
        assert_eq!(read, list);
        for (serial, expected) in [(&[0x4a, 1][..], true), (&[0, 0, 0x4a, 1], true), (&[0x4a], false), (&[], false)] {
            assert_eq!(read.holds(serial), expected, "{serial:?}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_no_empty_list() {
        for bad in ["4", "4g", "serial 4a", "ff\nä"] {
            assert!(RevokedList::parse(bad).is_err(), "{bad}");
        }
        assert!(RevokedList::parse("\n# x\n").expect("empty").is_empty());
    }
}
