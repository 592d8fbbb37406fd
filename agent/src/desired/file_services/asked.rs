//! A Service in a manifest file: what a file may ask for, and the defaults that differ from those of the API. PURE.
//!
//!     the document -> `prepared` -> the rules and defaults of the API -> `finished` -> the Service of the file
//!
//! No master gives such a Service an address, a node port or a balancer: the address is given later and kept by name
//! (`addresses`), a node port is written in the file, and the host itself is the balancer.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// Stands for the address while the rules of the API are asked: whether an address is free is decided later.
pub const PLACEHOLDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Fields for which something else than this host would have to act.
const OF_OTHERS: [(&str, &str); 3] = [
    ("externalIPs", "a Service of a file answers at addresses of this host: type: LoadBalancer or NodePort"),
    ("loadBalancerIP", "the balancer of a Service of a file is this host, at its own addresses"),
    ("loadBalancerClass", "the balancer of a Service of a file is this host"),
];

/// The document with the choices that a file leaves to this host. The error names each field that no file may have.
pub fn prepared(document: &Value) -> Result<Value, String> {
    let spec = &document["spec"];
    let kind = spec["type"].as_str().filter(|kind| !kind.is_empty()).unwrap_or("ClusterIP");
    let mut problems: Vec<String> = Vec::new();
    for (field, why) in OF_OTHERS.iter().filter(|(field, _)| !is_empty(&spec[*field])) {
        problems.push(format!("spec.{field}: Forbidden: {why}"));
    }
    if kind != "ExternalName" && is_empty(&spec["selector"]) {
        problems.push(
            "spec.selector: Required value: a Service of a file leads to pods of this host's files, by their labels"
                .to_owned(),
        );
    }
    let ports = || spec["ports"].as_array().into_iter().flatten().enumerate();
    for (at, _) in ports().filter(|(_, port)| port["protocol"] == "SCTP") {
        problems.push(format!("spec.ports[{at}].protocol: Unsupported value: \"SCTP\": this host serves TCP and UDP"));
    }
    let balanced = kind == "LoadBalancer";
    let asks_for_all = balanced && spec["allocateLoadBalancerNodePorts"] == true;
    if kind == "NodePort" || asks_for_all {
        for (at, _) in ports().filter(|(_, port)| port["nodePort"].as_i64().unwrap_or_default() == 0) {
            problems.push(format!(
                "spec.ports[{at}].nodePort: Required value: a Service of a file names its node port, such as {}: no \
                 master gives a port",
                30080 + at
            ));
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let mut prepared = document.clone();
    if balanced && is_empty(&spec["allocateLoadBalancerNodePorts"]) {
        prepared["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    }
    Ok(prepared)
}

/// The Service without the placeholder of its address. `document`: as the file has it.
pub fn finished(mut service: Value, document: &Value) -> Value {
    let written = &document["spec"];
    if is_empty(&written["clusterIP"])
        && is_empty(&written["clusterIPs"])
        && let Some(spec) = service["spec"].as_object_mut()
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    service
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
