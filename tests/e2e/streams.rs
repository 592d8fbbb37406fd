//! Looking into pods with stock clients: every command that opens a stream, over WebSocket and over SPDY.

use crate::Test;
use crate::bed::{Bed, MASTER, Said, run};
use crate::images::BUSYBOX;
use crate::kubectl::{Going, clients, newest};
use coracle_tests::stock::python;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

pub const TESTS: &[Test] = &[
    ("streams_commands", commands),
    ("streams_terminals", terminals),
    ("streams_copies", copies),
    ("streams_ports", ports),
    ("streams_attached", attached),
    ("streams_logs", logs),
    ("streams_logs_over_rotations", rotations),
    ("streams_logs_of_terminals", terminals_logs),
    ("streams_end_with_their_pod", end_with_their_pod),
    ("streams_figures", figures),
    ("streams_refusals", refusals),
    ("streams_on_the_host_alone", on_the_host),
    ("streams_python", python_client),
];

/// More than all buffers on the way hold together.
const LARGE_BYTES: usize = 3 << 20;

/// Serves what is in /www, and the sum of what it is sent.
const SERVES: &str = "mkdir -p /www/cgi-bin; printf '#!/bin/sh\\necho; exec sha256sum\\n' > /www/cgi-bin/sum; chmod +x \
                      /www/cgi-bin/sum; echo ready; exec httpd -f -p 127.0.0.1:8080 -h /www";

/// Pod `box`, whose container `c` runs, and serves.
pub fn start_box(bed: &mut Bed) {
    bed.start();
    pod(bed, "box", &json!({"containers": [{"name": "c", "image": BUSYBOX, "command": ["sh", "-c", SERVES]}]}));
    bed.until("it is ready", |_| newest().run(&["logs", "box"], b"").text().contains("ready").then_some(()));
}

/// A pod, once it runs.
pub fn pod(bed: &Bed, name: &str, spec: &Value) {
    let mut spec = spec.clone();
    spec["terminationGracePeriodSeconds"] = 1.into();
    bed.post(
        "/api/v1/namespaces/default/pods",
        &json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}).to_string(),
    );
    bed.until(&format!("{name} runs"), |bed| phase(bed, name).filter(|phase| phase == "Running"));
}

fn phase(bed: &Bed, name: &str) -> Option<String> {
    bed.get(&format!("/api/v1/namespaces/default/pods/{name}"))["status"]["phase"].as_str().map(str::to_owned)
}

/// Every byte there is, in no order.
pub fn bytes(count: usize) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat_with({
        let mut state = 1;
        move || step(&mut state)
    })
    .flatten()
    .take(count)
    .collect()
}

fn commands(bed: &mut Bed) {
    start_box(bed);
    let large = bytes(LARGE_BYTES);
    for client in clients() {
        let name = client.name();
        let said = client.run(&["exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], b"");
        assert_eq!((said.code, said.text().as_str()), (7, "out\n"), "{name}: {said:?}");
        assert!(said.err.contains("err\n") && said.err.contains("exit code 7"), "{name}: {said:?}");
        // All of it there, its end too, and all of it back.
        let said = client.run(&["exec", "-i", "box", "--", "cat"], &large);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{name}: {} bytes came back", said.out.len());
        assert!(said.out == large, "{name}: {} bytes came back, others", said.out.len());
        let both = client.run(&["exec", "box", "--", "sh", "-c", "seq 60000 >&2 & seq 60000; wait"], b"");
        let expected: String = (1..=60_000).map(|number| format!("{number}\n")).collect();
        assert!(
            both.text() == expected && both.err == expected,
            "{name}: {} and {} bytes",
            both.out.len(),
            both.err.len()
        );
        // A command that reads nothing ends as it likes.
        let said = client.run(&["exec", "-i", "box", "--", "sh", "-c", "exec 0<&-; exit 3"], &large);
        assert_eq!(said.code, 3, "{name}: {said:?}");
        let said = client.run(&["exec", "deploy/none", "--", "true"], b"");
        assert!(said.code == 1 && said.err.contains("NotFound"), "{name}: {said:?}");
    }
}

fn terminals(bed: &mut Bed) {
    start_box(bed);
    let sized = "until [ \"$(stty size)\" = '31 97' ]; do sleep 0.1; done; tty; echo sized; exit 4";
    for client in clients() {
        let name = client.name();
        let said = client.at_terminal(&["exec", "-it", "box", "--", "sh", "-c", sized], "");
        assert!(said.code == 4 && said.text().contains("sized") && said.text().contains("/dev/"), "{name}: {said:?}");
        // A shell that is typed at; what is typed comes back as it is typed, and as what it prints.
        let said = client.at_terminal(&["exec", "-it", "box", "--", "sh"], "echo so''far; exit 5\n");
        assert!(said.code == 5 && said.text().contains("sofar"), "{name}: {said:?}");
    }
}

fn copies(bed: &mut Bed) {
    start_box(bed);
    let from = bed.path("from");
    fs::create_dir_all(from.join("deep/er")).expect("a folder");
    for (file, content) in
        [("large", bytes(4 * LARGE_BYTES)), ("empty", Vec::new()), ("deep/er/a b", b"text\n".to_vec())]
    {
        fs::write(from.join(file), content).expect("a file");
    }
    let large = fs::read(from.join("large")).expect("it was written");
    for client in clients() {
        let (name, inside) = (client.name(), format!("box:/tmp/{}", client.word()));
        let back = bed.path(&format!("back-{}", client.word()));
        client.must(&["cp", &from.to_string_lossy(), &inside]);
        client.must(&["cp", &inside, &back.to_string_lossy()]);
        run(Command::new("diff").arg("-r").args([&from, &back])).unwrap_or_else(|e| panic!("{name}: {e}"));
        // One file under another name, by its container's name.
        client.must(&["cp", "-c", "c", &from.join("large").to_string_lossy(), &format!("{inside}.one")]);
        assert!(
            client.run(&["exec", "box", "--", "cat", &format!("/tmp/{}.one", client.word())], b"").out == large,
            "{name}"
        );
        // Some kubectls end before they have told what tar says of it.
        client.run(&["cp", "box:/tmp/none", &back.join("none").to_string_lossy()], b"");
        assert!(!back.join("none").exists(), "{name}: a file of nothing");
    }
}

fn fetch(url: &str, more: &[&str]) -> Result<Vec<u8>, String> {
    let output =
        Command::new("curl").args(["-sS", "-m", "60"]).args(more).arg(url).output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn ports(bed: &mut Bed) {
    start_box(bed);
    let (large, file) = (bytes(LARGE_BYTES), bed.path("large"));
    fs::write(&file, &large).expect("a file");
    let sum = run(Command::new("sha256sum").arg(&file)).expect("it sums");
    let sum = sum.split(' ').next().expect("the sum").to_owned();
    newest().must(&["cp", &file.to_string_lossy(), "box:/www/large"]);
    for client in clients() {
        let name = client.name();
        let mut going = Going::start(&client, &["port-forward", "box", ":8080"]);
        let url = format!("http://127.0.0.1:{}", going.port());
        assert!(
            fetch(&format!("{url}/large"), &[]).as_deref() == Ok(&large[..]),
            "{name}: what came is not what is there"
        );
        let answer = fetch(&format!("{url}/cgi-bin/sum"), &["--data-binary", &format!("@{}", file.display())])
            .expect("it is sent");
        assert!(String::from_utf8_lossy(&answer).contains(&sum), "{name}: what was sent is not what came");
        let fetching: Vec<_> = (0..8)
            .map(|_| {
                let url = format!("{url}/large");
                std::thread::spawn(move || fetch(&url, &[]))
            })
            .collect();
        for thread in fetching {
            assert!(thread.join().expect("it fetches").as_deref() == Ok(&large[..]), "{name}: one of many");
        }
        // Nobody listens there: that connection ends, and why is told.
        let mut deaf = Going::start(&client, &["port-forward", "box", ":9"]);
        let port = deaf.port();
        fetch(&format!("http://127.0.0.1:{port}/"), &[]).expect_err("nobody listens there");
        bed.until("it is told why", |_| {
            deaf.errors().to_lowercase().contains("connect: connection refused").then_some(())
        });
        // And the other goes on.
        assert!(fetch(&format!("{url}/large"), &[]).as_deref() == Ok(&large[..]), "{name}: the other goes on");
    }
}

fn attached(bed: &mut Bed) {
    start_box(bed);
    let image = format!("--image={BUSYBOX}");
    for client in clients() {
        let (name, word) = (client.name(), client.word());
        let ears = format!("ears-{word}");
        let listens = "while read -r line; do echo heard $line; done; echo end";
        let container =
            json!({"name": "c", "image": BUSYBOX, "stdin": true, "stdinOnce": true, "command": ["sh", "-c", listens]});
        pod(bed, &ears, &json!({"restartPolicy": "Never", "containers": [container]}));
        let said = client.run(&["attach", "-i", &ears], b"one\ntwo\n");
        assert!(said.code == 0 && said.text().contains("heard one\nheard two\nend\n"), "{name}: {said:?}");

        let once = format!("once-{word}");
        let run = ["run", &once, "-i", "--rm", "--restart=Never", &image, "--", "sh", "-c", "cat; exit 6"];
        let said = client.run(&run, b"one\ntwo\n");
        assert!(said.code == 6 && said.text().contains("one\ntwo\n"), "{name}: {said:?}");
        assert_eq!(bed.send("GET", &format!("/api/v1/namespaces/default/pods/{once}"), "").0, 404, "{name}: --rm");

        // Quicker than whoever attaches to it.
        for n in 0..3 {
            let brief = format!("brief-{n}-{word}");
            let said =
                client.run(&["run", &brief, "-i", "--rm", "--restart=Never", &image, "--", "sh", "-c", "exit 9"], b"");
            assert_eq!(said.code, 9, "{name}: {said:?}");
        }

        let typed = format!("typed-{word}");
        let said = client.at_terminal(
            &["run", &typed, "-it", "--rm", "--restart=Never", &image, "--", "sh"],
            "echo so''far; exit 7\n",
        );
        assert!(said.code == 7 && said.text().contains("sofar"), "{name}: {said:?}");

        let looks = format!("looks-{word}");
        let debug = ["debug", "box", "-it", &image, "--target=c", "-c", &looks, "--", "sh"];
        let said = client.at_terminal(&debug, "ps; exit\n");
        assert!(said.text().contains("httpd -f"), "{name}: {said:?}");
    }
}

fn logs(bed: &mut Bed) {
    bed.start();
    let talks = "n=$(cat /v/n 2>/dev/null || echo 1); echo $((n + 1)) > /v/n; echo out $n; echo err $n >&2; [ $n = 1 ] \
                 && exit 1; exec sleep 3600";
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let container = json!({"name": "c", "image": BUSYBOX, "command": ["sh", "-c", talks], "volumeMounts": mounts});
    let other = json!({"name": "d", "image": BUSYBOX, "command": ["sh", "-c", "echo other; exec sleep 3600"]});
    pod(bed, "talks", &json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [container, other]}));
    bed.until("it talks again", |_| {
        newest().run(&["logs", "talks", "-c", "c"], b"").text().contains("err 2").then_some(())
    });
    let lines = |said: &str| {
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join("|")
    };
    for client in clients() {
        let name = client.name();
        let of = |flags: &[&str]| client.must(&[&["logs", "talks", "-c", "c"], flags].concat());
        assert_eq!(lines(&of(&[])), "err 2|out 2", "{name}");
        assert_eq!(lines(&of(&["--previous"])), "err 1|out 1", "{name}");
        assert_eq!(of(&["--tail=1"]).lines().count(), 1, "{name}");
        assert_eq!(of(&["--tail=0"]), "", "{name}");
        assert_eq!(of(&["--limit-bytes=4"]).len(), 4, "{name}");
        assert_eq!(lines(&of(&["--since=1h"])), "err 2|out 2", "{name}");
        assert_eq!(of(&["--since-time=2100-01-01T00:00:00Z"]), "", "{name}");
        let stamped = of(&["--timestamps"]);
        let stamp = stamped.split(' ').next().and_then(|stamp| stamp.parse::<jiff::Timestamp>().ok());
        assert!(stamp.is_some(), "{name}: {stamped}");
        assert_eq!(lines(&client.must(&["logs", "talks", "--all-containers"])), "err 2|other|out 2", "{name}");
        assert_eq!(client.must(&["logs", "-l", "app=talks", "-c", "d", "--prefix"]), "[pod/talks/d] other\n", "{name}");
        let said = client.run(&["logs", "talks", "-c", "none"], b"");
        assert!(said.code == 1 && said.err.contains("container none is not valid for pod talks"), "{name}: {said:?}");
        let said = client.run(&["logs", "talks", "-c", "d", "--previous"], b"");
        assert!(
            said.code == 1 && said.err.contains("previous terminated container \"d\" in pod \"talks\" not found"),
            "{name}: {said:?}"
        );
    }
    // Followed until its container ends, which starts again.
    let client = newest();
    let mut going = Going::start(&client, &["logs", "-f", "talks", "-c", "c"]);
    let first = [going.line(), going.line()];
    assert_eq!(lines(&first.concat()), "err 2|out 2");
    let id = bed.running_of("c").pop().expect("it runs");
    bed.docker(&["kill", &id]);
    bed.until("who follows is let go with its container", |_| going.ended());
    bed.until("the next one talks", |_| {
        (lines(&client.run(&["logs", "talks", "-c", "c"], b"").text()) == "err 3|out 3").then_some(())
    });
}

/// More than the engine keeps in one file: who follows sees every line once, and so does who comes later.
fn rotations(bed: &mut Bed) {
    bed.start();
    let lines = 200_000;
    let talks = format!("read -r line; seq {lines}; exec sleep 3600");
    let container = json!({"name": "c", "image": BUSYBOX, "stdin": true, "command": ["sh", "-c", talks]});
    pod(bed, "talks", &json!({"containers": [container]}));
    let client = newest();
    let mut going = Going::start(&client, &["logs", "-f", "talks"]);
    let mut typed = Going::start(&client, &["attach", "-i", "talks"]);
    typed.input.as_mut().expect("it is piped").write_all(b"go\n").expect("it is typed");
    for number in 1..=lines {
        assert_eq!(going.line(), format!("{number}\n"));
    }
    let later = client.must(&["logs", "talks"]);
    assert!(later.lines().enumerate().all(|(index, line)| line == (index + 1).to_string()), "in their order");
    assert_eq!(later.lines().count(), lines);
}

/// A line of a terminal is one line with one timestamp, though the engine keeps it in pieces.
fn terminals_logs(bed: &mut Bed) {
    bed.start();
    let says = "head -c 50000 /dev/zero | tr '\\0' B; echo; echo short; exec sleep 3600";
    let container = json!({"name": "c", "image": BUSYBOX, "tty": true, "command": ["sh", "-c", says]});
    pod(bed, "typed", &json!({"containers": [container]}));
    let client = newest();
    bed.until("it has spoken", |_| client.must(&["logs", "typed"]).contains("short").then_some(()));
    let lengths = |flags: &[&str]| -> Vec<usize> {
        let said = client.must(&[&["logs", "typed"], flags].concat());
        said.lines().map(|line| line.trim_end_matches('\r').len()).collect()
    };
    assert_eq!(lengths(&[]), [50_000, 5]);
    let stamp = "2026-01-01T00:00:00.000000000Z ".len();
    assert_eq!(lengths(&["--timestamps"]), [50_000 + stamp, 5 + stamp]);
    assert_eq!(lengths(&["--tail=1"]), [5]);
    assert_eq!(lengths(&["--tail=2"]), [50_000, 5]);
}

/// A command that outlives its container, as where the processes of a pod are common to all, ends for its client.
fn end_with_their_pod(bed: &mut Bed) {
    bed.start();
    let waits = "trap 'exit 0' TERM; while true; do sleep 1; done";
    let container = json!({"name": "c", "image": BUSYBOX, "command": ["sh", "-c", waits]});
    for (name, shares) in [("common", true), ("own", false)] {
        pod(bed, name, &json!({"shareProcessNamespace": shares, "containers": [container]}));
        let client = newest();
        let mut runs = Going::start(&client, &["exec", name, "--", "sh", "-c", "echo here; exec sleep 1000"]);
        assert_eq!(runs.line(), "here\n");
        client.must(&["delete", "pod", name, "--wait=false"]);
        bed.until("the command ends with its pod", |_| runs.ended());
        bed.until("and the pod goes", |bed| {
            (bed.send("GET", &format!("/api/v1/namespaces/default/pods/{name}"), "").0 == 404).then_some(())
        });
    }
}

fn figures(bed: &mut Bed) {
    start_box(bed);
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    let container = json!({"name": "c", "image": BUSYBOX, "command": ["sleep", "3600"], "readinessProbe": probe});
    pod(bed, "probed", &json!({"containers": [container]}));
    bed.until("it is found ready", |bed| bed.ready("probed").filter(|ready| *ready));
    for client in clients() {
        let name = client.name();
        bed.until("a pod has figures", |_| {
            let said = client.run(&["top", "pod", "box", "--containers", "--no-headers"], b"");
            let text = said.text();
            let words: Vec<&str> = text.split_whitespace().collect();
            matches!(words.as_slice(), ["box", "c", cpu, memory] if cpu.ends_with('m') && memory.ends_with("Mi"))
                .then_some(())
        });
        let node = client.must(&["top", "node", "n1", "--no-headers"]);
        assert!(node.starts_with("n1 ") && node.contains('%'), "{name}: {node}");
    }
    let of_node = |path: &str| newest().must(&["get", "--raw", &format!("/api/v1/nodes/n1/proxy/{path}")]);
    let summary: Value = serde_json::from_str(&of_node("stats/summary")).expect("JSON");
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]);
    let claim = json!({
        "metadata": {"name": "kept"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "local"},
    });
    bed.post("/api/v1/namespaces/default/persistentvolumeclaims", &claim.to_string());
    let container = json!({
        "name": "c", "image": BUSYBOX, "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "data", "mountPath": "/d"}],
    });
    pod(bed, "keeps", &json!({"containers": [container], "volumes": volume}));
    bed.until("the claim has figures", |_| {
        of_node("metrics")
            .contains("kubelet_volume_stats_capacity_bytes{namespace=\"default\",persistentvolumeclaim=\"kept\"} ")
            .then_some(())
    });
    let pods = summary["pods"].as_array().cloned().unwrap_or_default();
    assert!(
        pods.iter().any(|pod| pod["podRef"]["name"] == "box" && pod["memory"]["workingSetBytes"].as_u64() > Some(0)),
        "{summary}"
    );
    for (path, line) in [
        ("metrics/cadvisor", "container_memory_working_set_bytes{container=\"c\""),
        ("metrics/resource", "pod_memory_working_set_bytes{namespace=\"default\",pod=\"box\"}"),
        ("metrics", "kubelet_running_pods"),
        ("metrics/probes", "namespace=\"default\",pod=\"probed\""),
    ] {
        let text = of_node(path);
        assert!(text.contains(line), "{path}: {text}");
    }
}

/// In Kubernetes' own words, and nothing else is disturbed.
fn refusals(bed: &mut Bed) {
    start_box(bed);
    let ended = json!({"name": "ended", "image": BUSYBOX, "command": ["true"]});
    let stays = json!({"name": "stays", "image": BUSYBOX, "command": ["sleep", "3600"]});
    pod(bed, "half", &json!({"restartPolicy": "Never", "containers": [ended, stays]}));
    let container = json!({"name": "c", "image": BUSYBOX, "command": ["true"]});
    let over = json!({"metadata": {"name": "over"}, "spec": {"restartPolicy": "Never", "containers": [container]}});
    bed.post("/api/v1/namespaces/default/pods", &over.to_string());
    bed.until("it is over", |bed| phase(bed, "over").filter(|phase| phase == "Succeeded"));
    bed.until("a container of the other has ended", |bed| {
        let pod = bed.get("/api/v1/namespaces/default/pods/half");
        pod["status"]["containerStatuses"].to_string().contains("Completed").then_some(())
    });
    for client in clients() {
        let name = client.name();
        for (arguments, words) in [
            (&["exec", "box", "--", "/no/such"][..], "no such file or directory"),
            (&["exec", "box", "--", "/no/such"], "error executing command in container"),
            (&["exec", "box", "-c", "none", "--", "true"], "container none is not valid for pod box"),
            (&["exec", "none", "--", "true"], "pods \"none\" not found"),
            (&["exec", "half", "-c", "ended", "--", "true"], "container not found (\"ended\")"),
            (
                &["exec", "over", "--", "true"],
                "cannot exec into a container in a completed pod; current phase is Succeeded",
            ),
            (&["attach", "over"], "cannot attach a container in a completed pod; current phase is Succeeded"),
            (
                &["port-forward", "over", ":80"],
                "unable to forward port because pod is not running. Current status=Succeeded",
            ),
        ] {
            let said = client.run(arguments, b"");
            assert!(said.code != 0 && said.err.contains(words), "{name} {arguments:?}: {said:?}");
        }
    }
    assert_eq!(newest().must(&["exec", "box", "--", "echo", "still"]), "still\n");
}

/// Without a master: the agent's own program asks its socket.
fn on_the_host(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let talks = "echo out; echo err >&2; sleep 3600";
    bed.drop_manifest(
        "talks",
        &format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: talks}}\n\
             spec:\n  containers:\n  - {{name: c, image: '{BUSYBOX}', command: [sh, -c, '{talks}']}}\n"
        ),
    );
    bed.until("it runs", |bed| bed.running_of("c").pop());
    let ask = |arguments: &[&str], input: &[u8]| -> Said { bed.ask_program(arguments, input) };
    bed.until("its log is there", |_| (ask(&["logs", "talks"], b"").text().lines().count() == 2).then_some(()));
    assert_eq!(ask(&["logs", "--tail=1", "--timestamps", "talks"], b"").text().lines().count(), 1);
    let large = bytes(LARGE_BYTES);
    let said = ask(&["exec", "-i", "talks", "--", "cat"], &large);
    assert!(said.code == 0 && said.out == large, "{} bytes, {} {}", said.out.len(), said.code, said.err);
    let said = ask(&["exec", "talks", "-c", "c", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], b"");
    assert_eq!((said.code, said.text().as_str(), said.err.as_str()), (7, "out\n", "err\n"));
    let said = ask(&["exec", "none", "--", "true"], b"");
    assert!(said.code == 1 && said.err.contains("none"), "{said:?}");
    let said = ask(&["exec", "talks", "--", "/no/such"], b"");
    assert!(said.code == 1 && said.err.contains("no such file or directory"), "{said:?}");
    let said = ask(&["logs", "talks", "-c", "none"], b"");
    assert!(said.code == 1 && said.err.contains("container \"none\" not found in pod \"talks\""), "{said:?}");
}

fn python_client(bed: &mut Bed) {
    start_box(bed);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/clients/python/streams.py");
    let mut command = Command::new("timeout");
    command
        .arg("240")
        .arg(python().expect("a Python"))
        .arg("-B")
        .arg(script)
        .args([&format!("http://{MASTER}"), BUSYBOX]);
    let said = run(command.env_remove("http_proxy")).unwrap_or_else(|e| panic!("{e}"));
    assert!(said.contains("all is well"), "{said}");
}
