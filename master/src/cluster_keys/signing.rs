//! Signs certificates for clients, and notes them in the list of what was given out.

use super::authorities::Authorities;
use super::files::{AUTHORITY, AUTHORITY_KEY, CROSS, ISSUED, REVOKED, needed};
use super::issued::{IssuedCertificate, IssuedList};
use super::revoked::{self, RevokedList};
use super::{ClusterKeys, account_keys, certificate, pem, request};
use std::time::Duration;

/// Of a request that is signed.
#[derive(Default)]
pub struct Requested<'a> {
    pub usages: &'a [String],
    /// `None`: for ever.
    pub life: Option<Duration>,
    /// The user who asks.
    pub by: &'a str,
    /// The uid of the Node that the certificate is for, where there is one.
    pub node: &'a str,
}

impl ClusterKeys {
    /// A certificate and a key for a client, as PEM. `life`: `None` for ever.
    pub fn sign_client(
        &self,
        user: &str,
        groups: &[String],
        life: Option<Duration>,
    ) -> Result<(String, String), String> {
        let (text, key) = self.new_key()?;
        let end = life.map(|life| self.end(life));
        let leaf = certificate::of_client(user, groups, certificate::public_key(&key)?, end)?;
        let one = IssuedCertificate { user: user.to_owned(), groups: groups.to_vec(), ..IssuedCertificate::default() };
        Ok((self.sign_and_note(leaf, one, end)?, text))
    }

    /// The certificate that a request asks for, as PEM. Whether the requester may have it is decided before.
    pub fn sign_request(&self, pem: &str, requested: &Requested<'_>) -> Result<String, String> {
        let request = request::parse(pem)?;
        request.verify().map_err(|why| format!("unable to verify certificate request signature: {why}"))?;
        let end = requested.life.map(|life| self.end(life));
        let leaf = request.leaf(requested.usages, end)?;
        let (by, node) = (requested.by.to_owned(), requested.node.to_owned());
        let (user, groups) = (request.common_name(), request.organizations());
        self.sign_and_note(leaf, IssuedCertificate { user, groups, by, node, ..IssuedCertificate::default() }, end)
    }

    /// Seconds since 1970 at which something ends that is made now.
    fn end(&self, life: Duration) -> Duration {
        self.keep_time();
        Duration::from_secs(u64::try_from(self.now().seconds()).unwrap_or_default()).saturating_add(life)
    }

    fn sign_and_note(
        &self,
        leaf: certificate::Leaf,
        one: IssuedCertificate,
        end: Option<Duration>,
    ) -> Result<String, String> {
        let signed = self.sign(leaf)?;
        let made = self.now().seconds();
        let expires = end.map_or(0, |end| i64::try_from(end.as_secs()).unwrap_or(i64::MAX));
        let (serial, authority) = (revoked::hex(&signed.serial), signed.authority);
        let one = IssuedCertificate { serial, made, expires, authority, ..one };
        let held = self.folder.hold()?;
        let (text, superseded) = held.update(ISSUED, |text| {
            let mut list = IssuedList::parse(text)?;
            let superseded = list.add(one, made)?;
            Ok((None, (list.text(), superseded)))
        })?;
        // First: a certificate that is in neither list could never be ended.
        if !superseded.is_empty() {
            held.update(REVOKED, |text| {
                let mut list = RevokedList::parse(text)?;
                for old in &superseded {
                    list.supersede(&revoked::from_hex(&old.serial).unwrap_or_default(), &old.user)?;
                }
                Ok((Some(list.text()), ()))
            })?;
        }
        held.update(ISSUED, |_| Ok((Some(text), ())))?;
        drop(held);
        if !superseded.is_empty() {
            log::warn!("{} certificates of nodes count no more: newer ones took their place", superseded.len());
            self.look();
        }
        Ok(pem::pem(certificate::LABEL, &signed.der))
    }

    /// By the authority that signs now. The files say which, for a command may have changed them.
    pub(super) fn sign(&self, leaf: certificate::Leaf) -> Result<Signed, String> {
        let (bundle, keys) = (needed(&self.folder, AUTHORITY)?, needed(&self.folder, AUTHORITY_KEY)?);
        let cross = self.folder.read(CROSS)?;
        let unusable = |name: &str, why: String| format!("{}: {why}", self.folder.path(name).display());
        let authorities =
            Authorities::parse(&bundle, &keys, cross.as_deref()).map_err(|why| unusable(AUTHORITY, why))?;
        let key = authorities.signing_key(&keys).map_err(|why| unusable(AUTHORITY_KEY, why))?;
        let serial = certificate::serial(self.entropy.bytes());
        let der = certificate::signed(leaf, serial, authorities.signer(), &key)?;
        let authority = certificate::common_name(authorities.signer());
        Ok(Signed { serial, der, between: authorities.between()?, authority })
    }

    pub(super) fn new_key(&self) -> Result<(String, p256::ecdsa::SigningKey), String> {
        let text = super::first_start::draw(&self.entropy)?;
        let key = account_keys::read(&text)?;
        Ok((text, key))
    }
}

/// A certificate that was signed.
pub(super) struct Signed {
    pub(super) serial: certificate::Serial,
    pub(super) der: Vec<u8>,
    /// What a server sends behind it, as PEM.
    pub(super) between: String,
    /// The name of the authority.
    pub(super) authority: String,
}
