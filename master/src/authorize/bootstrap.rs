//! The roles and bindings of every cluster, and how they are brought together with what people made of them. PURE.
//!
//! `bootstrap.txt` says them as the server of Kubernetes 1.36 makes them:
//!
//!     ClusterRole NAME                        a line a role, its rules below it
//!       joins ROLE                            ROLE gathers its rules
//!       gathers ROLE                          it gathers the rules of those that join ROLE
//!       VERBS GROUPS RESOURCES [NAMES]        a rule; `-` is the core group
//!       VERBS PATHS
//!     Role NAMESPACE/NAME
//!     ClusterRoleBinding NAME = KIND ROLE     a line a binding, its subjects below it
//!       KIND NAME                             or ServiceAccount NAMESPACE NAME
//!
//! `coracle:node` is not of Kubernetes: what an agent does beside a kubelet, for the group of coracle's own agents.
//!
//!     nodes               the agent hears by a watch of each former name of its node when that node has gone
//!     namespaces          the uid of kube-system tells one cluster from another
//!     persistentvolumes   the agent removes directories of local volumes that are given up, and then its finalizer;
//!                         NodeRestriction lets it change volumes of its own node alone
//!     endpointslices      the agent balances services as kube-proxy does (services themselves any node may read)

use super::aggregate::gathered;
use super::rule::{Rule, uncovered};
use coracle_api::labels::LabelSet;
use coracle_api::meta::Resource;
use serde_json::{Value, json};

const TABLE: &str = include_str!("bootstrap.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
/// The annotation by which people keep a role as it is.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const JOINS: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// An object of every cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapObject {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub object: Value,
}

/// What becomes of a stored object.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// The stored object has every rule of the expected object, or is annotated against changes.
    Same,
    Changed(Value),
    /// It binds another role, which no update may change.
    Replaced,
}

/// The resources of all objects.
pub fn resources() -> [Resource; 4] {
    super::rbac::resources()
}

pub fn cluster_roles() -> Resource {
    let [_, of_cluster, _, _] = resources();
    of_cluster
}

/// The resources of bindings.
pub fn bindings() -> [Resource; 2] {
    let [_, _, bindings, of_cluster] = resources();
    [bindings, of_cluster]
}

/// All objects, roles first.
pub fn objects() -> Vec<BootstrapObject> {
    let mut all: Vec<BootstrapObject> = Vec::new();
    for line in TABLE.lines() {
        match line.strip_prefix("  ") {
            None => all.push(head(line)),
            Some(line) => {
                if let Some(last) = all.last_mut() {
                    add(&mut last.object, line);
                }
            }
        }
    }
    gather(&mut all);
    all
}

fn head(line: &str) -> BootstrapObject {
    let (line, role) = line.split_once(" = ").unwrap_or((line, ""));
    let (kind, name) = line.split_once(' ').unwrap_or((line, ""));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut object = json!({"metadata": {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTO_UPDATE: "true"},
    }});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    if let Some((kind, role)) = role.split_once(' ') {
        object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": role});
    }
    let resource = Resource { group: GROUP.into(), plural: format!("{}s", kind.to_lowercase()).into() };
    BootstrapObject { resource, namespace: namespace.to_owned(), name: name.to_owned(), object }
}

fn add(object: &mut Value, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let text = |text: &str| if text == "-" { String::new() } else { text.to_owned() };
    let texts = |word: &str| word.split(',').map(text).collect::<Vec<_>>();
    match *words {
        ["joins", role] => object["metadata"]["labels"][format!("{JOINS}{role}")] = "true".into(),
        ["gathers", role] => {
            let selector = json!({"matchLabels": {format!("{JOINS}{role}"): "true"}});
            object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        }
        [kind, name] if object["roleRef"].is_object() => {
            push(object, "subjects", json!({"kind": kind, "apiGroup": GROUP, "name": name}));
        }
        [kind, namespace, name] if object["roleRef"].is_object() => {
            push(object, "subjects", json!({"kind": kind, "name": name, "namespace": namespace}));
        }
        [verbs, paths] => push(object, "rules", json!({"verbs": texts(verbs), "nonResourceURLs": texts(paths)})),
        [verbs, groups, resources, ref names @ ..] => {
            let mut rule = json!({"verbs": texts(verbs), "apiGroups": texts(groups), "resources": texts(resources)});
            if let [names] = names {
                rule["resourceNames"] = json!(texts(names));
            }
            push(object, "rules", rule);
        }
        _ => {}
    }
}

fn push(object: &mut Value, field: &str, item: Value) {
    match object[field].as_array_mut() {
        Some(items) => items.push(item),
        None => object[field] = json!([item]),
    }
}

/// Roles that gather have their rules from the beginning. A role may gather one that gathers.
fn gather(all: &mut [BootstrapObject]) {
    let labels = |object: &Value| {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect::<LabelSet>()
    };
    loop {
        let roles: Vec<BootstrapObject> =
            all.iter().filter(|one| one.resource.plural == "clusterroles").cloned().collect();
        let sets: Vec<LabelSet> = roles.iter().map(|role| labels(&role.object)).collect();
        let mut changed = false;
        for one in all.iter_mut() {
            let others = roles.iter().zip(&sets).map(|(role, labels)| (&*role.name, labels, || role.object.clone()));
            let Some(rules) = gathered(&one.name, &one.object, others) else { continue };
            let rules = Value::Array(rules);
            if one.object["rules"] != rules {
                one.object["rules"] = rules;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// What is missing in a stored object is added, and nothing is taken away. `AUTO_UPDATE` "false": nothing is changed.
pub fn reconcile(expected: &Value, stored: &Value) -> Reconciled {
    if stored["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return Reconciled::Same;
    }
    if expected["roleRef"] != stored["roleRef"] {
        return Reconciled::Replaced;
    }
    let mut object = stored.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in expected["metadata"][field].as_object().into_iter().flatten() {
            if stored["metadata"][field].get(key).is_none() {
                object["metadata"][field][key] = value.clone();
            }
        }
    }
    // The rules of a role that gathers are the controllers' business.
    if !(expected["aggregationRule"].is_object() && stored["aggregationRule"].is_object()) {
        let missing = uncovered(&Rule::of(stored), &Rule::of(expected));
        missing.iter().for_each(|rule| push(&mut object, "rules", rule.document()));
    }
    for (list, field) in [("aggregationRule", "clusterRoleSelectors"), ("subjects", "")] {
        add_missing(&mut object, expected, list, field);
    }
    if object == *stored { Reconciled::Same } else { Reconciled::Changed(object) }
}

/// Adds the items of a list, or of a list in an object, that are missing.
fn add_missing(object: &mut Value, expected: &Value, field: &str, inner: &str) {
    let items = if inner.is_empty() { &expected[field] } else { &expected[field][inner] };
    for item in items.as_array().into_iter().flatten() {
        let place = if inner.is_empty() { &object[field] } else { &object[field][inner] };
        if place.as_array().is_some_and(|items| items.contains(item)) {
            continue;
        }
        if inner.is_empty() {
            push(object, field, item.clone());
        } else {
            push(&mut object[field], inner, item.clone());
        }
    }
}

/// A stored object as the master makes it: for what was there before roles meant anything, which may hold what nobody
/// has granted.
pub fn reset(expected: &Value, stored: &Value) -> Reconciled {
    if expected["roleRef"] != stored["roleRef"] {
        return Reconciled::Replaced;
    }
    let mut object = stored.clone();
    for field in ["rules", "aggregationRule", "subjects"] {
        match (expected.get(field), object.as_object_mut()) {
            (Some(value), _) => object[field] = value.clone(),
            (None, Some(fields)) => drop(fields.remove(field)),
            (None, None) => {}
        }
    }
    for field in ["labels", "annotations"] {
        object["metadata"][field] = expected["metadata"][field].clone();
    }
    if object == *stored { Reconciled::Same } else { Reconciled::Changed(object) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn one(plural: &str, name: &str) -> Value {
        let all = objects();
        let found = all.into_iter().find(|one| one.resource.plural == plural && one.name == name);
        found.unwrap_or_else(|| panic!("{plural} {name}")).object
    }

    #[test]
    fn the_table_is_whole() {
        let all = objects();
        let count = |plural: &str| all.iter().filter(|one| one.resource.plural == plural).count();
        let counts = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"].map(count);
        assert_eq!((counts, all.len()), ([71, 7, 51, 7], 136));
        let keys: BTreeSet<_> = all.iter().map(|one| (&one.resource, &one.namespace, &one.name)).collect();
        assert_eq!(keys.len(), all.len());
        let role = |reference: &Value, namespace: &str| {
            let (kind, name) = (reference["kind"].as_str(), reference["name"].as_str());
            all.iter().any(|one| match kind {
                Some("ClusterRole") => one.resource.plural == "clusterroles" && Some(&*one.name) == name,
                Some("Role") => {
                    one.resource.plural == "roles" && one.namespace == namespace && Some(&*one.name) == name
                }
                _ => false,
            })
        };
        for one in &all {
            let reference = &one.object["roleRef"];
            assert!(reference.is_null() || role(reference, &one.namespace), "{one:?}");
        }
        let admin = one("clusterroles", "cluster-admin");
        let rules = json!([
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]);
        assert_eq!(admin["rules"], rules);
        let masters = one("clusterrolebindings", "cluster-admin");
        assert_eq!(masters["subjects"], json!([{"kind": "Group", "apiGroup": GROUP, "name": "system:masters"}]));
    }

    #[test]
    fn roles_gather_roles() {
        let rules = |name: &str| Rule::of(&one("clusterroles", name));
        let (view, edit, admin) = (rules("view"), rules("edit"), rules("admin"));
        assert!(uncovered(&edit, &view).is_empty() && uncovered(&admin, &edit).is_empty());
        assert!(!uncovered(&view, &edit).is_empty() && !uncovered(&edit, &admin).is_empty());
        let secrets = |rules: &[Rule]| rules.iter().any(|rule| rule.resources.contains(&"secrets".to_owned()));
        assert!(!secrets(&view) && secrets(&edit));
    }

    #[test]
    fn what_people_made_of_them_stays() {
        let rule = |resource: &str, verbs: Value| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
        let meta = json!({"name": "r", "annotations": {AUTO_UPDATE: "true"}});
        let role = |rules: Value| json!({"metadata": meta, "rules": rules});
        let expected = role(json!([rule("pods", json!(["get", "list"]))]));
        let check = |stored: Value, reconciled: Reconciled| {
            assert_eq!(reconcile(&expected, &stored), reconciled, "{stored}");
        };
        check(expected.clone(), Reconciled::Same);
        check(role(json!([rule("pods", json!(["*"]))])), Reconciled::Same);
        check(
            role(json!([rule("pods", json!(["get"]))])),
            Reconciled::Changed(role(json!([rule("pods", json!(["get"])), rule("pods", json!(["list"]))]))),
        );
        let kept = json!({"metadata": {"name": "r", "annotations": {AUTO_UPDATE: "false"}}, "rules": []});
        check(kept.clone(), Reconciled::Same);
        assert_eq!(
            reset(&expected, &kept),
            Reconciled::Changed(json!({
                "metadata": {"name": "r", "labels": null, "annotations": {AUTO_UPDATE: "true"}},
                "rules": expected["rules"],
            }))
        );
        check(
            json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "rules": expected["rules"]}),
            Reconciled::Changed(json!({
                "metadata": {"name": "r", "labels": {"a": "b"}, "annotations": {AUTO_UPDATE: "true"}},
                "rules": expected["rules"],
            })),
        );
    }

    #[test]
    fn missing_subjects_come_back() {
        let expected = one("clusterrolebindings", "cluster-admin");
        let mut stored = expected.clone();
        let adam = json!({"kind": "User", "apiGroup": GROUP, "name": "adam"});
        stored["subjects"] = json!([adam]);
        let Reconciled::Changed(changed) = reconcile(&expected, &stored) else { panic!("{stored}") };
        assert_eq!(changed["subjects"], json!([adam, expected["subjects"][0]]));
        assert_eq!(reset(&expected, &stored), Reconciled::Changed(expected.clone()));
        stored["roleRef"]["name"] = "view".into();
        assert_eq!(reconcile(&expected, &stored), Reconciled::Replaced);
        assert_eq!(reconcile(&expected, &expected), Reconciled::Same);
    }
}
