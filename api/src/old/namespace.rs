//! Namespaces.

use super::common::{LABELS, META};
use super::shape::{Form, Shape, field};
use super::upright::{NAMESPACE_SPEC, NAMESPACE_STATUS};

pub(super) static NAMESPACE: Shape = Shape(&[
    META,
    LABELS,
    &[
        field("spec", &["spec"], Form::Object(&NAMESPACE_SPEC)),
        field("status", &["status"], Form::Object(&NAMESPACE_STATUS)).observed().lax(),
    ],
]);
