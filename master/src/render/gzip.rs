//! Compresses large answers for clients that accept gzip. PURE.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Smaller answers cost more time than they save, as Kubernetes found.
const BYTES_MIN: usize = 128 << 10;
/// The fastest: a list shrinks to a tenth, and better ones win little.
const LEVEL: u32 = 1;

/// Whether an answer of this size is compressed for clients that accept gzip.
pub fn is_worth(bytes: usize) -> bool {
    bytes >= BYTES_MIN
}

/// `accepted`: the Accept-Encoding header.
pub fn is_accepted(accepted: &str) -> bool {
    accepted.split(',').any(|encoding| encoding.trim() == "gzip")
}

pub fn compressed(bytes: usize, pieces: impl Iterator<Item = Bytes>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes / 8), Compression::new(LEVEL));
    for piece in pieces {
        encoder.write_all(&piece).expect("a Vec takes all");
    }
    encoder.finish().expect("a Vec takes all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn large_answers_to_those_who_ask() {
        let (large, small) = (vec![b'a'; BYTES_MIN], vec![b'a'; BYTES_MIN - 1]);
        for (accepted, answer, expected) in [
            ("gzip", &large, true),
            ("deflate, gzip", &large, true),
            ("gzip", &small, false),
            ("", &large, false),
            ("identity", &large, false),
            ("gzip;q=0", &large, false),
        ] {
            assert_eq!(is_worth(answer.len()) && is_accepted(accepted), expected, "{accepted}");
            let compressed = compressed(answer.len(), answer.chunks(1000).map(Bytes::copy_from_slice));
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&*compressed).read_to_end(&mut text).unwrap();
            assert!(text == *answer && compressed.len() < answer.len() / 10);
        }
    }
}
