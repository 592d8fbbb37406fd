//! The agent: the kubelet of a small host.
