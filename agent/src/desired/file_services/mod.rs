//! Services of manifest files: of this host alone, with and without a master.
//!
//!     a document of a file -> `asked` (PURE) -> the Service of the file
//!     Services of all files -> `decide` (PURE): served or waiting, with addresses of `addresses` (PURE)
//!         -> `address_file`, where a new name came -> `Desired`

pub mod address_file;
pub mod addresses;
pub mod asked;
pub mod decide;
