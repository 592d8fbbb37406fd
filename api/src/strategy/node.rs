//! Nodes.

use super::{Making, Rules, Strategy, meta, no_claims, without_status};
use coracle_schema::Problem;
use serde_json::Value;

pub static NODE: Strategy = Strategy {
    create,
    update,
    status_update: meta::status_update,
    validate,
    validate_update,
    claims: no_claims,
    durable: without_status,
    delete: meta::delete,
};

fn create(object: &mut Value, making: &mut Making<'_>) {
    meta::create(object, making, false);
}

fn update(new: &mut Value, old: &Value, _making: &mut Making<'_>) {
    meta::update(new, old, false && new["spec"] != old["spec"]);
}

fn validate(object: &Value, rules: Rules) -> Vec<Problem> {
    meta::validate(object, rules)
}

fn validate_update(new: &Value, _old: &Value, rules: Rules) -> Vec<Problem> {
    validate(new, rules)
}
