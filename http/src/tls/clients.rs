//! The authorities of a port's clients: those whose certificates name a user, and those of proxies that speak for other
//! users. Whose a certificate is follows from the key that signed it, never from a name in it.
use super::keys::roots;
use super::{BadKeys, provider};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ClientAuthorities {
    users: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// The subjects of all of them: a client chooses its certificate by them.
    subjects: Vec<DistinguishedName>,
}

impl ClientAuthorities {
    /// `proxies`: may be empty.
    pub(super) fn new(users: &[u8], proxies: &[u8]) -> Result<ClientAuthorities, BadKeys> {
        let users = verifier(users, "client authorities")?;
        let proxies = match proxies.trim_ascii().is_empty() {
            true => None,
            false => Some(verifier(proxies, "authorities of proxies")?),
        };
        let of_proxies = proxies.as_ref().map(|proxies| proxies.root_hint_subjects()).unwrap_or_default();
        let subjects = [users.root_hint_subjects(), of_proxies].concat();
        Ok(ClientAuthorities { users, proxies, subjects })
    }

    /// Whether a verified chain is of a proxy. A certificate that an authority of users has signed is a user's.
    pub(super) fn is_front_proxy(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let Some((leaf, between)) = chain.split_first() else { return false };
        self.of_proxy(leaf, now).is_some() && self.users.verify_client_cert(leaf, between, now).is_err()
    }

    /// The authority of proxies signs proxies, and no authorities: nothing may lie between.
    fn of_proxy(&self, leaf: &CertificateDer<'_>, now: UnixTime) -> Option<ClientCertVerified> {
        self.proxies.as_ref().and_then(|proxies| proxies.verify_client_cert(leaf, &[], now).ok())
    }
}

fn verifier(pem: &[u8], what: &str) -> Result<Arc<dyn ClientCertVerifier>, BadKeys> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(pem, what)?.into(), provider());
    verifier.allow_unauthenticated().build().map_err(|error| BadKeys(format!("{what}: {error}")))
}

impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let as_user = self.users.verify_client_cert(leaf, between, now);
        as_user.or_else(|error| self.of_proxy(leaf, now).ok_or(error))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.users.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.users.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.users.supported_verify_schemes()
    }
}
