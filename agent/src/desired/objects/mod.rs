//! Fetches and keeps the objects and tokens that pods of this host use: `facts::objects` holds them as a value.
//!
//!     pods of the master -> `uses` -> one watch a kind and namespace (`door`), token requests (`requests`) -> `room`
//!         -> `Objects` -> the loop

pub mod door;
pub mod kept;
pub mod requests;
mod room;
