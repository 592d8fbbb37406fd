//! A Compose file -> manifests for a directory, and a remark for each thing that has no counterpart. PURE.
//!
//!     text, variables -> interpolate -> services -> service: a workload and a Service each
//!                                    -> volumes: a claim each · secrets, configs: objects made of files
//!
//! The reader of a file is somebody who runs `docker compose up` today: a remark says what to do instead.

mod desk;
mod duration;
mod healthcheck;
mod host;
mod mounts;
mod ports;
mod service;
mod values;
mod variables;

use coracle_schema::yaml;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

use desk::Desk;
pub use desk::Surroundings;
pub use variables::Variables;

/// Services of one file.
const SERVICES_MAX: usize = 200;
/// The room that a volume of a Compose file asks for: Compose names none, and this host does not count it.
const VOLUME_SIZE: &str = "1Gi";

/// The keys of a Compose file that mean nothing beside its services, volumes, secrets and configs.
const SILENT: [&str; 2] = ["version", "name"];

/// Manifests by the name of their file, without its ending.
#[derive(Debug, Default)]
pub struct Imported {
    pub files: Vec<(String, Vec<Value>)>,
    pub remarks: Vec<String>,
}

impl Imported {
    /// The text of a file: YAML documents.
    pub fn text(documents: &[Value]) -> String {
        documents.iter().map(yaml::write).collect::<Vec<_>>().join("---\n")
    }
}

/// Whether a document is a Compose file: it has services, and no kind.
pub fn is_compose(document: &Value) -> bool {
    document["services"].is_object() && document.get("kind").is_none() && document.get("containers").is_none()
}

/// Converts a Compose file. `Err`: nothing can be made of it.
pub fn import(text: &str, around: &Surroundings<'_>) -> Result<Imported, String> {
    let (mut document, twice) = yaml::read_compose(text)?;
    if let Some(path) = twice.first() {
        return Err(format!("{path} stands there twice"));
    }
    if !is_compose(&document) {
        return Err("this is no Compose file: it has no services".to_owned());
    }
    let mut desk = Desk { around, remarks: Vec::new(), used: BTreeSet::new(), given: BTreeMap::new() };
    desk.remarks.extend(variables::fill(&mut document, around.variables)?);
    for key in document.as_object().into_iter().flatten().map(|(key, _)| key) {
        let known = ["services", "volumes", "networks", "secrets", "configs"];
        if !known.contains(&key.as_str()) && !SILENT.contains(&key.as_str()) && !key.starts_with("x-") {
            desk.remarks.push(format!("{key}: it has no counterpart here"));
        }
    }
    let services = document["services"].as_object().cloned().unwrap_or_default();
    if services.len() > SERVICES_MAX {
        return Err(format!("{} services: at most {SERVICES_MAX} are taken", services.len()));
    }
    given_files(&mut desk, &document);
    networks(&mut desk, &document["networks"]);
    let mut imported = Imported::default();
    for (name, of) in &services {
        if let Some(objects) = service::convert(&mut desk, name, of, &document)? {
            imported.files.push((values::label(name), objects));
        }
    }
    let shared = shared(&mut desk, &document);
    if !shared.is_empty() {
        imported.files.insert(0, (format!("{}-shared", values::label(&around.project)), shared));
    }
    imported.remarks = desk.remarks;
    Ok(imported)
}

/// The claims of named volumes, and the objects of secrets and configs.
fn shared(desk: &mut Desk<'_>, document: &Value) -> Vec<Value> {
    let used: Vec<String> = desk.used.iter().cloned().collect();
    let mut objects: Vec<Value> = Vec::new();
    for name in used {
        let of = &document["volumes"][&name];
        let at = format!("volumes.{name}");
        if document["volumes"].get(&name).is_none() {
            desk.remark(&at, "services use it, and the file does not declare it: a claim is made for it");
        }
        if values::truth(&of["external"]) {
            desk.remark(&at, "its data are outside of the file: copy them to the directory of the claim");
        } else if of.get("driver").is_some_and(|driver| driver != "local") || of.get("driver_opts").is_some() {
            desk.remark(&at, "drivers have no counterpart: the claim is a directory of this host");
        }
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": values::label(&name)},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": VOLUME_SIZE}}},
        }));
    }
    if !objects.is_empty() {
        desk.remarks.push(format!(
            "volumes: their data are not copied: `docker volume inspect {}_NAME` names the directory of a volume",
            desk.around.project
        ));
    }
    objects.extend(desk.given.values().cloned());
    objects
}

/// Secrets and configs become objects of their files' texts.
fn given_files(desk: &mut Desk<'_>, document: &Value) {
    for (list, kind) in [("secrets", "Secret"), ("configs", "ConfigMap")] {
        let all: Map<String, Value> = document[list].as_object().cloned().unwrap_or_default();
        for (name, of) in &all {
            let at = format!("{list}.{name}");
            let text = match (of["file"].as_str(), of["environment"].as_str(), of["content"].as_str()) {
                (Some(path), _, _) => (desk.around.read)(path),
                (_, Some(variable), _) => {
                    desk.around.variables.get(variable).ok_or_else(|| format!("there is no variable {variable}"))
                }
                (_, _, Some(text)) => Ok(text.to_owned()),
                _ => Err("it is outside of the file".to_owned()),
            };
            match text {
                Ok(text) => {
                    let field = if kind == "Secret" { "stringData" } else { "data" };
                    let object = json!({
                        "apiVersion": "v1", "kind": kind, "metadata": {"name": values::label(name)},
                        field: {values::file_key(name): text},
                    });
                    desk.given.insert((list, name.clone()), object);
                }
                Err(why) => desk.remark(&at, format!("{why}: make a {kind} {} by hand", values::label(name))),
            }
        }
    }
}

/// All pods of a host reach each other.
fn networks(desk: &mut Desk<'_>, networks: &Value) {
    for (name, of) in networks.as_object().into_iter().flatten() {
        let at = format!("networks.{name}");
        if of["driver"].as_str().is_some_and(|driver| ["macvlan", "ipvlan"].contains(&driver)) {
            desk.remark(&at, "pods have no interface on the host's network: hostPort or hostNetwork reach it");
        } else if values::truth(&of["internal"]) {
            desk.remark(&at, "pods of this network may reach the outside, which `internal` forbade");
        }
    }
    if networks.as_object().is_some_and(|networks| networks.len() > 1) {
        desk.remarks.push("networks: all pods of a host reach each other: the networks separate nothing".to_owned());
    }
}

#[cfg(test)]
mod tests;
