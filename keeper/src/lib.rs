//! What both programs decide alike for the keeper of a host. Values only: no IO, no clock, no logging. PURE.
//!
//!     compose: manifests from a Compose file
//!     ended: how a container ended, in words
//!     nearest: the known word that was meant by a misspelt one
//!     notice: when somebody is told of problems
//!     problem: what was asked for and is not there, since when, why, what to do
//!     ticks: the moments at which a schedule is due
//!     update_times: when a pod is to be updated

pub mod compose;
pub mod ended;
pub mod nearest;
pub mod notice;
pub mod problem;
pub mod ticks;
pub mod update_times;
