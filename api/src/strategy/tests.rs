//! The strategies against conversations that were recorded with a real API server (tests/data/v1/cases): what it sets
//! and what it says is wrong. Intended differences stand in `DIFFERS` and `forget`.

mod recorded;
mod tables;

use super::doc::{list, text};
use super::*;
use crate::meta::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Steps that are answered otherwise on purpose, by case and number of the step (from 0), and why.
const DIFFERS: [(&str, usize, &str); 3] = [
    ("services/load-balancer", 3, "no health check port is given: nobody would answer there"),
    ("metadata/labels", 4, "one problem is told once"),
    ("delete/finalizers", 5, "one problem is told once"),
];

/// Problems as they are told begin as expected, one by one.
pub fn assert_problems(found: Vec<Problem>, expected: &[&str]) {
    let found: Vec<String> = found.iter().map(Problem::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:#?}");
}

struct Server {
    objects: BTreeMap<(String, String), Value>,
    addresses: u8,
    ports: u16,
}

/// What was answered: the object, or the problems, or that there is none.
enum Answer {
    Object(Value),
    Problems(Vec<Problem>),
    Gone,
    NoSuchValue,
}

fn strategy(plural: &str) -> &'static BuiltinStrategy {
    match plural {
        "pods" => &POD,
        "services" => &SERVICE,
        // Kinds that are not ours show the rules of metadata as well as another.
        "endpoints" | "configmaps" => &ENDPOINTS,
        "nodes" => &NODE,
        "namespaces" => &NAMESPACE,
        "events" => &EVENT,
        "replicationcontrollers" => &REPLICATION_CONTROLLER,
        other => panic!("no strategy for {other}"),
    }
}

impl Server {
    fn with_making<T>(&mut self, run: impl FnOnce(&mut Making<'_>) -> T) -> T {
        let (addresses, ports) = (&mut self.addresses, &mut self.ports);
        let mut making = Making {
            now: Time::from_seconds(1_600_000_000).unwrap(),
            uid: "u1".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || {
                *addresses += 1;
                Some(Ipv4Addr::new(10, 96, 0, *addresses))
            },
            node_port: &mut || {
                *ports += 1;
                Some(*ports)
            },
        };
        run(&mut making)
    }

    fn step(&mut self, method: &str, path: &str, body: &Value, json_type: &str) -> Option<Answer> {
        let rules = Rules { service_cidr: Cidr::parse("10.96.0.0/16").map(Into::into), ..Rules::default() };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = path.strip_prefix("/api/v1/")?.split('/');
        let mut namespace = "";
        if path.starts_with("/api/v1/namespaces/") && path.matches('/').count() > 4 {
            parts.next();
            namespace = parts.next()?;
        }
        let plural = parts.next()?;
        let name = parts.next().unwrap_or_default();
        let status = parts.next() == Some("status");
        let kind = strategy(plural);
        let key = |name: &str| (plural.to_owned(), name.to_owned());
        let mut new = match (method, json_type) {
            ("PATCH", _) if json_type == "application/merge-patch+json" || status => {
                let mut new = self.objects.get(&key(name))?.clone();
                merge(&mut new, body);
                new
            }
            ("PATCH", _) => return None,
            _ => body.clone(),
        };
        if matches!(method, "POST" | "PUT" | "PATCH") && !decoded(plural, &mut new) {
            return Some(Answer::NoSuchValue);
        }
        match method {
            "POST" => {
                if !namespace.is_empty() {
                    doc::map_at(&mut new, "metadata").insert("namespace".into(), namespace.into());
                }
                self.with_making(|making| (kind.create)(&mut new, making));
                let problems = (kind.validate)(&new, rules);
                if !problems.is_empty() {
                    return Some(Answer::Problems(problems));
                }
                if !query.contains("dryRun") {
                    self.objects.insert(key(text(&new["metadata"], "name")), new.clone());
                }
                Some(Answer::Object(new))
            }
            "PUT" | "PATCH" => {
                let old = self.objects.get(&key(name))?.clone();
                if !namespace.is_empty() {
                    doc::map_at(&mut new, "metadata").insert("namespace".into(), namespace.into());
                }
                if status {
                    (kind.status_update)(&mut new, &old);
                } else {
                    self.with_making(|making| (kind.update)(&mut new, &old, making));
                }
                let problems = (kind.validate_update)(&new, &old, rules);
                if !problems.is_empty() {
                    return Some(Answer::Problems(problems));
                }
                self.objects.insert(key(name), new.clone());
                if meta::is_released(&new) {
                    self.objects.remove(&key(name));
                }
                Some(Answer::Object(new))
            }
            "DELETE" => {
                let Some(old) = self.objects.get(&key(name)) else { return Some(Answer::Gone) };
                let said = query.strip_prefix("gracePeriodSeconds=").and_then(|grace| grace.parse().ok());
                let grace_s = said.or(body["gracePeriodSeconds"].as_i64());
                match (kind.delete)(old, Deleting { grace_s, now: Time::from_seconds(1_600_000_000).unwrap() }) {
                    Deletion::Remove | Deletion::Last(_) => {
                        self.objects.remove(&key(name));
                        None
                    }
                    Deletion::Pending => Some(Answer::Object(old.clone())),
                    Deletion::Mark(new) => {
                        self.objects.insert(key(name), new.clone());
                        Some(Answer::Object(new))
                    }
                }
            }
            "GET" => Some(self.objects.get(&key(name)).cloned().map_or(Answer::Gone, Answer::Object)),
            _ => None,
        }
    }
}

/// A merge patch.
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in patch {
        if value.is_null() {
            doc::remove(into, field);
        } else {
            merge(&mut into[field], value);
        }
    }
}

/// What comes before any strategy. False: the document is no value of its type.
fn decoded(plural: &str, document: &mut Value) -> bool {
    let name = match plural {
        "pods" => "Pod",
        "services" => "Service",
        "nodes" => "Node",
        "namespaces" => "Namespace",
        "events" => "Event",
        "replicationcontrollers" => "ReplicationController",
        _ => "Endpoints",
    };
    let types = crate::types::builtin();
    let good = coracle_schema::decode(&types, name, document).faults.is_empty();
    coracle_schema::default(&types, name, document);
    good
}

/// Takes away what admission, accounts and other rooms add on the recorded server, and what differs from run to run.
fn forget(object: &mut Value) {
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp"] {
        doc::remove(&mut object["metadata"], field);
    }
    let added = ["serviceAccountName", "serviceAccount", "tolerations", "priority", "preemptionPolicy", "taints"];
    added.iter().for_each(|field| doc::remove(&mut object["spec"], field));
    // The finalizer of namespaces promises what this server does not do.
    if object["spec"]["finalizers"] == json!(["kubernetes"]) {
        doc::remove(object, "spec");
    }
    // A time that is not there is shown as null when an object is shown.
    drop_nulls(object);
    doc::remove(object, "data");
    for field in ["kind", "apiVersion"] {
        doc::remove(object, field);
    }
    if doc::is_empty(&object["spec"]) {
        doc::remove(object, "spec");
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Whether an answer is what was recorded; `<ip>` and the like stand for anything.
fn alike(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && expected.iter().all(|(key, value)| found.get(key).is_some_and(|found| alike(found, value)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| alike(found, expected))
        }
        (found, Value::String(pattern)) if pattern.starts_with('<') => !found.is_null(),
        (Value::String(found), Value::String(pattern)) if pattern.ends_with("<suffix>") => {
            found.starts_with(pattern.trim_end_matches("<suffix>"))
        }
        _ => found == expected,
    }
}

/// Values that Kubernetes shows as the structs of its own source, and differences of those, are shown otherwise.
fn same_words(found: &str, expected: &str) -> bool {
    let value = |words: &str| words.find("value: {").or(words.find("value: [{"));
    match (value(found), value(expected)) {
        (Some(at), Some(expected_at)) => {
            found[..at] == expected[..expected_at] && found.rsplit('}').next() == expected.rsplit('}').next()
        }
        _ => found == expected,
    }
}

fn replay(case: &str) -> Vec<String> {
    let path = format!("{}/../tests/data/v1/cases/{case}.json", env!("CARGO_MANIFEST_DIR"));
    let said = std::fs::read_to_string(&path)
        .expect(&path)
        .replace("{{ns}}", "ns1")
        .replace("{{ip}}", "10.96.0.1")
        .replace("{{fill:x:262144}}", &"x".repeat(262144));
    let case_value: Value = serde_json::from_str(&said).unwrap();
    let mut server = Server { objects: BTreeMap::new(), addresses: 0, ports: 30000 };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (at, step) in list(&case_value, "steps").iter().enumerate() {
        let (method, path) = (text(step, "method"), text(step, "path"));
        let json_type = step["headers"]["Content-Type"].as_str().unwrap_or("application/merge-patch+json");
        let Some(answer) = server.step(method, path, &step["body"], json_type) else { continue };
        if DIFFERS.iter().any(|(differs, number, _)| *differs == case && *number == at) {
            continue;
        }
        compared += 1;
        let expected = &step["answer"];
        let status = expected["status"].as_i64().unwrap();
        let mut tell = |what: String| wrong.push(format!("{case} step {at} {method} {path}: {what}"));
        match answer {
            Answer::Gone if status == 404 => {}
            Answer::NoSuchValue if matches!(status, 400 | 422) => {}
            Answer::NoSuchValue => tell("not of its type".into()),
            Answer::Gone => tell(format!("gone, not {expected}")),
            Answer::Problems(problems) => {
                let found: Vec<String> = problems.iter().map(Problem::to_string).collect();
                let causes = list(&expected["body"]["details"], "causes");
                let causes: Vec<String> = causes
                    .iter()
                    .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
                    .collect();
                if found.len() != causes.len()
                    || !found.iter().zip(&causes).all(|(found, cause)| same_words(found, cause))
                {
                    tell(format!("\n  found    {found:?}\n  expected {causes:?}"));
                }
            }
            Answer::Object(_) if !(200..300).contains(&status) => {
                tell(format!("no problem found, expected {}", expected["body"]["message"]))
            }
            Answer::Object(mut found) => {
                let mut body = expected["body"].clone();
                if body.as_object().is_none_or(|body| body.keys().any(|key| key.starts_with('$'))) {
                    picked(&found, &body).into_iter().for_each(&mut tell);
                    continue;
                }
                forget(&mut found);
                forget(&mut body);
                if !alike(&found, &body) {
                    tell(format!("\n  found    {found}\n  expected {body}"));
                }
            }
        }
    }
    assert!(compared > 0, "{case}: nothing was compared");
    wrong
}

/// Paths of the recorded answer: only simple ones are looked at.
fn picked(found: &Value, body: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, expected) in body.as_object().into_iter().flatten() {
        let pointer = path.trim_start_matches('$').replace("[0]", ".0").replace('.', "/");
        let found = match path.split_once("[*].") {
            Some((list_path, field)) => {
                let all = found
                    .pointer(&list_path.trim_start_matches('$').replace('.', "/"))
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                all.iter().map(|one| one[field].clone()).collect::<Vec<_>>()
            }
            None => found.pointer(&pointer).cloned().into_iter().collect(),
        };
        if !alike(&found.clone().into(), expected) {
            wrong.push(format!("{path}: found {found:?}, expected {expected}"));
        }
    }
    wrong
}

#[test]
fn answers_as_recorded() {
    let cases = [
        "validation/pod-empty-spec",
        "validation/pod-enums",
        "validation/pod-container-names",
        "validation/pod-mounts",
        "validation/pod-probes",
        "validation/pod-resources",
        "validation/pod-security",
        "validation/pod-duplicate-port-warning",
        "validation/pod-bad-quantity",
        "validation/many-errors",
        "validation/node",
        "validation/event",
        "validation/replicationcontroller",
        "validation/service-types",
        "validation/annotations-too-long",
        "services/dual-stack",
        "services/external-name",
        "services/headless-no-selector",
        "services/load-balancer",
        "services/put-keeps",
        "services/session-affinity",
        "services/traffic",
        "services/type-change-external-name",
        "services/type-change-node-port",
        "immutability/pod-spec",
        "immutability/service-ip",
        "kinds/pod-minimal",
        "kinds/pod-rich",
        "kinds/node",
        "kinds/pod-qos",
        "kinds/pod-tag-pull-policy",
        "kinds/service-minimal",
        "kinds/service-rich",
        "kinds/endpoints",
        "kinds/namespace",
        "kinds/event-core",
        "metadata/owner-references",
        "metadata/labels",
        "delete/finalizers",
        "delete/finalizer-names",
        "delete/pod-grace",
        "subresources/pod-status",
    ];
    let wrong: Vec<String> = cases.iter().flat_map(|case| replay(case)).collect();
    assert!(wrong.is_empty(), "{} steps answered otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

fn documents(folder: &str) -> Vec<(String, Value)> {
    let folder = format!("{}/../tests/data/v1beta1/{folder}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect(&folder).map(|file| file.unwrap().path());
    let mut found: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| (path.display().to_string(), serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn plural_of(kind: &str) -> &'static str {
    match kind {
        "Pod" => "pods",
        "ReplicationController" => "replicationcontrollers",
        "Service" => "services",
        "Endpoints" => "endpoints",
        "Minion" | "Node" => "nodes",
        "Event" => "events",
        "Namespace" => "namespaces",
        _ => "",
    }
}

#[test]
fn documents_of_2014_are_taken() {
    let mut taken = 0;
    for folder in ["examples/api", "examples/guestbook", "examples/guestbook-go", "examples/walkthrough"] {
        for (file, document) in documents(folder) {
            let plural = plural_of(text(&document, "kind"));
            if plural.is_empty() {
                continue;
            }
            let mut object = crate::old::decode(crate::old::Version::V1beta1, text(&document, "kind"), &document)
                .expect(&file)
                .object;
            assert!(decoded(plural, &mut object), "{file}");
            // The path says the namespace.
            if matches!(plural, "nodes" | "namespaces") {
                doc::remove(&mut object["metadata"], "namespace");
            } else {
                let said = text(&object["involvedObject"], "namespace");
                object["metadata"]["namespace"] = if said.is_empty() { "default".into() } else { said.into() };
            }
            let mut server = Server { objects: BTreeMap::new(), addresses: 0, ports: 30000 };
            server.with_making(|making| (strategy(plural).create)(&mut object, making));
            let rules = Rules { old_names: true, ..Rules::default() };
            let problems: Vec<String> =
                (strategy(plural).validate)(&object, rules).iter().map(Problem::to_string).collect();
            assert!(problems.is_empty(), "{file}: {problems:#?}\n{object}");
            let again = object.clone();
            server.with_making(|making| (strategy(plural).update)(&mut object, &again, making));
            assert_eq!(object, again, "{file}: a put of what stands changes nothing");
            let problems = (strategy(plural).validate_update)(&object, &again, Rules::default());
            assert_eq!(problems, [], "{file}: its later updates through v1 pass");
            taken += 1;
        }
    }
    assert!(taken >= 15, "{taken}");
}

/// Whatever grows with the square of a document takes minutes here, and shows.
#[test]
fn hostile_documents_are_looked_at_once() {
    let many = |entry: &dyn Fn(usize) -> Value| (0..20_000).map(entry).collect::<Vec<Value>>();
    let labels: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("a/b/{n}"), " ".into())).collect();
    let owner =
        |n: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("u{n}"), "controller": true});
    let toleration = |n: usize| json!({"operator": "Exists", "key": format!("k{n}")});
    let rules = Rules::default();
    let check = |plural: &str, mut object: Value| {
        object["metadata"]["name"] = "a".into();
        let mut server = Server { objects: BTreeMap::new(), addresses: 0, ports: 30000 };
        server.with_making(|making| (strategy(plural).create)(&mut object, making));
        let count =
            |problems: Vec<Problem>| assert!((1..20_000).contains(&problems.len()), "{plural}: {}", problems.len());
        count((strategy(plural).validate)(&object, rules));
        let mut new = object.clone();
        for list in ["tolerations", "ports", "containers"] {
            if let Some(list) = new["spec"].get_mut(list).and_then(Value::as_array_mut) {
                list.reverse();
            }
        }
        server.with_making(|making| (strategy(plural).update)(&mut new, &object, making));
        let found = (strategy(plural).validate_update)(&new, &object, rules);
        assert!(found.len() < 20_000, "{plural}: {}", found.len());
    };
    check(
        "pods",
        json!({
            "spec": json!({
                "containers": many(&|_| json!({})), "tolerations": many(&toleration), "volumes": many(&|_| json!({})),
            }),
        }),
    );
    let nested =
        json!({"ports": many(&|_| json!({})), "env": many(&|_| json!({})), "volumeMounts": many(&|_| json!({}))});
    check("pods", json!({"spec": json!({"containers": [nested]})}));
    let named = |n: usize| json!({"name": format!("n{n}")});
    let inner = json!({"resources": {"claims": many(&|n| json!({
        "name": format!("x{n}"),
    }))}, "volumeDevices": many(&named),
        "envFrom": many(&|_| json!({})), "resizePolicy": many(&|_| json!({})), "restartPolicyRules": many(&|_| json!({
        }))});
    check(
        "pods",
        json!({"spec": json!({"containers": [inner], "resourceClaims": many(&named),
            "schedulingGates": many(&|_| json!({
            "name": "a b",
        })),
            "topologySpreadConstraints": many(&|_| json!({})), "hostAliases": many(&|_| json!({"hostnames": ["A"]})),
            "securityContext": {"sysctls": many(&|_| json!({"name": "A"}))},
            "dnsConfig": {"searches": many(&|_| "A".into())}})}),
    );
    check("services", json!({"spec": json!({"type": "NodePort", "ports": many(&|n| json!({"port": n}))})}));
    check(
        "services",
        json!({
            "spec": json!({
                "clusterIPs": many(&|_| "1.1.1.1".into()), "clusterIP": "1.1.1.1",
                "ipFamilies": many(&|_| "IPv4".into()),
            }),
        }),
    );
    check(
        "nodes",
        json!({"spec": json!({"taints": many(&|_| json!({})), "podCIDRs": many(&|_| "10.0.0.0/8".into())})}),
    );
    check("endpoints", json!({"subsets": many(&|_| json!({}))}));
    let finalizers = many(&|n| format!("f{n}").into());
    let meta =
        json!({"labels": labels, "annotations": labels, "ownerReferences": many(&owner), "finalizers": finalizers});
    check("endpoints", json!({"metadata": meta}));
}
