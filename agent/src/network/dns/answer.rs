//! A query's bytes -> an answer's bytes, or what is to be asked elsewhere. PURE.
//!
//!     query -> `step` -> Drop · Answer · Ask { a clean query } -> an upstream's bytes, or none -> `finish`
//!         -> the answer
//!
//! What comes from strangers is never passed on as it is: the query for elsewhere is built anew from its question.

use std::convert::Infallible;
use std::net::IpAddr;

use domain::base::iana::{Class, Opcode, Rcode};
use domain::base::message::Message;
use domain::base::message_builder::{
    AdditionalBuilder, AnswerBuilder, MessageBuilder, OptBuilder, PushError, StaticCompressor,
};
use domain::base::name::{Name, ParsedName, ToName};
use domain::base::{Question, Rtype, Serial, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Cname, Ns, Ptr, Soa, Srv, Txt};

use super::terms::{asked, lower};
use super::zone::{Data, DnsRecord, LookupResult, RecordType, TTL_S, Zone};

/// The packet size that every resolver accepts without EDNS.
const UDP_BYTES: usize = 512;
/// The largest packet size offered and accepted by EDNS: such packets are not fragmented on their way.
const EDNS_BYTES: u16 = 1232;
/// The longest chain of aliases.
const ALIASES_MAX: usize = 8;
const HEADER_BYTES: usize = 12;
/// The size of the OPT record, which announces the accepted packet size.
const OPT_BYTES: usize = 11;

type Target = StaticCompressor<Vec<u8>>;
type Asking<'a> = Question<ParsedName<&'a [u8]>>;
type OwnedName = Name<Vec<u8>>;

/// The outcome of a query.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is none, or not for us to answer.
    Drop,
    Answer(Vec<u8>),
    /// Upstream servers must be asked.
    Ask(Box<Ask>),
}

/// A question for elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Ask {
    /// To be sent, with a number of the sender's in its first two bytes.
    pub query: Vec<u8>,
    /// The key of a question in the cache.
    pub same: Vec<u8>,
    /// The size limit over UDP; the client may accept less.
    udp: bool,
    message: Vec<u8>,
    /// The CNAME records of this zone that led to the name.
    aliases: Vec<DnsRecord>,
}

/// The facts for an answer.
pub struct AnswerFacts<'a> {
    pub zone: &'a Zone,
    /// The address that answers.
    pub server: Option<IpAddr>,
    /// Where the addresses of an answer begin: each answer begins with a different address.
    pub turn: usize,
}

pub fn step(facts: &AnswerFacts<'_>, bytes: &[u8], udp: bool) -> Step {
    let Ok(message) = Message::from_octets(bytes) else { return Step::Drop };
    if message.header().qr() {
        return Step::Drop;
    }
    if message.header().opcode() != Opcode::QUERY {
        return failed(&message, Rcode::NOTIMP, udp);
    }
    let Ok(question) = message.sole_question() else { return failed(&message, Rcode::FORMERR, udp) };
    // The additional section must parse: its OPT record limits the size of the answer.
    let readable = message.additional().is_ok_and(|mut records| records.all(|record| record.is_ok()));
    if !readable {
        return failed(&message, Rcode::FORMERR, udp);
    }
    if message.opt().is_some_and(|opt| opt.version() != 0) || ![Class::IN, Class::ANY].contains(&question.qclass()) {
        return failed(&message, Rcode::NOTIMP, udp);
    }
    if [Rtype::AXFR, Rtype::IXFR].contains(&question.qtype()) {
        return failed(&message, Rcode::REFUSED, udp);
    }
    let (name, asked) = (lower(question.qname()), asked(question.qtype()));
    let mut aliases: Vec<DnsRecord> = Vec::new();
    let mut at = name.clone();
    loop {
        let found = facts.zone.look(&at, asked, facts.server);
        let (mut answer, beside, rcode) = match found {
            LookupResult::Elsewhere if aliases.is_empty() => {
                return ask(&message, &question, question.qname(), aliases, udp);
            }
            LookupResult::Elsewhere => {
                return match at.parse::<OwnedName>() {
                    Ok(there) => ask(&message, &question, &there, aliases, udp),
                    Err(_) => local(facts, &message, &question, aliases, Vec::new(), Rcode::NOERROR, udp),
                };
            }
            LookupResult::Records(answer, beside) => (answer, beside, Rcode::NOERROR),
            LookupResult::Nothing => (Vec::new(), Vec::new(), Rcode::NOERROR),
            LookupResult::NoName => (Vec::new(), Vec::new(), Rcode::NXDOMAIN),
        };
        if let [DnsRecord { data: Data::Alias(to), .. }] = answer.as_slice()
            && ![RecordType::Cname, RecordType::Any].contains(&asked)
            && aliases.len() < ALIASES_MAX
        {
            at.clone_from(to);
            aliases.append(&mut answer);
            continue;
        }
        let turn = facts.turn % answer.len().max(1);
        answer.rotate_left(turn);
        aliases.append(&mut answer);
        return local(facts, &message, &question, aliases, beside, rcode, udp);
    }
}

/// `reply`: None if no upstream server answered. CNAME records of this zone are returned even then.
pub fn finish(ask: &Ask, reply: Option<&[u8]>) -> Vec<u8> {
    let Ok(message) = Message::from_octets(ask.message.as_slice()) else { return Vec::new() };
    let limit = limit(&message, ask.udp);
    let reply = reply.and_then(|bytes| Message::from_octets(bytes).ok());
    if let (Some(reply), true) = (&reply, ask.aliases.is_empty())
        && reply.as_slice().len() <= limit
    {
        let mut bytes = reply.as_slice().to_vec();
        given_back(&mut bytes, &ask.message);
        return bytes;
    }
    let rcode = match &reply {
        Some(reply) => reply.header().rcode(),
        None if ask.aliases.is_empty() => Rcode::SERVFAIL,
        None => Rcode::NOERROR,
    };
    let question = message.sole_question().ok();
    let built = built(&message, rcode, !ask.aliases.is_empty(), limit, |answer| {
        for record in &ask.aliases {
            push(answer, record, question.as_ref())?;
        }
        reply.as_ref().map_or(Ok(()), |reply| copy(answer, reply))
    });
    let Some(mut builder) = built else { return Vec::new() };
    if reply.is_some_and(|reply| reply.header().tc() || says_nothing(reply.as_slice()) && ask.aliases.is_empty()) {
        builder.header_mut().set_tc(true);
    }
    ended(&message, builder.additional()).unwrap_or_default()
}

/// Whether a reply is one to this query: number, and question to the letter.
pub fn accepts(query: &[u8], reply: &[u8]) -> bool {
    let Some(end) = question_end(query) else { return false };
    let answers = reply.get(2).is_some_and(|flags| flags & 0x80 != 0);
    let one = reply.get(4..6) == Some(&[0, 1]);
    answers && one && reply.get(..2) == query.get(..2) && reply.get(HEADER_BYTES..end) == query.get(HEADER_BYTES..end)
}

/// More than fits into a packet was to be said.
pub fn is_cut(reply: &[u8]) -> bool {
    reply.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

/// Whether the answer section is empty: the name has no such record, or the answer was truncated.
pub fn says_nothing(reply: &[u8]) -> bool {
    reply.get(6..8).is_none_or(|count| count == [0, 0])
}

/// Where the only question of a message ends.
pub fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_BYTES;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1 + length;
        match length {
            0 => return (message.len() >= at + 4).then_some(at + 4),
            1..64 => {}
            _ => return None,
        }
    }
}

/// The number, the wish for recursion and the question's letters of whoever asked stand in an answer to another.
pub fn given_back(reply: &mut [u8], message: &[u8]) {
    if let (Some(number), Some(theirs)) = (reply.get_mut(..2), message.get(..2)) {
        number.copy_from_slice(theirs);
    }
    if let (Some(flags), Some(theirs)) = (reply.get_mut(2), message.get(2)) {
        *flags = *flags & !0x01 | theirs & 0x01;
    }
    if let Some(end) = question_end(message)
        && question_end(reply) == Some(end)
        && let (Some(question), Some(theirs)) =
            (reply.get_mut(HEADER_BYTES..end - 4), message.get(HEADER_BYTES..end - 4))
    {
        question.copy_from_slice(theirs);
    }
}

fn ask(
    message: &Message<&[u8]>,
    question: &Asking<'_>,
    name: &impl ToName,
    aliases: Vec<DnsRecord>,
    udp: bool,
) -> Step {
    let edns = message.opt().map(|opt| opt.dnssec_ok());
    let (cd, rtype) = (message.header().cd(), question.qtype());
    let query = || -> Option<Vec<u8>> {
        let mut builder = MessageBuilder::from_target(Target::new(Vec::new())).ok()?;
        builder.header_mut().set_rd(true);
        builder.header_mut().set_cd(cd);
        let mut builder = builder.question();
        builder.push((name, rtype)).ok()?;
        let mut builder = builder.additional();
        if let Some(dnssec) = edns {
            let say = builder.opt(|opt| {
                opt.set_udp_payload_size(EDNS_BYTES);
                opt.set_dnssec_ok(dnssec);
                Ok(())
            });
            say.ok()?;
        }
        Some(builder.finish().into_target())
    };
    let Some(query) = query() else { return failed(message, Rcode::SERVFAIL, udp) };
    let same = query.to_ascii_lowercase();
    Step::Ask(Box::new(Ask { query, same, udp, message: message.as_slice().to_vec(), aliases }))
}

fn local(
    facts: &AnswerFacts<'_>,
    message: &Message<&[u8]>,
    question: &Asking<'_>,
    answer: Vec<DnsRecord>,
    beside: Vec<DnsRecord>,
    rcode: Rcode,
    udp: bool,
) -> Step {
    let whole = || -> Option<Vec<u8>> {
        let builder = built(message, rcode, true, limit(message, udp), |builder| {
            for record in &answer {
                match (&record.data, authority(facts.zone)) {
                    (Data::Authority, Some((_, data))) => builder.push(timed(question.qname(), data))?,
                    _ => push(builder, record, Some(question))?,
                }
            }
            Ok(())
        })?;
        let mut builder = builder.authority();
        if let (true, Some((name, data))) = (answer.is_empty(), authority(facts.zone)) {
            builder.push(timed(name, data)).ok()?;
        }
        let mut builder = builder.additional();
        for record in &beside {
            if let (Data::Address(address), Ok(name)) = (&record.data, record.name.parse::<OwnedName>()) {
                let pushed = match address {
                    IpAddr::V4(ip) => builder.push(timed(name, A::new(*ip))),
                    IpAddr::V6(ip) => builder.push(timed(name, Aaaa::new(*ip))),
                };
                // Additional records are optional: the answer is complete without them.
                if pushed.is_err() {
                    break;
                }
            }
        }
        ended(message, builder)
    };
    whole().map_or(Step::Drop, Step::Answer)
}

fn failed(message: &Message<&[u8]>, rcode: Rcode, udp: bool) -> Step {
    let built = built(message, rcode, false, limit(message, udp), |_| Ok(()));
    let bytes = built.and_then(|builder| ended(message, builder.additional()));
    bytes.map_or(Step::Drop, Step::Answer)
}

fn start(message: &Message<&[u8]>, rcode: Rcode) -> Option<AnswerBuilder<Target>> {
    let builder = MessageBuilder::from_target(Target::new(Vec::new())).ok()?;
    let mut builder = match message.sole_question() {
        Ok(_) => builder.start_answer(message, rcode).ok()?,
        // Of what cannot be read nothing is said again.
        Err(_) => {
            let mut builder = builder.answer();
            let asked = message.header();
            let header = builder.header_mut();
            header.set_id(asked.id());
            header.set_qr(true);
            header.set_opcode(asked.opcode());
            header.set_rd(asked.rd());
            header.set_rcode(rcode);
            builder
        }
    };
    builder.header_mut().set_ra(true);
    Some(builder)
}

/// The records that fit. Where some do not, the mark says so: ask again over TCP. Many do not, and use these.
fn built(
    message: &Message<&[u8]>,
    rcode: Rcode,
    authoritative: bool,
    limit: usize,
    fill: impl FnOnce(&mut AnswerBuilder<Target>) -> Result<(), PushError>,
) -> Option<AnswerBuilder<Target>> {
    let mut builder = start(message, rcode)?;
    builder.header_mut().set_aa(authoritative);
    let kept_free = if message.opt().is_some() { OPT_BYTES } else { 0 };
    // Less than this, not up to it.
    builder.set_push_limit(limit - kept_free + 1);
    if fill(&mut builder).is_err() {
        builder.header_mut().set_tc(true);
    }
    Some(builder)
}

fn ended(message: &Message<&[u8]>, mut builder: AdditionalBuilder<Target>) -> Option<Vec<u8>> {
    builder.clear_push_limit();
    if message.opt().is_some() {
        builder.opt(say_size).ok()?;
    }
    Some(builder.finish().into_target())
}

fn timed<N, D>(name: N, data: D) -> (N, Class, Ttl, D) {
    (name, Class::IN, Ttl::from_secs(TTL_S), data)
}

fn say_size(opt: &mut OptBuilder<'_, Target>) -> Result<(), Infallible> {
    opt.set_udp_payload_size(EDNS_BYTES);
    Ok(())
}

/// The bytes that an answer to this message may have.
fn limit(message: &Message<&[u8]>, udp: bool) -> usize {
    if !udp {
        return usize::from(u16::MAX);
    }
    message.opt().map_or(UDP_BYTES, |opt| usize::from(opt.udp_payload_size().min(EDNS_BYTES)).max(UDP_BYTES))
}

fn push(into: &mut AnswerBuilder<Target>, record: &DnsRecord, question: Option<&Asking<'_>>) -> Result<(), PushError> {
    // In the client's upper and lower case: some clients compare the name byte by byte.
    if let Some(question) = question.filter(|question| lower(question.qname()) == record.name) {
        return push_data(into, question.qname(), &record.data);
    }
    match record.name.parse::<OwnedName>() {
        Ok(name) => push_data(into, &name, &record.data),
        Err(_) => Ok(()),
    }
}

fn push_data(builder: &mut AnswerBuilder<Target>, name: &impl ToName, data: &Data) -> Result<(), PushError> {
    // A name that is none has no place in an answer.
    let named = |text: &String| text.parse::<OwnedName>().ok();
    match data {
        Data::Address(IpAddr::V4(ip)) => builder.push(timed(name, A::new(*ip))),
        Data::Address(IpAddr::V6(ip)) => builder.push(timed(name, Aaaa::new(*ip))),
        Data::Alias(to) => named(to).map_or(Ok(()), |to| builder.push(timed(name, Cname::new(to)))),
        Data::Pointer(to) => named(to).map_or(Ok(()), |to| builder.push(timed(name, Ptr::new(to)))),
        Data::Server(to) => named(to).map_or(Ok(()), |to| builder.push(timed(name, Ns::new(to)))),
        Data::Service { weight, port, target } => {
            named(target).map_or(Ok(()), |to| builder.push(timed(name, Srv::new(0, *weight, *port, to))))
        }
        Data::Text(text) => match Txt::<Vec<u8>>::build_from_slice(text.as_bytes()) {
            Ok(text) => builder.push(timed(name, text)),
            Err(_) => Ok(()),
        },
        // Only the zone's own name has it, and `local` says it.
        Data::Authority => Ok(()),
    }
}

/// The zone's name, and what is said of it where an answer is empty: nobody keeps that longer than an address.
fn authority(zone: &Zone) -> Option<(OwnedName, Soa<OwnedName>)> {
    let name: OwnedName = zone.domain().parse().ok()?;
    let server: OwnedName = zone.server().parse().ok()?;
    let mail: OwnedName = format!("hostmaster.{}", zone.domain()).parse().ok()?;
    let seconds = Ttl::from_secs;
    let data = Soa::new(server, mail, Serial::from(1), seconds(7200), seconds(1800), seconds(86400), seconds(TTL_S));
    Some((name, data))
}

/// Copies the records in the answer section of `reply`.
fn copy(builder: &mut AnswerBuilder<Target>, reply: &Message<&[u8]>) -> Result<(), PushError> {
    let Ok(records) = reply.answer() else { return Ok(()) };
    for record in records.into_records::<AllRecordData<_, ParsedName<_>>>().flatten() {
        builder.push(record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::dns::cache::AnswerCache;
    use crate::network::services::group::grouped;
    use coracle_api::service::Service;
    use serde_json::json;
    use std::sync::Arc;

    fn zone() -> Zone {
        let service = |name: &str, spec: serde_json::Value| {
            Arc::new(Service::read(&json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap())
        };
        let many: Vec<String> = (0..200).map(|n| format!("10.96.1.{n}")).collect();
        let services = [
            service("web", json!({"clusterIP": "10.96.0.7", "ports": [{"port": 80}]})),
            service("many", json!({"clusterIP": "10.96.1.0", "clusterIPs": many, "ports": [{"port": 80}]})),
            service("out", json!({"type": "ExternalName", "externalName": "example.com"})),
            service("in", json!({"type": "ExternalName", "externalName": "web.default.svc.cluster.local"})),
            service("ring", json!({"type": "ExternalName", "externalName": "ring.default.svc.cluster.local"})),
        ];
        Zone::new("cluster.local", &grouped(&services, &[]))
    }

    fn query(name: &str, rtype: Rtype, edns: Option<u16>) -> Vec<u8> {
        let mut builder = MessageBuilder::from_target(Target::new(Vec::new())).unwrap();
        builder.header_mut().set_id(0x1234);
        builder.header_mut().set_rd(true);
        let mut builder = builder.question();
        builder.push((name.parse::<OwnedName>().unwrap(), rtype)).unwrap();
        let mut builder = builder.additional();
        if let Some(size) = edns {
            builder
                .opt(|opt| {
                    opt.set_udp_payload_size(size);
                    Ok(())
                })
                .unwrap();
        }
        builder.finish().into_target()
    }

    fn stepped(bytes: &[u8], udp: bool) -> Step {
        step(&AnswerFacts { zone: &zone(), server: Some("10.96.0.10".parse().unwrap()), turn: 1 }, bytes, udp)
    }

    /// Flags, code, and the records of the answer.
    fn shown(bytes: &[u8]) -> String {
        let message = Message::from_octets(bytes).unwrap();
        let header = message.header();
        let flags: String = [("aa", header.aa()), ("tc", header.tc()), ("ra", header.ra()), ("rd", header.rd())]
            .iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| format!("{name} "))
            .collect();
        let records = message.answer().unwrap().into_records::<AllRecordData<_, ParsedName<_>>>().flatten();
        let records: Vec<String> = records.map(|record| format!("{} {}", record.owner(), record.data())).collect();
        assert_eq!(header.id(), 0x1234);
        format!("{flags}{} {}", header.rcode(), records.join(", ")).trim_end().to_owned()
    }

    #[track_caller]
    fn check(bytes: &[u8], udp: bool, expected: &str) {
        let found = match stepped(bytes, udp) {
            Step::Drop => "drop".to_owned(),
            Step::Answer(bytes) => shown(&bytes),
            Step::Ask(ask) => {
                let message = Message::from_octets(ask.query.as_slice()).unwrap();
                format!("ask {}", message.sole_question().unwrap().qname())
            }
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn names_of_ours_are_answered() {
        check(
            &query("Web.Default.svc.cluster.LOCAL.", Rtype::A, None),
            true,
            "aa ra rd NOERROR Web.Default.svc.cluster.LOCAL 10.96.0.7",
        );
        check(&query("web.default.svc.cluster.local.", Rtype::AAAA, Some(1232)), true, "aa ra rd NOERROR");
        check(&query("wep.default.svc.cluster.local.", Rtype::A, None), true, "aa ra rd NXDOMAIN");
        check(
            &query("in.default.svc.cluster.local.", Rtype::A, None),
            true,
            "aa ra rd NOERROR in.default.svc.cluster.local web.default.svc.cluster.local., \
             web.default.svc.cluster.local 10.96.0.7",
        );
        check(
            &query("dns-version.cluster.local.", Rtype::TXT, None),
            true,
            "aa ra rd NOERROR dns-version.cluster.local \"1.1.0\"",
        );
        let Step::Answer(ring) = stepped(&query("ring.default.svc.cluster.local.", Rtype::A, None), true) else {
            panic!()
        };
        assert!(ring.len() < UDP_BYTES);
    }

    #[test]
    fn what_does_not_fit_into_a_packet_is_cut() {
        let name = "many.default.svc.cluster.local.";
        // As many as fit, for those who never ask over TCP: each takes 16 bytes.
        for (edns, limit, count) in [(None, 512, 29), (Some(600), 600, 33), (Some(60_000), 1232, 73)] {
            let Step::Answer(some) = stepped(&query(name, Rtype::A, edns), true) else { panic!() };
            assert!(some.len() <= limit && some.len() + 16 > limit, "{}", some.len());
            assert_eq!(shown(&some).matches("10.96.1.").count(), count);
            assert!(shown(&some).starts_with("aa tc ra rd NOERROR many.default.svc.cluster.local 10.96.1.1,"));
        }
        let Step::Answer(whole) = stepped(&query(name, Rtype::A, None), false) else { panic!() };
        assert_eq!(shown(&whole).matches("10.96.1.").count(), 200);
        assert!(
            shown(&whole).starts_with("aa ra rd NOERROR many.default.svc.cluster.local 10.96.1.1,"),
            "another one first"
        );
    }

    #[test]
    fn what_others_say_is_cut_as_well() {
        let ask = asked_of("example.com.");
        let message = Message::from_octets(ask.query.as_slice()).unwrap();
        let of = |count: u8, limit: usize| {
            let mut builder = MessageBuilder::from_target(Target::new(Vec::new()))
                .unwrap()
                .start_answer(&message, Rcode::NOERROR)
                .unwrap();
            builder.set_push_limit(limit);
            let name = message.sole_question().unwrap();
            let push =
                |last| builder.push((name.qname(), Class::IN, Ttl::from_secs(60), A::new([192, 0, 2, last].into())));
            (0..count).map(push).for_each(drop);
            builder.finish().into_target()
        };
        let cut = finish(&ask, Some(&of(100, 4000)));
        assert!(cut.len() <= UDP_BYTES && cut.len() + 16 > UDP_BYTES, "{}", cut.len());
        assert!(shown(&cut).starts_with("tc ra rd NOERROR example.com 192.0.2.0,"), "{}", shown(&cut));
        assert_eq!(shown(&cut).matches("192.0.2.").count(), 30);
        // Behind a name of ours.
        let ask = asked_of("out.default.svc.cluster.local.");
        let cut = shown(&finish(&ask, Some(&of(100, 4000))));
        assert!(
            cut.starts_with("aa tc ra rd NOERROR out.default.svc.cluster.local example.com., example.com 192.0.2.0,")
        );
        assert!(cut.matches("192.0.2.").count() > 20, "{cut}");
    }

    #[test]
    fn the_zone_says_whose_it_is() {
        let soa = "cluster.local ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5";
        check(&query("cluster.local.", Rtype::SOA, None), true, &format!("aa ra rd NOERROR {soa}"));
        // In the client's upper and lower case, like CoreDNS.
        let asked = soa.replace("cluster.local", "Cluster.Local");
        check(&query("Cluster.Local.", Rtype::SOA, Some(1232)), false, &format!("aa ra rd NOERROR {asked}"));
        check(
            &query("cluster.local.", Rtype::ANY, None),
            true,
            &format!("aa ra rd NOERROR cluster.local ns.dns.cluster.local., {soa}"),
        );
    }

    #[test]
    fn strangers_get_an_error_or_nothing() {
        check(&[], true, "drop");
        check(&[0; 11], true, "drop");
        let mut reply = query("web.default.svc.cluster.local.", Rtype::A, None);
        reply[2] |= 0x80;
        check(&reply, true, "drop");
        let mut update = query("web.default.svc.cluster.local.", Rtype::A, None);
        update[2] |= 5 << 3;
        check(&update, true, "ra rd NOTIMP");
        let mut short = query("web.default.svc.cluster.local.", Rtype::A, None);
        short.truncate(20);
        check(&short, true, "ra rd FORMERR");
        let mut more = query("web.default.svc.cluster.local.", Rtype::A, None);
        more[11] = 3;
        check(&more, true, "ra rd FORMERR");
        check(&query("cluster.local.", Rtype::AXFR, None), false, "ra rd REFUSED");
    }

    /// Whatever comes, it is answered, dropped or asked: bytes of real queries with each one and each pair changed.
    #[test]
    fn no_bytes_break_it() {
        for name in ["web.default.svc.cluster.local.", "out.default.svc.cluster.local.", "example.com."] {
            let good = query(name, Rtype::A, Some(1232));
            for at in 0..good.len() {
                for value in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                    let mut bad = good.clone();
                    bad[at] = value;
                    for length in [bad.len(), at] {
                        if let Step::Ask(ask) = stepped(&bad[..length], true) {
                            finish(&ask, Some(&bad));
                            finish(&ask, None);
                            AnswerCache::default().keep(&ask.same, &bad, 0);
                        }
                    }
                }
            }
        }
    }

    fn reply(ask: &Ask, ttl: u32) -> Vec<u8> {
        let message = Message::from_octets(ask.query.as_slice()).unwrap();
        let mut builder = MessageBuilder::from_target(Target::new(Vec::new()))
            .unwrap()
            .start_answer(&message, Rcode::NOERROR)
            .unwrap();
        let name = message.sole_question().unwrap();
        builder.push((name.qname(), Class::IN, Ttl::from_secs(ttl), A::new([192, 0, 2, 1].into()))).unwrap();
        builder.finish().into_target()
    }

    fn asked_of(name: &str) -> Ask {
        let Step::Ask(ask) = stepped(&query(name, Rtype::A, None), true) else { panic!("{name}") };
        *ask
    }

    #[test]
    fn what_others_say_is_passed_on_and_kept_for_its_time() {
        let ask = asked_of("Example.com.");
        let answer = reply(&ask, 60);
        assert!(accepts(&ask.query, &answer));
        assert_eq!(shown(&finish(&ask, Some(&answer))), "rd NOERROR Example.com 192.0.2.1");
        assert_eq!(shown(&finish(&ask, None)), "ra rd SERVFAIL");
        // An answer with a foreign id, or to a different question.
        let mut other = answer.clone();
        other[1] ^= 1;
        assert!(!accepts(&ask.query, &other));
        assert!(!accepts(&ask.query, &reply(&asked_of("example.org."), 60)) && !accepts(&ask.query, &ask.query));
        let mut cache = AnswerCache::default();
        cache.keep(&ask.same, &answer, 1000);
        let again = asked_of("eXample.com.");
        let kept = cache.get(&again.same, 21_000).expect("it is kept whatever the letters");
        assert_eq!(shown(&finish(&again, Some(&kept))), "rd NOERROR eXample.com 192.0.2.1");
        let ttl = Message::from_octets(kept.as_slice()).unwrap().answer().unwrap().next().unwrap().unwrap().ttl();
        assert_eq!(ttl.as_secs(), 40);
        assert_eq!(cache.get(&ask.same, 61_000), None);
        // None of these is kept: no life, no such code, cut.
        for (change, ttl) in [(0, 0), (2, 60), (0x0200, 60)] {
            let mut answer = reply(&ask, ttl);
            answer[3] |= (change & 0xff) as u8;
            answer[2] |= (change >> 8) as u8;
            let mut cache = AnswerCache::default();
            cache.keep(&ask.same, &answer, 0);
            assert_eq!(cache.get(&ask.same, 0), None);
        }
    }

    #[test]
    fn the_cache_has_a_bound() {
        let mut cache = AnswerCache::default();
        let ask = asked_of("example.com.");
        for number in 0..5000_u32 {
            cache.keep(&number.to_be_bytes(), &reply(&ask, 60), 0);
        }
        assert_eq!(cache.get(&0_u32.to_be_bytes(), 1), None);
        assert!(cache.get(&4999_u32.to_be_bytes(), 1).is_some());
        let left = (0..5000_u32).filter(|number| cache.get(&number.to_be_bytes(), 1).is_some()).count();
        assert_eq!(left, 1024);
    }

    #[test]
    fn a_name_elsewhere_is_led_to() {
        let ask = asked_of("out.default.svc.cluster.local.");
        let led = "NOERROR out.default.svc.cluster.local example.com.";
        assert_eq!(shown(&finish(&ask, Some(&reply(&ask, 60)))), format!("aa ra rd {led}, example.com 192.0.2.1"));
        assert_eq!(shown(&finish(&ask, None)), format!("aa ra rd {led}"));
        check(&query("out.default.svc.cluster.local.", Rtype::CNAME, None), true, &format!("aa ra rd {led}"));
    }
}
