//! The engine over named types: reads, completes and checks a document by the rules of its type.
//!
//!     JSON -> read -> decode -> default -> check -> (the kind's strategy)
//!
//! `patch` changes documents as clients ask; a patched document goes through the same steps.
//!
//! Holds no kind's name, does no IO. Types come from compact text (see `types`), at compile time (built-in kinds:
//! static tables, nothing on the heap) or at run time. All functions are linear in the document and panic on none.

pub mod apply;
pub mod base64;
mod beside;
mod check;
mod decode;
mod default;
pub mod openapi;
pub mod order;
mod package;
pub mod patch;
mod problem;
pub mod protobuf;
mod quantity;
mod read;
mod tidy;
mod time;
mod trail;
pub mod types;
mod way;
pub mod yaml;

pub use beside::fields_beside;
pub use check::check;
pub use decode::{Decoded, Fault, decode, json_kind};
pub use default::default;
pub use problem::{Path, Problem, Reason, go_quoted};
pub use quantity::{Quantity, QuantityError, Sum, canonical as canonical_quantity, held, written};
pub use read::{in_order, in_order_of, read, read_from, read_typed};
pub use tidy::tidy;
pub use time::canonical_time;
pub use trail::DEPTH_MAX;
pub use types::Types;
