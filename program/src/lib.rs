//! The parts of a program that the master and the agent share: options, the configuration file, the notification of
//! systemd, how much memory stays resident, and the time zones of the host.

pub mod command_line;
pub mod lull;
pub mod notify;
pub mod options;
pub mod resident;
pub mod zones;
