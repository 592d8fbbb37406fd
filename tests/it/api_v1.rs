//! The API of today.

use crate::transcript::{Bed, ask, check, check_over};
use coracle_agent::telling::node::node_status;
use coracle_agent::telling::report::pod_status;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};

#[test]
fn pods() {
    check("v1-pods");
}

#[test]
fn replication_controllers() {
    check("v1-replicationcontrollers");
}

#[test]
fn services() {
    check("v1-services");
}

#[test]
fn server() {
    check("v1-server");
}

#[test]
fn budgets() {
    check("v1-budgets");
}

/// Many at once, and never fewer pods than their budget wants.
#[test]
fn a_budget_holds_against_a_crowd() {
    const CROWD: usize = 16;
    const KEPT: usize = 11;
    let bed = Bed::new();
    let pods = "/api/v1/namespaces/default/pods";
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let post = |path: &str, body: Value| ask(bed.local(), "POST", path, &[], &body.to_string()).code;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": KEPT, "selector": {}}});
    assert_eq!(post(budgets, budget), 201);
    for n in 0..CROWD {
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
        assert_eq!(post(pods, json!({"metadata": {"name": format!("p{n}")}, "spec": spec})), 201);
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        patched(&bed, &format!("{pods}/p{n}/status"), "strategic-merge", &ready);
    }
    let evict = |n: usize| loop {
        let evicted = ask(
            bed.local(),
            "POST",
            &format!("{pods}/p{n}/eviction"),
            &[],
            &json!({"metadata": {"name": format!("p{n}")}}).to_string(),
        );
        let text = String::from_utf8_lossy(&evicted.body).into_owned();
        match evicted.code {
            429 if !text.contains("needs 11 healthy pods and has 11 currently") => std::thread::yield_now(),
            code => return (code, text),
        }
    };
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CROWD).map(|n| scope.spawn(move || evict(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let counts = [201, 429].map(|code| answers.iter().filter(|(answered, _)| *answered == code).count());
    assert_eq!(counts, [CROWD - KEPT, KEPT], "{answers:?}");
}

#[test]
fn tokens() {
    check("v1-tokens");
}

#[test]
fn admission() {
    check("v1-admission");
}

/// Many at once, and not one more than a quota allows.
#[test]
fn a_quota_holds_against_a_crowd() {
    const CROWD: usize = 16;
    let bed = Bed::new();
    let post = |path: &str, body: Value| ask(bed.local(), "POST", path, &[], &body.to_string()).code;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "5"}}});
    assert_eq!(post("/api/v1/namespaces/default/resourcequotas", quota), 201);
    let made = std::thread::scope(|scope| {
        let one = |n: usize| post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": format!("s{n}")}}));
        let threads: Vec<_> = (0..CROWD).map(|n| scope.spawn(move || one(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).filter(|code| *code == 201).count()
    });
    assert_eq!(made, 5);
    let quota = ask(bed.local(), "GET", "/api/v1/namespaces/default/resourcequotas/q", &[], "");
    let quota: Value = serde_json::from_slice(&quota.body).expect("JSON");
    assert_eq!(quota["status"]["used"]["secrets"], "5");
}

fn patched(bed: &Bed, path: &str, language: &str, patch: &Value) -> Value {
    let headers = [("Content-Type".to_owned(), format!("application/{language}-patch+json"))];
    let reply = ask(bed.local(), "PATCH", path, &headers, &patch.to_string());
    assert_eq!(reply.code, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).expect("JSON")
}

fn posted(bed: &Bed, path: &str, object: &Value) -> Value {
    let reply = ask(bed.local(), "POST", path, &[], &object.to_string());
    assert_eq!(reply.code, 201, "{path}: {}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).expect("JSON")
}

/// Whoever reads them takes one line for one thing.
#[test]
fn figures_are_told_once() {
    let bed = Bed::new();
    let reply = ask(bed.local(), "GET", "/metrics", &[], "");
    let text = String::from_utf8(reply.body.to_vec()).expect("text");
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, _)| name)
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == all && all > 20, "{text}");
}

/// What a write of the status may say of the metadata, and what stays as it was.
#[test]
fn a_status_comes_with_metadata() {
    const FIELDS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
    fn check(bed: &Bed, resource: &str, object: Value, kept: &[&str]) {
        let before = posted(bed, resource, &object);
        let path = format!("{resource}/x/status");
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-2222-3333-4444-555555555555",
        });
        let said = json!({
            "annotations": {"a": "1"}, "finalizers": ["a.b/c"], "labels": {"l": "2"}, "ownerReferences": [owner],
        });
        let asked = json!({"metadata": said, "spec": {"unknown": true}});
        let mut after = patched(bed, &path, "merge", &asked);
        without_notes(&mut after);
        for field in FIELDS {
            let expected = if kept.contains(&field) { &before["metadata"][field] } else { &said[field] };
            assert_eq!(after["metadata"][field], *expected, "{field} of {resource}");
        }
        assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
        assert_eq!(after["spec"]["unknown"], Value::Null);
        let managers = after["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let owned = managers
            .iter()
            .find(|entry| entry["subresource"] == "status")
            .map_or(&Value::Null, |entry| &entry["fieldsV1"]["f:metadata"]);
        for field in FIELDS {
            let is = owned.get(format!("f:{field}")).is_some();
            assert_eq!(is, !kept.contains(&field), "owner of {field} of {resource}");
        }
    }
    let bed = Bed::new();
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload =
        json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}});
    let pod = json!({"metadata": {"name": "x"}, "spec": template["spec"]});
    let attachment = json!({
        "metadata": {"name": "x"},
        "spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    });
    check(&bed, "/apis/apps/v1/namespaces/default/deployments", workload.clone(), &["labels"]);
    check(&bed, "/apis/apps/v1/namespaces/default/replicasets", workload, &[]);
    check(&bed, "/api/v1/nodes", json!({"metadata": {"name": "x"}, "spec": {"providerID": "a"}}), &[]);
    check(&bed, "/api/v1/namespaces/default/pods", pod, &["ownerReferences"]);
    check(&bed, "/apis/storage.k8s.io/v1/volumeattachments", attachment, &FIELDS);
}

/// The agent's reports and others' conditions in every order, the reports out of views of every age: each has the last
/// word in what is its own.
#[test]
fn reports_and_conditions_of_others_in_any_order() {
    let bed = Bed::new();
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": null,
        })
    };
    let mut unready = condition("Ready", "False");
    unready["message"] = "not yet".into();
    let reports = [
        json!({"phase": "Running", "conditions": [condition("PodReadyToStartContainers", "True"), unready]}),
        json!({
            "phase": "Running",
            "conditions": [condition("PodReadyToStartContainers", "True"), condition("Ready", "True")],
        }),
    ];
    let theirs = [
        json!({"status": {"nominatedNodeName": "n", "conditions": [condition("a.b/gate", "False")]}}),
        json!({"status": {"conditions": [condition("DisruptionTarget", "True"), condition("a.b/gate", "True")]}}),
    ];
    let orders = (0_u8..16).filter(|order| order.count_ones() == 2);
    let mut tried = 0;
    for (order, age) in orders.flat_map(|order| (0..=4).map(move |age| (order, age))) {
        let name = format!("p{order}-{age}");
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
        let pod = posted(&bed, "/api/v1/namespaces/default/pods", &json!({"metadata": {"name": name}, "spec": spec}));
        let (uid, path) =
            (pod["metadata"]["uid"].as_str().expect("a uid"), format!("/api/v1/namespaces/default/pods/{name}/status"));
        let mut views = vec![pod.clone()];
        let (mut reports, mut theirs) = (reports.iter(), theirs.iter());
        for step in 0..4 {
            let patch = if order & (1 << step) == 0 {
                theirs.next().expect("two of them").clone()
            } else {
                let shows = &views[views.len().saturating_sub(1 + age)]["status"];
                pod_status(uid, reports.next().expect("two of them"), shows)
            };
            views.push(patched(&bed, &path, "strategic-merge", &patch));
        }
        let status = &views.last().expect("the last")["status"];
        let said = |kind: &str| {
            status["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind)
        };
        for kind in ["PodReadyToStartContainers", "Ready", "DisruptionTarget", "a.b/gate"] {
            assert_eq!(said(kind), Some(&condition(kind, "True")), "order {order:04b}, {age} behind: {status}");
        }
        assert_eq!((&status["nominatedNodeName"], &status["phase"]), (&json!("n"), &json!("Running")));
        tried += 1;
    }
    assert_eq!(tried, 6 * 5);
}

/// Takes off what controllers note on objects of their own accord.
fn without_notes(object: &mut Value) {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| {
            !["deployment.kubernetes.io/revision", "node.alpha.kubernetes.io/ttl"].contains(&name.as_str())
        });
    }
}

/// Whatever the agent reports, what others wrote beside it stays.
#[test]
fn a_report_of_the_agent_loses_nothing() {
    let bed = Bed::new();
    let others =
        |name: &str| json!({"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e.f/g"]});
    let check = |before: &Value, after: &Value| {
        let mut after = after.clone();
        without_notes(&mut after);
        for field in ["labels", "annotations", "finalizers", "uid"] {
            assert_eq!(after["metadata"][field], before["metadata"][field], "{field}");
        }
    };
    let pod = json!({"metadata": others("p"), "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = posted(&bed, "/api/v1/namespaces/default/pods", &pod);
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    let path = "/api/v1/namespaces/default/pods/p/status";
    let ours = |uid: &str, status: Value, shows: &Value| pod_status(uid, &status, &shows["status"]);
    let first = json!({
        "phase": "Pending", "message": "first", "hostIPs": [{"ip": "1.1.1.1"}], "podIP": "2.2.2.2",
        "podIPs": [{"ip": "2.2.2.2"}],
    });
    let shows = patched(&bed, path, "strategic-merge", &ours(uid, first, &pod));
    let second = json!({"phase": "Running", "podIP": null, "hostIPs": [{"ip": "3.3.3.3"}]});
    let after = patched(&bed, path, "strategic-merge", &ours(uid, second, &shows));
    check(&pod, &after);
    assert_eq!(after["status"], json!({"phase": "Running", "hostIPs": [{"ip": "3.3.3.3"}], "qosClass": "BestEffort"}));
    let headers = [("Content-Type".to_owned(), "application/strategic-merge-patch+json".to_owned())];
    assert_eq!(ask(bed.local(), "PATCH", path, &headers, &ours("another", json!({}), &after).to_string()).code, 409);

    let node = posted(&bed, "/api/v1/nodes", &json!({"metadata": others("n")}));
    let theirs = json!({
        "status": {"capacity": {"a.b/device": "2"}, "conditions": [{"type": "NetworkUnavailable", "status": "False"}]},
    });
    patched(&bed, "/api/v1/nodes/n/status", "strategic-merge", &theirs);
    let ours = json!({
        "metadata": {"annotations": {"not": "said"}, "labels": {"not": "said"}},
        "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let after = patched(&bed, "/api/v1/nodes/n/status", "strategic-merge", &node_status(&ours));
    let again = patched(&bed, "/api/v1/nodes/n/status", "strategic-merge", &node_status(&ours));
    assert_eq!(
        (&again["status"], &again["metadata"]["annotations"]),
        (&after["status"], &after["metadata"]["annotations"])
    );
    assert_eq!(after["status"]["capacity"], json!({"a.b/device": "2", "cpu": "1"}));
    assert_eq!(after["status"]["conditions"].as_array().map(Vec::len), Some(2));
    check(&node, &after);
}

#[test]
fn namespaces() {
    check("v1-namespaces");
}

#[test]
fn others() {
    check("v1-others");
}

#[test]
fn forms() {
    check("v1-forms");
}

#[test]
fn errors() {
    check("v1-errors");
}

#[test]
fn patches() {
    check("v1-patch");
}

#[test]
fn rehearsals() {
    check("v1-rehearsals");
}

#[test]
fn watches() {
    check("v1-watches");
}

#[test]
fn verbs() {
    check("v1-verbs");
}

#[test]
fn debugging() {
    check("v1-debug");
}

#[test]
fn pages() {
    check("v1-pages");
}

/// A master that has just started over what another left: it knows nothing of before.
#[test]
fn moments_that_are_gone() {
    check_over("v1-expired", |data| {
        let folder = data.join("objects/core/namespaces/_cluster");
        fs::create_dir_all(&folder).expect("a new folder");
        let namespace =
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old", "resourceVersion": "500"}}"#;
        fs::write(folder.join("old.json"), namespace).expect("room for a file");
    });
}

/// What grows it is refused, what makes room is not, and `readyz` says so without being asked for more.
#[test]
fn a_store_that_is_full_takes_deletes() {
    const OBJECT_BYTES: usize = 100_000;
    const LIMIT: u64 = 2 << 20;
    let bed = Bed::set_up(|config| config.store_limit = Some(LIMIT));
    let all = "/api/v1/namespaces/default/configmaps";
    let named =
        |name: &str, bytes: usize| json!({"metadata": {"name": name}, "data": {"x": "x".repeat(bytes)}}).to_string();
    let post = |name: &str, bytes: usize| ask(bed.network(), "POST", all, &[], &named(name, bytes));
    let text = |reply: &crate::transcript::Reply| String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(text(&ask(bed.local(), "GET", "/readyz", &[], "")), "ok");
    let made = (0..30).find_map(|at| {
        let reply = post(&format!("m{at}"), OBJECT_BYTES);
        (reply.code != 201).then_some((at, reply))
    });
    let (made, full) = made.expect("there is a limit");
    assert!(full.code == 507 && text(&full).contains("--store-limit"), "{}: {}", full.code, text(&full));
    assert!(made > 10, "{made} were taken");
    let ready = ask(bed.network(), "GET", "/readyz", &[], "");
    assert_eq!(ready.code, 200);
    assert!(text(&ready).starts_with("ok\n[!]full: the store holds "), "{}", text(&ready));
    assert_eq!(text(&ask(bed.network(), "GET", "/livez", &[], "")), "ok");
    let grown = ask(bed.network(), "PUT", &format!("{all}/m0"), &[], &named("m0", 3 * OBJECT_BYTES));
    assert_eq!(grown.code, 507, "{}", text(&grown));
    assert_eq!(ask(bed.network(), "GET", &format!("{all}/m0"), &[], "").code, 200);
    assert_eq!(ask(bed.network(), "PUT", &format!("{all}/m0"), &[], &named("m0", 1)).code, 200, "it shrinks");
    assert_eq!(ask(bed.network(), "DELETE", &format!("{all}/m1"), &[], "").code, 200);
    assert_eq!(post("again", OBJECT_BYTES).code, 201);
}

#[test]
fn a_second_master_on_the_same_socket_touches_nothing() {
    let bed = Bed::new();
    let config = coracle_master::config::Config {
        data_dir: bed.folder.join("second"),
        listen: None,
        admin_socket: bed.folder.join("run/api.sock"),
        ..Default::default()
    };
    let refused = coracle_master::start(&config).err().expect("it is served");
    assert!(refused.contains("another process serves this socket"), "{refused}");
    assert!(!config.data_dir.exists());
    assert_eq!(ask(bed.local(), "GET", "/readyz", &[], "").code, 200);
}

/// Files that are taken away ask no finalizer; what they owned goes, but not what a damaged one may own still.
#[test]
fn what_lost_its_owner() {
    check_over("v1-taken-away", |data| {
        let folder = data.join("objects/core/configmaps/default");
        fs::create_dir_all(&folder).expect("a new folder");
        let owned = |name: &str, owner: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner});
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "uid": name, "ownerReferences": [owner]},
            })
        };
        fs::write(folder.join("lost.json"), owned("lost", "taken").to_string()).expect("room for a file");
        fs::write(folder.join("held.json"), owned("held", "broken").to_string()).expect("room for a file");
        fs::write(folder.join("broken.json"), "{").expect("room for a file");
    });
}

/// What should be files and is none, and a namespace that nobody can read: the master starts, and serves all else.
#[test]
fn a_master_starts_over_anything() {
    let bed = Bed::over(|data| {
        let folder = data.join("objects/core/namespaces/_cluster");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("kube-system.json"), "{").expect("a file");
        let typed =
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "typed"}, "status": {"phase": 5}}"#;
        std::fs::write(folder.join("typed.json"), typed).expect("a file");
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe.json")).status().expect("mkfifo runs");
        assert!(made.success());
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link.json")).expect("a link");
    });
    let get = |path: &str| ask(bed.local(), "GET", path, &[], "");
    for name in ["kube-system", "pipe", "link", "typed"] {
        assert_eq!(get(&format!("/api/v1/namespaces/{name}")).code, 500, "{name}");
    }
    assert_eq!(get("/api/v1/namespaces/default").code, 200);
    let delete = |path: &str, body: &str| ask(bed.local(), "DELETE", path, &[], body).code;
    let health = get("/healthz?verbose");
    let text = String::from_utf8_lossy(&health.body).into_owned();
    assert!(health.code == 200 && text.contains("no regular file") && text.contains("kube-system.json"), "{text}");
    // A plain DELETE gives it up; one that means a certain object does not.
    assert_eq!(delete("/api/v1/namespaces/kube-system", ""), 403);
    assert_eq!(delete("/api/v1/namespaces/typed", r#"{"preconditions": {"uid": "u"}}"#), 500);
    assert_eq!(delete("/api/v1/namespaces/typed", ""), 200);
    assert_eq!(get("/api/v1/namespaces/typed").code, 404);
    assert_eq!(ask(bed.local(), "POST", "/api/v1/namespaces", &[], r#"{"metadata": {"name": "typed"}}"#).code, 201);
}

/// What `kubectl replace` sends where its GET failed heals a damaged object; what means a certain object does not.
#[test]
fn a_damaged_object_is_replaced_as_a_whole() {
    let bed = Bed::over(|data| {
        let folder = data.join("objects/core/configmaps/default");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("a.json"), "{").expect("a file");
    });
    const PATH: &str = "/api/v1/namespaces/default/configmaps/a";
    let put = |query: &str, metadata: Value, data: Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string();
        ask(bed.local(), "PUT", &format!("{PATH}{query}"), &[], &body)
    };
    let name = || json!({"name": "a"});
    let get = || ask(bed.local(), "GET", PATH, &[], "");
    let refused = get();
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(
        refused.code == 500 && text.contains("delete or replace the object, with no uid and no resourceVersion"),
        "{text}"
    );
    assert_eq!(ask(bed.local(), "POST", PATH.trim_end_matches("/a"), &[], r#"{"metadata": {"name": "a"}}"#).code, 409);
    for certain in [json!({"name": "a", "uid": "u"}), json!({"name": "a", "resourceVersion": "7"})] {
        assert_eq!(put("", certain, json!({})).code, 500);
    }
    assert_eq!(put("", name(), json!({"a b": "no such key"})).code, 422);
    assert_eq!(put("?dryRun=All", name(), json!({"k": "v"})).code, 201);
    assert_eq!(get().code, 500, "nothing was done so far");
    let made = put("", name(), json!({"k": "v"}));
    let warning = made.headers.iter().find(|(name, _)| name == "warning").expect("it is told").1.clone();
    assert!(made.code == 201 && warning.contains("a uid of its own"), "{} {warning}", made.code);
    let now: Value = serde_json::from_slice(&get().body).expect("JSON");
    assert!(
        now["data"]["k"] == "v"
            && now["metadata"]["uid"].is_string()
            && now["metadata"]["creationTimestamp"].is_string(),
        "{now}"
    );
    assert_eq!(put("", name(), json!({"k": "w"})).code, 200);
    let text = String::from_utf8_lossy(&ask(bed.local(), "GET", "/readyz?verbose", &[], "").body).into_owned();
    assert!(!text.contains("damaged"), "{text}");
    assert!(
        bed.folder.join("data/quarantine/0001-not-json-settled/core/configmaps/default/a.json").exists(),
        "it is kept"
    );
}

/// Replay of what stands, then what is written while the watcher is still reading: each object once, in order.
#[test]
fn a_watch_over_5000_objects_loses_none() {
    const BEFORE: usize = 5000;
    const AFTER: usize = 200;
    let bed = Bed::new();
    let make = |number: usize| {
        let body = json!({"metadata": {"name": format!("e{number}"), "annotations": {"long": "x".repeat(500)}}});
        let reply = ask(bed.local(), "POST", "/api/v1/namespaces/default/endpoints", &[], &body.to_string());
        assert_eq!(reply.code, 201, "{}", String::from_utf8_lossy(&reply.body));
    };
    // Several at once, so that it is quicker.
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || (part * BEFORE / 4..(part + 1) * BEFORE / 4).for_each(make));
        }
    });
    let mut pipe = bed.network();
    pipe.write_all(b"GET /api/v1/namespaces/default/endpoints?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("the request is taken");
    let mut lines = BufReader::new(pipe)
        .lines()
        .map(|line| line.expect("the stream goes on"))
        .filter(|line| line.starts_with("{\"type\""));
    let mut names = std::collections::BTreeSet::new();
    let mut last = 0;
    let mut read = |count: usize, revisions_grow: bool| {
        for _ in 0..count {
            let event: Value = serde_json::from_str(&lines.next().expect("another event")).expect("JSON");
            assert_eq!(event["type"], "ADDED");
            let revision: u64 = event["object"]["metadata"]["resourceVersion"]
                .as_str()
                .and_then(|text| text.parse().ok())
                .expect("a number");
            assert!(!revisions_grow || revision > last, "{revision} after {last}");
            last = last.max(revision);
            assert!(
                names.insert(event["object"]["metadata"]["name"].to_string()),
                "{} came twice",
                event["object"]["metadata"]["name"]
            );
        }
        names.len()
    };
    assert_eq!(read(10, false), 10);
    (BEFORE..BEFORE + AFTER / 4).for_each(make);
    assert_eq!(read(BEFORE - 10, false), BEFORE);
    assert_eq!(read(AFTER / 4, true), BEFORE + AFTER / 4);
    std::thread::scope(|scope| {
        scope.spawn(|| (BEFORE + AFTER / 4..BEFORE + AFTER).for_each(make));
        assert_eq!(read(AFTER - AFTER / 4, true), BEFORE + AFTER);
    });
}
