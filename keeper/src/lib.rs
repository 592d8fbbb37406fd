//! What both programs decide alike for the keeper of a host. Values only: no IO, no clock, no logging. PURE.
//!
//!     compose: manifests from a Compose file
//!     notice: when somebody is told of problems
//!     problem: what was asked for and is not there, since when, why, what to do
//!     nearest: the known word that was meant by a misspelt one
//!     ticks: the moments at which a schedule is due

pub mod nearest;
pub mod compose;
pub mod notice;
pub mod problem;
pub mod ticks;
