//! The engine over named types: what a document of a type may hold, and what is done with it because of that.
//!
//! Holds no kind's name, does no IO. Types come from compact text, at compile time (built-in kinds: static tables,
//! nothing on the heap) or at run time.

mod problem;
mod quantity;

pub use problem::{Path, Problem, Reason};
pub use quantity::{Quantity, QuantityError, canonical as canonical_quantity};
