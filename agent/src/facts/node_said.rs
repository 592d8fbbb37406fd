//! What a node hears of itself. PURE.

use std::collections::BTreeMap;

use coracle_api::node::Taint;
use coracle_api::quantity::Quantity;

/// What the master says of this node, beside what this node says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSaid {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// What it has of resources that others count: `example.com/gpu`.
    pub extended: BTreeMap<String, Quantity>,
}
