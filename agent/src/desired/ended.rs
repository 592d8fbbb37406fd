//! Pods of files that have run to their end, on this host's own disk: none of them runs again when the agent or the
//! host starts anew, or when somebody takes its containers away.
//!
//!     a final phase of a pod -> DATA/ended.json -> `together`: the pod with that status -> the plan keeps it so
//!
//! An edit of the file, or its removal, ends the record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::manifest::derived_uid;
use super::unkept::Unkept;
use crate::facts::hash::manifest_hash_without_uid;
use crate::facts::naming::Source;
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::host::private;

const NAME: &str = "ended.json";
/// Far above what a thousand pods take; what is bigger was not written by this file.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndedPods {
    node_name: String,
    pods: Records,
}

/// By `NAMESPACE/NAME`; by uid in a file of before.
type Records = BTreeMap<String, EndedPod>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EndedPod {
    /// The hash of its manifest.
    manifest: String,
    /// The same without the uid, which comes from the name of the node and changes with it. None: the file has a uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    without_uid: Option<String>,
    status: Value,
}

impl EndedPod {
    fn new(wanted: &Wanted, node_name: &str, status: Value) -> EndedPod {
        let without_uid = without_uid(wanted, node_name);
        EndedPod { manifest: wanted.manifest_hash.clone(), without_uid, status }
    }

    /// True: the record is of the present manifest, under any name of the node.
    fn is_of(&self, wanted: &Wanted, node_name: &str) -> bool {
        let renamed = || self.without_uid.is_some() && self.without_uid == without_uid(wanted, node_name);
        self.manifest == wanted.manifest_hash || renamed()
    }
}

/// The hash of the manifest without its uid. None: the manifest file sets the uid.
fn without_uid(wanted: &Wanted, node_name: &str) -> Option<String> {
    let is_derived = wanted.name.uid == derived_uid(node_name, &wanted.name.namespace, &wanted.name.name);
    is_derived.then(|| manifest_hash_without_uid(&wanted.document))
}

fn key(wanted: &Wanted) -> String {
    format!("{}/{}", wanted.name.namespace, wanted.name.name)
}

impl EndedPods {
    /// What the last agent knew. `node_name`: the name that the node has now.
    pub fn read(data_dir: &str, node_name: &str) -> EndedPods {
        let path = Path::new(data_dir).join(NAME);
        let read = || -> io::Result<Records> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        let pods = read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::error!("{}: {error}; of pods of files that have ended their containers tell", path.display());
            }
            Records::default()
        });
        EndedPods { node_name: node_name.to_owned(), pods }
    }

    /// The record of the pod's end, if the manifest is unchanged.
    fn of(&self, wanted: &Wanted) -> Option<&EndedPod> {
        let found = self.pods.get(&key(wanted)).or_else(|| self.pods.get(&wanted.name.uid));
        found.filter(|ended| ended.is_of(wanted, &self.node_name))
    }

    /// The ended pod, if the manifest is unchanged; otherwise the pod as wanted.
    pub fn with_end(&self, wanted: &Arc<Wanted>) -> Arc<Wanted> {
        self.of(wanted).map_or_else(|| wanted.clone(), |ended| Arc::new(wanted.with_status(&ended.status)))
    }

    /// Adds the ends of this look. A shutdown adds nothing: pods that end with the host start again with the host.
    fn after(&self, shown: &Shown) -> EndedPods {
        if !shown.looked || shown.world.leaving {
            return self.clone();
        }
        let of_files = || shown.desired.pods.iter().filter(|(_, wanted)| wanted.name.source == Source::File);
        let mut pods = Records::default();
        if shown.desired.unknown.contains(&Source::File) {
            let mut unread = self.pods.clone();
            for (uid, wanted) in of_files() {
                unread.remove(&key(wanted));
                unread.remove(uid);
            }
            pods = unread;
        }
        for (uid, wanted) in of_files() {
            let new = |status: &Value| EndedPod::new(wanted, &self.node_name, status.clone());
            let ended = match self.of(wanted) {
                Some(known) if known.manifest == wanted.manifest_hash && self.pods.contains_key(&key(wanted)) => {
                    Some(known.clone())
                }
                Some(known) => Some(new(&known.status)),
                None => shown.statuses.get(uid).filter(|status| is_final(status)).map(new),
            };
            pods.extend(ended.map(|ended| (key(wanted), ended)));
        }
        EndedPods { node_name: self.node_name.clone(), pods }
    }

    /// Whole and durable, or the old file stays.
    fn keep(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(&self.pods).map_err(io::Error::other)?;
        private::replace_files(folder, [(NAME.into(), text)].into_iter())
    }
}

fn is_final(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Writes ended pods to the disk before it publishes them. Ends with the loop.
pub async fn follow(
    data_dir: String,
    mut shown: watch::Receiver<Arc<Shown>>,
    unkept: Unkept,
    out: watch::Sender<Arc<EndedPods>>,
) {
    let folder = PathBuf::from(data_dir);
    let path = folder.join(NAME);
    let mut attempts = 0;
    loop {
        let alive = tokio::select! {
            changed = shown.changed() => changed.is_ok(),
            () = unkept.due(&path, &mut attempts) => true,
        };
        if !alive {
            return;
        }
        let seen = shown.borrow_and_update().clone();
        let new = out.borrow().after(&seen);
        let written = if **out.borrow() == new { Ok(()) } else { new.keep(&folder) };
        if unkept.note(&path, "which pods of files have ended", written) && **out.borrow() != new {
            out.send_replace(Arc::new(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::world::World;
    use serde_json::json;

    fn wanted(source: Source, image: &str) -> Arc<Wanted> {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u"},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]},
        });
        Arc::new(Wanted::new(source, document).unwrap())
    }

    /// The pod of the file on a node with this name. `uid`: the file's own.
    fn on_node(node_name: &str, uid: Option<&str>, image: &str) -> Arc<Wanted> {
        let mut document = wanted(Source::File, image).document.clone();
        document["metadata"]["uid"] = uid.map_or_else(|| derived_uid(node_name, "d", "p"), str::to_owned).into();
        Arc::new(Wanted::new(Source::File, document).unwrap())
    }

    fn named(ended: &EndedPods, node_name: &str) -> EndedPods {
        EndedPods { node_name: node_name.to_owned(), ..ended.clone() }
    }

    fn shown(wanted: Option<Arc<Wanted>>, phase: &str) -> Shown {
        let mut desired = Desired::default();
        let uid = wanted.as_ref().map_or_else(|| "u".to_owned(), |wanted| wanted.name.uid.clone());
        desired.pods.extend(wanted.map(|wanted| (uid.clone(), wanted)));
        let statuses = [(uid, json!({"phase": phase}))].into();
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
    fn an_end_outlives_the_name_of_the_node() {
        let told = |ended: &EndedPods, wanted: &Arc<Wanted>| ended.with_end(wanted).pod.status.terminal();
        let ended = named(&EndedPods::default(), "vm").after(&shown(Some(on_node("vm", None, "i:1")), "Succeeded"));
        // And when the name changes back, after a look under the other one.
        let renamed = named(&ended, "shop");
        let there = on_node("shop", None, "i:1");
        assert!(told(&renamed, &there));
        let after = renamed.after(&shown(Some(renamed.with_end(&there)), "Succeeded"));
        // A file that can no longer be read goes on as it was read last, under the name of then.
        assert!(told(&named(&after, "vm"), &on_node("vm", None, "i:1")) && told(&named(&after, "x"), &there));
        assert!(!told(&after, &on_node("shop", None, "i:2")), "an edit");
        assert!(!told(&after, &on_node("shop", Some("own"), "i:1")), "an edit that gives it a uid");
        let own = |uid: &str| on_node("", Some(uid), "i:1");
        let of_own = named(&EndedPods::default(), "vm").after(&shown(Some(own("1")), "Failed"));
        assert!(told(&named(&of_own, "shop"), &own("1")) && !told(&named(&of_own, "shop"), &own("2")));
    }

    #[test]
    fn a_record_by_uid_is_read() {
        let pod = on_node("vm", None, "i:1");
        let record = json!({&pod.name.uid: {"manifest": pod.manifest_hash, "status": {"phase": "Failed"}}});
        let before = EndedPods { node_name: "vm".to_owned(), pods: serde_json::from_value(record).unwrap() };
        let known = before.with_end(&pod);
        assert!(known.pod.status.terminal());
        let after = before.after(&shown(Some(known), "Failed"));
        assert_eq!(after.pods.keys().collect::<Vec<_>>(), ["d/p"]);
        assert!(named(&after, "shop").with_end(&on_node("shop", None, "i:1")).pod.status.terminal());
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
        assert_eq!(EndedPods::read(&data_dir, ""), EndedPods::default());
        let (shown_in, seen) = watch::channel(Arc::new(Shown::default()));
        let (ended_in, mut ended) = watch::channel(Arc::new(EndedPods::default()));
        let work = async {
            shown_in.send_replace(Arc::new(shown(Some(wanted(Source::File, "i:1")), "Failed")));
            ended.changed().await.unwrap();
            let heard = ended.borrow().clone();
            assert_eq!(EndedPods::read(&data_dir, ""), *heard);
            assert!(heard.with_end(&wanted(Source::File, "i:1")).pod.status.terminal());
        };
        tokio::select! {
            () = follow(data_dir.clone(), seen, Unkept::default(), ended_in) => panic!("it goes on"),
            () = work => {}
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_disk_does_not_take_is_written_later() {
        let place = std::env::temp_dir().join(format!("coracle-unwritable-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        // A file instead of a folder: writes below the path fail, even for root.
        fs::write(&place, "").unwrap();
        let data_dir = place.to_str().unwrap().to_owned();
        let (shown_in, seen) = watch::channel(Arc::new(Shown::default()));
        let (ended_in, mut ended) = watch::channel(Arc::new(EndedPods::default()));
        let unkept = Unkept::default();
        let work = async {
            shown_in.send_replace(Arc::new(shown(Some(wanted(Source::File, "i:1")), "Failed")));
            unkept.due(&place.join(NAME), &mut 0).await;
            assert_eq!(unkept.texts().len(), 1, "{:?}", unkept.texts());
            assert!(!ended.has_changed().unwrap(), "nobody hears of what is not on the disk");
            fs::remove_file(&place).unwrap();
            fs::create_dir(&place).unwrap();
            // Nothing else happens meanwhile.
            ended.changed().await.unwrap();
            assert_eq!(EndedPods::read(&data_dir, ""), *ended.borrow().clone());
            assert!(unkept.texts().is_empty());
        };
        tokio::select! {
            () = follow(data_dir.clone(), seen, unkept.clone(), ended_in) => panic!("it goes on"),
            () = work => {}
        }
        fs::remove_dir_all(place).unwrap();
    }
}
