//! Bytes as JSON writes them (RFC 4648, with padding).

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

/// The bytes, or where the text stops being base64, as Go counts. Line ends are passed over, as Go does.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut letters = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    loop {
        let (mut word, mut read) = (0u32, 0);
        while read < 4 {
            match letters.next() {
                None if read == 0 => return Ok(bytes),
                None => return Err(text.len() - read),
                Some((at, b'=')) => return padded(word, read, at, letters, bytes),
                Some((at, letter)) => word |= value(letter).ok_or(at)? << (18 - 6 * read),
            }
            read += 1;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..]);
    }
}

/// The end of a text: one or two signs after three or two letters, and nothing behind.
fn padded(
    word: u32,
    read: usize,
    at: usize,
    mut rest: impl Iterator<Item = (usize, u8)>,
    mut bytes: Vec<u8>,
) -> Result<Vec<u8>, usize> {
    if read < 2 {
        return Err(at);
    }
    if read == 2 {
        match rest.next() {
            Some((_, b'=')) => {}
            Some((at, _)) => return Err(at),
            None => return Err(at + 1),
        }
    }
    if let Some((at, _)) = rest.next() {
        return Err(at);
    }
    bytes.extend_from_slice(&word.to_be_bytes()[1..read]);
    Ok(bytes)
}

fn value(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (&[0, 255, 254], "AP/+"),
        ] {
            assert_eq!((encode(bytes).as_str(), decode(text).as_deref()), (text, Ok(bytes)));
        }
        assert_eq!(decode("Zm9\nv"), Ok(b"foo".to_vec()));
        for (text, at) in [
            ("Z", 0),
            ("AAAAZg", 4),
            ("Zg=", 3),
            ("Zg=a", 3),
            ("Z===", 1),
            ("Zm9v=", 4),
            ("Zm 9", 2),
            ("????", 0),
            ("not base64!", 3),
        ] {
            assert_eq!(decode(text), Err(at), "{text}");
        }
    }
}
