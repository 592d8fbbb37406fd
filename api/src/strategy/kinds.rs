//! One row a kind that has no rules of its own.

use super::{Strategy, general};

pub static COMPONENT_STATUS: Strategy = general::strategy::<true, false>();
pub static DEFINITION: Strategy = general::strategy::<true, false>();
pub static SERVICE_ACCOUNT: Strategy = general::strategy::<false, false>();
