//! Services: computes the kernel's rules for them. PURE.
//!
//!     services and slices -> `ends`: who serves a port, from where -> `ServiceRules` of each -> `nft`: the text
//!
//!     traffic to                              leads to
//!     the cluster IP                          every endpoint, or those on this node (internalTrafficPolicy)
//!     an external IP, a balancer's, a node port    every endpoint, or for clients outside the endpoints on this node
//!                                                  (externalTrafficPolicy); `outer` chooses the served addresses
//!     a port without endpoints                a refusal; a drop if only other nodes have endpoints, so that a
//!                                             balancer tries the next node

pub mod ends;
pub mod flows;
pub mod group;
mod held;
mod here;
pub mod netlink;
pub mod nft;
pub mod outer;
mod part;
pub mod standing;
pub mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use coracle_api::service::{EndpointSlice, Service, ServicePort};
use coracle_api::strategy::Cidr;

use crate::facts::happening::Happening;
use crate::facts::hash::hash_text;
use ends::{Endpoint, PortEndpoints, ends};
use group::{Group, Made};
use held::TableContent;
pub use here::RuleHost;
use nft::comment;
pub use nft::{change, script, trial};
use outer::{Barred, Denied, Outer};
pub use part::ServiceRules;
pub use variables::variables;

/// Where somebody is who asked for affinity and not for how long.
const AFFINITY_S: i32 = 10_800;

/// The ports of a service times the endpoints of each: every pair is an element in the kernel, and some kilobytes of
/// memory while nft loads the table. The limits for a single service, and for all services of a host.
const BACKENDS_MAX: usize = 2_048;
const ALL_BACKENDS_MAX: usize = 16_384;
const TOO_MANY: &str = "TooManyEndpoints";

/// The rules that the kernel should have, and the parts of services that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRules {
    pub here: RuleHost,
    /// One entry for each service with an address.
    pub parts: Vec<Arc<ServiceRules>>,
    /// The unsupported parts of services.
    pub refused: Vec<Refused>,
    /// The services were read from this host's disk: no master has been heard since the start.
    pub from_file: bool,
    /// Services of manifest files, by namespace and name.
    pub of_files: BTreeSet<(String, String)>,
}

/// A service that does not get all it asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub reason: &'static str,
    /// The field, its value and the reason.
    pub what: String,
}

/// A service whose rules nft refuses while the rules of all remaining services load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// In nft's words.
    pub why: String,
}

impl Refused {
    pub fn happening(&self) -> Happening {
        let Refused { namespace, name, uid, reason, what } = self;
        Happening::of_service([namespace, name, uid], reason, what.clone())
    }
}

impl LeftOut {
    pub fn happening(&self) -> Happening {
        let LeftOut { namespace, name, uid, .. } = self;
        Happening::of_service([namespace, name, uid], "RulesRefused", self.message())
    }

    pub fn message(&self) -> String {
        format!("its address does not work on this host, as the rules for it are refused: {}", self.why)
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}/{}: {}; all others work", self.namespace, self.name, self.message())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}/{}: {}", self.namespace, self.name, self.what)
    }
}

/// The rules of a service, if the service has an address, and its unsupported fields.
type Piece = (Option<Arc<ServiceRules>>, Vec<Refused>);
/// The results for each service on this host, kept for the next call.
#[derive(Debug, Default)]
pub struct Pieces {
    here: RuleHost,
    made: Made<Piece>,
}

/// The rules of all services. `served`: the address of a service that the agent itself answers at.
pub fn rules(groups: &[Group], here: &RuleHost, served: Option<IpAddr>, pieces: &mut Pieces) -> KernelRules {
    if pieces.here != *here {
        *pieces = Pieces { here: here.clone(), made: Made::default() };
    }
    // What is the same for all services says nothing of those outside.
    let common = RuleHost { outer: Outer::default(), ..here.clone() };
    let mut rules = KernelRules { here: common, ..KernelRules::default() };
    let mut backends = 0;
    for (part, refused) in pieces.made.take(groups, |group| piece(group, here)).0 {
        rules.refused.extend(refused);
        // The agent itself answers at `served` if the service has no endpoint, so no refusal may be loaded there.
        let Some(part) = part.filter(|part| served != Some(part.address) || part.held.leads_anywhere()) else {
            continue;
        };
        if backends + part.backends > ALL_BACKENDS_MAX {
            rules.refused.push(one_too_many(&part));
            rules.parts.push(Arc::new(refusing(&part)));
            continue;
        }
        backends += part.backends;
        rules.parts.push(part);
    }
    rules
}

fn one_too_many(part: &ServiceRules) -> Refused {
    let what = format!(
        "its {} pairs of ports and endpoints would be more than {ALL_BACKENDS_MAX} of all services on one host: its \
         address refuses every connection here",
        part.backends
    );
    let (namespace, name, uid) = (part.namespace.clone(), part.name.clone(), part.uid.clone());
    Refused { namespace, name, uid, reason: TOO_MANY, what }
}

/// The service with its address alone: the kernel refuses a connection to an address that leads to no endpoint.
fn refusing(part: &ServiceRules) -> ServiceRules {
    let (namespace, name, uid) = (part.namespace.clone(), part.name.clone(), part.uid.clone());
    let mut held = TableContent::default();
    held.put("addresses", part.address.to_string(), "");
    ServiceRules { namespace, name, uid, address: part.address, flows: BTreeMap::new(), backends: 0, held }
}

fn piece(Group { service, slices }: &Group, here: &RuleHost) -> Piece {
    let mut refused = Vec::new();
    let part = match service.spec.cluster_ip.parse::<IpAddr>() {
        Ok(address) if address.is_ipv4() => Some(Arc::new(part(service, address, slices, here, &mut refused))),
        Ok(address) => {
            refused.push(unsupported(service, &format!("spec.clusterIP {address}, an address of IPv6,")));
            None
        }
        Err(_) => None,
    };
    (part, refused)
}

fn unsupported(service: &Service, what: &str) -> Refused {
    refusal(service, "UnsupportedField", format!("{what} is not supported by this version of the agent"))
}

fn refusal(service: &Service, reason: &'static str, what: String) -> Refused {
    let meta = &service.metadata;
    Refused { namespace: meta.namespace.clone(), name: meta.name.clone(), uid: meta.uid.clone(), reason, what }
}

fn part(
    service: &Service,
    address: IpAddr,
    slices: &[Arc<EndpointSlice>],
    here: &RuleHost,
    refused: &mut Vec<Refused>,
) -> ServiceRules {
    let (namespace, name) = (service.metadata.namespace.clone(), service.metadata.name.clone());
    let mut part = ServiceRules {
        namespace,
        name,
        uid: service.metadata.uid.clone(),
        address,
        flows: BTreeMap::new(),
        backends: 0,
        held: TableContent::default(),
    };
    let mut denied = Denied::default();
    let mut left_out = 0;
    // Also where nothing is balanced: a refused connection says more than a lost one.
    part.held.put("addresses", address.to_string(), "");
    for (index, port) in service.spec.ports.iter().enumerate() {
        let protocol = match port.protocol.as_str() {
            "" | "TCP" => "tcp",
            "UDP" => "udp",
            other => {
                refused.push(unsupported(service, &format!("spec.ports[{index}].protocol {other}")));
                continue;
            }
        };
        if let Ok(number) = u16::try_from(port.port).and_then(|number| u16::try_from(port.node_port).map(|_| number)) {
            let ends = if left_out == 0 { ends(port, slices, here) } else { PortEndpoints::default() };
            let more = ends.cluster.union(&ends.local).count();
            if left_out > 0 || part.backends + more > BACKENDS_MAX {
                left_out += 1;
                part.held.put("unserved", format!("{address} . {protocol} . {number}"), "drop");
                continue;
            }
            part.backends += more;
            let outside = outside(service, port, here, &mut denied);
            one_port(&mut part, service, (&outside, protocol, number), &ends, here);
        } else {
            // No master gives one out; nft says what is wrong with it.
            part.held.put("services", format!("{address} . {protocol} . {}", port.port), "drop");
        }
    }
    if left_out > 0 {
        let what = format!(
            "a service has at most {BACKENDS_MAX} pairs of ports and endpoints: its last {left_out} ports lead nowhere"
        );
        refused.push(refusal(service, TOO_MANY, what));
    }
    refused.extend(denied.told().map(|(reason, what)| refusal(service, reason, what)));
    part
}

fn one_port(
    part: &mut ServiceRules,
    service: &Service,
    (outside, protocol, number): (&BTreeSet<Where>, &str, u16),
    ends: &PortEndpoints,
    here: &RuleHost,
) {
    let spec = &service.spec;
    let hash = hash_text(&format!("{}/{}/{protocol}/{number}", part.namespace, part.name))[..16].to_owned();
    let said = comment(&format!("{}/{}:{number}", part.namespace, part.name));
    let affinity_s = (spec.session_affinity == "ClientIP").then(|| spec.affinity_timeout_s().unwrap_or(AFFINITY_S));
    let mut chain = |prefix: &str, to: &BTreeSet<Endpoint>| -> Option<String> {
        (!to.is_empty()).then(|| part.held.balance(&format!("{prefix}_{hash}"), &hash, protocol, to, affinity_s, &said))
    };
    let (inward, outward) = (spec.internal_traffic_policy == "Local", spec.external_traffic_policy == "Local");
    let (cluster, local) = (
        (!inward || !outside.is_empty()).then(|| chain("svc", &ends.cluster)).flatten(),
        (inward || outward).then(|| chain("loc", &ends.local)).flatten(),
    );
    let internal = if inward { &local } else { &cluster };
    let at = format!("{} . {protocol} . {number}", part.address);
    match internal {
        Some(to) => part.held.put("services", at, &format!("goto {to}")),
        None if ends.any => part.held.put("unserved", at, "drop"),
        None => {}
    }
    let external = match (outward, &cluster) {
        (true, Some(cluster)) => {
            Some(part.held.outward(&format!("ext_{hash}"), cluster, local.as_deref(), &here.pod_cidr))
        }
        (_, cluster) => cluster.clone(),
    };
    let lost = outward && local.is_none() && ends.any;
    let ranges = &spec.load_balancer_source_ranges;
    for place in outside {
        let (led, unserved, at) = match place {
            Where::Address(ip) | Where::Balancer(ip) => {
                ("services", "unserved", format!("{ip} . {protocol} . {number}"))
            }
            Where::NodePort(port) => ("node_ports", "unserved_ports", format!("{protocol} . {port}")),
        };
        if let Some(to) = &external {
            part.held.put(led, at.clone(), &format!("goto {to}"));
        }
        match (lost, external.is_none()) {
            (true, _) => part.held.put(unserved, at.clone(), "drop"),
            (_, true) => part.held.put(unserved, at.clone(), "goto refuse"),
            _ => {}
        }
        if let Where::Balancer(_) = place
            && !ranges.is_empty()
        {
            let chain = part.held.only_from(&format!("fw_{hash}"), ranges);
            part.held.put("firewall", at, &format!("goto {chain}"));
        }
    }
    mark_ends(part, protocol, ends, here);
    if protocol == "udp" {
        part.flows.insert((Some(part.address), number), if inward { ends.local.clone() } else { ends.cluster.clone() });
        for place in outside {
            let both: BTreeSet<Endpoint> = ends.cluster.union(&ends.local).copied().collect();
            match place {
                Where::Address(ip) | Where::Balancer(ip) => part.flows.insert((Some(*ip), number), both),
                Where::NodePort(port) => part.flows.insert((None, *port), both),
            };
        }
    }
}

/// The endpoints that may be their own clients, and those that are not on this host.
fn mark_ends(part: &mut ServiceRules, protocol: &str, ends: &PortEndpoints, here: &RuleHost) {
    for (ip, port) in ends.cluster.union(&ends.local) {
        if ends.here.contains(&(*ip, *port)) {
            part.held.put("hairpins", format!("{ip} . {ip}"), "");
        }
        if !pods_contain(&here.pod_cidr, *ip) {
            part.held.put("remote", format!("{ip} . {protocol} . {port}"), "");
        }
    }
}

fn pods_contain(pod_cidr: &str, ip: IpAddr) -> bool {
    Cidr::parse(pod_cidr).is_some_and(|pods| pods.contains(ip))
}

/// A place outside of the cluster that a service is reached at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    Address(IpAddr),
    Balancer(IpAddr),
    NodePort(u16),
}

/// Where a port is reached from outside of the cluster.
fn outside(service: &Service, port: &ServicePort, here: &RuleHost, denied: &mut Denied) -> BTreeSet<Where> {
    let spec = &service.spec;
    let ipv4 = |text: &str| text.parse::<IpAddr>().ok().filter(IpAddr::is_ipv4);
    let given = spec.external_ips.iter().filter_map(|ip| ipv4(ip)).map(Where::Address);
    let mut asked: BTreeSet<Where> = given.collect();
    if spec.kind == "LoadBalancer" {
        // Packets to an address with ipMode Proxy must go through the balancer: the address gets no rule.
        let ingress = service.status.load_balancer.ingress.iter().filter(|ingress| ingress.ip_mode != "Proxy");
        asked.extend(ingress.filter_map(|ingress| ipv4(&ingress.ip)).map(Where::Balancer));
    }
    let pods = Cidr::parse(&here.pod_cidr);
    let mut places = BTreeSet::new();
    for place in asked {
        let (address, is_balancers, field) = match place {
            Where::Balancer(address) => (address, true, "status.loadBalancer.ingress"),
            Where::Address(address) => (address, false, "spec.externalIPs"),
            Where::NodePort(_) => continue,
        };
        match here.outer.serves(address, port, is_balancers, pods) {
            Ok(()) => drop(places.insert(place)),
            Err(Barred::NotAllowed) if is_balancers && here.outer.is_of_others(service) => {}
            Err(why) => denied.note(field, address, port, why),
        }
    }
    if let Ok(number) = u16::try_from(port.node_port)
        && number > 0
        && matches!(spec.kind.as_str(), "NodePort" | "LoadBalancer")
    {
        places.insert(Where::NodePort(number));
    }
    places
}

#[cfg(test)]
mod tests;
