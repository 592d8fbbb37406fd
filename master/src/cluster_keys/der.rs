//! The few words of X.509 that a cluster's own authority says, in DER, and PEM around them. PURE.
//!
//! One certificate and one form of key, always the same but for the numbers in them: a library for all of X.509 would
//! be larger than the rest of the identity.

use coracle_schema::base64;
use sha2::{Digest, Sha256};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// A host without a battery believes that it is 1970 until it hears better, and what it trusts must hold then.
const NOT_BEFORE: &[u8] = b"700101000000Z";
/// RFC 5280: a certificate without an end.
const NOT_AFTER: &[u8] = b"99991231235959Z";
/// Signs certificates and lists of revoked ones, and proves itself.
const USAGE: &[u8] = &[0x01, 0x86];
/// The bytes of the hash that a key identifier keeps (RFC 7093).
const KEY_ID_BYTES: usize = 20;
/// Of a line in PEM.
const LINE_LETTERS: usize = 64;

/// A private and a public key, as numbers: 32 bytes, and 65 beginning with 4.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    pub secret: &'a [u8; 32],
    pub public: &'a [u8; 65],
}

/// One DER value: tag, length, and the parts of the content in order.
fn value(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let length: usize = content.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        Ok(byte) => bytes.extend([0x81, byte]),
        Err(_) => {
            bytes.push(0x82);
            bytes.extend(u16::try_from(length).expect("nothing here is longer than some hundred bytes").to_be_bytes());
        }
    }
    content.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// A number that is not negative.
fn integer(number: &[u8]) -> Vec<u8> {
    let digits = number.iter().position(|byte| *byte != 0).map_or(&[0][..], |first| &number[first..]);
    let sign: &[u8] = if digits[0] >= 0x80 { &[0] } else { &[] };
    value(INTEGER, &[sign, digits])
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes])
}

/// SubjectPublicKeyInfo.
pub fn public_key(public: &[u8; 65]) -> Vec<u8> {
    value(SEQUENCE, &[&algorithm(), &bits(public)])
}

fn algorithm() -> Vec<u8> {
    value(SEQUENCE, &[&value(OBJECT_ID, &[EC_PUBLIC_KEY]), &value(OBJECT_ID, &[P256])])
}

/// PKCS #8.
pub fn private_key(pair: Pair<'_>) -> Vec<u8> {
    let public = value(0xa1, &[&bits(pair.public)]);
    let key = value(SEQUENCE, &[&integer(&[1]), &value(OCTET_STRING, &[pair.secret]), &public]);
    value(SEQUENCE, &[&integer(&[0]), &algorithm(), &value(OCTET_STRING, &[&key])])
}

/// The secret number in what `private_key` wrote, or in what OpenSSL writes, which is the same.
pub fn secret(private_key: &[u8]) -> Option<[u8; 32]> {
    let blank = self::private_key(Pair { secret: &[0; 32], public: &[0; 65] });
    let at = blank.windows(34).position(|bytes| bytes[0] == OCTET_STRING && bytes[1] == 32)? + 2;
    let same_form = private_key.len() == blank.len() && private_key.starts_with(&blank[..at]);
    let secret = private_key.get(at..at + 32).filter(|_| same_form)?;
    secret.try_into().ok()
}

/// The certificate of an authority that vouches for itself. `sign`: its own signature over bytes, as the numbers r and
/// s.
pub fn authority(name: &str, serial: &[u8; 16], public: &[u8; 65], sign: impl FnOnce(&[u8]) -> [u8; 64]) -> Vec<u8> {
    let signed_with = value(SEQUENCE, &[&value(OBJECT_ID, &[ECDSA_SHA256])]);
    let common_name = value(SEQUENCE, &[&value(OBJECT_ID, &[COMMON_NAME]), &value(UTF8, &[name.as_bytes()])]);
    let name = value(SEQUENCE, &[&value(SET, &[&common_name])]);
    let validity = value(SEQUENCE, &[&value(UTC_TIME, &[NOT_BEFORE]), &value(GENERALIZED_TIME, &[NOT_AFTER])]);
    let content = value(
        SEQUENCE,
        &[
            &value(0xa0, &[&integer(&[2])]),
            &integer(serial),
            &signed_with,
            &name,
            &validity,
            &name,
            &public_key(public),
            &value(0xa3, &[&extensions(public)]),
        ],
    );
    let signature = sign(&content);
    let (r, s) = signature.split_at(32);
    let signature = value(SEQUENCE, &[&integer(r), &integer(s)]);
    value(SEQUENCE, &[&content, &signed_with, &bits(&signature)])
}

fn extensions(public: &[u8; 65]) -> Vec<u8> {
    let one = |id: &[u8], critical: bool, content: &[u8]| {
        let critical: &[u8] = if critical { &[0x01, 0x01, 0xff] } else { &[] };
        value(SEQUENCE, &[&value(OBJECT_ID, &[id]), critical, &value(OCTET_STRING, &[content])])
    };
    let may_sign = one(BASIC_CONSTRAINTS, true, &value(SEQUENCE, &[&[0x01, 0x01, 0xff]]));
    let usage = one(KEY_USAGE, true, &value(BIT_STRING, &[USAGE]));
    let id = Sha256::digest(public);
    let key_id = one(SUBJECT_KEY_ID, false, &value(OCTET_STRING, &[&id[..KEY_ID_BYTES]]));
    value(SEQUENCE, &[&may_sign, &usage, &key_id])
}

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

/// What is inside the first block with this label.
pub fn unpem(label: &str, pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (text, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let text: String = text.split_ascii_whitespace().collect();
    base64::decode(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, expected) in [
            (&[0][..], &[2, 1, 0][..]),
            (&[0, 0, 5], &[2, 1, 5]),
            (&[0x80], &[2, 2, 0, 0x80]),
            (&[1, 0], &[2, 2, 1, 0]),
        ] {
            assert_eq!(integer(number), expected);
        }
    }

    #[test]
    fn lengths() {
        for (length, head) in [(0, &[4, 0][..]), (127, &[4, 127]), (128, &[4, 0x81, 128]), (300, &[4, 0x82, 1, 44])] {
            let bytes = value(OCTET_STRING, &[&vec![7; length]]);
            assert_eq!((&bytes[..head.len()], bytes.len()), (head, head.len() + length));
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let pair = Pair { secret: &[9; 32], public: &[4; 65] };
        let written = pem("PRIVATE KEY", &private_key(pair));
        assert!(written.lines().all(|line| line.len() <= LINE_LETTERS), "{written}");
        let read = unpem("PRIVATE KEY", &written).expect("a block");
        assert_eq!((secret(&read), read.len()), (Some([9; 32]), 138));
        assert_eq!(secret(&read[1..]), None);
        assert_eq!(unpem("CERTIFICATE", &written), None);
    }
}
