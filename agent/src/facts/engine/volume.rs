//! What containers of a pod share on the host.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::facts::content::Content;

/// What pods have on this host beside containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belongings {
    /// The uids of all pods with data on this host.
    pub all: BTreeSet<String>,
    /// The subset of `all` whose pods have volumes in directories of the agent. The other pods have only termination
    /// messages of their containers, or volumes that the engine holds.
    pub volumes: BTreeSet<String>,
}

/// A volume by its name in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVolume {
    pub name: String,
    pub volume: Volume,
}

/// A directory or file on the host that containers of a pod share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volume {
    /// An empty directory at that path, mode 0777 as emptyDir has it, given to that group where one is named.
    Directory { path: String, group: Option<u32> },
    /// Anything of the host; where nothing is, a directory is made (0755) and never removed.
    HostPath { path: String },
    /// A directory of the host, made (0755) where it is missing if `create`; it is never removed. One that is missing,
    /// or is no directory, is `Refused`.
    HostDirectory { path: String, create: bool },
    /// A directory of the host that a pod has for itself: given to its group where one is named, `unless_fits` only
    /// where the directory is not the group's already. `create`: it holds a claim, is made once, for all, and is
    /// `Refused` when it is away later.
    Local { path: String, create: bool, group: Option<u32>, unless_fits: bool },
    /// An export of a server, mounted by the engine. Gone with the pod, its content stays.
    Nfs { name: String, server: String, path: String, options: String },
    /// A host file with this kind. With `create`, a missing file is made as an empty regular file (0644).
    HostFile { path: String, kind: HostFile, create: bool },
    /// A directory with this content, exchanged whole.
    Content { path: String, content: Arc<Content> },
    /// A file system in memory at that path, bounded, gone with the pod.
    Memory { path: String, size_bytes: Option<u64>, group: Option<u32> },
    /// The same of large pages.
    HugePages { path: String, page_bytes: u64, size_bytes: u64, group: Option<u32> },
}

/// The kinds of files that a hostPath may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostFile {
    Regular,
    Socket,
    CharDevice,
    BlockDevice,
}
