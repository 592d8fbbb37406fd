//! Which addresses of services outside of the cluster are served on this host. PURE.
//!
//!     an external IP          where `external-ips` of the configuration names it: whoever may write a service could
//!                             else have what comes from this host and its pods to any address of the world
//!     a balancer's address    the same, or this node's own, which the master's balancer gives
//!     never                   an address of a pod or a service, or a port at which a program of this host listens

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use coracle_api::service::{Service, ServicePort};
use coracle_api::strategy::Cidr;

use crate::network::host_ports::{Listening, takes};

/// The facts about this host and cluster that decide which external addresses are served. Only addresses and ports
/// requested by services are included, so that the value seldom changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outer {
    /// The networks that the configuration names.
    pub allowed: Vec<Cidr>,
    /// This node, as the master knows it.
    pub node: Option<IpAddr>,
    /// Requested external addresses that are cluster IPs as well.
    pub inner: BTreeSet<IpAddr>,
    /// Requested ports that a program of this host uses, with the program's listening address.
    pub taken: BTreeSet<(OuterPort, SocketAddr)>,
}

/// An address, a protocol in capitals and a port.
pub type OuterPort = (IpAddr, String, u16);

/// Why one is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barred {
    NotAllowed,
    OfCluster,
    Listens(SocketAddr),
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Barred::NotAllowed => f.write_str(
                "external-ips in agent.conf does not name it (a network such as 192.168.1.240/28, for whoever may \
                 write services)",
            ),
            Barred::OfCluster => f.write_str("it is an address of pods or of a service"),
            Barred::Listens(holder) => write!(
                f,
                "a program of this host listens at {holder} (`ss -lntup` says which program; end it, or give the \
                 service another port)"
            ),
        }
    }
}

/// What is asked for from outside: by each service its external IPs, and the addresses that a balancer gave.
fn asked(service: &Service) -> impl Iterator<Item = IpAddr> + '_ {
    let balanced = service.status.load_balancer.ingress.iter().map(|one| &one.ip).filter(|_| is_balanced(service));
    service.spec.external_ips.iter().chain(balanced).filter_map(|text| text.parse().ok())
}

fn is_balanced(service: &Service) -> bool {
    service.spec.kind == "LoadBalancer"
}

pub fn protocol(port: &ServicePort) -> &str {
    if port.protocol.is_empty() { "TCP" } else { &port.protocol }
}

/// The ports that services request at these addresses of this host. The caller looks for programs that listen there.
pub fn asked_here(services: &[Arc<Service>], local: &[IpAddr]) -> BTreeSet<OuterPort> {
    let of = |service: &Arc<Service>| {
        let ports: Vec<(String, u16)> = service
            .spec
            .ports
            .iter()
            .filter_map(|port| Some((protocol(port).to_owned(), u16::try_from(port.port).ok()?)))
            .collect();
        let here: Vec<IpAddr> = asked(service).filter(|address| local.contains(address)).collect();
        here.into_iter().flat_map(move |address| {
            ports.clone().into_iter().map(move |(protocol, number)| (address, protocol, number))
        })
    };
    services.iter().flat_map(of).collect()
}

/// The requested ports at which a program listens.
pub fn taken(asked: &BTreeSet<OuterPort>, listening: &Listening) -> BTreeSet<(OuterPort, SocketAddr)> {
    let holder = |(address, protocol, number): &OuterPort| {
        let all = match protocol.as_str() {
            "TCP" => &listening.tcp,
            "UDP" => &listening.udp,
            _ => return None,
        };
        all.iter().find(|one| one.port() == *number && takes(one.ip(), Some(*address))).copied()
    };
    asked.iter().filter_map(|port| Some((port.clone(), holder(port)?))).collect()
}

impl Outer {
    /// `own`: the address at which the agent answers for names. `taken`: requested ports that a program uses.
    pub fn look(
        &mut self,
        services: &[Arc<Service>],
        own: Option<IpAddr>,
        node: Option<IpAddr>,
        taken: BTreeSet<(OuterPort, SocketAddr)>,
    ) {
        let asked: BTreeSet<IpAddr> = services.iter().flat_map(|service| asked(service)).collect();
        let addresses = services.iter().filter_map(|service| service.spec.cluster_ip.parse().ok()).chain(own);
        self.inner =
            if asked.is_empty() { BTreeSet::new() } else { addresses.filter(|one| asked.contains(one)).collect() };
        (self.node, self.taken) = (node, taken);
    }

    /// Whether the port of an address that a service asks for is served. `pods`: the addresses of this host's pods.
    pub fn serves(
        &self,
        address: IpAddr,
        port: &ServicePort,
        is_balancers: bool,
        pods: Option<Cidr>,
    ) -> Result<(), Barred> {
        if !(is_balancers && self.node == Some(address)) {
            let everybodys = address.is_loopback() || address.is_unspecified() || address.is_multicast();
            if everybodys || !self.allowed.iter().any(|network| network.contains(address)) {
                return Err(Barred::NotAllowed);
            }
        }
        if self.inner.contains(&address) || pods.is_some_and(|pods| pods.contains(address)) {
            return Err(Barred::OfCluster);
        }
        let is_it =
            |(at, of, number): &OuterPort| *at == address && of == protocol(port) && i32::from(*number) == port.port;
        match self.taken.iter().find(|(port, _)| is_it(port)) {
            Some((_, holder)) => Err(Barred::Listens(*holder)),
            None => Ok(()),
        }
    }

    /// Whether the refused addresses of a balancer need no report. This node's own address is among the addresses of
    /// the service, and is served: the refused addresses belong to other nodes.
    pub fn is_of_others(&self, service: &Service) -> bool {
        is_balanced(service) && asked(service).any(|address| self.node == Some(address))
    }
}

/// The refused parts of a service. Each reason is reported once, however many addresses and ports the service has.
#[derive(Debug, Default)]
pub struct Denied(BTreeMap<(&'static str, &'static str), (BTreeSet<String>, Barred)>);

impl Denied {
    pub fn note(&mut self, field: &'static str, address: IpAddr, port: &ServicePort, why: Barred) {
        let (reason, at) = match why {
            Barred::Listens(_) => ("PortTaken", format!("{address}:{}/{}", port.port, protocol(port))),
            Barred::NotAllowed => ("ExternalIPNotServed", address.to_string()),
            Barred::OfCluster => ("ExternalIPOfCluster", address.to_string()),
        };
        self.0.entry((reason, field)).or_insert_with(|| (BTreeSet::new(), why)).0.insert(at);
    }

    /// Reason and message of each.
    pub fn told(self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.into_iter().map(|((reason, field), (all, why))| {
            let more = if all.len() > 1 { format!(" (and {} more)", all.len() - 1) } else { String::new() };
            let first = all.into_iter().next().unwrap_or_default();
            (reason, format!("{field} {first}{more} is not served on this host: {why}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn service(spec: &serde_json::Value, ingress: &[&str]) -> Arc<Service> {
        let ingress: Vec<_> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
        let status = json!({"loadBalancer": {"ingress": ingress}});
        let document = json!({"metadata": {"namespace": "d", "name": "s"}, "spec": spec, "status": status});
        Arc::new(Service::read(&document).unwrap())
    }

    #[test]
    fn what_the_configuration_names_and_nobody_has() {
        let services = [
            service(
                &json!({"clusterIP": "10.96.0.1", "externalIPs": ["10.96.0.1", "192.0.2.9"],
                "ports": [{"port": 22}, {"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "SCTP"}]}),
                &[],
            ),
            service(&json!({"clusterIP": "None", "type": "LoadBalancer", "ports": [{"port": 443}]}), &["192.0.2.7"]),
            service(&json!({"clusterIP": "None", "ports": [{"port": 80}]}), &["192.0.2.8"]),
        ];
        let local = ["192.0.2.7", "192.0.2.8", "192.0.2.9", "127.0.0.1"].map(address);
        let asked = asked_here(&services, &local);
        let port = |at: &str, protocol: &str, number| (address(at), protocol.to_owned(), number);
        let expected = [
            port("192.0.2.7", "TCP", 443),
            port("192.0.2.9", "SCTP", 9),
            port("192.0.2.9", "TCP", 22),
            port("192.0.2.9", "UDP", 53),
        ];
        assert_eq!(asked, expected.into(), "a balancer's address counts for those that ask for a balancer");
        let listening = Listening {
            tcp: ["0.0.0.0:22", "127.0.0.1:443"].iter().map(|text| text.parse().unwrap()).collect(),
            udp: vec!["192.0.2.8:53".parse().unwrap()],
        };
        let taken = taken(&asked, &listening);
        let check = |allowed: &[&str], at: &str, number: i32, is_balancers: bool, expected: Result<(), Barred>| {
            let allowed = allowed.iter().map(|text| Cidr::parse(text).unwrap()).collect();
            let mut outer = Outer { allowed, ..Outer::default() };
            outer.look(&services, Some(address("10.96.0.10")), Some(address("192.0.2.7")), taken.clone());
            let port = ServicePort { port: number, ..ServicePort::default() };
            let found = outer.serves(address(at), &port, is_balancers, Cidr::parse("10.244.0.0/24"));
            assert_eq!(found, expected, "{allowed:?} {at}:{number}", allowed = outer.allowed);
        };
        let all = ["0.0.0.0/0"];
        let holder = || Err(Barred::Listens("0.0.0.0:22".parse().unwrap()));
        // Nothing without leave, but for a balancer the node's own address.
        for at in ["8.8.8.8", "192.0.2.9", "192.0.2.7"] {
            check(&[], at, 80, false, Err(Barred::NotAllowed));
        }
        check(&[], "192.0.2.7", 80, true, Ok(()));
        check(&[], "192.0.2.8", 80, true, Err(Barred::NotAllowed));
        check(&["192.0.2.8/30"], "192.0.2.9", 80, false, Ok(()));
        check(&["192.0.2.8/30"], "192.0.2.9", 80, true, Ok(()));
        check(&["192.0.2.8/30"], "192.0.2.12", 80, false, Err(Barred::NotAllowed));
        check(&["198.51.100.0/24", "192.0.2.12/32"], "192.0.2.12", 80, false, Ok(()));
        // With all leave never what is of the cluster, or everybody's.
        check(&all, "8.8.8.8", 22, false, Ok(()));
        check(&all, "10.96.0.1", 80, false, Err(Barred::OfCluster));
        check(&all, "10.244.0.9", 80, false, Err(Barred::OfCluster));
        for at in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "::1"] {
            check(&all, at, 80, false, Err(Barred::NotAllowed));
        }
        // Nor what a program has.
        check(&all, "192.0.2.9", 22, false, holder());
        check(&all, "192.0.2.9", 23, false, Ok(()));
        check(&all, "192.0.2.7", 443, true, Ok(()));
    }
}
