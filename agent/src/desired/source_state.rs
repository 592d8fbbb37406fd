//! What one source says of the pods of this host. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::{Object, Ref};
use super::uid_set::UidSet;
use super::wanted::Wanted;

/// The latest state of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// In the source's own order; of two with one uid or one name the first counts.
    pub pods: Vec<Arc<Wanted>>,
    /// False: pods may be missing here that the source still wants (a listing that failed, a file without a last good
    /// version). What runs of it stays.
    pub complete: bool,
    /// Uids of pods whose deletion was heard from the source itself, or that it answered 404 for: these are stopped
    /// also when the listing is not complete.
    pub gone: UidSet,
    /// Of the master: which cluster it is, and the uids of pods of those that it was before.
    pub cluster: String,
    pub foreign: BTreeSet<String>,
    /// Of files: the ConfigMaps, Secrets and claims that their pods may use.
    pub objects: BTreeMap<Ref, Arc<Object>>,
}
