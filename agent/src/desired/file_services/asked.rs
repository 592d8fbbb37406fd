//! A Service in a manifest file: what a file may ask for, and the defaults that differ from those of the API. PURE.
//!
//!     the document -> `refused`: fields that no file may have
//!         -> `prepared` -> the rules and defaults of the API -> `finished` -> the Service of the file
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

/// The document with the choices that a file leaves to this host.
pub fn prepared(document: &Value) -> Value {
    let mut prepared = document.clone();
    let spec = &document["spec"];
    if spec["type"] == "LoadBalancer" && is_empty(&spec["allocateLoadBalancerNodePorts"]) {
        prepared["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    }
    prepared
}

/// The error names each field that no file may have, or that a file has to have.
pub fn refused(document: &Value) -> Result<(), String> {
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
    let asks_for_all = kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] == true;
    if kind == "NodePort" || asks_for_all {
        for (at, _) in ports().filter(|(_, port)| port["nodePort"].as_i64().unwrap_or_default() == 0) {
            problems.push(format!(
                "spec.ports[{at}].nodePort: Required value: a Service of a file names its node port, such as {}: no \
                 master gives a port",
                30080 + at
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::manifest::{Origin, read};
    use coracle_api::meta::Time;

    fn taken(spec: &str) -> Result<Value, String> {
        let text = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {spec}\n");
        let written = Time::from_seconds(1_767_225_600).unwrap();
        let origin = Origin { file_name: "web.yaml", node_name: "n1", written, allow_unknown: false };
        let mut entries = read(&text, origin).unwrap();
        entries.remove(0).result.map(|mut given| given.objects.remove(0))
    }

    #[test]
    fn what_a_file_may_ask_for() {
        let check = |spec: &str, expected: &[(&str, Value)]| {
            let service = taken(spec).unwrap_or_else(|why| panic!("{spec}: {why}"));
            assert!(service["kind"] == "Service" && service["metadata"]["namespace"] == "default", "{service}");
            for (field, value) in expected {
                assert_eq!(service["spec"].pointer(field).unwrap_or(&Value::Null), value, "{spec} {field}");
            }
        };
        check(
            "{selector: {app: web}, ports: [{port: 80}]}",
            &[
                ("/type", json!("ClusterIP")),
                ("/clusterIP", Value::Null),
                ("/clusterIPs", Value::Null),
                ("/ports/0/targetPort", json!(80)),
                ("/ports/0/protocol", json!("TCP")),
            ],
        );
        check("{selector: {app: web}, clusterIP: None}", &[("/clusterIP", json!("None"))]);
        check(
            "{selector: {app: web}, clusterIP: 10.97.0.9, ports: [{port: 80, targetPort: http}]}",
            &[("/clusterIP", json!("10.97.0.9")), ("/ports/0/targetPort", json!("http"))],
        );
        check(
            "{type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}",
            &[("/ports/0/nodePort", json!(30080))],
        );
        check(
            "{type: LoadBalancer, selector: {app: web}, sessionAffinity: ClientIP, ports: [{port: 80}]}",
            &[("/ports/0/nodePort", Value::Null), ("/sessionAffinityConfig/clientIP/timeoutSeconds", json!(10_800))],
        );
        check("{type: ExternalName, externalName: example.com}", &[("/externalName", json!("example.com"))]);
    }

    #[test]
    fn the_rest_is_refused_by_name() {
        let check = |spec: &str, words: &str| {
            let why = taken(spec).expect_err(spec);
            assert!(why.contains(words), "{spec}: {why}");
        };
        check("{ports: [{port: 80}]}", "spec.selector: Required value: a Service of a file leads to pods");
        check(
            "{type: NodePort, selector: {a: b}, ports: [{port: 80}]}",
            "spec.ports[0].nodePort: Required value: a Service of a file names its node port, such as 30080",
        );
        check(
            "{type: LoadBalancer, allocateLoadBalancerNodePorts: true, selector: {a: b}, ports: [{port: 80}]}",
            "spec.ports[0].nodePort: Required value",
        );
        check("{selector: {a: b}, ports: [{port: 80, protocol: SCTP}]}", "spec.ports[0].protocol: Unsupported value");
        check("{selector: {a: b}, externalIPs: [192.0.2.9], ports: [{port: 80}]}", "spec.externalIPs: Forbidden");
        check(
            "{type: LoadBalancer, loadBalancerIP: 192.0.2.9, selector: {a: b}, ports: [{port: 80}]}",
            "spec.loadBalancerIP: Forbidden",
        );
        // The rules of the API.
        check("{selector: {a: b}}", "spec.ports: Required value");
        check("{selector: {a: b}, ports: [{port: 99999}]}", "spec.ports[0].port");
        check("{type: NodePort, selector: {a: b}, ports: [{port: 80, nodePort: 80}]}", "spec.ports[0].nodePort");
        check("{type: Balanced, selector: {a: b}, ports: [{port: 80}]}", "spec.type");
    }
}
