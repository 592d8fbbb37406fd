//! Minions: the nodes of v1.

use coracle_schema::Path;
use serde_json::{Value, json};

use super::common::{CONDITION_WORDS, LABELS, META};
use super::place::{get, get_text, put};
use super::reading::{Object, OldReading};
use super::shape::{Blank, Field, Form, Own, Shape, field, own};

pub(super) static MINION: Shape = Shape(&[META, LABELS, MINION_FIELDS]);

const MINION_FIELDS: &[Field] = &[
    field("status", &["status"], Form::Object(&STATUS)).blank(Blank::Map).observed(),
    own("hostIP", &[], &HOST_IP).observed(),
    field("resources", &[], Form::Object(&RESOURCES)).observed(),
    field("podCIDR", &["spec", "podCIDR"], Form::Text).given(),
    field("providerID", &["spec", "providerID"], Form::Text).given(),
    field("unschedulable", &["spec", "unschedulable"], Form::Flag),
    own("externalID", &[], &EXTERNAL_ID),
];

static RESOURCES: Shape = Shape(&[&[field("capacity", &["status", "capacity"], Form::Amounts)]]);

static STATUS: Shape = Shape(&[&[
    field("phase", &["phase"], Form::Text),
    field("conditions", &["conditions"], Form::List(&CONDITION, &["type"])),
    field("addresses", &["addresses"], Form::List(&ADDRESS, &["type", "address"])),
    field("nodeInfo", &["nodeInfo"], Form::Object(&INFO)),
]]);

static CONDITION: Shape = Shape(&[&[
    field("kind", &["type"], Form::Text),
    field("status", &["status"], Form::Word(CONDITION_WORDS)),
    field("lastProbeTime", &["lastHeartbeatTime"], Form::Text),
    field("lastTransitionTime", &["lastTransitionTime"], Form::Text),
    field("reason", &["reason"], Form::Text),
    field("message", &["message"], Form::Text),
]]);

pub(super) static ADDRESS: Shape =
    Shape(&[&[field("type", &["type"], Form::Text), field("address", &["address"], Form::Text)]]);

const NONE: Blank = Blank::Text("");

/// The fields of a node's status, without the one that is spelled otherwise in v1beta1.
pub(super) const ABOUT: &[Field] = &[
    field("machineID", &["machineID"], Form::Text).blank(NONE),
    field("systemUUID", &["systemUUID"], Form::Text).blank(NONE),
    field("bootID", &["bootID"], Form::Text).blank(NONE),
    field("kernelVersion", &["kernelVersion"], Form::Text).blank(NONE),
    field("osImage", &["osImage"], Form::Text).blank(NONE),
    field("containerRuntimeVersion", &["containerRuntimeVersion"], Form::Text).blank(NONE),
    field("kubeletVersion", &["kubeletVersion"], Form::Text).blank(NONE),
];

static INFO: Shape = Shape(&[ABOUT, &[field("KubeProxyVersion", &["kubeProxyVersion"], Form::Text).blank(NONE)]]);

static HOST_IP: Own = Own { read: read_host_ip, show: show_host_ip, governs: &[], words: &[], merge: Some(|_, _| {}) };

const ADDRESSES_AT: &[&str] = &["status", "addresses"];

fn addresses(v1: &Object) -> impl Iterator<Item = (&str, &str)> {
    let list = get(v1, ADDRESSES_AT).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|entry| Some((entry.get("type")?.as_str()?, entry.get("address")?.as_str()?)))
}

fn read_host_ip(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("hostIP").filter(|value| !value.is_null()) else { return };
    let Some(ip) = Form::Text.read(value, &path.field("hostIP"), seen) else { return };
    if addresses(into).any(|(_, address)| ip == address) {
        return;
    }
    let others = get(into, ADDRESSES_AT).and_then(Value::as_array).cloned().unwrap_or_default();
    let list = std::iter::once(json!({"type": "InternalIP", "address": ip})).chain(others).collect();
    put(into, ADDRESSES_AT, list);
}

fn show_host_ip(v1: &Object, out: &mut Object) {
    let of = |wanted: &str| addresses(v1).find(|(kind, _)| *kind == wanted).map(|(_, address)| address.to_owned());
    if let Some(ip) = of("LegacyHostIP").or_else(|| of("InternalIP")).or_else(|| of("ExternalIP")) {
        out.insert("hostIP".to_owned(), json!(ip));
    }
}

/// Unset, it is the id.
static EXTERNAL_ID: Own = Own {
    read: read_external_id,
    show: show_external_id,
    governs: &[EXTERNAL_ID_AT],
    words: &[field("externalID", EXTERNAL_ID_AT, Form::Text)],
    merge: None,
};

const EXTERNAL_ID_AT: &[&str] = &["spec", "externalID"];

fn read_external_id(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("externalID").filter(|value| !value.is_null()) else { return };
    let id = Form::Text.read(value, &path.field("externalID"), seen);
    if let Some(id) = id.filter(|id| Some(id) != get(into, &["metadata", "name"])) {
        put(into, EXTERNAL_ID_AT, id);
    }
}

fn show_external_id(v1: &Object, out: &mut Object) {
    if let Some(id) = get_text(v1, EXTERNAL_ID_AT).or_else(|| get_text(v1, &["metadata", "name"])) {
        out.insert("externalID".to_owned(), json!(id));
    }
}
