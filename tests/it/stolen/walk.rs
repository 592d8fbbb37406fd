//! Every verb of every resource and subresource in every version, as discovery names them.

use super::scene::Scene;
use crate::tls::Asker;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A request of the walk.
pub struct Try {
    pub method: &'static str,
    pub path: String,
    pub body: String,
    /// The verb, the resource with its group, the subresource.
    what: String,
    whose: &'static str,
}

/// Every verb of every resource of every version, on objects of both nodes.
pub fn walk(scene: &Scene) -> Vec<Try> {
    let mut tries = Vec::new();
    let versions = scene.admin("GET", "/api", "").1;
    for version in versions["versions"].as_array().expect("versions") {
        let version = version.as_str().expect("a version");
        add(scene, ("", version), &format!("/api/{version}"), &mut tries);
    }
    let groups = scene.admin("GET", "/apis", "").1;
    for group in groups["groups"].as_array().expect("groups") {
        let name = group["name"].as_str().expect("a name");
        for version in group["versions"].as_array().expect("versions") {
            let version = version["version"].as_str().expect("a version");
            add(scene, (name, version), &format!("/apis/{name}/{version}"), &mut tries);
        }
    }
    assert!(tries.len() > 1000, "only {} requests", tries.len());
    tries
}

fn add(scene: &Scene, (group, version): (&str, &str), root: &str, tries: &mut Vec<Try>) {
    let list = scene.admin("GET", root, "").1;
    let is_old = ["v1beta1", "v1beta2"].contains(&version) && group.is_empty();
    for resource in list["resources"].as_array().unwrap_or_else(|| panic!("{root}: {list}")) {
        let name = resource["name"].as_str().expect("a name");
        let (plural, part) = name.split_once('/').unwrap_or((name, ""));
        // The words of 2014.
        let known = match plural.to_lowercase().as_str() {
            "minions" => "nodes".to_owned(),
            known => known.to_owned(),
        };
        let noun = if group.is_empty() { known.clone() } else { format!("{known}.{group}") };
        let noun = if part.is_empty() { noun } else { format!("{noun}/{part}") };
        let of_nodes = ["nodes", "leases", "csinodes"].contains(&&*known);
        let namespace = if known == "leases" { "kube-node-lease" } else { "default" };
        let is_namespaced = resource["namespaced"] == true;
        let all = match is_namespaced && !is_old {
            true => format!("{root}/namespaces/{namespace}/{plural}"),
            false => format!("{root}/{plural}"),
        };
        let query = if is_old { "namespace=default&" } else { "" };
        for (whose, of_node) in [("own", "n"), ("theirs", "m")] {
            let object = if of_nodes { of_node } else { whose };
            let object = if known == "namespaces" && whose == "own" { "default" } else { object };
            let one = if part.is_empty() { format!("{all}/{object}") } else { format!("{all}/{object}/{part}") };
            let said = |field: &str| resource[field].as_str();
            let of = (said("group").unwrap_or(group), said("version").unwrap_or(version));
            let body = body(scene, of, said("kind").unwrap_or_default(), &one, object);
            let collection = if part.is_empty() { &all } else { &one };
            let alone = format!("fieldSelector=metadata.name%3D{object}");
            for (verb, method, path) in [
                ("get", "GET", format!("{one}?{query}")),
                ("list", "GET", format!("{all}?{query}")),
                ("watch", "GET", format!("{all}?{query}watch=1")),
                ("list one", "GET", format!("{all}?{query}{alone}")),
                ("watch one", "GET", format!("{all}?{query}{alone}&watch=1")),
                ("create", "POST", format!("{collection}?{query}dryRun=All")),
                ("update", "PUT", format!("{one}?{query}dryRun=All")),
                ("patch", "PATCH", format!("{one}?{query}dryRun=All")),
                ("delete", "DELETE", format!("{one}?{query}dryRun=All")),
                ("deletecollection", "DELETE", format!("{all}?{query}dryRun=All")),
            ] {
                let known = verb.trim_end_matches(" one");
                let of_all = ["list", "watch", "deletecollection"].contains(&known);
                let has = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|has| has == known));
                // Of what is not whole, also what no verb names: connections into pods and nodes.
                if (has || (!part.is_empty() && !of_all)) && !(of_all && !part.is_empty()) {
                    let body = if ["GET", "DELETE"].contains(&method) { String::new() } else { body.clone() };
                    tries.push(Try { method, path, body, what: format!("{verb} {noun}"), whose });
                }
            }
        }
    }
}

/// The object as it is, or the beginning of one.
fn body(scene: &Scene, (group, version): (&str, &str), kind: &str, path: &str, name: &str) -> String {
    // A connection into a pod is not made for this.
    let connects = ["exec", "attach", "portforward", "proxy", "log"].iter().any(|part| path.ends_with(part));
    let (code, found) = if connects { (0, Value::Null) } else { scene.admin("GET", path, "") };
    if code == 200 && found.is_object() {
        return found.to_string();
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"apiVersion": version, "kind": kind, "id": name, "metadata": {"name": name}}).to_string()
}

/// What of the walk is not refused, as the lists have it.
pub fn allowed(asker: &mut Asker, tries: &[Try]) -> BTreeSet<String> {
    let mut may: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in tries {
        let code = match one.what.starts_with("watch ") {
            true => asker.open(&one.path).0,
            false => asker.ask(one.method, &one.path, &one.body).0,
        };
        if ![401, 403].contains(&code) {
            may.entry(&one.what).or_default().insert(one.whose);
        }
    }
    may.into_iter()
        .map(|(what, whose)| match whose.len() {
            2 => what.to_owned(),
            _ => format!("{what} {}", whose.first().expect("one")),
        })
        .collect()
}
