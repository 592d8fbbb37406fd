//! A mount of a container, independent of the engine. PURE.

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Mount {
    pub source: MountSource,
    pub target: String,
    pub read_only: bool,
    /// None: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<SubPath>,
    #[serde(skip_serializing_if = "is_default")]
    pub propagation: Propagation,
    #[serde(skip_serializing_if = "is_default")]
    pub below: ReadOnlyBelow,
}

impl Mount {
    /// The whole source, without a subPath.
    pub fn new(source: MountSource, target: String, read_only: bool) -> Mount {
        Mount { source, target, read_only, sub_path: None, propagation: Propagation::None, below: ReadOnlyBelow::No }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A subPath in a volume. A missing directory is made, but never outside the volume.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SubPath {
    /// Relative, without `..`.
    pub path: String,
    /// Whose it is: pod, volume, container, and the place among the container's mounts.
    pub uid: String,
    pub volume: String,
    pub container: String,
    pub index: usize,
}

/// Which mounts below a volume are seen on the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum Propagation {
    #[default]
    None,
    HostToContainer,
    Bidirectional,
}

/// Whether mounts below a read-only volume are read-only, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum ReadOnlyBelow {
    #[default]
    No,
    IfPossible,
    /// The name of the volume is for people.
    Yes {
        volume: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum MountSource {
    /// A path of the host; the engine refuses a missing path.
    Path(String),
    /// A volume of the engine.
    Volume(String),
}
