//! Annotations that several modules use.

/// Marks a mirror pod: an API object that only shows a static pod from a manifest file on a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Where the class of a volume or a claim stood before it had a field.
pub const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
