//! Tells others about this node: the master, systemd, and the events of the API.

pub mod events;
pub mod node;
pub mod notify;
pub mod problems;
pub mod report;
pub mod sources;
pub mod summary;
