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
pub(crate) struct ClientAuthorities {
    users: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// The subjects of all authorities. A client chooses its certificate by these subjects.
    subjects: Vec<DistinguishedName>,
}

/// Whose authority has signed a client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    OfUsers,
    OfProxies,
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

    /// A certificate that both have signed is a user's. `None`: at this time neither authority vouches for it. A
    /// certificate of a proxy that has just ended is nobody's, and never a user's.
    pub(super) fn signer(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<Signer> {
        let (leaf, between) = chain.split_first()?;
        match self.users.verify_client_cert(leaf, between, now) {
            Ok(_) => Some(Signer::OfUsers),
            Err(_) => self.of_proxy(leaf, now).map(|_| Signer::OfProxies),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use std::time::Duration;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
    }

    /// A client certificate until the end of 2030.
    fn leaf(authority: &Authority) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2030, 12, 31);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        params.signed_by(&key, authority).expect("a certificate").der().clone()
    }

    #[test]
    fn whose_authority_has_signed() {
        let (users, proxies, stranger) = (authority("users"), authority("proxies"), authority("users"));
        let known = ClientAuthorities::new(users.pem().as_bytes(), proxies.pem().as_bytes()).expect("authorities");
        let without = ClientAuthorities::new(users.pem().as_bytes(), b"").expect("authorities");
        let (year_2026, year_2031) = (1_780_000_000, 1_930_000_000);
        let check = |of: &ClientAuthorities, by: &Authority, now_s: u64, expected: Option<Signer>| {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
            assert_eq!(of.signer(&[leaf(by)], now), expected, "{now_s}");
        };
        check(&known, &users, year_2026, Some(Signer::OfUsers));
        check(&known, &proxies, year_2026, Some(Signer::OfProxies));
        check(&known, &stranger, year_2026, None);
        check(&without, &users, year_2026, Some(Signer::OfUsers));
        check(&without, &proxies, year_2026, None);
        // The handshake has taken it a moment before: it does not become a user's.
        check(&known, &proxies, year_2031, None);
        check(&known, &users, year_2031, None);
        assert_eq!(known.signer(&[], UnixTime::since_unix_epoch(Duration::from_secs(year_2026))), None);
    }
}
