//! The flow schemas and priority levels of a cluster. PURE.
//!
//! Those of every cluster, as Kubernetes makes them at its start, are no objects here: a stored object of the same name
//! takes the place of one. Of `exempt` and `catch-all` Kubernetes lets nobody change the meaning.

use super::schema::FlowSchema;
use super::seats::PriorityLevel;
use crate::authorize::Attributes;
use crate::store::{Page, Stored};
use coracle_http::Identity;
use serde_json::Value;
use std::collections::BTreeMap;

const BOOTSTRAP: &str = include_str!("bootstrap.json");
const FIXED: [&str; 2] = [EXEMPT, CATCH_ALL];
const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

pub(super) struct FlowTable {
    /// In the order in which they are asked.
    schemas: Vec<FlowSchema>,
    pub(super) levels: BTreeMap<String, PriorityLevel>,
}

/// An object by name: its uid and spec.
type Objects = BTreeMap<String, (String, Value)>;

impl FlowTable {
    pub(super) fn of(schemas: &Page, levels: &Page) -> FlowTable {
        FlowTable::from(stored(schemas), stored(levels))
    }

    fn from(schemas: Objects, levels: Objects) -> FlowTable {
        let bootstrap: Value = serde_json::from_str(BOOTSTRAP).unwrap_or_default();
        let levels = merged(&bootstrap["levels"], levels);
        let levels: BTreeMap<String, PriorityLevel> =
            levels.iter().map(|(name, (uid, spec))| (name.clone(), PriorityLevel::read(name, uid, spec))).collect();
        let schemas = merged(&bootstrap["schemas"], schemas);
        let read = schemas.iter().map(|(name, (uid, spec))| FlowSchema::read(name, uid, spec));
        // What names no level that is there counts for nothing.
        let mut schemas: Vec<FlowSchema> = read.filter(|schema| levels.contains_key(&*schema.level)).collect();
        schemas.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
        FlowTable { schemas, levels }
    }

    /// The uids of the flow schema `exempt` and of the priority level `exempt`.
    pub(super) fn exempt(&self) -> (String, String) {
        let schema = self.schemas.iter().find(|schema| schema.name == EXEMPT).map(|schema| schema.uid.clone());
        let level = self.levels.get(EXEMPT).map(|level| level.uid.clone());
        (schema.unwrap_or_default(), level.unwrap_or_default())
    }

    /// The first schema that matches; the last matches everybody who is somebody, or nobody.
    pub(super) fn of_request(&self, attributes: &Attributes, identity: &Identity) -> (&FlowSchema, &PriorityLevel) {
        let first = self.schemas.iter().find(|schema| schema.matches(attributes, identity));
        let last = || self.schemas.iter().find(|schema| schema.name == CATCH_ALL);
        let schema = first.or_else(last).expect("catch-all is always there");
        (schema, &self.levels[&*schema.level])
    }
}

fn merged(bootstrap: &Value, stored: Objects) -> Objects {
    let mut all: Objects = BTreeMap::new();
    for object in bootstrap.as_array().into_iter().flatten() {
        let name = object["name"].as_str().unwrap_or_default();
        all.insert(name.to_owned(), (String::new(), object["spec"].clone()));
    }
    for (name, (uid, spec)) in stored {
        match all.get_mut(&name) {
            Some(fixed) if FIXED.contains(&&*name) => fixed.0 = uid,
            _ => drop(all.insert(name, (uid, spec))),
        }
    }
    all
}

fn stored(page: &Page) -> Objects {
    let read = |stored: &Stored| {
        let object: Value = serde_json::from_slice(&stored.json).ok()?;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Some((stored.key.name.clone(), (uid, object["spec"].clone())))
    };
    page.items.iter().filter_map(|stored| read(stored)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;
    use serde_json::json;

    fn attributes(text: &str) -> Attributes {
        let (verb, rest) = text.split_once(' ').expect("a verb");
        if rest.starts_with('/') {
            return Attributes::Path { verb: verb.to_owned(), path: rest.to_owned() };
        }
        let (namespace, rest) = rest.split_once(':').unwrap_or(("", rest));
        let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let resource = Resource { group: group.to_owned().into(), plural: plural.to_owned().into() };
        Attributes::resource(verb, &resource, subresource, (namespace, ""))
    }

    fn identity(user: &str) -> Identity {
        let mut groups = vec!["system:authenticated"];
        match user {
            "" => groups = vec!["system:unauthenticated"],
            "root" => groups.push("system:masters"),
            "stranger" => groups = Vec::new(),
            user if user.starts_with("system:node:") => groups.push("system:nodes"),
            user if user.starts_with("system:serviceaccount:kube-system:") => {
                groups.extend(["system:serviceaccounts", "system:serviceaccounts:kube-system"]);
            }
            user if user.starts_with("system:serviceaccount:") => groups.push("system:serviceaccounts"),
            _ => {}
        }
        let groups = groups.into_iter().map(str::to_owned).collect();
        Identity { user: user.to_owned(), groups, ..Identity::none() }
    }

    #[test]
    fn requests_go_where_kubernetes_sends_them() {
        let table = FlowTable::from(Objects::new(), Objects::new());
        for (what, user, schema, level) in [
            ("list pods", "root", "exempt", "exempt"),
            ("get /healthz", "", "probes", "exempt"),
            ("get /version", "", "global-default", "global-default"),
            ("list a:pods", "ann", "global-default", "global-default"),
            ("list a:pods", "stranger", "catch-all", "catch-all"),
            ("list pods", "ann", "global-default", "global-default"),
            ("update a:nodes/status", "system:node:n", "system-node-high", "node-high"),
            ("update nodes/status", "system:node:n", "system-node-high", "node-high"),
            ("update kube-node-lease:leases.coordination.k8s.io", "system:node:n", "system-node-high", "node-high"),
            ("list pods", "system:node:n", "system-nodes", "system"),
            ("list pods", "system:kube-scheduler", "kube-scheduler", "workload-high"),
            (
                "update kube-system:leases.coordination.k8s.io",
                "system:kube-scheduler",
                "system-leader-election",
                "leader-election",
            ),
            ("list pods", "system:serviceaccount:kube-system:x", "kube-system-service-accounts", "workload-high"),
            ("list pods", "system:serviceaccount:a:x", "service-accounts", "workload-low"),
        ] {
            let (attributes, identity) = (attributes(what), identity(user));
            let (found, of) = table.of_request(&attributes, &identity);
            assert_eq!((&*found.name, &*of.name), (schema, level), "{what} {user}");
        }
    }

    #[test]
    fn stored_objects_count() {
        let schema = |precedence: i64, level: &str, subject: Value, rule: Value| {
            let mut spec = json!({"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}});
            spec["rules"] = json!([{"subjects": [subject], "resourceRules": [rule]}]);
            ("u".to_owned(), spec)
        };
        let level = ("v".to_owned(), json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 7}}));
        let group = json!({"kind": "Group", "group": {"name": "*"}});
        let account =
            |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": name}});
        let rule = |namespaces: Value, of_cluster: bool| {
            json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": namespaces,
                "clusterScope": of_cluster})
        };
        let schemas = Objects::from([
            ("dangling".to_owned(), schema(10, "nowhere", group.clone(), rule(json!(["*"]), true))),
            ("robots".to_owned(), schema(20, "mine", account("*"), rule(json!(["a"]), false))),
            ("all".to_owned(), schema(30, "mine", group.clone(), rule(json!([]), true))),
            ("catch-all".to_owned(), schema(1, "mine", group, rule(json!(["*"]), true))),
        ]);
        let table = FlowTable::from(schemas, Objects::from([("mine".to_owned(), level)]));
        assert_eq!(table.levels["mine"].shares, 7);
        for (what, user, schema) in [
            ("list a:pods", "system:serviceaccount:a:x", "robots"),
            ("list a:pods/log", "system:serviceaccount:a:x", "robots"),
            ("list a:pods/status", "system:serviceaccount:a:x", "service-accounts"),
            ("list b:pods", "system:serviceaccount:a:x", "service-accounts"),
            ("list a:pods", "system:serviceaccount:b:x", "service-accounts"),
            ("list pods", "ann", "all"),
            ("list a:pods", "ann", "global-default"),
            ("get pods", "ann", "global-default"),
        ] {
            let (attributes, identity) = (attributes(what), identity(user));
            assert_eq!(table.of_request(&attributes, &identity).0.name, schema, "{what} {user}");
        }
        let last = table.schemas.last().expect("one");
        assert_eq!((&*last.name, &*last.uid, &*last.level), ("catch-all", "u", "catch-all"));
    }
}
