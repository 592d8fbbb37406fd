//! The pods of this host from a single source. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_keeper::problem::Problem;

use crate::facts::file_services::FileService;
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
    /// Of files: the Services that this host serves for their pods, in the order of the files.
    pub services: Vec<FileService>,
    /// Of files: the pods that each file asks for.
    pub files: Arc<FilesSeen>,
    /// The problems of the source itself, such as a file that cannot be used.
    pub problems: Vec<Problem>,
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
    /// Files and objects that are not taken, and warnings.
    pub problems: Vec<FileProblem>,
}

/// Why a file, or an object of the file, is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line at which the object begins. None: the text says the line, or there is none.
    pub line: Option<usize>,
    /// `Deployment default/web`. None: it is about the whole file.
    pub object: Option<String>,
    pub text: String,
}

impl Fault {
    pub fn of_file(text: impl Into<String>) -> Fault {
        Fault { line: None, object: None, text: text.into() }
    }

    /// `Deployment default/web (line 12): spec.replicas: ...`
    pub fn words(&self) -> String {
        let place = match (&self.object, self.line) {
            (Some(object), Some(line)) => format!("{object} (line {line}): "),
            (Some(object), None) => format!("{object}: "),
            (None, Some(line)) => format!("line {line}: "),
            (None, None) => String::new(),
        };
        format!("{place}{}", self.text)
    }
}

/// A manifest file, or an object of the file, that is not taken as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    pub path: String,
    pub fault: Fault,
    /// Its last good version runs on.
    pub goes_on: bool,
    /// It is taken all the same.
    pub warning: bool,
}

impl FileProblem {
    /// `/etc/coracle/manifests/a.yaml: Pod default/web (line 3): spec.x (line 7): unknown (its last good version ...)`
    pub fn sentence(&self) -> String {
        let outcome = match (self.warning, self.goes_on) {
            (true, _) => "",
            (false, true) => " (its last good version goes on)",
            (false, false) => " (nothing is started from it)",
        };
        format!("{}: {}{outcome}", self.path, self.fault.words())
    }
}

impl FilesSeen {
    /// Whether no file asks for a pod that one of this name asked for before. A mirror of an agent of before names no
    /// file.
    pub fn lack(&self, namespace: &str, name: &str, file: Option<&str>) -> bool {
        let read = || self.whole && file.is_some_and(|file| !self.unread.contains(file));
        self.gone.contains(&(namespace.to_owned(), name.to_owned())) || read()
    }
}
