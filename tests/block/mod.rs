//! Block devices for the tests of the store: one that records what reaches it, real file systems on it or on files, and
//! a way to take all of it away again. Devices that are not ours are never touched.
//!
//! ```text
//! store -> ext4, xfs (mount) -> loop device
//!     -> disk.img over FUSE (card: records, is slow) or a file (bench: fast, counted by the kernel)
//! ```

pub mod card;
pub mod host;
pub mod log;
pub mod plain;
pub mod random;
