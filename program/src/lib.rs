//! The parts of a program that the master and the agent share: options, the configuration file, the notification of
//! systemd, and how much memory stays resident.

pub mod command_line;
pub mod lull;
pub mod notify;
pub mod options;
pub mod resident;
