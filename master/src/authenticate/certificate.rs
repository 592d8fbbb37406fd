//! The user and groups in a client certificate, by Kubernetes' rules. PURE. The handshake settles which authorities may
//! sign such certificates.

use super::account::CREDENTIAL_ID;
use super::credential::Credential;
use crate::cluster_keys::revoked::hex;
use coracle_http::{ClientCertificate, Identity};
use std::collections::BTreeMap;

/// `None`: the certificate names no user. One by the authority of proxies names none: `front_proxy` reads it.
pub fn identity(certificate: &ClientCertificate) -> Option<Identity> {
    let ClientCertificate { common_name, organizations, serial, fingerprint, end_s, front_proxy, .. } = certificate;
    if common_name.is_empty() || *front_proxy {
        return None;
    }
    let mut groups = organizations.clone();
    if !groups.iter().any(|group| group == Identity::AUTHENTICATED) {
        groups.push(Identity::AUTHENTICATED.to_owned());
    }
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", hex(fingerprint))])]);
    let credential = Credential::Certificate { serial: serial.clone(), fingerprint: *fingerprint, end: *end_s };
    Some(credential.of(Identity { user: common_name.clone(), groups, extra, ..Identity::none() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_http::Standing;

    #[test]
    fn who_a_certificate_names() {
        let of = |name: &str, groups: &[&str]| {
            let organizations = groups.iter().map(|group| (*group).to_owned()).collect();
            let (common_name, serial) = (name.to_owned(), vec![7]);
            let fingerprint = [0xab; 32];
            let (end_s, front_proxy, standing) = (9, false, Standing::default());
            identity(&ClientCertificate {
                common_name,
                organizations,
                serial,
                fingerprint,
                end_s,
                front_proxy,
                standing,
            })
        };
        let node = of("system:node:n1", &["system:nodes"]).expect("a user");
        assert_eq!(
            (node.user.as_str(), node.groups.join(",")),
            ("system:node:n1", "system:nodes,system:authenticated".to_owned())
        );
        assert_eq!(node.extra[CREDENTIAL_ID], [format!("X509SHA256={}", "ab".repeat(32))]);
        let credential = Credential::Certificate { serial: vec![7], fingerprint: [0xab; 32], end: 9 };
        assert_eq!(Credential::behind(&node), Ok(Some(credential)));
        assert_eq!(of("", &["system:masters"]), None);
    }
}
