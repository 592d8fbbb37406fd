//! Services: a single port beside the name, as in 2014, and all ports in `ports`.

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use super::common::{LABELS, META};
use super::merge::{merge_list, replace};
use super::place::{get, get_text, put};
use super::reading::{Object, OldReading, brief};
use super::shape::{Blank, Field, Form, Own, Shape, field, ignored, own};

pub(super) static SERVICE: Shape = Shape(&[
    META,
    LABELS,
    &[
        own("ports", &["port", "protocol", "containerPort", "portName"], &PORTS),
        field("selector", &["spec", "selector"], Form::TextMap).blank(Blank::Null),
        own("type", &["createExternalLoadBalancer"], &TYPE),
        field("publicIPs", &["spec", "externalIPs"], Form::Texts),
        field("portalIP", &["spec", "clusterIP"], Form::Text).given(),
        field("sessionAffinity", &["spec", "sessionAffinity"], Form::Text).blank(Blank::Text("None")),
        field("loadBalancerStatus", &["status", "loadBalancer"], Form::Object(&BALANCER)).observed().lax(),
        ignored("proxyPort"),
    ],
]);

pub(super) static BALANCER: Shape = Shape(&[&[field("ingress", &["ingress"], Form::List(&INGRESS, &["ip"]))]]);

static INGRESS: Shape = Shape(&[&[field("ip", &["ip"], Form::Text), field("hostname", &["hostname"], Form::Text)]]);

const PORTS_AT: &[&str] = &["spec", "ports"];

static PORTS: Own = Own {
    read: read_ports,
    show: show_ports,
    governs: &[PORTS_AT],
    words: &[field("ports", PORTS_AT, Form::List(&PORT, &[]))],
    merge: Some(merge_ports),
};

static PORT: Shape = Shape(&[PORT_FIELDS]);

const PORT_FIELDS: &[Field] = &[
    field("name", &["name"], Form::Text).blank(Blank::Text("")),
    field("protocol", &["protocol"], Form::Upper).blank(Blank::Text("TCP")),
    field("port", &["port"], Form::Number).blank(Blank::Zero),
    own("containerPort", &[], &TARGET),
    field("nodePort", &["nodePort"], Form::Number).given(),
];

/// The one port of 2014.
static FIRST_PORT: Shape = Shape(&[&[
    field("portName", &["name"], Form::Text),
    field("protocol", &["protocol"], Form::Upper).blank(Blank::Text("TCP")),
    field("port", &["port"], Form::Number).blank(Blank::Zero),
    own("containerPort", &[], &TARGET),
]]);

/// Unset, it is the port itself.
static TARGET: Own = Own {
    read: read_target,
    show: show_target,
    governs: &[&["targetPort"]],
    words: &[field("containerPort", &["targetPort"], Form::PortOrName)],
    merge: None,
};

fn read_target(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let Some(value) = from.get("containerPort").filter(|value| !value.is_null()) else { return };
    if let Some(port) = Form::PortOrName.read(value, &path.field("containerPort"), seen) {
        put(into, &["targetPort"], port);
    }
}

fn show_target(v1: &Object, out: &mut Object) {
    let port = get(v1, &["targetPort"]).or_else(|| get(v1, &["port"]));
    out.insert("containerPort".to_owned(), port.cloned().unwrap_or(json!(0)));
}

fn read_ports(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let mut first = Object::new();
    let beside: Object = ["portName", "protocol", "port", "containerPort"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), from.get(*name)?.clone())))
        .collect();
    FIRST_PORT.read(&beside, &mut first, path, seen);
    let ports = from.get("ports").filter(|ports| !ports.is_null());
    let ports = ports.and_then(|ports| Form::List(&PORT, &[]).read(ports, &path.field("ports"), seen));
    match ports {
        Some(Value::Array(ports)) => {
            differences(&first, ports.first().and_then(Value::as_object), path, seen);
            put(into, PORTS_AT, Value::Array(ports));
        }
        // A protocol alone is what Go shows of no port.
        _ if !first.contains_key("port") && !first.contains_key("targetPort") => {}
        _ => {
            seen.first_port_only = true;
            put(into, PORTS_AT, json!([first]));
        }
    }
}

/// A change in only one of both places would be undone silently, so the difference is reported.
fn differences(beside: &Object, first: Option<&Object>, path: &Path, seen: &mut OldReading) {
    let Some(first) = first else { return };
    let (beside_shown, first_shown) = (FIRST_PORT.show(beside), FIRST_PORT.show(first));
    for (name, at) in
        [("portName", "name"), ("protocol", "protocol"), ("port", "port"), ("containerPort", "targetPort")]
    {
        let Some(value) = beside.get(at) else { continue };
        if beside_shown.get(name) != first_shown.get(name) {
            let detail = format!("differs from ports[0]: change both, or leave {name} out");
            seen.problem(Problem::invalid(&path.field(name), brief(value), detail));
        }
    }
}

fn show_ports(v1: &Object, out: &mut Object) {
    let none = Vec::new();
    let ports = get(v1, PORTS_AT).and_then(Value::as_array).unwrap_or(&none);
    let first = ports.first().and_then(Value::as_object).cloned().unwrap_or_default();
    out.extend(FIRST_PORT.show(&first));
    let ports = ports.iter().filter_map(Value::as_object).map(|port| Value::Object(PORT.show(port))).collect();
    out.insert("ports".to_owned(), ports);
}

/// Ports are matched by name; a port without a name matches a port without a name.
fn merge_ports(stored: &mut Object, new: &Object) {
    let none = Vec::new();
    let old = get(stored, PORTS_AT).and_then(Value::as_array).unwrap_or(&none);
    let Some(Value::Array(new_ports)) = get(new, PORTS_AT) else { return replace(&PORTS, stored, new) };
    let merged = merge_list(&PORT, &["name"], old, new_ports);
    put(stored, PORTS_AT, Value::Array(merged));
}

/// A client that knows only one port means the first port: the first port keeps the name, and all further ports stay.
pub(super) fn complete_ports(stored: &Object, new: &mut Object) {
    let Some(Value::Array(old)) = get(stored, PORTS_AT) else { return };
    let Some(Value::Array(said)) = get(new, PORTS_AT) else { return };
    let (Some((first, others)), Some(said)) = (old.split_first(), said.first()) else { return };
    let mut said = said.clone();
    if let (Some(said), Some(name)) = (said.as_object_mut(), first.get("name")) {
        said.entry("name").or_insert_with(|| name.clone());
    }
    let ports = std::iter::once(said).chain(others.iter().cloned()).collect();
    put(new, PORTS_AT, ports);
}

pub(super) const TYPE_AT: &[&str] = &["spec", "type"];

pub(super) static TYPE: Own = Own {
    read: read_type,
    show: show_type,
    governs: &[TYPE_AT],
    words: &[field("type", TYPE_AT, Form::Text)],
    merge: Some(merge_type),
};

fn read_type(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let said = |name: &str, form: Form, seen: &mut OldReading| {
        form.read(from.get(name).filter(|v| !v.is_null())?, &path.field(name), seen)
    };
    let external = said("createExternalLoadBalancer", Form::Flag, seen).and_then(|flag| flag.as_bool());
    match (said("type", Form::Text, seen), external) {
        (Some(kind), Some(external)) if (kind == "LoadBalancer") != external => {
            let detail = "differs from type: createExternalLoadBalancer means type LoadBalancer, give one";
            seen.problem(Problem::invalid(&path.field("createExternalLoadBalancer"), external, detail));
        }
        (Some(kind), _) => put(into, TYPE_AT, kind),
        (None, Some(true)) => put(into, TYPE_AT, json!("LoadBalancer")),
        (None, _) => {}
    }
}

fn show_type(v1: &Object, out: &mut Object) {
    let Some(kind) = get_text(v1, TYPE_AT) else { return };
    if kind == "LoadBalancer" {
        out.insert("createExternalLoadBalancer".to_owned(), json!(true));
    }
    out.insert("type".to_owned(), json!(kind));
}

/// Clients before `type` can say LoadBalancer or nothing; nothing leaves the other types alone.
fn merge_type(stored: &mut Object, new: &Object) {
    if get(new, TYPE_AT).is_some() || get_text(stored, TYPE_AT) == Some("LoadBalancer") {
        replace(&TYPE, stored, new);
    }
}
