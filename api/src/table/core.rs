//! The core group but pods.

use super::age;
use super::cell::{self, Cells, NONE, UNSET, count, list, number, text, text_or, yes};
use super::reading::Reading;
use super::storage::{access_modes, amount};
use crate::annotations::STORAGE_CLASS;
use crate::meta::Time;
use serde_json::Value;
use std::collections::BTreeSet;

/// The maximum number of addresses shown for an Endpoints object.
const ADDRESSES_MAX: usize = 3;

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "ComponentStatus" => component_status,
        "ConfigMap" => |map, now| {
            vec![cell::name(map), (count(&map["data"]) + count(&map["binaryData"])).into(), cell::age(map, now)]
        },
        "Endpoints" => {
            |endpoints, now| vec![cell::name(endpoints), addresses(endpoints).into(), cell::age(endpoints, now)]
        }
        "Event" => event,
        "Namespace" => {
            |space, now| vec![cell::name(space), text(&space["status"]["phase"]).into(), cell::age(space, now)]
        }
        "Node" => node,
        "PersistentVolume" => volume,
        "PersistentVolumeClaim" => claim,
        "PodTemplate" => pod_template,
        "ReplicationController" => controller,
        "ResourceQuota" => quota,
        "Secret" => |secret, now| {
            vec![
                cell::name(secret),
                text(&secret["type"]).into(),
                count(&secret["data"]).into(),
                cell::age(secret, now),
            ]
        },
        "Service" => service,
        "ServiceAccount" => |account, now| vec![cell::name(account), cell::age(account, now)],
        _ => return None,
    })
}

fn component_status(component: &Reading, _now: Time) -> Vec<Value> {
    let healthy = list(&component["conditions"]).iter().find(|condition| condition["type"] == "Healthy");
    let status = match healthy {
        Some(condition) if condition["status"] == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let said = |field: &str| healthy.map_or("", |condition| text(&condition[field])).into();
    vec![cell::name(component), status.into(), said("message"), said("error")]
}

/// `10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 4 more...`
fn addresses(endpoints: &Reading) -> String {
    let subsets = list(&endpoints["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let (mut shown, mut all) = (Vec::new(), 0);
    for subset in subsets {
        let addresses = list(&subset["addresses"]);
        // A headless service may have no ports.
        let ports: Vec<Option<i64>> = match list(&subset["ports"]) {
            [] => vec![None],
            ports => ports.iter().map(|port| Some(number(&port["port"]))).collect(),
        };
        for port in ports {
            all += addresses.len();
            for address in addresses.iter().map(|address| text(&address["ip"])).take(ADDRESSES_MAX - shown.len()) {
                shown.push(match port {
                    Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                    Some(port) => format!("{address}:{port}"),
                    None => address.to_owned(),
                });
            }
        }
    }
    cell::first_of(&shown, all, ",")
}

fn event(event: &Reading, now: Time) -> Vec<Value> {
    let first = if event["firstTimestamp"].is_null() { &event["eventTime"] } else { &event["firstTimestamp"] };
    let last = if event["lastTimestamp"].is_null() { first } else { &event["lastTimestamp"] };
    let series = &event["series"];
    let (last, times) = match series {
        Reading::Null => (last, number(&event["count"]).max(1)),
        series => (&series["lastObservedTime"], number(&series["count"])),
    };
    let about = &event["involvedObject"];
    let kind = text(&about["kind"]).to_lowercase();
    let object = if text(&about["name"]).is_empty() { kind } else { format!("{kind}/{}", text(&about["name"])) };
    let component = text_or(&event["source"]["component"], text(&event["reportingComponent"]));
    let host = text_or(&event["source"]["host"], text(&event["reportingInstance"]));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        age::since(last, now).into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        object.into(),
        text(&about["fieldPath"]).into(),
        source.into(),
        text(&event["message"]).trim().into(),
        age::since(first, now).into(),
        times.into(),
        cell::name(event),
    ]
}

fn node(node: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&node["spec"], &node["status"]);
    let ready = list(&status["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut state = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if yes(&spec["unschedulable"]) {
        state.push_str(",SchedulingDisabled");
    }
    let roles: Vec<String> = roles(node).into_iter().collect();
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or(NONE, |address| text(&address["address"])).into()
    };
    let info = |field: &str| text_or(&status["nodeInfo"][field], "<unknown>").into();
    vec![
        cell::name(node),
        state.into(),
        if roles.is_empty() { NONE.into() } else { roles.join(",").into() },
        cell::age(node, now),
        text(&status["nodeInfo"]["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn roles(node: &Reading) -> BTreeSet<String> {
    let role = |(key, value): (&str, &Reading)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => Some(text(value).to_owned()),
        None => None,
    };
    node["metadata"]["labels"].entries().filter_map(role).filter(|role| !role.is_empty()).collect()
}

fn volume(volume: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let claim = match &spec["claimRef"] {
        Reading::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    vec![
        cell::name(volume),
        amount(&spec["capacity"]["storage"]).into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(volume).into(),
        claim.into(),
        class(volume).into(),
        text_or(&spec["volumeAttributesClassName"], UNSET).into(),
        text(&status["reason"]).into(),
        cell::age(volume, now),
        text_or(&spec["volumeMode"], UNSET).into(),
    ]
}

fn claim(claim: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    vec![
        cell::name(claim),
        phase(claim).into(),
        text(&spec["volumeName"]).into(),
        if bound { amount(&status["capacity"]["storage"]).into() } else { "".into() },
        if bound { access_modes(&status["accessModes"]).into() } else { "".into() },
        class(claim).into(),
        text_or(&spec["volumeAttributesClassName"], UNSET).into(),
        cell::age(claim, now),
        text_or(&spec["volumeMode"], UNSET).into(),
    ]
}

fn phase<'v>(object: &'v Reading<'_>) -> &'v str {
    if object["metadata"]["deletionTimestamp"].is_null() { text(&object["status"]["phase"]) } else { "Terminating" }
}

/// The storage class; once it was an annotation.
fn class<'v>(object: &'v Reading<'_>) -> &'v str {
    text_or(&object["metadata"]["annotations"][STORAGE_CLASS], text(&object["spec"]["storageClassName"]))
}

fn pod_template(template: &Reading, _now: Time) -> Vec<Value> {
    let [names, images] = cell::containers(&template["template"]["spec"]);
    vec![cell::name(template), names, images, cell::labels(&template["template"]["metadata"]["labels"]).into()]
}

fn controller(controller: &Reading, now: Time) -> Vec<Value> {
    let (spec, status) = (&controller["spec"], &controller["status"]);
    let [names, images] = cell::containers(&spec["template"]["spec"]);
    vec![
        cell::name(controller),
        number(&spec["replicas"]).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        cell::age(controller, now),
        names,
        images,
        cell::labels(&spec["selector"]).into(),
    ]
}

/// `pods: 1/10, requests.cpu: 100m/2`, limits apart.
fn quota(quota: &Reading, now: Time) -> Vec<Value> {
    let status = &quota["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status["hard"].entries() {
        let line = format!("{resource}: {}/{}", amount(&status["used"][resource]), amount(hard));
        if resource.starts_with("limits") { &mut limits } else { &mut requests }.push(line);
    }
    vec![cell::name(quota), requests.join(", ").into(), limits.join(", ").into(), cell::age(quota, now)]
}

fn service(service: &Reading, now: Time) -> Vec<Value> {
    let spec = &service["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .iter()
        .map(|port| match number(&port["nodePort"]) {
            0 => format!("{}/{}", number(&port["port"]), text(&port["protocol"])),
            node => format!("{}:{node}/{}", number(&port["port"]), text(&port["protocol"])),
        })
        .collect();
    vec![
        cell::name(service),
        text(&spec["type"]).into(),
        text_or(&spec["clusterIPs"][0], text_or(&spec["clusterIP"], NONE)).into(),
        outside(service).into(),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        cell::age(service, now),
        cell::labels(&spec["selector"]).into(),
    ]
}

/// Where a service is reached from outside.
fn outside(service: &Reading) -> String {
    let spec = &service["spec"];
    let own = list(&spec["externalIPs"]).iter().map(|address| text(address).to_owned());
    let (given, missing) = match text(&spec["type"]) {
        "ExternalName" => return text(&spec["externalName"]).to_owned(),
        "LoadBalancer" => (balancers(&service["status"]["loadBalancer"]), "<pending>"),
        _ => (BTreeSet::new(), NONE),
    };
    let all: Vec<String> = given.into_iter().chain(own).collect();
    if all.is_empty() { missing.to_owned() } else { all.join(",") }
}

/// Addresses or names of a load balancer, sorted.
pub fn balancers(status: &Reading) -> BTreeSet<String> {
    let entries = list(&status["ingress"]).iter();
    entries
        .map(|entry| text_or(&entry["ip"], text(&entry["hostname"])).to_owned())
        .filter(|address| !address.is_empty())
        .collect()
}
