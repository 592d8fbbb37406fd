//! Requests for certificates. What is asked for, and by whom, stays as it was made; conditions say what became of it.

use super::doc::{copy, default_to, list, map_at, number, text};
use super::meta::{self, Scope};
use super::review::Asker;
use super::{Making, Rules, Share, Strategy, full, general, names};
use crate::meta::Time;
use coracle_schema::{Path, Problem, Reason, base64};
use serde_json::Value;

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

/// Conditions that say what was decided.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

pub static SIGNING_REQUEST: Strategy = Strategy { create, update, validate, validate_update, ..general::strategy::<true, false>() };

/// Whether it is granted: a word of its own, which is not taken back.
pub static APPROVAL: Share = Share {
    name: "approval",
    take: |new, old, now| {
        let conditions = dated(list(&new["status"], "conditions"), list(&old["status"], "conditions"), now);
        meta::keep(new, old);
        map_at(new, "status").insert("conditions".into(), conditions.into());
    },
    validate_update: |new, old, rules| {
        let mut found = validate_update(new, old, rules);
        found.extend(decisions(list(&new["status"], "conditions"), list(&old["status"], "conditions")));
        found
    },
};

/// Conditions without times get them: a new one now, one that says what it said keeps when it began to.
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

/// What is decided stays decided, and only one thing is.
fn decisions(conditions: &[Value], before: &[Value]) -> Vec<Problem> {
    let path = Path::new("status.conditions");
    let mut found = Vec::new();
    let holds = |all: &[Value], decision: &str| all.iter().any(|condition| text(condition, "type") == decision);
    for decision in DECISIONS {
        if holds(before, decision) && !holds(conditions, decision) {
            let words = format!("updates may not remove a condition of type {decision:?}");
            found.push(Problem::forbidden(&path, words));
        }
    }
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
            (other, true) => {
                found.push(Problem::new(&path.field("status"), Reason::NotSupported, Some(other.into()), super::supported_text(&["True"])))
            }
            (other, false) => {
                let words = super::supported_text(&["False", "True", "Unknown"]);
                found.push(Problem::new(&path.field("status"), Reason::NotSupported, Some(other.into()), words));
            }
        }
        let other = if kind == "Approved" { "Denied" } else { "Approved" };
        if ["Approved", "Denied"].contains(&kind) && holds(&conditions[..at], other) {
            found.push(Problem::invalid(&path.field("type"), kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if conditions[..at].iter().any(|other| text(other, "type") == kind) {
            found.push(Problem::new(&path.field("type"), Reason::Duplicate, Some(kind.into()), ""));
        }
    }
    found
}

/// Whatever the request says of who asks.
fn create(request: &mut Value, making: &mut Making<'_>) {
    let spec = map_at(request, "spec");
    for field in ["uid", "extra"] {
        spec.remove(field);
    }
    let asker = Asker::administrator();
    spec.insert("username".into(), asker.name.into());
    spec.insert("groups".into(), asker.groups.into());
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
