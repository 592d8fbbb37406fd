//! PURE. Requests for certificates (PKCS #10): whom a request names, whether its own key has signed it, and the
//! certificate that it asks for.

use super::certificate::{COMMON_NAME, Leaf, ORGANIZATION, address};
use coracle_api::strategy::pem::only_block;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use std::net::IpAddr;
use std::time::Duration;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::{Decode, Encode, Tagged};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{KeyUsages, SubjectAltName};
use x509_cert::request::{CertReq, ExtensionReq};

pub const LABEL: &str = "CERTIFICATE REQUEST";
/// Bytes of a request: a key of 16,384 bits, and many names.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Names in one request.
const NAMES_MAX: usize = 256;

const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A request that was read.
pub struct CertificateRequest {
    request: CertReq,
    /// The signed part, as it was sent.
    signed: Vec<u8>,
    pub alternative_names: AlternativeNames,
}

/// The names of a request besides its subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub dns: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub uris: Vec<String>,
    all: Vec<GeneralName>,
}

/// Reads a request. `Err`: why the text is no request.
pub fn parse(pem: &str) -> Result<CertificateRequest, String> {
    if pem.len() > REQUEST_BYTES_MAX {
        return Err(format!("it has {} bytes, at most {REQUEST_BYTES_MAX}", pem.len()));
    }
    let der =
        only_block(LABEL, pem).ok_or_else(|| format!("PEM block type must be {LABEL}, and it must stand alone"))?;
    let malformed = |error: x509_cert::der::Error| format!("x509: malformed certificate request: {error}");
    let request = CertReq::from_der(&der).map_err(malformed)?;
    let whole = AnyRef::from_der(&der).map_err(malformed)?.value();
    let (_, behind) = AnyRef::from_der_partial(whole).map_err(malformed)?;
    let signed = whole[..whole.len() - behind.len()].to_vec();
    let alternative_names = alternative_names(&request).map_err(malformed)?;
    if alternative_names.all.len() > NAMES_MAX {
        return Err(format!("it has {} names, at most {NAMES_MAX}", alternative_names.all.len()));
    }
    Ok(CertificateRequest { request, signed, alternative_names })
}

fn alternative_names(request: &CertReq) -> x509_cert::der::Result<AlternativeNames> {
    let mut names = AlternativeNames::default();
    let wanted = <ExtensionReq as x509_cert::der::oid::AssociatedOid>::OID;
    for attribute in request.info.attributes.iter().filter(|attribute| attribute.oid == wanted) {
        for value in attribute.values.iter() {
            for extension in ExtensionReq::from_der(&value.to_der()?)?.0 {
                if extension.extn_id == <SubjectAltName as x509_cert::der::oid::AssociatedOid>::OID {
                    names.all.extend(SubjectAltName::from_der(extension.extn_value.as_bytes())?.0);
                }
            }
        }
    }
    for name in &names.all {
        match name {
            GeneralName::DnsName(name) => names.dns.push(name.to_string()),
            GeneralName::Rfc822Name(name) => names.emails.push(name.to_string()),
            GeneralName::UniformResourceIdentifier(name) => names.uris.push(name.to_string()),
            GeneralName::IpAddress(bytes) => names.addresses.extend(address(bytes.as_bytes())),
            _ => {}
        }
    }
    Ok(names)
}

impl CertificateRequest {
    fn subject(&self, oid: ObjectIdentifier) -> Vec<String> {
        let of = self.request.info.subject.iter().filter(|attribute| attribute.oid == oid);
        of.map(|attribute| text(&attribute.value)).collect()
    }

    /// Empty: there is none.
    pub fn common_name(&self) -> String {
        self.subject(COMMON_NAME).pop().unwrap_or_default()
    }

    pub fn organizations(&self) -> Vec<String> {
        self.subject(ORGANIZATION)
    }

    /// Whether the owner of the key has signed the request. `Err`: why that is not so.
    pub fn verify(&self) -> Result<(), String> {
        let key = &self.request.info.public_key;
        let curve = key.algorithm.parameters.as_ref().and_then(|parameters| parameters.decode_as().ok());
        let by: &dyn VerificationAlgorithm = match (self.request.algorithm.oid, curve) {
            (ECDSA_SHA256, Some(P256)) => &signature::ECDSA_P256_SHA256_ASN1,
            (ECDSA_SHA384, Some(P256)) => &signature::ECDSA_P256_SHA384_ASN1,
            (ECDSA_SHA256, Some(P384)) => &signature::ECDSA_P384_SHA256_ASN1,
            (ECDSA_SHA384, Some(P384)) => &signature::ECDSA_P384_SHA384_ASN1,
            (RSA_SHA256, _) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (RSA_SHA384, _) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (RSA_SHA512, _) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (ED25519, _) => &signature::ED25519,
            (other, _) => {
                return Err(format!(
                    "the signature is of a kind ({other}) that is not known: use ECDSA, Ed25519 or RSA"
                ));
            }
        };
        let public = UnparsedPublicKey::new(by, key.subject_public_key.raw_bytes());
        let signature = self.request.signature.raw_bytes();
        public.verify(&self.signed, signature).map_err(|_| "the signature of the request is wrong".to_owned())
    }

    /// The certificate that is asked for. A usage that is not known is said.
    pub fn leaf(&self, usages: &[String], not_after: Option<Duration>) -> Result<Leaf, String> {
        let mut bits: FlagSet<KeyUsages> = FlagSet::default();
        let mut purposes = Vec::new();
        for usage in usages {
            match (key_usage(usage), purpose(usage)) {
                (Some(usage), _) => bits |= usage,
                (None, Some(purpose)) => purposes.push(purpose),
                (None, None) => return Err(format!("usage {usage:?} is not known")),
            }
        }
        Ok(Leaf {
            subject: self.request.info.subject.clone(),
            public_key: self.request.info.public_key.clone(),
            alternative_names: self.alternative_names.all.clone(),
            usages: bits,
            purposes,
            not_after,
        })
    }
}

/// The text of an attribute of a subject. Of whichever kind of string: ASCII and UTF-8 are read.
fn text(value: &x509_cert::der::asn1::Any) -> String {
    match value.tag() {
        x509_cert::der::Tag::BmpString => String::new(),
        _ => String::from_utf8(value.value().to_vec()).unwrap_or_default(),
    }
}

fn key_usage(usage: &str) -> Option<KeyUsages> {
    Some(match usage {
        "signing" | "digital signature" => KeyUsages::DigitalSignature,
        "content commitment" => KeyUsages::NonRepudiation,
        "key encipherment" => KeyUsages::KeyEncipherment,
        "key agreement" => KeyUsages::KeyAgreement,
        "data encipherment" => KeyUsages::DataEncipherment,
        "cert sign" => KeyUsages::KeyCertSign,
        "crl sign" => KeyUsages::CRLSign,
        "encipher only" => KeyUsages::EncipherOnly,
        "decipher only" => KeyUsages::DecipherOnly,
        _ => return None,
    })
}

fn purpose(usage: &str) -> Option<ObjectIdentifier> {
    Some(ObjectIdentifier::new_unwrap(match usage {
        "any" => "2.5.29.37.0",
        "server auth" => "1.3.6.1.5.5.7.3.1",
        "client auth" => "1.3.6.1.5.5.7.3.2",
        "code signing" => "1.3.6.1.5.5.7.3.3",
        "email protection" | "s/mime" => "1.3.6.1.5.5.7.3.4",
        "ipsec end system" => "1.3.6.1.5.5.7.3.5",
        "ipsec tunnel" => "1.3.6.1.5.5.7.3.6",
        "ipsec user" => "1.3.6.1.5.5.7.3.7",
        "timestamping" => "1.3.6.1.5.5.7.3.8",
        "ocsp signing" => "1.3.6.1.5.5.7.3.9",
        "microsoft sgc" => "1.3.6.1.4.1.311.10.3.3",
        "netscape sgc" => "2.16.840.1.113730.4.1",
        _ => return None,
    }))
}

#[cfg(test)]
pub mod tests {
    use super::super::pem::unpem;
    use super::*;

    /// Of CN=system:node:n1 and O=system:nodes: with a key of curve P-256, and with names.
    pub const OF_A_NODE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBEDCBuAIBADAwMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxFzAVBgNVBAMMDnN5
c3RlbTpub2RlOm4xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3bISiyRtaLp0
PKEZy2hHP8U1FRto87vot8/IE1eiZF5D+bmdcq7xSQhZuQvnAMPFSGCYIixwbg07
lh+2YwtjvqAmMCQGCSqGSIb3DQEJDjEXMBUwEwYDVR0RBAwwCoICbjGHBMAAAgsw
CgYIKoZIzj0EAwIDRwAwRAIgZTxWF7prL1/f+fRoedFRLIS1G+p02XYTWpV8jg3A
GrcCICmWBGjRENtH+ezegei48X6Kl7fLzshQ47CzxLAGAk65
-----END CERTIFICATE REQUEST-----
";

    #[test]
    fn a_request_is_read_and_its_signature_checked() {
        let request = parse(OF_A_NODE).expect("a request");
        assert_eq!(request.common_name(), "system:node:n1");
        assert_eq!(request.organizations(), ["system:nodes"]);
        let names = &request.alternative_names;
        assert_eq!((names.dns.join(" "), names.addresses.len(), names.emails.len()), ("n1".to_owned(), 1, 0));
        assert_eq!(request.verify(), Ok(()));
        // Another subject under the same signature.
        let mut der = unpem(LABEL, OF_A_NODE).expect("a block");
        let at = der.windows(2).position(|two| two == b"n1").expect("its name");
        der[at + 1] = b'2';
        let other = parse(&super::super::pem::pem(LABEL, &der)).expect("a request");
        assert_eq!(other.common_name(), "system:node:n2");
        assert_eq!(other.verify(), Err("the signature of the request is wrong".to_owned()));
    }

    #[test]
    fn what_is_no_request() {
        for (text, expected) in [
            ("", "PEM block type must be CERTIFICATE REQUEST"),
            // Admission reads no such texts.
            (&format!("{OF_A_NODE}!"), "must stand alone"),
            (&format!("{OF_A_NODE}{OF_A_NODE}"), "must stand alone"),
            (&format!("text\n{OF_A_NODE}"), "must stand alone"),
            (&OF_A_NODE.replace('\n', " "), "must stand alone"),
            ("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n", "malformed"),
            (&"x".repeat(REQUEST_BYTES_MAX + 1), "at most"),
        ] {
            let why = parse(text).map(drop).expect_err("no request");
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn every_usage_that_the_api_takes_is_known() {
        let request = parse(OF_A_NODE).expect("a request");
        let all = ["any", "cert sign", "client auth", "code signing", "content commitment", "crl sign"];
        let more = ["data encipherment", "decipher only", "digital signature", "email protection", "encipher only"];
        let last = ["ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment"];
        let rest =
            ["microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping"];
        let all: Vec<String> = [&all[..], &more, &last, &rest].concat().iter().map(|one| (*one).to_owned()).collect();
        let leaf = request.leaf(&all, None).expect("all are known");
        assert_eq!((all.len(), leaf.purposes.len()), (23, 13));
        assert!(request.leaf(&["flying".to_owned()], None).is_err());
    }
}
