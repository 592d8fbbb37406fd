//! The agent: the kubelet of a small host.

pub mod act;
pub mod container;
pub mod desired;
pub mod fields;
pub mod hash;
pub mod lanes;
pub mod naming;
pub mod plan;
pub mod runtime;
pub mod services;
pub mod status;
pub mod sync;
