//! What is killed, hung, restarted, exchanged.

use crate::Test;
use crate::bed::{AGENT, Bed, run};
use crate::engine::Brand;
use crate::images::{self, BUSYBOX};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

/// An image that says what only an agent may say.
const EVIL: &str = "coracle/evil:1";

pub const TESTS: &[Test] = &[
    ("life_container_killed_by_hand", container_killed_by_hand),
    ("life_agent_killed_and_restarted", agent_killed_and_restarted),
    ("life_one_ends_while_the_agent_is_away", one_ends_while_the_agent_is_away),
    ("life_what_ended_stays_ended", what_ended_stays_ended),
    ("life_init_containers_and_sidecars", init_containers_and_sidecars),
    ("life_all_containers_restart", all_containers_restart),
    ("life_agent_killed_while_starting_pods", agent_killed_while_starting_pods),
    ("life_engine_absent_then_there", engine_absent_then_there),
    ("life_engine_restarted", engine_restarted),
    ("life_engine_hung", engine_hung),
    ("life_strangers_are_not_touched", strangers_are_not_touched),
    ("life_labels_of_an_image_are_not_ours", labels_of_an_image_are_not_ours),
    ("life_one_agent_to_an_engine", one_agent_to_an_engine),
    ("life_master_silent_emptied_exchanged", master_silent_emptied_exchanged),
    ("life_master_killed_under_load", master_killed_under_load),
    ("life_reboot_without_master", reboot_without_master),
    ("life_same_name_in_two_namespaces", same_name_in_two_namespaces),
];

fn sleeper(id: &str) -> String {
    format!(
        "version: v1beta2\nid: {id}\ncontainers:\n  - name: {id}\n    image: {BUSYBOX}\n    command: ['sh', '-c', \
         'trap \"exit 0\" TERM; while true; do sleep 0.2; done']\n"
    )
}

fn runs(bed: &Bed, container: &str) -> String {
    bed.until(&format!("{container} runs"), |bed| {
        let mut ids = bed.running_of(container);
        (ids.len() == 1).then(|| ids.remove(0))
    })
}

fn container_killed_by_hand(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s"));
    let before = runs(bed, "s");
    bed.docker(&["kill", &before]);
    bed.until("it is back", |bed| bed.running_of("s").into_iter().find(|id| *id != before));
    let count =
        |bed: &Bed| bed.pod_like("s").and_then(|p| p["status"]["containerStatuses"][0]["restartCount"].as_i64());
    bed.until("the count says 1", |bed| count(bed).filter(|n| *n == 1));
    // With the sandbox gone the whole pod is made anew. Podman lets nobody take it away below its containers.
    let sandbox = bed.running_of("POD").pop().expect("a sandbox");
    match bed.engine.brand {
        Brand::Docker => bed.docker(&["rm", "-f", &sandbox]),
        Brand::Podman => bed.docker(&["kill", &sandbox]),
    };
    bed.until("a new sandbox and the container run", |bed| {
        let sandboxes = bed.running_of("POD");
        (sandboxes.len() == 1 && sandboxes[0] != sandbox && bed.running_of("s").len() == 1).then_some(())
    });
}

fn agent_killed_and_restarted(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s"));
    let before = runs(bed, "s");
    let all = bed.docker(&["ps", "-aq"]);
    bed.kill_agent();
    assert_eq!(bed.running_of("s"), std::slice::from_ref(&before), "it runs without an agent");
    bed.start_agent_with(&[]);
    bed.until("the agent knows it", |bed| bed.pod_like("s").filter(|p| p["status"]["phase"] == "Running"));
    bed.stop_agent();
    bed.start_agent_with(&[]);
    bed.until("the agent knows it", |bed| bed.pod_like("s").filter(|p| p["status"]["phase"] == "Running"));
    assert_eq!(bed.docker(&["ps", "-aq"]), all, "nothing was made or removed");
    assert_eq!(bed.pod_like("s").expect("it is there")["status"]["containerStatuses"][0]["restartCount"], 0);
    // Gone while nobody watched: noticed at the start.
    bed.kill_agent();
    bed.remove_manifest("s");
    bed.start_agent_with(&[]);
    bed.until("it is stopped", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
}

/// As with a kubelet: what ended meanwhile is told at the start, and of what goes on nothing is told anew.
fn one_ends_while_the_agent_is_away(bed: &mut Bed) {
    bed.start();
    post_sleeper(bed, "default", "stays");
    let line = "while [ ! -e /go ]; do sleep 0.1; done; exit 3";
    let spec = json!({
        "restartPolicy": "Never", "containers": [{"name": "ends", "image": BUSYBOX, "command": ["sh", "-c", line]}],
    });
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "ends"}, "spec": spec}).to_string());
    let status = |bed: &Bed, pod: &str| {
        bed.send("GET", &format!("/api/v1/namespaces/default/pods/{pod}"), "").1["status"].take()
    };
    let ready = |bed: &Bed, pod: &str| {
        let status = status(bed, pod);
        let is_true = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        status["conditions"].as_array().is_some_and(|all| all.iter().any(is_true)).then_some(status)
    };
    let [before, _] = ["stays", "ends"].map(|pod| bed.until(&format!("{pod} is ready"), |bed| ready(bed, pod)));
    let id = runs(bed, "ends");
    bed.stop_agent();
    bed.exec(&id, "touch /go").expect("it runs");
    bed.until("it has ended", |bed| bed.running_of("ends").is_empty().then_some(()));
    bed.start_agent();
    let after =
        bed.until("its end is told", |bed| Some(status(bed, "ends")).filter(|status| status["phase"] == "Failed"));
    let ended = &after["containerStatuses"][0];
    assert_eq!((&ended["state"]["terminated"]["exitCode"], &ended["restartCount"]), (&json!(3), &json!(0)), "{after}");
    let now = status(bed, "stays");
    // This host has no address of its own, so that one may change.
    for part in ["containerStatuses", "conditions", "phase", "startTime"] {
        assert_eq!(now[part], before[part], "{part}");
    }
}

/// What is left of a container that has ended for good is removed by hand, before the agent's eyes and behind its back.
fn what_ended_stays_ended(bed: &mut Bed) {
    let all_of = |bed: &Bed, container: &str| {
        let filter = format!("label=io.kubernetes.container.name={container}");
        let listed = bed.docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]);
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = |bed: &Bed, pod: &str, container: &str| {
        // A mirror is gone for a moment when it is made anew.
        let (_, pod) = bed.send("GET", &format!("/api/v1/namespaces/default/pods/{pod}"), "");
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let code = statuses.into_iter().find(|status| status["name"] == container)?["state"]["terminated"]["exitCode"]
            .as_i64();
        Some((pod["metadata"]["uid"].as_str()?.to_owned(), code?))
    };
    let spec = |policy: &str, ends: &str, code: i64| {
        json!({
            "restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [
                {"name": ends, "image": BUSYBOX, "command": ["sh", "-c", format!("exit {code}")]},
                {"name": format!("{ends}-stays"), "image": BUSYBOX, "command": ["sleep", "3600"]},
            ],
        })
    };
    let pods = [("never", "Never", 3), ("on-failure", "OnFailure", 0), ("file-n1", "Never", 4)];
    bed.start();
    for (name, policy, code) in pods {
        let document = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec(policy, name, code),
            })
        };
        match name.strip_suffix("-n1") {
            Some(file) => {
                let mut pod = document(file);
                pod["spec"] = spec(policy, name, code);
                bed.drop_manifest("file.json", &pod.to_string());
            }
            None => drop(bed.post("/api/v1/namespaces/default/pods", &document(name).to_string())),
        }
    }
    let ended = pods.map(|(name, _, code)| {
        let (uid, _) = bed.until(&format!("{name} is shown as ended"), |bed| {
            shown(bed, name, name).filter(|(_, shown)| *shown == code)
        });
        runs(bed, &format!("{name}-stays"));
        uid
    });
    let remove = |bed: &Bed| {
        pods.iter().for_each(|(name, _, _)| all_of(bed, name).iter().for_each(|id| drop(bed.docker(&["rm", id]))))
    };
    // Whoever starts a container that is dropped now has looked at the others.
    remove(bed);
    bed.drop_manifest("s", &sleeper("s"));
    runs(bed, "s");
    for (name, _, code) in pods {
        assert_eq!((all_of(bed, name).len(), shown(bed, name, name).map(|(_, code)| code)), (0, Some(code)), "{name}");
    }
    bed.kill_agent();
    bed.start_agent();
    // Nobody knows any more of the file's that it ended: as with a kubelet it runs once more, and has a mirror of its
    // own.
    let (uid, _) = bed.until("the file's has run once more", |bed| {
        shown(bed, "file-n1", "file-n1")
            .filter(|(uid, code)| *uid != ended[2] && *code == 4 && all_of(bed, "file-n1").len() == 1)
    });
    assert_ne!(uid, ended[2]);
    for (n, (name, _, code)) in pods.into_iter().enumerate().take(2) {
        assert_eq!((all_of(bed, name).len(), shown(bed, name, name)), (0, Some((ended[n].clone(), code))), "{name}");
    }
}

/// An init container hears of its pod and tells the main one, beside a sidecar that starts before both and ends after
/// them.
fn init_containers_and_sidecars(bed: &mut Bed) {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let side = "sleep 1; touch /tmp/up; trap 'echo ended >> /v/log; exit 0' TERM; while true; do sleep 0.1; done";
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {
            "restartPolicy": "Never", "shareProcessNamespace": true, "terminationGracePeriodSeconds": 10,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [
                {"name": "side", "image": BUSYBOX, "restartPolicy": "Always", "volumeMounts": mounts,
                    "command": ["sh", "-c", side],
                    "startupProbe": {"exec": {"command": ["cat", "/tmp/up"]}, "periodSeconds": 1}},
                {"name": "init", "image": BUSYBOX, "volumeMounts": mounts,
                    "env": [{"name": "NAME", "valueFrom": field("metadata.name")},
                        {"name": "IP", "valueFrom": field("status.podIP")}],
                    "command": ["sh", "-c", "test -n \"$IP\" && echo init $NAME >> /v/log"]},
            ],
            "containers": [{"name": "main", "image": BUSYBOX, "volumeMounts": mounts,
                "command":
                ["sh", "-c",
                    "echo main >> /v/log; ps | grep -q /pause && sleep 1; cat /v/log > /dev/termination-log"]}],
        },
    });
    bed.start();
    bed.post("/api/v1/namespaces/default/pods", &document.to_string());
    let pod =
        bed.until("the pod has succeeded", |bed| bed.pod_like("p").filter(|pod| pod["status"]["phase"] == "Succeeded"));
    let status = &pod["status"];
    let ended = |list: &str, at: usize| status[list][at]["state"]["terminated"]["exitCode"].clone();
    let codes = [ended("initContainerStatuses", 0), ended("initContainerStatuses", 1), ended("containerStatuses", 0)];
    assert_eq!(codes, [json!(0), json!(0), json!(0)], "{status:#}");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["message"], "init p\nmain\n");
    let started = |list: &str, at: usize| {
        let began = &status[list][at]["state"]["terminated"]["startedAt"];
        began.as_str().expect("it has ended").to_owned()
    };
    assert!(started("initContainerStatuses", 0) < started("initContainerStatuses", 1), "{status:#}");
}

/// A container ends with a code for which its rule restarts all of its pod; the agent dies in the middle of it.
fn all_containers_restart(bed: &mut Bed) {
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let sleep = "trap 'exit 0' TERM; while true; do sleep 0.1; done";
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}});
    let source = format!("[ -f /v/twice ] || {{ [ -f /v/once ] && touch /v/twice; touch /v/once; exit 42; }}; {sleep}");
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {
            "restartPolicy": "Never", "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [
                {"name": "init", "image": BUSYBOX, "volumeMounts": mounts,
                    "command": ["sh", "-c", "echo init >> /v/log"]},
                {"name": "side", "image": BUSYBOX, "restartPolicy": "Always", "command": ["sh", "-c", sleep]},
            ],
            "containers": [
                {"name": "source", "image": BUSYBOX, "volumeMounts": mounts, "command": ["sh", "-c", source],
                    "restartPolicy": "Never", "restartPolicyRules": [rule]},
                {"name": "regular", "image": BUSYBOX, "volumeMounts": mounts, "command": ["sh", "-c", sleep]},
            ],
        },
    });
    bed.start();
    bed.post("/api/v1/namespaces/default/pods", &document.to_string());
    let condition = |pod: &Value| {
        let all = pod["status"]["conditions"].as_array()?;
        Some(all.iter().find(|one| one["type"] == "AllContainersRestarting")?["status"].clone())
    };
    let counts = |pod: &Value| {
        let all = ["initContainerStatuses", "containerStatuses"]
            .map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
        all.concat().iter().map(|one| one["restartCount"].as_i64().unwrap_or(-1)).collect::<Vec<_>>()
    };
    // The first time all start at once; the second time they wait.
    let told = |pod: &Value| condition(pod) == Some(json!("True")) && counts(pod) == [2; 4];
    let waits = bed.until("they wait to start once more", |bed| bed.pod_like("p").filter(told));
    assert_eq!(waits["status"]["phase"], "Running", "{:#}", waits["status"]);
    bed.kill_agent();
    bed.start_agent();
    let sandboxes = bed.docker(&["ps", "-aq", "--filter", "label=io.kubernetes.container.name=POD"]);
    assert_eq!(sandboxes.lines().count(), 1, "the sandbox stays");
    let pod = bed
        .until("all run", |bed| bed.pod_like("p").filter(|pod| pod["status"]["containerStatuses"][1]["ready"] == true));
    assert_eq!(
        pod["status"]["containerStatuses"][1]["lastState"]["terminated"]["reason"], "RestartingAllContainers",
        "{:#}",
        pod["status"]
    );
    assert_eq!((condition(&pod), &pod["status"]["phase"]), (Some(json!("False")), &json!("Running")));
    let id = runs(bed, "regular");
    assert_eq!(bed.docker(&["exec", &id, "cat", "/v/log"]).trim(), "init\ninit\ninit");
}

fn agent_killed_while_starting_pods(bed: &mut Bed) {
    let names: Vec<String> = (0..6).map(|n| format!("p{n}")).collect();
    for name in &names {
        bed.drop_manifest(name, &sleeper(name));
    }
    for _ in 0..6 {
        bed.start_agent_with(&[]);
        let begun = bed.docker(&["ps", "-aq"]).lines().count();
        bed.until("it has made something more, or all is made", |bed| {
            let now = bed.docker(&["ps", "-aq"]).lines().count();
            (now > begun || now >= 2 * names.len()).then_some(())
        });
        bed.kill_agent();
    }
    bed.start_agent_with(&[]);
    for name in &names {
        runs(bed, name);
    }
    bed.until("nothing is left over", |bed| {
        (bed.docker(&["ps", "-aq"]).lines().count() == 2 * names.len()).then_some(())
    });
}

fn engine_absent_then_there(bed: &mut Bed) {
    bed.engine.signal("TERM");
    bed.engine.ended();
    bed.drop_manifest("s", &sleeper("s"));
    bed.start_agent_with(&[]);
    let said = bed.until("/healthz says it", |bed| bed.health(AGENT).1.contains("ngine").then(|| bed.health(AGENT)));
    assert_ne!(said.0, 200, "{}", said.1);
    bed.engine.launch().expect("dockerd starts");
    runs(bed, "s");
    bed.until("/healthz is well", |bed| (bed.health(AGENT).0 == 200).then_some(()));
}

fn engine_restarted(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s"));
    runs(bed, "s");
    bed.engine.signal("TERM");
    bed.engine.ended();
    bed.engine.launch().expect("dockerd starts");
    runs(bed, "s");
    bed.until("nothing is doubled or left over", |bed| (bed.docker(&["ps", "-q"]).lines().count() == 2).then_some(()));
    // Killed, its containers survive their engine; the next one takes them for dead.
    bed.engine.signal("KILL");
    bed.engine.ended();
    bed.engine.launch().expect("dockerd starts");
    runs(bed, "s");
}

fn engine_hung(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s"));
    let before = runs(bed, "s");
    bed.engine.signal("STOP");
    bed.until("/healthz says it", |bed| (bed.health(AGENT).0 != 200).then_some(()));
    bed.drop_manifest("t", &sleeper("t"));
    bed.engine.signal("CONT");
    runs(bed, "t");
    assert_eq!(bed.running_of("s"), [before]);
    bed.until("/healthz is well", |bed| (bed.health(AGENT).0 == 200).then_some(()));
}

fn strangers_are_not_touched(bed: &mut Bed) {
    let name = "k8s_s_s_default_0123_0";
    let stranger = bed.docker(&["run", "-d", "--name", name, BUSYBOX, "sleep", "3600"]);
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s"));
    runs(bed, "s");
    bed.remove_manifest("s");
    bed.until("ours are gone", |bed| bed.running_of("s").is_empty().then_some(()));
    bed.until("ours are removed", |bed| (bed.docker(&["ps", "-aq"]).lines().count() == 1).then_some(()));
    assert_eq!(
        bed.docker(&["inspect", "-f", "{{.Id}} {{.State.Running}}", name]).trim(),
        format!("{} true", stranger.trim())
    );
}

/// An image says of its containers what the agent says of its own: a hook that asks a server of this host, and whatever
/// else there is.
fn labels_of_an_image_are_not_ours(bed: &mut Bed) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it does not wait");
    let port = listener.local_addr().expect("an address").port();
    let hook =
        json!({"Http": {"scheme": "HTTP", "host": "127.0.0.1", "port": port, "path": "/from-a-label", "headers": []}});
    let labels = [
        ("kind", "container".to_owned()),
        ("source", "file".to_owned()),
        ("pre-stop", hook.to_string()),
        ("host-ports", r#"[{"container_port":80,"protocol":"tcp","host_ip":"","host_port":8000}]"#.to_owned()),
        ("holds-volumes", "true".to_owned()),
        ("message-policy", "FallbackToLogsOnError".to_owned()),
        ("message-file", "/etc/passwd".to_owned()),
    ];
    // Podman takes what stands there as it is.
    let quoted = |value: &str| if bed.engine.brand == Brand::Docker { format!("{value:?}") } else { value.to_owned() };
    let changes = labels.iter().map(|(name, value)| format!("LABEL dev.coracle.{name}={}", quoted(value)));
    let changes: Vec<String> = changes.chain(["CMD [\"sh\"]".to_owned(), "ENV PATH=/bin".to_owned()]).collect();
    images::busybox_with(bed.engine, EVIL, &changes).expect("an image with labels");

    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &sleeper("s").replace(BUSYBOX, EVIL));
    let id = runs(bed, "s");
    let inspected: Value = serde_json::from_str(&bed.docker(&["inspect", &id])).expect("JSON");
    let of_image: Value = serde_json::from_str(&bed.docker(&["inspect", EVIL])).expect("JSON");
    assert_eq!(of_image[0]["Config"]["Labels"]["dev.coracle.pre-stop"], hook.to_string(), "the image says it");
    for name in ["pre-stop", "host-ports", "holds-volumes", "message-policy"] {
        assert_eq!(inspected[0]["Config"]["Labels"][format!("dev.coracle.{name}")], "", "{name}");
    }
    bed.remove_manifest("s");
    bed.until("it is stopped and removed", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
    assert_eq!(
        listener.accept().map(drop).map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock),
        "nobody was asked"
    );

    // Nor does the sweep believe them.
    let stranger = bed.docker(&["run", "-d", "--name", "mine", EVIL, "sleep", "3600"]);
    bed.drop_manifest("s", &sleeper("s").replace(BUSYBOX, EVIL));
    runs(bed, "s");
    bed.kill_agent();
    let sweep = format!("source {}/../packaging/sweep.sh; sweep", env!("CARGO_MANIFEST_DIR"));
    run(Command::new("bash").args(["-euc", &sweep]).env("DOCKER_HOST", bed.engine.socket())).expect("it sweeps");
    assert_eq!(bed.docker(&["ps", "-aq", "--no-trunc"]).trim(), stranger.trim(), "ours are gone, and nothing else");
    bed.docker(&["rm", "-f", "mine"]);
    bed.docker(&["image", "rm", EVIL]);
}

fn one_agent_to_an_engine(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let (code, text) = bed.second_agent();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("n1") || text.contains(&bed.agent_pid().to_string()), "it names the first: {text}");
}

fn post_sleeper(bed: &Bed, namespace: &str, name: &str) {
    let spec = json!({
        "containers": [{"name": name, "image": BUSYBOX, "command": ["sleep", "3600"]}],
        "terminationGracePeriodSeconds": 1,
    });
    bed.post(
        &format!("/api/v1/namespaces/{namespace}/pods"),
        &json!({"metadata": {"name": name}, "spec": spec}).to_string(),
    );
}

fn master_silent_emptied_exchanged(bed: &mut Bed) {
    bed.start();
    post_sleeper(bed, "default", "s");
    let before = runs(bed, "s");
    // Silent.
    bed.kill_master();
    bed.kill_agent();
    bed.start_agent();
    bed.until("the agent knows it", |bed| bed.pod_like("s"));
    assert_eq!(bed.running_of("s"), std::slice::from_ref(&before));
    // Emptied: another cluster answers under the same name.
    std::fs::remove_dir_all(bed.path("master")).expect("the master's data");
    bed.start_master();
    bed.until("the agent has registered with it", |bed| {
        bed.get("/api/v1/nodes")["items"][0]["metadata"]["name"].as_str().map(str::to_owned)
    });
    post_sleeper(bed, "default", "t");
    bed.until("the agent has noticed the other cluster", |bed| {
        bed.log("agent").to_lowercase().contains("cluster").then_some(())
    });
    assert_eq!(bed.running_of("s"), [before], "an emptied master kills nothing");
}

fn master_killed_under_load(bed: &mut Bed) {
    bed.start();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        for n in 0..20 {
            let name = format!("c{round}-{n}");
            let (code, _) = bed.send(
                "POST",
                "/api/v1/namespaces/default/endpoints",
                &json!({"metadata": {"name": name}}).to_string(),
            );
            if code == 201 {
                acknowledged.push(name);
            }
        }
        bed.kill_master();
        bed.start_master();
    }
    let list = bed.get("/api/v1/namespaces/default/endpoints");
    let names: Vec<&str> =
        list["items"].as_array().expect("a list").iter().filter_map(|i| i["metadata"]["name"].as_str()).collect();
    assert!(
        acknowledged.len() >= 50 && acknowledged.iter().all(|name| names.contains(&name.as_str())),
        "every acknowledged write is there"
    );
    post_sleeper(bed, "default", "after");
    runs(bed, "after");
}

fn reboot_without_master(bed: &mut Bed) {
    bed.start();
    post_sleeper(bed, "default", "s");
    runs(bed, "s");
    bed.kill_master();
    bed.kill_agent();
    // A reboot ends all containers; the engine keeps their remains.
    let ids = bed.docker(&["ps", "-q"]);
    bed.docker(&[&["kill"][..], &ids.lines().collect::<Vec<_>>()[..]].concat());
    bed.start_agent();
    runs(bed, "s");
}

fn same_name_in_two_namespaces(bed: &mut Bed) {
    bed.start();
    bed.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}}).to_string());
    post_sleeper(bed, "default", "s");
    post_sleeper(bed, "other", "s");
    bed.until("both run", |bed| (bed.running_of("s").len() == 2).then_some(()));
    let (code, answer) = bed.send("DELETE", "/api/v1/namespaces/other/pods/s", "");
    assert_eq!(code, 200, "{answer}");
    bed.until("one is gone", |bed| (bed.running_of("s").len() == 1).then_some(()));
    bed.until("and from the API", |bed| {
        (bed.send("GET", "/api/v1/namespaces/other/pods/s", "").0 == 404).then_some(())
    });
    assert_eq!(bed.get("/api/v1/namespaces/default/pods/s")["metadata"]["name"], "s");
}
