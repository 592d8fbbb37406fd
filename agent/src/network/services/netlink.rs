//! Messages that the kernel's netfilter takes and gives over netlink. PURE.

use std::collections::BTreeMap;

const HEADER: usize = 16;
/// The header of netfilter's messages: address family, version, number.
const FAMILY: usize = 4;
pub const INET: u8 = 2;
/// Of no address family alone.
pub const ANY: u8 = 0;
pub const ERROR: u16 = 2;
pub const DONE: u16 = 3;
pub const REQUEST: u16 = 1;
pub const ACKNOWLEDGE: u16 = 4;
pub const DUMP: u16 = 0x300;
/// The kernel's mark on attributes that contain attributes.
pub const NESTED: u16 = 0x8000;

/// A message of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'b> {
    /// Its kind and attributes.
    Content(u16, &'b [u8]),
    /// The kernel has said all, or that it will not: a number of errno, zero where all is well.
    End(i32),
}

pub fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + FAMILY + attributes.len()).unwrap_or(u32::MAX);
    let header =
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &1_u32.to_ne_bytes(), &[0; 4]].concat();
    [&header[..], &[family, 0, 0, 0], attributes].concat()
}

/// Splits a received packet into its messages. A truncated message is left out.
pub fn messages(mut bytes: &[u8]) -> Vec<Message<'_>> {
    let mut all = Vec::new();
    while let (Some(length), Some(kind)) = (number(bytes, 0), short(bytes, 4)) {
        let Some(content) = bytes.get(HEADER..length) else { break };
        match kind {
            DONE => all.push(Message::End(0)),
            ERROR => all.push(Message::End(number(content, 0).map_or(0, |code| (code as u32 as i32).wrapping_neg()))),
            _ => all.extend(content.get(FAMILY..).map(|attributes| Message::Content(kind, attributes))),
        }
        bytes = bytes.get(padded(length)..).unwrap_or_default();
    }
    all
}

pub fn number(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?)).ok()
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Each attribute with its header, and its content.
pub fn attributes(mut bytes: &[u8]) -> BTreeMap<u16, (&[u8], &[u8])> {
    let mut found = BTreeMap::new();
    while let (Some(length), Some(kind)) = (short(bytes, 0).map(usize::from), short(bytes, 2)) {
        let (Some(whole), Some(content)) = (bytes.get(..length), bytes.get(4..length)) else { break };
        found.insert(kind & !NESTED, (whole, content));
        bytes = bytes.get(padded(length)..).unwrap_or_default();
    }
    found
}

/// Asks for the generation of the nftables rules: every change by any program counts.
pub fn generation() -> Vec<u8> {
    const GET_GENERATION: u16 = 0xa10;
    message(GET_GENERATION, REQUEST, ANY, &[])
}

/// The generation, or the kernel's error.
pub fn read_generation(bytes: &[u8]) -> Option<Result<u32, i32>> {
    const NEW_GENERATION: u16 = 0xa0f;
    const NUMBER: u16 = 1;
    messages(bytes).into_iter().find_map(|message| match message {
        Message::End(code) => Some(Err(code)),
        Message::Content(NEW_GENERATION, content) => {
            Some(Ok(u32::from_be_bytes(attributes(content).get(&NUMBER)?.1.try_into().ok()?)))
        }
        Message::Content(..) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_rules_have_changed() {
        let answer = message(0xa0f, 0, ANY, &[8, 0, 1, 0, 0, 0, 1, 2, 8, 0, 2, 0, 0, 0, 0, 9]);
        assert_eq!(read_generation(&answer), Some(Ok(258)));
        let refused = message(ERROR, 0, 0xff, &[0; 4]);
        assert!(matches!(read_generation(&refused), Some(Err(_))), "{refused:?}");
        assert_eq!(read_generation(&message(0xa0f, 0, ANY, &[])), None);
        for length in 0..28 {
            assert_eq!(read_generation(&answer[..length]), None, "{length}");
        }
    }
}
