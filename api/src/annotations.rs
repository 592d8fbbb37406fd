//! Annotations that several modules use.

/// Marks a mirror pod: an API object that only shows a static pod from a manifest file on a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// On service `kubernetes`: the domain of the cluster's names, where it is not `cluster.local`. The master says it, and
/// agents hear it.
pub const CLUSTER_DOMAIN: &str = "coracle.dev/cluster-domain";
/// Where the class of a volume or a claim stood before it had a field.
pub const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
