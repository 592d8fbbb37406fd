//! The fields that a type has where a document has another. PURE.

use crate::types::{Container, Element, Types};

/// The names of the fields at the place of a path: beside `spec.containers[0].comand` those of a container. Empty: the
/// type has no fields there.
pub fn fields_beside<'t>(types: &'t Types, type_name: &str, path: &str) -> Vec<&'t str> {
    let Some(mut row) = types.get(type_name) else { return Vec::new() };
    let mut steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    steps.next_back();
    while let Some(step) = steps.next() {
        let Some(field) = row.field(step) else { return Vec::new() };
        let Element::Named(name) = &field.element else { return Vec::new() };
        // The number or the key of an entry.
        if field.container != Container::One {
            steps.next();
        }
        let Some(next) = types.get(name) else { return Vec::new() };
        row = next;
    }
    row.fields.iter().map(|field| &*field.name).collect()
}
