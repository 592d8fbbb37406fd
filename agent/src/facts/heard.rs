//! The master's objects as this host last heard of them. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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

/// The services that this host serves, and their ends: of the cluster, and of files.
#[derive(Clone, Debug, Default)]
pub struct ServedServices {
    pub services: Arc<Vec<Arc<Service>>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    /// The services of the cluster were read from this host's disk: no master has been heard since the start.
    pub from_disk: bool,
    /// Where the agent answers for names.
    pub dns: Option<IpAddr>,
    /// And where pods ask that started before a master gave that address.
    pub former_dns: Option<IpAddr>,
    /// Services of files, by namespace and name.
    pub of_files: BTreeSet<(String, String)>,
}

impl ServedServices {
    /// Whether both hold the same objects.
    pub fn is(&self, other: &ServedServices) -> bool {
        let same = |(one, other): (&Arc<EndpointSlice>, &Arc<EndpointSlice>)| Arc::ptr_eq(one, other);
        Arc::ptr_eq(&self.services, &other.services)
            && self.slices.len() == other.slices.len()
            && self.slices.iter().zip(&other.slices).all(same)
            && (self.from_disk, &self.of_files) == (other.from_disk, &other.of_files)
            && (self.dns, self.former_dns) == (other.dns, other.former_dns)
    }
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
