//! The certificate of a client: names in the subject, serial number, fingerprint and end.
//!
//! The handshake has verified the chain, the dates and the key; it says nothing about the subject.
use crate::Standing;
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::attr::AttributeValue;
use x509_cert::der::asn1::{ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Tag, Tagged};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The part of a client's certificate that says who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub common_name: String,
    pub organizations: Vec<String>,
    /// As the authority has written it: big endian, with a leading zero where the first bit is set.
    pub serial: Vec<u8>,
    /// SHA-256 of the whole certificate in DER.
    pub fingerprint: [u8; 32],
    /// The last second at which it counts, since 1970.
    pub end_s: i64,
    /// The authority of proxies has signed it: the client speaks for other users, and is no user itself.
    pub front_proxy: bool,
    /// Of the connection on which it was shown.
    pub standing: Standing,
}

impl ClientCertificate {
    /// The subject has exactly one common name and any organizations. The error is what is wrong with it.
    pub fn read(der: &[u8]) -> Result<ClientCertificate, &'static str> {
        let certificate = Certificate::from_der(der).map_err(|_| "the client certificate cannot be read")?;
        let certificate = certificate.tbs_certificate();
        let (mut names, mut organizations) = (Vec::new(), Vec::new());
        for attribute in certificate.subject().iter() {
            let of = match attribute.oid {
                COMMON_NAME => &mut names,
                ORGANIZATION => &mut organizations,
                _ => continue,
            };
            of.push(text(&attribute.value).ok_or("the subject of the client certificate is no text")?);
        }
        let end = certificate.validity().not_after.to_unix_duration();
        let common_name = names.pop().filter(|name| names.is_empty() && !name.is_empty());
        Ok(ClientCertificate {
            common_name: common_name.ok_or("the client certificate has not exactly one common name")?,
            organizations,
            serial: certificate.serial_number().as_bytes().to_vec(),
            fingerprint: Sha256::digest(der).into(),
            end_s: i64::try_from(end.as_secs()).unwrap_or(i64::MAX),
            // The connection says these.
            front_proxy: false,
            standing: Standing::default(),
        })
    }

    /// Whether it has not ended, and the authorities that the port has now vouch for it. Open connections ask again: an
    /// authority may have been dropped since their handshake.
    pub fn still_counts(&self) -> bool {
        self.standing.counts(self.end_s)
    }
}

fn text(value: &AttributeValue) -> Option<String> {
    match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SerialNumber};

    fn made(subject: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (of, value) in subject {
            params.distinguished_name.push(of.clone(), value.clone());
        }
        params.serial_number = Some(SerialNumber::from(vec![1, 2, 3]));
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().to_vec()
    }

    #[test]
    fn one_name_and_any_organizations() {
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        let printable = DnValue::PrintableString("masters".try_into().expect("printable"));
        let (name, organization) = (DnType::CommonName, DnType::OrganizationName);
        let der = made(&[(name.clone(), text("ann")), (organization, printable), (DnType::CountryName, text("DE"))]);
        let read = ClientCertificate::read(&der).expect("it is whole");
        assert_eq!((read.common_name.as_str(), read.organizations.as_slice()), ("ann", &["masters".to_owned()][..]));
        assert_eq!(read.end_s, 1_893_456_000);
        assert!(!read.still_counts(), "no connection has shown it");
        assert_eq!((read.serial, read.fingerprint), (vec![1, 2, 3], Sha256::digest(&der).into()));
        assert!(ClientCertificate::read(&made(&[])).is_err());
        assert!(ClientCertificate::read(&made(&[(name, text(""))])).is_err());
        assert!(ClientCertificate::read(&der[..der.len() - 1]).is_err());
        assert!(ClientCertificate::read(b"").is_err());
    }

    /// rcgen writes one attribute of a type, OpenSSL as many as it is told.
    #[test]
    fn two_names_are_no_name() {
        let subject = |subject: &str| {
            let made = std::process::Command::new("openssl")
                .args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
                .args(["-keyout", "/dev/null", "-outform", "DER", "-subj", subject])
                .output();
            made.ok().filter(|made| made.status.success()).map(|made| ClientCertificate::read(&made.stdout))
        };
        let Some(two) = subject("/CN=ann/CN=root") else { return eprintln!("there is no openssl here") };
        assert_eq!(two, Err("the client certificate has not exactly one common name"));
        let many = subject("/O=a/CN=ann/O=b").expect("openssl is there").expect("it is whole");
        assert_eq!((many.common_name.as_str(), many.organizations.len()), ("ann", 2));
    }
}
