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
        let leads = service.spec.kind != "ExternalName" && !service.spec.selector.is_empty();
        for (uid, pod) in of_files(case.shown).filter(|(_, pod)| leads && selects(&service, pod)) {
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
        let address: Option<IpAddr> = status["podIP"].as_str().and_then(|text| text.parse().ok());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::world::{Verdict, World};

    struct Bed {
        pods: Vec<(Source, &'static str, &'static str, Value)>,
        verdicts: Verdicts,
        before: Before,
    }

    impl Bed {
        fn new(pods: &[(Source, &'static str, &'static str, Value)]) -> Bed {
            Bed { pods: pods.to_vec(), verdicts: Verdicts::default(), before: Before::default() }
        }

        /// The ends and names: `web=10.244.0.5`, with `?` where the end is not ready.
        fn ends(&self, services: &[Value], of_cluster: &[&str]) -> Vec<String> {
            let services = services.iter().map(|service| Arc::new(Service::read(service).unwrap()));
            let of_files = FileServices { services: Arc::new(services.collect()), ..FileServices::default() };
            let mut desired = Desired::default();
            let mut shown = Shown::default();
            for (source, name, app, status) in &self.pods {
                let metadata = json!({"namespace": "default", "name": name, "uid": name, "labels": {"app": app}});
                let ports = json!([{"name": "http", "containerPort": 8080}]);
                let spec = json!({"containers": [{"name": "c", "ports": ports}]});
                let pod = Wanted::new(*source, json!({"metadata": metadata, "spec": spec})).unwrap();
                desired.pods.insert((*name).to_owned(), Arc::new(pod));
                shown.statuses.insert((*name).to_owned(), status.clone());
            }
            shown.desired = Arc::new(desired);
            shown.world = Arc::new(World { verdicts: self.verdicts.clone(), ..World::default() });
            let made = file_ends(EndsCase {
                of_files: &of_files,
                shown: &shown,
                node: "n1",
                address: "192.0.2.7",
                before: &self.before,
                is_service: &|_, name| of_cluster.contains(&name),
            });
            let of = |slice: &Arc<EndpointSlice>| {
                let ends = slice.endpoints.iter().flatten();
                let one = |end: &coracle_api::service::SliceEndpoint| {
                    format!("{}{}", end.addresses[0], if end.is_ready() { "" } else { "?" })
                };
                let port = slice.ports.iter().flatten().filter_map(|port| port.port);
                let port = port.map(|port| format!(":{port}")).collect::<String>();
                format!("{}={}{port}", slice.service(), ends.map(one).collect::<Vec<_>>().join(","))
            };
            made.slices.iter().map(of).collect()
        }
    }

    fn service(name: &str, more: Value) -> Value {
        let mut spec = json!({"selector": {"app": "web"}, "clusterIP": "10.97.0.9",
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})
    }

    fn running(address: &str, ready: bool) -> Value {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
        json!({"phase": "Running", "podIP": address, "conditions": [condition],
            "containerStatuses": [{"name": "c", "ready": ready, "containerID": "docker://c1",
                "state": {"running": {}}}]})
    }

    #[test]
    fn pods_of_files_by_label_and_by_name() {
        let bed = Bed::new(&[
            (Source::File, "one", "web", running("10.244.0.5", true)),
            (Source::File, "two", "web", running("10.244.0.6", false)),
            (Source::Master, "three", "web", running("10.244.0.7", true)),
            (Source::File, "db", "db", running("10.244.0.8", false)),
            (Source::File, "done", "web", json!({"phase": "Succeeded", "podIP": "10.244.0.9"})),
            (Source::File, "early", "web", json!({"phase": "Pending"})),
        ]);
        let web = || service("web", json!({}));
        let names = ["db=10.244.0.8", "one=10.244.0.5", "two=10.244.0.6"];
        let of_web = ["web=10.244.0.5:8080", "web=10.244.0.6?:8080"];
        assert_eq!(bed.ends(&[web()], &[]), [&of_web[..], &names[..]].concat());
        // A Service has the name.
        assert_eq!(bed.ends(&[web()], &["db", "two"]), [&of_web[..], &names[1..2]].concat());
        let of_db = service("db", json!({"selector": {"app": "none"}}));
        assert_eq!(bed.ends(&[of_db], &[]), names[1..]);
        let outside = service("web", json!({"type": "ExternalName", "selector": {}, "externalName": "example.com"}));
        assert_eq!(bed.ends(&[outside], &[]), names);
    }

    #[test]
    fn a_restart_of_the_agent_takes_no_end_away() {
        let mut bed = Bed::new(&[(Source::File, "one", "web", running("10.244.0.5", false))]);
        let of = |bed: &Bed, more: Value| bed.ends(&[service("one", more)], &[]).remove(0);
        let (ready, unready) = ("one=10.244.0.5:8080", "one=10.244.0.5?:8080");
        let headless = || json!({"clusterIP": "None"});
        assert_eq!(of(&bed, json!({})), unready);
        bed.before.containers.insert("c1".to_owned());
        // Nobody knows whether it was an end of a headless Service.
        assert_eq!((of(&bed, json!({})).as_str(), of(&bed, headless()).as_str()), (unready, ready));
        bed.before.ends.insert("10.244.0.5".parse().unwrap());
        assert_eq!(of(&bed, json!({})), ready);
        // The probe has answered.
        bed.verdicts.insert("c1".to_owned(), Verdict { ready: Some(false), ..Verdict::default() });
        assert_eq!((of(&bed, json!({})).as_str(), of(&bed, headless()).as_str()), (unready, unready));
    }

    #[test]
    fn a_balancer_answers_at_the_address_of_this_host() {
        let service = |kind: &str| Service {
            spec: coracle_api::service::ServiceSpec { kind: kind.to_owned(), ..Default::default() },
            ..Default::default()
        };
        for (kind, expected) in [("LoadBalancer", Some("192.0.2.7")), ("NodePort", None)] {
            let balanced = balanced(&Arc::new(service(kind)), "192.0.2.7");
            let found = balanced.status.load_balancer.ingress.first().map(|one| one.ip.as_str());
            assert_eq!(found, expected);
        }
    }
}
