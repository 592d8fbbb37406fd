//! Annotations that more than one room knows.

/// Marks a pod of the API that only shows what a file on its node asks for.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Where the class of a volume or a claim stood before it had a field.
pub const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
