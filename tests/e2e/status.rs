//! The status to trust: each problem is made true, seen in every place that tells problems, and gone again.

use crate::Test;
use crate::bed::Bed;
use crate::images::BUSYBOX;
use serde_json::{Value, json};

pub const TESTS: &[Test] = &[
    ("status_of_containers_that_fail", containers_that_fail),
    ("status_of_pods_that_wait", pods_that_wait),
    ("status_of_a_broken_file", broken_file),
    ("status_without_an_agent", without_an_agent),
];

/// A pod that is not as it should be, and the words of its problem.
struct Case {
    name: &'static str,
    /// The fields of its one container, beside the image.
    container: Value,
    /// Further fields of its spec.
    spec: Value,
    reason: &'static str,
    words: &'static [&'static str],
}

fn shell(line: &str) -> Value {
    json!({"command": ["sh", "-c", line]})
}

fn containers_that_fail(bed: &mut Bed) {
    let killed = json!({
        "command": ["sh", "-c", "while true; do sleep 0.1; done"],
        "livenessProbe": {"exec": {"command": ["sh", "-c", "echo the pump stands; exit 1"]},
            "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 1},
    });
    let hungry = json!({
        "command": ["sh", "-c", "x=x; while true; do x=$x$x$x; done"], "resources": {"limits": {"memory": "16Mi"}},
    });
    let device = json!({
        "command": ["sleep", "1000"], "volumeMounts": [{"name": "stick", "mountPath": "/dev/ttyUSB7"}],
    });
    let none = || json!({});
    let cases = [
        Case {
            name: "no-program",
            container: json!({"command": ["/no/such/program"]}),
            spec: none(),
            reason: "ContainerFailed",
            words: &["its program is missing in the image", "/no/such/program"],
        },
        Case {
            name: "exit-one",
            container: shell("echo starts; echo the database is away; exit 1"),
            spec: none(),
            reason: "ContainerFailed",
            words: &["exit code 1 (", "the last line of its log: the database is away", "coracle logs -p exit-one"],
        },
        Case {
            name: "hungry",
            container: hungry,
            spec: none(),
            reason: "ContainerFailed",
            words: &["killed for memory", "OOMKilled"],
        },
        Case {
            name: "stuck",
            container: killed,
            spec: none(),
            reason: "ContainerFailed",
            words: &["killed because its liveness probe failed: the pump stands"],
        },
        Case {
            name: "no-device",
            container: device,
            spec: json!({"volumes": [{"name": "stick", "hostPath": {"path": "/dev/ttyUSB7", "type": "CharDevice"}}]}),
            reason: "",
            words: &["/dev/ttyUSB7"],
        },
    ];
    check(bed, &cases);
}

fn pods_that_wait(bed: &mut Bed) {
    let sleeps = || json!({"command": ["sh", "-c", "while true; do sleep 0.1; done"]});
    let mut unready = sleeps();
    unready["readinessProbe"] = json!({
        "exec": {"command": ["sh", "-c", "echo no answer yet; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1,
    });
    let mut secret = sleeps();
    secret["env"] = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]);
    let cases = [
        Case {
            name: "no-image",
            container: json!({"image": "127.0.0.1:9/nodered:4"}),
            spec: json!({}),
            reason: "ImageMissing",
            words: &["waits for its image 127.0.0.1:9/nodered:4 from 127.0.0.1:9", "connection refused"],
        },
        Case { name: "no-secret", container: secret, spec: json!({}), reason: "", words: &["login"] },
        Case {
            name: "unready",
            container: unready,
            spec: json!({}),
            reason: "ProbeFails",
            words: &["the readiness probe of container c fails", "no answer yet"],
        },
    ];
    check(bed, &cases);
}

/// All at once, then each goes.
fn check(bed: &mut Bed, cases: &[Case]) {
    bed.start_agent_with(&[]);
    for case in cases {
        let mut container = json!({"name": "c", "image": BUSYBOX});
        container.as_object_mut().unwrap().extend(case.container.as_object().cloned().unwrap_or_default());
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": case.name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}});
        pod["spec"].as_object_mut().unwrap().extend(case.spec.as_object().cloned().unwrap_or_default());
        bed.drop_manifest(&format!("{}.json", case.name), &pod.to_string());
    }
    for case in cases {
        let what = format!("{}: {} {:?}", case.name, case.reason, case.words);
        let reason = bed.until(&what, |bed| {
            let found = problems(bed).into_iter().find(|problem| problem["subject"]["name"] == case.name)?;
            let line = format!("{} {} {}", found["what"], found["why"], found["advice"]);
            let fits = case.words.iter().all(|word| line.contains(word));
            let reason = found["reason"].as_str()?.to_owned();
            (fits && [&reason, ""].contains(&case.reason)).then_some(reason)
        });
        bed.until(&format!("{what} in every place"), |bed| seen_everywhere(bed, case, &reason).then_some(()));
    }
    for case in cases {
        bed.remove_manifest(&format!("{}.json", case.name));
    }
    bed.until("all is well again", |bed| {
        let said = bed.ask_program(&["status"], &[]);
        (said.code == 0 && said.text().lines().any(|line| line == "all is well")).then_some(())
    });
    let metrics = bed.ask_agent("/metrics").expect("metrics");
    assert!(metrics.contains("coracle_problems{severity=\"problem\",reason=\"\"} 0"), "{metrics}");
}

fn problems(bed: &Bed) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&bed.ask_agent("/problems").unwrap_or_default()).unwrap_or_default();
    answer["problems"].as_array().cloned().unwrap_or_default()
}

/// In the text, in the JSON and in the metrics.
fn seen_everywhere(bed: &Bed, case: &Case, reason: &str) -> bool {
    let subject = format!("pod default/{}: ", case.name);
    let wide = bed.ask_program(&["status", "-o", "wide"], &[]);
    let text = wide.text();
    let told = text.lines().any(|line| line.trim().starts_with(&subject));
    let whole = case.words.iter().all(|word| text.contains(word));
    let short = bed.ask_program(&["status"], &[]);
    let cut = short.text().lines().all(|line| line.chars().count() <= 160);
    let document: Value =
        serde_json::from_str(&bed.ask_program(&["status", "-o", "json"], &[]).text()).unwrap_or_default();
    let mut listed = document["problems"].as_array().into_iter().flatten();
    let in_json = listed.any(|problem| problem["subject"]["name"] == case.name && problem["reason"] == reason);
    let metrics = bed.ask_agent("/metrics").unwrap_or_default();
    let counted = metrics.contains(&format!("coracle_problems{{severity=\"problem\",reason=\"{reason}\"}}"));
    wide.code == 1 && short.code == 1 && told && whole && cut && in_json && counted
}

fn broken_file(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let good = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         containers:\n  - {{name: c, image: '{BUSYBOX}', command: [sh, -c, 'while true; do sleep 0.1; done']}}\n"
    );
    bed.drop_manifest("web.yaml", &good);
    let before = bed.until("it runs", |bed| bed.running_of("c").pop());
    bed.until("all is well", |bed| (bed.ask_program(&["status"], &[]).code == 0).then_some(()));
    bed.drop_manifest("web.yaml", "kind: [");
    let found = bed.until("the file is a problem", |bed| {
        problems(bed).into_iter().find(|problem| problem["severity"] == "problem")
    });
    assert_eq!((&found["reason"], &found["subject"]["kind"]), (&json!("FileRefused"), &json!("file")), "{found}");
    assert!(found["what"].as_str().unwrap_or_default().contains("its last good version goes on"), "{found}");
    let said = bed.ask_program(&["status"], &[]);
    assert!(said.code == 1 && said.text().contains("web.yaml: it is not used"), "{said:?}");
    assert_eq!(bed.running_of("c"), [before]);
    bed.drop_manifest("web.yaml", &good);
    bed.until("it is good again", |bed| (bed.ask_program(&["status"], &[]).code == 0).then_some(()));
}

fn without_an_agent(bed: &mut Bed) {
    let said = bed.ask_program(&["status"], &[]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("no agent runs as node n1"), "{said:?}");
    let said = bed.ask_program(&["status", "-o", "loud"], &[]);
    assert_eq!(said.code, 2, "{said:?}");
}
