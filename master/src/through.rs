//! Requests that lead through the master to a pod, a service or a node: the target object and the address. PURE.
//!
//!     /api/v1/namespaces/NS/{pods,services}/[SCHEME:]NAME[:PORT]/proxy/REST     /api/v1/nodes/NAME[:PORT]/proxy/REST
//!     /api/v1/{proxy,redirect}/namespaces/NS/...                                as before the subresources
//!     /api/v1beta1/{proxy,redirect}[/ns/NS]/{pods,services,minions}/NAME/REST?namespace=NS
//!     /proxy/minion/NAME/REST                                                   of 2014
//!
//! REST and the query go on as they came. The kind table says which kinds have a way.

mod place;

pub use place::{KnownPlaces, NodePlace, ProxyError};

use crate::call::{RouteError, Version};
use crate::query::{decode, parameters};
use coracle_api::kinds::{Kind, Kinds, ProxyTarget};
use coracle_api::old;
use coracle_api::pod::Pod;
use coracle_api::service::{EndpointAddress, Endpoints, Service};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where plain HTTP is spoken if nothing else is said.
const HTTP_PORT: u16 = 80;

const CLIMBS: &str = "the path behind the proxy has a segment \".\" or \"..\": name what is meant without them";

/// Networks behind whose addresses an IPv4 address stands: its first 16 bits in that word, the rest in the next one.
/// The network's bits.
const AROUND_IPV4: [(Ipv6Addr, u32, usize); 3] = [
    // NAT64.
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 6),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 1),
    // Translated without state.
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, 6),
];

/// Networks, and their bits, that no pod has an address of: where clouds tell a machine its keys, beside link-local
/// addresses, and what leads to IPv4 by ways that cannot be told from the address.
const NOBODYS: [(IpAddr, u32, &str); 9] = [
    (v6([0xfd00, 0x0ec2, 0, 0]), 32, METADATA),
    (v6([0xfd20, 0x00ce, 0, 0]), 32, METADATA),
    (v6([0xfd00, 0x00c1, 0, 0]), 32, METADATA),
    (v6([0xfd00, 0x0042, 0, 0]), 32, METADATA),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32, METADATA),
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32, METADATA),
    (IpAddr::V4(Ipv4Addr::new(192, 0, 0, 0)), 24, "an address of protocols"),
    (v6([0x64, 0xff9b, 1, 0]), 48, "an address of a translation to IPv4"),
    (v6([0x2001, 0, 0, 0]), 32, "an address of a tunnel (Teredo)"),
];
const METADATA: &str = "an address where clouds keep their keys";

const fn v6([a, b, c, d]: [u16; 4]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
}

/// A request that leads through.
#[derive(Debug)]
pub struct ProxyRequest<'k> {
    pub version: Version,
    pub kind: &'k Kind,
    pub way: ProxyTarget,
    /// Empty: a kind that has none.
    pub namespace: String,
    pub named: Named,
    pub means: ProxyKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    Proxy {
        /// The path that means the other server's root.
        prefix: String,
        /// The path behind the prefix, unchanged.
        rest: String,
    },
    Redirect,
}

/// `https:web:8443`: what a path says of an object that is to be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub secure: bool,
    pub name: String,
    /// A number, a name, or nothing.
    pub port: String,
    /// As it stood there.
    pub text: String,
}

/// None: a path that does not lead through.
pub fn parse<'k>(kinds: &'k Kinds, path: &str, query: &str) -> Option<Result<ProxyRequest<'k>, RouteError>> {
    let mut cut = Cut { path, at: 0 };
    let (version, first) = match (cut.next()?, cut.next()?) {
        ("proxy", "minion" | "minions") => {
            return Some(old_top(kinds, path, cut));
        }
        ("api", "v1") => (Version::V1, cut.next()?),
        ("api", version) => (Version::Old(old::Version::named(version)?), cut.next()?),
        _ => return None,
    };
    let leading = ["proxy", "redirect"].contains(&first);
    let mut plural = if leading { cut.next().unwrap_or_default() } else { first };
    let mut namespace = None;
    let of_namespace = if version.is_flat() { "ns" } else { "namespaces" };
    if plural == of_namespace {
        namespace = Some(cut.next().unwrap_or_default());
        plural = cut.next().unwrap_or_default();
    }
    let kind = match version {
        Version::V1 => kinds.by_path("", "v1", plural),
        Version::Old(version) => kinds.by_old_path(version, plural),
    };
    let kind = kind.and_then(|kind| Some((kind, kind.way?)));
    let name = cut.next().unwrap_or_default();
    if !leading && (kind.is_none() || cut.next() != Some("proxy")) {
        return None;
    }
    let Some((kind, way)) = kind else { return Some(Err(RouteError::NotFound)) };
    let (prefix, rest) = path.split_at(cut.at);
    if climbs(rest) {
        return Some(Err(RouteError::Malformed(CLIMBS.to_owned())));
    }
    let means = match first {
        "redirect" if !rest.trim_end_matches('/').is_empty() => return Some(Err(RouteError::NotFound)),
        "redirect" => ProxyKind::Redirect,
        _ => ProxyKind::Proxy { prefix: prefix.to_owned(), rest: rest.to_owned() },
    };
    Some(through(version, (kind, way), namespace, name, means, query))
}

/// `/proxy/minion/NAME/REST`.
fn old_top<'k>(kinds: &'k Kinds, path: &str, mut cut: Cut<'_>) -> Result<ProxyRequest<'k>, RouteError> {
    let version = old::Version::V1beta1;
    let kind =
        kinds.by_old_path(version, "minions").and_then(|kind| Some((kind, kind.way?))).ok_or(RouteError::NotFound)?;
    let name = cut.next().unwrap_or_default();
    let (prefix, rest) = path.split_at(cut.at);
    if climbs(rest) {
        return Err(RouteError::Malformed(CLIMBS.to_owned()));
    }
    let means = ProxyKind::Proxy { prefix: prefix.to_owned(), rest: rest.to_owned() };
    through(Version::Old(version), kind, None, name, means, "")
}

fn through<'k>(
    version: Version,
    (kind, way): (&'k Kind, ProxyTarget),
    namespace: Option<&str>,
    name: &str,
    means: ProxyKind,
    query: &str,
) -> Result<ProxyRequest<'k>, RouteError> {
    let mut namespace = namespace.map(|text| decode(text, false)).transpose()?;
    if version.is_flat() && kind.namespaced && namespace.is_none() {
        let said = parameters(query)?.into_iter().find(|(name, value)| name == "namespace" && !value.is_empty());
        namespace = Some(said.map_or("default".to_owned(), |(_, value)| value));
    }
    if kind.namespaced != namespace.as_ref().is_some_and(|namespace| !namespace.is_empty()) || name.is_empty() {
        return Err(RouteError::NotFound);
    }
    let named = Named::of(&decode(name, false)?, &kind.singular)?;
    Ok(ProxyRequest { version, kind, way, namespace: namespace.unwrap_or_default(), named, means })
}

/// Whether the other server might take a part of the path for a way up: `..` as it is or encoded, between slashes of
/// either kind and before the `;` of a parameter. What is asked there is what this server looked at, or nothing.
fn climbs(rest: &str) -> bool {
    let dots = |segment: &[u8]| matches!(segment.split(|byte| *byte == b';').next(), Some(b"." | b".."));
    unescaped(rest).split(|byte| [b'/', b'\\'].contains(byte)).any(dots)
}

/// What is no encoding stays as it is.
fn unescaped(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let encoded = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))).filter(|_| *byte == b'%');
        let encoded = encoded.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        plain.push(encoded.unwrap_or(*byte));
        at += if encoded.is_some() { 3 } else { 1 };
    }
    plain
}

/// A path, taken apart from its front.
struct Cut<'p> {
    path: &'p str,
    at: usize,
}

impl<'p> Cut<'p> {
    /// None: the path ends here, or has nothing between two slashes.
    fn next(&mut self) -> Option<&'p str> {
        let rest = self.path[self.at..].strip_prefix('/')?;
        let segment = &rest[..rest.find('/').unwrap_or(rest.len())];
        if segment.is_empty() {
            return None;
        }
        self.at += 1 + segment.len();
        Some(segment)
    }
}

impl Named {
    fn of(text: &str, singular: &str) -> Result<Named, RouteError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("?", "", ""),
        };
        if name.is_empty() || name.contains('/') || !["", "http", "https"].contains(&scheme) {
            return Err(RouteError::Malformed(format!("invalid {singular} request {text:?}")));
        }
        Ok(Named { secure: scheme == "https", name: name.to_owned(), port: port.to_owned(), text: text.to_owned() })
    }
}

/// Nobody is sent to an address that means this host to itself, a neighbour on the wire or another place where clouds
/// keep their keys, or a crowd; however it is dressed. The addresses of pods among the other addresses are
/// known to `place`.
pub fn allowed(address: IpAddr) -> Result<IpAddr, ProxyError> {
    let address = address.to_canonical();
    let inner = |v6: Ipv6Addr| {
        let (.., word) =
            AROUND_IPV4.into_iter().find(|(network, bits, _)| same_network(v6.into(), (*network).into(), *bits))?;
        let bits = (v6.to_bits() >> (96 - 16 * word)) as u32;
        Some(Ipv4Addr::from_bits(bits))
    };
    let why = match address {
        _ if address.is_unspecified() => "no address",
        _ if address.is_loopback() => "a loopback address",
        _ if address.is_multicast() => "a multicast address",
        IpAddr::V4(v4) if v4.is_link_local() => "a link-local address",
        IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0 => "no host's address",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "a link-local address",
        // An IPv4 address in its old IPv6 clothes.
        IpAddr::V6(v6) if v6.segments()[..6] == [0; 6] => "no host's address",
        IpAddr::V6(v6) if inner(v6).is_some_and(|inner| allowed(inner.into()).is_err()) => {
            "a way to an IPv4 address that is not allowed"
        }
        _ => match NOBODYS.iter().find(|(network, bits, _)| same_network(address, *network, *bits)) {
            Some((.., why)) => why,
            None => return Ok(address),
        },
    };
    Err(ProxyError::Forbidden(format!("address not allowed: {address} is {why}")))
}

/// `bits`: how many of them, from the front, are the network's.
fn same_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
}

fn of_text(text: &str) -> Result<IpAddr, ProxyError> {
    let address =
        text.parse().map_err(|_| ProxyError::Forbidden(format!("address not allowed: {text:?} is no IP address")))?;
    allowed(address)
}

/// The port that a path names, or that the pod has first.
pub fn of_pod(pod: &Pod, named: &Named, places: &dyn KnownPlaces) -> Result<SocketAddr, ProxyError> {
    if pod.status.pod_ip.is_empty() {
        return Err(ProxyError::Unplaced("it has no address yet"));
    }
    let ports = || pod.spec.containers.iter().flat_map(|container| &container.ports);
    let number = |port: i32| u16::try_from(port).ok();
    let port = match named.port.as_str() {
        "" => ports().next().map_or(Some(HTTP_PORT), |port| number(port.container_port)),
        text => text
            .parse()
            .ok()
            .or_else(|| ports().find(|port| port.name == text).and_then(|port| number(port.container_port))),
    };
    let port = port.filter(|port| *port != 0).ok_or_else(|| ProxyError::NoPort(named.port.clone()))?;
    place::of_pod(pod, SocketAddr::new(of_text(&pod.status.pod_ip)?, port), places)
}

/// A ready endpoint, chosen by `turn`, so that all endpoints get a share. `pod`: a pod of the service's namespace.
pub fn of_service(
    service: &Service,
    endpoints: Option<&Endpoints>,
    (named, turn): (&Named, usize),
    pod: &dyn Fn(&str) -> Option<Pod>,
    places: &dyn KnownPlaces,
) -> Result<SocketAddr, ProxyError> {
    let ports = &service.spec.ports;
    let name = match named.port.parse::<i32>() {
        Ok(number) => {
            let port =
                ports.iter().find(|port| port.port == number).ok_or_else(|| ProxyError::NoPort(named.port.clone()))?;
            port.name.as_str()
        }
        // A path without a port means the first port of the service.
        Err(_) if named.port.is_empty() => ports.first().map_or("", |port| port.name.as_str()),
        Err(_) => named.port.as_str(),
    };
    let subsets = &endpoints.ok_or(ProxyError::NoEndpoints)?.subsets;
    if subsets.iter().all(|subset| subset.addresses.is_empty() && subset.not_ready_addresses.is_empty()) {
        return Err(ProxyError::NoEndpoints);
    }
    let is_it = |protocol: &str, port: &str| (protocol.is_empty() || protocol == "TCP") && port == name;
    let ready = subsets.iter().flat_map(|subset| {
        let ports = subset.ports.iter().filter(|port| is_it(&port.protocol, &port.name));
        ports.flat_map(|port| subset.addresses.iter().map(|address| (address, port.port)))
    });
    let ready: Vec<(&EndpointAddress, i32)> = ready.collect();
    if ready.is_empty() {
        return Err(ProxyError::NoneReady);
    }
    let (address, port) = ready[turn % ready.len()];
    let port =
        u16::try_from(port).ok().filter(|port| *port != 0).ok_or_else(|| ProxyError::NoPort(port.to_string()))?;
    let at = SocketAddr::new(of_text(&address.ip)?, port);
    let target = address.target_ref.as_ref().filter(|target| target.kind == "Pod").and_then(|target| pod(&target.name));
    place::of_endpoint((address.node_name.as_deref().unwrap_or_default(), target.as_ref()), at, places)
}

#[cfg(test)]
mod tests {
    use super::place::tests::OneNode;
    use super::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    fn shown(target: &str) -> String {
        let kinds = Kinds::builtin();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match parse(&kinds, path, query) {
            None => "-".to_owned(),
            Some(Err(misdirected)) => format!("{misdirected:?}"),
            Some(Ok(ProxyRequest { version, kind, namespace, named, means, .. })) => {
                let Named { secure, name, port, .. } = named;
                let means = match means {
                    ProxyKind::Redirect => "redirect".to_owned(),
                    ProxyKind::Proxy { prefix, rest } => format!("{prefix} | {rest}"),
                };
                let scheme = if secure { "https " } else { "" };
                format!("{} {} {namespace}/{name} {scheme}{port}: {means}", version.name(), kind.singular)
            }
        }
    }

    #[test]
    fn paths() {
        let here = "/api/v1/namespaces/a/pods/b/proxy";
        for (target, expected) in [
            (here.to_owned(), format!("v1 pod a/b : {here} | ")),
            (format!("{here}/"), format!("v1 pod a/b : {here} | /")),
            (format!("{here}/x//y%2Fz/?q=%20"), format!("v1 pod a/b : {here} | /x//y%2Fz/")),
            (format!("{here}/...?q=../"), format!("v1 pod a/b : {here} | /...")),
            (format!("{here}/.well-known/a..b/%zz/%"), format!("v1 pod a/b : {here} | /.well-known/a..b/%zz/%")),
            (
                "/api/v1/namespaces/a/services/https:s:web/proxy/x".to_owned(),
                "v1 service a/s https web: /api/v1/namespaces/a/services/https:s:web/proxy | /x".to_owned(),
            ),
            (
                "/api/v1/namespaces/a/pods/http%3Ab%3A8080/proxy/x".to_owned(),
                "v1 pod a/b 8080: /api/v1/namespaces/a/pods/http%3Ab%3A8080/proxy | /x".to_owned(),
            ),
            (
                "/api/v1/nodes/n:10250/proxy/pods".to_owned(),
                "v1 node /n 10250: /api/v1/nodes/n:10250/proxy | /pods".to_owned(),
            ),
            (
                "/api/v1/proxy/namespaces/a/pods/b/x".to_owned(),
                "v1 pod a/b : /api/v1/proxy/namespaces/a/pods/b | /x".to_owned(),
            ),
            ("/api/v1/proxy/nodes/n".to_owned(), "v1 node /n : /api/v1/proxy/nodes/n | ".to_owned()),
            ("/api/v1/redirect/namespaces/a/services/s".to_owned(), "v1 service a/s : redirect".to_owned()),
            ("/api/v1/redirect/namespaces/a/services/s/".to_owned(), "v1 service a/s : redirect".to_owned()),
            ("/api/v1/redirect/namespaces/a/services/s/x".to_owned(), "NotFound".to_owned()),
            ("/api/v1/proxy/namespaces/a/configmaps/b".to_owned(), "NotFound".to_owned()),
            ("/api/v1/proxy/pods/b".to_owned(), "NotFound".to_owned()),
            ("/api/v1/proxy/namespaces//pods/b".to_owned(), "NotFound".to_owned()),
            ("/api/v1/proxy/namespaces/a/nodes/n".to_owned(), "NotFound".to_owned()),
            ("/api/v1/proxy".to_owned(), "NotFound".to_owned()),
            (
                "/api/v1/namespaces/a/pods/ftp:b:1/proxy/".to_owned(),
                r#"Malformed("invalid pod request \"ftp:b:1\"")"#.to_owned(),
            ),
            (
                "/api/v1/namespaces/a/services/a:b:c:d/proxy/".to_owned(),
                r#"Malformed("invalid service request \"a:b:c:d\"")"#.to_owned(),
            ),
            (
                "/api/v1/namespaces/a/pods/b%2Fc/proxy/".to_owned(),
                r#"Malformed("invalid pod request \"b/c\"")"#.to_owned(),
            ),
            ("/api/v1/namespaces/a/configmaps/b/proxy".to_owned(), "-".to_owned()),
            ("/api/v1/namespaces/a/pods/b/log".to_owned(), "-".to_owned()),
            ("/api/v1/namespaces/a/pods/proxy".to_owned(), "-".to_owned()),
            ("/apis/apps/v1/namespaces/a/pods/b/proxy".to_owned(), "-".to_owned()),
            (
                "/api/v1beta3/proxy/namespaces/a/pods/b/x".to_owned(),
                "v1beta3 pod a/b : /api/v1beta3/proxy/namespaces/a/pods/b | /x".to_owned(),
            ),
            (
                "/api/v1beta1/proxy/minions/n/containerLogs/x?follow=1".to_owned(),
                "v1beta1 node /n : /api/v1beta1/proxy/minions/n | /containerLogs/x".to_owned(),
            ),
            ("/api/v1beta1/proxy/nodes/n/".to_owned(), "v1beta1 node /n : /api/v1beta1/proxy/nodes/n | /".to_owned()),
            (
                "/api/v1beta2/proxy/services/s/x?namespace=a".to_owned(),
                "v1beta2 service a/s : /api/v1beta2/proxy/services/s | /x".to_owned(),
            ),
            ("/api/v1beta1/proxy/pods/b".to_owned(), "v1beta1 pod default/b : /api/v1beta1/proxy/pods/b | ".to_owned()),
            (
                "/api/v1beta1/proxy/ns/a/pods/b/".to_owned(),
                "v1beta1 pod a/b : /api/v1beta1/proxy/ns/a/pods/b | /".to_owned(),
            ),
            ("/api/v1beta1/redirect/services/s".to_owned(), "v1beta1 service default/s : redirect".to_owned()),
            ("/api/v1beta1/redirect/endpoints/s".to_owned(), "NotFound".to_owned()),
            ("/proxy/minion/n/healthz".to_owned(), "v1beta1 node /n : /proxy/minion/n | /healthz".to_owned()),
            ("/proxy/minions/n".to_owned(), "v1beta1 node /n : /proxy/minions/n | ".to_owned()),
            ("/proxy/minion".to_owned(), "NotFound".to_owned()),
            ("/proxy/pods/x".to_owned(), "-".to_owned()),
        ] {
            assert_eq!(shown(&target), expected, "{target}");
        }
    }

    #[test]
    fn ways_up_are_refused() {
        for rest in [
            "/../x",
            "/a/..",
            "/./a",
            "/%2e%2E/x",
            "/.%2e/x",
            "/..%2fx",
            "/a%2F..%2fx",
            "/a\\..",
            "/..%5cx",
            "/..;a=b/x",
            "/%2e%2e%3B/x",
        ] {
            for at in [
                "/api/v1/namespaces/a/pods/b/proxy",
                "/api/v1/nodes/n/proxy",
                "/api/v1beta1/proxy/ns/a/pods/b",
                "/proxy/minion/n",
            ] {
                assert_eq!(shown(&format!("{at}{rest}")), format!("Malformed({CLIMBS:?})"), "{at}{rest}");
            }
        }
    }

    #[test]
    fn addresses_that_nobody_is_sent_to() {
        for (address, good) in [
            ("10.0.0.1", true),
            ("192.168.1.4", true),
            ("8.8.8.8", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("::127.0.0.1", false),
            ("fd00:ec2::254", false),
            ("fd20:ce::254", false),
            ("fd00:c1::a9fe:a9fe", false),
            ("fd00:42::42", false),
            ("100.100.100.200", false),
            ("168.63.129.16", false),
            ("192.0.0.192", false),
            ("::ffff:100.100.100.200", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::808:808", true),
            ("64:ff9b:1::808:808", false),
            ("2002:7f00:1::", false),
            ("2002:a9fe:a9fe::1", false),
            ("2002:6464:64c8::1", false),
            ("2002:808:808::1", true),
            ("::ffff:0:127.0.0.1", false),
            ("2001:0:4136:e378::1", false),
            ("2001:1::1", true),
            ("fd00:ec3::254", true),
            ("100.100.100.201", true),
            ("localhost", false),
            ("127.1", false),
            ("2130706433", false),
            ("", false),
        ] {
            assert_eq!(of_text(address).is_ok(), good, "{address}: {:?}", of_text(address));
        }
        assert_eq!(of_text("::ffff:10.0.0.1"), Ok("10.0.0.1".parse().expect("an address")));
    }

    fn named(text: &str) -> Named {
        Named::of(text, "thing").expect("a name")
    }

    fn of<T: for<'d> Deserialize<'d>>(document: Value) -> T {
        T::deserialize(document).expect("a document")
    }

    #[test]
    fn ports_of_pods() {
        let pod = |ip: &str| -> Pod {
            let ports = json!([{"containerPort": 8080}, {"containerPort": 9090, "name": "admin"}]);
            let containers = json!([{"name": "a"}, {"name": "b", "ports": ports}]);
            of(json!({"status": {"podIP": ip}, "spec": {"nodeName": "n", "containers": containers}}))
        };
        let no_port = |port: &str| Err(ProxyError::NoPort(port.to_owned()));
        for (text, expected) in [
            ("p", Ok("10.1.0.7:8080")),
            ("p:9000", Ok("10.1.0.7:9000")),
            ("p:admin", Ok("10.1.0.7:9090")),
            ("p:none", no_port("none")),
            ("p:0", no_port("0")),
            ("p:70000", no_port("70000")),
        ] {
            let found = of_pod(&pod("10.1.0.7"), &named(text), &OneNode).map(|address| address.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        }
        assert_eq!(of_pod(&pod(""), &named("p"), &OneNode), Err(ProxyError::Unplaced("it has no address yet")));
        assert!(matches!(of_pod(&pod("127.0.0.1"), &named("p"), &OneNode), Err(ProxyError::Forbidden(_))));
        let bare: Pod = of(json!({"status": {"podIP": "10.1.0.8"}, "spec": {"nodeName": "n"}}));
        let found = of_pod(&bare, &named("p"), &OneNode).map(|address| address.to_string());
        assert_eq!(found, Ok("10.1.0.8:80".to_owned()));
        // Wherever a pod says that it is.
        assert!(matches!(of_pod(&pod("10.2.0.7"), &named("p"), &OneNode), Err(ProxyError::Forbidden(_))));
    }

    #[test]
    fn endpoints_of_services() {
        let service: Service = of(
            json!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}),
        );
        let endpoints: Endpoints = of(json!({"subsets": [
            {"addresses": [{"ip": "10.1.0.11", "nodeName": "n"}, {"ip": "10.1.0.2", "nodeName": "n"}],
                "ports": [{"name": "web", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]},
            {"notReadyAddresses": [{"ip": "10.1.0.9"}], "addresses": [{"ip": "10.1.0.3", "nodeName": "n"}],
                "ports": [{"name": "web", "port": 8081}]}]}));
        let found = |text: &str, turn| {
            of_service(&service, Some(&endpoints), (&named(text), turn), &|_| None, &OneNode)
                .map(|address| address.to_string())
        };
        let turns: Vec<_> = (0..4).map(|turn| found("s", turn)).collect();
        assert_eq!(
            turns,
            ["10.1.0.11:8080", "10.1.0.2:8080", "10.1.0.3:8081", "10.1.0.11:8080"]
                .map(|address| Ok(address.to_owned()))
        );
        assert_eq!(found("s:80", 1), Ok("10.1.0.2:8080".to_owned()));
        assert_eq!(found("s:web", 2), Ok("10.1.0.3:8081".to_owned()));
        assert_eq!(found("s:99", 0), Err(ProxyError::NoPort("99".to_owned())));
        assert_eq!(found("s:dns", 0), Err(ProxyError::NoneReady));
        assert_eq!(found("s:other", 0), Err(ProxyError::NoneReady));
        let one = |subsets: Value| {
            of_service(&service, Some(&of(json!({ "subsets": subsets }))), (&named("s"), 7), &|_| None, &OneNode)
        };
        let none = of_service(&service, None, (&named("s"), 0), &|_| None, &OneNode);
        assert_eq!(none, Err(ProxyError::NoEndpoints));
        assert_eq!(one(json!([])), Err(ProxyError::NoEndpoints));
        assert_eq!(
            one(json!([{"notReadyAddresses": [{"ip": "10.1.0.1"}], "ports": [{"name": "web", "port": 1}]}])),
            Err(ProxyError::NoneReady)
        );
        let metadata = json!([{"addresses": [{"ip": "169.254.169.254"}], "ports": [{"name": "web", "port": 80}]}]);
        assert!(matches!(one(metadata), Err(ProxyError::Forbidden(_))));
        let of_a_tenant = json!([{"addresses": [{"ip": "192.168.1.1"}], "ports": [{"name": "web", "port": 80}]}]);
        assert!(matches!(one(of_a_tenant), Err(ProxyError::Forbidden(_))));
    }
}
