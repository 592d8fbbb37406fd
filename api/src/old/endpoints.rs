//! Endpoints: `ip:port` texts for the clients of 2014, `subsets` for those of 2015.

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use super::common::{META, REFERENCE};
use super::place::{get, get_text, put};
use super::reading::{Object, OldReading};
use super::shape::{Blank, Field, Form, Own, Shape, field, own};

pub(super) static ENDPOINTS: Shape =
    Shape(&[META, &[own("subsets", &["endpoints", "protocol", "targetRefs"], &SUBSETS)]]);

static SUBSETS: Own = Own {
    read,
    show,
    governs: &[&["subsets"]],
    words: &[field("subsets", &["subsets"], Form::List(&SUBSET, &[]))],
    merge: None,
};

pub(super) static SUBSET: Shape = Shape(&[&[
    field("addresses", &["addresses"], Form::List(&ADDRESS, &["ip"])),
    field("ports", &["ports"], Form::List(&PORT, &["name"])),
]]);

static ADDRESS: Shape = Shape(&[&[
    field("IP", &["ip"], Form::Text).also(&["ip"]),
    field("targetRef", &["targetRef"], Form::Object(&REFERENCE)),
]]);

pub(super) static PORT: Shape = Shape(&[PORT_FIELDS]);

const PORT_FIELDS: &[Field] = &[
    field("name", &["name"], Form::Text),
    field("port", &["port"], Form::Number).blank(Blank::Zero),
    field("protocol", &["protocol"], Form::Upper).blank(Blank::Text("TCP")),
];

/// Endpoints before there were `subsets`: the addresses of the first port.
struct Flat {
    protocol: String,
    endpoints: Vec<String>,
    targets: Vec<Value>,
}

fn flat(subsets: &[Value]) -> Flat {
    let ports = |subset: &Value| subset.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |port: &Value| port.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first_name = subsets.first().and_then(|subset| ports(subset).first().map(name)).unwrap_or_default();
    let mut flat = Flat { protocol: "TCP".to_owned(), endpoints: Vec::new(), targets: Vec::new() };
    for subset in subsets {
        for port in ports(subset).iter().filter(|port| name(port) == first_name) {
            if let Some(protocol) = port.get("protocol").and_then(Value::as_str) {
                flat.protocol = protocol.to_owned();
            }
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            for address in
                subset.get("addresses").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
            {
                let Some(ip) = get_text(address, &["ip"]) else { continue };
                let endpoint = if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") };
                if let Some(Value::Object(target)) = address.get("targetRef") {
                    flat.targets.push(json!({"endpoint": endpoint, "targetRef": REFERENCE.show(target)}));
                }
                flat.endpoints.push(endpoint);
            }
        }
    }
    flat
}

fn show(v1: &Object, out: &mut Object) {
    let none = Vec::new();
    let subsets = get(v1, &["subsets"]).and_then(Value::as_array).unwrap_or(&none);
    let flat = flat(subsets);
    out.insert("protocol".to_owned(), json!(flat.protocol));
    out.insert("endpoints".to_owned(), json!(flat.endpoints));
    if !flat.targets.is_empty() {
        out.insert("targetRefs".to_owned(), json!(flat.targets));
    }
    let subsets =
        subsets.iter().filter_map(Value::as_object).map(|subset| Value::Object(SUBSET.show(subset))).collect();
    out.insert("subsets".to_owned(), subsets);
}

fn read(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let said = |name: &str, form: Form, seen: &mut OldReading| {
        form.read(from.get(name).filter(|v| !v.is_null())?, &path.field(name), seen)
    };
    let problems = seen.problems.len();
    let protocol = said("protocol", Form::Upper, seen).unwrap_or(json!("TCP"));
    let listed = said("endpoints", Form::Texts, seen);
    let subsets = said("subsets", Form::List(&SUBSET, &[]), seen);
    if seen.problems.len() > problems {
        return;
    }
    let listed: Vec<&str> = listed.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect();
    match subsets {
        Some(Value::Array(subsets)) => {
            let shown = flat(&subsets).endpoints;
            if !listed.is_empty() && shown != listed {
                let detail = "differs from subsets: change both, or leave one out";
                seen.problem(Problem::invalid(&path.field("endpoints"), "a list", detail));
            }
            put(into, &["subsets"], Value::Array(subsets));
        }
        _ => {
            let targets = targets(from, path, seen);
            let subsets = gather(&listed, &protocol, &targets, path, seen);
            if !subsets.is_empty() {
                put(into, &["subsets"], Value::Array(subsets));
            }
        }
    }
}

/// `targetRefs` by their endpoint.
fn targets(from: &Object, path: &Path, seen: &mut OldReading) -> Object {
    static TARGET: Shape = Shape(&[&[
        field("endpoint", &["endpoint"], Form::Text),
        field("targetRef", &["targetRef"], Form::Object(&REFERENCE)),
    ]]);
    let Some(value) = from.get("targetRefs").filter(|value| !value.is_null()) else { return Object::new() };
    let list = Form::List(&TARGET, &[]).read(value, &path.field("targetRefs"), seen);
    let entries = list.iter().filter_map(Value::as_array).flatten();
    entries.filter_map(|entry| Some((text_of(entry, "endpoint")?, entry.get("targetRef")?.clone()))).collect()
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

/// `ip:port` texts as subsets, one a port, in the order in which the ports come.
fn gather(listed: &[&str], protocol: &Value, targets: &Object, path: &Path, seen: &mut OldReading) -> Vec<Value> {
    let mut ports: Vec<i64> = Vec::new();
    let mut by_port: std::collections::HashMap<i64, Vec<Value>> = std::collections::HashMap::new();
    for (at, endpoint) in listed.iter().enumerate() {
        let parts = endpoint.rsplit_once(':').and_then(|(ip, port)| Some((ip, port.parse::<i64>().ok()?)));
        let Some((ip, port)) = parts else {
            let path = path.field("endpoints").index(at);
            seen.problem(Problem::invalid(&path, *endpoint, "must be ADDRESS:PORT, such as 10.0.0.1:80"));
            continue;
        };
        let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        let mut address = json!({ "ip": ip });
        if let (Some(target), Value::Object(address)) = (targets.get(*endpoint), &mut address) {
            address.insert("targetRef".to_owned(), target.clone());
        }
        by_port.entry(port).or_insert_with(|| {
            ports.push(port);
            Vec::new()
        });
        by_port.entry(port).or_default().push(address);
    }
    let subset = |port: i64| json!({"addresses": by_port.get(&port), "ports": [{"port": port, "protocol": protocol}]});
    ports.into_iter().map(subset).collect()
}
