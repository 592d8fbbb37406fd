//! Manifest files of the agent: the ContainerManifest of container-vm, the Pod of v1beta1, the Pod of v1.
//!
//! A file that is none of them is refused with the field and what to write instead: there is no server to ask.

use std::fmt;

use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

use super::pod::MANIFEST_SPEC;
use super::shape::{Form, Object, Shape, brief, field, ignored};
use super::words::old_path;
use super::{DecodeError, Decoded, decode, field_path, read, row};

/// In files the manifest is the whole document.
static FILE: Shape =
    Shape(&[&[ignored("version").also(&["uuid", "kind", "apiVersion"]), field("id", &["metadata", "name"], Form::Text)], MANIFEST_SPEC]);

/// A pod from a file, as v1.
#[derive(Clone, Debug, PartialEq)]
pub struct FromFile {
    pub pod: Value,
    /// Fields that the format does not have, dropped; worth a line in the log.
    pub unknown: Vec<Path>,
    pub format: Format,
}

/// What a manifest file was recognised as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    ContainerManifest,
    PodV1beta1,
    PodV1,
}

impl Format {
    /// A field of the pod as this format calls it, for what v1's validation finds.
    pub fn field_path(self, v1_path: &str) -> String {
        match self {
            Format::ContainerManifest => old_path(&FILE, v1_path),
            Format::PodV1beta1 => field_path("Pod", v1_path),
            Format::PodV1 => v1_path.to_owned(),
        }
    }
}

/// Why a file gives no pod: every problem with its field and what to write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRefused(pub Vec<Problem>);

impl fmt::Display for FileRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> =
            self.0.iter().map(|problem| if problem.path.as_str().is_empty() { problem.message() } else { problem.to_string() }).collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for FileRefused {}

/// Reads the document of one manifest file. A ContainerManifest without `id` gives a pod without a name: the reader
/// of the file names it.
pub fn decode_any(document: &Value) -> Result<FromFile, FileRefused> {
    let Value::Object(from) = document else { return Err(not_a_map(document)) };
    let said = |name: &str| from.get(name).filter(|value| !value.is_null() && **value != "");
    match (said("version"), said("apiVersion"), said("kind").and_then(Value::as_str)) {
        (None, Some(version), None | Some("Pod")) if version == "v1" => pod_v1(from),
        (None, Some(version), None | Some("Pod")) if version == "v1beta1" || version == "v1beta2" => pod_v1beta1(document),
        (None, Some(version), None | Some("Pod")) => {
            refuse("apiVersion", Reason::NotSupported, Some(version), "must be v1 for a Pod of today, v1beta1 for a Pod of 2014")
        }
        (_, _, Some(kind)) if !["Pod", "ContainerManifest"].contains(&kind) => refuse(
            "kind",
            Reason::NotSupported,
            said("kind"),
            "a manifest file holds one Pod: give each pod its own file, and anything else to the master",
        ),
        (Some(version), _, kind) => container_manifest(from, version, kind),
        (None, Some(version), Some(_)) => container_manifest(from, version, None),
        (None, None, _) => Err(FileRefused(vec![unversioned(from)])),
    }
}

fn refuse(name: &str, reason: Reason, value: Option<&Value>, detail: &str) -> Result<FromFile, FileRefused> {
    Err(FileRefused(vec![Problem::new(&Path::new(name), reason, value.map(brief), detail)]))
}

fn not_a_map(document: &Value) -> FileRefused {
    let detail = match document {
        Value::Null => "the file is empty: write a manifest, or take the file away".to_owned(),
        Value::Array(_) => {
            "a manifest file holds one pod, a map that starts with version: or apiVersion:; give each pod of the list its own file"
                .to_owned()
        }
        _ => "a manifest is a map that starts with version: or apiVersion:".to_owned(),
    };
    FileRefused(vec![Problem::new(&Path::root(), Reason::TypeInvalid, Some(brief(document)).filter(|value| !value.is_null()), detail)])
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
    for (name, place) in [("containers", "spec.containers"), ("volumes", "spec.volumes"), ("id", "metadata.name"), ("desiredState", "spec")]
    {
        if let Some(value) = from.get(name) {
            let detail = format!(
                "a Pod of v1 has it in {place}; with flat containers the file is a ContainerManifest and starts with version: v1beta2"
            );
            return refuse(name, Reason::Forbidden, Some(value), &detail);
        }
    }
    Ok(FromFile { pod: Value::Object(pod), unknown: Vec::new(), format: Format::PodV1 })
}

fn pod_v1beta1(document: &Value) -> Result<FromFile, FileRefused> {
    match decode("Pod", document) {
        Ok(decoded) => Ok(from_decoded(decoded, Format::PodV1beta1)),
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
    match read(row, &FILE, from) {
        Ok(decoded) => Ok(from_decoded(decoded, Format::ContainerManifest)),
        Err(DecodeError::Malformed(problems)) => Err(FileRefused(problems)),
        Err(other) => Err(FileRefused(vec![Problem::new(&Path::root(), Reason::Invalid, None, other.to_string())])),
    }
}
