//! One document of a file -> what it asks this host for, by its kind. PURE.

use std::collections::BTreeSet;

use coracle_api::old::{Format, decode_any};
use coracle_api::strategy::{
    BuiltinStrategy, CLAIM, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, Making, POD, REPLICA_SET, Rules, SECRET, SERVICE,
    STATEFUL_SET,
};
use coracle_api::types;
use coracle_keeper::nearest::nearest;
use serde_json::{Value, json};

use super::strict::Seen;
use super::text::{Document, Room, weight};
use super::{Given, NAMESPACE, Origin, told};
use crate::desired::file_services::asked;
use crate::desired::workload::{self, Workload};
use crate::facts::hash::hash_text;

/// The kinds that files may have, and the version of each.
pub(super) const KINDS: &[(&str, &str)] = &[
    ("Pod", "v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Service", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("Deployment", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
];

/// The kind that needs a master, and that people write with old versions.
const CRON_JOB: (&str, &str) = ("CronJob", "batch/v1");

/// Kinds of the API that files of this directory do not have.
const ELSEWHERE: &[&str] = &[
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CronJob",
    "CustomResourceDefinition",
    "Endpoints",
    "EndpointSlice",
    "HorizontalPodAutoscaler",
    "Ingress",
    "IngressClass",
    "LimitRange",
    "MutatingWebhookConfiguration",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolume",
    "PodDisruptionBudget",
    "PodTemplate",
    "PriorityClass",
    "ReplicationController",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "ServiceAccount",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// What an object asks for. A kind that is new here has an arm of its own, and a row in `KINDS`.
pub(super) fn given(
    document: &Document<'_>,
    origin: Origin<'_>,
    room: &mut Room,
    seen: &mut Seen,
) -> Result<Given, String> {
    let document = &document.value;
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if let Some(workload) = Workload::of(api_version, kind) {
        return of_workload(workload, document, origin, room, seen);
    }
    match (api_version, kind) {
        ("v1", "ConfigMap") => Ok(of_object(object(document, kind, &CONFIG_MAP, origin, seen)?)),
        ("v1", "Secret") => Ok(of_object(object(document, kind, &SECRET, origin, seen)?)),
        ("v1", "Service") => {
            let whole = object(&asked::prepared(document), kind, &SERVICE, origin, seen);
            asked::refused(document)?;
            Ok(of_object(asked::finished(whole?, document)))
        }
        ("v1", "PersistentVolumeClaim") => {
            let whole = object(document, kind, &CLAIM, origin, seen)?;
            let metadata = &whole["metadata"];
            Ok(of_object(workload::claim(&metadata["namespace"], &metadata["name"], &metadata["annotations"])))
        }
        ("batch/v1", "CronJob") => {
            Err("kind CronJob: a CronJob is for a master: put it into /etc/coracle/apply, or `kubectl apply -f` it"
                .to_owned())
        }
        _ => match misnamed(api_version, kind).or_else(|| elsewhere(document, kind)) {
            Some(why) => Err(why),
            None => Ok(Given { pods: vec![pod(document, origin, seen)?], ..Given::default() }),
        },
    }
}

fn of_object(object: Value) -> Given {
    Given { objects: vec![object], ..Given::default() }
}

/// The pods of a workload, and its claims.
fn of_workload(
    workload: Workload,
    document: &Value,
    origin: Origin<'_>,
    room: &mut Room,
    seen: &mut Seen,
) -> Result<Given, String> {
    let strategy = match workload {
        Workload::Deployment => &DEPLOYMENT,
        Workload::ReplicaSet => &REPLICA_SET,
        Workload::StatefulSet => &STATEFUL_SET,
        Workload::DaemonSet => &DAEMON_SET,
        Workload::Job => &JOB,
    };
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let type_name = format!("{}.{}", text("apiVersion").replace('/', "."), text("kind"));
    let whole = object(document, &type_name, strategy, origin, seen)?;
    room.take(workload::count(workload, &whole)?.saturating_mul(weight(&whole["spec"])))?;
    let (pods, claims) = workload::pods(workload, &whole)?;
    let namespace = &whole["metadata"]["namespace"];
    let claim = |name: &String| workload::claim(namespace, &json!(name), workload::notes_of(&whole, name));
    let objects = claims.iter().map(claim).collect();
    let pods = pods.iter().map(|document| pod(document, origin, &mut Seen::default())).collect::<Result<_, _>>()?;
    Ok(Given { pods, objects })
}

/// Kind, namespace and name of an object, as far as they stand there. The error: it cannot be told which object is
/// meant.
pub(super) fn identity(document: &Value, file_name: &str) -> Result<(String, String, String), String> {
    let refused = || decode_any(document).err().map_or_else(|| "it is no object".to_owned(), |why| why.to_string());
    if !document.is_object() {
        return Err(refused());
    }
    let kind = match &document["kind"] {
        Value::String(kind) if !["", "Pod", "ContainerManifest"].contains(&kind.as_str()) => named(document, kind)?,
        Value::Null | Value::String(_) => match decode_any(document) {
            // Nothing says that it is a pod.
            Err(why) if document["kind"] != "Pod" && !is_versioned(document) => return Err(why.to_string()),
            _ => "Pod".to_owned(),
        },
        _ => return Err("kind: it must be a text".to_owned()),
    };
    let meta = &document["metadata"];
    let text = |field: &str| match &meta[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("metadata.{field}: it must be a text; a text that looks like something else needs quotes")),
    };
    let own = [text("name")?, text("generateName")?, document["id"].as_str().unwrap_or_default().to_owned()];
    let name = own.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| name_of_file(file_name));
    let namespace = Some(text("namespace")?).filter(|namespace| !namespace.is_empty());
    Ok((kind, namespace.unwrap_or_else(|| NAMESPACE.to_owned()), name))
}

/// A kind as it stands there, if no other one is meant.
fn named(document: &Value, kind: &str) -> Result<String, String> {
    let known = || KINDS.iter().map(|(name, _)| *name).chain(ELSEWHERE.iter().copied());
    if known().any(|name| name == kind) {
        return Ok(kind.to_owned());
    }
    let api_version = document["apiVersion"].as_str().unwrap_or_default();
    let near = || nearest(kind, known()).map(|near| format!("kind: Unsupported value: {kind:?}: did you mean {near}?"));
    misnamed(api_version, kind).or_else(near).map_or_else(|| Ok(kind.to_owned()), Err)
}

/// Whether a document without a kind says that it is a pod.
fn is_versioned(document: &Value) -> bool {
    let of_2014 = ["v1beta1", "v1beta2"].iter().any(|version| document["version"] == *version);
    of_2014 || document["apiVersion"].is_string()
}

/// What to write instead of a kind in small letters, and instead of a version that the kind does not have.
fn misnamed(api_version: &str, kind: &str) -> Option<String> {
    let singular = |word: &str| kind.eq_ignore_ascii_case(word) || kind.eq_ignore_ascii_case(&format!("{word}s"));
    let (name, version) = *KINDS.iter().chain([&CRON_JOB]).find(|(name, _)| singular(name))?;
    if kind != name {
        return Some(format!("kind: Unsupported value: {kind:?}: did you mean {name}?"));
    }
    if name == "Pod" || api_version == version {
        return None;
    }
    let selector = if version == "apps/v1" { ", with a spec.selector that fits its template" } else { "" };
    let write = format!("a {name} starts with apiVersion: {version}{selector}");
    Some(match api_version {
        "" => format!("apiVersion: Required value: {write}"),
        other => format!("apiVersion: Unsupported value: {other:?}: {write}"),
    })
}

/// Where an object of another kind belongs.
fn elsewhere(document: &Value, kind: &str) -> Option<String> {
    if document["kind"].is_null() || ["", "Pod", "ContainerManifest"].contains(&kind) {
        return None;
    }
    let taken: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    Some(format!(
        "kind {kind}: this directory takes {}; with a master put it into /etc/coracle/apply, or `kubectl apply -f` it",
        taken.join(", ")
    ))
}

fn pod(document: &Value, origin: Origin<'_>, seen: &mut Seen) -> Result<Value, String> {
    let decoded = decode_any(document).map_err(|refused| refused.to_string())?;
    seen.old_form = decoded.format != Format::PodV1;
    seen.unknown.extend(decoded.unknown.iter().map(|path| path.as_str().to_owned()));
    let mut pod = decoded.pod;
    identify(&mut pod, document.get("uuid"), origin.file_name, origin.node_name);
    let rules = Rules { old_names: seen.old_form, ..Rules::default() };
    complete(&mut pod, ("Pod", &POD), rules, origin, seen)?;
    Ok(pod)
}

pub(super) fn object(
    document: &Value,
    type_name: &str,
    strategy: &BuiltinStrategy,
    origin: Origin<'_>,
    seen: &mut Seen,
) -> Result<Value, String> {
    let mut object = document.clone();
    identify(&mut object, None, origin.file_name, origin.node_name);
    complete(&mut object, (type_name, strategy), Rules::default(), origin, seen)?;
    Ok(object)
}

/// Sets defaults and checks the object. Fields that its type does not have are left out, and noted.
fn complete(
    object: &mut Value,
    (type_name, strategy): (&str, &BuiltinStrategy),
    rules: Rules,
    origin: Origin<'_>,
    seen: &mut Seen,
) -> Result<(), String> {
    let types = types::builtin();
    let shaped = coracle_schema::decode(&types, type_name, object);
    seen.type_name = type_name.to_owned();
    seen.unknown.extend(shaped.unknown.iter().map(|path| path.as_str().to_owned()));
    if !shaped.faults.is_empty() {
        let faults = shaped.faults.iter().map(|fault| explain(fault.path.as_str(), &fault.message));
        return Err(told(faults.collect()).join("; "));
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut making = Making {
        now: origin.written,
        uid,
        suffix: &mut || hash_text(origin.file_name)[..5].to_owned(),
        service_address: &mut || Some(asked::PLACEHOLDER),
        node_port: &mut || None,
    };
    coracle_schema::default(&types, type_name, object);
    (strategy.create)(object, &mut making);
    coracle_schema::default(&types, type_name, object);
    let mut problems = coracle_schema::check(&types, type_name, object);
    let mut known: BTreeSet<String> = problems.iter().map(|problem| problem.path.as_str().to_owned()).collect();
    let more = (strategy.validate)(object, rules);
    problems.extend(more.into_iter().filter(|problem| known.insert(problem.path.as_str().to_owned())));
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        return Err(told(problems).join("; "));
    }
    // What only a server says is not the file's to say.
    if let Value::Object(object) = object {
        object.remove("status");
    }
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.remove("generation");
    }
    Ok(())
}

/// `y`, `on` and `1.10` are no texts in YAML: the usual mistake, and how to mend it.
fn explain(path: &str, message: &str) -> String {
    let message = message.trim_start_matches("json: ");
    let hint =
        if message.ends_with("of type string") { "; a text that looks like something else needs quotes" } else { "" };
    format!("{path}: {message}{hint}")
}

/// Name and namespace, where they are missing, and the uid: the same for every edit of a pod on this node.
fn identify(pod: &mut Value, uuid: Option<&Value>, file_name: &str, node_name: &str) {
    if !pod["metadata"].is_object() {
        pod["metadata"] = json!({});
    }
    let meta = &mut pod["metadata"];
    let empty = |value: &Value| value.is_null() || value == "";
    if empty(&meta["name"]) && empty(&meta["generateName"]) {
        meta["name"] = name_of_file(file_name).into();
    }
    if empty(&meta["namespace"]) {
        meta["namespace"] = NAMESPACE.into();
    }
    let own = [uuid, meta.get("uid")].into_iter().flatten().find_map(|uid| uid.as_str().filter(|uid| !uid.is_empty()));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let derived = || derived_uid(node_name, &text(&meta["namespace"]), &text(&meta["name"]));
    meta["uid"] = own.map_or_else(derived, str::to_owned).into();
}

/// `Web Server.yaml` -> `web-server`
pub(super) fn name_of_file(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { format!("pod-{}", &hash_text(file_name)[..8]) } else { name.to_owned() }
}

/// The uid of a pod whose file has none.
pub(in crate::desired) fn derived_uid(node_name: &str, namespace: &str, name: &str) -> String {
    let hex = hash_text(&format!("{node_name}/{namespace}/{name}"));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
