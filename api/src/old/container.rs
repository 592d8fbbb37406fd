//! One container of a manifest.

use coracle_schema::{Path, Problem, Quantity};
use serde_json::{Value, json};

use super::amount::{amount, read_amounts, show_amount, show_amounts};
use super::merge::replace;
use super::place::{get, get_text, is_empty, put, take};
use super::reading::{Object, OldReading, brief};
use super::shape::{Blank, Field, Form, Own, Shape, field, ignored, own};

pub(super) static CONTAINER: Shape = Shape(&[CONTAINER_FIELDS]);

const CONTAINER_FIELDS: &[Field] = &[
    field("name", &["name"], Form::Text),
    field("image", &["image"], Form::Text).blank(Blank::Text("")),
    // The names changed their meaning: v1beta1's command is Docker's Cmd, v1's command is Docker's Entrypoint.
    field("command", &["args"], Form::Texts),
    field("entrypoint", &["command"], Form::Texts),
    field("workingDir", &["workingDir"], Form::Text),
    field("ports", &["ports"], Form::List(&PORT, &["containerPort", "protocol"])),
    field("env", &["env"], Form::List(&ENV, &["name"])),
    own("resources", &["cpu", "memory"], &RESOURCES),
    field("volumeMounts", &["volumeMounts"], Form::List(&MOUNT, &["name", "mountPath"])),
    field("livenessProbe", &["livenessProbe"], Form::Present(&PROBE)),
    field("readinessProbe", &["readinessProbe"], Form::Present(&PROBE)),
    field("lifecycle", &["lifecycle"], Form::Object(&LIFECYCLE)),
    field("terminationMessagePath", &["terminationMessagePath"], Form::Text),
    own("imagePullPolicy", &[], &PULL_POLICY),
    own("privileged", &["capabilities", "securityContext"], &SECURITY),
];

pub(super) static PORT: Shape = Shape(&[&[
    field("name", &["name"], Form::Text),
    field("hostPort", &["hostPort"], Form::Number),
    field("containerPort", &["containerPort"], Form::Number).blank(Blank::Zero),
    field("protocol", &["protocol"], Form::Upper),
    field("hostIP", &["hostIP"], Form::Text),
]]);

static ENV: Shape = Shape(&[&[
    field("name", &["name"], Form::Text).twins(&["key"]),
    field("value", &["value"], Form::Text),
    field("valueFrom", &["valueFrom"], Form::Object(&VALUE_SOURCE)),
]]);

static VALUE_SOURCE: Shape =
    Shape(&[&[field("fieldPath", &["fieldRef"], Form::Present(&FIELD_SELECTOR)).also(&["fieldRef"])]]);

pub(super) static FIELD_SELECTOR: Shape =
    Shape(&[&[field("apiVersion", &["apiVersion"], Form::Text), field("fieldPath", &["fieldPath"], Form::Text)]]);

pub(super) static MOUNT: Shape = Shape(&[&[
    field("name", &["name"], Form::Text),
    field("mountPath", &["mountPath"], Form::Text).twins(&["path"]),
    field("readOnly", &["readOnly"], Form::Flag),
    ignored("mountType"),
]]);

static PROBE: Shape = Shape(&[
    HANDLER_FIELDS,
    &[
        field("initialDelaySeconds", &["initialDelaySeconds"], Form::Number),
        field("timeoutSeconds", &["timeoutSeconds"], Form::Number),
        // v0.2 and v0.3 repeated the name of the handler here.
        ignored("type"),
    ],
]);

static LIFECYCLE: Shape = Shape(&[&[
    field("postStart", &["postStart"], Form::Present(&HANDLER)),
    field("preStop", &["preStop"], Form::Present(&HANDLER)),
]]);

static HANDLER: Shape = Shape(&[HANDLER_FIELDS]);

const HANDLER_FIELDS: &[Field] = &[
    field("exec", &["exec"], Form::Present(&EXEC)),
    field("httpGet", &["httpGet"], Form::Present(&HTTP_GET)),
    field("tcpSocket", &["tcpSocket"], Form::Present(&TCP_SOCKET)),
];

pub(super) static EXEC: Shape = Shape(&[&[field("command", &["command"], Form::Texts)]]);

static HTTP_GET: Shape = Shape(&[&[
    field("path", &["path"], Form::Text),
    field("port", &["port"], Form::PortOrName),
    field("host", &["host"], Form::Text),
]]);

pub(super) static TCP_SOCKET: Shape = Shape(&[&[field("port", &["port"], Form::PortOrName)]]);

static PULL_POLICY: Own = Own {
    read: read_pull_policy,
    show: show_pull_policy,
    governs: &[&["imagePullPolicy"]],
    words: &[field("imagePullPolicy", &["imagePullPolicy"], Form::Text)],
    merge: None,
};

const PULL_POLICIES: Form =
    Form::Word(&[("PullAlways", "Always"), ("PullIfNotPresent", "IfNotPresent"), ("PullNever", "Never")]);

/// Unset, it follows from the image as v1beta1 had it; v1 would take an image without a tag for `latest`.
fn read_pull_policy(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let value = from.get("imagePullPolicy").filter(|value| !value.is_null());
    let said = value.and_then(|value| PULL_POLICIES.read(value, &path.field("imagePullPolicy"), seen));
    let implied = || {
        get_text(into, &["image"])
            .map(|image| json!(if image.ends_with(":latest") { "Always" } else { "IfNotPresent" }))
    };
    if let Some(policy) = said.or_else(implied) {
        put(into, &["imagePullPolicy"], policy);
    }
}

fn show_pull_policy(v1: &Object, out: &mut Object) {
    let shown = get(v1, &["imagePullPolicy"]).and_then(|policy| PULL_POLICIES.show(policy));
    out.insert("imagePullPolicy".to_owned(), shown.unwrap_or(json!("")));
}

/// `cpu` is a request and `memory` a limit; `resources`, of 2015, says both in full.
static RESOURCES: Own = Own {
    read: read_resources,
    show: show_resources,
    governs: &[LIMITS, REQUESTS],
    words: &[field("resources", &["resources"], Form::Amounts)],
    merge: Some(merge_resources),
};

const LIMITS: &[&str] = &["resources", "limits"];
const REQUESTS: &[&str] = &["resources", "requests"];
const CPU_LIMIT: &[&str] = &["resources", "limits", "cpu"];
const CPU_REQUEST: &[&str] = &["resources", "requests", "cpu"];
const MEMORY_LIMIT: &[&str] = &["resources", "limits", "memory"];

fn read_resources(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    match from.get("resources") {
        None | Some(Value::Null) => {}
        Some(Value::Object(resources)) => {
            let path = path.field("resources");
            for (name, value) in resources.iter().filter(|(_, value)| !value.is_null()) {
                let at = match name.as_str() {
                    "limits" => LIMITS,
                    "requests" => REQUESTS,
                    _ => {
                        seen.unknown(path.field(name));
                        continue;
                    }
                };
                if let Some(amounts) = read_amounts(value, &path.field(name), seen) {
                    put(into, at, amounts);
                }
            }
        }
        Some(other) => seen.mistyped(&path.field("resources"), other, "must be a map"),
    }
    let number = |name: &str, seen: &mut OldReading| {
        Form::Number.read(from.get(name).filter(|v| !v.is_null())?, &path.field(name), seen)?.as_i64()
    };
    if let Some(cpu) = number("cpu", seen) {
        read_cpu(cpu, into, &path.field("cpu"), seen);
    }
    if let Some(memory) = number("memory", seen) {
        match get(into, MEMORY_LIMIT).and_then(amount).map(Quantity::value) {
            None => put(into, MEMORY_LIMIT, json!(memory.to_string())),
            Some(limit) if limit == memory => {}
            Some(_) => seen.problem(Problem::invalid(
                &path.field("memory"),
                memory,
                "differs from resources.limits.memory: give one, or the same",
            )),
        }
    }
}

/// Clients of 2015 show a cpu limit in `cpu` too: beside a limit or a request, `cpu` must equal the limit or the
/// request.
fn read_cpu(cpu: i64, into: &mut Object, path: &Path, seen: &mut OldReading) {
    let is_cpu = |at: &[&str]| get(into, at).and_then(amount).map(|amount| amount.milli() == cpu);
    match (is_cpu(CPU_REQUEST), is_cpu(CPU_LIMIT)) {
        (None, None | Some(true)) => put(into, CPU_REQUEST, json!(Quantity::from_milli(cpu).to_string())),
        (Some(true), _) | (_, Some(true)) => {}
        _ => seen.problem(Problem::invalid(path, cpu, "differs from cpu in resources: give one, or the same")),
    }
}

fn show_resources(v1: &Object, out: &mut Object) {
    let mut resources = Object::new();
    for (name, at) in [("limits", LIMITS), ("requests", REQUESTS)] {
        let amounts = get(v1, at).and_then(show_amounts).filter(|amounts| !is_empty(amounts));
        resources.extend(amounts.map(|amounts| (name.to_owned(), amounts)));
    }
    out.insert("resources".to_owned(), Value::Object(resources));
    let milli = |at: &[&str]| get(v1, at).and_then(amount).map(Quantity::milli).filter(|milli| *milli != 0);
    // A limit goes before the request, because clients of 2015 take `cpu` for the limit.
    let cpu = milli(CPU_REQUEST).map(|request| milli(CPU_LIMIT).unwrap_or(request));
    out.extend(cpu.map(|cpu| ("cpu".to_owned(), json!(cpu))));
    let memory = get(v1, MEMORY_LIMIT).and_then(amount).map(Quantity::value).filter(|bytes| *bytes != 0);
    out.extend(memory.map(|memory| ("memory".to_owned(), json!(memory))));
}

fn merge_resources(stored: &mut Object, new: &Object) {
    let mut new = new.clone();
    let quantity = |object: &Object, at: &[&str]| get(object, at).and_then(amount);
    let (request, limit) = (quantity(&new, CPU_REQUEST), quantity(&new, CPU_LIMIT));
    if request.is_some() && request == limit {
        // Reading `cpu`, a client of 2015 makes a limit of it, and sends both back: that is no change.
        match (quantity(stored, CPU_REQUEST), quantity(stored, CPU_LIMIT)) {
            (was, None) if was == request => take(&mut new, CPU_LIMIT),
            (None, was) if was == limit => take(&mut new, CPU_REQUEST),
            _ => {}
        }
    }
    for at in [LIMITS, REQUESTS] {
        let Some(Value::Object(old)) = get(stored, at) else { continue };
        let mut same = Object::new();
        for (name, value) in get(&new, at).and_then(Value::as_object).into_iter().flatten() {
            let kept = old.get(name).filter(|old| show_amount(name, old) == show_amount(name, value));
            same.insert(name.clone(), kept.unwrap_or(value).clone());
        }
        if !same.is_empty() {
            put(&mut new, at, Value::Object(same));
        }
    }
    let (mut before, mut after) = (Object::new(), Object::new());
    show_resources(stored, &mut before);
    show_resources(&new, &mut after);
    if before != after {
        replace(&RESOURCES, stored, &new);
    }
}

/// v1beta1 has `privileged` and `capabilities` beside the container's name, and since v0.17 in `securityContext` too.
pub(super) static SECURITY: Own =
    Own { read: read_security, show: show_security, governs: &[], words: SECURITY_FIELDS, merge: Some(merge_security) };

static SECURITY_CONTEXT: Shape = Shape(&[SECURITY_FIELDS]);

const SECURITY_FIELDS: &[Field] = &[
    field("privileged", &["securityContext", "privileged"], Form::Flag),
    field("capabilities", &["securityContext", "capabilities"], Form::Object(&CAPABILITIES)),
    field("runAsUser", &["securityContext", "runAsUser"], Form::Count),
    field("seLinuxOptions", &["securityContext", "seLinuxOptions"], Form::Object(&SE_LINUX)),
];

static CAPABILITIES: Shape = Shape(&[&[field("add", &["add"], Form::Texts), field("drop", &["drop"], Form::Texts)]]);

static SE_LINUX: Shape = Shape(&[&[
    field("user", &["user"], Form::Text),
    field("role", &["role"], Form::Text),
    field("type", &["type"], Form::Text),
    field("level", &["level"], Form::Text),
]]);

/// The two that stand beside the name.
static BESIDE: Shape = Shape(&[&[
    field("privileged", &["securityContext", "privileged"], Form::Flag),
    field("capabilities", &["securityContext", "capabilities"], Form::Object(&CAPABILITIES)).blank(Blank::Map),
]]);

fn read_security(from: &Object, into: &mut Object, path: &Path, seen: &mut OldReading) {
    match from.get("securityContext") {
        None | Some(Value::Null) => {}
        Some(Value::Object(context)) => SECURITY_CONTEXT.read(context, into, &path.field("securityContext"), seen),
        Some(other) => seen.mistyped(&path.field("securityContext"), other, "must be a map"),
    }
    let beside: Object = ["privileged", "capabilities"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), from.get(*name)?.clone())))
        .collect();
    let mut found = Object::new();
    BESIDE.read(&beside, &mut found, path, seen);
    for (name, at) in
        [("privileged", &["securityContext", "privileged"]), ("capabilities", &["securityContext", "capabilities"])]
    {
        let Some(value) = get(&found, at) else { continue };
        match get(into, at) {
            Some(inner) if inner != value => {
                let detail = format!("differs from securityContext.{name}: give one, or the same");
                seen.problem(Problem::invalid(&path.field(name), brief(value), detail));
            }
            _ => put(into, at, value.clone()),
        }
    }
}

fn show_security(v1: &Object, out: &mut Object) {
    out.extend(BESIDE.show(v1));
    let context = SECURITY_CONTEXT.show(v1);
    if !context.is_empty() {
        out.insert("securityContext".to_owned(), Value::Object(context));
    }
}

fn merge_security(stored: &mut Object, new: &Object) {
    super::merge::merge(&SECURITY_CONTEXT, stored, new);
}
