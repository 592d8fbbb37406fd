//! Selects the endpoints of a service's port, by traffic policy and by where the client is. PURE.
//!
//! Chooses ready endpoints, or without any of them endpoints that are ending and still serve. Traffic that must stay on
//! its node gets only endpoints on this node. If every endpoint has hints, the endpoints for this node or zone win.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use coracle_api::service::{EndpointHints, EndpointSlice, Hint, Service, ServicePort, SliceEndpoint};

use super::here::RuleHost;

pub type Endpoint = (IpAddr, u16);

/// A port that a service is reached at: an address, or (none) the node's own.
pub type At = (Option<IpAddr>, u16);

/// The endpoints of each address and port.
pub type Led = BTreeMap<At, BTreeSet<Endpoint>>;

/// The endpoints for a service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortEndpoints {
    pub cluster: BTreeSet<Endpoint>,
    pub local: BTreeSet<Endpoint>,
    /// The endpoints of `cluster` and `local` on this node.
    pub here: BTreeSet<Endpoint>,
    /// Whether any endpoint in the cluster serves the port.
    pub any: bool,
}

pub fn ends(port: &ServicePort, slices: &[Arc<EndpointSlice>], here: &RuleHost) -> PortEndpoints {
    let protocol = |text: &str| if text.is_empty() { "TCP".to_owned() } else { text.to_owned() };
    let mut all: Vec<(Endpoint, &SliceEndpoint)> = Vec::new();
    for slice in slices {
        let same = |one: &&coracle_api::service::SlicePort| {
            one.name == port.name && protocol(&one.protocol) == protocol(&port.protocol)
        };
        let Some(number) = slice
            .ports
            .iter()
            .flatten()
            .find(same)
            .and_then(|one| u16::try_from(one.port?).ok())
            .filter(|port| *port > 0)
        else {
            continue;
        };
        for endpoint in slice.endpoints.iter().flatten() {
            if let Some(address) =
                endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok()).filter(IpAddr::is_ipv4)
            {
                all.push(((address, number), endpoint));
            }
        }
    }
    let is_here = |endpoint: &SliceEndpoint| endpoint.node_name.as_deref() == Some(here.node.as_str());
    let ending = |endpoint: &SliceEndpoint| endpoint.is_serving() && endpoint.is_terminating();
    let of = |fits: &dyn Fn(&SliceEndpoint) -> bool| -> BTreeSet<Endpoint> {
        all.iter().filter(|(_, endpoint)| fits(endpoint)).map(|(end, _)| *end).collect()
    };
    let ready = all.iter().map(|(_, endpoint)| *endpoint).filter(|endpoint| endpoint.is_ready());
    let near = nearest(&ready.collect::<Vec<_>>(), here);
    let or_ending =
        |ready: BTreeSet<Endpoint>, ending: BTreeSet<Endpoint>| if ready.is_empty() { ending } else { ready };
    let cluster = or_ending(of(&|endpoint| endpoint.is_ready() && near.admits(endpoint, here)), of(&ending));
    let local = or_ending(
        of(&|endpoint| is_here(endpoint) && endpoint.is_ready()),
        of(&|endpoint| is_here(endpoint) && ending(endpoint)),
    );
    PortEndpoints { any: !cluster.is_empty() || !local.is_empty(), here: of(&is_here), cluster, local }
}

/// The slices of one service.
pub fn slices_of<'s>(service: &Service, slices: &'s [Arc<EndpointSlice>]) -> Vec<&'s Arc<EndpointSlice>> {
    slices
        .iter()
        .filter(|of| of.metadata.namespace == service.metadata.namespace && of.service() == service.metadata.name)
        .collect()
}

enum Near {
    Everywhere,
    Node,
    Zone,
}

fn names(hints: Option<&EndpointHints>, of: fn(&EndpointHints) -> Option<&Vec<Hint>>) -> &[Hint] {
    hints.and_then(of).map(Vec::as_slice).unwrap_or_default()
}

fn nodes(endpoint: &SliceEndpoint) -> &[Hint] {
    names(endpoint.hints.as_ref(), |hints| hints.for_nodes.as_ref())
}

fn zones(endpoint: &SliceEndpoint) -> &[Hint] {
    names(endpoint.hints.as_ref(), |hints| hints.for_zones.as_ref())
}

/// Hints are ignored if an endpoint lacks hints, or if no endpoint is left for this node.
fn nearest(ready: &[&SliceEndpoint], here: &RuleHost) -> Near {
    let all =
        |of: fn(&SliceEndpoint) -> &[Hint]| !ready.is_empty() && ready.iter().all(|endpoint| !of(endpoint).is_empty());
    let one = |of: fn(&SliceEndpoint) -> &[Hint], name: &str| {
        ready.iter().any(|endpoint| of(endpoint).iter().any(|hint| hint.name == name))
    };
    if all(nodes) && one(nodes, &here.node) {
        return Near::Node;
    }
    if all(zones) && !here.zone.is_empty() && one(zones, &here.zone) { Near::Zone } else { Near::Everywhere }
}

impl Near {
    fn admits(&self, endpoint: &SliceEndpoint, here: &RuleHost) -> bool {
        match self {
            Near::Everywhere => true,
            Near::Node => nodes(endpoint).iter().any(|hint| hint.name == here.node),
            Near::Zone => zones(endpoint).iter().any(|hint| hint.name == here.zone),
        }
    }
}
