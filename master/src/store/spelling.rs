//! PURE. Names of files as text, whatever bytes they are, and back.

use std::borrow::Cow;

/// Where bytes of names stand that are no UTF-8: 256 characters that mean nothing of their own. What has one of those itself, or would break
/// a line, is told byte by byte, too, so that `raw` gives every name back.
const RAW: u32 = 0xf700;

pub fn told(name: &[u8]) -> String {
    let mut told = String::with_capacity(name.len());
    let raw = |byte: u8| char::from_u32(RAW + u32::from(byte)).expect("a private character");
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if byte_of(c).is_some() || c.is_control() {
                told.extend(c.to_string().bytes().map(raw));
            } else {
                told.push(c);
            }
        }
        told.extend(chunk.invalid().iter().map(|byte| raw(*byte)));
    }
    told
}

pub fn raw(told: &str) -> Cow<'_, [u8]> {
    if told.is_ascii() {
        return Cow::Borrowed(told.as_bytes());
    }
    let mut raw = Vec::with_capacity(told.len());
    for c in told.chars() {
        match byte_of(c) {
            Some(byte) => raw.push(byte),
            None => raw.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(raw)
}

fn byte_of(c: char) -> Option<u8> {
    u32::from(c).checked_sub(RAW).and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for name in
            [&b"web.json"[..], b"caf\xc3\xa9", b"caf\xe9", b"\xff\xfe\x80", b"", "\u{f700}\u{f7ff}\u{f800}x".as_bytes(), b"\xef\x9c"]
        {
            let told = told(name);
            assert_eq!(&*raw(&told), name, "{told:?}");
        }
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(&*raw(&told(&all)), all);
        assert!(!told(&all).contains(char::is_control), "a name breaks no line");
        assert_eq!(told("caf\u{e9}".as_bytes()), "caf\u{e9}");
    }
}
