//! Who may approve and sign: signers are named, and a right is a right for a signer. PURE.

use super::AdmissionRequest;
use crate::authorize::Attributes;
use coracle_api::meta::Resource;
use coracle_api::strategy::doc::text;
use serde_json::Value;

const SIGNERS: Resource = Resource {
    group: std::borrow::Cow::Borrowed("certificates.k8s.io"),
    plural: std::borrow::Cow::Borrowed("signers"),
};

/// The stored request names the signer: the document may name another.
pub(super) fn approval(request: &AdmissionRequest<'_>) -> Result<(), String> {
    let signer = request.old.map(|old| text(&old["spec"], "signerName")).unwrap_or_default();
    match may(request, "approve", signer) {
        true => Ok(()),
        false => Err(format!("user not permitted to approve requests with signerName {signer:?}")),
    }
}

pub(super) fn signing(request: &AdmissionRequest<'_>, signed: &Value) -> Result<(), String> {
    let old = request.old.unwrap_or(&Value::Null);
    let same = |field: &str| signed["status"][field] == old["status"][field];
    let signer = text(&old["spec"], "signerName");
    match same("certificate") && same("conditions") || may(request, "sign", signer) {
        true => Ok(()),
        false => Err(format!("user not permitted to sign requests with signerName {signer:?}")),
    }
}

/// Whether the writer has the right for this signer, or for all signers of its domain: `example.com/*`.
fn may(request: &AdmissionRequest<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")].iter().any(|name| {
        let asked = Attributes::resource(verb, &SIGNERS, "", ("", name));
        request.authorizer.authorize(&asked, request.identity).allows()
    })
}

#[cfg(test)]
mod tests {
    use super::super::AdmissionOperation::Update;
    use super::super::tests::{Objects, ask};
    use super::*;
    use crate::authorize::Decision;
    use coracle_http::Identity;
    use serde_json::json;

    #[test]
    fn a_right_for_a_signer() {
        let requests = Resource { group: "certificates.k8s.io".into(), plural: "certificatesigningrequests".into() };
        let old = json!({"spec": {"signerName": "example.com/a"}, "status": {"conditions": []}});
        let other = json!({"spec": {"signerName": "fine.com/a"}, "status": {"certificate": "x", "conditions": []}});
        for (right, may) in [
            ("example.com/a", true),
            ("example.com/*", true),
            ("example.com/b", false),
            ("fine.com/a", false),
            ("*", false),
        ] {
            let authorizer = |asked: &Attributes, _: &Identity| {
                let of = |verb: &str| Attributes::resource(verb, &SIGNERS, "", ("", right));
                match *asked == of("approve") || *asked == of("sign") {
                    true => Decision::Allowed(String::new()),
                    false => Decision::NoOpinion(String::new()),
                }
            };
            ask(&Objects::default(), (&requests, "approval"), (Update, "r", Some(&old)), |request| {
                let mut request = request.clone();
                request.authorizer = &authorizer;
                let why = "user not permitted to approve requests with signerName \"example.com/a\"";
                assert_eq!(approval(&request).err().unwrap_or_default(), if may { "" } else { why }, "{right}");
                let why = "user not permitted to sign requests with signerName \"example.com/a\"";
                assert_eq!(signing(&request, &other).err().unwrap_or_default(), if may { "" } else { why }, "{right}");
                assert_eq!(signing(&request, &old), Ok(()), "nothing is signed");
            });
        }
    }
}
