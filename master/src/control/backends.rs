//! Backends: the pods behind a service, with the addresses and ports under which they serve it. PURE.
//!
//! A pod whose status nobody has said (a restart of the master loses it) keeps the address that it has: unknown is not
//! absent.

use super::cluster::Cluster;
use super::rules::ControlRule;
use super::view::{EndpointsView, PodView, ServiceView, document, protocol};
use coracle_api::meta::{Key, ObjectReference};
use coracle_api::quantity::IntOrString;
use coracle_api::service::{EndpointAddress, ServicePort};
use coracle_api::strategy::elsewhere;

/// A port of an endpoint: name, number, protocol.
pub type Port = (String, i32, String);

/// A pod of a service, also one that is about to end.
pub struct Backend<'a> {
    pub ip: String,
    /// It answers, as far as anybody knows.
    pub serving: bool,
    /// The ports of the service that the pod has.
    pub ports: Vec<Port>,
    pub key: &'a Key,
    pub pod: &'a PodView,
}

impl Backend<'_> {
    /// The pod's host name within the service, if any.
    pub fn hostname(&self, service: &ServiceView) -> Option<String> {
        // Most pods are not worth parsing.
        memchr::memmem::find(&self.pod.document.json, b"\"subdomain\"")?;
        let spec = &document(&self.pod.document)["spec"];
        let named =
            spec["subdomain"].as_str().is_some_and(|subdomain| !subdomain.is_empty() && subdomain == service.name);
        spec["hostname"].as_str().filter(|name| named && !name.is_empty()).map(str::to_owned)
    }
}

/// `standing`: the Endpoints of the service as they stand.
pub fn backends<'a>(
    cluster: &'a Cluster,
    key: &'a Key,
    service: &'a ServiceView,
    standing: Option<&EndpointsView>,
) -> Vec<Backend<'a>> {
    let selected = cluster.pods_labelled(&key.namespace, &service.selector).filter(|(_, pod)| !pod.terminal());
    let mut backends = Vec::new();
    for (key, pod) in selected {
        let Some((ip, serving)) = address(cluster, pod, standing) else { continue };
        let ports: Vec<Port> = service.ports.iter().filter_map(|port| resolve(port, pod)).collect();
        backends.push(Backend { ip, serving, ports, key, pod });
    }
    backends
}

/// A reference to the pod.
pub fn target(backend: &Backend<'_>) -> ObjectReference {
    ObjectReference {
        kind: "Pod".to_owned(),
        namespace: backend.key.namespace.clone(),
        name: backend.key.name.clone(),
        uid: backend.pod.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The pod's address, and whether it serves. `None`: it cannot be reached.
fn address(cluster: &Cluster, pod: &PodView, standing: Option<&EndpointsView>) -> Option<(String, bool)> {
    // Whether the pods of a silent node serve is unknown. A node that never reported a status does not count against
    // its pods.
    let silent = cluster.nodes.get(&pod.node).is_some_and(|node| node.silent());
    let takes = |ready: bool| ready && !silent;
    if let (None, Some(standing)) = (pod.ready, standing) {
        let named =
            |address: &&EndpointAddress| address.target_ref.as_ref().is_some_and(|target| target.uid == pod.uid);
        for subset in &standing.subsets {
            for (half, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                if let Some(address) = half.iter().find(named) {
                    return Some((address.ip.clone(), takes(ready)));
                }
            }
        }
    }
    // A host-local address is unreachable for clients, and the API refuses Endpoints with such an address as a whole.
    let reached = !pod.ip.is_empty() && elsewhere(&pod.ip).is_none();
    let ready = pod.ready == Some(true) || !cluster.holds(ControlRule::OnlyReadyPodsServe);
    reached.then(|| (pod.ip.clone(), takes(ready)))
}

/// The service's port on this pod; `None` for a named port that no container of the pod has.
fn resolve(port: &ServicePort, pod: &PodView) -> Option<Port> {
    let wanted = protocol(&port.protocol);
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            pod.ports.iter().find(|(other, _, protocol)| other == name && *protocol == wanted)?.1
        }
    };
    Some((port.name.clone(), number, wanted))
}
