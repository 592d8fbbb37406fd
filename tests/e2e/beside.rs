//! Somebody uses Docker beside the agent.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use serde_json::{Value, json};

pub const TESTS: &[Test] = &[
    ("beside_one_instance_runs", one_instance_runs),
    ("beside_copies", copies),
    ("beside_memory_outlives_the_engine", memory_outlives_the_engine),
    ("beside_removed_image_comes_from_its_archive", removed_image_comes_from_its_archive),
];

/// What somebody may type more than once in a second.
const LINES_OF_A_DEED_MAX: usize = 40;

/// It takes its signal ill, as many first processes do.
fn stubborn(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": name, "image": BUSYBOX, "command": ["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"]},
        ]},
    })
}

/// The one instance that runs, which its pod shows as ready.
fn settled(bed: &Bed, name: &str) -> (String, i64) {
    bed.until(&format!("one {name} runs and is ready"), |bed| {
        let ids = bed.running_of(name);
        let shown = bed.pod_like(name)?["status"]["containerStatuses"][0].clone();
        let same = ids.len() == 1 && shown["containerID"] == format!("docker://{}", ids[0]);
        (same && shown["ready"] == true).then(|| (ids[0].clone(), shown["restartCount"].as_i64().unwrap_or(-1)))
    })
}

fn one_instance_runs(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let deeds: [(&str, &[&[&str]], i64); 8] = [
        ("restart", &[&["restart", "-t", "0", "ID"]], 2),
        ("stop and start", &[&["stop", "-t", "0", "ID"], &["start", "ID"]], 2),
        ("kill", &[&["kill", "-s", "KILL", "ID"]], 1),
        ("signal", &[&["kill", "-s", "HUP", "ID"]], 0),
        ("remove", &[&["rm", "-f", "ID"]], 1),
        ("pause", &[&["pause", "ID"]], 0),
        ("rename", &[&["rename", "ID", "mine"]], 0),
        ("restart twice", &[&["restart", "-t", "0", "ID"], &["restart", "-t", "0", "ID"]], 3),
    ];
    for (at, (what, commands, more)) in deeds.iter().enumerate() {
        // Each on a pod of its own, or they would wait for each other's back-off.
        let name = format!("s{at}");
        let mut pod = stubborn(&name);
        if *what == "signal" {
            pod["spec"]["containers"][0]["command"][2] = "trap '' TERM HUP; while true; do sleep 0.1; done".into();
        }
        bed.drop_manifest(&name, &pod.to_string());
        let (id, count) = settled(bed, &name);
        let lines = bed.log("agent").lines().count();
        for command in *commands {
            let command: Vec<&str> =
                command.iter().map(|word| if *word == "ID" { id.as_str() } else { word }).collect();
            // What the agent is just ending or removing cannot be had.
            let _ = bed.engine.docker(&command);
        }
        bed.until(&format!("{what}: the count is {more}"), |bed| {
            let shown = bed.pod_like(&name)?["status"]["containerStatuses"][0].clone();
            let told = shown["restartCount"].as_i64()?;
            // The second one may come when nothing is there any more.
            let fits = told == count + more || (*what == "restart twice" && told == count + 2);
            (fits && shown["ready"] == true).then_some(())
        });
        let (now, _) = settled(bed, &name);
        assert_eq!(now == id, *more == 0, "{what}");
        let more_lines = bed.log("agent").lines().count() - lines;
        assert!(more_lines < LINES_OF_A_DEED_MAX, "{what}: {more_lines} lines\n{}", bed.log("agent"));
        bed.remove_manifest(&name);
        bed.until(&format!("{what}: nothing of it is left"), |bed| {
            bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(())
        });
    }
}

/// A container of a committed image is somebody's own, whatever labels it has. One that was given them is not, and
/// ends.
fn copies(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    bed.drop_manifest("s", &stubborn("s").to_string());
    let (id, count) = settled(bed, "s");
    bed.docker(&["commit", &id, "coracle/committed:1"]);
    let mine = bed.docker(&["run", "-d", "--name", "mine", "--entrypoint", "", "coracle/committed:1", "sleep", "3600"]);
    let labels: Value =
        serde_json::from_str(&bed.docker(&["inspect", "-f", "{{json .Config.Labels}}", &id])).expect("JSON");
    let labels: Vec<String> = labels
        .as_object()
        .expect("labels")
        .iter()
        .flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={}", value.as_str().expect("a text"))])
        .collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let copy = [&["run", "-d", "--name", "copy"][..], &labels, &[BUSYBOX, "sleep", "3600"]].concat();
    // The agent may be quicker than the engine's start, and then the command fails.
    let _ = bed.engine.docker(&copy);
    bed.until("the agent took the copy away", |bed| bed.log("agent").contains("remove a dead s").then_some(()));
    let all = |bed: &Bed| bed.docker(&["ps", "-aq", "--no-trunc"]).lines().map(str::to_owned).collect::<Vec<_>>();
    bed.until("the copy is gone", |bed| (all(bed).len() == 3).then_some(()));
    assert!(all(bed).contains(&mine.trim().to_owned()) && all(bed).contains(&id));
    // Renamed while no agent looks, it is found all the same.
    bed.kill_agent();
    bed.docker(&["rename", &id, "other"]);
    bed.start_agent_with(&[]);
    bed.until("the agent knows it", |bed| bed.pod_like("s"));
    let shown = bed.until("it is ready", |bed| {
        let shown = bed.pod_like("s")?["status"]["containerStatuses"][0].clone();
        (shown["ready"] == true).then_some(shown)
    });
    assert_eq!(
        (shown["containerID"].as_str(), shown["restartCount"].as_i64()),
        (Some(format!("docker://{id}").as_str()), Some(count))
    );
    bed.remove_manifest("s");
    bed.until("only what is not ours is left", |bed| (all(bed) == [mine.trim()]).then_some(()));
    bed.docker(&["rm", "-f", "mine"]);
    bed.docker(&["image", "rm", "coracle/committed:1"]);
}

/// An engine that is restarted below its containers knows no more what it has mounted.
fn memory_outlives_the_engine(bed: &mut Bed) {
    let restart = |bed: &Bed, live: bool| {
        bed.engine.signal("TERM");
        bed.engine.ended();
        bed.engine.launch_with(if live { &["--live-restore"] } else { &[] }).expect("dockerd starts");
    };
    restart(bed, true);
    bed.start_agent_with(&[]);
    let mounts = json!([{"name": "m", "mountPath": "/m"}]);
    let waits = "trap 'exit 0' TERM; while true; do sleep 0.1; done";
    let container =
        |name: &str| json!({"name": name, "image": BUSYBOX, "command": ["sh", "-c", waits], "volumeMounts": mounts});
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"fsGroup": 77},
            "volumes": [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
            "initContainers": [
                {"name": "i", "image": BUSYBOX, "command": ["sh", "-c", "echo kept > /m/f"], "volumeMounts": mounts},
            ],
            "containers": [container("a"), container("b")],
        },
    });
    bed.drop_manifest("p", &document.to_string());
    let one = |bed: &Bed, name: &str| bed.until(&format!("{name} runs"), |bed| bed.running_of(name).pop());
    let (a, b) = (one(bed, "a"), one(bed, "b"));
    restart(bed, true);
    assert_eq!(one(bed, "b"), b, "it ran on");
    bed.docker(&["kill", &a]);
    let next = bed.until("the next one runs", |bed| bed.running_of("a").into_iter().find(|id| *id != a));
    for id in [&next, &b] {
        assert_eq!(bed.exec(id, "cat /m/f").as_deref(), Ok("kept\n"));
        assert_eq!(bed.exec(id, "stat -c '%a %g' /m").as_deref(), Ok("2777 77\n"));
        assert_eq!(
            bed.exec(id, "dd if=/dev/zero of=/m/big bs=1M count=2 2>/dev/null; stat -c %s /m/big; rm /m/big")
                .as_deref(),
            Ok("1044480\n")
        );
    }
    bed.remove_manifest("p");
    bed.until("all of it is gone", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
    bed.until("and is mounted no more", |_| {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("it is read");
        (!mounts.contains("/run/coracle/volumes/n1/pods")).then_some(())
    });
    bed.stop_agent();
    restart(bed, false);
}

fn removed_image_comes_from_its_archive(bed: &mut Bed) {
    const ARCHIVED: &str = "coracle/archived:1";
    let folder = bed.path("images");
    std::fs::create_dir_all(&folder).expect("a folder");
    bed.docker(&["tag", BUSYBOX, ARCHIVED]);
    bed.docker(&["save", "-o", &folder.join("archived.tar").display().to_string(), ARCHIVED]);
    bed.docker(&["image", "rm", ARCHIVED]);
    bed.start_agent_with(&["--images-dir", &folder.display().to_string()]);
    bed.until("it is loaded", |bed| bed.engine.docker(&["image", "inspect", ARCHIVED]).ok());
    bed.docker(&["image", "rm", ARCHIVED]);
    let mut pod = stubborn("s");
    pod["spec"]["containers"][0]["image"] = ARCHIVED.into();
    pod["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
    bed.drop_manifest("s", &pod.to_string());
    settled(bed, "s");
    assert!(!bed.log("agent").contains("could not be pulled"), "no registry is asked");
    bed.remove_manifest("s");
    bed.until("it is gone", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
    bed.docker(&["image", "rm", ARCHIVED]);
}
