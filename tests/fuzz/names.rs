//! Messages of DNS: what clients ask, and what others answer.

use super::Dice;
use coracle_agent::network::dns::answer::{AnswerFacts, Step, accepts, finish, given_back, question_end, step};
use coracle_agent::network::dns::cache::AnswerCache;
use coracle_agent::network::dns::zone::Zone;
use coracle_agent::network::services::group::grouped;
use coracle_api::service::Service;
use serde_json::json;
use std::sync::Arc;

/// Of an answer over UDP.
const UDP_BYTES_MAX: usize = 1232;

fn zone() -> Zone {
    let many: Vec<String> = (0..100).map(|n| format!("10.96.1.{n}")).collect();
    let services = [
        json!({"metadata": {"namespace": "d", "name": "web"}, "spec": {"clusterIP": "10.96.0.7", "clusterIPs": many,
            "ports": [{"name": "http", "port": 80}]}}),
        json!({
            "metadata": {"namespace": "d", "name": "out"},
            "spec": {"type": "ExternalName", "externalName": "example.com"},
        }),
        json!({
            "metadata": {"namespace": "d", "name": "ring"},
            "spec": {"type": "ExternalName", "externalName": "ring.d.svc.c"},
        }),
    ];
    let services: Vec<Arc<Service>> =
        services.iter().map(|service| Arc::new(Service::read(service).expect("a service"))).collect();
    Zone::new("c", &grouped(&services, &[]))
}

/// Bytes of a stranger, as a query and as a reply to one that can be read.
pub fn bytes(bytes: &[u8]) {
    let zone = zone();
    let facts = AnswerFacts { zone: &zone, server: None, turn: bytes.len() };
    for udp in [true, false] {
        match step(&facts, bytes, udp) {
            Step::Drop => {}
            Step::Answer(answer) => well(bytes, &answer, udp),
            Step::Ask(ask) => {
                assert!(question_end(&ask.query).is_some(), "what is asked can be read");
                well(bytes, &finish(&ask, None), udp);
                // Whatever comes back: it is passed on in bounds, or it is no answer.
                let reply = [&ask.query[..2], bytes.get(2..).unwrap_or_default()].concat();
                well(bytes, &finish(&ask, Some(&reply)), udp);
                let mut cache = AnswerCache::default();
                cache.keep(&ask.same, &reply, 0);
                if let Some(kept) = cache.get(&ask.same, 1) {
                    well(bytes, &finish(&ask, Some(&kept)), udp);
                }
            }
        }
    }
    let own = query(b"\x07example\x03com\0", 1);
    let mut reply = bytes.to_vec();
    if accepts(&own, &reply) {
        assert_eq!(reply.get(12..own.len()), own.get(12..), "another question");
    }
    given_back(&mut reply, &own);
    assert_eq!(reply.len(), bytes.len());
}

/// An answer has the number of the query, says that it is one, and fits.
fn well(query: &[u8], answer: &[u8], udp: bool) {
    if answer.is_empty() {
        return;
    }
    assert!(answer.len() >= 12 && answer[..2] == query[..2], "{answer:?} to {query:?}");
    assert!(!udp || answer.len() <= UDP_BYTES_MAX, "{} bytes to {query:?}", answer.len());
}

fn query(name: &[u8], rtype: u8) -> Vec<u8> {
    [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".as_slice(), name, &[0, rtype, 0, 1]].concat()
}

/// A query that can be read, with some of its bytes thrown.
pub fn messages(dice: &mut Dice) {
    let names: [&[u8]; 6] = [
        b"\x03web\x01d\x03svc\x01c\0",
        b"\x03out\x01d\x03svc\x01c\0",
        b"\x04ring\x01d\x03svc\x01c\0",
        b"\x07example\x03com\0",
        b"\0",
        b"\xc0\x0c",
    ];
    let mut message = query(dice.pick::<&[u8]>(&names), *dice.pick(&[1, 2, 5, 6, 12, 28, 33, 251, 252, 255]));
    if dice.once_in(2) {
        message[11] = 1;
        message.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    }
    if dice.once_in(4) {
        message[2] |= 0x80;
        message[7] = 1;
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    for _ in 0..dice.below(4) {
        let at = dice.below(message.len());
        message[at] = u8::try_from(dice.below(256)).expect("a byte");
    }
    if dice.once_in(4) {
        message.truncate(dice.below(message.len() + 1));
    }
    bytes(&message);
}
