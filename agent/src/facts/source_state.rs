//! The pods of this host from a single source. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::facts::objects::{Object, Ref};
use crate::facts::uid_set::UidSet;
use crate::facts::wanted::Wanted;

/// The latest state of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// In the source's own order; if two pods have the same uid or name, the first counts.
    pub pods: Vec<Arc<Wanted>>,
    /// False: pods may be missing here that the source still wants (a listing that failed, a file without a last good
    /// version). What runs of it stays.
    pub complete: bool,
    /// Uids of pods whose deletion was heard from the source itself, or that it answered 404 for: these are stopped
    /// also when the listing is not complete.
    pub gone: UidSet,
    /// Of the master: the uid that identifies its cluster, and the uids of pods from clusters that this host belonged
    /// to before.
    pub cluster: String,
    pub foreign: BTreeSet<String>,
    /// Of the master: names that this host's node had before, and that the API still has.
    pub former: BTreeSet<String>,
    /// Of files: the ConfigMaps, Secrets and claims that their pods may use.
    pub objects: BTreeMap<Ref, Arc<Object>>,
    /// Of files: the pods that each file asks for.
    pub files: Arc<FilesSeen>,
}

/// The files of a source, as far as they tell whose the pods are that they do not ask for now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilesSeen {
    /// All files are known by name.
    pub whole: bool,
    /// Files that were never readable: their pods are unknown.
    pub unread: BTreeSet<String>,
    /// By uid: the file that asks for a pod.
    pub of: BTreeMap<String, String>,
    /// Namespace and name of pods that were asked for, and are no more.
    pub gone: BTreeSet<(String, String)>,
}

impl FilesSeen {
    /// Whether no file asks for a pod that one of this name asked for before. A mirror of an agent of before names no
    /// file.
    pub fn lack(&self, namespace: &str, name: &str, file: Option<&str>) -> bool {
        let read = || self.whole && file.is_some_and(|file| !self.unread.contains(file));
        self.gone.contains(&(namespace.to_owned(), name.to_owned())) || read()
    }
}
