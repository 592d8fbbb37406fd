//! Volumes: v1beta1 puts the source one level deeper and calls some of them otherwise.

use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

use super::merge::merge;
use super::reading::{Object, OldReading};
use super::shape::{Field, Form, Own, Shape, field, own};

pub(super) static VOLUME: Shape = Shape(&[&[field("name", &["name"], Form::Text), own("source", INLINE, &SOURCE)]]);

/// Sources written as v1 does, beside the name. To drop one with a warning would mount something else.
const INLINE: &[&str] = &[
    "hostDir",
    "hostPath",
    "emptyDir",
    "persistentDisk",
    "gcePersistentDisk",
    "gitRepo",
    "secret",
    "configMap",
    "nfs",
    "persistentVolumeClaim",
];

static SOURCE: Own = Own {
    read: read_source,
    show: show_source,
    governs: &[],
    words: &[field("source", &[], Form::Object(&SOURCES))],
    merge: Some(merge_source),
};

static SOURCES: Shape = Shape(&[SOURCE_FIELDS]);

const SOURCE_FIELDS: &[Field] = &[
    field("emptyDir", &["emptyDir"], Form::Present(&EMPTY_DIR)),
    field("hostDir", &["hostPath"], Form::Present(&PATH)).also(&["hostPath"]),
    field("persistentDisk", &["gcePersistentDisk"], Form::Present(&DISK)).also(&["gcePersistentDisk"]),
    field("awsElasticBlockStore", &["awsElasticBlockStore"], Form::Present(&BLOCK_STORE)),
    field("gitRepo", &["gitRepo"], Form::Present(&REPOSITORY)),
    field("secret", &["secret"], Form::Present(&SECRET)),
    field("nfs", &["nfs"], Form::Present(&NFS)),
    field("iscsi", &["iscsi"], Form::Present(&ISCSI)),
    field("glusterfs", &["glusterfs"], Form::Present(&GLUSTERFS)),
    field("persistentVolumeClaim", &["persistentVolumeClaim"], Form::Present(&VOLUME_CLAIM)),
    field("rbd", &["rbd"], Form::Present(&RBD)),
];

fn read_source(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    for name in INLINE.iter().filter(|name| from.get(**name).is_some_and(|value| !value.is_null())) {
        let detail = format!("a volume of v1beta1 has it one level deeper: write source: {{{name}: ...}}");
        seen.problem(Problem::new(&path.field(name), Reason::Forbidden, None, detail));
    }
    let path = path.field("source");
    let none = Object::new();
    let source = match from.get("source") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(source)) => source,
        Some(other) => return seen.mistyped(&path, other, "must be a map such as {emptyDir: {}}"),
    };
    let mut found = Object::new();
    let problems = seen.problems.len();
    let unknown = seen.unknown.len();
    SOURCES.read(source, &mut found, &path, seen);
    match found.len() {
        0 if seen.unknown.len() > unknown => {
            let known: Vec<&str> = SOURCE_FIELDS.iter().map(|field| field.name).collect();
            seen.problem(Problem::new(
                &path,
                Reason::NotSupported,
                None,
                format!("must have one of {}", known.join(", ")),
            ));
        }
        // No source at all is the usual form of an empty directory.
        0 if seen.problems.len() == problems => {
            into.insert("emptyDir".to_owned(), json!({}));
        }
        0 | 1 => into.extend(found),
        _ => {
            let names: Vec<&String> = found.keys().collect();
            seen.problem(Problem::new(&path, Reason::Invalid, Some(json!(names)), "must have exactly one source"));
        }
    }
}

fn show_source(v1: &Object, out: &mut Object) {
    out.insert("source".to_owned(), Value::Object(SOURCES.show(v1)));
}

fn merge_source(stored: &mut Object, new: &Object) {
    merge_source_of(&SOURCES, stored, new);
}

/// A volume has one source: a source of a different kind replaces the whole stored source.
pub(super) fn merge_source_of(sources: &Shape, stored: &mut Object, new: &Object) {
    let kind = |volume: &Object| sources.show(volume).keys().next().cloned();
    let expressed = kind(stored);
    let stored_otherwise = expressed.is_none() && stored.keys().any(|key| key != "name");
    if expressed.is_some() && expressed == kind(new) {
        return merge(sources, stored, new);
    }
    // A source that the version cannot say is shown as none, and clients read none as an empty directory.
    let none = kind(new).is_none() || new.get("emptyDir") == Some(&json!({}));
    if stored_otherwise && none {
        return;
    }
    stored.retain(|key, _| key == "name");
    stored.extend(new.iter().filter(|(key, _)| *key != "name").map(|(key, value)| (key.clone(), value.clone())));
}

pub(super) static EMPTY_DIR: Shape =
    Shape(&[&[field("medium", &["medium"], Form::Text).blank(super::shape::Blank::Text(""))]]);

pub(super) static PATH: Shape = Shape(&[&[field("path", &["path"], Form::Text)]]);

pub(super) static DISK: Shape = Shape(&[&[
    field("pdName", &["pdName"], Form::Text),
    field("fsType", &["fsType"], Form::Text),
    field("partition", &["partition"], Form::Number),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static BLOCK_STORE: Shape = Shape(&[&[
    field("volumeID", &["volumeID"], Form::Text),
    field("fsType", &["fsType"], Form::Text),
    field("partition", &["partition"], Form::Number),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static REPOSITORY: Shape =
    Shape(&[&[field("repository", &["repository"], Form::Text), field("revision", &["revision"], Form::Text)]]);

/// v1beta1 refers to the secret as to any object; v1 by its name alone.
static SECRET: Shape = Shape(&[&[field("target", &[], Form::Object(&SECRET_TARGET))]]);

static SECRET_TARGET: Shape = Shape(&[&[
    super::shape::said("kind", |_| Some(json!("Secret"))),
    super::shape::ignored("namespace").also(&["uid", "apiVersion", "resourceVersion", "fieldPath"]),
    field("name", &["secretName"], Form::Text),
]]);

pub(super) static NFS: Shape = Shape(&[&[
    field("server", &["server"], Form::Text),
    field("path", &["path"], Form::Text),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static ISCSI: Shape = Shape(&[&[
    field("targetPortal", &["targetPortal"], Form::Text),
    field("iqn", &["iqn"], Form::Text),
    field("lun", &["lun"], Form::Count),
    field("fsType", &["fsType"], Form::Text),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static GLUSTERFS: Shape = Shape(&[&[
    field("endpoints", &["endpoints"], Form::Text),
    field("path", &["path"], Form::Text),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static VOLUME_CLAIM: Shape =
    Shape(&[&[field("claimName", &["claimName"], Form::Text), field("readOnly", &["readOnly"], Form::Flag)]]);

pub(super) static RBD: Shape = Shape(&[&[
    field("monitors", &["monitors"], Form::Texts),
    field("image", &["image"], Form::Text),
    field("fsType", &["fsType"], Form::Text),
    field("pool", &["pool"], Form::Text),
    field("user", &["user"], Form::Text),
    field("keyring", &["keyring"], Form::Text),
    field("secretRef", &["secretRef"], Form::Object(&SECRET_REF)),
    field("readOnly", &["readOnly"], Form::Flag),
]]);

pub(super) static SECRET_REF: Shape = Shape(&[&[field("name", &["name"], Form::Text)]]);
