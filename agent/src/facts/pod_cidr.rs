//! The pod CIDR of this node: the addresses that its pods get.

use coracle_api::strategy::Cidr;
use tokio::sync::watch;

/// None: this node has no pod CIDR yet. A known pod CIDR never changes.
pub type PodCidr = watch::Receiver<Option<Cidr>>;

/// Why no pod can get an address while the pod CIDR is unknown.
pub const UNKNOWN: &str = "this node has no pod CIDR yet: set --pod-cidr";

/// A pod CIDR that is known from the start, such as that of `--pod-cidr`.
pub fn given(pods: Option<Cidr>) -> PodCidr {
    watch::channel(pods).1
}
