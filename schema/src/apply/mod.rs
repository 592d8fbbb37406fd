//! Owners of the fields of a document, and server-side apply: a client names the fields that it cares for, and nothing
//! else is touched.
//!
//!     fields     sets of fields, as `fieldsV1` writes them
//!     shape      what the types say of how two versions of a place meet: field by field, as a set, by keys, or as a
//!                whole
//!     check      whether what is applied fits the types
//!     compare    the fields of a document; what is added, changed and gone between two
//!     merge      one document laid over another by the types; fields taken out
//!     writer     who writes, and the versions in which such documents are told
//!     managed    `metadata.managedFields`: the sets of all who write, how a write moves fields between them
//!     manager    how a manager may be called
//!     lay        apply: a configuration laid over what stands
//!
//! As `sigs.k8s.io/structured-merge-diff` decides, so that clients find the owners, conflicts and orders that they
//! know.

mod check;
mod compare;
mod fields;
mod lay;
pub mod managed;
mod manager;
mod merge;
mod shape;
mod writer;

pub use fields::Fields;
pub use lay::{Applied, Conflict, Refusal, apply};
pub use managed::{Managed, Owner, same_but_times, track};
pub use manager::{MANAGER_BYTES_MAX, manager_problems};
pub use shape::zero;
pub use writer::{Form, Writer};
