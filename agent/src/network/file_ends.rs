//! The ends of Services of files, and the names of pods of files, from the statuses that this agent shows. PURE.
//!
//!     a Service of a file: the pods of files in its namespace that have its labels
//!     the name of a pod of a file: its address, where no Service has the name
//!
//! A readiness probe that has not answered since the agent started says nothing of its container yet. Until the probe
//! answers, the container keeps its place in the Services of the table that the agent before left in the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use coracle_api::service::{EndpointSlice, Service};
use serde_json::{Value, json};

use super::known_ends::{PodEnd, is_ready, own_slice, selects};
use crate::facts::file_services::FileServices;
use crate::facts::naming::Source;
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::facts::world::Verdicts;

/// What was there when the agent started.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Containers, by the engine's id.
    pub containers: BTreeSet<String>,
    /// Pods of this host that Services with an address led to.
    pub ends: BTreeSet<IpAddr>,
}

/// Services and their slices, for this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileEnds {
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// What the ends are made of.
#[derive(Clone, Copy)]
pub struct EndsCase<'a> {
    pub of_files: &'a FileServices,
    pub shown: &'a Shown,
    pub node: &'a str,
    /// Where this host is known: a balancer's address.
    pub address: &'a str,
    pub before: &'a Before,
    /// Names of services of the cluster.
    pub is_service: &'a dyn Fn(&str, &str) -> bool,
}

pub fn file_ends(case: EndsCase<'_>) -> FileEnds {
    let mut made = FileEnds::default();
    for service in case.of_files.services.iter() {
        let service = balanced(service, case.address);
        for (uid, pod) in of_files(case.shown).filter(|(_, pod)| selects(&service, pod)) {
            let Some(status) = case.shown.statuses.get(uid) else { continue };
            let ready = is_ready(status) || is_kept(&service, status, case);
            let slice = own_slice(&service, &BTreeMap::new(), pod, case.node, PodEnd { status, ready });
            made.slices.extend(slice.map(Arc::new));
        }
        made.services.push(service);
    }
    for (uid, pod) in of_files(case.shown) {
        let (namespace, name) = (pod.name.namespace.as_str(), pod.name.name.as_str());
        let same = |service: &Arc<Service>| service.metadata.namespace == namespace && service.metadata.name == name;
        if (case.is_service)(namespace, name) || made.services.iter().any(same) {
            continue;
        }
        let status = case.shown.statuses.get(uid).unwrap_or(&Value::Null);
        if let Some((service, slice)) = named(namespace, name, status, case.node) {
            made.services.push(Arc::new(service));
            made.slices.push(Arc::new(slice));
        }
    }
    made
}

fn of_files(shown: &Shown) -> impl Iterator<Item = (&String, &Arc<Wanted>)> {
    shown.desired.pods.iter().filter(|(_, pod)| pod.name.source == Source::File)
}

/// A Service of type LoadBalancer answers at the address of this host.
fn balanced(service: &Arc<Service>, address: &str) -> Arc<Service> {
    if service.spec.kind != "LoadBalancer" || address.is_empty() {
        return service.clone();
    }
    let mut balanced = (**service).clone();
    let ingress = coracle_api::service::LoadBalancerIngress { ip: address.to_owned(), ..Default::default() };
    balanced.status.load_balancer.ingress = vec![ingress];
    Arc::new(balanced)
}

/// Whether every container of a pod that is not ready was there before the agent, and its probe has not answered yet.
fn is_kept(service: &Service, status: &Value, case: EndsCase<'_>) -> bool {
    let was_end = || {
        let address = status["podIP"].as_str().and_then(|text| text.parse().ok());
        service.spec.headless() || address.is_some_and(|address| case.before.ends.contains(&address))
    };
    let lists = ["containerStatuses", "initContainerStatuses"];
    let containers: Vec<&Value> =
        lists.iter().flat_map(|list| status[*list].as_array().into_iter().flatten()).collect();
    status["phase"] == "Running"
        && !containers.is_empty()
        && containers.iter().all(|one| one["ready"] == true || is_unasked(one, case.before, &case.shown.world.verdicts))
        && was_end()
}

fn is_unasked(container: &Value, before: &Before, verdicts: &Verdicts) -> bool {
    let id = container["containerID"].as_str().and_then(|id| id.split_once("://")).map_or("", |(_, id)| id);
    container["state"]["running"].is_object()
        && before.containers.contains(id)
        && verdicts.get(id).is_none_or(|verdict| verdict.ready.is_none() && verdict.dead.is_none())
}

/// The name of a pod: a headless service of the one pod, which has the name as soon as it has an address.
fn named(namespace: &str, name: &str, status: &Value, node: &str) -> Option<(Service, EndpointSlice)> {
    let address = status["podIP"].as_str().filter(|ip| !ip.is_empty())?;
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let service = json!({"metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true}});
    let slice = json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [address], "nodeName": node}],
        "ports": [],
    });
    Some((Service::read(&service).ok()?, EndpointSlice::read(&slice).ok()?))
}
