//! Flows over UDP that the kernel still leads to whoever served a port before. PURE.
//!
//!     who was led where, who is now -> `Moved`: the ports that others serve now
//!         -> each flow of the kernel: is it over?
//!     the kernel's netlink words for that: `list`, `read`, `end`
//!
//! A connection over TCP notices that its end is gone. A client of UDP that goes on sending from one port keeps its
//! flow for ever, and with it an end that is no more.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::ends::{Endpoint, Led};
use super::netlink::{ACKNOWLEDGE, DUMP, INET, Message, REQUEST, attributes, message, messages, padded};
use super::part::ServiceRules;

/// The endpoints of all services.
pub fn led(parts: &[Arc<ServiceRules>]) -> Led {
    parts.iter().flat_map(|part| part.flows.iter().map(|(at, ends)| (*at, ends.clone()))).collect()
}

/// Ports with changed endpoints, all addresses of services, and this host's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    ends: Led,
    addresses: BTreeSet<IpAddr>,
    local: BTreeSet<IpAddr>,
}

/// A UDP flow of the kernel's connection tracking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where the client sends to.
    to: Endpoint,
    /// The endpoint that answers.
    by: Endpoint,
    /// The attributes that identify it to the kernel.
    named: Vec<u8>,
}

/// The flows in a received packet of the kernel's answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FlowBatch {
    pub flows: Vec<Flow>,
    /// The kernel has said all, or that it will not: a number of errno, zero where all is well.
    pub over: Option<i32>,
}

impl Moved {
    /// `before`: none where nobody knows; then all may be another. `local`: the addresses of this host.
    pub fn between(before: Option<&Led>, now: &Led, addresses: &BTreeSet<IpAddr>, local: &[IpAddr]) -> Moved {
        let mut ends = now.clone();
        for (at, was) in before.into_iter().flatten() {
            if now.get(at) == Some(was) {
                ends.remove(at);
            } else {
                ends.entry(*at).or_default();
            }
        }
        // No rule leads on what goes to the loopback.
        let local = local.iter().copied().filter(|address| !address.is_loopback()).collect();
        Moved { ends, addresses: addresses.clone(), local }
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether the flow leads to an endpoint that no longer serves the port, or nowhere although an endpoint serves the
    /// port.
    pub fn is_over(&self, flow: &Flow) -> bool {
        let (ip, port) = flow.to;
        if let Some(ends) = self.ends.get(&(Some(ip), port)) {
            return !ends.contains(&flow.by);
        }
        // No rule leads packets to the same port number on a foreign address. A flow to this host may have begun before
        // the rule existed.
        let led = (flow.by != flow.to || self.local.contains(&ip)) && !self.addresses.contains(&ip);
        led && self.ends.get(&(None, port)).is_some_and(|ends| !ends.contains(&flow.by))
    }
}

const NEW: u16 = 0x100;
const GET: u16 = 0x101;
const DELETE: u16 = 0x102;
const UDP: u8 = 17;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;

/// Asks for all flows.
pub fn list() -> Vec<u8> {
    message(GET, REQUEST | DUMP, INET, &[])
}

/// Ends exactly this flow, not a younger flow with the same addresses.
pub fn end(flow: &Flow) -> Vec<u8> {
    message(DELETE, REQUEST | ACKNOWLEDGE, INET, &flow.named)
}

/// Reads the messages in a received packet. A flow that cannot be read is no UDP flow over IPv4.
pub fn read(bytes: &[u8]) -> FlowBatch {
    let mut heard = FlowBatch::default();
    for message in messages(bytes) {
        match message {
            Message::End(code) => heard.over = Some(code),
            Message::Content(NEW, attributes) => heard.flows.extend(flow(attributes)),
            Message::Content(..) => {}
        }
    }
    heard
}

fn flow(bytes: &[u8]) -> Option<Flow> {
    let all = attributes(bytes);
    let (_, to) = ends(all.get(&ORIGINAL)?.1)?;
    let (by, _) = ends(all.get(&REPLY)?.1)?;
    let mut named = Vec::new();
    for (whole, _) in [ORIGINAL, ID, ZONE].iter().filter_map(|kind| all.get(kind)) {
        named.extend_from_slice(whole);
        named.resize(padded(named.len()), 0);
    }
    Some(Flow { to, by, named })
}

/// Source and destination.
fn ends(bytes: &[u8]) -> Option<(Endpoint, Endpoint)> {
    let all = attributes(bytes);
    let (addresses, protocol) = (attributes(all.get(&ADDRESSES)?.1), attributes(all.get(&PROTOCOL)?.1));
    if protocol.get(&1)?.1 != [UDP] {
        return None;
    }
    let end = |address: u16, port: u16| -> Option<Endpoint> {
        let address: [u8; 4] = addresses.get(&address)?.1.try_into().ok()?;
        Some((IpAddr::from(address), u16::from_be_bytes(protocol.get(&port)?.1.try_into().ok()?)))
    };
    Some((end(1, 2)?, end(2, 3)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::services::netlink::{DONE, ERROR, NESTED, number};

    fn end_of(text: &str) -> Endpoint {
        let (ip, port) = text.split_once(':').unwrap();
        (ip.parse().unwrap(), port.parse().unwrap())
    }

    /// `10.96.0.5:53=10.244.0.1:53,10.244.0.2:53`, or with `node` for the address.
    fn of(texts: &[&str]) -> Led {
        let one = |text: &&str| {
            let (at, ends) = text.split_once('=').unwrap();
            let (ip, port) = at.split_once(':').unwrap();
            (
                (ip.parse().ok(), port.parse().unwrap()),
                ends.split(',').filter(|end| !end.is_empty()).map(end_of).collect(),
            )
        };
        texts.iter().map(one).collect()
    }

    #[test]
    fn those_that_are_over() {
        let addresses = BTreeSet::from([IpAddr::from([10, 96, 0, 5])]);
        let local = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 168, 0, 2])];
        let check = |old: Option<&[&str]>, new: &[&str], to: &str, by: &str, expected: bool| {
            let moved = Moved::between(old.map(of).as_ref(), &of(new), &addresses, &local);
            let flow = Flow { to: end_of(to), by: end_of(by), named: Vec::new() };
            assert_eq!(moved.is_over(&flow), expected, "{old:?} {new:?}: {to} by {by}");
        };
        let (one, two, none) = ("10.96.0.5:53=10.244.0.1:53", "10.96.0.5:53=10.244.0.2:53", "10.96.0.5:53=");
        // The end is another, is gone with all others, or with the service.
        check(Some(&[one]), &[two], "10.96.0.5:53", "10.244.0.1:53", true);
        check(Some(&[one]), &[two], "10.96.0.5:53", "10.244.0.2:53", false);
        check(Some(&[one]), &[none], "10.96.0.5:53", "10.244.0.1:53", true);
        check(Some(&[one]), &[], "10.96.0.5:53", "10.244.0.1:53", true);
        // Somebody serves now, and the flow went elsewhere until then.
        check(Some(&[none]), &[one], "10.96.0.5:53", "10.96.0.5:53", true);
        // Nothing is another: nobody is looked at. After a start everybody is.
        check(Some(&[one]), &[one], "10.96.0.5:53", "10.244.0.9:53", false);
        check(None, &[one], "10.96.0.5:53", "10.244.0.9:53", true);
        check(None, &[one], "10.96.0.5:53", "10.244.0.1:53", false);
        check(None, &[one], "10.96.0.5:54", "10.244.0.9:54", false);
        // A node port: flows to remote hosts, and to a service with the same port number, go on.
        let (port, moved) = ("node:30053=10.244.0.1:53", "node:30053=10.244.0.2:53");
        check(Some(&[port]), &[moved], "192.168.0.2:30053", "10.244.0.1:53", true);
        check(Some(&[port]), &[moved], "192.168.0.2:30053", "10.244.0.2:53", false);
        check(Some(&[port]), &[moved], "8.8.8.8:30053", "8.8.8.8:30053", false);
        check(Some(&[port]), &[moved], "10.96.0.5:30053", "10.244.0.1:53", false);
        // The flow began before the rule existed, or while no endpoint served the port, and still leads to this host
        // itself.
        let (own, nobody) = ("192.168.0.2:30053", "node:30053=");
        check(Some(&[]), &[port], own, own, true);
        check(Some(&[nobody]), &[port], own, own, true);
        check(None, &[port], own, own, true);
        check(Some(&[port]), &[port], own, own, false);
        // A program of this host may have the same number at the loopback; others have theirs.
        check(Some(&[nobody]), &[port], "127.0.0.1:30053", "127.0.0.1:30053", false);
        check(Some(&[nobody]), &[port], "192.168.0.9:30053", "192.168.0.9:30053", false);
        check(Some(&[nobody]), &[port], "192.168.0.2:30054", "192.168.0.2:30054", false);
        assert!(Moved::between(Some(&of(&[one])), &of(&[one]), &addresses, &local).is_empty());
    }

    fn octets(address: IpAddr) -> Vec<u8> {
        match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut all =
            [&u16::try_from(content.len() + 4).unwrap().to_ne_bytes()[..], &kind.to_ne_bytes(), content].concat();
        all.resize(padded(all.len()), 0);
        all
    }

    fn tuple(kind: u16, source: &str, destination: &str, protocol: u8) -> Vec<u8> {
        let ((from, from_port), (to, to_port)) = (end_of(source), end_of(destination));
        let addresses = [attribute(1, &octets(from)), attribute(2, &octets(to))].concat();
        let ports =
            [attribute(1, &[protocol]), attribute(2, &from_port.to_be_bytes()), attribute(3, &to_port.to_be_bytes())]
                .concat();
        attribute(kind | NESTED, &[attribute(1 | NESTED, &addresses), attribute(2 | NESTED, &ports)].concat())
    }

    #[test]
    fn words_of_the_kernel() {
        let listed = |protocol| {
            let original = tuple(ORIGINAL, "10.244.0.9:4000", "10.96.0.5:53", protocol);
            let reply = tuple(REPLY, "10.244.0.1:53", "10.244.0.9:4000", protocol);
            message(NEW, 2, INET, &[original, reply, attribute(3, &[0; 4]), attribute(ID, &[1, 2, 3, 4])].concat())
        };
        let heard = read(&[listed(17), listed(6), message(DONE, 2, INET, &[])].concat());
        let named = [tuple(ORIGINAL, "10.244.0.9:4000", "10.96.0.5:53", 17), attribute(ID, &[1, 2, 3, 4])].concat();
        let flow = Flow { to: end_of("10.96.0.5:53"), by: end_of("10.244.0.1:53"), named: named.clone() };
        assert_eq!(heard, FlowBatch { flows: vec![flow.clone()], over: Some(0) });
        let end = end(&flow);
        assert!(end.ends_with(&named) && number(&end, 0) == Some(end.len()), "{end:?}");
        let refused =
            [&36_u32.to_ne_bytes()[..], &ERROR.to_ne_bytes(), &[0; 10], &(-2_i32).to_ne_bytes(), &[0; 16]].concat();
        assert_eq!(read(&refused), FlowBatch { flows: Vec::new(), over: Some(2) });
        // Whatever is cut off is not read, and nothing is beyond its end.
        let whole = listed(17);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), FlowBatch::default(), "{length}");
        }
    }
}
