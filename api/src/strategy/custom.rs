//! The rules of a kind that is defined at run time: metadata and generation as everywhere, and a check of its own.
//! PURE.

use super::meta::{self, Scope};
use super::rules::{Deleting, Deletion, Making, Rules, Strategy, no_claims, whole};
use super::{general, names};
use crate::meta::{Claim, Durable};
use coracle_schema::Problem;
use serde_json::Value;

/// Every problem of an object. The second argument is the replaced object, for transition rules.
pub type Check = Box<dyn Fn(&Value, Option<&Value>) -> Vec<Problem> + Send + Sync>;

pub struct Custom {
    pub scope: Scope,
    pub check: Check,
}

impl Strategy for Custom {
    fn create(&self, object: &mut Value, making: &mut Making<'_>) {
        general::create::<true>(object, making);
    }

    fn update(&self, new: &mut Value, old: &Value, making: &mut Making<'_>) {
        general::update::<true>(new, old, making);
    }

    fn status_update(&self, new: &mut Value, old: &Value) {
        meta::status_update(new, old);
    }

    fn validate(&self, object: &Value, rules: Rules) -> Vec<Problem> {
        let mut found = meta::validate(object, self.scope, names::subdomain, rules);
        found.extend((self.check)(object, None));
        found
    }

    fn validate_update(&self, new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
        let mut found = meta::validate_update(new, old);
        let of_metadata = |object| meta::validate(object, self.scope, names::subdomain, rules);
        found.extend(meta::new_problems(of_metadata(new), &of_metadata(old)));
        found.extend((self.check)(new, Some(old)));
        found
    }

    fn claims(&self, object: &Value) -> Vec<Claim> {
        no_claims(object)
    }

    fn claims_nothing(&self) -> bool {
        true
    }

    fn durable(&self, object: &Value) -> Durable {
        whole(object)
    }

    fn delete(&self, object: &Value, deleting: Deleting) -> Deletion {
        meta::delete(object, deleting)
    }

    fn released(&self, object: &Value) -> bool {
        meta::is_released(object)
    }
}
