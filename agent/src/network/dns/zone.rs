//! Resolves names of the cluster by the DNS specification of Kubernetes. PURE.
//!
//!     services and their slices -> `Zone` -> a name and a type -> records · none of that type · no such name
//!         · not ours
//!
//!     SERVICE.NAMESPACE.svc.DOMAIN                    the service's address; of a headless one those of its ready
//!                                                     endpoints
//!     HOST.SERVICE.NAMESPACE.svc.DOMAIN               one endpoint of a headless service, by its hostname or its
//!                                                     address with dashes
//!     _PORT._PROTOCOL.SERVICE.NAMESPACE.svc.DOMAIN    where a named port is
//!     10-244-0-7.NAMESPACE.pod.DOMAIN                 that address
//!     the address turned round, .in-addr.arpa or .ip6.arpa    the names above

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use coracle_api::service::{EndpointSlice, Service};

use super::address_names::{dashes, turned, with_dashes};
use crate::network::services::group::{Group, Made};

/// The version of the DNS specification.
const VERSION: &str = "1.1.0";
/// The TTL of answers: an endpoint may go at any moment.
pub const TTL_S: u32 = 5;
/// The limit of one answer: a service with more endpoints shows the others to the next query.
const HOSTS_MAX: usize = 250;

/// The names of each service; none: it has no names.
pub type Entries = Made<Option<Arc<Entry>>>;

/// All names of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// The cluster domain, in lower case.
    domain: String,
    /// By namespace and name.
    services: BTreeMap<(String, String), Arc<Entry>>,
    reverse: BTreeMap<IpAddr, BTreeSet<String>>,
}

/// The DNS content for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Addresses(Vec<IpAddr>, Vec<Port>),
    /// The endpoints of a headless service.
    Hosts(Vec<ZoneHost>),
    /// A CNAME, outside or inside the cluster.
    Alias(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    name: String,
    /// In lower case.
    protocol: String,
    number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneHost {
    label: String,
    address: IpAddr,
    ports: Vec<Port>,
}

/// The types that names here can have; any other has no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    A,
    Aaaa,
    Srv,
    Ptr,
    Txt,
    Cname,
    Ns,
    Soa,
    Any,
    Other,
}

/// The records of a name; names have no dot at their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Address(IpAddr),
    Alias(String),
    Service { weight: u16, port: u16, target: String },
    Pointer(String),
    Text(String),
    Server(String),
    Authority,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRecord {
    pub name: String,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The answer records, and the additional records.
    Records(Vec<DnsRecord>, Vec<DnsRecord>),
    /// The name exists, but has no record of this type.
    Nothing,
    NoName,
    /// The name is outside the cluster's zone.
    Elsewhere,
}

impl Zone {
    pub fn new(domain: &str, groups: &[Group]) -> Zone {
        Zone::of(domain, groups, groups.iter().map(entry).collect())
    }

    /// None: every name still has the same records.
    pub fn changed(domain: &str, groups: &[Group], entries: &mut Entries) -> Option<Zone> {
        let (made, differs) = entries.take(groups, entry);
        differs.then(|| Zone::of(domain, groups, made))
    }

    fn of(domain: &str, groups: &[Group], entries: Vec<Option<Arc<Entry>>>) -> Zone {
        let mut zone = Zone { domain: domain.to_ascii_lowercase(), ..Zone::default() };
        for (Group { service, .. }, entry) in groups.iter().zip(entries) {
            let Some(entry) = entry else { continue };
            let key = (service.metadata.namespace.clone(), service.metadata.name.clone());
            let full = zone.of_service(&key.0, &key.1);
            match &*entry {
                Entry::Addresses(addresses, _) => {
                    for address in addresses {
                        zone.reverse.entry(*address).or_default().insert(full.clone());
                    }
                }
                Entry::Hosts(hosts) => {
                    for host in hosts {
                        zone.reverse.entry(host.address).or_default().insert(format!("{}.{full}", host.label));
                    }
                }
                Entry::Alias(_) => {}
            }
            zone.services.insert(key, entry);
        }
        zone
    }

    /// The name server of the domain.
    pub fn server(&self) -> String {
        format!("ns.dns.{}", self.domain)
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    fn of_service(&self, namespace: &str, name: &str) -> String {
        format!("{name}.{namespace}.svc.{}", self.domain)
    }

    /// `name` in lower case, without a dot at its end. `server`: the address that answers.
    pub fn look(&self, name: &str, asked: RecordType, server: Option<IpAddr>) -> LookupResult {
        if let Some(address) = turned(name) {
            return self.names_of(name, address, asked);
        }
        let Some(rest) = name.strip_suffix(self.domain.as_str()) else { return LookupResult::Elsewhere };
        if rest.is_empty() {
            return self.apex(name, asked);
        }
        let Some(rest) = rest.strip_suffix('.') else { return LookupResult::Elsewhere };
        let labels: Vec<&str> = rest.split('.').rev().collect();
        match labels.as_slice() {
            ["dns-version"] => {
                of_type(asked, &[RecordType::Txt], || vec![record(name, Data::Text(VERSION.to_owned()))])
            }
            ["dns", "ns"] => addresses(name, server, asked),
            ["svc" | "pod" | "dns"] => LookupResult::Nothing,
            ["svc", namespace, rest @ ..] => self.in_namespace(name, namespace, rest, asked),
            ["pod", _] => LookupResult::Nothing,
            ["pod", _, dashed] => {
                dashes(dashed).map_or(LookupResult::NoName, |address| addresses(name, Some(address), asked))
            }
            _ => LookupResult::NoName,
        }
    }

    fn apex(&self, name: &str, asked: RecordType) -> LookupResult {
        let (authority, server) = (record(name, Data::Authority), record(name, Data::Server(self.server())));
        let of_it = match asked {
            RecordType::Soa => vec![authority],
            RecordType::Ns => vec![server],
            RecordType::Any => vec![authority, server],
            _ => return LookupResult::Nothing,
        };
        LookupResult::Records(of_it, Vec::new())
    }

    fn names_of(&self, name: &str, address: IpAddr, asked: RecordType) -> LookupResult {
        let Some(names) = self.reverse.get(&address) else { return LookupResult::Elsewhere };
        of_type(asked, &[RecordType::Ptr], || names.iter().map(|to| record(name, Data::Pointer(to.clone()))).collect())
    }

    /// `rest`: the labels below the namespace, the service's first.
    fn in_namespace(&self, name: &str, namespace: &str, rest: &[&str], asked: RecordType) -> LookupResult {
        let [service, below @ ..] = rest else {
            let from = (namespace.to_owned(), String::new());
            let lives = self.services.range(from..).next().is_some_and(|((of, _), _)| of == namespace);
            return if lives { LookupResult::Nothing } else { LookupResult::NoName };
        };
        let Some(entry) = self.services.get(&(namespace.to_owned(), (*service).to_owned())) else {
            return LookupResult::NoName;
        };
        match (&**entry, below) {
            (Entry::Alias(to), []) => LookupResult::Records(vec![record(name, Data::Alias(to.clone()))], Vec::new()),
            (Entry::Addresses(addresses, _), []) if asked != RecordType::Srv => {
                several(name, addresses.iter().copied(), asked)
            }
            (Entry::Hosts(hosts), []) if asked != RecordType::Srv => of_hosts(name, hosts.iter(), asked),
            (Entry::Hosts(hosts), [label]) if !label.starts_with('_') && asked != RecordType::Srv => {
                of_hosts(name, hosts.iter().filter(|host| host.label == *label), asked)
            }
            (Entry::Hosts(hosts), [label]) if !label.starts_with('_') => {
                let one: Vec<ZoneHost> = hosts.iter().filter(|host| host.label == *label).cloned().collect();
                self.ports(name, (namespace, service), &Entry::Hosts(one), None, asked)
            }
            (entry, []) => self.ports(name, (namespace, service), entry, None, asked),
            (entry, [protocol, port]) => match (protocol.strip_prefix('_'), port.strip_prefix('_')) {
                (Some(protocol), Some(port)) => {
                    self.ports(name, (namespace, service), entry, Some((protocol, port)), asked)
                }
                _ => LookupResult::NoName,
            },
            // Between a port's name and its service there is nothing by itself.
            (entry, [protocol]) if has_protocol(entry, protocol) => LookupResult::Nothing,
            _ => LookupResult::NoName,
        }
    }

    /// Where the ports of a service are; `only` names one by protocol and name.
    fn ports(
        &self,
        name: &str,
        (namespace, service): (&str, &str),
        entry: &Entry,
        only: Option<(&str, &str)>,
        asked: RecordType,
    ) -> LookupResult {
        let fits = |port: &&Port| {
            only.is_none_or(|(protocol, name)| port.protocol == protocol && port.name == name && !name.is_empty())
        };
        let full = self.of_service(namespace, service);
        let mut targets: Vec<(String, IpAddr, u16)> = Vec::new();
        match entry {
            Entry::Addresses(addresses, ports) => {
                for port in ports.iter().filter(fits) {
                    targets.extend(addresses.iter().map(|address| (full.clone(), *address, port.number)));
                }
            }
            Entry::Hosts(hosts) => {
                for host in hosts.iter().take(HOSTS_MAX) {
                    let to = format!("{}.{full}", host.label);
                    targets.extend(host.ports.iter().filter(fits).map(|port| (to.clone(), host.address, port.number)));
                }
            }
            Entry::Alias(_) => {}
        }
        if targets.is_empty() {
            return if only.is_none() && !matches!(entry, Entry::Hosts(hosts) if hosts.is_empty()) {
                LookupResult::Nothing
            } else {
                LookupResult::NoName
            };
        }
        let weight = u16::try_from(100 / targets.len().max(1)).unwrap_or(1).max(1);
        of_type_with(asked, &[RecordType::Srv], || {
            let mut services: Vec<DnsRecord> = Vec::new();
            let mut beside: Vec<DnsRecord> = Vec::new();
            for (target, address, port) in &targets {
                let service = record(name, Data::Service { weight, port: *port, target: target.clone() });
                let address = record(target, Data::Address(*address));
                if !services.contains(&service) {
                    services.push(service);
                }
                if !beside.contains(&address) {
                    beside.push(address);
                }
            }
            (services, beside)
        })
    }
}

fn entry(Group { service, slices }: &Group) -> Option<Arc<Entry>> {
    names(service, slices).map(Arc::new)
}

fn names(service: &Service, slices: &[Arc<EndpointSlice>]) -> Option<Entry> {
    let spec = &service.spec;
    if spec.kind == "ExternalName" {
        let to = spec.external_name.trim_end_matches('.').to_ascii_lowercase();
        // Kubernetes accepts an address as externalName here. Its DNS answers address queries with that address.
        return match to.parse::<IpAddr>() {
            Ok(address) => Some(Entry::Addresses(vec![address], Vec::new())),
            Err(_) => (!to.is_empty()).then_some(Entry::Alias(to)),
        };
    }
    if !spec.headless() {
        let all = if spec.cluster_ips.is_empty() { std::slice::from_ref(&spec.cluster_ip) } else { &spec.cluster_ips };
        let addresses: Vec<IpAddr> = all.iter().filter_map(|text| text.parse().ok()).collect();
        let ports = spec.ports.iter().filter_map(|port| new_port(&port.name, &port.protocol, port.port)).collect();
        return (!addresses.is_empty()).then_some(Entry::Addresses(addresses, ports));
    }
    let mut hosts: BTreeMap<(String, IpAddr), BTreeSet<Port>> = BTreeMap::new();
    for slice in slices {
        let ports: Vec<Port> =
            slice.ports.iter().flatten().filter_map(|port| new_port(&port.name, &port.protocol, port.port?)).collect();
        for endpoint in
            slice.endpoints.iter().flatten().filter(|endpoint| endpoint.is_ready() || spec.publish_not_ready_addresses)
        {
            for address in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
                let given = endpoint.hostname.as_deref().filter(|name| !name.is_empty());
                let label = given.map_or_else(|| with_dashes(address), str::to_ascii_lowercase);
                hosts.entry((label, address)).or_default().extend(ports.iter().cloned());
            }
        }
    }
    let host = |((label, address), ports): ((String, IpAddr), BTreeSet<Port>)| ZoneHost {
        label,
        address,
        ports: ports.into_iter().collect(),
    };
    Some(Entry::Hosts(hosts.into_iter().map(host).collect()))
}

fn new_port(name: &str, protocol: &str, number: i32) -> Option<Port> {
    let protocol = if protocol.is_empty() { "tcp".to_owned() } else { protocol.to_ascii_lowercase() };
    Some(Port {
        name: name.to_ascii_lowercase(),
        protocol,
        number: u16::try_from(number).ok().filter(|number| *number > 0)?,
    })
}

fn has_protocol(entry: &Entry, label: &str) -> bool {
    let of = |ports: &[Port]| {
        ports.iter().any(|port| label.strip_prefix('_') == Some(&port.protocol) && !port.name.is_empty())
    };
    match entry {
        Entry::Addresses(_, ports) => of(ports),
        Entry::Hosts(hosts) => hosts.iter().any(|host| of(&host.ports)),
        Entry::Alias(_) => false,
    }
}

fn record(name: &str, data: Data) -> DnsRecord {
    DnsRecord { name: name.to_owned(), data }
}

fn of_type(asked: RecordType, types: &[RecordType], records: impl FnOnce() -> Vec<DnsRecord>) -> LookupResult {
    of_type_with(asked, types, || (records(), Vec::new()))
}

fn of_type_with(
    asked: RecordType,
    types: &[RecordType],
    records: impl FnOnce() -> (Vec<DnsRecord>, Vec<DnsRecord>),
) -> LookupResult {
    if asked != RecordType::Any && !types.contains(&asked) {
        return LookupResult::Nothing;
    }
    let (answer, beside) = records();
    LookupResult::Records(answer, beside)
}

fn addresses(name: &str, address: Option<IpAddr>, asked: RecordType) -> LookupResult {
    several(name, address.into_iter(), asked)
}

fn several(name: &str, addresses: impl Iterator<Item = IpAddr>, asked: RecordType) -> LookupResult {
    let fits = |address: &IpAddr| match asked {
        RecordType::A => address.is_ipv4(),
        RecordType::Aaaa => address.is_ipv6(),
        RecordType::Any => true,
        _ => false,
    };
    let found: BTreeSet<IpAddr> = addresses.filter(fits).take(HOSTS_MAX).collect();
    if found.is_empty() {
        LookupResult::Nothing
    } else {
        LookupResult::Records(found.into_iter().map(|ip| record(name, Data::Address(ip))).collect(), Vec::new())
    }
}

/// A headless service without a ready endpoint has no name.
fn of_hosts<'h>(name: &str, mut hosts: impl Iterator<Item = &'h ZoneHost>, asked: RecordType) -> LookupResult {
    match hosts.next() {
        None => LookupResult::NoName,
        Some(first) => several(name, std::iter::once(first).chain(hosts).map(|host| host.address), asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::services::group::grouped;
    use serde_json::{Value, json};

    fn zone() -> Zone {
        let service = |namespace: &str, name: &str, spec: Value| {
            Arc::new(Service::read(&json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})).unwrap())
        };
        let slice = |namespace: &str, name: &str, endpoints: Value, ports: Value| {
            let labels = json!({"kubernetes.io/service-name": name});
            let metadata = json!({"namespace": namespace, "name": format!("{name}-x"), "labels": labels});
            let slice = json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports});
            Arc::new(EndpointSlice::read(&slice).unwrap())
        };
        let services = [
            service(
                "default",
                "kubernetes",
                json!({"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}),
            ),
            service(
                "shop",
                "web",
                json!({"clusterIP": "10.96.3.7", "clusterIPs": ["10.96.3.7", "fd00::7"],
                    "ports": [{"name": "http", "port": 80},
                    {"name": "dns", "port": 53, "protocol": "UDP"}]}),
            ),
            service("shop", "plain", json!({"clusterIP": "10.96.3.8", "ports": [{"port": 80}]})),
            service("shop", "db", json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]})),
            service("shop", "early", json!({"clusterIP": "None", "publishNotReadyAddresses": true, "ports": []})),
            service("shop", "empty", json!({"clusterIP": "None", "ports": [{"port": 1}]})),
            service("shop", "out", json!({"type": "ExternalName", "externalName": "Example.COM."})),
            service("shop", "numeric", json!({"type": "ExternalName", "externalName": "192.0.2.1"})),
        ];
        let slices = [
            slice(
                "shop",
                "db",
                json!([{"addresses": ["10.244.0.5"], "hostname": "db-0"},
                    {"addresses": ["10.244.0.6"], "conditions": {"ready": true}},
                    {"addresses": ["10.244.0.7"], "conditions": {"ready": false}}]),
                json!([{"name": "sql", "port": 5432, "protocol": "TCP"}]),
            ),
            slice("shop", "early", json!([{"addresses": ["10.244.0.9"], "conditions": {"ready": false}}]), json!(null)),
        ];
        Zone::new("Cluster.Local", &grouped(&services, &slices))
    }

    #[track_caller]
    fn check(name: &str, asked: RecordType, expected: &str) {
        let line = |record: &DnsRecord| {
            let data = match &record.data {
                Data::Address(address) => address.to_string(),
                Data::Alias(to) | Data::Pointer(to) | Data::Text(to) | Data::Server(to) => to.clone(),
                Data::Service { weight, port, target } => format!("0 {weight} {port} {target}"),
                Data::Authority => "soa".to_owned(),
            };
            if record.name == name { data } else { format!("{} {data}", record.name) }
        };
        let lines = |records: &[DnsRecord]| records.iter().map(line).collect::<Vec<_>>().join(", ");
        let found = match zone().look(name, asked, Some("10.96.0.10".parse().unwrap())) {
            LookupResult::Records(answer, beside) if beside.is_empty() => lines(&answer),
            LookupResult::Records(answer, beside) => format!("{} | {}", lines(&answer), lines(&beside)),
            LookupResult::Nothing => "nothing".to_owned(),
            LookupResult::NoName => "no name".to_owned(),
            LookupResult::Elsewhere => "elsewhere".to_owned(),
        };
        assert_eq!(found, expected, "{name} {asked:?}");
    }

    /// The sections are those of the specification, version 1.1.0.
    #[test]
    fn as_the_specification_has_it() {
        use RecordType::{A, Aaaa, Any, Cname, Ns, Other, Ptr, Soa, Srv, Txt};
        // 2.2: the version of the schema.
        check("dns-version.cluster.local", Txt, "1.1.0");
        check("dns-version.cluster.local", A, "nothing");
        // 2.3.1: an address of the cluster.
        check("kubernetes.default.svc.cluster.local", A, "10.96.0.1");
        check("web.shop.svc.cluster.local", A, "10.96.3.7");
        check("web.shop.svc.cluster.local", Aaaa, "fd00::7");
        check("web.shop.svc.cluster.local", Any, "10.96.3.7, fd00::7");
        check("kubernetes.default.svc.cluster.local", Aaaa, "nothing");
        check("web.shop.svc.cluster.local", Txt, "nothing");
        check("web.shop.svc.cluster.local", Other, "nothing");
        // 2.3.2: ports that have names.
        check(
            "_https._tcp.kubernetes.default.svc.cluster.local",
            Srv,
            "0 100 443 kubernetes.default.svc.cluster.local | kubernetes.default.svc.cluster.local 10.96.0.1",
        );
        check(
            "_dns._udp.web.shop.svc.cluster.local",
            Srv,
            "0 50 53 web.shop.svc.cluster.local | web.shop.svc.cluster.local 10.96.3.7, web.shop.svc.cluster.local \
             fd00::7",
        );
        check("_dns._tcp.web.shop.svc.cluster.local", Srv, "no name");
        check("_http._tcp.web.shop.svc.cluster.local", A, "nothing");
        check("_tcp.web.shop.svc.cluster.local", Srv, "nothing");
        check("__._tcp.plain.shop.svc.cluster.local", Srv, "no name");
        check("plain.shop.svc.cluster.local", Srv, "0 100 80 plain.shop.svc.cluster.local | 10.96.3.8");
        // 2.3.3: the way back.
        check("1.0.96.10.in-addr.arpa", Ptr, "kubernetes.default.svc.cluster.local");
        check(
            "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
            Ptr,
            "web.shop.svc.cluster.local",
        );
        check("1.0.96.10.in-addr.arpa", A, "nothing");
        check("9.9.9.9.in-addr.arpa", Ptr, "elsewhere");
        check("9.9.9.in-addr.arpa", Ptr, "elsewhere");
        // 2.4.1: headless.
        check("db.shop.svc.cluster.local", A, "10.244.0.5, 10.244.0.6");
        check("db.shop.svc.cluster.local", Aaaa, "nothing");
        check("db-0.db.shop.svc.cluster.local", A, "10.244.0.5");
        check("10-244-0-6.db.shop.svc.cluster.local", A, "10.244.0.6");
        check("10-244-0-7.db.shop.svc.cluster.local", A, "no name");
        check("early.shop.svc.cluster.local", A, "10.244.0.9");
        check("empty.shop.svc.cluster.local", A, "no name");
        check("empty.shop.svc.cluster.local", Srv, "no name");
        // 2.4.2
        check(
            "_sql._tcp.db.shop.svc.cluster.local",
            Srv,
            "0 50 5432 10-244-0-6.db.shop.svc.cluster.local, 0 50 5432 db-0.db.shop.svc.cluster.local | \
             10-244-0-6.db.shop.svc.cluster.local 10.244.0.6, db-0.db.shop.svc.cluster.local 10.244.0.5",
        );
        check("db-0.db.shop.svc.cluster.local", Srv, "0 100 5432 db-0.db.shop.svc.cluster.local | 10.244.0.5");
        // 2.4.3
        check("5.0.244.10.in-addr.arpa", Ptr, "db-0.db.shop.svc.cluster.local");
        check("6.0.244.10.in-addr.arpa", Ptr, "10-244-0-6.db.shop.svc.cluster.local");
        // 2.5: names elsewhere.
        check("out.shop.svc.cluster.local", A, "example.com");
        check("out.shop.svc.cluster.local", Cname, "example.com");
        check("numeric.shop.svc.cluster.local", A, "192.0.2.1");
        // Pods, the domain, and missing names.
        check("10-244-0-9.shop.pod.cluster.local", A, "10.244.0.9");
        check("ten.shop.pod.cluster.local", A, "no name");
        check("cluster.local", Soa, "soa");
        check("cluster.local", Ns, "ns.dns.cluster.local");
        check("cluster.local", A, "nothing");
        check("ns.dns.cluster.local", A, "10.96.0.10");
        check("svc.cluster.local", A, "nothing");
        check("shop.svc.cluster.local", A, "nothing");
        check("sho.svc.cluster.local", A, "no name");
        check("none.shop.svc.cluster.local", A, "no name");
        check("x.web.shop.svc.cluster.local", A, "no name");
        check("a.b.c.db.shop.svc.cluster.local", A, "no name");
        check("x.cluster.local", A, "no name");
        check("xcluster.local", A, "elsewhere");
        check("example.com", A, "elsewhere");
        check("", Ns, "elsewhere");
    }
}
