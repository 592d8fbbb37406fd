//! Certificates and keys in PEM, as far as telling whether a key is a certificate's: the frames, the few fields of
//! their DER that hold public keys, and the words of Go for what is wrong. PURE.

use super::doc::text;
use coracle_schema::base64;
use serde_json::Value;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const EDWARDS: &[u8] = &[0x2b, 0x65, 0x70];

/// The DER tags of the types.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, and the public key within a private one.
const FIRST: u8 = 0xa0;
const SECOND: u8 = 0xa1;

/// The maximum number of types of skipped blocks in a message.
const SKIPPED_MAX: usize = 16;
/// The maximum number of skipped blocks without an end or with invalid content: each such block makes the parser read
/// the rest of the text.
const BROKEN_MAX: usize = 8;

/// The facts about a key, private or public.
#[derive(Debug, PartialEq)]
enum Key<'d> {
    Rsa(&'d [u8]),
    /// A point; a private key may leave it out.
    Elliptic(Option<&'d [u8]>),
    Edwards,
    Other,
}

/// The message for a Secret whose certificate and key do not match.
pub fn advice(secret: &Value) -> Vec<String> {
    let data = |key: &str| {
        base64::decode(secret["data"][key].as_str()?).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    match (text(secret, "type"), data("tls.crt"), data("tls.key")) {
        ("kubernetes.io/tls", Some(certificate), Some(key)) => mismatch(&certificate, &key).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Why a key is not that of a certificate, in Go's words; None where it is, or where only a computation could tell.
pub fn mismatch(certificate: &str, key: &str) -> Option<String> {
    let mut skipped = Vec::new();
    let Some(certificate) = block(certificate, |kind| kind == "CERTIFICATE", &mut skipped) else {
        return Some(match &skipped[..] {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if one.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a \
                                                      private key; PEM inputs may have been switched"
                    .to_owned()
            }
            all => {
                let passed = "in certificate input after skipping PEM blocks of the following types";
                format!("tls: failed to find \"CERTIFICATE\" PEM block {passed}: [{}]", all.join(" "))
            }
        });
    };
    let mut skipped = Vec::new();
    let Some(key) = block(key, |kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY"), &mut skipped) else {
        return Some(match &skipped[..] {
            [] => "tls: failed to find any PEM data in key input".to_owned(),
            [one] if one == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
            }
            all => {
                let passed = "in key input after skipping PEM blocks of the following types";
                format!(
                    "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" {passed}: [{}]",
                    all.join(" ")
                )
            }
        });
    };
    let Some(public) = of_certificate(&certificate) else { return Some("x509: malformed certificate".to_owned()) };
    let Some(private) = of_private(&key) else { return Some("tls: failed to parse private key".to_owned()) };
    match (public, private) {
        (Key::Other, _) => Some("tls: unknown public key algorithm".to_owned()),
        (Key::Rsa(a), Key::Rsa(b)) if a != b => Some("tls: private key does not match public key".to_owned()),
        (Key::Elliptic(a), Key::Elliptic(Some(b))) if a != Some(b) => {
            Some("tls: private key does not match public key".to_owned())
        }
        (Key::Rsa(_), Key::Rsa(_)) | (Key::Elliptic(_), Key::Elliptic(_)) | (Key::Edwards, Key::Edwards) => None,
        _ => Some("tls: private key type does not match public key type".to_owned()),
    }
}

/// The content of a text that is one block with this label: BEGIN and END on lines of their own, Base64 between them,
/// and blanks alone outside. Admission and the signer read requests by this rule, so that both see the same bytes.
pub fn only_block(label: &str, text: &str) -> Option<Vec<u8>> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let mut lines = text.lines().map(str::trim_ascii_end).skip_while(|line| line.is_empty());
    if lines.next()? != begin {
        return None;
    }
    let mut body = String::new();
    loop {
        let line = lines.next()?;
        if line == end {
            break;
        }
        body.push_str(line);
    }
    let content = base64::decode(&body).ok()?;
    (lines.all(str::is_empty) && !content.is_empty()).then_some(content)
}

/// The content of the first block of a wanted type; the types of earlier blocks are added to `skipped`.
fn block(text: &str, wanted: impl Fn(&str) -> bool, skipped: &mut Vec<String>) -> Option<Vec<u8>> {
    let (mut lines, mut broken) = (text.lines(), 0);
    while let Some(line) = lines.next().filter(|_| broken < BROKEN_MAX) {
        let Some(kind) = line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {kind}-----");
        let (mut ahead, mut body, mut ended) = (lines.clone(), String::new(), false);
        for line in ahead.by_ref() {
            if line.trim_end() == end {
                ended = true;
                break;
            }
            // Fields stand before the content.
            if !line.contains(':') {
                body.extend(line.chars().filter(|c| !c.is_whitespace()));
            }
        }
        let Some(content) = ended.then(|| base64::decode(&body).ok()).flatten() else {
            broken += 1;
            continue;
        };
        lines = ahead;
        if wanted(kind) {
            return Some(content);
        }
        if skipped.len() < SKIPPED_MAX {
            skipped.push(kind.to_owned());
        }
    }
    None
}

/// The first element if it is of this type, and the rest.
fn read(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

fn skip(der: &[u8], tag: u8) -> Option<&[u8]> {
    read(der, tag).map(|(_, rest)| rest)
}

fn of_certificate(der: &[u8]) -> Option<Key<'_>> {
    let (certificate, behind) = read(der, SEQUENCE)?;
    let (mut fields, _) = read(certificate, SEQUENCE)?;
    if let Some(rest) = skip(fields, FIRST) {
        fields = rest;
    }
    // The number, the algorithm, who issued it, how long it counts, and for whom.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        fields = skip(fields, tag)?;
    }
    let (info, _) = read(fields, SEQUENCE)?;
    let (algorithm, bits) = read(info, SEQUENCE)?;
    let (_, bits) = read(bits, BITS)?.0.split_first()?;
    behind.is_empty().then_some(match read(algorithm, OID)?.0 {
        RSA => Key::Rsa(modulus(read(bits, SEQUENCE)?.0)?),
        ELLIPTIC => Key::Elliptic(Some(bits)),
        EDWARDS => Key::Edwards,
        _ => Key::Other,
    })
}

fn of_private(der: &[u8]) -> Option<Key<'_>> {
    let (fields, _) = read(der, SEQUENCE)?;
    let (version, rest) = read(fields, INTEGER)?;
    // PKCS #8 names the algorithm, and wraps the form that goes with it.
    if let Some((algorithm, rest)) = read(rest, SEQUENCE) {
        let (inner, _) = read(rest, OCTETS)?;
        return match read(algorithm, OID)?.0 {
            RSA => of_private(inner).filter(|key| matches!(key, Key::Rsa(_))),
            ELLIPTIC => of_private(inner).filter(|key| matches!(key, Key::Elliptic(_))),
            EDWARDS => Some(Key::Edwards),
            _ => None,
        };
    }
    match version {
        [0] => Some(Key::Rsa(modulus(rest)?)),
        [1] => {
            let mut rest = skip(rest, OCTETS)?;
            if let Some(behind) = skip(rest, FIRST) {
                rest = behind;
            }
            let point = read(rest, SECOND).and_then(|(inner, _)| Some(read(inner, BITS)?.0.split_first()?.1));
            Some(Key::Elliptic(point))
        }
        _ => None,
    }
}

fn modulus(der: &[u8]) -> Option<&[u8]> {
    Some(read(der, INTEGER)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of curve P-256, made for this test: a certificate, its key in two forms, and another key.
    const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIUIS2OvVB3JUK5mCrAl7B8hDqYGVYwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAeFw0yNjExMjMwMTQ0NDBaFw0zNjExMjAwMTQ0NDBaMAwx
CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARqaKL7FEgrxw6J
lBJeUHmWU1hCWy2KCANVrBqsn7jpsDdSIEl1sFtNImaD70ir+9JHGV2wZj5vJqOH
m8/MV5Yzo1MwUTAdBgNVHQ4EFgQUTz/39y1e0d6qjzv+Yc/Ia+QX5mAwHwYDVR0j
BBgwFoAUTz/39y1e0d6qjzv+Yc/Ia+QX5mAwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiEAgn9+ozJDG5h2cXMjYVgPvorMSCgceocVgG0eqJC/zSMC
IHH52gN7vFPJpfRk0wANPBfKvTsoLGnOjNt54AXbiGa3
-----END CERTIFICATE-----
";
    const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0+uqJVldFLb3BcQg
6h+jruZSg1zL3MQmArLlCQASsWWhRANCAARqaKL7FEgrxw6JlBJeUHmWU1hCWy2K
CANVrBqsn7jpsDdSIEl1sFtNImaD70ir+9JHGV2wZj5vJqOHm8/MV5Yz
-----END PRIVATE KEY-----
";
    const OLD_KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEINPrqiVZXRS29wXEIOofo67mUoNcy9zEJgKy5QkAErFloAoGCCqGSM49
AwEHoUQDQgAEamii+xRIK8cOiZQSXlB5llNYQlstiggDVawarJ+46bA3UiBJdbBb
TSJmg+9Iq/vSRxldsGY+byajh5vPzFeWMw==
-----END EC PRIVATE KEY-----
";
    const OTHER: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIEsBKexxJVgYZng9lwAtgf7A1p8USalr8X04IkH0eEt5oAoGCCqGSM49
AwEHoUQDQgAEDsDbNGq/lMOyvDFZ6KWkoiafZuKAcfpaWXMIEUM9jQ96sCxNwIBE
gcpNd/monCk50ZziEztFZQfO98lzeEQabw==
-----END EC PRIVATE KEY-----
";

    /// Without a limit each of these lines makes the parser read the rest: a megabyte of such lines took minutes.
    #[test]
    fn blocks_without_an_end_are_few() {
        let beginnings = "-----BEGIN A-----\n".repeat(50_000);
        assert!(
            mismatch(&beginnings, "x")
                .is_some_and(|found| found.contains("failed to find any PEM data in certificate input"))
        );
        let few = "-----BEGIN A-----\n".repeat(BROKEN_MAX - 1);
        assert_eq!(mismatch(&format!("{few}{CERTIFICATE}"), &format!("{few}{KEY}")), None);
    }

    #[test]
    fn keys_of_certificates() {
        let junk = |kind: &str| format!("-----BEGIN {kind}-----\nMIIB\n-----END {kind}-----\n");
        let of = |certificate: &str, key: &str, expected: Option<&str>| {
            let found = mismatch(certificate, key);
            assert!(
                found.as_deref().is_none_or(|found| expected.is_some_and(|expected| found.contains(expected))),
                "{found:?}"
            );
            assert_eq!(found.is_some(), expected.is_some(), "{expected:?}");
        };
        of(CERTIFICATE, KEY, None);
        of(&format!("text\n{CERTIFICATE}{CERTIFICATE}"), &format!("{}{OLD_KEY}", junk("EC PARAMETERS")), None);
        of(CERTIFICATE, OTHER, Some("tls: private key does not match public key"));
        of("", KEY, Some("failed to find any PEM data in certificate input"));
        of(CERTIFICATE, "x", Some("failed to find any PEM data in key input"));
        of(KEY, CERTIFICATE, Some("PEM inputs may have been switched"));
        of(CERTIFICATE, CERTIFICATE, Some("found a certificate rather than a key"));
        of(&junk("X"), KEY, Some("after skipping PEM blocks of the following types: [X]"));
        of(
            CERTIFICATE,
            &junk("X"),
            Some("\"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [X]"),
        );
        of(&junk("CERTIFICATE"), KEY, Some("x509: malformed certificate"));
        of(CERTIFICATE, &junk("PRIVATE KEY"), Some("failed to parse private key"));
    }

    #[test]
    fn one_block_and_nothing_else() {
        let (begin, end) = ("-----BEGIN A-----", "-----END A-----");
        for (text, expected) in [
            (format!("{begin}\nQUJD\n{end}\n"), true),
            (format!("\n \n{begin} \r\nQU\r\nJD\t\n{end}\r\n\n  "), true),
            (format!("{begin}\nQUJD\n{end}"), true),
            // Where lines or letters are passed over, two readers may see two texts.
            (format!("{begin}QUJD{end}\n"), false),
            (format!("{begin}\nQUJD{end}\n"), false),
            (format!("{begin} QUJD\n{end}\n"), false),
            (format!("{begin}\nQUJD\n{end}!\n"), false),
            (format!("{begin}\nQUJD\n{end}\nQUJD\n"), false),
            (format!("{begin}\nQUJD\n{end}\n{begin}\nQUJD\n{end}\n"), false),
            (format!("{begin}\n{begin}\nQUJD\n{end}\n"), false),
            (format!("text\n{begin}\nQUJD\n{end}\n"), false),
            (format!(" {begin}\nQUJD\n{end}\n"), false),
            (format!("{begin}\nX: y\n\nQUJD\n{end}\n"), false),
            (format!("{begin}\nQU JD\n{end}\n"), false),
            (format!("{begin}\nQUI=\nQUJD\n{end}\n"), false),
            (format!("{begin}\nQUJ\n{end}\n"), false),
            (format!("{begin}\n{end}\n"), false),
            (format!("{begin}\nQUJD\n-----END B-----\n"), false),
            (format!("{begin}\nQUJD\n"), false),
            (String::new(), false),
        ] {
            assert_eq!(only_block("A", &text), expected.then(|| b"ABC".to_vec()), "{text}");
        }
        assert_eq!(only_block("B", &format!("{begin}\nQUJD\n{end}\n")), None);
    }

    #[test]
    fn no_bytes_are_too_few() {
        for kind in [SEQUENCE, INTEGER, BITS] {
            for bytes in
                [&[][..], &[kind], &[kind, 0x81], &[kind, 0x84, 0xff, 0xff, 0xff, 0xff], &[kind, 1], &[kind, 0x85]]
            {
                assert_eq!((of_certificate(bytes), of_private(bytes)), (None, None), "{bytes:?}");
            }
        }
    }
}
