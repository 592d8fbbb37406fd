//! Addresses of services, and those that a balancer gives them.

use super::super::intent::Memo;
use super::*;
use coracle_api::strategy::addresses::FINALIZER;

#[test]
fn an_address_is_shown_while_a_service_has_it() {
    let shown = |objects: &[(&'static str, Value)]| {
        decide(&cluster(objects), "addresses", key("ipaddresses", "10.96.0.7"), at(MINUTE)).intents
    };
    let with = service(json!({"spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"]}}));
    let [Intent::Create { object, .. }] = &*shown(std::slice::from_ref(&with)) else { panic!("it is made") };
    assert_eq!(object["spec"]["parentRef"], json!({"resource": "services", "namespace": "default", "name": "web"}));
    let standing = ("ipaddresses", object.clone());
    assert_eq!(shown(&[with, standing.clone()]), []);
    assert!(matches!(&*shown(std::slice::from_ref(&standing)), [Intent::Delete { at_once: true, .. }]));
    // A person's own stays.
    let mut theirs = standing;
    theirs.1["metadata"]["labels"] = json!({});
    assert_eq!(shown(&[theirs]), []);
}

/// A node of an agent of that version, with its address.
fn agent(name: &str, version: &str, address: &str) -> (&'static str, Value) {
    let addresses = json!([{"type": "InternalIP", "address": address}]);
    node(name, json!({"status": {"nodeInfo": {"kubeletVersion": version}, "addresses": addresses}}))
}

/// A service that asks for a balancer, and the addresses that it was given.
fn balanced(name: &str, made: &str, given: &[&str], more: Value) -> (&'static str, Value) {
    let metadata = json!({"name": name, "creationTimestamp": made});
    let mut asks = service(
        json!({"metadata": metadata, "spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": ingress(given)}}),
    );
    merge(&mut asks.1, more);
    asks
}

fn ingress(given: &[&str]) -> Value {
    if given.is_empty() {
        return json!({});
    }
    json!({"ingress": given.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect::<Vec<_>>()})
}

/// What the balancer writes and says about a service.
fn given(objects: &[(&'static str, Value)], name: &str) -> (Option<Value>, Vec<String>) {
    let (mut written, mut messages) = (None, Vec::new());
    for intent in decide(&cluster(objects), "balancer", key("services", name), at(MINUTE)).intents {
        match intent {
            Intent::Status { status, .. } => written = Some(status["loadBalancer"].clone()),
            Intent::Announce(tale) => messages.push(tale.message),
            other => panic!("{other:?}"),
        }
    }
    (written, messages)
}

const OLD: &str = "2027-01-02T00:00:00Z";
const NEW: &str = "2027-01-03T00:00:00Z";

#[test]
fn a_balancer_gives_the_addresses_of_agents_to_the_first_of_a_port() {
    let none = || json!({});
    let n1 = || agent("n1", "v0.1.0-coracle", "192.0.2.1");
    let quiet = |written: Option<Value>| (written, Vec::<String>::new());
    let held = |by: &str| vec![format!("Error syncing load balancer: port 80/TCP of node n1 is held by {by}")];
    let (old, new) = (balanced("a", OLD, &[], none()), balanced("b", NEW, &[], none()));
    let all = [n1(), old.clone(), new.clone()];
    assert_eq!(given(&all, "a"), quiet(Some(ingress(&["192.0.2.1"]))));
    assert_eq!(given(&all, "b"), (None, held("service default/a")), "the port is the older one's");
    assert_eq!(given(&[agent("n1", "v1.36.0", "192.0.2.1"), old], "a"), quiet(None));
    let done = balanced("a", OLD, &["192.0.2.1"], none());
    assert_eq!(given(&[n1(), done.clone()], "a"), quiet(None));
    let older = balanced("0", "2027-01-01T00:00:00Z", &[], none());
    assert_eq!(given(&[n1(), done.clone(), older.clone()], "a"), quiet(None), "it has the port already");
    assert_eq!(given(&[n1(), done.clone(), older], "0"), (None, held("service default/a")));
    let both = [n1(), done, balanced("b", NEW, &["192.0.2.1"], none())];
    assert_eq!(given(&both, "b"), (Some(none()), held("service default/a")), "two of before: the older one has it");
    let elsewhere = balanced("a", OLD, &[], json!({"metadata": {"namespace": "secret"}}));
    let told = (None, held("a service of another namespace"));
    assert_eq!(given(&[n1(), elsewhere, new.clone()], "b"), told, "its users may not read the other namespace");
    let udp = balanced("b", NEW, &[], json!({"spec": {"ports": [{"port": 80, "protocol": "UDP"}]}}));
    assert_eq!(
        given(&[n1(), balanced("a", OLD, &["192.0.2.1"], none()), udp], "b"),
        quiet(Some(ingress(&["192.0.2.1"])))
    );
    let theirs = balanced("a", OLD, &[], json!({"spec": {"loadBalancerClass": "metallb.io/x"}}));
    assert_eq!(given(&[n1(), theirs], "a"), quiet(None));
}

#[test]
fn a_balancer_leaves_host_ports_to_the_pods_that_have_them() {
    let nodes = [agent("n1", "v0.1.0-coracle", "192.0.2.1"), agent("n2", "v0.1.0-coracle", "192.0.2.2")];
    let holds = |node: &str, phase: &str, host: &str| {
        let ports = json!([{"containerPort": 8080, "hostPort": 80, "hostIP": host, "protocol": "TCP"}]);
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i", "ports": ports}]});
        pod("p", json!({"spec": spec, "status": {"phase": phase}}))
    };
    let check =
        |pod: Option<(&'static str, Value)>, standing: &[&str], expected: Option<&[&str]>, troubles: &[&str]| {
            let mut objects = nodes.to_vec();
            objects.extend(pod);
            objects.push(balanced("a", OLD, standing, json!({})));
            let troubles = troubles.iter().map(|by| format!("Error syncing load balancer: {by}")).collect();
            assert_eq!(given(&objects, "a"), (expected.map(ingress), troubles), "{objects:?}");
        };
    let held = "port 80/TCP of node n1 is held by pod default/p";
    check(None, &[], Some(&["192.0.2.1", "192.0.2.2"]), &[]);
    check(Some(holds("n1", "Running", "")), &[], Some(&["192.0.2.2"]), &[held]);
    check(Some(holds("n1", "Running", "127.0.0.1")), &[], Some(&["192.0.2.2"]), &[held]);
    check(Some(holds("n1", "Succeeded", "")), &[], Some(&["192.0.2.1", "192.0.2.2"]), &[]);
    check(Some(holds("", "Pending", "")), &[], Some(&["192.0.2.1", "192.0.2.2"]), &[]);
    // One that somebody put there by hand, or out of a file.
    check(Some(holds("n1", "Running", "")), &["192.0.2.1", "192.0.2.2"], Some(&["192.0.2.2"]), &[held]);
    // The event is told once.
    let mut objects = nodes.to_vec();
    objects.extend([holds("n1", "Running", ""), balanced("a", OLD, &["192.0.2.2"], json!({}))]);
    let (controllers, cluster) = (Controllers::builtin(), cluster(&objects));
    let owner = controllers.owner("balancer", key("services", "a")).unwrap();
    let look = |memo| {
        let (now, key) = (at(MINUTE), &owner.key);
        let look = Look { cluster: &cluster, key, now, refusal: None, contents: None, memory: None, memo };
        (controllers.row(&owner).decide)(&look)
    };
    let first = look(None);
    assert!(matches!(&first.intents[..], [Intent::Announce(_)]), "{first:?}");
    assert_eq!(look(first.memo.as_ref()).intents, []);
}

#[test]
fn a_pod_has_no_port_that_a_service_holds() {
    let asks = || {
        pod(
            "p",
            json!({
                "spec": {
                    "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080, "hostPort": 80}]}],
                },
            }),
        )
    };
    let n1 = || agent("n1", "v0.1.0-coracle", "192.0.2.1");
    let refused = "p: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new \
                   claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for \
                   scheduling.";
    let held = || balanced("a", OLD, &["192.0.2.1"], json!({}));
    assert_eq!(scheduled(&[n1(), held(), asks()]), [refused]);
    assert_eq!(scheduled(&[n1(), balanced("a", OLD, &["192.0.2.9"], json!({})), asks()]), ["p -> n1"]);
    assert_eq!(
        scheduled(&[n1(), balanced("a", OLD, &["192.0.2.1"], json!({"spec": {"type": "ClusterIP"}})), asks()]),
        ["p -> n1"]
    );
    // When the service has gone, it is looked at again.
    let mut cluster = cluster(&[n1(), held(), asks()]);
    let look = |cluster: &Cluster, memo: Option<&Memo>| {
        let controllers = Controllers::builtin();
        let owner = controllers.owner("scheduler", schedule::key()).unwrap();
        let look =
            Look { cluster, key: &owner.key, now: at(MINUTE), refusal: None, contents: None, memory: None, memo };
        (controllers.row(&owner).decide)(&look)
    };
    let waits = look(&cluster, None);
    assert_eq!(look(&cluster, waits.memo.as_ref()).intents, [], "nothing has happened");
    cluster.apply(&event("services", 9, None, "a"), MINUTE);
    let found = look(&cluster, waits.memo.as_ref()).intents;
    assert!(found.iter().any(|intent| matches!(intent, Intent::Bind { node, .. } if node == "n1")), "{found:?}");
}

#[test]
fn a_range_stays_while_a_service_needs_it() {
    let check = |objects: &[(&'static str, Value)], now: Duration, expected: &str| {
        let decision = decide(&cluster(objects), "ranges", key("servicecidrs", "extra"), at(now));
        let said = match &*decision.intents {
            [] => decision.wake_at.map_or(String::new(), |wake_at| format!("later {wake_at:?}")),
            [Intent::Update { object, .. }] => format!("finalizers {}", object["metadata"]["finalizers"]),
            [Intent::Status { status, .. }] => {
                let ready = &status["conditions"][0];
                format!("{} {} {}", ready["type"], ready["status"], ready["reason"]).replace('"', "")
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(said, expected, "{objects:?}");
    };
    let range = |name: &str, cidr: &str, metadata: Value| {
        let mut range = json!({"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"cidrs": [cidr]}});
        merge(&mut range["metadata"], metadata);
        ("servicecidrs", range)
    };
    let extra = |metadata: Value| range("extra", "10.111.0.0/24", metadata);
    check(&[extra(json!({"finalizers": null}))], MINUTE, &format!("finalizers [\"{FINALIZER}\"]"));
    check(&[extra(json!({}))], MINUTE, "Ready True ");
    let ready = |mut range: (&'static str, Value)| {
        range.1["status"] =
            json!({"conditions": [{"type": "Ready", "status": "True", "message": "Kubernetes Service CIDR is ready"}]});
        range
    };
    check(&[ready(extra(json!({})))], MINUTE, "");
    let going = ready(extra(json!({"deletionTimestamp": at(Duration::ZERO).wall.to_string()})));
    let with = |ip: &str| service(json!({"spec": {"clusterIP": ip, "clusterIPs": [ip]}}));
    check(&[going.clone(), with("10.111.0.9")], MINUTE, "Ready False Terminating");
    // Nobody has an address of it: after a while it goes.
    check(&[going.clone(), with("10.96.0.9")], Duration::from_secs(4), "later 10s");
    check(&[going.clone(), with("10.96.0.9")], MINUTE, "finalizers []");
    // Another has it too.
    check(&[going.clone(), with("10.111.0.9"), range("more", "10.111.0.0/16", json!({}))], MINUTE, "finalizers []");
    check(&[going.clone(), with("10.111.0.9"), range("part", "10.111.0.8/30", json!({}))], MINUTE, "finalizers []");
    check(&[going, with("10.111.0.9"), range("part", "10.111.0.128/30", json!({}))], MINUTE, "Ready False Terminating");
}
