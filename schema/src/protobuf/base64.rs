//! Bytes as JSON writes them.

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

/// None where the text is no base64. Line ends are passed over, as Go does.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text[..text.len() - padding].chunks(4) {
        let mut word = 0u32;
        for (at, byte) in chunk.iter().enumerate() {
            word |= value(*byte)? << (18 - 6 * at);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
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
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob", "Zm9vYg=="), (&[0, 255, 254], "AP/+")]
        {
            assert_eq!((encode(bytes).as_str(), decode(text).as_deref()), (text, Some(bytes)));
        }
        assert_eq!(decode("Zm9\nv"), Some(b"foo".to_vec()));
        for text in ["Z", "Zg=", "Zg=a", "Z===", "Zm9v=", "Zm 9", "====", "Z\u{e4}=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
