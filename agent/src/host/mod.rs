//! The host itself: its facts, files and trees on its disks, tools, and locks.

pub mod disks;
pub mod file_system;
pub mod files;
pub mod lock;
pub mod machine;
pub mod peers;
pub mod private;
pub mod tool;
pub mod trace;
pub mod tree;
pub mod trouble;
