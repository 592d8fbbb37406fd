//! PURE. The certificates that the authority of the cluster signs: how an authority, a server and a client look.
//!
//! A certificate is valid from 1970 on, because a host without a battery believes that it is 1970 until it hears
//! better. It ends when somebody asked for an end, and else never.

use super::names::ServerNames;
use p256::ecdsa::{DerSignature, SigningKey};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder, Error as BuildError};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::{Any, GeneralizedTime, Ia5String, ObjectIdentifier, SetOfVec, UtcTime, Utf8StringRef};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time as CertificateTime, Validity};

pub const LABEL: &str = "CERTIFICATE";
pub const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
pub const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
pub const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// Bytes of a serial number: 127 random bits.
pub const SERIAL_BYTES: usize = 16;

/// A random number that is unique and positive.
pub type Serial = [u8; SERIAL_BYTES];

/// The first bit is not set, so that the number is positive; the second is, so that all are of one length.
pub fn serial(random: Serial) -> Serial {
    let mut serial = random;
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

/// What is signed: everything but the issuer and the serial number.
pub struct Leaf {
    pub subject: Name,
    pub public_key: SubjectPublicKeyInfoOwned,
    pub alternative_names: Vec<GeneralName>,
    pub usages: FlagSet<KeyUsages>,
    pub purposes: Vec<ObjectIdentifier>,
    /// Seconds since 1970. `None`: it never ends.
    pub not_after: Option<Duration>,
}

/// The words of a certificate, before the library puts them in order.
struct Profile {
    issuer: Name,
    subject: Name,
    extensions: Vec<Extension>,
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> Result<Vec<Extension>, BuildError> {
        Ok(self.extensions.clone())
    }
}

/// The name of a user: one organization for each group, and the user as the common name. Groups come first, as openssl
/// and Kubernetes write it.
pub fn name(common_name: &str, organizations: &[String]) -> Result<Name, String> {
    let mut parts = RdnSequence::default();
    let attributes = organizations.iter().map(|one| (ORGANIZATION, one.as_str())).chain([(COMMON_NAME, common_name)]);
    for (oid, text) in attributes.filter(|(_, text)| !text.is_empty()) {
        let value = Utf8StringRef::new(text).map(Any::from).map_err(failed)?;
        let one = SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }]).map_err(failed)?;
        parts.push(RelativeDistinguishedName::try_from(Vec::from(one)).map_err(failed)?);
    }
    Name::from_der(&parts.to_der().map_err(failed)?).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub fn public_key(key: &SigningKey) -> Result<SubjectPublicKeyInfoOwned, String> {
    SubjectPublicKeyInfoOwned::from_key(key.verifying_key()).map_err(failed)
}

/// The certificate of an authority that vouches for itself.
pub fn authority(common_name: &str, number: Serial, key: &SigningKey) -> Result<Vec<u8>, String> {
    let (subject, public_key) = (name(common_name, &[])?, public_key(key)?);
    let id = key_id(&public_key)?;
    of_authority((subject.clone(), public_key, id.clone()), number, (subject, id), key)
}

/// The certificate of a newer authority, signed by the key of an older authority: a client that trusts the older
/// authority trusts both.
pub fn crossed(newer: &Certificate, number: Serial, older: &Certificate, key: &SigningKey) -> Result<Vec<u8>, String> {
    let tbs = newer.tbs_certificate();
    let words = (tbs.subject().clone(), tbs.subject_public_key_info().clone(), id_of(newer)?);
    of_authority(words, number, (older.tbs_certificate().subject().clone(), id_of(older)?), key)
}

fn of_authority(
    (subject, public_key, id): (Name, SubjectPublicKeyInfoOwned, SubjectKeyIdentifier),
    number: Serial,
    (issuer, issuer_id): (Name, SubjectKeyIdentifier),
    key: &SigningKey,
) -> Result<Vec<u8>, String> {
    let usages = KeyUsages::DigitalSignature | KeyUsages::KeyCertSign | KeyUsages::CRLSign;
    let issuing = AuthorityKeyIdentifier { key_identifier: Some(issuer_id.0), ..AuthorityKeyIdentifier::default() };
    let mut words = Words::of(&subject);
    words.add(&BasicConstraints { ca: true, path_len_constraint: None })?;
    words.add(&KeyUsage(usages))?;
    words.add(&id)?;
    words.add(&issuing)?;
    let profile = Profile { issuer, subject, extensions: words.list };
    built(profile, number, never()?, public_key, key)
}

/// The certificate of a leaf, signed by an authority with its key.
pub fn signed(leaf: Leaf, number: Serial, authority: &Certificate, key: &SigningKey) -> Result<Vec<u8>, String> {
    let issuer = authority.tbs_certificate();
    let issuing = AuthorityKeyIdentifier { key_identifier: Some(id_of(authority)?.0), ..Default::default() };
    let mut words = Words::of(&leaf.subject);
    words.add(&KeyUsage(leaf.usages))?;
    if !leaf.purposes.is_empty() {
        words.add(&ExtendedKeyUsage(leaf.purposes))?;
    }
    words.add(&BasicConstraints { ca: false, path_len_constraint: None })?;
    words.add(&key_id(&leaf.public_key)?)?;
    words.add(&issuing)?;
    if !leaf.alternative_names.is_empty() {
        words.add(&SubjectAltName(leaf.alternative_names))?;
    }
    let validity = match leaf.not_after {
        None => never()?,
        Some(end) => until(GeneralizedTime::from_unix_duration(end).map_err(failed)?.into())?,
    };
    let profile = Profile { issuer: issuer.subject().clone(), subject: leaf.subject, extensions: words.list };
    built(profile, number, validity, leaf.public_key, key)
}

/// The extensions of one certificate.
struct Words {
    subject: Name,
    list: Vec<Extension>,
}

impl Words {
    fn of(subject: &Name) -> Words {
        Words { subject: subject.clone(), list: Vec::new() }
    }

    fn add<E: ToExtension>(&mut self, word: E) -> Result<(), String>
    where
        E::Error: std::fmt::Display,
    {
        self.list.push(word.to_extension(&self.subject, &self.list).map_err(failed)?);
        Ok(())
    }
}

fn built(
    profile: Profile,
    number: Serial,
    validity: Validity,
    public_key: SubjectPublicKeyInfoOwned,
    key: &SigningKey,
) -> Result<Vec<u8>, String> {
    let number = SerialNumber::new(&number).map_err(failed)?;
    let builder = CertificateBuilder::new(profile, number, validity, public_key).map_err(failed)?;
    builder.build::<_, DerSignature>(key).map_err(failed)?.to_der().map_err(failed)
}

fn never() -> Result<Validity, String> {
    until(CertificateTime::INFINITY)
}

fn until(end: CertificateTime) -> Result<Validity, String> {
    let begin = UtcTime::from_unix_duration(Duration::ZERO).map_err(failed)?;
    Ok(Validity::new(begin.into(), end))
}

/// The mark of a public key: 20 bytes of a hash, of whichever kind (RFC 7093).
fn key_id(public_key: &SubjectPublicKeyInfoOwned) -> Result<SubjectKeyIdentifier, String> {
    let hash = Sha256::digest(public_key.subject_public_key.raw_bytes());
    let id = x509_cert::der::asn1::OctetString::new(&hash[..20]).map_err(failed)?;
    Ok(SubjectKeyIdentifier(id))
}

/// The mark that the certificate of an authority names itself by.
fn id_of(authority: &Certificate) -> Result<SubjectKeyIdentifier, String> {
    match authority.tbs_certificate().get_extension::<SubjectKeyIdentifier>().map_err(failed)? {
        Some((_, id)) => Ok(id),
        None => key_id(authority.tbs_certificate().subject_public_key_info()),
    }
}

/// A server's certificate for these names.
pub fn of_server(names: &ServerNames, public_key: SubjectPublicKeyInfoOwned) -> Result<Leaf, String> {
    let mut alternative_names = Vec::new();
    for dns in &names.names {
        alternative_names.push(GeneralName::DnsName(Ia5String::new(dns).map_err(|error| format!("{dns}: {error}"))?));
    }
    alternative_names.extend(names.addresses.iter().map(|address| GeneralName::from(*address)));
    Ok(Leaf {
        subject: name(&names.common_name, &[])?,
        public_key,
        alternative_names,
        usages: KeyUsages::DigitalSignature.into(),
        purposes: vec![SERVER_AUTH],
        not_after: None,
    })
}

/// A client's certificate.
pub fn of_client(
    user: &str,
    groups: &[String],
    public_key: SubjectPublicKeyInfoOwned,
    not_after: Option<Duration>,
) -> Result<Leaf, String> {
    Ok(Leaf {
        subject: name(user, groups)?,
        public_key,
        alternative_names: Vec::new(),
        usages: KeyUsages::DigitalSignature.into(),
        purposes: vec![CLIENT_AUTH],
        not_after,
    })
}

pub fn parse(der: &[u8]) -> Result<Certificate, String> {
    Certificate::from_der(der).map_err(|error| format!("it is no certificate: {error}"))
}

/// The common name of a certificate's subject. Empty: there is none.
pub fn common_name(certificate: &Certificate) -> String {
    let subject = certificate.tbs_certificate().subject();
    let named = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let text = |value: &Any| String::from_utf8(value.value().to_vec()).unwrap_or_default();
    named.last().map(|attribute| text(&attribute.value)).unwrap_or_default()
}

/// The serial number in hexadecimal digits.
pub fn serial_of(certificate: &Certificate) -> String {
    super::revoked::hex(certificate.tbs_certificate().serial_number().as_bytes())
}

/// Whether a certificate names this authority as the one that signed it.
pub fn is_by(certificate: &Certificate, authority: &Certificate) -> bool {
    let tbs = certificate.tbs_certificate();
    let by = tbs.get_extension::<AuthorityKeyIdentifier>().ok().flatten().and_then(|(_, id)| id.key_identifier);
    let is_by = by.is_some() && by == id_of(authority).ok().map(|id| id.0);
    is_by && tbs.issuer() == authority.tbs_certificate().subject()
}

/// Whether a server's certificate is by this authority and for exactly these names.
pub fn is_current(certificate: &Certificate, authority: &Certificate, names: &ServerNames) -> bool {
    let tbs = certificate.tbs_certificate();
    let said = tbs.get_extension::<SubjectAltName>().ok().flatten().map(|(_, said)| said.0).unwrap_or_default();
    let (mut dns, mut addresses) = (Vec::new(), Vec::new());
    for one in &said {
        match one {
            GeneralName::DnsName(name) => dns.push(name.as_str()),
            GeneralName::IpAddress(bytes) => addresses.extend(address(bytes.as_bytes())),
            _ => return false,
        }
    }
    is_by(certificate, authority)
        && dns.iter().copied().eq(names.names.iter().map(String::as_str))
        && addresses.iter().eq(&names.addresses)
}

/// 4 bytes, or 16.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}
