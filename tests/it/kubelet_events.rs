//! The agent's events against those of a real kubelet 1.36, pod by pod.
//!
//!     recorded pod -> the agent's own loop and probes on a paused clock, with a scripted engine -> happenings
//!         -> events of the API
//!
//! Compared are the first occurrences, in their order: type, reason, field path, message. How often one is repeated
//! hangs on how often a kubelet syncs. Texts of the engine (why it refused a start, a pull) are given to ours as they
//! were given to the kubelet. What differs on purpose is in `INTENDED`, and has to differ.

mod engine;
mod play;

use std::collections::BTreeSet;

use coracle_agent::facts::naming::Source;
use serde_json::{Value, json};

/// Why, and which lines of which case: `-` the kubelet's alone, `+` the agent's alone.
const INTENDED: &[(&str, &[(&str, &str)])] = &[
    (
        "always, with the registry out of reach and the image here, starts, and says so",
        &[
            ("image-latest-default-policy", "- Warning Failed spec.containers{c}: Error: ErrImagePull"),
            (
                "image-latest-default-policy",
                "- Normal BackOff spec.containers{c}: Back-off pulling image \"127.0.0.1:5999/nope\"",
            ),
            ("image-latest-default-policy", "- Warning Failed spec.containers{c}: Error: ImagePullBackOff"),
            (
                "image-latest-default-policy",
                "+ Normal Pulled spec.containers{c}: Container image \"127.0.0.1:5999/nope\" already present on \
                 machine and can be accessed by the pod",
            ),
            ("image-latest-default-policy", "+ Normal Created spec.containers{c}: Container created"),
            ("image-latest-default-policy", "+ Normal Started spec.containers{c}: Container started"),
        ],
    ),
    (
        "the first try of a probe comes at once, so the third kill, which is followed by a wait, falls into the time \
         that was watched",
        &[(
            "probe-timeout",
            "+ Warning BackOff spec.containers{c}: Back-off restarting failed container c in pod probe-timeout_gt(uid)",
        )],
    ),
    (
        "other pods stood on the kubelet's node",
        &[
            (
                "rejected-outofcpu",
                "- Warning OutOfcpu pod: Node didn't have enough resource: cpu, requested: 100000, used: 60, capacity: \
                 2000",
            ),
            (
                "rejected-outofcpu",
                "+ Warning OutOfcpu pod: Node didn't have enough resource: cpu, requested: 100000, used: 0, capacity: \
                 2000",
            ),
        ],
    ),
];

#[test]
fn as_a_kubelet_tells_it() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/data/v1/kubelet");
    let mut intended: BTreeSet<(String, String)> = BTreeSet::new();
    for (_, lines) in INTENDED {
        intended.extend(lines.iter().map(|(case, line)| ((*case).to_owned(), (*line).to_owned())));
    }
    let (mut cases, mut agreed) = (0, 0);
    let mut wrongs = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text.replace("<uid>", play::UID)).unwrap();
        let events = play::play(name, &case);
        let second = case["second"]["events"].as_array().cloned();
        let theirs = [(name.to_owned(), case["events"].as_array().cloned())];
        for (name, recorded) in theirs.into_iter().chain([(format!("{name}2"), second)]) {
            let Some(recorded) = recorded else { continue };
            cases += 1;
            let ours = first_of_each(events.iter().filter(|event| is_about(event, &name, play::source(&case))));
            let theirs = first_of_each(recorded.iter());
            let both: Vec<&String> = ours.iter().filter(|line| theirs.contains(line)).collect();
            agreed += both.len();
            let alone = |sign: &str, lines: &[String], others: &[String]| -> Vec<(String, String)> {
                lines
                    .iter()
                    .filter(|line| !others.contains(line))
                    .map(|line| (name.clone(), format!("{sign} {line}")))
                    .collect()
            };
            for difference in [alone("-", &theirs, &ours), alone("+", &ours, &theirs)].concat() {
                if !intended.remove(&difference) {
                    wrongs.push(format!("{}: {}", difference.0, difference.1));
                }
            }
            if both != theirs.iter().filter(|line| ours.contains(line)).collect::<Vec<_>>() {
                wrongs.push(format!("{name}: another order:\n  ours   {ours:#?}\n  theirs {theirs:#?}"));
            }
        }
    }
    wrongs.extend(intended.into_iter().map(|(case, line)| format!("{case}: intended, and does not occur: {line}")));
    assert!(wrongs.is_empty(), "of {cases} cases, with {agreed} events that agree:\n{}", wrongs.join("\n"));
    assert!(cases > 50 && agreed > 150, "only {agreed} events of {cases} cases agree");
}

/// No recording has it: the words are those of the kubelet's source.
#[test]
fn an_image_that_is_never_pulled() {
    let spec = json!({"containers": [{"name": "c", "image": "127.0.0.1:5999/nope:v1", "imagePullPolicy": "Never"}]});
    let case = json!({"pod": {"metadata": {}, "spec": spec}, "timeline": [{"t": 30}], "events": []});
    let events = play::play("image-never", &case);
    let text = "Container image \"127.0.0.1:5999/nope:v1\" is not present with pull policy of Never";
    assert_eq!(
        first_of_each(events.iter()),
        [
            format!("Warning ErrImageNeverPull spec.containers{{c}}: {text}"),
            "Warning Failed spec.containers{c}: Error: ErrImageNeverPull".to_owned(),
        ]
    );
}

/// All that an event says beside its text is checked here, so that only lines are left to compare.
fn is_about(event: &Value, name: &str, source: Source) -> bool {
    assert_eq!(event["source"], json!({"component": "kubelet", "host": "n1"}));
    let object = &event["involvedObject"];
    assert_eq!([&object["kind"], &object["apiVersion"], &object["namespace"]], ["Pod", "v1", "gt"]);
    assert_eq!(event["metadata"]["namespace"], "gt");
    match source {
        Source::File => object["name"] == format!("{name}-n1"),
        Source::Master => {
            assert_eq!(object["uid"] == play::UID, !object["name"].as_str().unwrap().ends_with('2'));
            object["name"] == name
        }
    }
}

fn first_of_each<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for event in events {
        let path = [&event["fieldPath"], &event["involvedObject"]["fieldPath"]].into_iter().find_map(Value::as_str);
        let text = |field: &str| event[field].as_str().unwrap();
        let line = format!(
            "{} {} {}: {}",
            text("type"),
            text("reason"),
            path.unwrap_or("pod"),
            without_times(text("message"))
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// `in 64ms (64ms including waiting). Image size: 7 bytes.` -> `in <duration> (<duration> including waiting). Image
/// size: 0 bytes.`
fn without_times(message: &str) -> String {
    let words: Vec<&str> = message.split(' ').collect();
    let Some(at) = words.windows(2).position(|pair| pair[0].starts_with('(') && pair[1] == "including") else {
        return message.to_owned();
    };
    let mut words = words;
    (words[at - 1], words[at]) = ("<duration>", "(<duration>");
    if words.len() >= 2 && words[words.len() - 1] == "bytes." {
        let size = words.len() - 2;
        words[size] = "0";
    }
    words.join(" ")
}
