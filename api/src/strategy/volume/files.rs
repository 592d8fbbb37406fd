//! Volumes with files of an object, of the pod itself, or of several sources in one directory.

use super::super::checks::{PROBLEMS_MAX, full, one_of};
use super::super::doc::{has, is_empty, list, number, text};
use super::super::names::{self, problems};
use super::super::rules::Rules;
use super::super::{env, label_selector, signing};
use coracle_schema::{Path, Problem};
use serde_json::Value;
use std::collections::HashSet;

const MODE_MAX: i64 = 0o777;

/// Lives of tokens and certificates, in seconds.
const TOKEN_S_MIN: i64 = 600;

const TOKEN_S_MAX: i64 = 1 << 32;

const CERTIFICATE_S_MIN: i64 = 3600;

const CERTIFICATE_S_MAX: i64 = 91 * 24 * 3600;

const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

const DUPLICATE_PATHS: &str = "conflicting duplicate paths";

pub(super) fn mode(of: &Value, field: &str, path: &Path) -> Option<Problem> {
    let mode = number(of, field).filter(|mode| !(0..=MODE_MAX).contains(mode))?;
    Some(Problem::invalid(&path.field(field), mode, "must be a number between 0 and 0777 (octal), both inclusive"))
}

/// Keys of a config map or a secret, and the files that they become.
pub(super) fn items(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = mode(of, "defaultMode", path).into_iter().collect();
    for (at, item) in list(of, "items").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("items").index(at);
        for field in ["key", "path"] {
            if is_empty(&item[field]) {
                found.push(Problem::required(&path.field(field), ""));
            }
        }
        found.extend(problems(&path.field("path"), text(item, "path"), names::not_reserved(text(item, "path"))));
        found.extend(mode(item, "mode", &path));
    }
    found
}

/// Files made of the pod's own fields.
pub(super) fn own_files(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for item in list(of, "items") {
        if full(&found) {
            break;
        }
        // Kubernetes names none of the items.
        let file = text(item, "path");
        if file.is_empty() {
            found.push(Problem::required(&path.field("path"), ""));
        }
        found.extend(problems(&path.field("path"), file, names::not_reserved(file)));
        match (has(item, "fieldRef"), has(item, "resourceFieldRef")) {
            (true, both) => {
                found.extend(env::field(&item["fieldRef"], &env::OF_FILES, &path.field("fieldRef")));
                if both {
                    let words = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    found.push(Problem::invalid(path, "resource", words));
                }
            }
            (false, true) => {
                found.extend(env::resource(&item["resourceFieldRef"], true, &path.field("resourceFieldRef")))
            }
            (false, false) => found.push(Problem::required(path, "one of fieldRef and resourceFieldRef is required")),
        }
        found.extend(mode(item, "mode", path));
    }
    found
}

/// Checks a projected volume: files of several sources in a single directory.
pub(super) fn projected(of: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = mode(of, "defaultMode", path).into_iter().collect();
    let mut seen = HashSet::new();
    for (at, source) in list(of, "sources").iter().enumerate() {
        if full(&found) {
            break;
        }
        let at = path.field("sources").index(at);
        let mut given = 0;
        for kind in
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"]
        {
            let (one, at) = (&source[kind], at.field(kind));
            if one.is_null() {
                continue;
            }
            given += 1;
            let files: &[&str] = match kind {
                "podCertificate" => &["credentialBundlePath", "keyPath", "certificateChainPath"],
                "secret" | "configMap" | "downwardAPI" => &[],
                _ => &["path"],
            };
            match kind {
                "secret" | "configMap" => {
                    if is_empty(&one["name"]) {
                        found.push(Problem::required(&at.field("name"), ""));
                    }
                    found.extend(items(one, &at));
                }
                "downwardAPI" => found.extend(own_files(one, &at)),
                "serviceAccountToken" => found.extend(token(one, &at, path)),
                "clusterTrustBundle" => found.extend(bundle(one, rules, &at)),
                _ => found.extend(certificate(one, &at)),
            }
            let paths = list(one, "items").iter().map(|item| text(item, "path")).filter(|file| !file.is_empty());
            for file in paths.filter(|file| !seen.insert(*file)).take(PROBLEMS_MAX) {
                let shown = if kind == "downwardAPI" { file } else { text(one, "name") };
                found.push(Problem::invalid(path, shown, DUPLICATE_PATHS));
            }
            // Kubernetes does not name the source of a token.
            let place = if kind == "serviceAccountToken" { path } else { &at };
            for field in files {
                let file = text(one, field);
                found.extend(problems(&place.field(field), file, names::not_reserved(file)));
                if !file.is_empty() && !seen.insert(file) {
                    found.push(Problem::invalid(path, file, DUPLICATE_PATHS));
                }
            }
        }
        if given > 1 {
            found.push(Problem::forbidden(&at, "may not specify more than 1 volume type per source"));
        }
    }
    found
}

fn token(of: &Value, path: &Path, projected: &Path) -> Vec<Problem> {
    let (life, at) = (number(of, "expirationSeconds"), path.field("expirationSeconds"));
    let mut found = Vec::new();
    if let Some(seconds) = life.filter(|seconds| *seconds < TOKEN_S_MIN) {
        found.push(Problem::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if let Some(seconds) = life.filter(|seconds| *seconds > TOKEN_S_MAX) {
        found.push(Problem::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    if is_empty(&of["path"]) {
        found.push(Problem::required(&projected.field("path"), ""));
    }
    found
}

fn bundle(of: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = match (of["name"].as_str(), of["signerName"].as_str()) {
        (Some(_), Some(_)) => vec![Problem::invalid(path, of.clone(), "only one of name and signerName may be used")],
        (Some(""), None) => vec![Problem::required(&path.field("name"), "must be a valid object name")],
        (Some(_), None) if has(of, "labelSelector") => {
            let words = "labelSelector must be unset if name is specified";
            vec![Problem::invalid(&path.field("labelSelector"), of["labelSelector"].clone(), words)]
        }
        (Some(_), None) => Vec::new(),
        (None, Some("")) => vec![Problem::required(&path.field("signerName"), "must be a valid signer name")],
        (None, Some(_)) => label_selector::validate(&of["labelSelector"], rules, &path.field("labelSelector")),
        (None, None) => vec![Problem::required(path, "either name or signerName must be specified")],
    };
    if is_empty(&of["path"]) {
        found.push(Problem::required(&path.field("path"), ""));
    }
    found
}

fn certificate(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found = signing::signer(text(of, "signerName"), &path.field("signerName"));
    found.extend(one_of(text(of, "keyType"), &KEY_TYPES, &path.field("keyType")));
    if let Some(seconds) =
        number(of, "maxExpirationSeconds").filter(|life| !(CERTIFICATE_S_MIN..=CERTIFICATE_S_MAX).contains(life))
    {
        let words = format!("must be between {CERTIFICATE_S_MIN} and {CERTIFICATE_S_MAX}, inclusive");
        found.push(Problem::invalid(&path.field("maxExpirationSeconds"), seconds, words));
    }
    if ["credentialBundlePath", "keyPath", "certificateChainPath"].iter().all(|field| is_empty(&of[*field])) {
        let words = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        found.push(Problem::required(path, words));
    }
    found
}
