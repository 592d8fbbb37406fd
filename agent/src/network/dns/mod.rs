//! The cluster's DNS server: names of services and pods, and everything else by asking the host's resolvers.
//!
//!     a packet, or a connection -> `answer` (PURE)
//!         -> an answer from `zone` (PURE) or `cache` (PURE), or `upstream` is asked
//!
//! It answers at the address of the service `kube-dns`, which only this host and its pods reach. It works without a
//! master, from the objects that the agent heard last.

mod address_names;
pub mod answer;
pub mod cache;
mod crowd;
pub mod names;
mod question;
pub mod serve;
mod terms;
pub mod upstream;
pub mod zone;
