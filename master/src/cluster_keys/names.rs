//! PURE. The names and addresses that the certificate of the API server is for.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host has some ten addresses; thousands would make a certificate that no client takes.
const ADDRESSES_MAX: usize = 256;
/// As X.509 allows.
const COMMON_NAME_LETTERS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    pub common_name: String,
    pub names: BTreeSet<String>,
    pub addresses: BTreeSet<IpAddr>,
}

/// What a certificate's names are made of.
#[derive(Clone, Debug, Default)]
pub struct NameSources<'a> {
    /// The name of this host.
    pub host: Option<&'a str>,
    /// The addresses of this host.
    pub addresses: &'a [IpAddr],
    /// The first address of each range of services.
    pub services: &'a [IpAddr],
    /// The domain of the cluster, such as `cluster.local`.
    pub domain: &'a str,
    /// Names and addresses that somebody asked for.
    pub more: &'a [String],
}

impl ServerNames {
    pub fn of(sources: &NameSources<'_>) -> ServerNames {
        let of_the_cluster = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut names: BTreeSet<String> = of_the_cluster.map(str::to_owned).into();
        names.insert(format!("kubernetes.default.svc.{}", sources.domain.to_ascii_lowercase()));
        let mut addresses = BTreeSet::from([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        addresses.extend(sources.services.iter().copied());
        for one in sources.more.iter().map(String::as_str).chain(sources.host) {
            match one.parse::<IpAddr>() {
                Ok(address) => drop(addresses.insert(address)),
                Err(_) if is_name(one) => drop(names.insert(one.to_ascii_lowercase())),
                Err(_) => {}
            }
        }
        let of_host = sources.addresses.iter().copied().filter(|address| !is_of_one_link(address));
        let room = ADDRESSES_MAX.saturating_sub(addresses.len());
        addresses.extend(of_host.take(room));
        let host = sources.host.filter(|host| is_name(host) && host.len() <= COMMON_NAME_LETTERS);
        ServerNames { common_name: host.unwrap_or("coracle").to_owned(), names, addresses }
    }
}

/// Such an address means another host on each link.
fn is_of_one_link(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_unspecified(),
    }
}

/// Whether a text is a name of DNS, or a pattern `*.example.com`.
pub fn is_name(text: &str) -> bool {
    let labels = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        inner && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && labels.split('.').all(is_label)
}

/// The addresses of this host in the kernel's table of routes (`/proc/net/fib_trie`): what is local is its own.
pub fn addresses_of_trie(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    let mut last = None;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.trim().parse::<Ipv4Addr>().ok();
            return None;
        }
        let own = line.starts_with("/32 host LOCAL");
        last.filter(|_| own).map(IpAddr::V4)
    })
}

/// The same of `/proc/net/if_inet6`: 32 digits lead each line.
pub fn addresses_of_interfaces(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    let address = |line: &str| u128::from_str_radix(line.get(..32)?, 16).ok().map(|bits| Ipv6Addr::from(bits).into());
    text.lines().filter_map(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn a_server_has_every_name_that_it_is_called_by() {
        let (of_host, services) = (addresses(&["192.168.1.5", "fe80::1", "2001:db8::5"]), addresses(&["10.96.0.1"]));
        let more = ["api.example.com".to_owned(), "203.0.113.9".to_owned(), "not a name".to_owned()];
        let sources = NameSources {
            host: Some("Shop-1"),
            addresses: &of_host,
            services: &services,
            domain: "cluster.local",
            more: &more,
        };
        let names = ServerNames::of(&sources);
        let expected = [
            "api.example.com",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
            "shop-1",
        ];
        assert!(names.names.iter().eq(expected), "{:?}", names.names);
        let expected = addresses(&["10.96.0.1", "127.0.0.1", "192.168.1.5", "203.0.113.9", "::1", "2001:db8::5"]);
        assert_eq!(names.addresses.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(names.common_name, "Shop-1");
    }

    #[test]
    fn names_of_dns() {
        for good in ["a", "a.b", "*.a.b", "A-1.b_c", "x.1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "a..b", "-a", "a-", "a b", "*", "a.*.b", "ä", &"a".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn own_addresses_in_the_kernel_s_words() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 192.168.1.0\n\
                    \x20       /24 link UNICAST\n     |-- 192.168.1.5\n        /32 host LOCAL\n     |-- 192.168.1.255\n\
                    \x20       /32 link BROADCAST\n";
        assert_eq!(addresses_of_trie(trie).collect::<Vec<_>>(), addresses(&["192.168.1.5"]));
        let interfaces = "20010db8000000000000000000000005 02 40 00 80 eth0\nnonsense\n";
        assert_eq!(addresses_of_interfaces(interfaces).collect::<Vec<_>>(), addresses(&["2001:db8::5"]));
    }
}
