//! Services as they were known before a reboot, with the endpoints of this host's own pods as they are now. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_api::pod::{ContainerPort, PodSpec};
use coracle_api::quantity::IntOrString;
use coracle_api::service::{EndpointSlice, Service, ServicePort, SliceEndpoint};
use serde_json::{Value, json};

use crate::facts::heard::ClusterServices;
use crate::facts::wanted::Wanted;
use crate::network::services::ends::slices_of;

/// With the endpoints of this host's own pods as they are: those of before a reboot are other pods' by now, and a file
/// that is written for changes of services alone does not know them all. `statuses`: by uid.
pub fn as_they_are(
    network: &ClusterServices,
    node: &str,
    pods: &BTreeMap<String, Arc<Wanted>>,
    statuses: &BTreeMap<String, Value>,
) -> ClusterServices {
    let own = |endpoint: &SliceEndpoint| endpoint.node_name.as_deref() == Some(node) && endpoint.target_ref.is_some();
    let elsewhere = network.slices.iter().map(|slice| {
        if !slice.endpoints.iter().flatten().any(own) {
            return slice.clone();
        }
        let endpoints =
            slice.endpoints.as_ref().map(|all| all.iter().filter(|endpoint| !own(endpoint)).cloned().collect());
        Arc::new(EndpointSlice { endpoints, ..(**slice).clone() })
    });
    let mut slices: Vec<Arc<EndpointSlice>> = elsewhere.collect();
    for service in network.services.iter().filter(|service| !service.spec.selector.is_empty()) {
        let selected = pods.iter().filter(|(_, pod)| selects(service, pod));
        let before = numbers(network, service);
        let slice = |(uid, pod): (&String, &Arc<Wanted>)| {
            let status = statuses.get(uid)?;
            let ready = is_ready(status);
            own_slice(service, &before, pod, node, PodEnd { status, ready })
        };
        slices.extend(selected.filter_map(slice).map(Arc::new));
    }
    ClusterServices { slices, ..network.clone() }
}

pub(super) fn selects(service: &Service, pod: &Wanted) -> bool {
    let labels = &pod.pod.metadata.labels;
    pod.name.namespace == service.metadata.namespace
        && service.spec.selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// What the ports of a service led to when it was heard of, by name and protocol. Files of agents before do not
/// say `targetPort`.
fn numbers<'n>(network: &'n ClusterServices, service: &Service) -> BTreeMap<(&'n str, &'n str), i64> {
    let slices = slices_of(service, &network.slices).into_iter();
    let ports = slices.flat_map(|slice| slice.ports.iter().flatten());
    ports.filter_map(|one| Some(((one.name.as_str(), protocol(&one.protocol)), i64::from(one.port?)))).collect()
}

fn protocol(text: &str) -> &str {
    if text.is_empty() { "TCP" } else { text }
}

/// Whether a status says that its pod is ready.
pub(super) fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// A pod of this host as an end of a service.
pub(super) struct PodEnd<'s> {
    pub status: &'s Value,
    pub ready: bool,
}

/// None: it has no address, or none of the service's ports.
pub(super) fn own_slice(
    service: &Service,
    before: &BTreeMap<(&str, &str), i64>,
    pod: &Wanted,
    node: &str,
    PodEnd { status, ready }: PodEnd<'_>,
) -> Option<EndpointSlice> {
    let address = status["podIP"].as_str().filter(|ip| !ip.is_empty())?;
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let spec = &pod.pod.spec;
    let number = |port: &ServicePort| match &port.target_port {
        None => Some(
            before.get(&(port.name.as_str(), protocol(&port.protocol))).copied().unwrap_or_else(|| port.port.into()),
        ),
        Some(target) => resolved(target, port, spec),
    };
    let port = |port: &ServicePort| Some(json!({"name": port.name, "protocol": port.protocol, "port": number(port)?}));
    let ports: Vec<Value> = service.spec.ports.iter().filter_map(port).collect();
    if ports.is_empty() && !service.spec.ports.is_empty() {
        return None;
    }
    let hostname = Some(&spec.hostname).filter(|name| !name.is_empty() && spec.subdomain == service.metadata.name);
    let conditions = json!({"ready": ready || service.spec.publish_not_ready_addresses, "serving": ready});
    let slice = json!({
        "metadata": {"namespace": service.metadata.namespace,
            "name": format!("{}-{}", service.metadata.name, pod.name.uid),
            "labels": {"kubernetes.io/service-name": service.metadata.name}},
        "endpoints": [{"addresses": [address], "nodeName": node, "hostname": hostname, "conditions": conditions}],
        "ports": ports,
    });
    EndpointSlice::read(&slice).ok()
}

/// The port of the pod that a port of the service leads to. None: no container of the pod has a port of this name.
fn resolved(target: &IntOrString, port: &ServicePort, spec: &PodSpec) -> Option<i64> {
    let name = match target {
        IntOrString::Int(0) => return Some(port.port.into()),
        IntOrString::Int(number) => return Some((*number).into()),
        IntOrString::String(name) => name,
    };
    let sidecars = spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let mut of_pod = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let same = |one: &&ContainerPort| one.name == *name && protocol(&one.protocol) == protocol(&port.protocol);
    of_pod.find(same).map(|one| i64::from(one.container_port))
}
