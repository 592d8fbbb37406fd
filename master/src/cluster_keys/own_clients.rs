//! The certificates by which the master itself is known to others: to kubelets, and to servers that extend the API.
//! They are made when they are asked for first, and anew when the authority is another.

use super::{ClusterKeys, certificate, pem};

/// Whom the master speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnClient {
    Kubelet,
    /// A server that extends the API, which believes this client what it says of other users.
    Extension,
}

impl OwnClient {
    /// The file without its ending, and the user.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            OwnClient::Kubelet => ("kubelet-client", "kube-apiserver-kubelet-client"),
            OwnClient::Extension => ("front-proxy-client", "front-proxy-client"),
        }
    }
}

impl ClusterKeys {
    /// The certificate and the key, as PEM.
    pub fn own_client(&self, of: OwnClient) -> Result<(String, String), String> {
        let (file, user) = of.names();
        let (certificate_file, key_file) = (format!("{file}.crt"), format!("{file}.key"));
        if let (Some(chain), Some(key)) = (self.folder.read(&certificate_file)?, self.folder.read(&key_file)?) {
            let parsed = pem::unpem(certificate::LABEL, &chain).and_then(|der| certificate::parse(&der).ok());
            let is_by_us = parsed.is_some_and(|parsed| certificate::is_by(&parsed, &self.authority));
            if is_by_us && coracle_api::strategy::pem::mismatch(&chain, &key).is_none() {
                return Ok((chain, key));
            }
        }
        let (text, key) = self.new_key()?;
        let leaf = certificate::of_client(user, &[], certificate::public_key(&key)?, None)?;
        let (_, der) = self.sign(leaf)?;
        let chain = pem::pem(certificate::LABEL, &der);
        self.folder.write(&key_file, &text)?;
        self.folder.write(&certificate_file, &chain)?;
        Ok((chain, text))
    }
}
