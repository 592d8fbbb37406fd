//! Certificate signing requests. The request and the requester never change; conditions record the decision and the
//! result.

use super::checks::{full, supported_text};
use super::doc::{copy, default_to, list, map_at, number, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules, Share};
use super::subject::{LABEL, der};
use super::{general, names};
use crate::meta::Time;
use coracle_schema::{Path, Problem, Reason, base64};
use serde_json::Value;
use std::collections::HashSet;

/// Signs what clients of the API server itself show.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of requests for unknown purposes, from before signers had names.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Of the names of Kubernetes' signers.
const KUBERNETES: &str = "kubernetes.io/";
/// Shortest life of a certificate.
const LIFE_S_MIN: i64 = 600;
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The types of conditions that record a decision.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

pub static SIGNING_REQUEST: BuiltinStrategy =
    BuiltinStrategy { update, status_update, validate, validate_update, ..general::strategy::<true, false>() };

/// The approval or denial of a request: a subresource whose decision cannot be withdrawn.
pub static APPROVAL: Share = Share {
    name: "approval",
    take: |new, old, now| {
        let conditions = dated(list(&new["status"], "conditions"), list(&old["status"], "conditions"), now);
        meta::part(new, old);
        map_at(new, "status").insert("conditions".into(), conditions.into());
    },
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, validate);
        found.extend(kept(conditions(new), conditions(old)));
        found
    },
};

fn conditions(request: &Value) -> &[Value] {
    list(&request["status"], "conditions")
}

/// Conditions without times get them: a new condition gets the current time, a condition with an unchanged status keeps
/// the time of its last transition.
fn dated(conditions: &[Value], before: &[Value], now: Time) -> Vec<Value> {
    let dated = |condition: &Value| {
        let mut condition = condition.clone();
        let old = before.iter().find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
        let began = old.map(|old| old["lastTransitionTime"].clone()).filter(|time| !time.is_null());
        default_to(&mut condition, "lastTransitionTime", began.unwrap_or_else(|| now.to_string().into()));
        default_to(&mut condition, "lastUpdateTime", now.to_string());
        condition
    };
    conditions.iter().map(dated).collect()
}

fn holds(conditions: &[Value], decision: &str) -> bool {
    conditions.iter().any(|condition| text(condition, "type") == decision)
}

/// Refuses changes of a decision.
fn kept(conditions: &[Value], before: &[Value]) -> Vec<Problem> {
    let lost = DECISIONS.into_iter().filter(|decision| holds(before, decision) && !holds(conditions, decision));
    let words = lost.map(|decision| format!("updates may not remove a condition of type {decision:?}"));
    words.map(|words| Problem::forbidden(&Path::new("status.conditions"), words)).collect()
}

/// Conditions that say something, each once, and only one decision.
fn decisions(conditions: &[Value]) -> Vec<Problem> {
    let path = Path::new("status.conditions");
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (at, condition) in conditions.iter().enumerate() {
        if full(&found) {
            break;
        }
        let (path, kind) = (path.index(at), text(condition, "type"));
        if kind.is_empty() {
            found.push(Problem::required(&path.field("type"), ""));
        }
        match (text(condition, "status"), DECISIONS.contains(&kind)) {
            ("", _) => found.push(Problem::required(&path.field("status"), "")),
            ("True", _) | ("False" | "Unknown", false) => {}
            (other, true) => found.push(Problem::new(
                &path.field("status"),
                Reason::NotSupported,
                Some(other.into()),
                supported_text(&["True"]),
            )),
            (other, false) => {
                let words = supported_text(&["False", "True", "Unknown"]);
                found.push(Problem::new(&path.field("status"), Reason::NotSupported, Some(other.into()), words));
            }
        }
        let other = if kind == "Approved" { "Denied" } else { "Approved" };
        if ["Approved", "Denied"].contains(&kind) && seen.contains(other) {
            found.push(Problem::invalid(
                &path.field("type"),
                kind,
                "Approved and Denied conditions are mutually exclusive",
            ));
        }
        if !seen.insert(kind) {
            found.push(Problem::new(&path.field("type"), Reason::Duplicate, Some(kind.into()), ""));
        }
    }
    found
}

fn update(new: &mut Value, old: &Value, making: &mut Making<'_>) {
    copy(new, old, "spec");
    general::update::<false>(new, old, making);
}

/// Decisions are made through the subresource `approval`. A status update keeps stored decisions, and cannot add or
/// remove a decision.
fn status_update(new: &mut Value, old: &Value) {
    for decision in ["Approved", "Denied"] {
        let was = conditions(old).iter().find(|condition| text(condition, "type") == decision).cloned();
        let stands =
            super::doc::list_at(&mut new["status"], "conditions").find(|condition| text(condition, "type") == decision);
        if let (Some(stands), Some(was)) = (stands, was) {
            *stands = was;
        }
    }
    meta::status_update(new, old);
}

/// The problem of certificates as PEM text: the text must hold at least one certificate and no block of a different
/// type.
fn certificates(sent: &str) -> Option<String> {
    let text = String::from_utf8(base64::decode(sent).unwrap_or_default()).unwrap_or_default();
    let mut found = 0;
    let mut rest = text.as_str();
    while let Some((_, begun)) = rest.split_once("-----BEGIN ") {
        let Some((label, body)) = begun.split_once("-----") else { break };
        let end = format!("-----END {label}-----");
        let Some((body, after)) = body.split_once(&end) else { break };
        if label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"));
        }
        if body.contains(':') {
            return Some("no PEM block headers are permitted".to_owned());
        }
        let compact: String = body.split_whitespace().collect();
        // Its first byte says that it is a sequence, as every certificate is.
        if base64::decode(&compact).ok().and_then(|bytes| bytes.first().copied()) != Some(0x30) {
            return Some("x509: malformed certificate".to_owned());
        }
        found += 1;
        rest = after;
    }
    (found == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

/// Why `spec.request` is no request. The signers of Kubernetes are part of this program: a text that they cannot read
/// is refused at once, so that admission has seen all that they sign. Other signers read more forms of PEM.
fn unreadable(request: &Value) -> Option<String> {
    let sent = base64::decode(text(&request["spec"], "request")).unwrap_or_default();
    let pem = String::from_utf8(sent).unwrap_or_default();
    let is_framed = pem.trim_start().starts_with(&format!("-----BEGIN {LABEL}-----"))
        && pem.contains(&format!("-----END {LABEL}-----"));
    if !is_framed {
        return Some(format!("PEM block type must be {LABEL}"));
    }
    let is_of_kubernetes = text(&request["spec"], "signerName").starts_with(KUBERNETES);
    (is_of_kubernetes && der(request).is_none()).then(|| {
        format!(
            "must be exactly one PEM block of type {LABEL}: BEGIN and END on lines of their own, Base64 between them, \
             and nothing else"
        )
    })
}

fn validate(request: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(request, Scope::Cluster, super::rbac::segment, rules);
    let (spec, path) = (&request["spec"], Path::new("spec"));
    if let Some(why) = unreadable(request) {
        found.push(Problem::invalid(&path.field("request"), spec["request"].clone(), why));
    }
    let usages = list(spec, "usages");
    if usages.is_empty() {
        found.push(Problem::required(&path.field("usages"), ""));
    }
    for (at, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.iter().any(|known| *usage == known)) {
        if full(&found) {
            break;
        }
        let words = supported_text(&USAGES);
        found.push(Problem::new(&path.field("usages").index(at), Reason::NotSupported, Some(usage.clone()), words));
    }
    let mut seen = HashSet::new();
    for (at, usage) in usages.iter().enumerate().filter(|(_, usage)| !seen.insert(usage.as_str())).take(8) {
        found.push(Problem::new(&path.field("usages").index(at), Reason::Duplicate, Some(usage.clone()), ""));
    }
    if text(spec, "signerName") == LEGACY_SIGNER {
        let words = "the legacy signerName is not allowed via this API version";
        found.push(Problem::invalid(&path.field("signerName"), LEGACY_SIGNER, words));
    }
    found.extend(signer(text(spec, "signerName"), &path.field("signerName")));
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|seconds| *seconds < LIFE_S_MIN) {
        let words = format!("may not specify a duration less than {LIFE_S_MIN} seconds (10 minutes)");
        found.push(Problem::invalid(&path.field("expirationSeconds"), seconds, words));
    }
    found.extend(decisions(conditions(request)));
    let certificate = text(&request["status"], "certificate");
    if let Some(why) = certificates(certificate).filter(|_| !certificate.is_empty()) {
        found.push(Problem::invalid(&Path::new("status.certificate"), "<certificate data>", why));
    }
    found
}

/// `example.com/signer-name`
pub fn signer(name: &str, path: &Path) -> Vec<Problem> {
    if name.is_empty() {
        return vec![Problem::required(path, "")];
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.is_empty() && !rest.contains('/')) else {
        let words = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![Problem::invalid(path, name, words)];
    };
    let mut found = names::problems(path, domain, names::subdomain(domain));
    if domain.split('.').count() < 2 {
        found.push(Problem::invalid(path, domain, "should be a domain with at least two segments separated by dots"));
    }
    found.extend(names::problems(path, rest, names::subdomain(rest)));
    found
}

fn validate_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    found.extend(kept(conditions(new), conditions(old)));
    let added = ["Approved", "Denied"]
        .into_iter()
        .filter(|decision| holds(conditions(new), decision) && !holds(conditions(old), decision));
    let words = added.map(|decision| format!("updates may not add a condition of type {decision:?}"));
    found.extend(words.map(|words| Problem::forbidden(&Path::new("status.conditions"), words)));
    let (now, was) = (text(&new["status"], "certificate"), text(&old["status"], "certificate"));
    if !was.is_empty() && now != was {
        let words = "updates may not modify existing certificate content";
        found.push(Problem::forbidden(&Path::new("status.certificate"), words));
    }
    found
}

/// Whether a request of the cluster's own signer of clients asks to be an administrator's. A request that the signer
/// cannot read asks for nothing: validation refuses it.
pub fn wants_masters(request: &Value) -> bool {
    const ORGANIZATION: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x0a];
    const MASTERS: &[u8] = b"system:masters";
    let der = der(request).unwrap_or_default();
    // An organization, a form of text, its length, and the text.
    let named =
        |at: &[u8]| at.strip_prefix(ORGANIZATION).and_then(|at| at.get(2..)).is_some_and(|at| at.starts_with(MASTERS));
    text(&request["spec"], "signerName") == CLIENT_SIGNER && (0..der.len()).any(|at| named(&der[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pem(label: &str, der: &[u8]) -> String {
        base64::encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64::encode(der)).as_bytes())
    }

    fn request(status: Value) -> Value {
        let spec = json!({
            "request": pem("CERTIFICATE REQUEST", &[0x30, 0]), "signerName": "a.b/c", "usages": ["client auth"],
        });
        json!({"metadata": {"name": "r"}, "spec": spec, "status": status})
    }

    #[test]
    fn what_is_answered() {
        fn check(status: Value, expected: &[&str]) {
            let found: Vec<String> =
                validate(&request(status), Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected);
        }
        check(
            json!({
                "certificate": pem("CERTIFICATE", &[0x30, 0]), "conditions": [{"type": "Approved", "status": "True"}],
            }),
            &[],
        );
        let place = "status.certificate: Invalid value: \"<certificate data>\"";
        check(
            json!({"certificate": base64::encode(b"no")}),
            &[&format!("{place}: must contain at least one CERTIFICATE PEM block")],
        );
        check(
            json!({"certificate": pem("KEY", &[0x30, 0])}),
            &[&format!("{place}: only CERTIFICATE PEM blocks are allowed, found \"KEY\"")],
        );
        let torn = format!("{}: must contain at least one CERTIFICATE PEM block", place);
        check(json!({"certificate": base64::encode(b"-----BEGIN CERT")}), &[&torn]);
        check(json!({"certificate": pem("CERTIFICATE", &[1, 0])}), &[&format!("{place}: x509: malformed certificate")]);
        check(
            json!({
                "conditions": [
                    {"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}, {"type": "X"},
                ],
            }),
            &[
                "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions[1].type: Invalid value: \"Denied\": Approved and Denied conditions are mutually \
                 exclusive",
                "status.conditions[2].status: Required value",
            ],
        );
    }

    #[test]
    fn decisions_stay() {
        fn check(status: Value, expected: &[&str]) {
            let old = request(json!({
                "conditions": [{"type": "Approved", "status": "True", "reason": "r"}],
                "certificate": pem("CERTIFICATE", &[0x30, 0]),
            }));
            let mut new = request(status);
            status_update(&mut new, &old);
            let found: Vec<String> =
                validate_update(&new, &old, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected);
        }
        let certificate = pem("CERTIFICATE", &[0x30, 0]);
        check(json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": certificate}), &[]);
        check(
            json!({
                "conditions": [{"type": "Failed", "status": "True"}], "certificate": pem("CERTIFICATE", &[0x30, 1]),
            }),
            &[
                "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
                "status.certificate: Forbidden: updates may not modify existing certificate content",
            ],
        );
        let (old, new) = (request(json!({})), request(json!({"conditions": [{"type": "Denied", "status": "True"}]})));
        let words = "status.conditions: Forbidden: updates may not add a condition of type \"Denied\"";
        assert_eq!(validate_update(&new, &old, Rules::default())[0].to_string(), words);
        assert_eq!((APPROVAL.validate_update)(&new, &old, Rules::default()), []);
    }

    #[test]
    fn nobody_asks_to_be_an_administrator() {
        let of = |organization: &str, signer: &str| {
            let mut der = vec![0x30, 0x20, 0x06, 0x03, 0x55, 0x04, 0x0a, 0x0c, organization.len() as u8];
            der.extend(organization.bytes());
            let mut request = request(json!({}));
            request["spec"]["request"] = pem("CERTIFICATE REQUEST", &der).into();
            request["spec"]["signerName"] = signer.into();
            wants_masters(&request)
        };
        assert!(of("system:masters", CLIENT_SIGNER));
        assert!(!of("system:masters", "a.b/c"));
        assert!(!of("developers", CLIENT_SIGNER));
    }

    #[test]
    fn what_is_signed_here_is_read_in_one_way() {
        let (begin, end) = ("-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----");
        let check = |text: &str, signer: &str, expected: &str| {
            let mut request = request(json!({}));
            request["spec"]["request"] = base64::encode(text.as_bytes()).into();
            request["spec"]["signerName"] = signer.into();
            let found = validate(&request, Rules::default()).iter().map(Problem::to_string).collect::<String>();
            assert!(found.is_empty() == expected.is_empty() && found.contains(expected), "{text} {signer}: {found}");
        };
        let only = "must be exactly one PEM block of type CERTIFICATE REQUEST: BEGIN and END on lines of their own";
        for (text, expected) in [
            (format!("{begin}\nMAA=\n{end}\n"), ""),
            (format!("{begin}MAA={end}\n"), only),
            (format!("{begin}\nMAA=\n{end}\n!\n"), only),
            (format!("{begin}\nMAA=\n{end}!\n"), only),
            (format!("{begin}\nMAA=\n{end}\n{begin}\nMAA=\n{end}\n"), only),
            (format!("{begin}\n{end}\n"), only),
        ] {
            for signer in [CLIENT_SIGNER, "kubernetes.io/kubelet-serving"] {
                check(&text, signer, expected);
            }
            // Another program reads it.
            check(&text, "a.b/c", "");
        }
        let other = "spec.request: Invalid value: \"bm9wZQ==\": PEM block type must be CERTIFICATE REQUEST";
        check("nope", CLIENT_SIGNER, other);
        check("nope", "a.b/c", other);
    }
}
