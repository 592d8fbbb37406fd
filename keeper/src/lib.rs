//! What both programs decide alike for the keeper of a host. Values only: no IO, no clock, no logging. PURE.
//!
//!     ended: how a container ended, in words
//!     problem: what was asked for and is not there, since when, why, what to do
//!     ticks: the moments at which a schedule is due

pub mod ended;
pub mod problem;
pub mod ticks;
