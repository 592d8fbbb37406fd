//! Services: the nft script that balances them, and the variables that containers get. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use coracle_api::service::{Endpoints, Service, ServicePort};

use crate::hash::hash_text;

/// What the kernel should hold, and what could not be put into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// One a service that has an address.
    pub parts: Vec<Part>,
    /// What is asked for and not done.
    pub refused: Vec<Refused>,
}

/// What the kernel holds of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Also for routes.
    pub address: Ipv4Addr,
    /// Its ports and node ports, and which of `chains` they lead to.
    ports: Vec<(i32, String)>,
    node_ports: Vec<(i32, String)>,
    chains: String,
}

/// A service that does not get all it asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Which field, and which value of it.
    pub what: String,
}

/// A service whose rules nft does not take, though it takes those of the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// In nft's words.
    pub why: String,
}

impl LeftOut {
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
        write!(f, "service {}/{}: {} is not supported by this version of the agent", self.namespace, self.name, self.what)
    }
}

/// Bytes of a comment that nft takes.
const COMMENT_BYTES_MAX: usize = 128;
/// Earlier than Docker's own chains (-100), so that a service address is rewritten before they look at it.
const PRIORITY: i32 = -110;

/// What each service asks for.
pub fn rules(services: &[Service], endpoints: &[Endpoints]) -> Rules {
    let mut rules = Rules::default();
    // Of two services with one address (a master that lost its claims) the first has it, or nft would refuse the whole table.
    let mut by_address = BTreeSet::new();
    let mut by_node_port = BTreeSet::new();
    let mut sorted: Vec<&Service> = services.iter().collect();
    sorted.sort_by(|one, other| key(one).cmp(&key(other)));
    for service in sorted {
        let Ok(address) = service.spec.cluster_ip.parse::<Ipv4Addr>() else { continue };
        let (namespace, name) = key(service);
        // Also where nothing is balanced: a refused connection says more than a lost one.
        let mut part = Part {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: service.metadata.uid.clone(),
            address,
            ports: Vec::new(),
            node_ports: Vec::new(),
            chains: String::new(),
        };
        for port in balanced_ports(service, &mut rules.refused) {
            let ends = ends(service, port, endpoints);
            if ends.is_empty() {
                continue;
            }
            let chain = format!("svc_{}", &hash_text(&format!("{namespace}/{name}/{}", port.port))[..16]);
            if by_address.insert((address, port.port)) {
                part.ports.push((port.port, chain.clone()));
            }
            if port.node_port != 0 && by_node_port.insert(port.node_port) {
                part.node_ports.push((port.node_port, chain.clone()));
            }
            let map: Vec<String> = ends.iter().enumerate().map(|(index, (ip, port))| format!("{index} : {ip} . {port}")).collect();
            let _ = writeln!(
                part.chains,
                "\tchain {chain} {{\n\t\tmeta l4proto tcp dnat ip to numgen random mod {} map {{ {} }} comment \"{}\"\n\t}}",
                ends.len(),
                map.join(", "),
                comment(&format!("{namespace}/{name}:{}", port.port))
            );
        }
        rules.parts.push(part);
    }
    rules
}

/// For people who list the table. What is too long, or would end the quotes, is cut or replaced, and has its hash: no two look alike.
fn comment(text: &str) -> String {
    let plain = |sign: char| sign.is_ascii_graphic() && !matches!(sign, '"' | '\\');
    if text.len() <= COMMENT_BYTES_MAX && text.chars().all(plain) {
        return text.to_owned();
    }
    let hash = &hash_text(text)[..16];
    let shown: String = text.chars().map(|sign| if plain(sign) { sign } else { '?' }).take(COMMENT_BYTES_MAX - hash.len() - 1).collect();
    format!("{shown}~{hash}")
}

/// A whole nft script: one transaction that replaces our table and touches nothing else. `pod_cidr` is where this node's pods live.
pub fn script(parts: &[&Part], pod_cidr: &str) -> String {
    let balance =
        "\t\tip daddr . meta l4proto . th dport vmap @services\n\t\tfib daddr type local meta l4proto . th dport vmap @node_ports\n";
    let refuse = "\t\tip daddr @addresses meta l4proto tcp reject with tcp reset\n\t\tip daddr @addresses reject\n";
    format!(
        "table ip coracle\ndelete table ip coracle\ntable ip coracle {{\n\
         {}\
         \tchain prerouting {{\n\t\ttype nat hook prerouting priority {PRIORITY}; policy accept;\n{balance}\t}}\n\
         \tchain output {{\n\t\ttype nat hook output priority {PRIORITY}; policy accept;\n{balance}\t}}\n\
         \tchain postrouting {{\n\t\ttype nat hook postrouting priority 90; policy accept;\n\
         \t\tct status dnat ip saddr {pod_cidr} ip daddr {pod_cidr} masquerade comment \"a pod to a service of a pod beside it, or of its own\"\n\t}}\n\
         \tchain refuse_forward {{\n\t\ttype filter hook forward priority {PRIORITY}; policy accept;\n{refuse}\t}}\n\
         \tchain refuse_output {{\n\t\ttype filter hook output priority 0; policy accept;\n{refuse}\t}}\n\
         }}\n",
        held(parts)
    )
}

/// The same without what looks at packets, in a table of its own that the same transaction takes away again: the kernel says whether it
/// would take these, and nothing is different afterwards.
pub fn trial(parts: &[&Part]) -> String {
    let name = "table ip coracle_trial";
    format!("{name}\ndelete {name}\n{name} {{\n{}}}\ndelete {name}\n", held(parts))
}

/// The sets and chains of services.
fn held(parts: &[&Part]) -> String {
    let elements = |items: Vec<String>| {
        if items.is_empty() { String::new() } else { format!("\t\telements = {{\n\t\t\t{}\n\t\t}}\n", items.join(",\n\t\t\t")) }
    };
    let addresses: BTreeSet<Ipv4Addr> = parts.iter().map(|part| part.address).collect();
    let ports: BTreeMap<_, _> =
        parts.iter().flat_map(|part| part.ports.iter().map(|(port, chain)| ((part.address, port), chain))).collect();
    let node_ports: BTreeMap<_, _> = parts.iter().flat_map(|part| part.node_ports.iter().map(|(port, chain)| (port, chain))).collect();
    let shown = elements(addresses.iter().map(ToString::to_string).collect());
    let to_address = ports.iter().map(|((address, port), chain)| format!("{address} . tcp . {port} : goto {chain}")).collect();
    let to_node_port = node_ports.iter().map(|(port, chain)| format!("tcp . {port} : goto {chain}")).collect();
    let (to_address, to_node_port) = (elements(to_address), elements(to_node_port));
    let chains: String = parts.iter().map(|part| part.chains.as_str()).collect();
    format!(
        "\tset addresses {{\n\t\ttype ipv4_addr\n{shown}\t}}\n\
         \tmap services {{\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n{to_address}\t}}\n\
         \tmap node_ports {{\n\t\ttype inet_proto . inet_service : verdict\n{to_node_port}\t}}\n\
         {chains}"
    )
}

fn key(service: &Service) -> (&str, &str) {
    (&service.metadata.namespace, &service.metadata.name)
}

fn balanced_ports<'a>(service: &'a Service, refused: &mut Vec<Refused>) -> Vec<&'a ServicePort> {
    let (namespace, name) = key(service);
    let refuse = |what: String| Refused { namespace: namespace.to_owned(), name: name.to_owned(), uid: service.metadata.uid.clone(), what };
    if service.spec.session_affinity == "ClientIP" {
        refused.push(refuse("spec.sessionAffinity ClientIP".to_owned()));
        return Vec::new();
    }
    if !service.spec.external_ips.is_empty() {
        refused.push(refuse("spec.externalIPs".to_owned()));
    }
    let mut ports = Vec::new();
    for (index, port) in service.spec.ports.iter().enumerate() {
        if port.protocol.is_empty() || port.protocol == "TCP" {
            ports.push(port);
        } else {
            refused.push(refuse(format!("spec.ports[{index}].protocol {}", port.protocol)));
        }
    }
    ports
}

/// The ready addresses of one port, each once.
fn ends(service: &Service, port: &ServicePort, endpoints: &[Endpoints]) -> BTreeSet<(Ipv4Addr, i32)> {
    let of_it =
        endpoints.iter().filter(|of| of.metadata.namespace == service.metadata.namespace && of.metadata.name == service.metadata.name);
    let mut ends = BTreeSet::new();
    for subset in of_it.flat_map(|endpoints| &endpoints.subsets) {
        let tcp = |protocol: &str| protocol.is_empty() || protocol == "TCP";
        for end in subset.ports.iter().filter(|end| end.name == port.name && tcp(&end.protocol) && (1..=65535).contains(&end.port)) {
            ends.extend(subset.addresses.iter().filter_map(|address| Some((address.ip.parse::<Ipv4Addr>().ok()?, end.port))));
        }
    }
    ends
}

/// The service variables of 2014 and of v1, of all services of one namespace that have an address.
pub fn variables(services: &[Service], namespace: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    // The master's own service is for everybody, as it has always been; a namespace's own service of that name wins.
    let everybody = services.iter().filter(|service| service.metadata.namespace == "default" && service.metadata.name == "kubernetes");
    let own = services.iter().filter(|service| service.metadata.namespace == namespace);
    for service in everybody.chain(own) {
        let address = &service.spec.cluster_ip;
        let Some(first) = service.spec.ports.first() else { continue };
        if address.is_empty() || service.spec.headless() {
            continue;
        }
        let prefix = variable_name(&service.metadata.name);
        let mut set = |name: String, value: String| variables.insert(format!("{prefix}_{name}"), value);
        set("SERVICE_HOST".to_owned(), address.clone());
        set("SERVICE_PORT".to_owned(), first.port.to_string());
        for (index, port) in service.spec.ports.iter().enumerate() {
            if !port.name.is_empty() {
                set(format!("SERVICE_PORT_{}", variable_name(&port.name)), port.port.to_string());
            }
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            let lower = protocol.to_lowercase();
            let url = format!("{lower}://{address}:{}", port.port);
            if index == 0 {
                set("PORT".to_owned(), url.clone());
            }
            let link = format!("PORT_{}_{protocol}", port.port);
            set(link.clone(), url);
            set(format!("{link}_PROTO"), lower);
            set(format!("{link}_PORT"), port.port.to_string());
            set(format!("{link}_ADDR"), address.clone());
        }
    }
    variables
}

/// `redis-master` -> `REDIS_MASTER`
fn variable_name(name: &str) -> String {
    name.to_uppercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_is_as_recorded() {
        let service = |name: &str, spec: serde_json::Value| {
            Service::read(&json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap()
        };
        let services = [
            service(
                "web",
                json!({"clusterIP": "10.96.0.10", "type": "NodePort",
                "ports": [{"port": 80, "name": "http", "nodePort": 30080}, {"port": 443, "name": "https"}]}),
            ),
            service("empty", json!({"clusterIP": "10.96.0.11", "ports": [{"port": 80}]})),
            service("dns", json!({"clusterIP": "10.96.0.12", "ports": [{"port": 53, "protocol": "UDP"}]})),
            service("sticky", json!({"clusterIP": "10.96.0.13", "sessionAffinity": "ClientIP", "ports": [{"port": 80}]})),
            service("headless", json!({"clusterIP": "None", "ports": [{"port": 80}]})),
        ];
        let endpoints = [Endpoints::read(&json!({"metadata": {"namespace": "default", "name": "web"}, "subsets": [
            {"addresses": [{"ip": "10.244.0.3"}, {"ip": "10.244.0.2"}], "notReadyAddresses": [{"ip": "10.244.0.9"}],
             "ports": [{"name": "http", "port": 8080}, {"name": "other", "port": 1}]},
            {"addresses": [{"ip": "10.244.0.2"}], "ports": [{"name": "https", "port": 8443}]}]}))
        .unwrap()];
        let rules = rules(&services, &endpoints);
        let script = script(&rules.parts.iter().collect::<Vec<_>>(), "10.244.0.0/24");
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/golden/services.nft");
        if std::env::var_os("COR_GOLDEN").is_some() {
            std::fs::write(file, &script).unwrap();
        }
        assert_eq!(script, std::fs::read_to_string(file).unwrap());
        assert_eq!(rules.parts.len(), 4);
        assert_eq!(rules.refused.len(), 2, "{:?}", rules.refused);
        assert!(rules.refused[0].to_string().contains("default/dns: spec.ports[0].protocol UDP"), "{:?}", rules.refused);
        assert!(rules.refused[1].to_string().contains("default/sticky: spec.sessionAffinity"), "{:?}", rules.refused);
    }

    #[test]
    fn comments_are_what_nft_takes_and_no_two_alike() {
        assert_eq!(comment("default/web:80"), "default/web:80");
        let long = |end: &str| format!("{}/{}{end}:30000", "n".repeat(63), "s".repeat(62));
        let (one, other) = (comment(&long("a")), comment(&long("b")));
        assert!(one != other && one.starts_with("nnn") && one.len() == COMMENT_BYTES_MAX && other.len() == COMMENT_BYTES_MAX, "{one}");
        for text in ["a\" } flush ruleset", "a\nb", "\u{e4}".repeat(100).as_str(), "a\\", "a b"] {
            let comment = comment(text);
            assert!(
                comment.len() <= COMMENT_BYTES_MAX && comment.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\'),
                "{comment}"
            );
        }
        assert_ne!(comment("a b"), comment("a\tb"));
    }

    #[test]
    fn as_in_2014_and_as_today() {
        let service = |document| Service::read(&document).unwrap();
        let services = [
            service(json!({"metadata": {"namespace": "default", "name": "redis-master"},
                "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 6379, "name": "db"}, {"port": 53, "protocol": "UDP"}]}})),
            service(json!({"metadata": {"namespace": "default", "name": "none"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}})),
            service(json!({"metadata": {"namespace": "other", "name": "x"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 1}]}})),
        ];
        let found: Vec<String> = variables(&services, "default").into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let wanted = [
            "REDIS_MASTER_PORT=tcp://10.96.0.9:6379",
            "REDIS_MASTER_PORT_53_UDP=udp://10.96.0.9:53",
            "REDIS_MASTER_PORT_53_UDP_ADDR=10.96.0.9",
            "REDIS_MASTER_PORT_53_UDP_PORT=53",
            "REDIS_MASTER_PORT_53_UDP_PROTO=udp",
            "REDIS_MASTER_PORT_6379_TCP=tcp://10.96.0.9:6379",
            "REDIS_MASTER_PORT_6379_TCP_ADDR=10.96.0.9",
            "REDIS_MASTER_PORT_6379_TCP_PORT=6379",
            "REDIS_MASTER_PORT_6379_TCP_PROTO=tcp",
            "REDIS_MASTER_SERVICE_HOST=10.96.0.9",
            "REDIS_MASTER_SERVICE_PORT=6379",
            "REDIS_MASTER_SERVICE_PORT_DB=6379",
        ];
        assert_eq!(found, wanted);
        assert_eq!(variables(&services, "empty"), BTreeMap::new());
    }
}
