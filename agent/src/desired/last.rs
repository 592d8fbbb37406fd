//! The last assignment of the master, on this host's own disk: after a reboot without master or network the same pods
//! run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use coracle_api::pod::Container;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::facts::recorded::{exit_code, was_started};
use crate::host::private;

const NAME: &str = "last-assignment.json";
/// Far above what a thousand pods take; what is bigger was not written by this file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The form of the file. `Pod`: owned when it is read, borrowed when it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "Pod: Deserialize<'de>"))]
pub struct Assignment<Pod = Value> {
    /// The present cluster of this host, by the uid of namespace kube-system. Empty before the first cluster.
    #[serde(default)]
    pub cluster: String,
    /// The node name of this host when the file was written. Older agents did not write the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Former node names of this host that the API still has.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub former: BTreeSet<String>,
    /// Uids of pods whose end was heard, and that may have containers here still. Older agents did not write the uids.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<String>,
    /// By uid, as intent: without a revision, and of the status what is for good.
    #[serde(default)]
    pub pods: BTreeMap<String, Pod>,
    /// Pods of clusters that this host belonged to before.
    #[serde(default)]
    pub others: BTreeMap<String, Pod>,
}

pub struct LastAssignment {
    folder: PathBuf,
    pub path: PathBuf,
}

impl LastAssignment {
    pub fn new(data_dir: &str) -> LastAssignment {
        LastAssignment { folder: data_dir.into(), path: Path::new(data_dir).join(NAME) }
    }

    pub fn read(&self) -> Assignment {
        let read = || -> io::Result<Assignment> {
            if fs::metadata(&self.path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&self.path)?).map_err(io::Error::other)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = self.path.display();
                log::error!("the last assignment {path}: {error}; pods are known again when the master answers");
            }
            Assignment::default()
        })
    }

    /// Whole and durable, or the old file stays.
    pub fn keep(&self, assignment: &Assignment<&Value>) -> io::Result<()> {
        let text = serde_json::to_vec(assignment).map_err(io::Error::other)?;
        private::replace_files(&self.folder, [(NAME.into(), text)].into_iter())
    }
}

/// A pod without its revision, and without the status that is not for good: changes of these are no reason to write.
pub fn intent(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let record = record(&pod);
    if let Value::Object(object) = &mut pod {
        object.remove("status");
    }
    if let Some(record) = record {
        pod["status"] = record;
    }
    if let Some(Value::Object(meta)) = pod.get_mut("metadata") {
        meta.remove("resourceVersion");
        meta.remove("managedFields");
    }
    pod
}

/// An ended pod keeps the whole status. Any other pod keeps finally ended containers, started ephemeral containers
/// (both never start again), the conditions of readiness gates, and the start time for a deadline.
fn record(pod: &Value) -> Option<Value> {
    let status = &pod["status"];
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return Some(status.clone());
    }
    let spec = &pod["spec"];
    let of = |field: &str, lasting: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        status[field].as_array().into_iter().flatten().filter(|one| lasting(one)).cloned().collect()
    };
    let ended = of("containerStatuses", &|one| is_for_good(one, spec));
    let started = of("ephemeralContainerStatuses", &was_started);
    let gates = spec["readinessGates"].as_array();
    let waited = of("conditions", &|one| {
        gates.is_some_and(|gates| gates.iter().any(|gate| gate["conditionType"] == one["type"]))
    });
    let mut record = Map::new();
    if !ended.is_empty() || !started.is_empty() {
        record.insert("containerStatuses".to_owned(), ended.into());
        record.insert("ephemeralContainerStatuses".to_owned(), started.into());
    }
    if !waited.is_empty() {
        let plain = waited.iter().map(|one| json!({"type": one["type"], "status": one["status"]}));
        record.insert("conditions".to_owned(), plain.collect());
    }
    // `activeDeadlineSeconds` counts from the start time, for every agent and master.
    if spec["activeDeadlineSeconds"].is_number() && status["startTime"].is_string() {
        record.insert("startTime".to_owned(), status["startTime"].clone());
    }
    (!record.is_empty()).then_some(Value::Object(record))
}

fn is_for_good(status: &Value, spec: &Value) -> bool {
    let containers = spec["containers"].as_array().into_iter().flatten();
    let own = containers.into_iter().find(|container| container["name"] == status["name"]);
    let own = own.and_then(|container| Container::deserialize(container).ok()).unwrap_or_default();
    let policy = spec["restartPolicy"].as_str().unwrap_or_default();
    exit_code(status).is_some_and(|code| !own.starts_again(policy, code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_for_good_is_kept() {
        let check = |policy: &str, status: Value, expected: Value| {
            assert_eq!(
                intent(&json!({"spec": {"restartPolicy": policy}, "status": status}))["status"],
                expected,
                "{policy}"
            );
        };
        let of = |ended: &[&Value], started: &[&Value]| {
            json!({
                "containerStatuses": ended, "ephemeralContainerStatuses": started,
            })
        };
        let ended = json!({"name": "c", "state": {"terminated": {"exitCode": 0}}});
        let failed = json!({"name": "d", "state": {"terminated": {"exitCode": 1}}});
        let runs = json!({"name": "e", "containerID": "docker://1", "state": {"running": {}}});
        let waits = json!({"name": "f", "state": {"waiting": {}}});
        let all = of(&[&ended, &failed, &runs, &waits], &[&runs, &waits]);
        check("Never", all.clone(), of(&[&ended, &failed], &[&runs]));
        check("OnFailure", all.clone(), of(&[&ended], &[&runs]));
        check("Always", all, of(&[], &[&runs]));
        check("Always", of(&[&ended], &[]), Value::Null);
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let dir = std::env::temp_dir().join(format!("coracle-last-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let last = LastAssignment::new(dir.to_str().unwrap());
        assert_eq!(last.read(), Assignment::default());
        let pod = json!({"metadata": {"name": "a"}, "spec": {}});
        last.keep(&Assignment {
            cluster: "c".into(),
            pods: BTreeMap::from([("u".to_owned(), &pod)]),
            others: BTreeMap::new(),
            ..Assignment::default()
        })
        .unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&last.path), mode(&dir)), (0o600, 0o700), "pods hold passwords");
        let pods = BTreeMap::from([("u".to_owned(), pod)]);
        assert_eq!(last.read(), Assignment { cluster: "c".into(), pods, ..Assignment::default() });
        fs::remove_dir_all(dir).unwrap();
    }
}
