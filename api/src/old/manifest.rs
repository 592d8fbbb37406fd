//! Manifest files of the agent: the ContainerManifest of container-vm, the Pod of v1beta1, the Pod of v1.
//!
//! A file in a different format is refused with the field and a correct replacement, because the agent has no server
//! for such questions.

use std::fmt;

use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

use super::pod::MANIFEST_SPEC;
use super::reading::{Object, brief};
use super::shape::{Form, Shape, field, ignored};
use super::words::old_path;
use super::{DecodeError, Decoded, Version, decode, field_path, read, row};

/// In files the manifest is the whole document.
static FILE: Shape = Shape(&[
    &[ignored("version").also(&["uuid", "kind", "apiVersion"]), field("id", &["metadata", "name"], Form::Text)],
    MANIFEST_SPEC,
]);

/// A pod from a file, as v1.
#[derive(Clone, Debug, PartialEq)]
pub struct FromFile {
    pub pod: Value,
    /// Fields that the format does not have, dropped; worth a line in the log.
    pub unknown: Vec<Path>,
    pub format: Format,
}

/// The recognized format of a manifest file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    ContainerManifest,
    Pod(Version),
    PodV1,
}

impl Format {
    /// A field of the pod as this format calls it, for what v1's validation finds.
    pub fn field_path(self, v1_path: &str) -> String {
        match self {
            Format::ContainerManifest => old_path(&FILE, v1_path),
            Format::Pod(version) => field_path(version, "Pod", v1_path),
            Format::PodV1 => v1_path.to_owned(),
        }
    }
}

/// Why a file gives no pod: every problem with its field and what to write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRefused(pub Vec<Problem>);

impl fmt::Display for FileRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self
            .0
            .iter()
            .map(|problem| if problem.path.as_str().is_empty() { problem.message() } else { problem.to_string() })
            .collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for FileRefused {}

/// Reads the document of one manifest file. A ContainerManifest without `id` gives a pod without a name: the reader of
/// the file gives the pod a name.
pub fn decode_any(document: &Value) -> Result<FromFile, FileRefused> {
    let Value::Object(from) = document else { return Err(not_a_map(document)) };
    let said = |name: &str| from.get(name).filter(|value| !value.is_null() && **value != "");
    match (said("version"), said("apiVersion"), said("kind").and_then(Value::as_str)) {
        (None, Some(version), None | Some("Pod")) if version == "v1" => pod_v1(from),
        (None, Some(version), None | Some("Pod")) => match version.as_str().and_then(Version::named) {
            Some(version) => old_pod(version, document),
            None => refuse(
                "apiVersion",
                Reason::NotSupported,
                Some(version),
                "must be v1 for a Pod of today, v1beta1 for a Pod of 2014",
            ),
        },
        (_, _, Some(kind)) if !["Pod", "ContainerManifest"].contains(&kind) => {
            refuse("kind", Reason::NotSupported, said("kind"), "no pod: a manifest of a pod says kind: Pod")
        }
        (Some(_), None, None) if is_compose(from) => refuse_compose(),
        (Some(version), _, kind) => container_manifest(from, version, kind),
        (None, Some(version), Some(_)) => container_manifest(from, version, None),
        (None, None, _) if is_compose(from) => refuse_compose(),
        (None, None, _) => Err(FileRefused(vec![unversioned(from)])),
    }
}

fn refuse(name: &str, reason: Reason, value: Option<&Value>, detail: &str) -> Result<FromFile, FileRefused> {
    Err(FileRefused(vec![Problem::new(&Path::new(name), reason, value.map(brief), detail)]))
}

/// Whether it is a file of Docker Compose: a map of services, which the first form of such files has as the whole
/// document.
fn is_compose(from: &Object) -> bool {
    let is_service = |value: &Value| ["image", "build", "extends"].iter().any(|name| value.get(name).is_some());
    let own = ["containers", "volumes", "id", "spec", "metadata", "desiredState"];
    from.get("services").is_some_and(|services| services.is_object() || services.is_null())
        || from.get("include").is_some_and(Value::is_array)
        || !own.iter().any(|name| from.contains_key(*name)) && from.values().any(is_service)
}

fn refuse_compose() -> Result<FromFile, FileRefused> {
    let detail = "this is a Compose file: `coracle import FILE` writes manifests of its services";
    Err(FileRefused(vec![Problem::new(&Path::root(), Reason::NotSupported, None, detail)]))
}

fn not_a_map(document: &Value) -> FileRefused {
    let detail = match document {
        Value::Null => "the file is empty: write a manifest, or take the file away".to_owned(),
        Value::Array(_) => {
            "a manifest file holds one pod, a map that starts with version: or apiVersion:; give each pod of the list \
             its own file"
                .to_owned()
        }
        _ => "a manifest is a map that starts with version: or apiVersion:".to_owned(),
    };
    FileRefused(vec![Problem::new(
        &Path::root(),
        Reason::TypeInvalid,
        Some(brief(document)).filter(|value| !value.is_null()),
        detail,
    )])
}

fn unversioned(from: &Object) -> Problem {
    let (name, detail) = if from.contains_key("spec") || from.contains_key("metadata") {
        ("apiVersion", "a Pod with metadata and spec starts with apiVersion: v1 and kind: Pod")
    } else if from.contains_key("desiredState") {
        ("apiVersion", "a Pod with desiredState starts with apiVersion: v1beta1")
    } else {
        ("version", "a list of containers starts with version: v1beta2")
    };
    Problem::required(&Path::new(name), detail)
}

fn pod_v1(from: &Object) -> Result<FromFile, FileRefused> {
    let mut pod = from.clone();
    pod.insert("kind".to_owned(), json!("Pod"));
    for name in ["metadata", "spec"] {
        if let Some(value) = from.get(name).filter(|value| !value.is_object() && !value.is_null()) {
            return refuse(name, Reason::TypeInvalid, Some(value), "must be a map");
        }
    }
    for (name, place) in [
        ("containers", "spec.containers"),
        ("volumes", "spec.volumes"),
        ("id", "metadata.name"),
        ("desiredState", "spec"),
    ] {
        if let Some(value) = from.get(name) {
            let detail = format!(
                "a Pod of v1 has it in {place}; with flat containers the file is a ContainerManifest and starts with \
                 version: v1beta2"
            );
            return refuse(name, Reason::Forbidden, Some(value), &detail);
        }
    }
    Ok(FromFile { pod: Value::Object(pod), unknown: Vec::new(), format: Format::PodV1 })
}

fn old_pod(version: Version, document: &Value) -> Result<FromFile, FileRefused> {
    match decode(version, "Pod", document) {
        Ok(decoded) => Ok(from_decoded(decoded, Format::Pod(version))),
        Err(DecodeError::Malformed(problems)) => Err(FileRefused(problems)),
        Err(other) => Err(FileRefused(vec![Problem::new(&Path::root(), Reason::Invalid, None, other.to_string())])),
    }
}

fn from_decoded(decoded: Decoded, format: Format) -> FromFile {
    FromFile { pod: decoded.object, unknown: decoded.unknown, format }
}

fn container_manifest(from: &Object, version: &Value, kind: Option<&str>) -> Result<FromFile, FileRefused> {
    let word = version.as_str().unwrap_or_default().to_ascii_lowercase();
    if from.contains_key("spec") || from.contains_key("metadata") || kind == Some("Pod") {
        let detail = if from.contains_key("desiredState") {
            "a Pod of v1beta1 says apiVersion, not version: write apiVersion: v1beta1"
        } else {
            "a Pod says apiVersion, not version: write apiVersion: v1"
        };
        return refuse("version", Reason::NotSupported, Some(version), detail);
    }
    if word != "v1beta1" && word != "v1beta2" {
        let detail = "a flat list of containers is a ContainerManifest: write version: v1beta2";
        return refuse("version", Reason::NotSupported, Some(version), detail);
    }
    let row = row("Pod").expect("pods are in the table");
    match read(Version::V1beta1, row, &FILE, from) {
        Ok(decoded) => Ok(from_decoded(decoded, Format::ContainerManifest)),
        Err(DecodeError::Malformed(problems)) => Err(FileRefused(problems)),
        Err(other) => Err(FileRefused(vec![Problem::new(&Path::root(), Reason::Invalid, None, other.to_string())])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/v1beta1/container-vm/");

    /// What a file gives: its format, name, containers, volumes and host ports, or why it is refused.
    fn outcome(document: &Value) -> String {
        match decode_any(document) {
            Err(refused) => refused.to_string(),
            Ok(FromFile { pod, unknown, format }) => {
                let names = |list: &Value| -> Vec<String> {
                    list.as_array()
                        .into_iter()
                        .flatten()
                        .map(|entry| entry["name"].as_str().unwrap_or("-").to_owned())
                        .collect()
                };
                let name = pod["metadata"]["name"].as_str().unwrap_or("-");
                assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
                let dropped = if unknown.is_empty() { String::new() } else { format!(" without {unknown:?}") };
                format!(
                    "{format:?} {name} {:?} {:?}{dropped}",
                    names(&pod["spec"]["containers"]),
                    names(&pod["spec"]["volumes"])
                )
            }
        }
    }

    #[test]
    fn manifests_from_the_wild() {
        const GUESTBOOK: &str = "ContainerManifest container-vm-guestbook [\"redis\", \"guestbook\"] [\"redis-data\"]";
        const GUESTBOOK_NAMELESS: &str = "ContainerManifest - [\"redis\", \"guestbook\"] [\"redis-data\"]";
        let table = [
            ("MarkEdmondson1234-docker-shiny-server.containers", "PodV1 shiny-server [\"shiny-server\"] []"),
            (
                "boojjee-christopher.containers",
                "version: Unsupported value: \"v0.1\": a flat list of containers is a ContainerManifest: write \
                 version: v1beta2",
            ),
            ("container-vm-guestbook-redis-python.manifest.3349666", GUESTBOOK_NAMELESS),
            ("container-vm-guestbook-redis-python.manifest.3caf166", GUESTBOOK),
            ("container-vm-guestbook-redis-python.manifest.6ddefc6", GUESTBOOK_NAMELESS),
            ("container-vm-guestbook-redis-python.manifest.a8f553c", GUESTBOOK),
            ("container-vm-guestbook-redis-python.manifest", GUESTBOOK),
            ("dgageot-hellodocker.containers", "ContainerManifest - [\"helloworld\"] []"),
            ("dgageot-helloworld.containers", "ContainerManifest - [\"helloworld\"] []"),
            (
                "google-github-issue-mover.containers",
                "version: Unsupported value: \"v1\": a flat list of containers is a ContainerManifest: write version: \
                 v1beta2",
            ),
            ("jeremyschlatter-provability.containers", "ContainerManifest - [\"combat\"] []"),
            (
                "jlfwong-1rt.containers",
                "version: Unsupported value: \"v1\": a Pod says apiVersion, not version: write apiVersion: v1",
            ),
            ("k8s-integration-test-manifest", GUESTBOOK),
            (
                "lynxbat-quoter.containers",
                "version: Unsupported value: \"v1\": a flat list of containers is a ContainerManifest: write version: \
                 v1beta2",
            ),
            ("nf-vanity.containers", "PodV1 vanity [\"vanity\"] []"),
        ];
        for (file, expected) in table {
            let text = std::fs::read_to_string(format!("{DATA}{file}.json")).expect(file);
            assert_eq!(outcome(&serde_json::from_str(&text).expect(file)), expected, "{file}");
        }
        assert_eq!(std::fs::read_dir(DATA).expect("the folder").count(), table.len());
    }

    #[test]
    fn each_format_is_recognised_or_told_what_to_write() {
        let table = [
            (json!(null), "Invalid value: the file is empty: write a manifest, or take the file away"),
            (
                json!([{"version": "v1beta1"}]),
                "Invalid value: \"a list\": a manifest file holds one pod, a map that starts with version: or \
                 apiVersion:; give each pod of the list its own file",
            ),
            (json!("x"), "Invalid value: \"x\": a manifest is a map that starts with version: or apiVersion:"),
            (json!({"version": "V1Beta2", "id": "a", "containers": []}), "ContainerManifest a [] []"),
            (json!({"version": "v1beta1", "kind": "ContainerManifest", "id": 5}), "ContainerManifest 5 [] []"),
            (
                json!({"version": "v1beta1", "containers": [], "bogus": 1}),
                "ContainerManifest - [] [] without [Path(\"bogus\")]",
            ),
            (
                json!({"containers": [{"name": "a"}]}),
                "version: Required value: a list of containers starts with version: v1beta2",
            ),
            (
                json!({"version": "", "containers": []}),
                "version: Required value: a list of containers starts with version: v1beta2",
            ),
            (
                json!({"version": 1, "containers": []}),
                "version: Unsupported value: 1: a flat list of containers is a ContainerManifest: write version: \
                 v1beta2",
            ),
            (
                json!({"metadata": {}, "spec": {}}),
                "apiVersion: Required value: a Pod with metadata and spec starts with apiVersion: v1 and kind: Pod",
            ),
            (
                json!({"desiredState": {}}),
                "apiVersion: Required value: a Pod with desiredState starts with apiVersion: v1beta1",
            ),
            (
                json!({"version": "v1beta1", "kind": "Pod", "desiredState": {}}),
                "version: Unsupported value: \"v1beta1\": a Pod of v1beta1 says apiVersion, not version: write \
                 apiVersion: v1beta1",
            ),
            (
                json!({
                    "apiVersion": "v1beta1", "kind": "Pod", "id": "a",
                    "desiredState": {"manifest": {"containers": [{"name": "c"}]}},
                }),
                "Pod(V1beta1) a [\"c\"] []",
            ),
            (json!({"apiVersion": "v1beta2", "id": "a"}), "Pod(V1beta2) a [] []"),
            (
                json!({"apiVersion": "v1beta3", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}),
                "Pod(V1beta3) a [\"c\"] []",
            ),
            (
                json!({"apiVersion": "v1beta4", "kind": "Pod"}),
                "apiVersion: Unsupported value: \"v1beta4\": must be v1 for a Pod of today, v1beta1 for a Pod of 2014",
            ),
            (
                json!({"apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}),
                "PodV1 a [\"c\"] []",
            ),
            (json!({"apiVersion": "v1", "kind": "Pod", "spec": []}), "spec: Invalid value: \"a list\": must be a map"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "containers": []}),
                "containers: Forbidden: \"a list\": a Pod of v1 has it in spec.containers; with flat containers the \
                 file is a ContainerManifest and starts with version: v1beta2",
            ),
            (
                json!({"apiVersion": "v1", "kind": "PodList", "items": []}),
                "kind: Unsupported value: \"PodList\": no pod: a manifest of a pod says kind: Pod",
            ),
            (
                json!({
                    "version": "v1beta1", "restartPolicy": "always", "containers": [{"name": [], "restartPolicy": 1}],
                    "volumes": {},
                }),
                "volumes: Invalid value: \"a map\": must be a list; containers[0].name: Invalid value: \"a list\": \
                 must be a string; restartPolicy: Invalid value: \"always\": must be a map: write {always: {}}",
            ),
            (
                json!({"apiVersion": "v1beta1", "desiredState": {"manifest": {"containers": {}}}}),
                "desiredState.manifest.containers: Invalid value: \"a map\": must be a list",
            ),
        ];
        for (document, expected) in table {
            assert_eq!(outcome(&document), expected, "{document}");
        }
    }

    #[test]
    fn a_port_without_host_port_is_not_published() {
        let file = json!({
            "version": "v1beta1", "containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}]}],
        });
        let pod = decode_any(&file).expect("a manifest").pod;
        assert_eq!(pod["spec"]["containers"][0]["ports"], json!([{"containerPort": 80}]));
    }
}
