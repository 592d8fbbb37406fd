//! Services over TCP and UDP: from the host, from pods, from the LAN; who is chosen, and what lives on when programs
//! are killed.

use crate::Test;
use crate::bed::Bed;
use crate::images::SAY;
use crate::lan::{HOST, Lan};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("services_from_everywhere", from_everywhere),
    ("services_affinity", affinity),
    ("services_local_policy", local_policy),
    ("services_under_kills", under_kills),
];

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const STANDIN: &str = env!("CARGO_BIN_EXE_guestbook-standin");
const NODE_PORT: u16 = 30007;
const EXTERNAL: &str = "192.0.2.77";
/// Of two that are chosen evenly, one is missing in one of 500,000 tries.
const TRIES: usize = 20;

fn say(bed: &Bed, name: &str) {
    let container = json!({"name": name, "image": SAY, "args": ["say", name]});
    let labels = json!({"app": "say"});
    bed.post(
        PODS,
        &json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        })
        .to_string(),
    );
}

fn post(bed: &Bed, name: &str, more: Value) -> Value {
    let port = |protocol: &str| {
        json!({
            "name": protocol.to_lowercase(), "protocol": protocol, "port": 7, "nodePort": NODE_PORT,
        })
    };
    let mut spec = json!({"type": "NodePort", "selector": {"app": "say"}, "ports": [port("TCP"), port("UDP")]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    bed.post(SERVICES, &json!({"metadata": {"name": name}, "spec": spec}).to_string())
}

fn two(bed: &mut Bed) {
    bed.start();
    say(bed, "one");
    say(bed, "two");
    bed.until("both are ready", |bed| (bed.ready("one") == Some(true) && bed.ready("two") == Some(true)).then_some(()));
}

fn cluster_ip(service: &Value) -> String {
    service["spec"]["clusterIP"].as_str().expect("an address").to_owned()
}

/// From this host, from a pod, from the LAN.
#[derive(Clone, Copy)]
enum Client<'a> {
    Host,
    Pod(&'a str),
    Lan(&'a Lan),
}

fn ask(bed: &Bed, from: Client<'_>, protocol: &str, address: &str) -> Result<String, String> {
    let arguments = ["ask", protocol, address];
    match from {
        Client::Host => crate::bed::run(Command::new(STANDIN).args(arguments)),
        Client::Pod(id) => bed.exec(id, &format!("/standin {}", arguments.join(" "))),
        Client::Lan(lan) => lan.run(STANDIN, &arguments),
    }
}

/// Who answers.
fn names(bed: &Bed, from: Client<'_>, protocol: &str, address: &str) -> BTreeSet<String> {
    let answers = (0..TRIES).filter_map(|_| ask(bed, from, protocol, address).ok());
    answers.filter_map(|text| Some(text.split_once(" from ")?.0.to_owned())).collect()
}

fn from_everywhere(bed: &mut Bed) {
    let lan = Lan::new();
    two(bed);
    let service = post(bed, "s", json!({"externalIPs": [EXTERNAL, "198.51.100.9"]}));
    bed.until("an address that the agent does not know is told", |bed| {
        let events = bed.get("/api/v1/namespaces/default/events");
        let told = |event: &Value| {
            event["reason"] == "ExternalIPNotServed"
                && event["message"].as_str().is_some_and(|text| text.contains("198.51.100.9"))
        };
        events["items"].as_array()?.iter().any(told).then_some(())
    });
    let pod = bed.running_of("one").pop().expect("it runs");
    lan.route(EXTERNAL);
    let (cluster, node, external) =
        (format!("{}:7", cluster_ip(&service)), format!("{HOST}:{NODE_PORT}"), format!("{EXTERNAL}:7"));
    let ways = [
        ("its address, from the host", Client::Host, &cluster),
        ("its address, from a pod that is one of it", Client::Pod(&pod), &cluster),
        ("its node port, from the host", Client::Host, &node),
        ("its node port, from a pod", Client::Pod(&pod), &node),
        ("its node port, from the LAN", Client::Lan(&lan), &node),
        ("its external address, from the LAN", Client::Lan(&lan), &external),
        ("its external address, from a pod", Client::Pod(&pod), &external),
    ];
    for protocol in ["tcp", "udp"] {
        for (what, from, address) in ways {
            bed.until(&format!("both answer over {protocol} at {what}"), |bed| {
                (names(bed, from, protocol, address).len() == 2).then_some(())
            });
        }
    }
    // By name, as pods do it.
    let resolved = bed.exec(&pod, "/standin ask tcp s:7").expect("the name is known");
    assert!(resolved.contains(" from "), "{resolved}");
    // One that goes gets nothing more, over UDP neither.
    assert_eq!(bed.send("DELETE", &format!("{PODS}/two"), "").0, 200);
    bed.until("one is left", |bed| (bed.running_of("two").is_empty()).then_some(()));
    for protocol in ["tcp", "udp"] {
        bed.until(&format!("one alone answers over {protocol}"), |bed| {
            (names(bed, Client::Lan(&lan), protocol, &node) == BTreeSet::from(["one".to_owned()])).then_some(())
        });
    }
    assert_eq!(bed.send("DELETE", &format!("{SERVICES}/s"), "").0, 200);
    bed.until("nobody answers any more", |bed| ask(bed, Client::Lan(&lan), "tcp", &node).is_err().then_some(()));
}

fn affinity(bed: &mut Bed) {
    let lan = Lan::new();
    two(bed);
    let service = post(bed, "s", json!({"sessionAffinity": "ClientIP"}));
    let (cluster, node) = (format!("{}:7", cluster_ip(&service)), format!("{HOST}:{NODE_PORT}"));
    for protocol in ["tcp", "udp"] {
        bed.until("it answers", |bed| ask(bed, Client::Host, protocol, &cluster).ok());
        for (from, address) in [(Client::Host, &cluster), (Client::Lan(&lan), &node)] {
            assert_eq!(names(bed, from, protocol, address).len(), 1, "{protocol} {address}");
        }
    }
}

fn local_policy(bed: &mut Bed) {
    let lan = Lan::new();
    two(bed);
    post(bed, "s", json!({}));
    let node = format!("{HOST}:{NODE_PORT}");
    let peer = |bed: &Bed, protocol: &str| {
        Some(ask(bed, Client::Lan(&lan), protocol, &node).ok()?.split_once(" from ")?.1.trim().to_owned())
    };
    // What answers on this node sees who asks, whatever the policy.
    for protocol in ["tcp", "udp"] {
        bed.until("who asks is seen", |bed| peer(bed, protocol).filter(|peer| peer == "192.0.2.2"));
    }
    let local = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}});
    let kubectl = crate::kubectl::newest();
    kubectl.must(&["patch", "service", "s", "-p", &local.to_string()]);
    for protocol in ["tcp", "udp"] {
        bed.until("who asks is seen with the policy Local", |bed| {
            peer(bed, protocol).filter(|peer| peer == "192.0.2.2")
        });
    }
    let health = bed.get(&format!("{SERVICES}/s"))["spec"]["healthCheckNodePort"].as_u64().expect("a port");
    let health_text = bed.until("its health is told", |_| lan.get(&format!("http://{HOST}:{health}/healthz")).ok());
    assert!(
        health_text.contains("\"localEndpoints\": 2") || health_text.contains("\"localEndpoints\":2"),
        "{health_text}"
    );
}

/// A connection that stays open through what is killed and changed.
fn under_kills(bed: &mut Bed) {
    two(bed);
    let service = post(bed, "s", json!({}));
    let cluster = format!("{}:7", cluster_ip(&service));
    bed.until("it answers", |bed| ask(bed, Client::Host, "tcp", &cluster).ok());
    let mut stream = TcpStream::connect(&cluster).expect("it is there");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket"));
    let mut goes_on = |what: &str| {
        stream.write_all(b"?\n").unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut line = String::new();
        answers.read_line(&mut line).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(line.contains(" from "), "{what}: {line}");
    };
    goes_on("at first");
    let works = |bed: &Bed, what: &str| {
        for protocol in ["tcp", "udp"] {
            for _ in 0..TRIES {
                ask(bed, Client::Host, protocol, &cluster)
                    .unwrap_or_else(|error| panic!("{what}, {protocol}: {error}"));
            }
        }
    };
    bed.kill_agent();
    goes_on("without the agent");
    works(bed, "without the agent");
    bed.start_agent();
    works(bed, "with the next agent");
    bed.kill_master();
    works(bed, "without the master");
    // The service is newer than the file that an agent without a master reads.
    bed.kill_agent();
    bed.start_agent();
    works(bed, "with a next agent, and without the master");
    goes_on("with a next agent, and without the master");
    bed.start_master();
    let other = json!({"metadata": {"name": "other"}, "spec": {"selector": {"app": "say"}, "ports": [{"port": 7}]}});
    let other = format!("{}:7", cluster_ip(&bed.post(SERVICES, &other.to_string())));
    bed.until("another service answers", |bed| ask(bed, Client::Host, "tcp", &other).ok());
    goes_on("beside a new service");
    works(bed, "beside a new service");
    goes_on("at last");
}
