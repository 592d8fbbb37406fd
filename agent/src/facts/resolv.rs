//! resolv.conf: parses the host's file, and makes a pod's file from the host's file, `dnsPolicy` and `dnsConfig`. PURE.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use coracle_api::annotations::CLUSTER_DOMAIN;
use coracle_api::pod::PodSpec;
use coracle_api::service::Service;
use coracle_api::strategy::is_subdomain;

/// As many as resolvers look at, and as Kubernetes lets through.
const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
/// The limits in bytes for all search domains with spaces, and for a single domain.
const SEARCH_LINE_BYTES_MAX: usize = 2048;
const SEARCH_BYTES_MAX: usize = 253;

/// The tenth address of a master's default service range.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The usual domain of clusters.
const DOMAIN: &str = "cluster.local";

/// The content of a resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// The DNS server and domain for pods of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDns {
    pub address: IpAddr,
    pub domain: String,
}

/// The configuration of the cluster's DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNames {
    /// Asked for by a flag.
    domain: Option<String>,
    /// Asked for by a flag.
    address: Option<IpAddr>,
    /// Whether this host belongs to a cluster: without one its pods' names resolve as on the host.
    of_cluster: bool,
}

impl ClusterNames {
    pub fn new(domain: Option<String>, address: Option<IpAddr>, of_cluster: bool) -> ClusterNames {
        ClusterNames { domain, address, of_cluster }
    }

    /// The configured domain, else the domain that the master says on service `kubernetes`, else the usual one.
    pub fn domain(&self, services: &[Arc<Service>]) -> String {
        let own =
            |service: &&Arc<Service>| service.metadata.namespace == "default" && service.metadata.name == "kubernetes";
        let heard = || services.iter().find(own)?.metadata.annotations.get(CLUSTER_DOMAIN).cloned();
        let domain = self.domain.clone().or_else(|| heard().filter(|domain| is_subdomain(domain)));
        domain.unwrap_or_else(|| DOMAIN.to_owned())
    }

    /// The address of the DNS server that the configuration gives.
    pub fn given(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether the configuration or a master gives the address of the DNS server.
    pub fn has_address(&self) -> bool {
        self.of_cluster || self.address.is_some()
    }

    /// The configured DNS address, else the address of the service `kube-dns`. Before the service is known, the usual
    /// default counts. `of_files`: the address where no master gives another.
    pub fn of_cluster(&self, services: &[Arc<Service>], of_files: Option<IpAddr>) -> Option<ClusterDns> {
        let own = |service: &&Arc<Service>| {
            service.metadata.namespace == "kube-system" && service.metadata.name == "kube-dns"
        };
        let heard = || services.iter().find(own)?.spec.cluster_ip.parse().ok();
        let address = match self.address {
            Some(address) => address,
            None if self.of_cluster => heard().unwrap_or(IpAddr::V4(ADDRESS)),
            None => of_files?,
        };
        Some(ClusterDns { address, domain: self.domain(services) })
    }
}

/// The DNS settings for new pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// None: there is no cluster DNS.
    pub cluster: Option<ClusterDns>,
    pub host: Resolver,
}

/// A pod's resolv.conf, and what of it did not fit, in the kubelet's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResolver {
    pub text: String,
    pub trouble: Vec<String>,
}

/// The last line of searches counts, all servers do, and of an option the last.
pub fn read(text: &str) -> Resolver {
    let mut found = Resolver::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => found.servers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                found.searches =
                    words.filter(|word| *word != ".").map(|word| word.trim_end_matches('.').to_owned()).collect()
            }
            Some("options") => words.for_each(|word| put_option(&mut found.options, word.to_owned())),
            _ => {}
        }
    }
    found
}

/// Where there is no cluster DNS, names resolve as on the host.
pub fn of_pod(spec: &PodSpec, namespace: &str, dns: &Dns) -> PodResolver {
    let (host, cluster) = (&dns.host, dns.cluster.as_ref());
    let mut wishes = match spec.dns_policy.as_str() {
        "None" => Resolver::default(),
        "Default" => of_host(spec, host, cluster),
        policy if spec.host_network && policy != "ClusterFirstWithHostNet" => of_host(spec, host, cluster),
        _ => match cluster {
            Some(cluster) => of_cluster(namespace, host, cluster),
            None => of_host(spec, host, cluster),
        },
    };
    if let Some(config) = &spec.dns_config {
        wishes.servers.extend(config.nameservers.iter().cloned());
        wishes.searches.extend(config.searches.iter().map(|search| search.trim_end_matches('.').to_owned()));
        for option in &config.options {
            let value = option.value.as_deref().filter(|value| !value.is_empty());
            put_option(
                &mut wishes.options,
                value.map_or_else(|| option.name.clone(), |value| format!("{}:{value}", option.name)),
            );
        }
    }
    without_repeats(&mut wishes.servers);
    without_repeats(&mut wishes.searches);
    fit(wishes)
}

fn of_cluster(namespace: &str, host: &Resolver, cluster: &ClusterDns) -> Resolver {
    let domain = &cluster.domain;
    let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    searches.extend(host.searches.iter().cloned());
    Resolver { servers: vec![cluster.address.to_string()], searches, options: vec!["ndots:5".to_owned()] }
}

/// A resolver that only listens on the host's loopback is out of reach for a pod; the agent asks it in the pod's place.
fn of_host(spec: &PodSpec, host: &Resolver, cluster: Option<&ClusterDns>) -> Resolver {
    let mut own = host.clone();
    if !spec.host_network {
        own.servers.retain(|server| !server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
        if own.servers.is_empty() && !host.servers.is_empty() {
            own.servers.extend(cluster.map(|cluster| cluster.address.to_string()));
        }
    }
    own
}

fn fit(mut wishes: Resolver) -> PodResolver {
    let mut trouble = Vec::new();
    if wishes.servers.len() > SERVERS_MAX {
        wishes.servers.truncate(SERVERS_MAX);
        trouble.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            wishes.servers.join(" ")
        ));
    }
    let asked = wishes.searches.len();
    wishes.searches.truncate(SEARCHES_MAX);
    wishes.searches.retain(|search| search.len() <= SEARCH_BYTES_MAX);
    while wishes.searches.join(" ").len() > SEARCH_LINE_BYTES_MAX {
        wishes.searches.pop();
    }
    if wishes.searches.len() < asked {
        trouble.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            wishes.searches.join(" ")
        ));
    }
    PodResolver { text: text(&wishes), trouble }
}

fn text(resolver: &Resolver) -> String {
    let mut text = String::new();
    if !resolver.searches.is_empty() {
        let _ = writeln!(text, "search {}", resolver.searches.join(" "));
    }
    for server in &resolver.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !resolver.options.is_empty() {
        let _ = writeln!(text, "options {}", resolver.options.join(" "));
    }
    text
}

/// Adds an option, or replaces an option with the same name.
fn put_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

fn without_repeats(words: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::pod::Pod;
    use serde_json::{Value, json};

    const HOST: &str = "# by hand\nnameserver 192.0.2.53\nnameserver 127.0.0.53\nsearch old\nsearch lan. .\n\
                        options edns0 ndots:2\noptions ndots:3\n";

    fn made(spec: Value, host: &str, cluster: bool) -> PodResolver {
        let pod = Pod::read(&json!({"metadata": {"namespace": "shop", "name": "a"}, "spec": spec})).unwrap();
        let dns = ClusterDns { address: "10.96.0.10".parse().unwrap(), domain: "cluster.local".to_owned() };
        of_pod(&pod.spec, "shop", &Dns { cluster: cluster.then_some(dns), host: read(host) })
    }

    #[track_caller]
    fn check(spec: Value, host: &str, cluster: bool, expected: &[&str]) {
        let made = made(spec, host, cluster);
        assert_eq!((made.text.lines().collect::<Vec<_>>(), made.trouble), (expected.to_vec(), Vec::new()));
    }

    #[test]
    fn each_policy() {
        let of_cluster = [
            "search shop.svc.cluster.local svc.cluster.local cluster.local lan",
            "nameserver 10.96.0.10",
            "options ndots:5",
        ];
        let of_host = ["search lan", "nameserver 192.0.2.53", "options edns0 ndots:3"];
        let whole_host = ["search lan", "nameserver 192.0.2.53", "nameserver 127.0.0.53", "options edns0 ndots:3"];
        check(json!({}), HOST, true, &of_cluster);
        check(json!({"dnsPolicy": "ClusterFirst"}), HOST, true, &of_cluster);
        check(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), HOST, true, &whole_host);
        check(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), HOST, true, &of_cluster);
        check(json!({"dnsPolicy": "Default"}), HOST, true, &of_host);
        check(json!({}), HOST, false, &of_host);
        check(json!({"dnsPolicy": "Default"}), "nameserver 127.0.0.1\n", true, &["nameserver 10.96.0.10"]);
        check(json!({"dnsPolicy": "Default"}), "", true, &[]);
        check(json!({"dnsPolicy": "None"}), HOST, true, &[]);
        let config = json!({"nameservers": ["192.0.2.1"], "searches": ["x.example.", "lan"],
            "options": [{"name": "ndots", "value": "2"},
            {"name": "rotate"}]});
        check(
            json!({"dnsPolicy": "None", "dnsConfig": config}),
            HOST,
            true,
            &["search x.example lan", "nameserver 192.0.2.1", "options ndots:2 rotate"],
        );
        check(
            json!({"dnsConfig": config}),
            HOST,
            true,
            &[
                "search shop.svc.cluster.local svc.cluster.local cluster.local lan x.example",
                "nameserver 10.96.0.10",
                "nameserver 192.0.2.1",
                "options ndots:2 rotate",
            ],
        );
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let searches: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
        let config = json!({"nameservers": ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"], "searches": searches});
        let file = made(json!({"dnsPolicy": "None", "dnsConfig": config}), "", true);
        assert!(
            file.text.starts_with("search d0 ") && file.text.contains(" d31\n") && !file.text.contains("192.0.2.4"),
            "{}",
            file.text
        );
        assert_eq!(
            file.trouble[0],
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
             192.0.2.1 192.0.2.2 192.0.2.3"
        );
        assert!(file.trouble[1].starts_with(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: d0 "
        ));
        let long: Vec<String> = (0..20).map(|n| format!("{n}{}", "x".repeat(200))).collect();
        let file =
            made(json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"], "searches": long}}), "", true);
        assert!(
            file.text.lines().next().unwrap().len() <= SEARCH_LINE_BYTES_MAX + "search ".len()
                && file.trouble.len() == 1
        );
    }
}
