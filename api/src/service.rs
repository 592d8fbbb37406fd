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
    pub session_affinity_config: Option<SessionAffinityConfig>,
    pub load_balancer_source_ranges: Vec<String>,
    pub load_balancer_class: Option<String>,
    pub health_check_node_port: i32,
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: String,
    pub external_name: String,
    pub external_traffic_policy: String,
    pub internal_traffic_policy: String,
    pub publish_not_ready_addresses: bool,
    pub ip_families: Vec<String>,
    pub ip_family_policy: String,
    pub traffic_distribution: String,
}

impl ServiceSpec {
    /// How long a client stays with its endpoint after it came last.
    pub fn affinity_timeout_s(&self) -> Option<i32> {
        self.session_affinity_config.as_ref()?.client_ip.as_ref()?.timeout_seconds.filter(|seconds| *seconds > 0)
    }

    /// Whether the service asks for no cluster IP.
    pub fn headless(&self) -> bool {
        self.cluster_ip == "None"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SessionAffinityConfig {
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientIpConfig {
    pub timeout_seconds: Option<i32>,
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
    pub ip_mode: String,
}

/// Some of a service's endpoints. A label of the slice names the service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    pub address_type: String,
    /// Null where there are none.
    pub endpoints: Option<Vec<SliceEndpoint>>,
    pub ports: Option<Vec<SlicePort>>,
}

impl EndpointSlice {
    pub fn read(document: &Value) -> Result<EndpointSlice, serde_json::Error> {
        EndpointSlice::deserialize(document)
    }

    /// The name of its service; empty where it has none.
    pub fn service(&self) -> &str {
        self.metadata.labels.get("kubernetes.io/service-name").map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SliceEndpoint {
    /// Consumers use the first.
    pub addresses: Vec<String>,
    pub conditions: EndpointConditions,
    pub hostname: Option<String>,
    pub node_name: Option<String>,
    pub target_ref: Option<ObjectReference>,
    pub hints: Option<EndpointHints>,
}

/// The conditions of an endpoint; a missing one is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointConditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointHints {
    pub for_nodes: Option<Vec<Hint>>,
    pub for_zones: Option<Vec<Hint>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hint {
    pub name: String,
}

impl SliceEndpoint {
    /// Not said counts as ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready != Some(false)
    }

    /// It still answers, though it may be about to end.
    pub fn is_serving(&self) -> bool {
        self.conditions.serving.unwrap_or_else(|| self.is_ready())
    }

    pub fn is_terminating(&self) -> bool {
        self.conditions.terminating == Some(true)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlicePort {
    pub name: String,
    /// None: every port.
    pub port: Option<i32>,
    /// Empty means TCP.
    pub protocol: String,
}

/// The endpoints of the service with the same name.
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
