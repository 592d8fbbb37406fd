//! The rules of kinds with few special rules: common metadata, a generation that grows if the kind counts generations,
//! no claims. Kinds with special rules take the common parts from here:
//!
//!     BuiltinStrategy { validate, durable: without_status, ..general::strategy::<false, true>() }

use super::amounts::same_amounts;
use super::meta::{self, Scope};
use super::names;
use super::rules::{BuiltinStrategy, Making, Rules, no_claims, whole};
use coracle_schema::Problem;
use serde_json::Value;

/// `CLUSTER`: the kind lives in no namespace. `GENERATION`: it counts its generations.
pub const fn strategy<const CLUSTER: bool, const GENERATION: bool>() -> BuiltinStrategy {
    BuiltinStrategy {
        create: create::<GENERATION>,
        update: update::<GENERATION>,
        status_update: meta::status_update,
        validate: validate::<CLUSTER>,
        validate_update: validate_update::<CLUSTER>,
        claims: no_claims,
        durable: whole,
        delete: meta::delete,
        released: meta::is_released,
    }
}

pub fn create<const GENERATION: bool>(object: &mut Value, making: &mut Making<'_>) {
    meta::create(object, making, GENERATION);
}

/// The generation grows with anything but metadata and status.
pub fn update<const GENERATION: bool>(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    let changed = GENERATION && differs(new, old);
    meta::update(new, old, changed);
}

pub fn validate<const CLUSTER: bool>(object: &Value, rules: Rules) -> Vec<Problem> {
    let scope = if CLUSTER { Scope::Cluster } else { Scope::Namespaced };
    meta::validate(object, scope, names::subdomain, rules)
}

pub fn validate_update<const CLUSTER: bool>(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    changed(new, old, rules, validate::<CLUSTER>)
}

/// The problems of an update: what metadata may not do, and what is wrong with the object and was not before.
pub fn changed(new: &Value, old: &Value, rules: Rules, validate: fn(&Value, Rules) -> Vec<Problem>) -> Vec<Problem> {
    let mut found = meta::validate_update(new, old);
    found.extend(meta::new_problems(validate(new, rules), &validate(old, rules)));
    found
}

/// Whether anything differs that a client asks for.
pub fn differs(new: &Value, old: &Value) -> bool {
    let asked = |object: &Value| {
        let fields = object.as_object().into_iter().flatten();
        let asked =
            fields.filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        asked.map(|(field, value)| (field.clone(), value.clone())).collect::<serde_json::Map<_, _>>()
    };
    let (mut new, mut old) = (Value::Object(asked(new)), Value::Object(asked(old)));
    if new == old {
        return false;
    }
    // An amount may be written in several ways.
    same_amounts(&mut new);
    same_amounts(&mut old);
    new != old
}
