//! Tests across the crates; see `it/` (in process), `e2e/` (real Docker, real binaries), `crash/` (real file systems
//! that lose power).

#[cfg(feature = "block")]
pub mod block;
pub mod fuzz;
pub mod stock;
