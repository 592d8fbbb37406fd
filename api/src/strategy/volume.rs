//! The volumes of a pod: each of exactly one kind, and that one whole.

use super::checks::{PROBLEMS_MAX, full, one_of};
use super::doc::{entries, has, is_empty, list, number, text};
use super::names::{self, problems};
use super::qos::quantity;
use super::rules::Rules;
use super::{claim, csi, env, label_selector};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// In the order in which Kubernetes looks: the second source found is the one reported.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const MODE_MAX: i64 = 0o777;
/// Lives of tokens and certificates, in seconds.
const TOKEN_S_MIN: i64 = 600;
const TOKEN_S_MAX: i64 = 1 << 32;
const CERTIFICATE_S_MIN: i64 = 3600;
const CERTIFICATE_S_MAX: i64 = 91 * 24 * 3600;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const DUPLICATE_PATHS: &str = "conflicting duplicate paths";

/// The volumes by their names; their problems are added to those found. `pod`: its name, after which claims that are made for it are
/// called; empty in a template.
pub fn validate<'s>(spec: &'s Value, pod: &str, rules: Rules, path: &Path, found: &mut Vec<Problem>) -> HashMap<&'s str, &'s Value> {
    let mut named = HashMap::new();
    let all = list(spec, "volumes");
    let made: HashSet<String> = match pod {
        "" => HashSet::new(),
        pod => all.iter().filter(|one| has(one, "ephemeral")).map(|one| format!("{pod}-{}", text(one, "name"))).collect(),
    };
    for (at, volume) in all.iter().enumerate() {
        if full(found) {
            break;
        }
        let (name, path) = (text(volume, "name"), path.field("volumes").index(at));
        found.extend(source(volume, pod, rules, &path));
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        } else {
            found.extend(problems(&path.field("name"), name, names::label(name)));
            if named.insert(name, volume).is_some() {
                found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
            }
        }
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if made.contains(claim) {
            let words = "must not reference a PVC that gets created for an ephemeral volume";
            found.push(Problem::invalid(&path.field("persistentVolumeClaim").field("claimName"), claim, words));
        }
    }
    named
}

fn source(volume: &Value, pod: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let kinds: Vec<&str> = SOURCES.iter().copied().filter(|source| has(volume, source)).collect();
    let Some((kind, others)) = kinds.split_first() else {
        return vec![Problem::required(path, "must specify a volume type")];
    };
    let (of, at) = (&volume[kind], path.field(kind));
    let required: &[&str] = match *kind {
        "secret" => &["secretName"],
        "configMap" => &["name"],
        "persistentVolumeClaim" => &["claimName"],
        "csi" => &[],
        kind => claim::needs(kind),
    };
    let mut found: Vec<Problem> =
        required.iter().filter(|field| is_empty(&of[**field])).map(|field| claim::missing(kind, field, path)).collect();
    found.extend(match *kind {
        "secret" | "configMap" => items(of, &at),
        "downwardAPI" => {
            let mut found: Vec<Problem> = mode(of, "defaultMode", &at).into_iter().collect();
            found.extend(own_files(of, &at));
            found
        }
        "projected" => projected(of, rules, &at),
        "csi" => driver(of, &at),
        "ephemeral" => ephemeral(of, text(volume, "name"), pod, rules, &at),
        kind => plain(kind, of, &at),
    });
    found.extend(others.iter().map(|other| Problem::forbidden(&path.field(other), "may not specify more than 1 volume type")));
    found
}

/// Sources that say nothing make no files.
pub fn unfilled(volume: &Value) -> Option<String> {
    let sources = list(&volume["projected"], "sources");
    let empty = !sources.is_empty() && sources.iter().all(is_empty);
    empty.then(|| format!("volume {:?} (Projected) has no sources provided", text(volume, "name")))
}

/// Kinds with a rule or two, besides what they need.
pub fn plain(kind: &str, of: &Value, path: &Path) -> Vec<Problem> {
    let (place, at) = (text(of, "path"), path.field("path"));
    let between = |field: &str, words: &str| {
        let number = number(of, field).filter(|number| !(0..=255).contains(number));
        number.map(|number| Problem::invalid(&path.field(field), number, words)).into_iter().collect()
    };
    match kind {
        "emptyDir" if quantity(&of["sizeLimit"]) < Quantity::ZERO => {
            vec![Problem::forbidden(&path.field("sizeLimit"), "SizeLimit field must be a valid resource quantity")]
        }
        "hostPath" if place.is_empty() => Vec::new(),
        "hostPath" => {
            let known = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            let mut found = problems(&at, place, names::no_back_steps(place));
            found.extend(one_of(text(of, "type"), &known, &path.field("type")));
            found
        }
        "gitRepo" => problems(&path.field("directory"), text(of, "directory"), names::descending(text(of, "directory"))),
        "gcePersistentDisk" | "awsElasticBlockStore" => between("partition", "must be between 0 and 255, inclusive"),
        "nfs" if !place.starts_with('/') => vec![Problem::invalid(&at, place, "must be an absolute path")],
        "iscsi" => {
            let name = text(of, "iqn");
            let form = || Problem::invalid(&path.field("iqn"), name, "must be valid format starting with iqn, eui, or naa");
            let lun: Vec<Problem> = between("lun", "must be between 0 and 255, inclusive");
            let mut found = Vec::new();
            found.extend((!name.is_empty() && !["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start))).then(form));
            found.extend(lun);
            if (of["chapAuthDiscovery"] == true || of["chapAuthSession"] == true) && !has(of, "secretRef") {
                found.push(Problem::required(&path.field("secretRef"), ""));
            }
            found
        }
        "flocker" => match (is_empty(&of["datasetName"]), is_empty(&of["datasetUUID"])) {
            (true, true) => vec![Problem::required(path, "one of datasetName and datasetUUID is required")],
            (false, false) => {
                vec![Problem::invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")]
            }
            _ => Vec::new(),
        },
        "fc" => fibre(of, path),
        "image" if !is_empty(&of["pullPolicy"]) => {
            let policies = ["Always", "IfNotPresent", "Never"];
            one_of(text(of, "pullPolicy"), &policies, &path.field("pullPolicy")).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn fibre(of: &Value, path: &Path) -> Vec<Problem> {
    let (targets, at) = (!is_empty(&of["targetWWNs"]), path.field("targetWWNs"));
    let words = "must specify either targetWWNs or wwids, but not both";
    match (targets, !is_empty(&of["wwids"]), number(of, "lun")) {
        (false, false, _) => vec![Problem::required(&at, words)],
        (true, true, _) => vec![Problem::invalid(&at, of["targetWWNs"].clone(), words)],
        (true, false, None) => vec![Problem::required(&path.field("lun"), "lun is required if targetWWNs is specified")],
        (true, false, Some(lun)) => problems(&path.field("lun"), lun, names::between(lun, 0, 255)),
        _ => Vec::new(),
    }
}

fn mode(of: &Value, field: &str, path: &Path) -> Option<Problem> {
    let mode = number(of, field).filter(|mode| !(0..=MODE_MAX).contains(mode))?;
    Some(Problem::invalid(&path.field(field), mode, "must be a number between 0 and 0777 (octal), both inclusive"))
}

/// Keys of a config map or a secret, and the files that they become.
fn items(of: &Value, path: &Path) -> Vec<Problem> {
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
fn own_files(of: &Value, path: &Path) -> Vec<Problem> {
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
            (false, true) => found.extend(env::resource(&item["resourceFieldRef"], true, &path.field("resourceFieldRef"))),
            (false, false) => found.push(Problem::required(path, "one of fieldRef and resourceFieldRef is required")),
        }
        found.extend(mode(item, "mode", path));
    }
    found
}

/// Files of several sources in one directory.
fn projected(of: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found: Vec<Problem> = mode(of, "defaultMode", path).into_iter().collect();
    let mut seen = HashSet::new();
    for (at, source) in list(of, "sources").iter().enumerate() {
        if full(&found) {
            break;
        }
        let at = path.field("sources").index(at);
        let mut given = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"] {
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
    let mut found = super::signing::signer(text(of, "signerName"), &path.field("signerName"));
    found.extend(one_of(text(of, "keyType"), &KEY_TYPES, &path.field("keyType")));
    if let Some(seconds) = number(of, "maxExpirationSeconds").filter(|life| !(CERTIFICATE_S_MIN..=CERTIFICATE_S_MAX).contains(life)) {
        let words = format!("must be between {CERTIFICATE_S_MIN} and {CERTIFICATE_S_MAX}, inclusive");
        found.push(Problem::invalid(&path.field("maxExpirationSeconds"), seconds, words));
    }
    if ["credentialBundlePath", "keyPath", "certificateChainPath"].iter().all(|field| is_empty(&of[*field])) {
        let words = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        found.push(Problem::required(path, words));
    }
    found
}

/// A driver's volume that lives as long as its pod.
fn driver(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found = csi::driver_name(text(of, "driver"), &path.field("driver"));
    let (secret, at) = (&of["nodePublishSecretRef"], path.field("nodePublishSecretRef").field("name"));
    match text(secret, "name") {
        _ if secret.is_null() => {}
        "" => found.push(Problem::required(&at, "")),
        name => found.extend(problems(&at, name, names::subdomain(name))),
    }
    found
}

/// A claim that is made for the pod, and goes with it.
fn ephemeral(of: &Value, name: &str, pod: &str, rules: Rules, path: &Path) -> Vec<Problem> {
    let (template, path) = (&of["volumeClaimTemplate"], path.field("volumeClaimTemplate"));
    if template.is_null() {
        return vec![Problem::required(&path, "")];
    }
    let mut found = super::meta::labels(&template["metadata"], "labels", &path.field("metadata"), rules);
    found.extend(super::meta::annotations(&template["metadata"], &path.field("metadata")));
    let other =
        entries(template, "metadata").filter(|(field, said)| !matches!(field.as_str(), "labels" | "annotations") && !is_empty(said));
    let words = "cannot be set";
    found.extend(other.take(PROBLEMS_MAX).map(|(field, _)| Problem::forbidden(&path.field("metadata").field(field), words)));
    found.extend(claim::of_spec(&template["spec"], rules, &path.field("spec")));
    let whole = format!("{pod}-{name}");
    if !pod.is_empty() && !names::subdomain(&whole).is_empty() {
        let words = format!("PVC name {whole:?}: {}", names::subdomain(&whole).join(", "));
        found.push(Problem::invalid(&path, name, words));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(volumes: Value, expected: &[&str]) {
        let mut found = Vec::new();
        validate(&json!({"volumes": volumes}), "p", Rules::default(), &Path::new("spec"), &mut found);
        let found: Vec<String> = found.iter().map(Problem::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{volumes}: {found:#?}");
        assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{volumes}: {found:#?}");
    }

    fn one(kind: &str, of: Value, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|rest| format!("spec.volumes[0].{kind}{rest}")).collect();
        check(json!([{"name": "v", kind: of}]), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn names_and_numbers() {
        check(json!([{"name": "v", "emptyDir": {}}]), &[]);
        check(json!([{"name": "v"}]), &["spec.volumes[0]: Required value: must specify a volume type"]);
        check(json!([{"emptyDir": {}}]), &["spec.volumes[0].name: Required value"]);
        check(
            json!([{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}, "nfs": {}}]),
            &["spec.volumes[1].nfs: Forbidden: may not specify more than 1", "spec.volumes[1].name: Duplicate value: \"v\""],
        );
        let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        check(
            json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}, {"name": "w", "persistentVolumeClaim": {"claimName": "p-v"}}]),
            &["spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"p-v\": must not reference a PVC that gets created"],
        );
    }

    #[test]
    fn kinds() {
        one("emptyDir", json!({"medium": "Memory", "sizeLimit": "1Gi"}), &[]);
        one("emptyDir", json!({"sizeLimit": "-1"}), &[".sizeLimit: Forbidden: SizeLimit field must"]);
        one("hostPath", json!({"path": "/a", "type": ""}), &[]);
        one(
            "hostPath",
            json!({"path": "/a/..", "type": "Pipe"}),
            &[".path: Invalid value: \"/a/..\": must not contain '..'", ".type: Unsupported value: \"Pipe\""],
        );
        one("gitRepo", json!({"repository": "r", "directory": "/x"}), &[".directory: Invalid value: \"/x\": must be a relative path"]);
        one("gcePersistentDisk", json!({"pdName": "d", "partition": 256}), &[".partition: Invalid value: 256: must be between"]);
        one("nfs", json!({"server": "s", "path": "x"}), &[".path: Invalid value: \"x\": must be an absolute path"]);
        one(
            "iscsi",
            json!({"targetPortal": "p", "iqn": "x", "lun": -1, "chapAuthSession": true}),
            &[".iqn: Invalid value: \"x\": must be valid format", ".lun: Invalid value: -1", ".secretRef: Required value"],
        );
        one("flocker", json!({}), &[": Required value: one of datasetName and datasetUUID is required"]);
        one("fc", json!({"targetWWNs": ["a"]}), &[".lun: Required value: lun is required"]);
        one("fc", json!({"wwids": ["a"]}), &[]);
        one("csi", json!({"driver": "a.b", "nodePublishSecretRef": {}}), &[".nodePublishSecretRef.name: Required value"]);
        one("csi", json!({}), &[".driver: Required value"]);
        one("image", json!({"reference": "a", "pullPolicy": "Often"}), &[".pullPolicy: Unsupported value: \"Often\""]);
        one("ephemeral", json!({}), &[".volumeClaimTemplate: Required value"]);
        let meta = json!({"name": "n", "labels": {"a": "b"}, "annotations": {"a": "b"}, "creationTimestamp": null, "finalizers": []});
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        one(
            "ephemeral",
            json!({"volumeClaimTemplate": {"metadata": meta, "spec": spec}}),
            &[".volumeClaimTemplate.metadata.name: Forbidden: cannot be set"],
        );
        one(
            "ephemeral",
            json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}),
            &[".volumeClaimTemplate.spec.resources[storage]: Required value"],
        );
    }

    #[test]
    fn files() {
        one("secret", json!({"secretName": "s", "defaultMode": 256, "items": [{"key": "k", "path": "a/b", "mode": 511}]}), &[]);
        one(
            "secret",
            json!({"defaultMode": 512, "items": [{"path": "../a", "mode": -1}, {"key": "k", "path": "..a"}]}),
            &[
                ".secretName: Required value",
                ".defaultMode: Invalid value: 512: must be a number between 0 and 0777",
                ".items[0].key: Required value",
                ".items[0].path: Invalid value: \"../a\": must not contain '..'",
                ".items[0].mode: Invalid value: -1",
                ".items[1].path: Invalid value: \"..a\": must not start with '..'",
            ],
        );
        let field = |path: &str| json!({"apiVersion": "v1", "fieldPath": path});
        one("downwardAPI", json!({"items": [{"path": "a", "fieldRef": field("metadata.labels")}]}), &[]);
        one(
            "downwardAPI",
            json!({"items": [{"path": "a", "fieldRef": field("status.podIP")}, {"path": "b"},
            {"path": "c", "resourceFieldRef": {"resource": "limits.cpu"}}]}),
            &[
                ".fieldRef.fieldPath: Unsupported value: \"status.podIP\"",
                ": Required value: one of fieldRef and resourceFieldRef is required",
                ".resourceFieldRef.containerName: Required value",
            ],
        );
        let token = |path: &str, seconds: i64| json!({"serviceAccountToken": {"path": path, "expirationSeconds": seconds}});
        one("projected", json!({"sources": [token("t", 3600), {"configMap": {"name": "m", "items": [{"key": "k", "path": "k"}]}}]}), &[]);
        one(
            "projected",
            json!({"sources": [token("t", 1), {"secret": {"items": [{"key": "k", "path": "t"}]}}]}),
            &[
                ".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10",
                ".sources[1].secret.name: Required value",
                ": Invalid value: \"\": conflicting duplicate paths",
            ],
        );
        one(
            "projected",
            json!({"sources": [{"clusterTrustBundle": {"path": "a"}}, {"podCertificate": {"signerName": "a.b/c", "keyType": "x"}}]}),
            &[
                ".sources[0].clusterTrustBundle: Required value: either name or signerName",
                ".sources[1].podCertificate.keyType: Unsupported value: \"x\"",
                ".sources[1].podCertificate: Required value: specify at least one",
            ],
        );
    }
}
