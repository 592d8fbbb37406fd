//! PURE. Which requests a signer of Kubernetes takes, and which of a node's are approved by rule.

use crate::cluster_keys::request::CertificateRequest;
use coracle_api::strategy::CLIENT_SIGNER;

const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const NODE_SERVER_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The group that may do everything. Nobody gets a certificate of it by a request.
const MASTERS_GROUP: &str = "system:masters";
const NODES_GROUP: &str = "system:nodes";
pub const NODE_PREFIX: &str = "system:node:";
/// The last is optional: only RSA enciphers keys.
const NODE_CLIENT_USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
const NODE_SERVER_USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];

/// The usages of a request, as a set.
#[derive(Clone, Copy)]
pub struct Usages<'a>(&'a [String]);

impl<'a> Usages<'a> {
    pub fn of(usages: &'a [String]) -> Usages<'a> {
        Usages(usages)
    }

    /// Whether these are the wanted usages, with or without the enciphering of keys.
    fn are(self, wanted: [&str; 3]) -> bool {
        let has = |usage: &str| self.0.iter().any(|one| one == usage);
        self.0.iter().all(|one| wanted.contains(&one.as_str()))
            && wanted.iter().all(|one| has(one) || *one == "key encipherment")
    }

    fn did_not_match(wanted: [&str; 3]) -> String {
        format!("usages did not match [{}]", wanted.join(" "))
    }
}

/// The subresources whose right approves a request, each with the message of the approval.
pub fn approval(
    signer: &str,
    requester: &str,
    request: &CertificateRequest,
    usages: Usages<'_>,
) -> Vec<(&'static str, &'static str)> {
    if signer != NODE_CLIENT_SIGNER || of_node_client(request, usages).is_err() {
        return Vec::new();
    }
    let own = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.");
    let other = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
    let is_own = requester == request.common_name();
    is_own.then_some(own).into_iter().chain([other]).collect()
}

/// Whether a signer takes an approved request. `None`: the signer is none of this cluster's.
pub fn fault(signer: &str, request: &CertificateRequest, usages: Usages<'_>) -> Option<Result<(), String>> {
    Some(match signer {
        CLIENT_SIGNER => of_client(request, usages),
        NODE_CLIENT_SIGNER => of_node_client(request, usages),
        NODE_SERVER_SIGNER => of_node_server(request, usages),
        // The legacy signer is asked for by no version of the API that is served.
        _ => return None,
    })
}

fn of_client(request: &CertificateRequest, usages: Usages<'_>) -> Result<(), String> {
    // Admission has said so before. What is signed is looked at here, whichever way it came into the store.
    if request.organizations().iter().any(|group| group == MASTERS_GROUP) {
        return Err(format!("use of {CLIENT_SIGNER} signer with {MASTERS_GROUP} group is not allowed"));
    }
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.0.iter().find(|one| !allowed.contains(&one.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    match usages.0.iter().any(|one| one == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

fn of_node_client(request: &CertificateRequest, usages: Usages<'_>) -> Result<(), String> {
    of_node(request)?;
    let names = &request.alternative_names;
    for (found, what) in [
        (!names.dns.is_empty(), "DNS"),
        (!names.emails.is_empty(), "email"),
        (!names.addresses.is_empty(), "IP"),
        (!names.uris.is_empty(), "URI"),
    ] {
        if found {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    is_named_as_node(request)?;
    match usages.are(NODE_CLIENT_USAGES) {
        true => Ok(()),
        false => Err(Usages::did_not_match(NODE_CLIENT_USAGES)),
    }
}

fn of_node_server(request: &CertificateRequest, usages: Usages<'_>) -> Result<(), String> {
    of_node(request)?;
    let names = &request.alternative_names;
    if names.dns.is_empty() && names.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (found, what) in [(!names.emails.is_empty(), "email"), (!names.uris.is_empty(), "URI")] {
        if found {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    if !usages.are(NODE_SERVER_USAGES) {
        return Err(Usages::did_not_match(NODE_SERVER_USAGES));
    }
    is_named_as_node(request)
}

fn of_node(request: &CertificateRequest) -> Result<(), String> {
    match request.organizations() == [NODES_GROUP] {
        true => Ok(()),
        false => Err(format!("subject organization is not {NODES_GROUP}")),
    }
}

fn is_named_as_node(request: &CertificateRequest) -> Result<(), String> {
    match request.common_name().starts_with(NODE_PREFIX) {
        true => Ok(()),
        false => Err(format!("subject common name does not begin with {NODE_PREFIX}")),
    }
}
