//! Services and their endpoints as logic reads them. Lenient and read-only, like `pod`.

use crate::meta::{ObjectMeta, ObjectReference};
use crate::quantity::IntOrString;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
    pub status: ServiceStatus,
}

impl Service {
    pub fn read(document: &Value) -> Result<Service, serde_json::Error> {
        Service::deserialize(document)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    pub ports: Vec<ServicePort>,
    pub selector: BTreeMap<String, String>,
    /// Empty: none yet. `None`: headless.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// Empty means ClusterIP.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "externalIPs")]
    pub external_ips: Vec<String>,
    /// Empty means None.
    pub session_affinity: String,
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: String,
    pub external_name: String,
    pub external_traffic_policy: String,
    pub internal_traffic_policy: String,
    pub publish_not_ready_addresses: bool,
    pub ip_families: Vec<String>,
    pub ip_family_policy: String,
}

impl ServiceSpec {
    /// Asked to have no address of its own.
    pub fn headless(&self) -> bool {
        self.cluster_ip == "None"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    pub name: String,
    /// Empty means TCP.
    pub protocol: String,
    pub app_protocol: String,
    pub port: i32,
    /// Missing means the same as `port`.
    pub target_port: Option<IntOrString>,
    pub node_port: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    pub load_balancer: LoadBalancerStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    pub ingress: Vec<LoadBalancerIngress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerIngress {
    pub ip: String,
    pub hostname: String,
}

/// Of the same name as the service it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoints {
    pub metadata: ObjectMeta,
    pub subsets: Vec<EndpointSubset>,
}

impl Endpoints {
    pub fn read(document: &Value) -> Result<Endpoints, serde_json::Error> {
        Endpoints::deserialize(document)
    }
}

/// Every address offers every port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSubset {
    pub addresses: Vec<EndpointAddress>,
    pub not_ready_addresses: Vec<EndpointAddress>,
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointAddress {
    pub ip: String,
    pub hostname: String,
    pub node_name: Option<String>,
    pub target_ref: Option<ObjectReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointPort {
    pub name: String,
    pub port: i32,
    /// Empty means TCP.
    pub protocol: String,
    pub app_protocol: Option<String>,
}
