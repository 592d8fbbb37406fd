//! Which Services of files this host serves, at which addresses, and which wait for what. PURE.
//!
//!     goes before a Service of a file                      then the Service waits
//!     a Service of the API with its name                   until one of them has another name
//!     a pod's hostPort, a node port of the API             until the port is free
//!     a Service of an earlier file, with its port or address
//!
//! The order does not depend on time: a restart or a power cut changes nothing of who has a port.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use coracle_api::service::{Service, ServicePort};
use coracle_api::strategy::Cidr;

use super::addresses::{AddressBook, can_give, dns_address};
use crate::facts::file_services::{FileService, FileServices, ServiceWait};
use crate::facts::naming::Source;
use crate::facts::ports::host_ports;
use crate::facts::wanted::Wanted;

/// From so many pods of files on, pods find each other by name also where no file asks for a Service.
const PODS_WITH_NAMES_MIN: usize = 2;

/// The range of the addresses of Services of files. The error says why there is no range.
pub type FileRange = Result<Cidr, String>;

/// What the decision depends on beside the files.
#[derive(Clone, Copy, Debug)]
pub struct HostCase<'a> {
    pub range: &'a FileRange,
    /// Services of the API.
    pub cluster: &'a [Arc<Service>],
    /// The pods that this host should run, by uid.
    pub pods: &'a BTreeMap<String, Arc<Wanted>>,
    /// The networks of this host's interfaces.
    pub networks: &'a [(String, Cidr)],
    /// The configuration or a master gives the address of the DNS server.
    pub has_dns: bool,
    /// The address that the configuration gives the DNS server.
    pub dns_given: Option<IpAddr>,
}

/// The decision, and the record of addresses after it.
pub fn decide(asked: &[FileService], case: &HostCase<'_>, book: &AddressBook) -> (FileServices, AddressBook) {
    let mut book = book.clone();
    let mut place = Place::new(case);
    let (mut services, mut waiting) = (Vec::new(), Vec::new());
    let mut files: BTreeMap<String, &str> = BTreeMap::new();
    for FileService { file, service } in asked {
        let served = match files.entry(key(service)) {
            Entry::Occupied(first) => {
                Err(format!("{} asks for the same Service and comes first: give one of them another name", first.get()))
            }
            Entry::Vacant(new) => {
                new.insert(file);
                place.serve(service, file, &mut book)
            }
        };
        match served {
            Ok(service) => services.push(service),
            Err(why) => {
                let (namespace, name) = (service.metadata.namespace.clone(), service.metadata.name.clone());
                waiting.push(ServiceWait { namespace, name, file: file.clone(), why });
            }
        }
    }
    book.shorten(&asked.iter().map(|one| key(&one.service)).collect());
    let of_files = |wanted: &&Arc<Wanted>| {
        wanted.name.source == Source::File && !wanted.pod.spec.host_network && !wanted.pod.status.terminal()
    };
    let wants_names = !asked.is_empty() || case.pods.values().filter(of_files).count() >= PODS_WITH_NAMES_MIN;
    let range = case.range.as_ref().ok();
    let is_free = range.is_some_and(|range| overlap(*range, case.networks).is_none());
    book.dns |= !case.has_dns && wants_names && is_free;
    let own = range.filter(|_| book.dns).and_then(|range| dns_address(*range)).map(IpAddr::V4);
    let (dns, former_dns) = if case.has_dns { (None, own) } else { (own, None) };
    let ever = !book.is_empty() || (wants_names && case.range.is_ok());
    (FileServices { services: Arc::new(services), waiting, dns, former_dns, ever }, book)
}

/// `NAMESPACE/NAME`
fn key(service: &Service) -> String {
    format!("{}/{}", service.metadata.namespace, service.metadata.name)
}

/// An interface of this host whose network has addresses of the range.
fn overlap(range: Cidr, networks: &[(String, Cidr)]) -> Option<&(String, Cidr)> {
    networks.iter().find(|(_, network)| network.overlaps(range))
}

/// The ports and addresses of this host that are in use already, with their owners.
struct Place<'a> {
    case: &'a HostCase<'a>,
    /// By protocol in capitals and number.
    ports: BTreeMap<(String, u16), String>,
    addresses: BTreeMap<Ipv4Addr, String>,
}

impl<'a> Place<'a> {
    fn new(case: &'a HostCase<'a>) -> Place<'a> {
        let mut place = Place { case, ports: BTreeMap::new(), addresses: BTreeMap::new() };
        for wanted in case.pods.values().filter(|wanted| !wanted.pod.status.terminal()) {
            // Neither a node port nor a balancer's port is on the loopback.
            for port in host_ports(&wanted.pod.spec).iter().filter(|port| !port.host_ip.starts_with("127.")) {
                let owner = format!("pod {}/{} has its hostPort", wanted.name.namespace, wanted.name.name);
                place.ports.entry((port.protocol.to_uppercase(), port.host_port)).or_insert(owner);
            }
        }
        for service in case.cluster {
            let owner = format!("service {} of the API has it", key(service));
            for port in ports(service) {
                place.ports.entry(port).or_insert_with(|| owner.clone());
            }
            if let Ok(address) = service.spec.cluster_ip.parse() {
                place.addresses.insert(address, format!("service {} of the API", key(service)));
            }
        }
        if let Some(IpAddr::V4(address)) = case.dns_given {
            place.addresses.insert(address, "cluster-dns of agent.conf".to_owned());
        }
        place
    }

    /// The Service with its address. The error says what the Service waits for.
    fn serve(&mut self, service: &Arc<Service>, file: &str, book: &mut AddressBook) -> Result<Arc<Service>, String> {
        let (range, meta) = (*self.case.range.as_ref().map_err(String::clone)?, &service.metadata);
        let same =
            |other: &&Arc<Service>| (&other.metadata.namespace, &other.metadata.name) == (&meta.namespace, &meta.name);
        if self.case.cluster.iter().any(|other| same(&other)) {
            return Err("a Service of the API has this name and counts: give one of them another name, or remove one \
                        of them"
                .to_owned());
        }
        let wanted = ports(service);
        if let Some((port, owner)) = wanted.iter().find_map(|port| Some((port, self.ports.get(port)?))) {
            return Err(format!(
                "port {}/{} of this host is taken: {owner}; give one of them another port",
                port.1, port.0
            ));
        }
        let mut served = service.clone();
        if service.spec.kind != "ExternalName" && !service.spec.headless() {
            let address = self.address(service, range, book)?;
            let text = address.to_string();
            let made = Arc::make_mut(&mut served);
            (made.spec.cluster_ip, made.spec.cluster_ips) = (text.clone(), vec![text]);
            self.addresses.insert(address, format!("service {} of {file}", key(service)));
        }
        for port in wanted {
            self.ports.insert(port, format!("service {} of {file} has it", key(service)));
        }
        Ok(served)
    }

    fn address(&self, service: &Service, range: Cidr, book: &mut AddressBook) -> Result<Ipv4Addr, String> {
        let name = key(service);
        if !service.spec.cluster_ip.is_empty() {
            let written = &service.spec.cluster_ip;
            let address = written.parse().ok().filter(|address| can_give(range, *address));
            let address: Ipv4Addr = address.ok_or_else(|| {
                format!(
                    "spec.clusterIP {written}: it is none of file-service-cidr {range} without the first address: \
                     leave the field out, and the agent gives an address"
                )
            })?;
            if let Some(owner) = self.addresses.get(&address) {
                return Err(format!("spec.clusterIP {address} is the address of {owner}: leave the field out"));
            }
            book.note(&name, address);
            return Ok(address);
        }
        let taken: BTreeSet<Ipv4Addr> = self.addresses.keys().copied().collect();
        let known = book.addresses.get(&name).is_some_and(|known| can_give(range, *known) && !taken.contains(known));
        if !known && let Some((interface, network)) = overlap(range, self.case.networks) {
            return Err(format!(
                "file-service-cidr {range} has addresses of {network}, the network of {interface} on this host: give \
                 file-service-cidr in agent.conf another range"
            ));
        }
        let of_master = self
            .case
            .cluster
            .iter()
            .find(|other| other.spec.cluster_ip.parse::<Ipv4Addr>().is_ok_and(|address| range.contains(address)));
        if !known && let Some(other) = of_master {
            return Err(format!(
                "file-service-cidr {range} has addresses of the master's service-cidr (service {} has {}): give \
                 file-service-cidr in agent.conf another range",
                key(other),
                other.spec.cluster_ip
            ));
        }
        book.give(range, &name, &taken)
            .ok_or_else(|| format!("no address of file-service-cidr {range} is free: give it a larger range"))
    }
}

/// The ports of this host that a Service answers at: node ports, and the ports of a balancer.
fn ports(service: &Service) -> BTreeSet<(String, u16)> {
    let spec = &service.spec;
    let protocol = |port: &ServicePort| if port.protocol.is_empty() { "TCP".to_owned() } else { port.protocol.clone() };
    let mut all = BTreeSet::new();
    for port in &spec.ports {
        let balanced = Some(port.port).filter(|_| spec.kind == "LoadBalancer");
        let numbers = [port.node_port].into_iter().chain(balanced);
        let numbers = numbers.filter_map(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
        all.extend(numbers.map(|number| (protocol(port), number)));
    }
    let health = u16::try_from(spec.health_check_node_port).ok().filter(|number| *number > 0);
    all.extend(health.map(|number| ("TCP".to_owned(), number)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(name: &str, spec: Value) -> Arc<Service> {
        let document = json!({"metadata": {"namespace": "default", "name": name}, "spec": spec});
        Arc::new(Service::read(&document).unwrap())
    }

    fn of_file(file: &str, name: &str, spec: Value) -> FileService {
        FileService { file: file.to_owned(), service: service(name, spec) }
    }

    fn pod(source: Source, name: &str, spec: Value) -> (String, Arc<Wanted>) {
        let metadata = json!({"namespace": "default", "name": name, "uid": name});
        (name.to_owned(), Arc::new(Wanted::new(source, json!({"metadata": metadata, "spec": spec})).unwrap()))
    }

    #[derive(Default)]
    struct Bed {
        cluster: Vec<Arc<Service>>,
        pods: BTreeMap<String, Arc<Wanted>>,
        networks: Vec<(String, Cidr)>,
        has_dns: bool,
    }

    impl Bed {
        fn decide(&self, asked: &[FileService], book: &AddressBook) -> (FileServices, AddressBook) {
            self.decide_in(&Ok(Cidr::parse("10.97.0.0/16").unwrap()), asked, book)
        }

        fn decide_in(
            &self,
            range: &FileRange,
            asked: &[FileService],
            book: &AddressBook,
        ) -> (FileServices, AddressBook) {
            let Bed { cluster, pods, networks, has_dns } = self;
            let case = HostCase { range, cluster, pods, networks, has_dns: *has_dns, dns_given: None };
            decide(asked, &case, book)
        }
    }

    fn waits(decided: &FileServices) -> Vec<String> {
        decided.waiting.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_stay_when_others_come_and_go() {
        let bed = Bed::default();
        let ports = || json!({"ports": [{"port": 80}]});
        let (web, db) = (of_file("a.yaml", "web", ports()), of_file("b.yaml", "db", ports()));
        let (first, book) = bed.decide(std::slice::from_ref(&db), &AddressBook::default());
        let (both, book) = bed.decide(&[web.clone(), db.clone()], &book);
        assert_eq!(first.services[0], both.services[1]);
        let (again, same) = bed.decide(&[web], &book);
        assert_eq!((&again.services[0], &same), (&both.services[0], &book), "what is gone keeps its address");
        assert_eq!(both.dns, Some("10.97.0.1".parse().unwrap()));
        assert!(both.ever && both.waiting.is_empty());
    }

    #[test]
    fn names_are_answered_where_a_file_asks_for_them() {
        let check = |bed: &Bed, asked: &[FileService], book: &AddressBook, expected: Option<&str>| {
            let dns = bed.decide(asked, book).0.dns;
            assert_eq!(dns, expected.map(|text| text.parse().unwrap()), "{:?}", bed.pods.keys());
        };
        let new = AddressBook::default();
        let plain = || json!({"containers": []});
        let one = Bed { pods: [pod(Source::File, "a", plain())].into(), ..Bed::default() };
        let own = json!({"hostNetwork": true, "containers": []});
        let beside =
            Bed { pods: [pod(Source::File, "a", plain()), pod(Source::File, "b", own)].into(), ..Bed::default() };
        let two =
            Bed { pods: [pod(Source::File, "a", plain()), pod(Source::File, "b", plain())].into(), ..Bed::default() };
        let outside = [of_file("f", "x", json!({"type": "ExternalName", "externalName": "example.com"}))];
        let dns = Some("10.97.0.1");
        check(&Bed::default(), &[], &new, None);
        check(&one, &[], &new, None);
        check(&beside, &[], &new, None);
        check(&two, &[], &new, dns);
        check(&one, &outside, &new, dns);
        // Pods that run ask there.
        check(&one, &[], &two.decide(&[], &new).1, dns);
        let two_book = two.decide(&[], &new).1;
        let lan = Cidr::parse("10.97.3.0/24").unwrap();
        check(&Bed { networks: vec![("eth0".to_owned(), lan)], ..two }, &[], &new, None);
        let of_master = Bed { has_dns: true, ..Bed::default() };
        check(&of_master, &outside, &new, None);
        // A master that came later gives another address: pods that run still ask at the first one.
        let later = of_master.decide(&[], &two_book).0;
        assert_eq!((later.dns, later.former_dns), (None, dns.map(|text| text.parse().unwrap())));
        let off = of_master.decide_in(&Err("file-service-cidr is none".to_owned()), &outside, &new).0;
        assert_eq!(waits(&off), ["service default/x of f waits: file-service-cidr is none"]);
        assert!(!off.ever && off.dns.is_none());
    }

    #[test]
    fn who_goes_before_whom() {
        let check = |bed: &Bed, spec: Value, words: Option<&str>| {
            let asked = [of_file("f.yaml", "web", spec.clone())];
            let waits = waits(&bed.decide(&asked, &AddressBook::default()).0);
            match words {
                Some(words) => assert!(waits.len() == 1 && waits[0].contains(words), "{spec}: {waits:?}"),
                None => assert_eq!(waits, Vec::<String>::new(), "{spec}"),
            }
        };
        let node_port = |port: u16| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
        let balanced = |port: u16, protocol: &str| {
            let ports = json!([{"port": port, "protocol": protocol}]);
            json!({"type": "LoadBalancer", "ports": ports})
        };
        let container = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
        let bed = Bed {
            cluster: vec![
                service(
                    "api",
                    json!({"clusterIP": "10.96.0.7", "type": "NodePort",
                    "ports": [{"port": 80, "nodePort": 30080}]}),
                ),
                service("lb", json!({"clusterIP": "10.96.0.8", "type": "LoadBalancer", "ports": [{"port": 443}]})),
            ],
            pods: [
                pod(Source::File, "a", container(json!({"containerPort": 80, "hostPort": 8080}))),
                pod(
                    Source::Master,
                    "b",
                    container(json!({"containerPort": 80, "hostPort": 81, "hostIP": "127.0.0.1"})),
                ),
            ]
            .into(),
            ..Bed::default()
        };
        check(
            &bed,
            node_port(30080),
            Some("port 30080/TCP of this host is taken: service default/api of the API has it"),
        );
        check(&bed, node_port(30081), None);
        check(&bed, balanced(443, "TCP"), Some("service default/lb of the API"));
        check(&bed, balanced(443, "UDP"), None);
        check(&bed, balanced(8080, ""), Some("pod default/a has its hostPort; give one of them another port"));
        check(&bed, balanced(81, "TCP"), None);
        check(&bed, json!({"clusterIP": "10.96.0.9", "ports": [{"port": 1}]}), Some("none of file-service-cidr"));
        check(&bed, json!({"clusterIP": "10.97.0.1", "ports": [{"port": 1}]}), Some("without the first address"));
        check(&bed, json!({"clusterIP": "10.97.0.9", "ports": [{"port": 1}]}), None);
        let named = Bed { cluster: vec![service("web", json!({}))], ..Bed::default() };
        check(&named, json!({"ports": [{"port": 1}]}), Some("a Service of the API has this name and counts"));
        let wide = Bed { cluster: vec![service("k", json!({"clusterIP": "10.97.9.9"}))], ..Bed::default() };
        check(
            &wide,
            json!({"ports": [{"port": 1}]}),
            Some("of the master's service-cidr (service default/k has 10.97.9.9)"),
        );
        let lan = vec![("eth1".to_owned(), Cidr::parse("10.97.3.0/24").unwrap())];
        let lan = Bed { networks: lan, ..Bed::default() };
        check(&lan, json!({"ports": [{"port": 1}]}), Some("10.97.3.0/24, the network of eth1 on this host"));
        check(&lan, json!({"clusterIP": "None", "ports": [{"port": 1}]}), None);
    }

    #[test]
    fn of_two_files_the_first_counts() {
        let spec = || json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
        let asked = [of_file("a.yaml", "one", spec()), of_file("b.yaml", "two", spec())];
        let decided = Bed::default().decide(&asked, &AddressBook::default()).0;
        assert_eq!(decided.services.len(), 1);
        let words = "service default/two of b.yaml waits: port 80/TCP of this host is taken: service default/one of \
                     a.yaml has it; give one of them another port";
        assert_eq!(waits(&decided), [words]);
        let asked = [of_file("a.yaml", "one", spec()), of_file("b.yaml", "one", spec())];
        let same = "service default/one of b.yaml waits: a.yaml asks for the same Service and comes first: give one of \
                    them another name";
        assert_eq!(waits(&Bed::default().decide(&asked, &AddressBook::default()).0), [same]);
    }
}
