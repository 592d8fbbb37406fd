//! The cluster's own: service `kubernetes`, where the API is to be found, and the range that service addresses come
//! from. PURE.
//!
//!     service      made once at the first address of the range; what a person changed of it stays, as in Kubernetes,
//!                  but for the annotation from which agents hear the domain of the cluster's names
//!     endpoints    the node that this master runs on, port 6443 (--secure-listen), in both forms
//!     range        as the master was started; `ranges` looks after it
//!     kube-dns     where pods ask for names, as soon as there is an agent that answers: at the tenth address
//!
//! While the node's address is unknown, the one written stays.

use super::balanced;
use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::ranges::RangeView;
use super::settings::Own;
use super::shelf::View;
use super::slices;
use super::view::{
    ENDPOINTS, EndpointsView, NamespaceView, NodeView, SERVICES, SLICES, ServiceView, SliceView, document,
    namespace_key,
};
use crate::store::Stored;
use coracle_api::annotations::CLUSTER_DOMAIN;
use coracle_api::meta::{Key, Resource};
use coracle_api::node::Node;
use coracle_api::strategy::addresses::{OWN, RANGES, own_range};
use coracle_api::strategy::elsewhere;
use coracle_api::strategy::lease::SERVICE;
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "default";
const SYSTEM: &str = "kube-system";
const DNS: &str = "kube-dns";
const DNS_PORT: i32 = 53;
/// From 0.
const DNS_ADDRESS: u32 = 9;
const PORT_NAME: &str = "https";
const PORT: i32 = 443;
/// Where the secure port of a packaged master is.
const TARGET_PORT: i32 = 6443;
/// On Endpoints that are to stay the only ones: their slice is kept here.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The domain that agents take where nothing is said.
const DOMAIN: &str = "cluster.local";

/// The service of the API as it stands.
pub struct OwnServiceView {
    document: Stored,
}

impl View for OwnServiceView {
    const OF: &'static [Resource] = &[SERVICES];

    fn concerns(key: &Key) -> bool {
        (key.namespace.as_str(), key.name.as_str()) == (NAMESPACE, OWN)
    }

    fn read(stored: &Stored, _: Option<&OwnServiceView>, _: Duration) -> Option<OwnServiceView> {
        Some(OwnServiceView { document: stored.clone() })
    }
}

/// The controller's only key: the service, to which all these objects belong.
pub fn key() -> Key {
    Key { resource: SERVICES, namespace: NAMESPACE.to_owned(), name: OWN.to_owned() }
}

pub fn all(_: &Cluster) -> Vec<Key> {
    vec![key()]
}

pub fn always(_: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    vec![key()]
}

pub fn by_namespace(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    if [NAMESPACE, SYSTEM].contains(&&*change.key.name) { vec![key()] } else { Vec::new() }
}

/// The service, and its Endpoints, which have the same name.
pub fn by_name(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let ours = [(NAMESPACE, OWN), (SYSTEM, DNS)].contains(&(&*change.key.namespace, &*change.key.name));
    if ours { vec![key()] } else { Vec::new() }
}

pub fn by_slice(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    slices::services(cluster, change).filter(|service| *service == key()).collect()
}

/// Whether this controller keeps the endpoints of a service. Those of a service that a person made, with a selector or
/// elsewhere, are like any other service's.
pub fn keeps(cluster: &Cluster, service: &Key) -> bool {
    let persons = |service: &ServiceView| service.external || !service.selector.is_empty();
    cluster.settings.own.is_some() && *service == key() && !cluster.get::<ServiceView>(service).is_some_and(persons)
}

/// Makes the cluster's own objects that are missing.
pub fn decide(look: &Look<'_>) -> Decision {
    let cluster = look.cluster;
    let lives = || cluster.get::<NamespaceView>(&namespace_key(NAMESPACE)).is_some_and(|namespace| !namespace.ends);
    match &cluster.settings.own {
        Some(own) if keeps(cluster, &key()) && lives() => {
            Decision::of(lacking(cluster, own).into_iter().chain(dns(cluster, own)).collect())
        }
        _ => Decision::default(),
    }
}

fn lacking(cluster: &Cluster, own: &Own) -> Vec<Intent> {
    let mut intents: Vec<Intent> = range(cluster, own).into_iter().collect();
    let Some(service) = cluster.get::<ServiceView>(&key()) else {
        if !cluster.damaged.contains(&key()) {
            intents.extend(new_service(own));
        }
        return intents;
    };
    intents.extend(domain(cluster, own).filter(|_| !service.deleting));
    if let Some(address) = address(cluster, own).filter(|_| !service.deleting) {
        intents.extend(endpoints(cluster, &address));
        intents.extend(slice(cluster, &address));
        // Slices left from a service that a person made before.
        intents.extend(slices::outlived(cluster, &key()));
    }
    intents
}

/// What an agent answers at. A person may give it a selector, and pods that answer instead.
fn dns(cluster: &Cluster, own: &Own) -> Option<Intent> {
    let key = Key { resource: SERVICES, namespace: SYSTEM.to_owned(), name: DNS.to_owned() };
    let lives = cluster.get::<NamespaceView>(&namespace_key(SYSTEM)).is_some_and(|namespace| !namespace.ends);
    let there = cluster.damaged.contains(&key) || cluster.get::<ServiceView>(&key).is_some();
    if !lives || there || !cluster.nodes.values().any(balanced::is_ours) {
        return None;
    }
    let port = |name: &str, protocol: &str| {
        json!({
            "name": name, "protocol": protocol, "port": DNS_PORT, "targetPort": DNS_PORT,
        })
    };
    let object = json!({
        "metadata": {"name": DNS, "labels": {"k8s-app": DNS, "kubernetes.io/cluster-service": "true"}},
        "spec": {"clusterIP": own.range.nth(DNS_ADDRESS)?.to_string(),
            "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")],
            "type": "ClusterIP"},
    });
    Some(Intent::Create { resource: SERVICES, namespace: SYSTEM.to_owned(), object })
}

fn new_service(own: &Own) -> Option<Intent> {
    let port = json!({"name": PORT_NAME, "protocol": "TCP", "port": PORT, "targetPort": TARGET_PORT});
    let object = json!({
        "metadata": {"name": OWN, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": own.range.nth(0)?.to_string(), "ipFamilyPolicy": "SingleStack", "ports": [port],
            "sessionAffinity": "None",
            "type": "ClusterIP"},
    });
    Some(Intent::Create { resource: key().resource, namespace: NAMESPACE.to_owned(), object })
}

/// Says the domain of the cluster's names where it is not the usual one.
fn domain(cluster: &Cluster, own: &Own) -> Option<Intent> {
    let standing = &cluster.get::<OwnServiceView>(&key())?.document;
    let mut object = document(standing);
    let said = object["metadata"]["annotations"].get(CLUSTER_DOMAIN).and_then(Value::as_str);
    let wanted = Some(own.domain.as_str()).filter(|domain| *domain != DOMAIN);
    if said == wanted {
        return None;
    }
    match (wanted, object["metadata"]["annotations"].as_object_mut()) {
        (Some(domain), _) => object["metadata"]["annotations"][CLUSTER_DOMAIN] = domain.into(),
        (None, annotations) => drop(annotations?.remove(CLUSTER_DOMAIN)),
    }
    Some(Intent::Update { key: key(), seen: standing.revision, object })
}

/// The address of the node that reports this host's name. In a cluster with a single node, that node's address: a
/// single node means a single host.
fn address(cluster: &Cluster, own: &Own) -> Option<String> {
    let here = |node: &&NodeView| own.host.is_some() && said(node, "Hostname") == own.host;
    let alone = || cluster.nodes.values().next().filter(|_| cluster.nodes.len() == 1);
    let node = cluster.nodes.values().find(here).or_else(alone)?;
    said(node, "InternalIP")
        .filter(|address| address.parse::<std::net::IpAddr>().is_ok() && elsewhere(address).is_none())
}

/// A node's reported address of this kind. None: the node reports no such address.
fn said(node: &NodeView, kind: &str) -> Option<String> {
    let Node { status, .. } = serde_json::from_slice(&node.document.json).ok()?;
    status.addresses.into_iter().find(|one| one.kind == kind).map(|one| one.address)
}

fn endpoints(cluster: &Cluster, address: &str) -> Option<Intent> {
    let key = Key { resource: ENDPOINTS, ..key() };
    if cluster.damaged.contains(&key) {
        return None;
    }
    let port = json!({"name": PORT_NAME, "port": TARGET_PORT, "protocol": "TCP"});
    let subsets = json!([{"addresses": [{"ip": address}], "ports": [port]}]);
    let Some(standing) = cluster.get::<EndpointsView>(&key) else {
        let object = json!({"metadata": {"name": OWN, "labels": {SKIP_MIRROR: "true"}}, "subsets": subsets});
        return Some(Intent::Create { resource: key.resource, namespace: key.namespace, object });
    };
    if names(standing, address) {
        return None;
    }
    let mut object = document(&standing.document);
    object["metadata"]["labels"][SKIP_MIRROR] = "true".into();
    object["subsets"] = subsets;
    Some(Intent::Update { key, seen: standing.revision, object })
}

/// Whether endpoints say this address and nothing else.
fn names(standing: &EndpointsView, address: &str) -> bool {
    let marked = standing.labels.get(SKIP_MIRROR).is_some_and(|said| said == "true");
    let [subset] = standing.subsets.as_slice() else { return false };
    let ([one], [port]) = (subset.addresses.as_slice(), subset.ports.as_slice()) else { return false };
    let port = (port.name.as_str(), port.port) == (PORT_NAME, TARGET_PORT);
    marked && one.ip == address && subset.not_ready_addresses.is_empty() && port
}

fn slice(cluster: &Cluster, address: &str) -> Option<Intent> {
    let key = Key { resource: SLICES, ..key() };
    if cluster.damaged.contains(&key) {
        return None;
    }
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let port = json!({"name": PORT_NAME, "port": TARGET_PORT, "protocol": "TCP"});
    let wanted = json!({
        "metadata": {"name": OWN, "labels": {SERVICE: OWN}},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [port],
    });
    let create = || Intent::Create { resource: SLICES, namespace: NAMESPACE.to_owned(), object: wanted.clone() };
    let Some(standing) = cluster.get::<SliceView>(&key) else { return Some(create()) };
    let mut object = document(&standing.document);
    if object["addressType"] != wanted["addressType"] {
        // It never changes: the next look makes another.
        return Some(Intent::Delete { key, seen: standing.revision, at_once: true });
    }
    let same = ["endpoints", "ports"].iter().all(|field| object[field] == wanted[field]) && standing.service == OWN;
    if same {
        return None;
    }
    object["metadata"]["labels"][SERVICE] = OWN.into();
    object["endpoints"] = wanted["endpoints"].clone();
    object["ports"] = wanted["ports"].clone();
    Some(Intent::Update { key, seen: standing.revision, object })
}

fn range(cluster: &Cluster, own: &Own) -> Option<Intent> {
    let key = Key { resource: RANGES, namespace: String::new(), name: OWN.to_owned() };
    if cluster.damaged.contains(&key) {
        return None;
    }
    let text = own.range.to_string();
    let Some(range) = cluster.get::<RangeView>(&key) else {
        return Some(Intent::Create { resource: RANGES, namespace: String::new(), object: own_range(&text) });
    };
    // A range never changes, and this one is what the master was started with: the next look makes it.
    let another = range.deleting.is_none() && range.document["spec"]["cidrs"][0] != text;
    another.then_some(Intent::Delete { key, seen: range.revision, at_once: true })
}

#[cfg(test)]
mod tests {
    use super::super::controller::Now;
    use super::super::settings::Settings;
    use super::super::table::Controllers;
    use super::super::view::{NAMESPACES, NODES};
    use super::*;
    use crate::store::Event;
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::{Revision, Time};
    use coracle_api::strategy::Cidr;
    use std::sync::Arc;

    const NOW: Duration = Duration::from_secs(9);

    /// A cluster with these objects, by resource and name: null is gone.
    fn cluster(objects: &[(Resource, &str, Value)]) -> Cluster {
        cluster_of(DOMAIN, objects)
    }

    fn cluster_of(domain: &str, objects: &[(Resource, &str, Value)]) -> Cluster {
        let (range, host) = (Cidr::parse("10.96.0.0/16").unwrap(), Some("here".to_owned()));
        let own = Own { range, host, balancer: true, domain: domain.to_owned() };
        let settings = Settings { own: Some(Arc::new(own)), ..Settings::default() };
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
        let namespace = (NAMESPACES, NAMESPACE, json!({"metadata": {"name": NAMESPACE}}));
        for (revision, (resource, name, object)) in (1..).map(Revision).zip([namespace].iter().chain(objects)) {
            let of_cluster = [RANGES, NODES, NAMESPACES].contains(resource);
            let namespace = if of_cluster { "" } else { NAMESPACE };
            let key =
                Arc::new(Key { resource: resource.clone(), namespace: namespace.to_owned(), name: (*name).to_owned() });
            let new = (!object.is_null()).then(|| Stored::of(key.clone(), revision, &mut object.clone()));
            cluster.apply(&Event { revision, key, old: None, new, renewed: false }, NOW);
        }
        cluster
    }

    fn intents(cluster: &Cluster) -> Vec<String> {
        let wall = Time::from_seconds(1_600_000_000).unwrap();
        let line = |intent: &Intent| match intent {
            Intent::Create { resource, object, .. } => {
                let said = [
                    &object["spec"]["clusterIP"],
                    &object["subsets"][0]["addresses"][0]["ip"],
                    &object["endpoints"][0]["addresses"][0],
                ];
                let said = said.iter().find_map(|value| value.as_str()).unwrap_or_default();
                format!("make {} {said}", resource.plural).trim_end().to_owned()
            }
            Intent::Update { key, object, .. } => {
                let said = [
                    &object["subsets"][0]["addresses"][0]["ip"],
                    &object["endpoints"][0]["addresses"][0],
                    &object["metadata"]["annotations"][CLUSTER_DOMAIN],
                ];
                format!(
                    "write {} {}",
                    key.resource.plural,
                    said.iter().find_map(|value| value.as_str()).unwrap_or_default()
                )
            }
            Intent::Status { key, .. } => format!("status {}", key.resource.plural),
            Intent::Delete { key, .. } => format!("delete {}", key.resource.plural),
            other => format!("{other:?}"),
        };
        let now = Now { wall, uptime: NOW };
        let look = Look { cluster, key: &key(), now, refusal: None, contents: None, memory: None, memo: None };
        decide(&look).intents.iter().map(line).collect()
    }

    #[track_caller]
    fn check(objects: &[(Resource, &str, Value)], expected: &[&str]) {
        assert_eq!(intents(&cluster(objects)), expected);
    }

    fn node(host: &str, address: &str) -> Value {
        let addresses = json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": host}]);
        json!({"metadata": {"uid": host}, "status": {"addresses": addresses}})
    }

    fn standing() -> Vec<(Resource, &'static str, Value)> {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let range =
            json!({"metadata": {"name": OWN}, "spec": {"cidrs": ["10.96.0.0/16"]}, "status": {"conditions": ready}});
        let service = json!({"metadata": {"name": OWN}, "spec": {"clusterIP": "10.96.0.1"}});
        vec![(RANGES, OWN, range), (key().resource, OWN, service)]
    }

    #[test]
    fn what_every_cluster_has() {
        check(&[], &["make servicecidrs", "make services 10.96.0.1"]);
        let range = |cidr: &str| (RANGES, OWN, json!({"metadata": {"name": OWN}, "spec": {"cidrs": [cidr]}}));
        check(&[range("10.96.0.0/16")], &["make services 10.96.0.1"]);
        check(&[range("10.97.0.0/16")], &["delete servicecidrs", "make services 10.96.0.1"]);
        check(&standing(), &[]);
        // It went, and comes back.
        let mut gone = standing();
        gone.push((key().resource, OWN, Value::Null));
        check(&gone, &["make services 10.96.0.1"]);
        // With an agent there is a service of DNS.
        let mut agent = node("here", "");
        agent["status"]["nodeInfo"] = json!({"kubeletVersion": "v0.1.0-coracle"});
        let mut with = standing();
        with.push((NODES, "b", agent));
        with.push((NAMESPACES, SYSTEM, json!({"metadata": {"name": SYSTEM}})));
        check(&with, &["make services 10.96.0.10"]);
        // A person's own.
        let mut theirs = standing();
        theirs[1].2["spec"]["selector"] = json!({"app": "proxy"});
        check(&theirs, &[]);
        assert!(!keeps(&cluster(&theirs), &key()) && keeps(&cluster(&standing()), &key()));
    }

    #[test]
    fn agents_hear_the_domain() {
        let saying = |said: Value| {
            let mut all = standing();
            all[1].2["metadata"]["annotations"] = json!({CLUSTER_DOMAIN: said, "mine": "stays"});
            all
        };
        let check = |domain: &str, objects: &[(Resource, &str, Value)], expected: &[&str]| {
            assert_eq!(intents(&cluster_of(domain, objects)), expected, "{domain}");
        };
        check("shop.lan", &standing(), &["write services shop.lan"]);
        check("shop.lan", &saying("other.lan".into()), &["write services shop.lan"]);
        check("shop.lan", &saying("shop.lan".into()), &[]);
        check(DOMAIN, &saying("shop.lan".into()), &["write services "]);
    }

    #[test]
    fn where_it_is_to_be_found() {
        let nodes = Resource::core("nodes");
        let with = |more: &[(Resource, &'static str, Value)]| {
            let mut all = standing();
            all.extend(more.iter().cloned());
            all
        };
        let here = (nodes.clone(), "b", node("here", "192.0.2.7"));
        let other = (nodes.clone(), "a", node("there", "192.0.2.9"));
        let made = ["make endpoints 192.0.2.7", "make endpointslices 192.0.2.7"];
        check(&with(&[other.clone(), here.clone()]), &made);
        check(&with(std::slice::from_ref(&other)), &["make endpoints 192.0.2.9", "make endpointslices 192.0.2.9"]);
        // No address: two nodes on other hosts, a node that reports no address, or an address that no pod could reach.
        check(&with(&[other.clone(), (nodes.clone(), "c", node("third", "192.0.2.8"))]), &[]);
        check(&with(&[(nodes.clone(), "b", json!({"metadata": {"uid": "x"}}))]), &[]);
        check(&with(&[(nodes, "b", node("here", "127.0.0.1"))]), &[]);
        let port = json!({"name": "https", "port": 6443, "protocol": "TCP"});
        let endpoints = |address: &str| {
            let subsets = json!([{"addresses": [{"ip": address}], "ports": [port]}]);
            let labels = json!({SKIP_MIRROR: "true"});
            (Resource::core("endpoints"), OWN, json!({"metadata": {"name": OWN, "labels": labels}, "subsets": subsets}))
        };
        let slice = |address: &str| {
            let endpoints = json!([{"addresses": [address], "conditions": {"ready": true}}]);
            let labels = json!({SERVICE: OWN});
            let slice = json!({
                "metadata": {"name": OWN, "labels": labels}, "addressType": "IPv4", "endpoints": endpoints,
                "ports": [port],
            });
            (SLICES, OWN, slice)
        };
        check(&with(&[here.clone(), endpoints("192.0.2.7"), slice("192.0.2.7")]), &[]);
        let moved = ["write endpoints 192.0.2.7", "write endpointslices 192.0.2.7"];
        check(&with(&[here, endpoints("192.0.2.6"), slice("192.0.2.6")]), &moved);
        // Its node has said nothing since a restart: what stands may be true.
        check(&with(&[endpoints("192.0.2.6"), slice("192.0.2.6")]), &[]);
    }
}
