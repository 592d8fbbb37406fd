//! Services of manifest files, without a master: every type from a pod, the host and the LAN; what lives on when the
//! agent is killed; and a Service of the API that has the name of one.

use crate::Test;
use crate::bed::Bed;
use crate::images::{BUSYBOX, SAY};
use crate::lan::{HOST, Lan};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("file_services_each_type", each_type),
    ("file_services_without_a_service", without_a_service),
    ("file_services_under_kills", under_kills),
    ("file_services_beside_a_master", beside_a_master),
];

const STANDIN: &str = env!("CARGO_BIN_EXE_guestbook-standin");
const NODE_PORT: u16 = 30007;

fn say(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "say"}}, "spec": {
        "terminationGracePeriodSeconds": 1, "hostname": name, "subdomain": "all",
        "containers": [{"name": name, "image": SAY, "args": ["say", name]}]}})
}

fn client() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "client", "image": SAY, "command": ["sh", "-c", "sleep 3600"]}]}})
}

fn service(name: &str, spec: Value) -> Value {
    let mut whole = json!({"selector": {"app": "say"}, "ports": [{"port": 7}]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole})
}

fn drop_one(bed: &Bed, name: &str, document: &Value) {
    bed.drop_manifest(&format!("{name}.json"), &document.to_string());
}

/// Who answers a pod at `NAME:PORT`.
fn asked_by_pod(bed: &Bed, address: &str) -> Option<String> {
    let id = bed.running_of("client").pop()?;
    let answer = bed.exec(&id, &format!("/standin ask tcp {address}")).ok()?;
    Some(answer.split_once(" from ")?.0.to_owned())
}

fn asked_by_host(address: &str) -> Result<String, String> {
    crate::bed::run(Command::new(STANDIN).args(["ask", "tcp", address]))
}

/// The address on record.
fn address_of(bed: &Bed, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(bed.path("agent/file-services.json")).ok()?;
    let record: Value = serde_json::from_str(&text).expect("a record");
    record["addresses"][format!("default/{name}")].as_str().map(str::to_owned)
}

fn each_type(bed: &mut Bed) {
    let lan = Lan::new();
    bed.start_agent_with(&[]);
    drop_one(bed, "one", &say("one"));
    drop_one(bed, "s", &service("s", json!({})));
    drop_one(bed, "all", &service("all", json!({"clusterIP": "None"})));
    let node_port = json!({"type": "NodePort", "ports": [{"port": 7, "nodePort": NODE_PORT}]});
    drop_one(bed, "np", &service("np", node_port));
    drop_one(bed, "lb", &service("lb", json!({"type": "LoadBalancer", "ports": [{"port": 17, "targetPort": 7}]})));
    let outside = json!({"type": "ExternalName", "externalName": "s.default.svc.cluster.local"});
    drop_one(bed, "out", &service("out", outside));
    drop_one(bed, "client", &client());
    for name in ["s", "one", "all", "one.all", "np", "out", "s.default.svc.cluster.local"] {
        bed.until(&format!("a pod is answered at {name}"), |bed| {
            asked_by_pod(bed, &format!("{name}:7")).filter(|who| who == "one")
        });
    }
    bed.until("the balanced port answers a pod", |bed| asked_by_pod(bed, "lb:17"));
    for port in [NODE_PORT, 17] {
        bed.until(&format!("the LAN is answered at port {port}"), |_| {
            lan.run(STANDIN, &["ask", "tcp", &format!("{HOST}:{port}")]).ok()
        });
    }
    // An edit and a removal.
    drop_one(bed, "lb", &service("lb", json!({"type": "LoadBalancer", "ports": [{"port": 18, "targetPort": 7}]})));
    bed.until("the other port answers", |_| lan.run(STANDIN, &["ask", "tcp", &format!("{HOST}:18")]).ok());
    assert!(lan.run(STANDIN, &["ask", "tcp", &format!("{HOST}:17")]).is_err());
    let address = format!("{}:7", address_of(bed, "s").expect("an address"));
    bed.remove_manifest("s.json");
    bed.until("nobody answers any more", |_| asked_by_host(&address).is_err().then_some(()));
    drop_one(bed, "s", &service("s", json!({})));
    bed.until("the name has the address of before", |_| asked_by_host(&address).ok());
    // What waits is named.
    let taken = json!({"type": "NodePort", "ports": [{"port": 7, "nodePort": NODE_PORT}]});
    drop_one(bed, "zz", &service("zz", taken));
    bed.until("status names both", |bed| {
        let why = waits(bed, "zz")?;
        why.contains("service default/np of np.json").then_some(())
    });
}

/// Why the Service of a file is not served, as `status` says it.
fn waits(bed: &Bed, name: &str) -> Option<String> {
    let problems: Value = serde_json::from_str(&bed.ask_agent("/problems").ok()?).expect("JSON");
    let problems = problems["problems"].as_array()?.clone();
    let of = |problem: &&Value| problem["reason"] == "ServiceWaits" && problem["subject"]["name"] == name;
    problems.iter().find(of).map(|problem| problem["why"].as_str().unwrap_or_default().to_owned())
}

/// Two pods, and no Service.
fn without_a_service(bed: &mut Bed) {
    drop_one(bed, "one", &say("one"));
    drop_one(bed, "client", &client());
    bed.start_agent_with(&[]);
    bed.until("a pod finds another by its name", |bed| asked_by_pod(bed, "one:7"));
}

fn under_kills(bed: &mut Bed) {
    let mut probed = say("one");
    probed["spec"]["containers"][0]["readinessProbe"] =
        json!({"tcpSocket": {"port": 7}, "periodSeconds": 1, "initialDelaySeconds": 1});
    drop_one(bed, "one", &probed);
    drop_one(bed, "s", &service("s", json!({})));
    drop_one(
        bed,
        "idle",
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "idle"}, "spec": {
        "containers": [{"name": "idle", "image": BUSYBOX, "command": ["sleep", "3600"]}]}}),
    );
    bed.start_agent_with(&[]);
    let address = bed.until("it has an address", |bed| address_of(bed, "s"));
    let address = format!("{address}:7");
    bed.until("it answers", |_| asked_by_host(&address).ok());
    let mut stream = TcpStream::connect(&address).expect("it is there");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket"));
    let mut goes_on = |what: &str| {
        stream.write_all(b"?\n").unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut line = String::new();
        answers.read_line(&mut line).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(line.contains(" from "), "{what}: {line}");
        for _ in 0..20 {
            asked_by_host(&address).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    };
    let pods = bed.running_of("one");
    goes_on("at first");
    bed.kill_agent();
    goes_on("without the agent");
    bed.start_agent_with(&[]);
    // The probe of the new agent has not answered yet.
    goes_on("with the next agent");
    bed.stop_agent();
    bed.start_agent_with(&[]);
    goes_on("after a stop");
    assert_eq!(bed.running_of("one"), pods);
}

fn beside_a_master(bed: &mut Bed) {
    bed.start();
    drop_one(bed, "one", &say("one"));
    drop_one(bed, "client", &client());
    drop_one(bed, "s", &service("s", json!({})));
    drop_one(bed, "own", &service("own", json!({})));
    bed.until("a pod finds a Service of a file", |bed| asked_by_pod(bed, "s:7"));
    let spec = json!({"selector": {"app": "say"}, "ports": [{"port": 27, "targetPort": 7}]});
    let posted = json!({"metadata": {"name": "s"}, "spec": spec});
    bed.post("/api/v1/namespaces/default/services", &posted.to_string());
    bed.until("the Service of the API counts", |bed| asked_by_pod(bed, "s:27"));
    bed.until("status says so", |bed| waits(bed, "s")?.contains("a Service of the API has this name").then_some(()));
    bed.until("the other one goes on", |bed| asked_by_pod(bed, "own:7"));
    let names = bed.get("/api/v1/namespaces/default/services");
    let has = |name: &str| names["items"].as_array().into_iter().flatten().any(|one| one["metadata"]["name"] == name);
    assert!(has("s") && !has("own"), "Services of files are this host's alone: {names}");
}
