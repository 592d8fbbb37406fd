//! The services of the cluster on this host's own disk: after a reboot without a master they work as before.
//!
//!     what was heard -> a file, when services have changed (once a minute at most) and at a stop; never for readiness alone
//!     the file -> what is known until the master answers, with the endpoints of this host's own pods as they are now

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::pod::PodSpec;
use coracle_api::service::{EndpointSlice, Service, ServicePort, SliceEndpoint};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Wanted;
use super::master::Network;
use crate::private;

const NAME: &str = "last-services.json";
/// Ten thousand services with ten endpoints each take less.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Between two writes: flash wears.
const PAUSE: Duration = Duration::from_secs(60);

/// The file.
#[derive(Clone)]
pub struct Known {
    folder: PathBuf,
}

impl Known {
    pub fn new(data_dir: &str) -> Known {
        Known { folder: data_dir.into() }
    }

    /// None: nothing is known.
    pub fn read(&self) -> Option<Network> {
        let path = self.folder.join(NAME);
        let read = || -> io::Result<Value> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        match read() {
            Ok(file) => Some(network(&file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                log::error!("the services in {}: {error}; they are known again when the master answers", path.display());
                None
            }
        }
    }

    /// Whole and durable, or the old file stays.
    pub fn keep(&self, network: &Network) {
        let text = serde_json::to_vec(&file(network)).map_err(io::Error::other);
        if let Err(error) = text.and_then(|text| private::replace_files(&self.folder, [(NAME.into(), text)].into_iter())) {
            log::error!("keep the services in {}: {error}", self.folder.join(NAME).display());
        }
    }

    /// Never ends.
    pub async fn follow(self, mut network: watch::Receiver<Option<Arc<Network>>>) {
        let mut kept = None;
        loop {
            let now = network.borrow_and_update().clone();
            if let Some(now) = now.filter(|now| now.heard)
                && kept.as_ref() != Some(&now.services)
            {
                let same = self.read().is_some_and(|known| known.services.iter().map(of_service).eq(now.services.iter().map(of_service)));
                kept = Some(now.services.clone());
                if !same {
                    self.keep(&now);
                    sleep(PAUSE).await;
                    continue;
                }
            }
            if network.changed().await.is_err() {
                return;
            }
        }
    }
}

/// With the endpoints of this host's own pods as they are: those of before a reboot are other pods' by now, and a file that is written for
/// changes of services alone does not know them all. `statuses`: by uid.
pub fn as_they_are(network: &Network, node: &str, pods: &BTreeMap<String, Arc<Wanted>>, statuses: &BTreeMap<String, Value>) -> Network {
    let own = |endpoint: &SliceEndpoint| endpoint.node_name.as_deref() == Some(node) && endpoint.target_ref.is_some();
    let elsewhere = network.slices.iter().map(|slice| {
        if !slice.endpoints.iter().flatten().any(own) {
            return slice.clone();
        }
        let endpoints = slice.endpoints.as_ref().map(|all| all.iter().filter(|endpoint| !own(endpoint)).cloned().collect());
        Arc::new(EndpointSlice { endpoints, ..(**slice).clone() })
    });
    let mut slices: Vec<Arc<EndpointSlice>> = elsewhere.collect();
    for service in network.services.iter().filter(|service| !service.spec.selector.is_empty()) {
        let selected = pods.iter().filter(|(_, pod)| selects(service, pod));
        slices.extend(selected.filter_map(|(uid, pod)| Some(Arc::new(own_slice(service, pod, node, statuses.get(uid)?)?))));
    }
    Network { slices, ..network.clone() }
}

fn selects(service: &Service, pod: &Wanted) -> bool {
    let labels = &pod.pod.metadata.labels;
    pod.name.namespace == service.metadata.namespace && service.spec.selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// None: it has no address.
fn own_slice(service: &Service, pod: &Wanted, node: &str, status: &Value) -> Option<EndpointSlice> {
    let address = status["podIP"].as_str().filter(|ip| !ip.is_empty())?;
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let ready = status["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let spec = &pod.pod.spec;
    let port = |port: &ServicePort| Some(json!({"name": port.name, "protocol": port.protocol, "port": target(port, spec)?}));
    let hostname = Some(&spec.hostname).filter(|name| !name.is_empty() && spec.subdomain == service.metadata.name);
    let conditions = json!({"ready": ready || service.spec.publish_not_ready_addresses, "serving": ready});
    let slice = json!({
        "metadata": {"namespace": service.metadata.namespace, "name": format!("{}-{}", service.metadata.name, pod.name.uid),
            "labels": {"kubernetes.io/service-name": service.metadata.name}},
        "endpoints": [{"addresses": [address], "nodeName": node, "hostname": hostname, "conditions": conditions}],
        "ports": service.spec.ports.iter().filter_map(port).collect::<Vec<_>>(),
    });
    EndpointSlice::read(&slice).ok()
}

/// The port of the pod that a port of the service leads to.
fn target(port: &ServicePort, spec: &PodSpec) -> Option<i64> {
    let protocol = |text: &str| if text.is_empty() { "TCP".to_owned() } else { text.to_owned() };
    let Some(text) = port.target_port.as_ref().map(ToString::to_string) else { return Some(i64::from(port.port)) };
    match text.parse::<i64>() {
        Ok(0) => Some(i64::from(port.port)),
        Ok(number) => Some(number),
        Err(_) => {
            let of_pod = spec.containers.iter().flat_map(|container| &container.ports);
            let mut named = of_pod.filter(|one| one.name == text && protocol(&one.protocol) == protocol(&port.protocol));
            named.next().map(|one| i64::from(one.container_port))
        }
    }
}

fn network(file: &Value) -> Network {
    let list = |field: &str| file[field].as_array().cloned().unwrap_or_default();
    let services = list("services").iter().filter_map(|service| Service::read(service).ok()).collect();
    let slices = list("slices").iter().filter_map(|slice| EndpointSlice::read(slice).ok()).map(Arc::new).collect();
    Network { services: Arc::new(services), slices, heard: false }
}

fn file(network: &Network) -> Value {
    json!({
        "services": network.services.iter().map(of_service).collect::<Vec<_>>(),
        "slices": network.slices.iter().map(|slice| of_slice(slice)).collect::<Vec<_>>(),
    })
}

/// The fields of a service that this host uses.
fn of_service(service: &Service) -> Value {
    let (meta, spec) = (&service.metadata, &service.spec);
    let port = |port: &coracle_api::service::ServicePort| json!({"name": port.name, "protocol": port.protocol, "port": port.port, "nodePort": port.node_port});
    let ingress = service.status.load_balancer.ingress.iter().map(|one| json!({"ip": one.ip, "ipMode": one.ip_mode}));
    json!({
        "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "spec": {
            "type": spec.kind, "clusterIP": spec.cluster_ip, "clusterIPs": spec.cluster_ips, "externalIPs": spec.external_ips,
            "externalName": spec.external_name, "sessionAffinity": spec.session_affinity,
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": spec.affinity_timeout_s()}},
            "externalTrafficPolicy": spec.external_traffic_policy, "internalTrafficPolicy": spec.internal_traffic_policy,
            "publishNotReadyAddresses": spec.publish_not_ready_addresses, "selector": spec.selector,
            "loadBalancerSourceRanges": spec.load_balancer_source_ranges, "healthCheckNodePort": spec.health_check_node_port,
            "ports": spec.ports.iter().map(port).collect::<Vec<_>>(),
        },
        "status": {"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}},
    })
}

fn of_slice(slice: &EndpointSlice) -> Value {
    let endpoint = |endpoint: &SliceEndpoint| {
        let conditions = &endpoint.conditions;
        json!({
            "addresses": endpoint.addresses, "hostname": endpoint.hostname, "nodeName": endpoint.node_name,
            "conditions": {"ready": conditions.ready, "serving": conditions.serving, "terminating": conditions.terminating},
            "targetRef": endpoint.target_ref.as_ref().map(|target| json!({"kind": target.kind, "uid": target.uid})),
        })
    };
    let port = |port: &coracle_api::service::SlicePort| json!({"name": port.name, "protocol": port.protocol, "port": port.port});
    json!({
        "metadata": {"namespace": slice.metadata.namespace, "name": slice.metadata.name,
            "labels": {"kubernetes.io/service-name": slice.service()}},
        "addressType": slice.address_type,
        "endpoints": slice.endpoints.iter().flatten().map(endpoint).collect::<Vec<_>>(),
        "ports": slice.ports.iter().flatten().map(port).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard() -> Network {
        let service = json!({"metadata": {"namespace": "default", "name": "web", "uid": "s", "annotations": {"a": "b"}},
            "spec": {"clusterIP": "10.96.0.7", "type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}, "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "nodePort": 30080, "targetPort": "www"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}});
        let endpoint =
            |ip: &str, node: &str, uid: &str| json!({"addresses": [ip], "nodeName": node, "targetRef": {"kind": "Pod", "uid": uid}});
        let slice = json!({"metadata": {"namespace": "default", "name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [endpoint("10.244.0.2", "n1", "a"), endpoint("10.244.0.3", "n1", "b"), endpoint("10.244.1.2", "n2", "c"),
                {"addresses": ["192.0.2.9"]}],
            "ports": [{"name": "http", "port": 8080}]});
        let slices = vec![Arc::new(EndpointSlice::read(&slice).unwrap())];
        Network { services: Arc::new(vec![Service::read(&service).unwrap()]), slices, heard: true }
    }

    fn addresses(network: &Network) -> Vec<String> {
        let endpoints = network.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        endpoints.map(|endpoint| format!("{} {}", endpoint.addresses[0], endpoint.is_ready())).collect()
    }

    #[test]
    fn what_is_read_makes_the_same_rules() {
        let dir = std::env::temp_dir().join(format!("coracle-known-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let known = Known::new(dir.to_str().unwrap());
        assert!(known.read().is_none());
        known.keep(&heard());
        let read = known.read().unwrap();
        assert!(!read.heard);
        let rules = |network: &Network| crate::services::rules(&network.services, &network.slices, &crate::services::Here::default(), None);
        assert_eq!(rules(&read), rules(&heard()));
        assert_eq!(file(&read), file(&heard()));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn own_pods_are_as_they_are_now() {
        let pod = |uid: &str, app: &str| {
            let ports = json!([{"name": "www", "containerPort": 8081}]);
            let metadata = json!({"namespace": "default", "name": uid, "uid": uid, "labels": {"app": app}});
            let document = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}});
            (uid.to_owned(), Arc::new(Wanted::new(super::super::Source::Master, document).unwrap()))
        };
        let status = |ip: &str, ready: &str| json!({"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]});
        let pods = BTreeMap::from([pod("a", "web"), pod("b", "web"), pod("d", "other"), pod("e", "web")]);
        let statuses = BTreeMap::from([
            ("a".to_owned(), status("10.244.0.7", "True")),
            ("b".to_owned(), status("10.244.0.8", "False")),
            ("d".to_owned(), status("10.244.0.9", "True")),
            ("e".to_owned(), json!({"phase": "Pending"})),
        ]);
        let now = as_they_are(&heard(), "n1", &pods, &statuses);
        assert_eq!(addresses(&now), ["10.244.1.2 true", "192.0.2.9 true", "10.244.0.7 true", "10.244.0.8 false"]);
        assert_eq!(now.slices[1].ports.as_ref().unwrap()[0].port, Some(8081));
        assert_eq!(addresses(&as_they_are(&heard(), "n1", &BTreeMap::new(), &BTreeMap::new())), ["10.244.1.2 true", "192.0.2.9 true"]);
    }
}
