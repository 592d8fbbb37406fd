//! PURE. Sizes of a terminal as clients send them: a sequence of JSON documents.

use crate::runtime::conversation::Size;

/// The most bytes of an incomplete size.
const UNREAD_BYTES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub struct Sizes {
    unread: Vec<u8>,
}

impl Sizes {
    /// The sizes that are complete with these bytes; other input is skipped.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Size> {
        self.unread.extend_from_slice(bytes);
        let mut documents = serde_json::Deserializer::from_slice(&self.unread).into_iter::<Size>();
        let mut sizes = Vec::new();
        let read = loop {
            match documents.next() {
                Some(Ok(size)) => sizes.push(size),
                Some(Err(error)) if error.is_eof() && self.unread.len() <= UNREAD_BYTES_MAX => {
                    break documents.byte_offset();
                }
                Some(Err(_)) | None => break self.unread.len(),
            }
        };
        self.unread.drain(..read);
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_however_they_are_cut() {
        let text = b"{\"Width\":97,\"Height\":31}\n{\"Width\":80,\"Height\":24}";
        for length in 1..=text.len() {
            let mut sizes = Sizes::default();
            let read: Vec<Size> = text.chunks(length).flat_map(|piece| sizes.take(piece)).collect();
            assert_eq!(read, [Size { width: 97, height: 31 }, Size { width: 80, height: 24 }], "{length}");
        }
        let mut sizes = Sizes::default();
        assert_eq!(sizes.take(b"nonsense"), []);
        assert_eq!(sizes.take(&[b'['; 2 * UNREAD_BYTES_MAX]), []);
        assert_eq!(sizes.take(b"{\"Width\":1,\"Height\":2}"), [Size { width: 1, height: 2 }]);
    }
}
