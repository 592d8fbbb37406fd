//! The last assignment of the master, on this host's own disk: after a reboot without master or network the same pods run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{is_for_good, was_started};
use crate::private;

/// Far above what a thousand pods take; what is bigger was not written by this file.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Assignment {
    /// The cluster that this host belongs to: the uid of its namespace kube-system. Empty before the first.
    pub cluster: String,
    /// By uid, as intent: without a revision, and of the status what is for good.
    pub pods: BTreeMap<String, Value>,
    /// Pods of clusters that this host belonged to before: kept until somebody says otherwise.
    pub others: BTreeMap<String, Value>,
}

pub struct Last {
    pub path: PathBuf,
    written: Assignment,
}

impl Last {
    pub fn open(data_dir: &str) -> Last {
        let path = Path::new(data_dir).join("last-assignment.json");
        let read = || -> io::Result<Assignment> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        let written = read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::error!("the last assignment {}: {error}; pods are known again when the master answers", path.display());
            }
            Assignment::default()
        });
        Last { path, written }
    }

    pub fn assignment(&self) -> &Assignment {
        &self.written
    }

    /// Writes only what differs; the old file stays until the new one is whole on the disk.
    pub fn keep(&mut self, assignment: Assignment) {
        if self.written == assignment {
            return;
        }
        self.written = assignment;
        if let Err(error) = self.write() {
            log::error!("keep the last assignment in {}: {error}", self.path.display());
        }
    }

    fn write(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        private::make_directory(folder)?;
        let temporary = self.path.with_extension("new");
        let mut file = private::create_file(&temporary)?;
        file.write_all(serde_json::to_string(&self.written).map_err(io::Error::other)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(temporary, &self.path)?;
        fs::File::open(folder)?.sync_all()
    }
}

/// What of a pod is intent, and what has become of it for good: any other status or a revision is no reason to write.
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

/// Of a pod that has ended its status; of another one the containers that have ended for good, and the ephemeral ones that were
/// started: none of them is started again, though nothing be left of it here.
fn record(pod: &Value) -> Option<Value> {
    let status = &pod["status"];
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return Some(status.clone());
    }
    let policy = pod["spec"]["restartPolicy"].as_str().unwrap_or_default();
    let of = |field: &str, lasting: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        status[field].as_array().into_iter().flatten().filter(|one| lasting(one)).cloned().collect()
    };
    let ended = of("containerStatuses", &|one| is_for_good(one, policy));
    let started = of("ephemeralContainerStatuses", &was_started);
    let found = !ended.is_empty() || !started.is_empty();
    found.then(|| json!({ "containerStatuses": ended, "ephemeralContainerStatuses": started }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_for_good_is_kept() {
        let check = |policy: &str, status: Value, expected: Value| {
            assert_eq!(intent(&json!({"spec": {"restartPolicy": policy}, "status": status}))["status"], expected, "{policy}");
        };
        let of = |ended: &[&Value], started: &[&Value]| json!({"containerStatuses": ended, "ephemeralContainerStatuses": started});
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
    fn only_a_change_of_intent_is_written() {
        let dir = std::env::temp_dir().join(format!("coracle-last-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let text = dir.to_str().unwrap();
        let pod = |status: &str| json!({"metadata": {"name": "a", "resourceVersion": status}, "spec": {}, "status": {"phase": status}});
        let assignment = |status| Assignment {
            cluster: "c".into(),
            pods: BTreeMap::from([("u".to_owned(), intent(&pod(status)))]),
            others: BTreeMap::new(),
        };
        let mut last = Last::open(text);
        last.keep(assignment("Pending"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&last.path), mode(&dir)), (0o600, 0o700), "pods hold passwords");
        assert_eq!(Last::open(text).assignment(), &assignment("Running"));
        fs::remove_file(&last.path).unwrap();
        last.keep(assignment("Running"));
        assert!(!last.path.exists(), "written although nothing changed");
        last.keep(assignment("Failed"));
        assert_eq!(Last::open(text).assignment().pods["u"]["status"], json!({"phase": "Failed"}));
        fs::remove_dir_all(dir).unwrap();
    }
}
