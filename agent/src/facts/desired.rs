//! The pods that all sources want to run here, and what pods of this host are given. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_api::service::Service;
use coracle_keeper::problem::Problem;

use crate::facts::file_services::FileServices;
use crate::facts::naming::{PodName, Source};
use crate::facts::node_said::NodeSaid;
use crate::facts::objects::Objects;
use crate::facts::resolv::Dns;
use crate::facts::source_state::FilesSeen;
use crate::facts::uid_set::UidSet;
use crate::facts::update::{PodUpdate, Updates};
use crate::facts::wanted::Wanted;

/// All that this host should run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// By uid.
    pub pods: BTreeMap<String, Arc<Wanted>>,
    /// Sources whose missing pods are unknown, not absent.
    pub unknown: BTreeSet<Source>,
    pub gone: UidSet,
    /// The files of this host's directory.
    pub files: Arc<FilesSeen>,
    /// The problems of the sources, such as a file that cannot be used or a pod that is left out.
    pub problems: Vec<Problem>,
    /// Names that this host's node had before, and that the API still has.
    pub former: BTreeSet<String>,
    /// v1 Services of all namespaces, as last heard, and Services of files: for service variables.
    pub services: Arc<Vec<Arc<Service>>>,
    /// The Services of this host's files. None: the directory was not read yet.
    pub file_services: Option<Arc<FileServices>>,
    /// How the names of new pods resolve.
    pub dns: Dns,
    /// The master's part of this node. None: unknown.
    pub node: Option<Arc<NodeSaid>>,
    /// The data of ConfigMaps and Secrets for pods.
    pub objects: Arc<Objects>,
    /// Wishes that updates of images have for pods.
    pub updates: Arc<Updates>,
}

impl Desired {
    /// Whether the containers of a pod that no source lists have to go. Unknown is not absent.
    pub fn is_gone(&self, pod: &PodName) -> bool {
        !self.pods.contains_key(&pod.uid) && (self.gone.contains(&pod.uid) || !self.unknown.contains(&pod.source))
    }

    pub fn update_of(&self, uid: &str) -> Option<&PodUpdate> {
        self.updates.get(uid)
    }

    /// Whether a pod of the API that shows what a file asked for has to go. An unreadable file does not keep mirrors of
    /// other files.
    pub fn lacks_file(&self, namespace: &str, name: &str, file: Option<&str>) -> bool {
        !self.unknown.contains(&Source::File) || self.files.lack(namespace, name, file)
    }
}
