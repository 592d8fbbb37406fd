//! ReplicationControllers: `desiredState` is v1's `spec`.

use coracle_schema::Path;
use serde_json::{Value, json};

use super::common::{LABELS, META};
use super::place::{get, put};
use super::pod::{TEMPLATE, blank_manifest};
use super::reading::{Object, OldReading};
use super::shape::{Blank, Field, Form, Own, Shape, field, own, said};

pub(super) static CONTROLLER: Shape = Shape(&[
    META,
    LABELS,
    &[
        field("desiredState", &[], Form::Object(&DESIRED)),
        field("currentState", &[], Form::Object(&CURRENT)).observed().lax(),
        own("", &[], &REPLICAS_UNSET),
    ],
]);

static DESIRED: Shape = Shape(&[DESIRED_FIELDS]);

const DESIRED_FIELDS: &[Field] = &[
    field("replicas", &["spec", "replicas"], Form::Count).blank(Blank::Zero),
    field("replicaSelector", &["spec", "selector"], Form::TextMap),
    field("podTemplate", &["spec", "template"], Form::Object(&TEMPLATE)),
];

/// Unset replicas are none in v1beta1 and one in v1.
static REPLICAS_UNSET: Own =
    Own { read: read_unset, show: |_, _| {}, governs: &[], words: &[], merge: Some(|_, _| {}) };

fn read_unset(_: &Object, into: &mut Object, _: &Path, _: &mut OldReading) {
    if get(into, &["spec", "replicas"]).is_none() {
        put(into, &["spec", "replicas"], json!(0));
    }
}

static CURRENT: Shape = Shape(&[&[
    field("replicas", &["status", "replicas"], Form::Count).blank(Blank::Zero),
    said("podTemplate", |_| Some(blank_template())),
]]);

fn blank_template() -> Value {
    json!({"desiredState": {"manifest": blank_manifest()}})
}
