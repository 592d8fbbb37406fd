//! Addresses of services, and those that a balancer gives them.

use super::*;
use coracle_api::strategy::addresses::FINALIZER;

#[test]
fn an_address_is_shown_while_a_service_has_it() {
    let shown =
        |objects: &[(&'static str, Value)]| decide(&cluster(objects), "addresses", key("ipaddresses", "10.96.0.7"), at(MINUTE)).intents;
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

#[test]
fn a_balancer_gives_the_addresses_of_agents_to_the_first_of_a_port() {
    let agent = |version: &str| {
        node(
            "n1",
            json!({"status": {"nodeInfo": {"kubeletVersion": version}, "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}),
        )
    };
    let wants = |name: &str, made: &str, more: Value| {
        let metadata = json!({"name": name, "creationTimestamp": made});
        let mut wants = service(json!({"metadata": metadata, "spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {}}}));
        merge(&mut wants.1, more);
        wants
    };
    let given = |objects: &[(&'static str, Value)], name: &str| {
        let intents = decide(&cluster(objects), "balancer", key("services", name), at(MINUTE)).intents;
        intents
            .iter()
            .map(|intent| match intent {
                Intent::Status { status, .. } => status["loadBalancer"].clone(),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let (old, new) = (wants("a", "2027-01-02T00:00:00Z", json!({})), wants("b", "2027-01-03T00:00:00Z", json!({})));
    let ours = json!({"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]});
    let all = [agent("v0.1.0-coracle"), old.clone(), new];
    assert_eq!(given(&all, "a"), [ours.clone()]);
    assert_eq!(given(&all, "b"), Vec::<Value>::new(), "the port is the older one's");
    assert_eq!(given(&[agent("v1.36.0"), old.clone()], "a"), Vec::<Value>::new());
    let done = wants("a", "2027-01-02T00:00:00Z", json!({"status": {"loadBalancer": ours}}));
    assert_eq!(given(&[agent("v0.1.0-coracle"), done.clone()], "a"), Vec::<Value>::new());
    let older = wants("0", "2027-01-01T00:00:00Z", json!({}));
    assert_eq!(given(&[agent("v0.1.0-coracle"), done, older], "a"), [json!({})]);
    let theirs = wants("a", "2027-01-02T00:00:00Z", json!({"spec": {"loadBalancerClass": "metallb.io/x"}}));
    assert_eq!(given(&[agent("v0.1.0-coracle"), theirs], "a"), Vec::<Value>::new());
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
        range.1["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "message": "Kubernetes Service CIDR is ready"}]});
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
