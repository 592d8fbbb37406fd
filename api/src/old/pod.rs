//! Pods, pod templates, and the ContainerManifest inside both.

use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

use super::common::{CONDITION_WORDS, LABELS, META, name_of};
use super::container::CONTAINER;
use super::place::{get, get_text, put};
use super::reading::{Object, OldReading, brief};
use super::shape::{Blank, Field, Form, Own, Shape, field, ignored, own, said};
use super::volume::VOLUME;

pub(super) static POD: Shape = Shape(&[
    META,
    LABELS,
    &[
        field("desiredState", &[], Form::Object(&POD_DESIRED)),
        field("currentState", &[], Form::Object(&POD_CURRENT)).observed().lax(),
    ],
    SCHEDULING,
]);

/// `podTemplate`: its place in v1 is `spec.template`.
pub(super) static TEMPLATE: Shape = Shape(&[
    LABELS,
    &[
        field("annotations", &["metadata", "annotations"], Form::TextMap),
        // Clients of 2014 put an id here too; the pods are named after their controller.
        ignored("id"),
        field("desiredState", &[], Form::Object(&TEMPLATE_DESIRED)),
    ],
    SCHEDULING,
]);

/// The scheduling fields of a pod outside the manifest.
const SCHEDULING: &[Field] = &[
    field("nodeSelector", &["spec", "nodeSelector"], Form::TextMap),
    field("serviceAccount", &["spec", "serviceAccountName"], Form::Text),
];

static POD_DESIRED: Shape = Shape(&[
    &[
        field("manifest", &[], Form::Object(&MANIFEST)),
        field("host", &["spec", "nodeName"], Form::Text).given(),
        // The server of 2014 wanted every pod running and said so; clients of 2014 read this field.
        said("status", |_| Some(json!("Running"))),
    ],
    OLD_POLICY,
]);

static TEMPLATE_DESIRED: Shape = Shape(&[
    &[
        field("manifest", &[], Form::Object(&MANIFEST)),
        field("host", &["spec", "nodeName"], Form::Text),
        ignored("status"),
    ],
    OLD_POLICY,
]);

/// v0.2 had the restart policy here, and spelled it so.
const OLD_POLICY: &[Field] = &[own(
    "restartpolicy",
    &[],
    &Own { read: read_old_policy, show: |_, _| {}, governs: &[], words: &[], merge: Some(|_, _| {}) },
)];

/// The container-vm format; in v1 a pod's `spec`, and in files its name.
pub(super) static MANIFEST: Shape = Shape(&[
    &[
        // Whatever was sent: v1beta1 and v1beta2 never differed.
        said("version", |_| Some(json!("v1beta2"))),
        said("id", |v1| Some(name_of(v1).unwrap_or(json!("")))),
        said("uuid", |v1| get(v1, &["metadata", "uid"]).cloned()),
    ],
    MANIFEST_SPEC,
]);

pub(super) const MANIFEST_SPEC: &[Field] = &[
    field("volumes", &["spec", "volumes"], Form::List(&VOLUME, &["name"])).blank(Blank::Null),
    field("containers", &["spec", "containers"], Form::List(&CONTAINER, &["name"])).blank(Blank::Null),
    own("restartPolicy", &[], &RESTART_POLICY),
    field("dnsPolicy", &["spec", "dnsPolicy"], Form::Text),
    field("hostNetwork", &["spec", "hostNetwork"], Form::Flag),
    field("terminationGracePeriodSeconds", &["spec", "terminationGracePeriodSeconds"], Form::Count),
    field("activeDeadlineSeconds", &["spec", "activeDeadlineSeconds"], Form::Count),
    field("imagePullSecrets", &["spec", "imagePullSecrets"], Form::List(&SECRET_NAME, &["name"])),
];

pub(super) static SECRET_NAME: Shape = Shape(&[&[field("name", &["name"], Form::Text)]]);

const POLICY_AT: &[&str] = &["spec", "restartPolicy"];

/// The only key in `restartPolicy`, and the value in v1.
const POLICIES: &[(&str, &str)] = &[("always", "Always"), ("onFailure", "OnFailure"), ("never", "Never")];

static RESTART_POLICY: Own = Own {
    read: read_policy,
    show: show_policy,
    governs: &[POLICY_AT],
    words: &[field("restartPolicy", POLICY_AT, Form::Text)],
    merge: None,
};

fn read_policy(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("restartPolicy").filter(|value| !value.is_null()) else { return };
    let path = path.field("restartPolicy");
    let Value::Object(policy) = value else {
        let word = value.as_str().unwrap_or_default();
        let known = POLICIES.iter().find(|(old, new)| old.eq_ignore_ascii_case(word) || new.eq_ignore_ascii_case(word));
        let right = known
            .map_or("{always: {}}, {onFailure: {}} or {never: {}}".to_owned(), |(old, _)| format!("{{{old}: {{}}}}"));
        return seen.problem(Problem::new(
            &path,
            Reason::TypeInvalid,
            Some(brief(value)),
            format!("must be a map: write {right}"),
        ));
    };
    let chosen: Vec<&str> = POLICIES
        .iter()
        .filter(|(old, _)| policy.get(*old).is_some_and(|v| !v.is_null()))
        .map(|(_, new)| *new)
        .collect();
    for name in policy.keys().filter(|name| *name != "type" && !POLICIES.iter().any(|(old, _)| old == name)) {
        seen.problem(Problem::new(
            &path.field(name),
            Reason::NotSupported,
            None,
            "must be one of always, onFailure, never",
        ));
    }
    match chosen[..] {
        [] => read_policy_type(policy, into, &path, seen),
        [policy] => put(into, POLICY_AT, json!(policy)),
        _ => seen.problem(Problem::new(
            &path,
            Reason::Invalid,
            Some(brief(value)),
            "must have exactly one of always, onFailure, never",
        )),
    }
}

/// `{"type": "RestartAlways"}` of v0.2.
fn read_policy_type(policy: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(kind) = policy.get("type").filter(|kind| !kind.is_null() && *kind != "") else { return };
    match POLICIES.iter().find(|(_, new)| kind.as_str().and_then(|kind| kind.strip_prefix("Restart")) == Some(new)) {
        Some((_, new)) => put(into, POLICY_AT, json!(new)),
        None => {
            let detail = "must be RestartAlways, RestartOnFailure or RestartNever";
            seen.problem(Problem::new(&path.field("type"), Reason::NotSupported, Some(brief(kind)), detail));
        }
    }
}

fn read_old_policy(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    match from.get("restartpolicy") {
        None | Some(Value::Null) => {}
        Some(Value::Object(policy)) if get(into, POLICY_AT).is_none() => {
            read_policy_type(policy, into, &path.field("restartpolicy"), seen)
        }
        Some(Value::Object(_)) => {}
        Some(other) => seen.mistyped(&path.field("restartpolicy"), other, "must be a map: write {type: RestartAlways}"),
    }
}

fn show_policy(v1: &Object, out: &mut Object) {
    let word = get_text(v1, POLICY_AT);
    let key = POLICIES.iter().find(|(_, new)| Some(*new) == word).map(|(old, _)| *old);
    out.insert("restartPolicy".to_owned(), key.map_or(json!({}), |key| json!({ key: {} })));
}

static POD_CURRENT: Shape = Shape(&[&[
    said("manifest", |_| Some(blank_manifest())),
    field("status", &["status", "phase"], Form::Word(PHASES)).blank(Blank::Text("Waiting")),
    field("message", &["status", "message"], Form::Text),
    field("Condition", &["status", "conditions"], Form::List(&CONDITION, &["type"])),
    // v1 knows one node name, the desired one.
    said("host", |v1| get(v1, &["spec", "nodeName"]).filter(|host| *host != "").cloned()),
    field("hostIP", &["status", "hostIP"], Form::Text),
    field("podIP", &["status", "podIP"], Form::Text),
    own("info", &[], &INFO),
]]);

const PHASES: &[(&str, &str)] = &[
    ("Waiting", "Pending"),
    ("Running", "Running"),
    ("Terminated", "Failed"),
    ("Succeeded", "Succeeded"),
    ("Unknown", "Unknown"),
];

static CONDITION: Shape =
    Shape(&[&[field("kind", &["type"], Form::Text), field("status", &["status"], Form::Word(CONDITION_WORDS))]]);

/// An unset manifest: clients of 2014 decode the manifest even if every field is empty.
pub(super) fn blank_manifest() -> Value {
    json!({"version": "", "id": "", "volumes": null, "containers": null, "restartPolicy": {}})
}

static INFO: Own =
    Own { read: read_info, show: show_info, governs: &[&["status", "containerStatuses"]], words: &[], merge: None };

fn read_info(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(Value::Object(info)) = from.get("info") else { return };
    let mut statuses = Vec::new();
    for (name, value) in info {
        let Value::Object(value) = value else { continue };
        // The pause container of 2014, under the names of its years, carried the pod's address.
        if matches!(name.as_str(), "net" | "POD") && value.get("podIP").is_some_and(|ip| *ip != "") {
            continue;
        }
        let mut status = Object::new();
        status.insert("name".to_owned(), json!(name));
        CONTAINER_STATUS.read(value, &mut status, &path.field("info").key(name), seen);
        statuses.push(Value::Object(status));
    }
    if !statuses.is_empty() {
        put(into, &["status", "containerStatuses"], Value::Array(statuses));
    }
}

fn show_info(v1: &Object, out: &mut Object) {
    let Some(Value::Array(statuses)) = get(v1, &["status", "containerStatuses"]) else { return };
    let mut info = Object::new();
    for status in statuses.iter().filter_map(Value::as_object) {
        if let Some(name) = get_text(status, &["name"]) {
            info.insert(name.to_owned(), Value::Object(CONTAINER_STATUS.show(status)));
        }
    }
    if !info.is_empty() {
        out.insert("info".to_owned(), Value::Object(info));
    }
}

static CONTAINER_STATUS: Shape = Shape(&[&[
    field("state", &["state"], Form::Object(&STATE)),
    field("lastState", &["lastState"], Form::Object(&STATE)),
    field("ready", &["ready"], Form::Flag).blank(Blank::False),
    field("restartCount", &["restartCount"], Form::Count).blank(Blank::Zero),
    field("image", &["image"], Form::Text).blank(Blank::Text("")),
    field("imageID", &["imageID"], Form::Text).blank(Blank::Text("")),
    field("containerID", &["containerID"], Form::Text),
    ignored("podIP").also(&["detailInfo"]),
]]);

static STATE: Shape = Shape(&[&[
    field("waiting", &["waiting"], Form::Present(&WAITING)),
    field("running", &["running"], Form::Present(&RUNNING)),
    field("termination", &["terminated"], Form::Present(&TERMINATION)),
]]);

pub(super) static WAITING: Shape = Shape(&[&[field("reason", &["reason"], Form::Text)]]);

pub(super) static RUNNING: Shape = Shape(&[&[field("startedAt", &["startedAt"], Form::Text)]]);

pub(super) static TERMINATION: Shape = Shape(&[&[
    field("exitCode", &["exitCode"], Form::Count).blank(Blank::Zero),
    field("signal", &["signal"], Form::Number),
    field("reason", &["reason"], Form::Text),
    field("message", &["message"], Form::Text),
    field("startedAt", &["startedAt"], Form::Text),
    field("finishedAt", &["finishedAt"], Form::Text),
    field("containerID", &["containerID"], Form::Text),
]]);
