//! The sources of volumes: the required fields of each source, in a pod or in a persistent volume.

use super::doc::{has, is_empty, text};
use super::names;
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// The required fields of a volume source, also in a pod.
pub fn needs(source: &str) -> &'static [&'static str] {
    match source {
        "hostPath" | "local" => &["path"],
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "glusterfs" => &["endpoints", "path"],
        "nfs" => &["server", "path"],
        "rbd" => &["monitors", "image"],
        "quobyte" => &["registry", "volume"],
        "cephfs" => &["monitors"],
        "iscsi" => &["targetPortal", "iqn"],
        "flexVolume" | "csi" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "gitRepo" => &["repository"],
        "image" => &["reference"],
        "storageos" => &["volumeName"],
        _ => &[],
    }
}

/// The problem of a missing required field, at the path that Kubernetes reports. `path`: the volume with this source.
pub fn missing(source: &str, field: &str, path: &Path) -> Problem {
    let (at, words) = match (source, field) {
        ("gcePersistentDisk", _) => (path.field("persistentDisk"), ""),
        ("quobyte", "registry") => {
            (path.field(source), "must be a host:port pair or multiple pairs separated by commas")
        }
        _ => (path.field(source), ""),
    };
    Problem::required(&at.field(field), words)
}

pub(super) fn of_source(spec: &Value, source: &str, path: &Path) -> Vec<Problem> {
    let at = path.field(source);
    let handle = (source == "csi").then_some("volumeHandle");
    let fields = needs(source).iter().copied().chain(handle);
    let missing = fields.filter(|field| is_empty(&spec[source][field]));
    let mut found: Vec<Problem> = missing.map(|field| self::missing(source, field, path)).collect();
    if source == "csi" {
        let driver = text(&spec[source], "driver");
        found.extend(super::csi::driver_name(driver, &at.field("driver")).into_iter().filter(|_| !driver.is_empty()));
        let secrets = ["controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"]
            .map(|use_of| format!("{use_of}SecretRef"));
        for secret in secrets.iter().filter(|secret| has(&spec[source], secret)) {
            let parts =
                ["name", "namespace"].into_iter().filter(|part| is_empty(&spec[source][secret.as_str()][*part]));
            found.extend(parts.map(|part| Problem::required(&at.field(secret).field(part), "")));
        }
    }
    let directory = text(&spec[source], "path");
    match source {
        "local" => found.extend(names::problems(&at.field("path"), directory, names::no_back_steps(directory))),
        // All further sources have the same rules in a pod and in a persistent volume.
        _ => found.extend(super::volume::plain(source, &spec[source], &at)),
    }
    if source == "hostPath" && directory == "/" && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let words = "may not be 'recycle' for a hostPath mount of '/'";
        found.push(Problem::forbidden(&path.field("persistentVolumeReclaimPolicy"), words));
    }
    if source == "local" && !has(spec, "nodeAffinity") {
        found.push(Problem::required(&path.field("nodeAffinity"), "Local volume requires node affinity"));
    }
    found
}
