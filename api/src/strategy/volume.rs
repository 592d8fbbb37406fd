//! The volumes of a pod: each volume has exactly one source, with all required fields.

mod files;

use self::files::{items, mode, own_files, projected};
use super::checks::{PROBLEMS_MAX, full, one_of};
use super::doc::{entries, has, is_empty, list, number, text};
use super::names::{self, problems};
use super::qos::quantity;
use super::rules::Rules;
use super::{claim, csi, volume_source};
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
/// The volumes by their names; their problems are added to those found. `pod`: the pod's name, a part of the names of
/// generated claims; empty in a template.
pub fn validate<'s>(
    spec: &'s Value,
    pod: &str,
    rules: Rules,
    path: &Path,
    found: &mut Vec<Problem>,
) -> HashMap<&'s str, &'s Value> {
    let mut named = HashMap::new();
    let all = list(spec, "volumes");
    let made: HashSet<String> = match pod {
        "" => HashSet::new(),
        pod => {
            all.iter().filter(|one| has(one, "ephemeral")).map(|one| format!("{pod}-{}", text(one, "name"))).collect()
        }
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
        kind => volume_source::needs(kind),
    };
    let mut found: Vec<Problem> = required
        .iter()
        .filter(|field| is_empty(&of[**field]))
        .map(|field| volume_source::missing(kind, field, path))
        .collect();
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
    found.extend(
        others.iter().map(|other| Problem::forbidden(&path.field(other), "may not specify more than 1 volume type")),
    );
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
            let known =
                ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            let mut found = problems(&at, place, names::no_back_steps(place));
            found.extend(one_of(text(of, "type"), &known, &path.field("type")));
            found
        }
        "gitRepo" => {
            problems(&path.field("directory"), text(of, "directory"), names::descending(text(of, "directory")))
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => between("partition", "must be between 0 and 255, inclusive"),
        "nfs" if !place.starts_with('/') => vec![Problem::invalid(&at, place, "must be an absolute path")],
        "iscsi" => {
            let name = text(of, "iqn");
            let form =
                || Problem::invalid(&path.field("iqn"), name, "must be valid format starting with iqn, eui, or naa");
            let lun: Vec<Problem> = between("lun", "must be between 0 and 255, inclusive");
            let mut found = Vec::new();
            found.extend(
                (!name.is_empty() && !["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start))).then(form),
            );
            found.extend(lun);
            if (of["chapAuthDiscovery"] == true || of["chapAuthSession"] == true) && !has(of, "secretRef") {
                found.push(Problem::required(&path.field("secretRef"), ""));
            }
            found
        }
        "flocker" => match (is_empty(&of["datasetName"]), is_empty(&of["datasetUUID"])) {
            (true, true) => vec![Problem::required(path, "one of datasetName and datasetUUID is required")],
            (false, false) => {
                vec![Problem::invalid(
                    path,
                    "resource",
                    "datasetName and datasetUUID can not be specified simultaneously",
                )]
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
        (true, false, None) => {
            vec![Problem::required(&path.field("lun"), "lun is required if targetWWNs is specified")]
        }
        (true, false, Some(lun)) => problems(&path.field("lun"), lun, names::between(lun, 0, 255)),
        _ => Vec::new(),
    }
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
    let other = entries(template, "metadata")
        .filter(|(field, said)| !matches!(field.as_str(), "labels" | "annotations") && !is_empty(said));
    let words = "cannot be set";
    found.extend(
        other.take(PROBLEMS_MAX).map(|(field, _)| Problem::forbidden(&path.field("metadata").field(field), words)),
    );
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
            &[
                "spec.volumes[1].nfs: Forbidden: may not specify more than 1",
                "spec.volumes[1].name: Duplicate value: \"v\"",
            ],
        );
        let template =
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        check(
            json!([
                {"name": "v", "ephemeral": {"volumeClaimTemplate": template}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "p-v"}},
            ]),
            &["spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"p-v\": must not reference a PVC \
                 that gets created"],
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
        one(
            "gitRepo",
            json!({"repository": "r", "directory": "/x"}),
            &[".directory: Invalid value: \"/x\": must be a relative path"],
        );
        one(
            "gcePersistentDisk",
            json!({"pdName": "d", "partition": 256}),
            &[".partition: Invalid value: 256: must be between"],
        );
        one("nfs", json!({"server": "s", "path": "x"}), &[".path: Invalid value: \"x\": must be an absolute path"]);
        one(
            "iscsi",
            json!({"targetPortal": "p", "iqn": "x", "lun": -1, "chapAuthSession": true}),
            &[
                ".iqn: Invalid value: \"x\": must be valid format",
                ".lun: Invalid value: -1",
                ".secretRef: Required value",
            ],
        );
        one("flocker", json!({}), &[": Required value: one of datasetName and datasetUUID is required"]);
        one("fc", json!({"targetWWNs": ["a"]}), &[".lun: Required value: lun is required"]);
        one("fc", json!({"wwids": ["a"]}), &[]);
        one(
            "csi",
            json!({"driver": "a.b", "nodePublishSecretRef": {}}),
            &[".nodePublishSecretRef.name: Required value"],
        );
        one("csi", json!({}), &[".driver: Required value"]);
        one("image", json!({"reference": "a", "pullPolicy": "Often"}), &[".pullPolicy: Unsupported value: \"Often\""]);
        one("ephemeral", json!({}), &[".volumeClaimTemplate: Required value"]);
        let meta = json!({
            "name": "n", "labels": {"a": "b"}, "annotations": {"a": "b"}, "creationTimestamp": null, "finalizers": [],
        });
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
        one(
            "secret",
            json!({"secretName": "s", "defaultMode": 256, "items": [{"key": "k", "path": "a/b", "mode": 511}]}),
            &[],
        );
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
        let token =
            |path: &str, seconds: i64| json!({"serviceAccountToken": {"path": path, "expirationSeconds": seconds}});
        one(
            "projected",
            json!({"sources": [token("t", 3600), {"configMap": {"name": "m", "items": [{"key": "k", "path": "k"}]}}]}),
            &[],
        );
        one(
            "projected",
            json!({"sources": [token("t", 1), {"secret": {"items": [{"key": "k", "path": "t"}]}}]}),
            &[
                ".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less \
                 than 10",
                ".sources[1].secret.name: Required value",
                ": Invalid value: \"\": conflicting duplicate paths",
            ],
        );
        one(
            "projected",
            json!({
                "sources": [
                    {"clusterTrustBundle": {"path": "a"}}, {"podCertificate": {"signerName": "a.b/c", "keyType": "x"}},
                ],
            }),
            &[
                ".sources[0].clusterTrustBundle: Required value: either name or signerName",
                ".sources[1].podCertificate.keyType: Unsupported value: \"x\"",
                ".sources[1].podCertificate: Required value: specify at least one",
            ],
        );
    }
}
