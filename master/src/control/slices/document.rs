//! A slice as it stands in the store, and as it is written. PURE.

use super::{Hints, Named, Port, Spot};
use crate::control::view::Labels;
use coracle_api::meta::ObjectReference;
use coracle_api::service::EndpointPort;
use serde::Deserialize;
use serde_json::{Value, json};

pub fn shown_ports(ports: &[(Port, String)]) -> Value {
    let port = |((name, number, protocol), spoken): &(Port, String)| {
        let mut port = json!({"name": name, "port": number, "protocol": protocol});
        if !spoken.is_empty() {
            port["appProtocol"] = spoken.as_str().into();
        }
        port
    };
    if ports.is_empty() { Value::Null } else { ports.iter().map(port).collect() }
}

pub fn endpoint(spot: &Spot) -> Value {
    let conditions = json!({"ready": spot.ready, "serving": spot.serving, "terminating": spot.terminating});
    let mut shown = json!({"addresses": [spot.ip], "conditions": conditions});
    if !spot.hostname.is_empty() {
        shown["hostname"] = spot.hostname.as_str().into();
    }
    if let Some(node) = spot.node.as_ref().filter(|node| !node.is_empty()) {
        shown["nodeName"] = node.as_str().into();
    }
    if let Some(zone) = &spot.zone {
        shown["zone"] = zone.as_str().into();
    }
    let named = |all: &[Named]| all.iter().map(|one| json!({"name": one.name})).collect::<Value>();
    for (field, all) in [("forZones", &spot.hints.for_zones), ("forNodes", &spot.hints.for_nodes)] {
        if !all.is_empty() {
            shown["hints"][field] = named(all);
        }
    }
    if let Some(target) = &spot.target {
        let ObjectReference { kind, namespace, name, uid, api_version, resource_version, field_path } = target;
        let said = [
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
            ("uid", uid),
            ("apiVersion", api_version),
            ("resourceVersion", resource_version),
            ("fieldPath", field_path),
        ];
        shown["targetRef"] = said
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(field, text)| (field.to_owned(), json!(text)))
            .collect();
    }
    shown
}

/// As it stands in the store.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Slice {
    pub metadata: Meta,
    pub address_type: String,
    /// Null where there are none.
    pub endpoints: Option<Vec<Endpoint>>,
    pub ports: Option<Vec<EndpointPort>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub labels: Labels,
    pub annotations: Labels,
    pub owner_references: Value,
    pub deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    pub addresses: Vec<String>,
    pub conditions: Conditions,
    pub hostname: String,
    pub node_name: Option<String>,
    pub zone: Option<String>,
    pub hints: Option<Hints>,
    pub target_ref: Option<ObjectReference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Conditions {
    pub ready: bool,
    /// As ready, where it is not said.
    pub serving: Option<bool>,
    pub terminating: bool,
}

impl Endpoint {
    pub fn spot(&self) -> Spot {
        let Conditions { ready, serving, terminating } = self.conditions;
        let ip = self.addresses.first().cloned().unwrap_or_default();
        let (hostname, node, target) = (self.hostname.clone(), self.node_name.clone(), self.target_ref.clone());
        let (zone, hints) = (self.zone.clone(), self.hints.clone().unwrap_or_default());
        Spot { ip, ready, serving: serving.unwrap_or(ready), terminating, hostname, node, zone, hints, target }
    }
}
