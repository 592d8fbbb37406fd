//! Tells others about this node: the master, systemd, and the events of the API.

pub mod events;
pub mod node;
pub mod notify;
pub mod report;
pub mod summary;
