//! Rules of services in a real kernel, in a network namespace of its own: nft takes those of whatever services there
//! may be, and where it refuses some all the same, only these are left out.

use coracle_agent::facts::shown::Shown;
use coracle_agent::network::services::group::grouped;
use coracle_agent::network::services::standing::StandingTable;
use coracle_agent::network::services::{Pieces, RuleHost, ServiceRules, change, rules, script, trial};
use coracle_agent::network::{net, netfilter, services};
use coracle_api::service::{EndpointSlice, Service};
use coracle_tests::fuzz::Dice;
use serde_json::{Value, json};
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

fn here() -> RuleHost {
    RuleHost { node: "n1".into(), pod_cidr: "10.244.0.0/24".into(), ..RuleHost::default() }
}

/// Set for a test that runs once more in a namespace of its own.
const INSIDE: &str = "CORACLE_INSIDE_NAMESPACE";
/// Scripts of as many services each; a script takes some milliseconds.
const ROUNDS: u64 = 24;
const SERVICES: u64 = 12;

/// Whether this is the run inside; outside, the run inside has passed.
pub fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let steps = "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && exec \"$0\" \"$@\"";
    let program = std::env::current_exe().expect("this program");
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "sh", "-c", steps]).arg(program).args(["--exact", test]).env(INSIDE, "1");
    let output = inside.output().expect("unshare of util-linux");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} in a network namespace of its own (it takes unshare, ip of iproute2, nft of nftables, and leave to \
         make user namespaces):\n{said}"
    );
    false
}

fn nft(input: &str) -> Result<String, String> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nft of nftables");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    if output.status.success() { Ok(String::new()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn table(name: &str) -> Option<String> {
    let output = Command::new("nft").args(["list", "table", "ip", name]).output().expect("nft of nftables");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A name of so many letters, with signs inside.
fn name(dice: &mut Dice, length: usize) -> String {
    const INNER: &[u8] = b"abcxyz0189-";
    const OUTER: &[u8] = b"azkq";
    let mut text = String::new();
    for at in 0..length {
        let signs = if at == 0 || at + 1 == length { OUTER } else { INNER };
        text.push(char::from(*dice.pick(signs)));
    }
    text
}

fn length(dice: &mut Dice, most: usize) -> usize {
    if dice.once_in(3) { most } else { 1 + dice.below(most) }
}

fn port(dice: &mut Dice) -> usize {
    let other = 1 + dice.below(65535);
    *dice.pick(&[1, 80, 65535, other])
}

/// A service that the API takes, and endpoints of it.
fn service(dice: &mut Dice, address: u32) -> (Value, Value) {
    let of_namespace = length(dice, 63);
    let namespace = name(dice, of_namespace);
    let of_name = length(dice, 63);
    let name_of_it = name(dice, of_name);
    let several = 1 + dice.below(4);
    let mut numbers: Vec<usize> = (0..several).map(|_| port(dice)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let protocol = |dice: &mut Dice| *dice.pick(&["TCP", "TCP", "TCP", "UDP", "SCTP"]);
    let ports: Vec<Value> = numbers
        .iter()
        .enumerate()
        .map(|(index, number)| {
            let node_port = if dice.once_in(2) { 30000 + dice.below(2768) } else { 0 };
            json!({"name": format!("p{index}"), "port": number, "protocol": protocol(dice), "nodePort": node_port})
        })
        .collect();
    let metadata = json!({"namespace": namespace, "name": name_of_it});
    let ip = Ipv4Addr::from_bits(address).to_string();
    // Each endpoint of one with affinity has a chain and a set; outside of a namespace a transaction has more room.
    let (affinity, most) = if dice.once_in(4) { ("ClientIP", 5) } else { ("None", 40) };
    let slices: Vec<Value> = (0..dice.below(3))
        .map(|_| {
            let address = |dice: &mut Dice| {
                json!({
                    "addresses": [Ipv4Addr::from_bits(dice.below(1 << 32) as u32).to_string()],
                })
            };
            let endpoints: Vec<Value> = (0..dice.below(most)).map(|_| address(dice)).collect();
            let ports: Vec<Value> = ports
                .iter()
                .map(|p| {
                    json!({
                        "name": p["name"], "port": port(dice), "protocol": p["protocol"],
                    })
                })
                .collect();
            let labels = json!({"kubernetes.io/service-name": metadata["name"]});
            json!({
                "metadata": {"namespace": metadata["namespace"], "name": "x", "labels": labels}, "endpoints": endpoints,
                "ports": ports,
            })
        })
        .collect();
    let policy = |dice: &mut Dice| *dice.pick(&["Cluster", "Local"]);
    let spec = json!({"clusterIP": ip, "type": "NodePort", "ports": ports, "internalTrafficPolicy": policy(dice),
        "externalTrafficPolicy": policy(dice), "sessionAffinity": affinity});
    (json!({"metadata": metadata, "spec": spec}), json!(slices))
}

fn read(all: &[(Value, Value)]) -> services::KernelRules {
    let services: Vec<Arc<Service>> =
        all.iter().map(|(service, _)| Arc::new(Service::read(service).expect("a service"))).collect();
    let slices = all.iter().flat_map(|(_, slices)| slices.as_array().expect("slices"));
    let slices: Vec<Arc<EndpointSlice>> =
        slices.map(|slice| Arc::new(EndpointSlice::read(slice).expect("a slice"))).collect();
    rules(&grouped(&services, &slices), &here(), None, &mut Pieces::default())
}

#[test]
fn whatever_services_there_may_be_their_rules_are_taken() {
    if !inside("service_rules::whatever_services_there_may_be_their_rules_are_taken") {
        return;
    }
    for seed in 0..ROUNDS {
        let mut dice = Dice::of(seed + 1);
        let all: Vec<(Value, Value)> =
            (0..SERVICES).map(|n| service(&mut dice, 0x0a60_0000 + (seed * SERVICES + n) as u32)).collect();
        let rules = read(&all);
        let parts = &rules.parts;
        assert_eq!(parts.len(), all.len());
        nft(&trial(parts)).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(table("coracle_trial"), None, "a trial leaves nothing");
        nft(&script(parts, &here())).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let held = table("coracle").expect("the table is there");
        assert!(parts.iter().all(|part| held.contains(&part.address.to_string())), "seed {seed}");
        let text = script(parts, &here());
        assert_eq!(StandingTable::read(&held), StandingTable::read(&text), "seed {seed}: the kernel lists what it got");
    }
}

/// Whatever changes, the change alone makes the table that the whole would have made.
#[test]
fn a_change_makes_what_the_whole_makes() {
    if !inside("service_rules::a_change_makes_what_the_whole_makes") {
        return;
    }
    let whole = |parts: &[Arc<ServiceRules>]| {
        nft(&script(parts, &here())).unwrap_or_else(|why| panic!("{why}"));
        sorted(&table("coracle").expect("the table is there"))
    };
    for seed in 0..ROUNDS {
        let mut dice = Dice::of(seed + 1);
        let mut all: Vec<(Value, Value)> = (0..SERVICES).map(|n| service(&mut dice, 0x0a60_0000 + n as u32)).collect();
        let mut before = read(&all);
        whole(&before.parts);
        for _ in 0..4 {
            let at = dice.below(all.len());
            let other = service(&mut dice, 0x0a60_0000 + at as u32);
            match dice.below(3) {
                0 => all[at].1 = json!([]),
                1 => drop(all.swap_remove(at)),
                _ => all[at] = other,
            }
            let after = read(&all);
            let script = change(&before.parts, &after.parts);
            nft(&script).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{script}"));
            let changed = sorted(&table("coracle").expect("the table is there"));
            assert_eq!(changed, whole(&after.parts), "seed {seed}");
            before = after;
        }
    }
}

/// Elements and chains stand in the order in which they came.
fn sorted(listing: &str) -> Vec<String> {
    let mut words: Vec<String> = listing
        .split([',', '{', '}', '\n'])
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    words.sort();
    words
}

/// A service with one port, whose only endpoint is on this host.
fn one(name: &str, ip: &str, port: u32, end: &str) -> (Value, Value) {
    let metadata = json!({"namespace": "default", "name": name, "uid": name});
    (
        json!({"metadata": metadata, "spec": {"clusterIP": ip, "ports": [{"port": port}]}}),
        json!([{"metadata": {"namespace": "default", "name": name, "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [end], "nodeName": "n1"}], "ports": [{"port": 80}]}]),
    )
}

/// How often the kernel's rules have changed by the time that the master's services are loaded. `standing`: the
/// services in the table of the agent before; `file`: those that the agent reads at its start.
fn changes_at_a_start(standing: &[(Value, Value)], file: Option<&[(Value, Value)]>) -> u32 {
    let generation = || netfilter::generation().expect("the kernel says");
    nft(&script(&read(standing).parts, &here())).unwrap_or_else(|why| panic!("{why}"));
    let before = generation();
    let of_file = file.map(|services| services::KernelRules { from_file: true, ..read(services) });
    let heard = [one("a", "10.96.0.1", 80, "10.244.0.9"), one("bad", "10.96.0.9", 70_000, "10.244.0.9")];
    let (rules_in, wanted) = watch::channel(of_file);
    let (_shown_in, shown) = watch::channel(Arc::new(Shown::default()));
    let (happenings_in, mut happenings) = mpsc::channel(8);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::spawn(net::run(wanted, shown, happenings_in));
        // It has taken the services of the file by then.
        tokio::task::yield_now().await;
        rules_in.send_replace(Some(read(&heard)));
        happenings.recv().await.expect("the service that is refused is told of");
    });
    generation().wrapping_sub(before)
}

#[test]
fn the_table_of_the_agent_before_stays_until_the_master_is_heard() {
    if !inside("service_rules::the_table_of_the_agent_before_stays_until_the_master_is_heard") {
        return;
    }
    let (a, new) = (one("a", "10.96.0.1", 80, "10.244.0.9"), one("new", "10.96.0.2", 80, "10.244.0.9"));
    let moved = one("a", "10.96.0.1", 80, "10.244.0.7");
    let heard_at_once = changes_at_a_start(&[a.clone(), new.clone()], None);
    let check = |standing: &[(Value, Value)], file: &[(Value, Value)], loads: u32| {
        assert_eq!(changes_at_a_start(standing, Some(file)), heard_at_once + loads, "{standing:?} {file:?}");
    };
    check(&[a.clone(), new.clone()], &[a.clone()], 0);
    check(&[a.clone()], &[a.clone()], 0);
    check(&[a.clone()], &[moved], 1);
}

/// The kernel has no port 70000; no master gives one out, and if it did the others went on.
#[test]
fn a_service_whose_rules_are_refused_is_left_out_and_named() {
    if !inside("service_rules::a_service_whose_rules_are_refused_is_left_out_and_named") {
        return;
    }
    let one = |name: &str, ip: &str, port: u32| one(name, ip, port, "10.244.0.9");
    let good = [one("a", "10.96.0.1", 80), one("c", "10.96.0.3", 80), one("d", "10.96.0.4", 80)];
    let bad = one("b", "10.96.0.2", 70_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (rules_in, wanted) = watch::channel(Some(read(&good)));
    let (_shown_in, shown) = watch::channel(Arc::new(Shown::default()));
    let (happenings_in, mut happenings) = mpsc::channel(8);
    runtime.block_on(async {
        tokio::spawn(net::run(wanted, shown, happenings_in));
        rules_in.send_replace(Some(read(&[good.as_slice(), &[bad]].concat())));
        let event = happenings.recv().await.expect("it is told of");
        assert_eq!((event.namespace.as_str(), event.name.as_str(), &*event.reason), ("default", "b", "RulesRefused"));
        assert!(
            event.message.contains("its address does not work on this host") && event.message.contains("nft:"),
            "{}",
            event.message
        );
        let held = table("coracle").expect("the table is there");
        for (address, there) in [("10.96.0.1", true), ("10.96.0.2", false), ("10.96.0.3", true), ("10.96.0.4", true)] {
            assert_eq!(held.contains(&format!("{address} . tcp . 80")), there, "{address}: {held}");
        }
        assert!(!held.contains("10.96.0.2"), "{held}");
    });
}
