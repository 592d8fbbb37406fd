//! `coracle`, the agent's program under its other name: what a keeper types at a host, with and without a master.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use serde_json::{Value, json};

pub const TESTS: &[Test] = &[("command_without_a_master", without_a_master), ("command_with_a_master", with_a_master)];

fn spec(line: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": BUSYBOX, "command": ["sh", "-c", format!("{line}; exec sleep 3600")]}],
    })
}

/// Ids of the running containers of a pod under this name and container name.
fn ids(bed: &Bed, pod: &str, container: &str) -> Vec<String> {
    let filter = format!("label=io.kubernetes.pod.name={pod}");
    let listed = bed.docker(&["ps", "-q", "--no-trunc", "--filter", &filter]);
    let of = bed.running_of(container);
    listed.lines().map(str::to_owned).filter(|id| of.contains(id)).collect()
}

fn well(bed: &Bed, arguments: &[&str]) -> String {
    let said = bed.coracle(arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.text(), said.err);
    said.text()
}

fn refused(bed: &Bed, arguments: &[&str], code: i32, word: &str) {
    let said = bed.coracle(arguments);
    assert!(said.code == code && said.err.contains(word), "{arguments:?}: {} {}{}", said.code, said.text(), said.err);
}

fn without_a_master(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let file = |kind: &str, name: &str, spec: Value| {
        let version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string()
    };
    bed.drop_manifest("talks.yaml", &file("Pod", "talks", spec("echo out")));
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": spec("echo web")});
    let deployment = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    bed.drop_manifest("web.yaml", &file("Deployment", "web", deployment));
    for pod in ["talks", "web-0", "web-1"] {
        bed.until(&format!("{pod} is ready"), |bed| bed.ready(pod).filter(|ready| *ready));
    }
    let status = well(bed, &["status"]);
    assert!(
        status.contains("default/talks (file)  Running  1 of 1 ready") && status.contains("all is well"),
        "{status}"
    );
    let json: Value = serde_json::from_str(&well(bed, &["status", "-o", "json"])).unwrap();
    assert_eq!((&json["master"], json["pods"].as_array().unwrap().len()), (&Value::Null, 3));
    assert!(well(bed, &["status", "-o", "wide"]).contains(BUSYBOX));
    assert_eq!(well(bed, &["logs", "default/talks"]), "out\n");
    assert_eq!(well(bed, &["logs", "deploy/web"]), "web\n");
    assert_eq!(well(bed, &["exec", "talks", "--", "echo", "in"]), "in\n");
    assert!(well(bed, &["top"]).contains("default/talks (file)"));
    refused(
        bed,
        &["restart", "none"],
        1,
        "is not on this host; in namespace \"default\" there are pods: talks, web-0, web-1",
    );

    let before = (ids(bed, "talks", "c"), ids(bed, "talks", "POD"));
    let said = well(bed, &["restart", "talks"]);
    assert!(said.contains("pod default/talks restarts") && said.contains("is ready again"), "{said}");
    let after = (ids(bed, "talks", "c"), ids(bed, "talks", "POD"));
    assert!(before.0 != after.0 && before.1 != after.1, "{before:?} {after:?}");
    let pod = bed.pod_like("talks").unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1, "{pod}");

    // An agent that is killed in the middle goes on, and does it once.
    well(bed, &["restart", "talks", "--no-wait"]);
    bed.kill_agent();
    bed.start_agent_with(&[]);
    bed.until("another container runs", |bed| {
        let now = ids(bed, "talks", "c");
        (now.len() == 1 && now != after.0 && bed.ready("talks") == Some(true)).then_some(())
    });
    let pod = bed.pod_like("talks").unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 2, "{pod}");

    let before = [ids(bed, "web-0", "c"), ids(bed, "web-1", "c")];
    let said = well(bed, &["restart", "deploy/web"]);
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("{words}: {said}"));
    assert!(at("web-0 is ready again") < at("web-1 restarts"), "one after the other: {said}");
    let after = [ids(bed, "web-0", "c"), ids(bed, "web-1", "c")];
    assert!(before[0] != after[0] && before[1] != after[1], "{before:?} {after:?}");

    let mut once = spec("true");
    once["restartPolicy"] = "Never".into();
    bed.drop_manifest("once.yaml", &file("Pod", "once", once));
    bed.until("it runs", |bed| bed.ready("once").filter(|ready| *ready));
    refused(bed, &["restart", "once"], 1, "restartPolicy is Never");
    bed.stop_agent();
    refused(bed, &["status"], 3, "");
}

fn with_a_master(bed: &mut Bed) {
    bed.start();
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": spec("echo web")});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    });
    bed.post("/apis/apps/v1/namespaces/default/deployments", &deployment.to_string());
    let bare = json!({"metadata": {"name": "bare"}, "spec": spec("echo bare")});
    bed.post("/api/v1/namespaces/default/pods", &bare.to_string());
    let file = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talks"}, "spec": spec("echo out")});
    bed.drop_manifest("talks.yaml", &file.to_string());
    let available =
        |bed: &Bed| bed.get("/apis/apps/v1/namespaces/default/deployments/web")["status"]["availableReplicas"] == 2;
    bed.until("all is ready", |bed| {
        (available(bed) && bed.ready("bare") == Some(true) && bed.ready("talks") == Some(true)).then_some(())
    });
    let status = bed.until("status says so", |bed| {
        let said = bed.coracle(&["status"]);
        (said.code == 0).then(|| said.text())
    });
    for words in [
        "node n1 at",
        "master: it answers, with node n1",
        "4 pods",
        "default/talks (file)",
        "default/bare",
        "all is well",
    ] {
        assert!(status.contains(words), "{words}: {status}");
    }
    assert!(!status.contains("talks-n1"), "a pod of a file stands there once: {status}");
    assert_eq!(well(bed, &["logs", "deploy/web"]), "web\n");
    assert_eq!(well(bed, &["exec", "deployment/web", "--", "echo", "in"]), "in\n");
    assert!(well(bed, &["top", "--sort-by", "memory"]).contains("default/bare"));

    let before = bed.running_of("c");
    let said = well(bed, &["restart", "deploy/web"]);
    assert!(said.contains("deployment default/web is ready again"), "{said}");
    assert!(available(bed));
    let others = [ids(bed, "bare", "c"), ids(bed, "talks", "c")].concat();
    // As with `kubectl rollout restart`, the old pods may still have their grace.
    bed.until("the old pods of the Deployment end, and the others go on", |bed| {
        let kept: Vec<String> = bed.running_of("c").into_iter().filter(|id| before.contains(id)).collect();
        (kept.len() == others.len() && kept.iter().all(|id| others.contains(id))).then_some(())
    });

    let (container, sandbox) = (ids(bed, "bare", "c"), ids(bed, "bare", "POD"));
    well(bed, &["restart", "bare"]);
    assert!(container != ids(bed, "bare", "c"));
    assert_eq!(sandbox, ids(bed, "bare", "POD"), "a pod of the API keeps its sandbox");
    bed.until("the API counts it", |bed| {
        let pod = bed.get("/api/v1/namespaces/default/pods/bare");
        (pod["status"]["containerStatuses"][0]["restartCount"] == 1).then_some(())
    });

    bed.kill_master();
    let said = bed.coracle(&["status"]);
    assert!(said.code == 1 && said.text().contains("master coracle-master: it does not answer"), "{said:?}");
    well(bed, &["restart", "talks"]);
}
