//! What was asked of this cluster and is not there: a pure function from the store's objects and the time to problems.
//! `status`, the page `/coracle/problems`, the line of `systemctl status` and the gauges show these problems and no
//! others. PURE.
//!
//!     Objects (objects) -> Context (context) -> nodes, workloads, pods, jobs, services, storage, cluster -> Problem
//!     Own (own): the store's disk, the ports, the keys                                                  -> Problem
//!
//! Who tells of a thing, so that it is told once:
//!
//! - Pods of a workload that is short of replicas are told by the workload, which names the first cause.
//! - A pod that failed is told by its Job or its workload; the pod itself is told where it has no such owner.
//! - Mirror pods belong to files: the agent of their node tells of them, and this master does not.
//! - Of a namespace that is being deleted only the namespace is told.
//!
//! A thing that is starting is a problem too (reason `Starting` or `RollingOut`), with the time since when: all that
//! was asked for is there, or something is told.

mod cluster;
mod context;
mod jobs;
mod nodes;
pub mod objects;
pub mod own;
mod pods;
mod services;
mod storage;
mod summary;
#[cfg(test)]
mod tests;
mod workloads;

pub use context::{Found, Zones};
pub use nodes::is_heartbeat;
pub use summary::{NodeRow, PodCounts, Summary};

use context::Context;
use coracle_api::meta::Time;
use coracle_keeper::problem::sort;
use objects::Objects;
use own::Own;

/// Problems of a cluster that are listed; a host has some hundred objects.
pub const PROBLEMS_MAX: usize = 1000;

/// All problems, and when to look again though nothing changes.
pub fn problems(objects: &Objects, own: &Own, now: Time, zones: Zones<'_>) -> Found {
    let context = Context::of(objects, now, zones);
    let mut found = Found::default();
    own::tell(own, now, &mut found);
    nodes::tell(&context, &mut found);
    let short = workloads::tell(&context, &mut found);
    jobs::tell(&context, &mut found);
    pods::tell(&context, &short, &mut found);
    services::tell(&context, &mut found);
    storage::tell(&context, &mut found);
    cluster::tell(&context, &mut found);
    sort(&mut found.problems);
    found.left_out = found.problems.len().saturating_sub(PROBLEMS_MAX);
    found.problems.truncate(PROBLEMS_MAX);
    found
}
