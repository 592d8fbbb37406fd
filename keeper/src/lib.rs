//! What both programs decide alike for the keeper of a host. Values only: no IO, no clock, no logging. PURE.
//!
//!     problem: what was asked for and is not there, since when, why, what to do
//!     ticks: the moments at which a schedule is due
//!     update_times: when a pod is to be updated

pub mod problem;
pub mod ticks;
pub mod update_times;
