//! Answers that are worth it are compressed for clients that say they can read that. PURE.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Smaller answers cost more time than they save, as Kubernetes found.
const BYTES_MIN: usize = 128 << 10;
/// The fastest: a list shrinks to a tenth, and better ones win little.
const LEVEL: u32 = 1;

/// The compressed answer; none where it is not worth it or not asked for. `accepted`: the Accept-Encoding header.
pub fn worth(accepted: &str, answer: &[u8]) -> Option<Vec<u8>> {
    if answer.len() < BYTES_MIN || !accepted.split(',').any(|encoding| encoding.trim() == "gzip") {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(answer.len() / 8), Compression::new(LEVEL));
    encoder.write_all(answer).ok()?;
    encoder.finish().ok()
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
            let found = worth(accepted, answer);
            assert_eq!(found.is_some(), expected, "{accepted}");
            if let Some(compressed) = found {
                let mut text = Vec::new();
                flate2::read::GzDecoder::new(&*compressed).read_to_end(&mut text).unwrap();
                assert!(text == *answer && compressed.len() < answer.len() / 10);
            }
        }
    }
}
