//! What the sources want to run here, merged into one value. PURE: the sources themselves are beside this file.
//!
//! directory, master -> `SourceState` each -> `merge` -> `Desired` -> the loop

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// Where a pod comes from. The name stands in a label of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    File,
    Master,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Master => "api",
        }
    }

    pub fn parse(name: &str) -> Option<Source> {
        [Source::File, Source::Master].into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One pod as its source has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub source: Source,
    /// The v1 document: defaults applied, with namespace, name and uid.
    pub document: Value,
    /// The containers as the manifest or the API had them, before defaults: what the spec hash covers.
    pub written: Value,
}

/// What one source said last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    /// In the source's own order; of two with one uid or one name the first counts.
    pub pods: Vec<Wanted>,
    /// False: pods may be missing here that the source still wants (a listing that failed, a file without a last good version).
    /// What runs of it stays.
    pub complete: bool,
    /// Uids of pods whose deletion was heard from the source itself, or that it answered 404 for: these are stopped also when the
    /// listing is not complete.
    pub gone: BTreeSet<String>,
}

/// All that this host should run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// By uid.
    pub pods: BTreeMap<String, Wanted>,
    /// Sources whose missing pods are unknown, not absent.
    pub unknown: BTreeSet<Source>,
    pub gone: BTreeSet<String>,
    /// v1 Services and Endpoints of all namespaces, as last heard: for service variables and for nft.
    pub services: Vec<Value>,
    pub endpoints: Vec<Value>,
}
