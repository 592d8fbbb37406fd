//! The part of the Node object that the agent reads from the master. PURE.

use std::collections::BTreeMap;

use coracle_api::node::Taint;
use coracle_api::quantity::Quantity;

/// The fields of the Node object that this agent does not write itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSaid {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// The amounts of extended resources, such as `example.com/gpu`, that other programs count on this node.
    pub extended: BTreeMap<String, Quantity>,
}
