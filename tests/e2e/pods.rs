//! What a pod that runs is given, and what it keeps: contents of its volumes, resources, its end, whole lines of its
//! logs.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use serde_json::{Value, json};

pub const TESTS: &[Test] = &[
    ("pods_mounted_config_map_changes", mounted_config_map_changes),
    ("pods_resize_in_place", resize_in_place),
    ("pods_resize_waits_for_room", resize_waits_for_room),
    ("pods_that_ended_stay_so_over_an_engine_restart", ended_over_an_engine_restart),
    ("pods_empty_directory_over_its_limit", empty_directory_over_its_limit),
    ("pods_whole_lines_of_a_log", whole_lines_of_a_log),
];

const PODS: &str = "/api/v1/namespaces/default/pods";
const SLEEP: &str = "trap 'exit 0' TERM; while true; do sleep 0.2; done";

fn post(bed: &Bed, name: &str, spec: &Value) {
    bed.post(PODS, &json!({"metadata": {"name": name}, "spec": spec}).to_string());
}

fn status(bed: &Bed, name: &str) -> Value {
    bed.send("GET", &format!("{PODS}/{name}"), "").1["status"].take()
}

fn runs(bed: &Bed, container: &str) -> String {
    bed.until(&format!("{container} runs"), |bed| bed.running_of(container).pop())
}

/// The condition of that type, if it holds.
fn holds(status: &Value, kind: &str) -> Option<Value> {
    let mut all = status["conditions"].as_array()?.iter();
    all.find(|one| one["type"] == kind && one["status"] == "True").cloned()
}

fn mounted_config_map_changes(bed: &mut Bed) {
    bed.start();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": text}}).to_string()
    };
    bed.post(maps, &map("one"));
    let container = json!({
        "name": "reads", "image": BUSYBOX, "command": ["sh", "-c", SLEEP],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    post(bed, "reads", &json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}], "containers": [container]}));
    let id = runs(bed, "reads");
    assert_eq!(bed.exec(&id, "cat /v/a").as_deref(), Ok("one"));
    let (code, answer) = bed.send("PUT", &format!("{maps}/m"), &map("two"));
    assert_eq!(code, 200, "{answer}");
    bed.until("the file has changed", |bed| (bed.exec(&id, "cat /v/a").as_deref() == Ok("two")).then_some(()));
    // It was exchanged whole, by a link, and nothing was started again for it.
    assert_eq!(bed.exec(&id, "readlink /v/a").as_deref().map(str::trim), Ok("..data/a"));
    assert_eq!(bed.running_of("reads"), [id]);
}

fn limited(memory: &str, cpu: &str) -> Value {
    let amounts = json!({"memory": memory, "cpu": cpu});
    json!({
        "containers": [
            {
                "name": "c", "image": BUSYBOX, "command": ["sh", "-c", SLEEP],
                "resources": {"limits": amounts, "requests": amounts},
            },
        ],
    })
}

fn resize(bed: &Bed, name: &str, memory: &str, cpu: &str) {
    let mut pod = bed.get(&format!("{PODS}/{name}"));
    pod["spec"]["containers"][0]["resources"] = limited(memory, cpu)["containers"][0]["resources"].clone();
    let (code, answer) = bed.send("PUT", &format!("{PODS}/{name}/resize"), &pod.to_string());
    assert_eq!(code, 200, "{answer}");
}

fn limits(bed: &Bed, id: &str) -> String {
    bed.docker(&["inspect", "-f", "{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}", id]).trim().to_owned()
}

fn resize_in_place(bed: &mut Bed) {
    bed.start();
    post(bed, "p", &limited("64Mi", "100m"));
    let id = runs(bed, "c");
    assert_eq!(limits(bed, &id), format!("{} 10000", 64 << 20));
    resize(bed, "p", "96Mi", "200m");
    bed.until("the engine has it", |bed| (limits(bed, &id) == format!("{} 20000", 96 << 20)).then_some(()));
    let shown = bed.until("the status tells it", |bed| {
        let status = status(bed, "p");
        let resources = &status["containerStatuses"][0]["resources"];
        (resources["limits"] == json!({"cpu": "200m", "memory": "96Mi"})).then_some(status)
    });
    assert_eq!((bed.running_of("c"), &shown["containerStatuses"][0]["restartCount"]), (vec![id], &json!(0)));
}

fn resize_waits_for_room(bed: &mut Bed) {
    bed.start();
    post(bed, "p", &limited("64Mi", "100m"));
    let id = runs(bed, "c");
    bed.until("it is ready", |bed| holds(&status(bed, "p"), "Ready"));
    // All that the node has, of which the other pod has some.
    post(bed, "q", &limited("64Mi", "100m"));
    bed.until("the other is ready", |bed| holds(&status(bed, "q"), "Ready"));
    let allocatable = bed.get("/api/v1/nodes")["items"][0]["status"]["allocatable"]["cpu"]
        .as_str()
        .map(str::to_owned)
        .expect("an amount");
    resize(bed, "p", "64Mi", &allocatable);
    let pending = bed.until("its resize waits", |bed| holds(&status(bed, "p"), "PodResizePending"));
    assert_eq!(pending["reason"], "Deferred", "{pending}");
    let text = pending["message"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("Node didn't have enough resource: cpu, requested: ") && text.contains(", used: 100, "),
        "{text}"
    );
    assert_eq!(status(bed, "p")["containerStatuses"][0]["resources"]["limits"]["cpu"], "100m");
    // An agent that starts anew hears from the engine what the pod has.
    bed.stop_agent();
    bed.start_agent();
    bed.until("it is ready again", |bed| bed.ready("p").filter(|ready| *ready));
    assert_eq!(limits(bed, &id), format!("{} 10000", 64 << 20));
    resize(bed, "p", "64Mi", "150m");
    bed.until("there is room for that", |bed| (limits(bed, &id) == format!("{} 15000", 64 << 20)).then_some(()));
    bed.until("nothing waits any more", |bed| holds(&status(bed, "p"), "PodResizePending").is_none().then_some(()));
    let runs = bed.running_of("c");
    assert!(runs.len() == 2 && runs.contains(&id), "neither was started anew: {runs:?}");
}

/// Each counts its starts in a directory of the host.
fn ended_over_an_engine_restart(bed: &mut Bed) {
    bed.start();
    let folder = bed.path("counts").display().to_string();
    let counts = |name: &str, then: &str| {
        let line = format!("echo start >> /counts/{name}; {then}");
        let mounts = json!([{"name": "counts", "mountPath": "/counts"}]);
        json!({"name": name, "image": BUSYBOX, "command": ["sh", "-c", line], "volumeMounts": mounts})
    };
    // Without a type the directory is made.
    let volumes = json!([{"name": "counts", "hostPath": {"path": folder}}]);
    let started = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default().lines().count();
    for (name, policy, then) in
        [("done", "OnFailure", "exit 0"), ("failed", "Never", "exit 3"), ("goes", "Always", SLEEP)]
    {
        post(bed, name, &json!({"restartPolicy": policy, "volumes": volumes, "containers": [counts(name, then)]}));
    }
    let phase = |bed: &Bed, name: &str| status(bed, name)["phase"].as_str().unwrap_or_default().to_owned();
    for (name, ends) in [("done", "Succeeded"), ("failed", "Failed"), ("goes", "Running")] {
        bed.until(&format!("{name} is {ends}"), |bed| (phase(bed, name) == ends).then_some(()));
    }
    bed.engine.stop_with_containers();
    bed.engine.launch().expect("the engine starts");
    bed.until("what goes on was started again", |bed| {
        let count = status(bed, "goes")["containerStatuses"][0]["restartCount"].as_i64()?;
        (count == 1 && bed.running_of("goes").len() == 1 && started("goes") == 2).then_some(())
    });
    for (name, ends) in [("done", "Succeeded"), ("failed", "Failed")] {
        let status = status(bed, name);
        assert_eq!(
            (&status["phase"], &status["containerStatuses"][0]["restartCount"]),
            (&json!(ends), &json!(0)),
            "{status}"
        );
        assert_eq!((started(name), bed.running_of(name).len()), (1, 0), "{name}");
    }
}

fn empty_directory_over_its_limit(bed: &mut Bed) {
    bed.start();
    let line = format!("head -c 4000000 /dev/zero > /v/file; {SLEEP}");
    let container = json!({
        "name": "fills", "image": BUSYBOX, "command": ["sh", "-c", line],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    post(
        bed,
        "fills",
        &json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}], "containers": [container]}),
    );
    let evicted =
        bed.until("it is evicted", |bed| Some(status(bed, "fills")).filter(|status| status["reason"] == "Evicted"));
    assert_eq!(
        (&evicted["phase"], &evicted["message"]),
        (&json!("Failed"), &json!("Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "))
    );
    assert!(bed.running_of("fills").is_empty(), "it runs no more");
}

/// Of 40 KiB, with the other stream between its pieces: what the engine keeps in three records is one line.
fn whole_lines_of_a_log(bed: &mut Bed) {
    bed.start();
    let x = |count: usize, then: &str| format!("head -c {count} /dev/zero | tr '\\0' x; {then}");
    let line =
        format!("echo first; {}{}{SLEEP}", x(20_000, "sleep 0.3; echo error >&2; sleep 0.3; "), x(20_960, "echo; "));
    let talks = json!({"name": "talks", "image": BUSYBOX, "command": ["sh", "-c", line]});
    let other = json!({"name": "other", "image": BUSYBOX, "command": ["sh", "-c", format!("echo other; {SLEEP}")]});
    post(bed, "talks", &json!({"containers": [talks, other]}));
    let long = "x".repeat(40_960);
    let asked = |bed: &Bed, words: &[&str]| bed.ask_program(&[&["logs"], words, &["talks"]].concat(), b"").text();
    bed.until("all is written", |bed| asked(bed, &[]).contains(&long).then_some(()));
    let of = |words: &[&str]| asked(bed, words).lines().map(str::to_owned).collect::<Vec<_>>();
    let (first, error) = ("first".to_owned(), "error".to_owned());
    assert!(of(&[]) == [first.clone(), long.clone(), error.clone()], "all of it, line by line");
    assert!(of(&["--tail", "2"]) == [long.clone(), error.clone()], "the last two lines, whole");
    assert_eq!(of(&["--tail", "1"]), std::slice::from_ref(&error));
    assert_eq!(of(&["--stream", "stderr"]), std::slice::from_ref(&error));
    let stamped = of(&["--timestamps"]);
    let stamp = |line: &str| line.split(' ').next().is_some_and(|stamp| stamp.parse::<jiff::Timestamp>().is_ok());
    assert!(
        stamped.len() == 3 && stamped.iter().all(|line| stamp(line) && line.matches('T').count() == 1),
        "one stamp a line"
    );
    bed.until("the other talks as well", |bed| asked(bed, &["-c", "other"]).contains("other").then_some(()));
    let all = of(&["--all-containers"]);
    assert!(all == [first, long, error, "other".to_owned()], "of one container after the other");
}
