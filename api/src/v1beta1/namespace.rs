//! Namespaces.

use super::common::{LABELS, META};
use super::shape::{Form, Shape, field};

pub(super) static NAMESPACE: Shape = Shape(&[
    META,
    LABELS,
    &[field("spec", &["spec"], Form::Object(&SPEC)), field("status", &["status"], Form::Object(&STATUS)).observed().lax()],
]);

static SPEC: Shape = Shape(&[&[field("finalizers", &["finalizers"], Form::Texts).given()]]);

static STATUS: Shape = Shape(&[&[field("phase", &["phase"], Form::Text)]]);
