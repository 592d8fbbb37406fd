//! The pods' own network: from the host, from pods and from the LAN, which another network namespace plays; beside pods
//! of the engine's.

use crate::Test;
use crate::bed::{Bed, run};
use crate::images::BUSYBOX;
use crate::lan::{HOST, Lan};
use std::collections::BTreeSet;
use std::process::Command;

pub const TESTS: &[Test] = &[
    ("network_of_its_own", of_its_own),
    ("network_outlives_agent_and_engine", outlives),
    ("network_holds_pods_to_their_addresses", holds_to_addresses),
    ("network_of_both_kinds", of_both_kinds),
];

const OWN: [&str; 2] = ["--pod-network", "own"];

/// A pod that says its own name at port 80.
fn web(id: &str, ports: &str) -> String {
    let command = format!("mkdir /www; echo {id} > /www/index.html; exec httpd -f -p 80 -h /www");
    format!(
        "version: v1beta2\nid: {id}\ncontainers:\n  - name: {id}\n    image: {BUSYBOX}\n    command: ['sh', '-c', \
         '{command}']\n    ports: [{ports}]\n"
    )
}

fn address(bed: &Bed, id: &str) -> String {
    bed.until(&format!("{id} has an address"), |bed| Some(bed.pod_like(id)?["status"]["podIP"].as_str()?.to_owned()))
}

fn id(bed: &Bed, container: &str) -> String {
    bed.until(&format!("{container} runs"), |bed| bed.running_of(container).pop())
}

/// What a container fetches; Debian's static busybox has a wget that crashes.
fn fetch(bed: &Bed, container: &str, address: &str, port: u16) -> Option<String> {
    let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} {port} | tail -n 1");
    bed.exec(container, &ask).ok()
}

fn answers(bed: &Bed, what: &str, name: &str, ask: impl Fn(&Bed) -> Option<String>) {
    bed.until(what, |bed| ask(bed).filter(|text| text.trim() == name));
}

fn of_its_own(bed: &mut Bed) {
    let lan = Lan::new();
    bed.start_agent_with(&OWN);
    bed.drop_manifest("a", &web("a", "{containerPort: 80, hostPort: 8099}"));
    bed.drop_manifest("b", &web("b", "{containerPort: 80, hostPort: 8098, hostIP: 127.0.0.1}"));
    let (a, b) = (address(bed, "a"), address(bed, "b"));
    let inside = (id(bed, "a"), id(bed, "b"));
    assert!(a != b && [&a, &b].iter().all(|address| address.starts_with("10.244.0.")), "{a} {b}");
    let sandboxes = bed.running_of("POD");
    for sandbox in &sandboxes {
        assert_eq!(bed.docker(&["inspect", "-f", "{{.HostConfig.NetworkMode}}", sandbox]).trim(), "none");
    }
    assert!(bed.engine.docker(&["network", "inspect", "coracle"]).is_err(), "the engine has no network of ours");

    answers(bed, "a pod, from the host", "a", |bed| bed.try_get(&format!("http://{a}/")).ok());
    answers(bed, "a pod, from a pod", "a", |bed| fetch(bed, &inside.1, &a, 80));
    answers(bed, "a port of the host, at the loopback", "a", |bed| bed.try_get("http://127.0.0.1:8099/").ok());
    answers(bed, "at an address of the host", "a", |bed| bed.try_get(&format!("http://{HOST}:8099/")).ok());
    answers(bed, "from the LAN", "a", |_| lan.get(&format!("http://{HOST}:8099/")).ok());
    answers(bed, "from another pod", "a", |bed| fetch(bed, &inside.1, HOST, 8099));
    answers(bed, "from the pod itself", "a", |bed| fetch(bed, &inside.0, HOST, 8099));
    answers(bed, "one of the loopback alone, from there", "b", |bed| bed.try_get("http://127.0.0.1:8098/").ok());
    lan.get(&format!("http://{HOST}:8098/")).expect_err("and from nowhere else");

    let seen = bed
        .exec(&inside.0, "cat /etc/hosts /etc/hostname; ip route; cat /sys/class/net/eth0/address")
        .expect("exec works");
    assert!(seen.contains(&format!("{a}\ta\n")) && seen.contains("default via 10.244.0.1 dev eth0"), "{seen}");
    // What goes out goes as this host: the other host has no way back to a pod.
    let ask = |from: &str| bed.exec(from, "ping -c 1 -W 2 192.0.2.2");
    bed.until("a pod reaches the LAN", |_| ask(&inside.0).ok());
}

/// The rules themselves are tried in `tests/it/pod_wires.rs`.
fn holds_to_addresses(bed: &mut Bed) {
    bed.start_agent_with(&OWN);
    bed.drop_manifest("a", &web("a", ""));
    let a = address(bed, "a");
    let table = || run(Command::new("nft").args(["list", "table", "bridge", "coracle_pods"])).unwrap_or_default();
    let groups = || run(Command::new("nft").args(["list", "table", "netdev", "coracle_pods"])).unwrap_or_default();
    let is_held = || table().contains(&format!(" . {a}")) && groups().contains("01:80:c2:00:00:00 drop");
    let held = |bed: &Bed, what: &str| bed.until(what, |_| is_held().then_some(()));
    held(bed, "a pod is held to its address");
    // As an update from a version without that table.
    bed.kill_agent();
    for family in ["bridge", "netdev"] {
        run(Command::new("nft").args(["delete", "table", family, "coracle_pods"])).expect("nft of nftables");
    }
    bed.start_agent_with(&OWN);
    held(bed, "a pod that was there before the agent");
    answers(bed, "it serves", "a", |bed| bed.try_get(&format!("http://{a}/")).ok());
    for setting in ["accept_ra", "accept_redirects"] {
        let path = format!("/proc/sys/net/ipv6/conf/coracle0/{setting}");
        assert_eq!(std::fs::read_to_string(&path).expect("the bridge").trim(), "0", "{path}");
    }
}

fn outlives(bed: &mut Bed) {
    let lan = Lan::new();
    bed.start_agent_with(&OWN);
    bed.drop_manifest("a", &web("a", "{containerPort: 80, hostPort: 8099}"));
    let (before, container) = (address(bed, "a"), id(bed, "a"));
    let ask = || lan.get(&format!("http://{HOST}:8099/")).ok();
    answers(bed, "it answers", "a", |_| ask());
    bed.kill_agent();
    answers(bed, "without its agent", "a", |_| ask());
    bed.drop_manifest("b", &web("b", ""));
    bed.start_agent_with(&OWN);
    let other = address(bed, "b");
    assert_eq!((address(bed, "a"), id(bed, "a")), (before.clone(), container));
    assert_ne!(other, before, "no address is given twice");
    answers(bed, "with the next one", "a", |_| ask());

    // A sandbox that somebody else restarts gets its wire again; should the agent have looked in between, its pod is
    // made anew.
    let sandbox = bed.docker(&["ps", "-q", "--no-trunc", "--filter", "name=^/k8s_POD_a"]).trim().to_owned();
    let _ = bed.engine.docker(&["restart", "-t", "0", &sandbox]);
    bed.until("its sandbox is reached", |bed| {
        bed.exec(&id(bed, "b"), &format!("ping -c 1 -W 2 {}", address(bed, "a"))).ok()
    });

    bed.engine.signal("TERM");
    bed.engine.ended();
    bed.engine.launch().expect("dockerd starts");
    answers(bed, "after a restart of the engine", "a", |_| ask());
    let all: BTreeSet<String> = ["a", "b"].iter().map(|id| address(bed, id)).collect();
    assert_eq!(all.len(), 2, "{all:?}");
}

/// Pods of the release before run on until they are replaced, and back again.
fn of_both_kinds(bed: &mut Bed) {
    bed.start_agent_with(&["--pod-network", "engine"]);
    bed.drop_manifest("old", &web("old", "{containerPort: 80, hostPort: 8099}"));
    let (old, old_id) = (address(bed, "old"), id(bed, "old"));
    bed.kill_agent();
    bed.start_agent_with(&OWN);
    bed.drop_manifest("new", &web("new", "{containerPort: 80, hostPort: 8098}"));
    let (new, new_id) = (address(bed, "new"), id(bed, "new"));
    let look = |bed: &Bed| {
        assert_eq!((address(bed, "old"), id(bed, "old")), (old.clone(), old_id.clone()), "it runs on");
        assert_eq!((address(bed, "new"), id(bed, "new")), (new.clone(), new_id.clone()), "and so does this one");
        answers(bed, "the old one reaches the new", "new", |bed| fetch(bed, &old_id, &new, 80));
        answers(bed, "the new one reaches the old", "old", |bed| fetch(bed, &new_id, &old, 80));
        answers(bed, "a port of the old", "old", |bed| bed.try_get("http://127.0.0.1:8099/").ok());
        answers(bed, "a port of the new", "new", |bed| bed.try_get("http://127.0.0.1:8098/").ok());
    };
    assert_ne!(old, new);
    look(bed);
    bed.kill_agent();
    bed.start_agent_with(&["--pod-network", "engine"]);
    bed.drop_manifest("third", &web("third", ""));
    let third = address(bed, "third");
    assert!(third != old && third != new, "{third}");
    look(bed);
}
