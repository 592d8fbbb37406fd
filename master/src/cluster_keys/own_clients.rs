//! The certificates by which the master itself is known to others: to kubelets, and to servers that extend the API.
//! They are made at a start, and anew when they age or the authority is another. The one that a new certificate takes
//! the place of counts no more.

use super::files::{PROXY_AUTHORITY, PROXY_AUTHORITY_KEY, needed};
use super::{ClusterKeys, account_keys, certificate, pem};
use coracle_api::strategy::furniture::FRONT_PROXY;
use coracle_api::strategy::pem::mismatch;
use x509_cert::Certificate;

/// The group of kubeadm's administrators, in which its client of kubelets is.
const ADMINS: &str = "kubeadm:cluster-admins";

/// Whom the master speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnClient {
    Kubelet,
    /// A server that extends the API. Its client's certificate is signed by the authority of proxies.
    Extension,
}

impl OwnClient {
    pub const ALL: [OwnClient; 2] = [OwnClient::Kubelet, OwnClient::Extension];

    /// The file without its ending, and the user.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            OwnClient::Kubelet => ("kubelet-client", "kube-apiserver-kubelet-client"),
            OwnClient::Extension => (FRONT_PROXY, FRONT_PROXY),
        }
    }

    pub(super) fn certificate_file(self) -> String {
        format!("{}.crt", self.names().0)
    }

    fn groups(self) -> Vec<String> {
        match self {
            OwnClient::Kubelet => vec![ADMINS.to_owned()],
            OwnClient::Extension => Vec::new(),
        }
    }
}

impl ClusterKeys {
    /// The certificate and the key, as PEM.
    pub fn own_client(&self, of: OwnClient) -> Result<(String, String), String> {
        let (chain, key) = self.own_files(of)?;
        let first = parsed(&chain);
        let is_by_us = match of {
            OwnClient::Kubelet => {
                first.is_some_and(|first| certificate::is_by(&first, self.current().authorities.signer()))
            }
            OwnClient::Extension => {
                let proxies = parsed(&self.current().proxies);
                first.zip(proxies).is_some_and(|(first, by)| certificate::is_by(&first, &by))
            }
        };
        let has_ended =
            parsed(&chain).is_some_and(|one| self.is_known_revoked(one.tbs_certificate().serial_number().as_bytes()));
        match is_by_us && !has_ended && mismatch(&chain, &key).is_none() {
            true => Ok((chain, key)),
            false => self.make_own_client(of),
        }
    }

    /// Empty texts: there are no such files.
    fn own_files(&self, of: OwnClient) -> Result<(String, String), String> {
        let chain = self.folder.read(&of.certificate_file())?.unwrap_or_default();
        Ok((chain, self.folder.read(&format!("{}.key", of.names().0))?.unwrap_or_default()))
    }

    pub(super) fn make_own_client(&self, of: OwnClient) -> Result<(String, String), String> {
        let (file, user) = of.names();
        let before = parsed(&self.own_files(of)?.0);
        let (text, key) = self.new_key()?;
        let leaf = certificate::of_client(user, &of.groups(), certificate::public_key(&key)?, None)?;
        let der = match of {
            OwnClient::Kubelet => self.sign(leaf)?.der,
            OwnClient::Extension => self.sign_by_proxies(leaf)?,
        };
        let chain = pem::pem(certificate::LABEL, &der);
        // First: after a crash between the two nothing would know the one of before. A start makes another for one that
        // has ended.
        if let Some(before) = before {
            self.revoke(before.tbs_certificate().serial_number().as_bytes(), user)?;
        }
        let _held = self.folder.hold()?;
        self.folder.write(&format!("{file}.key"), &text)?;
        self.folder.write(&of.certificate_file(), &chain)?;
        Ok((chain, text))
    }

    fn sign_by_proxies(&self, leaf: certificate::Leaf) -> Result<Vec<u8>, String> {
        let unusable = |name: &str, why: String| format!("{}: {why}", self.folder.path(name).display());
        let authority = parsed(&needed(&self.folder, PROXY_AUTHORITY)?)
            .ok_or_else(|| unusable(PROXY_AUTHORITY, "it is no certificate".to_owned()))?;
        let key = account_keys::read(&needed(&self.folder, PROXY_AUTHORITY_KEY)?)
            .map_err(|why| unusable(PROXY_AUTHORITY_KEY, why))?;
        certificate::signed(leaf, certificate::serial(self.entropy.bytes()), &authority, &key)
    }
}

fn parsed(pem: &str) -> Option<Certificate> {
    pem::unpem(certificate::LABEL, pem).and_then(|der| certificate::parse(&der).ok())
}
