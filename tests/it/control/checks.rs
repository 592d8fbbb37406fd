//! What holds whenever it is quiet, computed from the documents alone.

use super::bed::{Bed, key};
use super::budgets;
use coracle_api::meta::Resource;
use coracle_master::control::{Controllers, Gate, Intent, Step, wakes};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `healed`: no agent is silent and no file damaged, so nothing is in doubt.
pub fn all_is_well(bed: &Bed, healed: bool) {
    nothing_is_left_to_do(bed);
    replicas(bed, healed);
    host_ports(bed);
    scheduled(bed);
    endpoints(bed, healed);
    budgets::counted(bed);
    nothing_is_lost(bed);
}

/// The full pass, over what the controllers know, and over what somebody who comes now would see.
fn nothing_is_left_to_do(bed: &Bed) {
    let pass = |step: &Step| {
        for owner in step.all() {
            // Who comes now did not see which nodes were deleted and which never were.
            let known = owner.controller != "nodes" || step.cluster().nodes.contains_key(&owner.key.name);
            let mut left = step.decide(&owner, bed.now()).intents;
            // Who comes now tells what somebody before has told.
            left.retain(|intent| !matches!(intent, Intent::Announce(_)));
            // A pod that waits is looked at again when something has happened that may help; what it says is from the
            // look before.
            if owner.controller == "scheduler" {
                left.retain(|intent| !matches!(intent, Intent::Status { .. } | Intent::Tell(_)));
            }
            assert!(left.is_empty() || !known, "{owner} is not finished: {left:#?}");
        }
    };
    pass(bed.controllers());
    let gate = Gate::new(Arc::new(bed.registry()));
    pass(&Step::new(bed.store().clone(), gate, Controllers::builtin(), wakes(), bed.now()));
}

pub fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

fn over(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Failed" | "Succeeded")
}

fn active(pod: &Value) -> bool {
    !over(pod) && pod["metadata"]["deletionTimestamp"].is_null()
}

pub fn ready(object: &Value) -> &str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] == "Ready")
        .map(|condition| text(condition, "status"))
        .next()
        .unwrap_or_default()
}

pub fn matches(selector: &Value, pod: &Value) -> bool {
    let wanted = selector.as_object().into_iter().flatten();
    selector.as_object().is_some_and(|all| !all.is_empty())
        && wanted.into_iter().all(|(k, v)| pod["metadata"]["labels"][k] == *v)
}

fn replicas(bed: &Bed, healed: bool) {
    let pods = bed.objects("pods");
    let damaged = bed.damaged("pods").len() as u64;
    let mut uids = BTreeSet::new();
    for (key, controller) in bed.objects("replicationcontrollers") {
        let uid = &controller["metadata"]["uid"];
        uids.insert(uid.as_str().unwrap_or_default().to_owned());
        // It waits for pods whose agent is silent.
        if !controller["metadata"]["deletionTimestamp"].is_null() {
            assert!(!healed, "{key} is never gone");
            continue;
        }
        let own = |pod: &Value| {
            pod["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(|o| o["uid"] == *uid))
        };
        let owned: Vec<&Value> = pods.iter().map(|(_, pod)| pod).filter(|pod| own(pod) && active(pod)).collect();
        assert!(
            owned.iter().all(|pod| matches(&controller["spec"]["selector"], pod)),
            "{key} holds what it does not select"
        );
        let (wanted, there) = (controller["spec"]["replicas"].as_u64().unwrap_or(1), owned.len() as u64);
        assert!(there <= wanted && there + damaged >= wanted, "{key}: {there} of {wanted}, {damaged} damaged");
        let status = &controller["status"];
        let is_ready = owned.iter().filter(|pod| ready(pod) == "True").count() as u64;
        assert_eq!(
            (status["replicas"].as_u64(), status["readyReplicas"].as_u64().unwrap_or_default()),
            (Some(there), is_ready),
            "{key}"
        );
        let free = |pod: &Value| {
            pod["metadata"]["ownerReferences"].is_null() && active(pod) && matches(&controller["spec"]["selector"], pod)
        };
        assert!(!pods.iter().any(|(_, pod)| free(pod)), "{key} leaves a pod without a controller");
    }
    for (key, pod) in &pods {
        for owner in pod["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let damaged = bed.damaged("replicationcontrollers").iter().any(|rc| rc.name == text(owner, "name"));
            let leaving = !pod["metadata"]["deletionTimestamp"].is_null();
            assert!(damaged || leaving || uids.contains(text(owner, "uid")), "{key} belongs to nobody who is there");
        }
    }
}

fn ports_of(pod: &Value) -> Vec<u64> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.filter_map(|port| port["hostPort"].as_u64()).collect()
}

fn host_ports(bed: &Bed) {
    let mut taken = BTreeMap::new();
    for (key, pod) in
        bed.objects("pods").iter().filter(|(_, pod)| !over(pod) && !text(&pod["spec"], "nodeName").is_empty())
    {
        for port in ports_of(pod) {
            let other = taken.insert((text(&pod["spec"], "nodeName").to_owned(), port), key.clone());
            assert!(other.is_none(), "{key} and {other:?} have host port {port} of one node");
        }
    }
}

/// A pod on no node has none that would take it, and says so.
fn scheduled(bed: &Bed) {
    let pods = bed.objects("pods");
    let nodes = bed.objects("nodes");
    let waiting = pods.iter().filter(|(_, pod)| text(&pod["spec"], "nodeName").is_empty());
    for (key, pod) in waiting {
        for (node_key, node) in &nodes {
            let on: Vec<&Value> = pods
                .iter()
                .map(|(_, pod)| pod)
                .filter(|pod| pod["spec"]["nodeName"] == *node_key.name && !over(pod))
                .collect();
            let asks =
                |pod: &Value| if pod["spec"]["containers"][0]["resources"]["requests"].is_object() { 300 } else { 0 };
            let selects = pod["spec"]["nodeSelector"]["zone"].as_str().is_none_or(|zone| zone == node_key.name);
            let used: u64 = on.iter().map(|pod| asks(pod)).sum();
            let free = ports_of(pod).iter().all(|port| !on.iter().any(|other| ports_of(other).contains(port)));
            let room = on.len() < 6 && (asks(pod) == 0 || used + asks(pod) <= 1000);
            let open = ready(node) == "True" && node["spec"]["unschedulable"] != true;
            assert!(!(selects && free && room && open), "{key} waits, and {node_key} would take it");
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let why: Vec<&str> = conditions
            .filter(|c| c["type"] == "PodScheduled" && c["status"] == "False")
            .map(|c| text(c, "message"))
            .collect();
        assert!(why.len() == 1 && !why[0].is_empty(), "{key} waits and does not say why: {why:?}");
    }
}

fn endpoints(bed: &Bed, healed: bool) {
    let (pods, nodes) = (bed.objects("pods"), bed.objects("nodes"));
    let known = |node: &str| nodes.iter().find(|(key, _)| key.name == node).map(|(_, node)| ready(node));
    let damaged: Vec<String> = bed.damaged("endpoints").into_iter().map(|key| key.name).collect();
    for (service_key, service) in bed.objects("services") {
        let selector = &service["spec"]["selector"];
        if selector.is_null() || service["spec"]["type"] == "ExternalName" || damaged.contains(&service_key.name) {
            continue;
        }
        let serves = |pod: &Value| {
            let on_time = known(text(&pod["spec"], "nodeName")).is_some_and(|node| node != "Unknown");
            matches(selector, pod) && active(pod) && ready(pod) == "True" && on_time
        };
        let mut expected = BTreeSet::new();
        for (_, pod) in pods.iter().filter(|(_, pod)| serves(pod)) {
            let port = match &service["spec"]["ports"][0]["targetPort"] {
                Value::String(_) => pod["spec"]["containers"][0]["ports"][0]["containerPort"].as_u64(),
                number => number.as_u64(),
            };
            expected.extend(port.map(|port| (text(&pod["status"], "podIP").to_owned(), port)));
        }
        let stored = bed
            .store()
            .get(&key("endpoints", &service_key.name))
            .expect("it is not damaged")
            .expect("every service has endpoints");
        let object: Value = serde_json::from_slice(&stored.json).expect("JSON");
        let mut found = BTreeSet::new();
        for subset in object["subsets"].as_array().into_iter().flatten() {
            for address in subset["addresses"].as_array().into_iter().flatten() {
                assert!(
                    known(text(address, "nodeName")) != Some("Unknown"),
                    "{service_key} serves from a silent node: {address}"
                );
                found.extend(subset["ports"][0]["port"].as_u64().map(|port| (text(address, "ip").to_owned(), port)));
            }
        }
        assert_eq!(sliced(bed, &service_key.name), found, "the slices of {service_key} say something else");
        // Of a node that cannot be read nobody knows whether it is silent.
        let right = if healed { found == expected } else { found.is_superset(&expected) };
        assert!(right, "{service_key}: {found:?} and not {expected:?}");
    }
    let services: BTreeSet<String> = bed
        .objects("services")
        .into_iter()
        .map(|(key, _)| key)
        .chain(bed.damaged("services"))
        .map(|k| k.name)
        .collect();
    for (key, object) in bed.objects("endpoints") {
        let managed = !object["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"].is_null();
        assert!(!managed || services.contains(&key.name), "{key} has outlived its service");
    }
}

/// Where a service is served, as its slices say it.
fn sliced(bed: &Bed, service: &str) -> BTreeSet<(String, u64)> {
    let resource = Resource { group: "discovery.k8s.io".into(), plural: "endpointslices".into() };
    let mut found = BTreeSet::new();
    for stored in bed.store().list(&resource, None).items {
        let slice: Value = serde_json::from_slice(&stored.json).expect("JSON");
        if slice["metadata"]["labels"]["kubernetes.io/service-name"] != service {
            continue;
        }
        for spot in
            slice["endpoints"].as_array().into_iter().flatten().filter(|spot| spot["conditions"]["ready"] == true)
        {
            let address = spot["addresses"][0].as_str().expect("an address").to_owned();
            let first = found.insert((address, slice["ports"][0]["port"].as_u64().expect("a port")));
            assert!(first, "{service} has a place in two slices: {spot}");
        }
    }
    found
}

fn nothing_is_lost(bed: &Bed) {
    let there: BTreeSet<String> = bed.objects("pods").into_iter().map(|(key, _)| key.name).collect();
    for name in &bed.bare {
        assert!(there.contains(name), "nobody deleted {name}");
    }
}

/// What a restart must not change: which pods there are and where, which endpoints serve.
pub fn picture(bed: &Bed) -> Vec<String> {
    let pods = bed
        .objects("pods")
        .into_iter()
        .map(|(key, pod)| format!("{key} {} {}", pod["metadata"]["uid"], pod["spec"]["nodeName"]));
    let endpoints = bed
        .objects("endpoints")
        .into_iter()
        .map(|(key, object)| format!("{key} {} {}", object["metadata"]["resourceVersion"], object["subsets"]));
    pods.chain(endpoints).collect()
}
