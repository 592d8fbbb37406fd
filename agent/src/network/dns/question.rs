//! PURE. A question of this host's own for the addresses of a name, and what is said to it.

use std::net::IpAddr;

use domain::base::iana::Rcode;
use domain::base::message::Message;
use domain::rdata::{A as Four, Aaaa as Six};

use crate::facts::resolv::Resolver;

pub const A: u16 = 1;
pub const AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
/// The limit for a single name.
const ADDRESSES_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Search domains that are tried; resolvers of Go and of glibc look at some more.
const SEARCHES_MAX: usize = 6;

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Addresses(Vec<IpAddr>),
    /// There is no such name, or it has none.
    Nothing,
    Trouble(&'static str),
}

/// The addresses of a name in a hosts file, those of IPv4 first.
pub fn of_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let mut found: Vec<IpAddr> = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        if words.any(|word| word.eq_ignore_ascii_case(name)) && found.len() < ADDRESSES_MAX {
            found.push(address);
        }
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// The names to try, in order: a name with fewer dots than `ndots` is tried in the search domains first.
pub fn candidates(name: &str, resolver: &Resolver) -> Vec<String> {
    if let Some(whole) = name.strip_suffix('.') {
        return vec![whole.to_owned()];
    }
    let dots = resolver.options.iter().find_map(|option| option.strip_prefix("ndots:")?.parse().ok()).unwrap_or(1);
    let searches = resolver.searches.iter().filter(|search| !search.is_empty()).take(SEARCHES_MAX);
    let mut names: Vec<String> = searches.map(|search| format!("{name}.{search}")).collect();
    let at = if name.matches('.').count() >= dots { 0 } else { names.len() };
    names.insert(at, name.to_owned());
    names
}

/// With a number of nothing. None: it can be no name.
pub fn query(name: &str, kind: u16) -> Option<Vec<u8>> {
    let fits = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    if name.len() > NAME_BYTES_MAX || !name.is_ascii() || !name.split('.').all(fits) {
        return None;
    }
    // The header: a single question, with RD set (recursion desired).
    let mut query = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).ok()?);
        query.extend_from_slice(label.as_bytes());
    }
    query.push(0);
    query.extend(kind.to_be_bytes());
    query.extend(CLASS_IN.to_be_bytes());
    Some(query)
}

/// Whatever names lead to them: the server has followed these.
pub fn said(reply: &[u8], kind: u16) -> Said {
    let Ok(message) = Message::from_octets(reply) else { return Said::Trouble("server misbehaving") };
    match message.header().rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Said::Nothing,
        _ => return Said::Trouble("server misbehaving"),
    }
    let Ok(answer) = message.answer() else { return Said::Trouble("server misbehaving") };
    let addresses: Vec<IpAddr> = if kind == A {
        let records = answer.limit_to_in::<Four>().filter_map(Result::ok);
        records.map(|record| IpAddr::V4(record.data().addr())).take(ADDRESSES_MAX).collect()
    } else {
        let records = answer.limit_to_in::<Six>().filter_map(Result::ok);
        records.map(|record| IpAddr::V6(record.data().addr())).take(ADDRESSES_MAX).collect()
    };
    if addresses.is_empty() { Said::Nothing } else { Said::Addresses(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let text = "::1 a localhost # b\n127.0.0.1 localhost A\n#192.0.2.1 a\nx a\n10.0.0.1 c";
        let check = |name: &str, expected: &[&str]| {
            let found: Vec<String> = of_hosts(text, name).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{name}");
        };
        check("a", &["127.0.0.1", "::1"]);
        check("A.", &["127.0.0.1", "::1"]);
        check("c", &["10.0.0.1"]);
        check("b", &[]);
    }

    #[test]
    fn names_that_are_tried() {
        let resolver = |options: &[&str]| Resolver {
            searches: vec!["lan".to_owned(), "example".to_owned()],
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..Resolver::default()
        };
        assert_eq!(candidates("a", &resolver(&[])), ["a.lan", "a.example", "a"]);
        assert_eq!(candidates("a.b", &resolver(&[])), ["a.b", "a.b.lan", "a.b.example"]);
        assert_eq!(candidates("a.b", &resolver(&["ndots:2"])), ["a.b.lan", "a.b.example", "a.b"]);
        assert_eq!(candidates("a.", &resolver(&[])), ["a"]);
    }

    #[test]
    fn questions_and_answers() {
        let asked = query("example.com", A).unwrap();
        assert_eq!(&asked[..], b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01");
        for bad in ["", "a..b", &"x".repeat(64), &"x.".repeat(130), "\u{fc}"] {
            assert_eq!(query(bad, A), None, "{bad:.10}");
        }
        let reply = |flags: u8, records: u8, kind: u16, data: &[u8]| {
            let mut reply = query("example.com", kind).unwrap();
            (reply[2], reply[3], reply[7]) = (0x81, flags, records);
            if records > 0 {
                reply.extend([0xc0, 12]);
                reply.extend(kind.to_be_bytes());
                reply.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
                reply.extend(data);
            }
            reply
        };
        assert_eq!(said(&reply(0x80, 1, A, &[192, 0, 2, 1]), A), Said::Addresses(vec![[192, 0, 2, 1].into()]));
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        let IpAddr::V6(data) = six else { unreachable!() };
        assert_eq!(said(&reply(0x80, 1, AAAA, &data.octets()), AAAA), Said::Addresses(vec![six]));
        assert_eq!(said(&reply(0x80, 0, A, &[]), A), Said::Nothing);
        assert_eq!(said(&reply(0x83, 0, A, &[]), A), Said::Nothing);
        assert_eq!(said(&reply(0x82, 0, A, &[]), A), Said::Trouble("server misbehaving"));
        assert_eq!(said(&[], A), Said::Trouble("server misbehaving"));
    }
}
