//! The subject of a certificate signing request, read from its DER.

use super::doc::text;
use super::pem::only_block;
use coracle_schema::base64;
use serde_json::Value;

/// The label of requests in PEM.
pub(super) const LABEL: &str = "CERTIFICATE REQUEST";
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OID: u8 = 0x06;
/// Attributes of a subject. A longer subject is not read: its last common name would stay unseen.
const ATTRIBUTES_MAX: usize = 64;

/// The signers of certificates for nodes.
pub const KUBELET_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// The DER of a CertificateSigningRequest. `None`: the signer would not read it.
pub(super) fn der(request: &Value) -> Option<Vec<u8>> {
    let pem = base64::decode(text(&request["spec"], "request")).ok()?;
    only_block(LABEL, std::str::from_utf8(&pem).ok()?)
}

/// The common name in the subject of a CertificateSigningRequest: the last, as in Go. Empty: the subject has none.
pub fn common_name(request: &Value) -> Result<String, &'static str> {
    let der = der(request).ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let subject = subject(&der).ok_or("asn1: structure error: the subject cannot be read")?;
    let mut name = String::new();
    for value in subject.iter().filter(|(kind, _)| *kind == COMMON_NAME).map(|(_, value)| value) {
        name = String::from_utf8(value.to_vec()).map_err(|_| "x509: invalid UTF-8 string")?;
    }
    Ok(name)
}

/// The attributes of the subject: their types and their texts.
fn subject(der: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (request, _) = element(der, SEQUENCE)?;
    let (info, _) = element(request, SEQUENCE)?;
    let (_, after_version) = element(info, INTEGER)?;
    let (mut names, _) = element(after_version, SEQUENCE)?;
    let mut found = Vec::new();
    while !names.is_empty() {
        let (mut set, rest) = element(names, SET)?;
        names = rest;
        while !set.is_empty() {
            if found.len() == ATTRIBUTES_MAX {
                return None;
            }
            let (attribute, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = element(attribute, OID)?;
            found.push((kind, element(value, *value.first()?)?.0));
        }
    }
    Some(found)
}

/// The content of the first element, which has this tag, and what follows the element.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short if short < 0x80 => (usize::from(short), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    (*first == tag).then_some(rest.split_at_checked(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
        let head = if content.len() < 0x80 { vec![tag, low] } else { vec![tag, 0x82, high, low] };
        [&head[..], content].concat()
    }

    fn attribute(kind: u8, text: &str) -> Vec<u8> {
        tlv(SET, &tlv(SEQUENCE, &[tlv(OID, &[0x55, 0x04, kind]), tlv(0x0c, text.as_bytes())].concat()))
    }

    #[test]
    fn names_of_requests() {
        let check = |names: &[Vec<u8>], expected: Result<&str, &'static str>| {
            let info = [tlv(INTEGER, &[0]), tlv(SEQUENCE, &names.concat()), tlv(SEQUENCE, &[])].concat();
            let der = tlv(SEQUENCE, &tlv(SEQUENCE, &info));
            let pem = format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END\u{20}CERTIFICATE REQUEST-----\n",
                base64::encode(&der)
            );
            let request = json!({"spec": {"request": base64::encode(pem.as_bytes())}});
            assert_eq!(common_name(&request), expected.map(str::to_owned));
            for length in 0..der.len().min(20) {
                assert!(subject(&der[..length]).is_none(), "cut at {length}");
            }
        };
        let (organization, own) = (attribute(10, "system:nodes"), attribute(3, "system:node:n1"));
        check(&[organization.clone(), own.clone()], Ok("system:node:n1"));
        check(&[own, attribute(3, "system:node:n2")], Ok("system:node:n2"));
        check(&[organization], Ok(""));
        let unread = Err("asn1: structure error: the subject cannot be read");
        check(&[vec![attribute(3, "a"); ATTRIBUTES_MAX + 1].concat()], unread);
        check(&[vec![SET, 5, 0]], Err("asn1: structure error: the subject cannot be read"));
    }
}
