//! The master's objects as this host last heard of them. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_api::service::{EndpointSlice, Service};
use serde_json::Value;

/// The pods of this node as the master shows them, by uid, with statuses and mirrors. Reports are compared with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MasterPods {
    pub pods: BTreeMap<String, Arc<Value>>,
    /// False until the first listing.
    pub listed: bool,
}

/// Volumes that are given up, by name.
pub type GivenUp = BTreeMap<String, Value>;

/// The services of the cluster and their endpoints, as last heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterServices {
    pub services: Arc<Vec<Arc<Service>>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    /// False: it was read from this host's disk, and may be of before a reboot.
    pub heard: bool,
}
