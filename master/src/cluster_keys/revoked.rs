//! PURE. The serial numbers of certificates that count no more: one in a line, in hexadecimal digits, behind it the
//! user, and `superseded` where newer certificates took its place. Both programs read the list. A certificate never
//! ends by a date that nobody asked for, so that this list is what ends it.

use std::collections::BTreeMap;

/// Serial numbers in one list; each takes some 100 bytes.
pub const REVOKED_MAX: usize = 50_000;
/// Superseded serial numbers in one list. The other places are for serial numbers that people revoke.
pub const SUPERSEDED_MAX: usize = 25_000;
const SUPERSEDED: &str = " superseded";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedList {
    /// By number, without leading zeros.
    serials: BTreeMap<Vec<u8>, Revoked>,
    superseded: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Revoked {
    user: String,
    superseded: bool,
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
            match user.strip_suffix(SUPERSEDED) {
                Some(user) => list.put(&serial, user, true)?,
                None => list.put(&serial, user.trim(), false)?,
            }
        }
        Ok(list)
    }

    pub fn text(&self) -> String {
        let line = |(serial, of): (&Vec<u8>, &Revoked)| {
            format!("{} {}{}\n", hex(serial), of.user, if of.superseded { SUPERSEDED } else { "" })
        };
        let lines = self.serials.iter().map(line);
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
        self.put(serial, user, false)
    }

    /// Ends a certificate whose place a newer one takes.
    pub fn supersede(&mut self, serial: &[u8], user: &str) -> Result<(), String> {
        if self.superseded >= SUPERSEDED_MAX && !self.holds(serial) {
            return Err(format!(
                "{SUPERSEDED_MAX} certificates of nodes were superseded, which is the most: somebody asks for \
                 certificates again and again; revoke that token or user, and renew the authority \
                 (`coracle-master keys renew-ca`)"
            ));
        }
        self.put(serial, user, true)
    }

    fn put(&mut self, serial: &[u8], user: &str, superseded: bool) -> Result<(), String> {
        if self.serials.len() >= REVOKED_MAX && !self.holds(serial) {
            return Err(format!(
                "it holds {REVOKED_MAX} serial numbers already, which is the most: renew the authority \
                 (`coracle-master keys renew-ca`)"
            ));
        }
        // A name is one word of a line.
        let user = user.split_whitespace().collect::<Vec<_>>().join("_");
        let before = self.serials.insert(bare(serial).to_vec(), Revoked { user, superseded });
        self.superseded += usize::from(superseded);
        self.superseded -= usize::from(before.is_some_and(|before| before.superseded));
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
        assert_eq!(read.superseded, 0);
        list.supersede(&[0x90], "system:node:n").expect("room");
        list.supersede(&[0x90], "system:node:n").expect("it is there already");
        let text = list.text();
        assert!(text.ends_with("80 \n90 system:node:n superseded\n"), "{text}");
        let again = RevokedList::parse(&text).expect("a list");
        assert_eq!((again.superseded, again.holds(&[0x90])), (1, true));
        assert_eq!(again, list);
        for (serial, expected) in [(&[0x4a, 1][..], true), (&[0, 0, 0x4a, 1], true), (&[0x4a], false), (&[], false)] {
            assert_eq!(read.holds(serial), expected, "{serial:?}");
        }
    }

    /// Whoever asks for certificates without end leaves room for what people revoke.
    #[test]
    fn superseded_certificates_do_not_fill_it() {
        let mut list = RevokedList::default();
        let serial = |number: usize| u32::try_from(number + 1).expect("small").to_be_bytes();
        for number in 0..SUPERSEDED_MAX {
            list.supersede(&serial(number), "n").expect("room");
        }
        let why = list.supersede(&serial(SUPERSEDED_MAX), "n").expect_err("too many");
        assert!(why.contains("keys renew-ca"), "{why}");
        list.add(&serial(SUPERSEDED_MAX), "ann").expect("room for people");
    }

    #[test]
    fn a_line_that_is_none_is_no_empty_list() {
        for bad in ["4", "4g", "serial 4a", "ff\nä"] {
            assert!(RevokedList::parse(bad).is_err(), "{bad}");
        }
        assert!(RevokedList::parse("\n# x\n").expect("empty").is_empty());
    }
}
