//! Requests for certificates. What is asked for, and by whom, stays as it was made; conditions say what became of it.

use super::doc::{copy, list, map_at, number, text};
use super::meta::{self, Scope};
use super::{Making, Rules, Strategy, full, general, names};
use coracle_schema::{Path, Problem, Reason, base64};
use serde_json::{Value, json};

const LABEL: &str = "CERTIFICATE REQUEST";
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

pub static SIGNING_REQUEST: Strategy = Strategy { create, update, validate, validate_update, ..general::strategy::<true, false>() };

/// Nobody shows who they are yet: whoever may write is the administrator, whatever the request says.
fn create(request: &mut Value, making: &mut Making<'_>) {
    let spec = map_at(request, "spec");
    for field in ["uid", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".into(), "system:admin".into());
    spec.insert("groups".into(), json!(["system:masters", "system:authenticated"]));
    general::create::<false>(request, making);
}

fn update(new: &mut Value, old: &Value, making: &mut Making<'_>) {
    copy(new, old, "spec");
    general::update::<false>(new, old, making);
}

fn validate(request: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(request, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&request["spec"], Path::new("spec"));
    let sent = text(spec, "request");
    let pem = base64::decode(sent).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let whole = pem.trim_start().starts_with(&format!("-----BEGIN {LABEL}-----")) && pem.contains(&format!("-----END {LABEL}-----"));
    if !whole {
        found.push(Problem::invalid(&path.field("request"), sent, format!("PEM block type must be {LABEL}")));
    }
    let usages = list(spec, "usages");
    if usages.is_empty() {
        found.push(Problem::required(&path.field("usages"), ""));
    }
    for (at, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.iter().any(|known| *usage == known)) {
        if full(&found) {
            break;
        }
        let words = super::supported_text(&USAGES);
        found.push(Problem::new(&path.field("usages").index(at), Reason::NotSupported, Some(usage.clone()), words));
    }
    found.extend(signer(text(spec, "signerName"), &path.field("signerName")));
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|seconds| *seconds < LIFE_S_MIN) {
        let words = format!("may not specify a duration less than {LIFE_S_MIN} seconds (10 minutes)");
        found.push(Problem::invalid(&path.field("expirationSeconds"), seconds, words));
    }
    found
}

/// `example.com/signer-name`
fn signer(name: &str, path: &Path) -> Vec<Problem> {
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
    general::changed(new, old, rules, validate)
}
