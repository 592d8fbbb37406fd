//! The words both programs speak. v1 is the hub: objects are stored, planned and watched as v1 documents; other
//! versions are decoded and encoded at the edge. Values only: no IO, no clock, no logging.

pub mod annotations;
pub mod fields;
pub mod job;
pub mod kinds;
pub mod labels;
pub mod meta;
pub mod node;
pub mod old;
pub mod placement;
pub mod pod;
pub mod printable;
pub mod quantity;
pub mod query;
pub mod references;
pub mod selector;
pub mod service;
pub mod status;
pub mod strategy;
pub mod table;
pub mod types;
pub mod watch;
pub mod workload;

/// The version of Kubernetes whose API this is, 1.36; clients warn when theirs is far away.
pub const KUBERNETES_MINOR: u32 = 36;
