//! What both programs decide alike for the keeper of a host. Values only: no IO, no clock, no logging. PURE.
//!
//!     problem: what was asked for and is not there, since when, why, what to do
//!     nearest: the known word that was meant by a misspelt one
//!     ticks: the moments at which a schedule is due

pub mod nearest;
pub mod problem;
pub mod ticks;
