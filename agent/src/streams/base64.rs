//! PURE. Base64 that comes in pieces.

/// The undecoded rest of the last piece.
#[derive(Debug, Default)]
pub struct Base64 {
    letters: Vec<u8>,
    broken: bool,
}

impl Base64 {
    /// The bytes that are whole with these letters; nothing from the first that is none.
    pub fn take(&mut self, letters: &[u8]) -> Vec<u8> {
        if self.broken {
            return Vec::new();
        }
        self.letters.extend(letters.iter().filter(|letter| !b"\r\n".contains(letter)));
        let whole = self.letters.len() / 4 * 4;
        let rest = self.letters.split_off(whole);
        let whole = std::mem::replace(&mut self.letters, rest);
        let decoded = std::str::from_utf8(&whole).ok().and_then(|text| coracle_schema::base64::decode(text).ok());
        self.broken = decoded.is_none();
        decoded.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let text = b"Zm9v\nYmFyCg==";
        for length in 1..=text.len() {
            let mut base64 = Base64::default();
            let bytes: Vec<u8> = text.chunks(length).flat_map(|piece| base64.take(piece)).collect();
            assert_eq!(bytes, b"foobar\n", "{length}");
        }
        let mut base64 = Base64::default();
        assert_eq!((base64.take(b"Zm9v????"), base64.take(b"Zm9v")), (vec![], vec![]));
    }
}
