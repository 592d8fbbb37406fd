//! The networks of this host: the pods' own, services in the kernel, names, and the rules of others.

pub mod address;
pub mod balance;
pub mod dns;
pub mod file_ends;
pub mod firewall;
pub mod health_ports;
pub mod heed;
pub mod host_ports;
pub mod kernel_table;
pub mod known_ends;
pub mod net;
pub mod netfilter;
pub mod pod_network;
pub mod served;
pub mod services;
pub mod sieve;
