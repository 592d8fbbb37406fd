//! The rules for a single service. PURE.

use std::net::IpAddr;

use super::ends::Led;
use super::held::TableContent;

/// The rules of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRules {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Also for routes.
    pub address: IpAddr,
    /// The endpoints for UDP, by address (none: the node's own) and port. When the endpoints change, flows to a former
    /// endpoint are ended.
    pub flows: Led,
    /// How many endpoints its ports have in all.
    pub backends: usize,
    pub(crate) held: TableContent,
}
