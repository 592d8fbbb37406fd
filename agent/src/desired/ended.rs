//! Pods of files that have run to their end, on this host's own disk: none of them runs again when the agent or the
//! host starts anew, or when somebody takes its containers away.
//!
//!     a final phase of a pod -> DATA/ended.json -> `together`: the pod with that status -> the plan keeps it so
//!
//! An edit of the file, or its removal, ends the record.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::{Source, Wanted};
use crate::private;
use crate::sync::Shown;

const NAME: &str = "ended.json";
/// Far above what a thousand pods take; what is bigger was not written by this file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// By uid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedPods(BTreeMap<String, EndedPod>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EndedPod {
    /// The hash of its manifest.
    manifest: String,
    status: Value,
}

impl EndedPods {
    /// What the last agent knew.
    pub fn read(data_dir: &str) -> EndedPods {
        let path = Path::new(data_dir).join(NAME);
        let read = || -> io::Result<EndedPods> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::error!("{}: {error}; of pods of files that have ended their containers tell", path.display());
            }
            EndedPods::default()
        })
    }

    /// The pod as it ended, if its file is still the same.
    pub fn with_end(&self, wanted: &Arc<Wanted>) -> Arc<Wanted> {
        match self.0.get(&wanted.name.uid).filter(|ended| ended.manifest == wanted.manifest_hash) {
            Some(ended) => Arc::new(wanted.with_status(&ended.status)),
            None => wanted.clone(),
        }
    }

    /// With what this look has shown. A host that stops ends pods that begin again with it.
    fn after(&self, shown: &Shown) -> EndedPods {
        if !shown.looked || shown.world.leaving {
            return self.clone();
        }
        let files_unknown = shown.desired.unknown.contains(&Source::File);
        let known = |(uid, ended): (&String, &EndedPod)| match shown.desired.pods.get(uid) {
            Some(wanted) => wanted.manifest_hash == ended.manifest,
            None => files_unknown,
        };
        let mut all: BTreeMap<String, EndedPod> =
            self.0.iter().filter(|one| known(*one)).map(|(uid, ended)| (uid.clone(), ended.clone())).collect();
        for (uid, wanted) in shown.desired.pods.iter().filter(|(_, wanted)| wanted.name.source == Source::File) {
            let status = shown.statuses.get(uid).filter(|status| is_final(status));
            if let Some(status) = status.filter(|_| !all.contains_key(uid)) {
                let ended = EndedPod { manifest: wanted.manifest_hash.clone(), status: status.clone() };
                all.insert(uid.clone(), ended);
            }
        }
        EndedPods(all)
    }

    /// Whole and durable, or the old file stays.
    fn keep(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        private::replace_files(folder, [(NAME.into(), text)].into_iter())
    }
}

fn is_final(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Durable before anybody hears of it. Ends with the loop.
pub async fn follow(data_dir: String, mut shown: watch::Receiver<Arc<Shown>>, out: watch::Sender<Arc<EndedPods>>) {
    let folder = PathBuf::from(data_dir);
    let mut said = None;
    while shown.changed().await.is_ok() {
        let seen = shown.borrow_and_update().clone();
        let new = out.borrow().after(&seen);
        if **out.borrow() == new {
            continue;
        }
        match new.keep(&folder) {
            Ok(()) => drop(out.send_replace(Arc::new(new))),
            Err(error) if said.as_ref() == Some(&error.to_string()) => {}
            Err(error) => {
                log::error!("keep which pods of files have ended in {}: {error}", folder.join(NAME).display());
                said = Some(error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Desired;
    use crate::plan::World;
    use serde_json::json;

    fn wanted(source: Source, image: &str) -> Arc<Wanted> {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]},
        });
        Arc::new(Wanted::new(source, document).unwrap())
    }

    fn shown(wanted: Option<Arc<Wanted>>, phase: &str) -> Shown {
        let mut desired = Desired::default();
        desired.pods.extend(wanted.map(|wanted| ("u".to_owned(), wanted)));
        let statuses = [("u".to_owned(), json!({"phase": phase}))].into();
        Shown { desired: Arc::new(desired), statuses, looked: true, ..Shown::default() }
    }

    #[test]
    fn an_end_is_on_record_while_its_file_is_the_same() {
        let (one, other) = (wanted(Source::File, "i:1"), wanted(Source::File, "i:2"));
        let ended = EndedPods::default().after(&shown(Some(one.clone()), "Succeeded"));
        let recorded = ended.with_end(&one);
        assert!(recorded.pod.status.terminal() && recorded.manifest_hash == one.manifest_hash);
        assert!(Arc::ptr_eq(&ended.with_end(&other), &other), "an edited file runs");
        let keeps = |shown: &Shown, expected: bool| assert_eq!(ended.after(shown) == ended, expected, "{shown:?}");
        keeps(&shown(Some(recorded.clone()), "Succeeded"), true);
        keeps(&shown(Some(other.clone()), "Running"), false);
        keeps(&shown(None, ""), false);
        keeps(&Shown::default(), true);
        let mut blind = shown(None, "");
        Arc::make_mut(&mut blind.desired).unknown.insert(Source::File);
        keeps(&blind, true);
    }

    #[test]
    fn what_runs_or_is_the_masters_or_stops_with_the_host_has_no_record() {
        let none = |shown: Shown| assert_eq!(EndedPods::default().after(&shown), EndedPods::default());
        none(shown(Some(wanted(Source::File, "i:1")), "Running"));
        none(shown(Some(wanted(Source::Master, "i:1")), "Failed"));
        let world = Arc::new(World { leaving: true, ..World::default() });
        none(Shown { world, ..shown(Some(wanted(Source::File, "i:1")), "Failed") });
    }

    #[tokio::test]
    async fn it_is_on_the_disk_before_anybody_hears_of_it() {
        let dir = std::env::temp_dir().join(format!("coracle-ended-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let data_dir = dir.to_str().unwrap().to_owned();
        assert_eq!(EndedPods::read(&data_dir), EndedPods::default());
        let (shown_in, seen) = watch::channel(Arc::new(Shown::default()));
        let (ended_in, mut ended) = watch::channel(Arc::new(EndedPods::default()));
        let work = async {
            shown_in.send_replace(Arc::new(shown(Some(wanted(Source::File, "i:1")), "Failed")));
            ended.changed().await.unwrap();
            let heard = ended.borrow().clone();
            assert_eq!(EndedPods::read(&data_dir), *heard);
            assert!(heard.with_end(&wanted(Source::File, "i:1")).pod.status.terminal());
        };
        tokio::select! {
            () = follow(data_dir.clone(), seen, ended_in) => panic!("it goes on"),
            () = work => {}
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
