//! Manifest files: dropped, edited, broken, removed.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use serde_json::json;

pub const TESTS: &[Test] = &[
    ("manifest_of_2014", manifest_of_2014),
    ("manifest_pod_of_today", manifest_pod_of_today),
    ("manifest_edit_replaces_what_changed", edit_replaces_what_changed),
    ("manifest_broken_stops_nothing", broken_stops_nothing),
    ("manifest_removed_is_cleaned_up", removed_is_cleaned_up),
    ("manifest_many_starts_leave_little", many_starts_leave_little),
    ("manifest_refused_field_is_named", refused_field_is_named),
    ("manifest_image_that_is_nowhere", image_that_is_nowhere),
    ("manifest_termination_message_and_exit", termination_message_and_exit),
    ("manifest_probes", probes),
    ("manifest_variables_of_a_file", variables_of_a_file),
    ("manifest_host_port", host_port),
];

/// Two containers that share a volume and a network, in the words of 2014.
fn two(first: &str, second: &str) -> String {
    format!(
        "version: v1beta1
id: pair
containers:
  - name: one
    image: {BUSYBOX}
    command: ['sh', '-c', '{first}']
    env: [{{key: WHO, value: one}}]
    volumeMounts: [{{name: shared, path: /data}}]
  - name: two
    image: {BUSYBOX}
    command: ['sh', '-c', '{second}']
    volumeMounts: [{{name: shared, mountPath: /data, readOnly: true}}]
volumes:
  - name: shared
"
    )
}

const WRITES: &str = "echo from $WHO > /data/file; httpd -f -p 8080 -h /data";
const READS: &str = "sleep 3600";

fn running_pair(bed: &Bed) -> [String; 2] {
    bed.until("both containers run", |bed| {
        let [one, two] = ["one", "two"].map(|c| bed.running_of(c));
        (one.len() == 1 && two.len() == 1).then(|| [one[0].clone(), two[0].clone()])
    })
}

fn manifest_of_2014(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("pair", &two(WRITES, READS));
    let [_, two] = running_pair(bed);
    bed.until("the second reads what the first wrote", |bed| {
        bed.exec(&two, "cat /data/file").ok().filter(|text| text == "from one\n")
    });
    bed.until("the second reaches the first on localhost", |bed| {
        bed.exec(&two, "wget -q -O - http://127.0.0.1:8080/file").ok()
    });
    assert!(bed.exec(&two, "touch /data/x").is_err(), "a read-only mount is read-only");
    let pod = bed.until("the pod is Running with an address", |bed| {
        bed.pod_like("pair").filter(|p| p["status"]["phase"] == "Running" && p["status"]["podIP"].is_string())
    });
    let ip = pod["status"]["podIP"].as_str().expect("an address").to_owned();
    assert!(ip.starts_with("10.244.0."), "{ip} is of the pod CIDR");
    assert_eq!(bed.try_get(&format!("http://{ip}:8080/file")).as_deref(), Ok("from one\n"));
}

fn manifest_pod_of_today(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let pod = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "today"}}, "spec": {{"containers": [{{"name": "c", "image": "{BUSYBOX}",
            "command": ["sh"], "args": ["-c", "id -u > /dev/termination-log; exec sleep 3600"], "imagePullPolicy": "Never",
            "securityContext": {{"runAsUser": 1234}}, "resources": {{"limits": {{"memory": "32Mi"}}}}}}]}}}}"#
    );
    bed.drop_manifest("today.json", &pod);
    let id = bed.until("it runs", |bed| bed.running_of("c").pop());
    assert_eq!(bed.exec(&id, "id -u").as_deref(), Ok("1234\n"));
    assert_eq!(bed.docker(&["inspect", "-f", "{{.HostConfig.Memory}}", &id]).trim(), (32 << 20).to_string());
}

fn edit_replaces_what_changed(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("pair", &two(WRITES, READS));
    let [one, two_before] = running_pair(bed);
    bed.drop_manifest("pair", &two(WRITES, "sleep 3601"));
    let after =
        bed.until("the second is replaced", |bed| bed.running_of("two").into_iter().find(|id| *id != two_before));
    assert_ne!(after, two_before);
    assert_eq!(bed.running_of("one"), [one], "the first is untouched");
    bed.until("the old one is gone or dead", |bed| (bed.running_of("two") == [after.clone()]).then_some(()));
}

fn broken_stops_nothing(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("pair", &two(WRITES, READS));
    let before = running_pair(bed);
    bed.drop_manifest("pair", "version: v1beta1\nid: pair\ncontainers: {name: no-list}\n");
    bed.until("the log names the file and the field", |bed| {
        let log = bed.log("agent");
        log.lines().find(|l| l.contains("pair") && l.contains("containers")).map(str::to_owned)
    });
    bed.drop_manifest(
        "other",
        &two(WRITES, READS)
            .replace("id: pair", "id: other")
            .replace("name: one", "name: three")
            .replace("name: two", "name: four"),
    );
    bed.until("another file is read all the same", |bed| bed.running_of("three").pop());
    assert_eq!(running_pair(bed), before, "what ran from the last good version still runs");
    // Also over a restart of the agent.
    bed.kill_agent();
    bed.start_agent_with(&[]);
    bed.until("the agent has looked", |bed| bed.pod_like("other").filter(|p| p["status"]["phase"] == "Running"));
    assert_eq!(running_pair(bed), before);
    let said = bed.log("agent").lines().filter(|l| l.contains("pair: Pod default/pair (line 1): containers")).count();
    assert!(said <= 2, "said once by each agent, not {said} times");
}

fn removed_is_cleaned_up(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest(
        "pair",
        &two(
            "trap \"echo bye > /data/bye; exit 0\" TERM; echo ready > /data/file; while true; do sleep 0.1; done",
            READS,
        ),
    );
    running_pair(bed);
    let data = bed.path("agent");
    assert!(bed::find(&data, "file"), "the volume is a directory of the agent's");
    bed.remove_manifest("pair");
    bed.until("all of its containers are gone", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
    bed.until("its volume is gone", |_| (!bed::find(&data, "file")).then_some(()));
    assert!(bed.agent_pods().is_empty());
}

/// Of a container that started often, what runs and the one before; of a pod that is gone nothing, but what is not its
/// own.
fn many_starts_leave_little(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let volumes = |bed: &Bed| bed.docker(&["volume", "ls", "-q"]).lines().count();
    let (before, theirs) = (volumes(bed), bed.path("theirs"));
    std::fs::create_dir_all(&theirs).expect("a folder of the host's");
    let manifest = |turn: u32| {
        let theirs = theirs.display();
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: often}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: {BUSYBOX}
    command: ['sh', '-c', 'trap \"exit 0\" TERM; echo {turn} >> /own/kept; echo {turn} >> /theirs/kept; while true; do sleep 0.1; done']
    volumeMounts: [{{name: own, mountPath: /own}}, {{name: theirs, mountPath: /theirs}}, {{name: memory, mountPath: /memory}}]
  volumes:
  - {{name: own, emptyDir: {{}}}}
  - {{name: memory, emptyDir: {{medium: Memory}}}}
  - {{name: theirs, hostPath: {{path: {theirs}}}}}
"
        )
    };
    const TURNS: u32 = 5;
    let wrote = |turn: u32| {
        std::fs::read_to_string(theirs.join("kept")).is_ok_and(|text| text.lines().count() == turn as usize)
    };
    for turn in 1..=TURNS {
        bed.drop_manifest("often", &manifest(turn));
        bed.until("this edition of it has run", |_| wrote(turn).then_some(()));
    }
    let label = "label=io.kubernetes.container.name=c";
    bed.until("two of its containers are left", |bed| {
        (bed.docker(&["ps", "-aq", "--filter", label]).lines().count() == 2).then_some(())
    });
    let pods = bed.path("agent/pods");
    bed.until("and two of their files", |_| (messages(&pods) == 2).then_some(()));
    bed.remove_manifest("often");
    bed.until("all of its containers are gone", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
    let empty = |folder: &std::path::Path| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    bed.until("nothing of it is left on the disk", |_| empty(&pods).then_some(()));
    bed.until("nor in memory", |bed| (volumes(bed) == before).then_some(()));
    assert!(wrote(TURNS), "a folder of the host's stays");
}

/// Files of termination messages.
fn messages(pods: &std::path::Path) -> usize {
    let below = |folder: &std::path::Path| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    below(pods).iter().map(|pod| below(&pod.join("messages")).len()).sum()
}

use crate::bed;

fn refused_field_is_named(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: refused}}
spec:
  volumes: [{{name: v, iscsi: {{targetPortal: s, iqn: 'iqn.2026-01.s:p', lun: 0}}}}]
  containers: [{{name: c, image: '{BUSYBOX}', command: [sleep, '3600']}}]
"
    );
    bed.drop_manifest("refused", &pod);
    let pod = bed.until("the status names the field", |bed| {
        bed.pod_like("refused").filter(|p| p["status"]["message"].as_str().is_some_and(|m| m.contains("iscsi")))
    });
    assert_ne!(pod["status"]["phase"], "Running");
    assert!(bed.log("agent").contains("iscsi"), "the log names it as well");
    assert!(bed.docker(&["ps", "-aq"]).trim().is_empty(), "nothing of it was started");
}

fn image_that_is_nowhere(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest(
        "nowhere",
        "version: v1beta2\nid: nowhere\ncontainers: [{name: c, image: 'coracle/nowhere:1'}]\n",
    );
    let waiting = |bed: &Bed| {
        let pod = bed.pod_like("nowhere")?;
        let reason = pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].as_str()?.to_owned();
        ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str()).then_some(())
    };
    bed.until("the status says so", waiting);
    // Pulling always, and the registry out of reach: what is here runs.
    bed.drop_manifest(
        "always",
        &format!(
            "version: v1beta2\nid: always\ncontainers: [{{name: a, image: '{BUSYBOX}', command: [sleep, '3600'], \
             imagePullPolicy: PullAlways}}]\n"
        ),
    );
    bed.until("it runs with the image that is here", |bed| bed.running_of("a").pop());
}

fn termination_message_and_exit(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let manifest = format!(
        "version: v1beta2\nid: ends\nrestartPolicy: {{onFailure: {{}}}}\n\
         containers:\n  - name: c\n    image: {BUSYBOX}\n    command: ['sh', '-c', 'echo last words > \
         /dev/termination-log; exit 0']\n"
    );
    bed.drop_manifest("ends", &manifest);
    let pod = bed.until("it has succeeded", |bed| bed.pod_like("ends").filter(|p| p["status"]["phase"] == "Succeeded"));
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["reason"], &ended["message"]),
        (&0.into(), &"Completed".into(), &"last words\n".into())
    );
    bed.drop_manifest("fails", &manifest.replace("id: ends", "id: fails").replace("exit 0", "exit 3"));
    let pod = bed.until("it was restarted", |bed| {
        bed.pod_like("fails").filter(|p| p["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1))
    });
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
}

fn probes(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: probed}}
spec:
  containers:
    - name: c
      image: {BUSYBOX}
      command: [sh, -c, 'mkdir /www; touch /alive; httpd -f -p 8080 -h /www']
      readinessProbe: {{httpGet: {{path: /ready, port: 8080}}, periodSeconds: 1}}
      livenessProbe: {{exec: {{command: [cat, /alive]}}, periodSeconds: 1, failureThreshold: 1}}
"
    );
    bed.drop_manifest("probed", &pod);
    let id = bed.until("it runs", |bed| bed.running_of("c").pop());
    bed.until("it is Running", |bed| bed.pod_like("probed").filter(|p| p["status"]["phase"] == "Running"));
    assert_eq!(bed.ready("probed"), Some(false));
    bed.exec(&id, "touch /www/ready").expect("exec works");
    bed.until("it is ready", |bed| bed.ready("probed").filter(|ready| *ready));
    bed.exec(&id, "rm /alive").expect("exec works");
    let pod = bed.until("it was killed and restarted", |bed| {
        bed.pod_like("probed").filter(|p| {
            p["status"]["containerStatuses"][0]["restartCount"] == 1
                && bed.running_of("c").pop().is_some_and(|new| new != id)
        })
    });
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
}

/// Of an emptyDir, where an init container wrote it. A key that is missing is named.
fn variables_of_a_file(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let key =
        |key: &str| json!({"name": "X", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "env", "key": key}}});
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let pod = |name: &str, asked: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 1, "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "i", "image": BUSYBOX, "command": ["sh", "-c", "echo \"A='one'\" > /v/env"],
                "volumeMounts": mount}],
            "containers": [{"name": name, "image": BUSYBOX, "env": [key(asked)],
                "command": ["sh", "-c", "echo $X > /told; sleep 3600"]}]}})
    };
    bed.drop_manifest("good.json", &pod("good", "A").to_string());
    let variable = bed.until("it has told its variable", |bed| {
        let id = bed.running_of("good").pop()?;
        bed.exec(&id, "cat /told").ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(variable, "one\n");
    bed.drop_manifest("bad.json", &pod("bad", "B").to_string());
    let waiting = bed.until("it says what is missing", |bed| {
        let waiting = bed.pod_like("bad")?["status"]["containerStatuses"][0]["state"]["waiting"].take();
        (waiting["reason"] == "CreateContainerConfigError")
            .then(|| waiting["message"].as_str().unwrap_or_default().to_owned())
    });
    assert!(waiting.contains("environment variable key \"B\" not found in file"), "{waiting}");
}

fn host_port(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let manifest = |id: &str| {
        format!(
            "version: v1beta2\nid: {id}\ncontainers:\n  - name: {id}\n    image: {BUSYBOX}\n    command: ['sh', '-c', \
             'mkdir /www; echo {id} > /www/index.html; httpd -f -p 80 -h /www']\n    ports: [{{containerPort: 80, \
             hostPort: 8099}}]\n"
        )
    };
    bed.drop_manifest("a-first", &manifest("first"));
    bed.until("the host port answers", |bed| {
        bed.try_get("http://127.0.0.1:8099/").ok().filter(|text| text == "first\n")
    });
    bed.drop_manifest("b-second", &manifest("second"));
    let said = bed.until("the second says which port is taken", |bed| {
        let pod = bed.pod_like("second")?;
        Some(pod["status"].to_string()).filter(|text| text.contains("8099"))
    });
    assert!(said.contains("first"), "and by whom: {said}");
    assert!(bed.running_of("second").is_empty());
    bed.remove_manifest("a-first");
    bed.until("the second has the port once the first is gone", |bed| {
        bed.try_get("http://127.0.0.1:8099/").ok().filter(|text| text == "second\n")
    });
}
