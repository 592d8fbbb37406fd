//! Endpoint slices, ingresses, network policies.

use super::cell::{self, Cells, NONE, UNSET, list, number, text, text_or};
use super::core::balancers;
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

/// Ports, addresses, hosts that are shown.
const SHOWN_MAX: usize = 3;

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "EndpointSlice" => slice,
        "Ingress" => ingress,
        "IngressClass" => ingress_class,
        "NetworkPolicy" => |policy, now| {
            vec![cell::name(policy), cell::selector(&policy["spec"]["podSelector"]).into(), cell::age(policy, now)]
        },
        "IPAddress" => taken,
        "ServiceCIDR" => {
            |range, now| vec![cell::name(range), cell::texts(&range["spec"]["cidrs"]).into(), cell::age(range, now)]
        }
        _ => return None,
    })
}

/// An address, and whose it is.
fn taken(address: &Reading, _now: Time) -> Vec<Value> {
    let parent = &address["spec"]["parentRef"];
    let whose = if parent.is_null() {
        NONE.to_owned()
    } else {
        let group = Some(text(&parent["group"]))
            .filter(|group| !group.is_empty())
            .map(|group| format!(".{group}"))
            .unwrap_or_default();
        let resource = format!("{}{group}", text(&parent["resource"])).to_lowercase();
        let parts = [resource.as_str(), text(&parent["namespace"]), text(&parent["name"])];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    };
    vec![cell::name(address), whose.into()]
}

fn slice(slice: &Reading, now: Time) -> Vec<Value> {
    let ports = list(&slice["ports"]).iter().map(|port| match number(&port["port"]) {
        0 => port["name"].as_str().unwrap_or("*").to_owned(),
        number => number.to_string(),
    });
    let addresses = list(&slice["endpoints"])
        .iter()
        .flat_map(|endpoint| list(&endpoint["addresses"]))
        .map(|at| text(at).to_owned());
    vec![
        cell::name(slice),
        text(&slice["addressType"]).into(),
        first(ports.collect()).into(),
        first(addresses.collect()).into(),
        cell::age(slice, now),
    ]
}

fn first(all: Vec<String>) -> String {
    let shown = &all[..all.len().min(SHOWN_MAX)];
    Some(cell::first_of(shown, all.len(), ",")).filter(|text| !text.is_empty()).unwrap_or_else(|| UNSET.to_owned())
}

fn ingress(ingress: &Reading, now: Time) -> Vec<Value> {
    let spec = &ingress["spec"];
    let addresses: Vec<String> = balancers(&ingress["status"]["loadBalancer"]).into_iter().collect();
    vec![
        cell::name(ingress),
        text_or(&spec["ingressClassName"], NONE).into(),
        hosts(list(&spec["rules"])).into(),
        addresses.join(",").into(),
        if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" }.into(),
        cell::age(ingress, now),
    ]
}

/// Rules without a host are for all, and count as one more where there are many.
fn hosts(rules: &[Reading]) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut more = false;
    for host in rules.iter().map(|rule| text(&rule["host"])) {
        more |= shown.len() == SHOWN_MAX;
        if !more && !host.is_empty() {
            shown.push(host.to_owned());
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => cell::first_of(&shown, rules.len(), ","),
        (false, false) => shown.join(","),
    }
}

fn ingress_class(class: &Reading, now: Time) -> Vec<Value> {
    let parameters = match &class["spec"]["parameters"] {
        Reading::Null => NONE.to_owned(),
        parameters => {
            let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
        }
    };
    vec![cell::name(class), text(&class["spec"]["controller"]).into(), parameters.into(), cell::age(class, now)]
}
