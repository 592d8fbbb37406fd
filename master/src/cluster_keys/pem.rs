//! PURE. PEM around DER.

use coracle_schema::base64;

/// Of a line in PEM.
const LINE_LETTERS: usize = 64;
/// The most PEM blocks in one text.
const BLOCKS_MAX: usize = 100;

/// `-----BEGIN label-----`.
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(LINE_LETTERS) {
        pem.extend(line.iter().map(|letter| char::from(*letter)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// The content of the first block with this label.
pub fn unpem(label: &str, pem: &str) -> Option<Vec<u8>> {
    blocks(label, pem).next()
}

/// The contents of the blocks with this label. A block that is not Base64 ends the list.
pub fn blocks<'t>(label: &str, pem: &'t str) -> impl Iterator<Item = Vec<u8>> + use<'t> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let mut rest = pem;
    let next = move || {
        let (_, begun) = rest.split_once(&begin)?;
        let (text, after) = begun.split_once(&end)?;
        rest = after;
        let text: String = text.split_ascii_whitespace().collect();
        base64::decode(&text).ok()
    };
    std::iter::from_fn(next).take(BLOCKS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let written = format!("text\n{}{}{}", pem("A", &[7; 100]), pem("B", b"no"), pem("A", b"x"));
        assert!(written.lines().all(|line| line.len() <= LINE_LETTERS), "{written}");
        assert_eq!(blocks("A", &written).collect::<Vec<_>>(), [vec![7; 100], b"x".to_vec()]);
        assert_eq!((unpem("B", &written), unpem("C", &written)), (Some(b"no".to_vec()), None));
        assert_eq!(unpem("A", "-----BEGIN A-----\n?\n-----END A-----"), None);
        assert_eq!(unpem("A", "-----BEGIN A-----\n"), None);
    }
}
