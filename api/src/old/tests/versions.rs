//! The three versions beside each other.

use super::*;

/// One object in all its forms.
struct Case {
    v1: Value,
    v1beta1: Value,
    v1beta2: Value,
    v1beta3: Value,
}
