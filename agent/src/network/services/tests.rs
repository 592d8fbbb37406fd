use serde_json::{Value, json};

use super::*;

fn here() -> RuleHost {
    RuleHost {
        node: "n1".into(),
        zone: String::new(),
        pod_cidr: "10.244.0.0/24".into(),
        bridges_are_seen: true,
        outer: Outer { allowed: vec![Cidr::parse("192.0.2.0/24").unwrap()], ..Outer::default() },
    }
}

fn service(name: &str, spec: Value) -> Arc<Service> {
    let status = spec["status"].clone();
    let status = if status.is_null() { json!({}) } else { status };
    Arc::new(
        Service::read(&json!({"metadata": {"namespace": "default", "name": name}, "spec": spec, "status": status}))
            .unwrap(),
    )
}

fn slice(service: &str, endpoints: Value, ports: Value) -> Arc<EndpointSlice> {
    let labels = json!({"kubernetes.io/service-name": service});
    let metadata = json!({"namespace": "default", "name": format!("{service}-x"), "labels": labels});
    Arc::new(EndpointSlice::read(&json!({"metadata": metadata, "endpoints": endpoints, "ports": ports})).unwrap())
}

fn of(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>], served: Option<IpAddr>) -> KernelRules {
    rules(&group::grouped(services, slices), &here(), served, &mut Pieces::default())
}

fn all() -> (Vec<Arc<Service>>, Vec<Arc<EndpointSlice>>) {
    let http = json!([{"port": 80, "protocol": "TCP"}]);
    let services = vec![
        service(
            "web",
            json!({"clusterIP": "10.96.0.10", "type": "NodePort",
                "ports": [{"port": 80, "name": "http", "nodePort": 30080}, {"port": 443, "name": "https"}]}),
        ),
        service(
            "empty",
            json!({"clusterIP": "10.96.0.11", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30081}]}),
        ),
        service(
            "dns",
            json!({
                "clusterIP": "10.96.0.12", "ports": [{"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "SCTP"}],
            }),
        ),
        service(
            "sticky",
            json!({"clusterIP": "10.96.0.13", "sessionAffinity": "ClientIP", "ports": http,
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}),
        ),
        service("headless", json!({"clusterIP": "None", "ports": http})),
        service(
            "local",
            json!({"clusterIP": "10.96.0.14", "type": "LoadBalancer", "externalTrafficPolicy": "Local",
                "externalIPs": ["192.0.2.9"],
                "loadBalancerSourceRanges": ["192.0.2.0/24"], "ports": [{"port": 80, "nodePort": 30082}],
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}}}),
        ),
        service("away", json!({"clusterIP": "10.96.0.15", "internalTrafficPolicy": "Local", "ports": http})),
        service("ending", json!({"clusterIP": "10.96.0.16", "ports": http})),
    ];
    let ending = json!({"ready": false, "serving": true, "terminating": true});
    let slices = vec![
        slice(
            "web",
            json!([{"addresses": ["10.244.0.3"], "nodeName": "n1"}, {"addresses": ["10.244.0.2"], "nodeName": "n1"},
                {"addresses": ["10.244.0.9"], "conditions": {"ready": false}},
                {"addresses": ["10.244.0.8"], "conditions": ending}]),
            json!([{"name": "http", "port": 8080}, {"name": "other", "port": 1}]),
        ),
        slice("web", json!([{"addresses": ["10.244.0.2"]}]), json!([{"name": "https", "port": 8443}])),
        slice("dns", json!([{"addresses": ["10.244.0.4"]}]), json!([{"port": 53, "protocol": "UDP"}])),
        slice("sticky", json!([{"addresses": ["10.244.0.2"]}, {"addresses": ["10.244.0.3"]}]), json!([{"port": 80}])),
        slice(
            "local",
            json!([{"addresses": ["10.244.0.2"], "nodeName": "n1"}, {"addresses": ["10.244.1.2"], "nodeName": "n2"}]),
            json!([{"port": 80}]),
        ),
        slice("away", json!([{"addresses": ["10.244.1.2"], "nodeName": "n2"}]), json!([{"port": 80}])),
        slice("ending", json!([{"addresses": ["10.244.0.8"], "conditions": ending}]), json!([{"port": 80}])),
    ];
    (services, slices)
}

#[test]
fn the_table_is_as_recorded() {
    let (services, slices) = all();
    let rules = of(&services, &slices, None);
    let script = script(&rules.parts, &here());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/golden/services.nft");
    if std::env::var_os("COR_GOLDEN").is_some() {
        std::fs::write(file, &script).unwrap();
    }
    assert_eq!(script, std::fs::read_to_string(file).unwrap());
    assert_eq!(rules.parts.len(), 7);
    let refused: Vec<String> = rules.refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        refused,
        ["service default/dns: spec.ports[1].protocol SCTP is not supported by this version of the agent"]
    );
    let flows = &rules.parts.iter().find(|part| part.name == "dns").unwrap().flows;
    assert_eq!(
        *flows,
        BTreeMap::from([(
            (Some(IpAddr::from([10, 96, 0, 12])), 53),
            BTreeSet::from([(IpAddr::from([10, 244, 0, 4]), 53)])
        )])
    );
}

#[test]
fn what_is_not_served_outside_is_told() {
    let ports = json!([{"port": 22}, {"port": 53, "protocol": "UDP"}]);
    let taker = service(
        "taker",
        json!({"clusterIP": "10.96.0.10", "ports": ports, "externalIPs":
        ["192.0.2.9", "8.8.8.8", "10.244.0.1", "10.96.0.10"]}),
    );
    let balanced = service(
        "balanced",
        json!({"clusterIP": "10.96.0.11", "type": "LoadBalancer", "ports": [{"port": 22}],
        "status": {"loadBalancer": {"ingress": [{"ip": "192.168.0.2"}, {"ip": "192.168.0.3"}]}}}),
    );
    let services = [taker, balanced];
    let mut here = here();
    let listening = crate::network::host_ports::Listening { tcp: vec!["0.0.0.0:22".parse().unwrap()], udp: Vec::new() };
    let mut pieces = Pieces::default();
    let mut of = |local: &[&str], node: Option<&str>| {
        let local: Vec<IpAddr> = local.iter().map(|text| text.parse().unwrap()).collect();
        let taken = outer::taken(&outer::asked_here(&services, &local), &listening);
        here.outer.look(&services, None, node.map(|text| text.parse().unwrap()), taken);
        let rules = rules(&group::grouped(&services, &[]), &here, None, &mut pieces);
        let refused: Vec<String> = rules
            .refused
            .iter()
            .map(|one| {
                format!(
                    "{} {}",
                    one.reason,
                    one.what.replace(" (a network such as 192.168.1.240/28, for whoever may write services)", "")
                )
            })
            .collect();
        let script = script(&rules.parts, &here);
        (refused, ["192.0.2.9", "8.8.8.8", "10.244.0.1 ", "192.168.0.2", "192.168.0.3"].map(|at| script.contains(at)))
    };
    let told = |refused: Vec<String>| refused.join("\n");
    let (refused, served) = of(&[], None);
    assert_eq!(served, [true, false, false, false, false]);
    let not = "is not served on this host: external-ips in agent.conf does not name it";
    let cluster = "is not served on this host: it is an address of pods or of a service";
    assert_eq!(
        told(refused),
        told(vec![
            format!("ExternalIPNotServed status.loadBalancer.ingress 192.168.0.2 (and 1 more) {not}"),
            // The configuration of this test names neither, so leave is what they lack first.
            format!("ExternalIPNotServed spec.externalIPs 10.244.0.1 (and 2 more) {not}"),
        ])
    );
    // This node's own address is what the balancer gives; a program has the port there.
    let listens = "is not served on this host: a program of this host listens at 0.0.0.0:22 (`ss -lntup` says which \
                   program; end it, or give the service another port)";
    let (refused, served) = of(&["192.168.0.2", "192.0.2.9"], Some("192.168.0.2"));
    assert_eq!(served, [true, false, false, false, false], "192.0.2.9 for UDP alone");
    assert_eq!(
        told(refused),
        told(vec![
            format!("PortTaken status.loadBalancer.ingress 192.168.0.2:22/TCP {listens}"),
            format!("ExternalIPNotServed spec.externalIPs 10.244.0.1 (and 2 more) {not}"),
            format!("PortTaken spec.externalIPs 192.0.2.9:22/TCP {listens}"),
        ])
    );
    let (_, served) = of(&["192.0.2.9"], Some("192.168.0.2"));
    assert_eq!(served, [true, false, false, true, false], "nobody listens there");
    here.outer.allowed = vec![Cidr::parse("0.0.0.0/0").unwrap()];
    here.outer.look(&services, None, None, BTreeSet::new());
    let rules = rules(&group::grouped(&services, &[]), &here, None, &mut Pieces::default());
    let refused: Vec<String> = rules.refused.iter().map(|one| one.what.clone()).collect();
    assert_eq!(refused, [format!("spec.externalIPs 10.244.0.1 (and 1 more) {cluster}")]);
}

#[test]
fn a_change_writes_what_changed() {
    let (services, slices) = all();
    let before = of(&services, &slices, None).parts;
    assert_eq!(change(&before, &before), "");
    // One endpoint less of one service.
    let mut fewer = slices.clone();
    fewer[3] = slice("sticky", json!([{"addresses": ["10.244.0.2"]}]), json!([{"port": 80}]));
    let after = of(&services, &fewer, None).parts;
    let script = change(&before, &after);
    assert!(
        script.contains("flush chain")
            && script.contains("delete set ip coracle aff_")
            && !script.contains("default/web"),
        "{script}"
    );
    assert_eq!(script.matches("delete chain").count(), 1, "{script}");
}

#[test]
fn what_the_agent_serves_itself_is_not_refused() {
    let own = service("kube-dns", json!({"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]}));
    let served = Some("10.96.0.10".parse().unwrap());
    assert_eq!(of(std::slice::from_ref(&own), &[], served).parts, Vec::new());
    let theirs = slice("kube-dns", json!([{"addresses": ["10.244.0.4"]}]), json!([{"port": 53, "protocol": "UDP"}]));
    assert_eq!(of(&[own], &[theirs], served).parts.len(), 1);
}

#[test]
fn the_nearer_ones_where_all_say_whom_they_are_for() {
    let endpoint =
        |ip: &str, node: &str| json!({"addresses": [ip], "nodeName": node, "hints": {"forNodes": [{"name": node}]}});
    let port = ServicePort { port: 80, ..ServicePort::default() };
    let of = |endpoints: Value| {
        let found = ends(&port, &[slice("x", endpoints, json!([{"port": 80}]))], &here()).cluster;
        found.into_iter().map(|(ip, _)| ip.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of(json!([endpoint("10.0.0.1", "n1"), endpoint("10.0.0.2", "n2")])), ["10.0.0.1"]);
    assert_eq!(of(json!([endpoint("10.0.0.1", "n1"), {"addresses": ["10.0.0.2"]}])), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(of(json!([endpoint("10.0.0.3", "n3"), endpoint("10.0.0.2", "n2")])), ["10.0.0.2", "10.0.0.3"]);
}

/// A service of 3,000 ports and 1,000 endpoints would be three million elements in the kernel.
#[test]
fn ports_times_endpoints_have_a_bound() {
    let of_size = |name: String, number: usize, ports: usize, ends: usize| {
        let named = |port: usize| json!({"name": format!("p{port}"), "port": port + 1, "protocol": "TCP"});
        let ports: Vec<Value> = (0..ports).map(named).collect();
        let address = |end: usize| json!({"addresses": [format!("10.244.{}.{}", end / 250, end % 250 + 1)]});
        let ends: Vec<Value> = (0..ends).map(address).collect();
        let ip = format!("10.96.{}.{}", number / 250, number % 250 + 1);
        (service(&name, json!({"clusterIP": ip, "ports": ports})), slice(&name, json!(ends), json!(ports)))
    };
    for (ports, ends, backends, told) in [
        (2, 1_024, 2_048, vec![]),
        (3, 1_000, 2_000, vec!["its last 1 ports lead nowhere"]),
        (1, 2_049, 0, vec!["its last 1 ports lead nowhere"]),
        (1_000, 1_000, 2_000, vec!["its last 998 ports lead nowhere"]),
    ] {
        let (service, slice) = of_size("big".to_owned(), 0, ports, ends);
        let rules = of(&[service], &[slice], None);
        assert_eq!(rules.parts[0].backends, backends, "{ports} {ends}");
        let refused: Vec<&str> = rules.refused.iter().map(|one| one.what.rsplit_once(": ").unwrap().1).collect();
        assert_eq!(refused, told, "{ports} {ends}");
    }
    let (services, slices): (Vec<_>, Vec<_>) = (0..10).map(|n| of_size(format!("s{n}"), n, 2, 1_000)).unzip();
    let rules = of(&services, &slices, None);
    let names: Vec<&str> = rules.refused.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((rules.parts.len(), names), (10, vec!["s8", "s9"]));
    // The addresses of the others are in the table, so that a connection is refused and does not leave the host.
    let text = script(&rules.parts, &rules.here);
    assert!(text.contains("10.96.0.9") && text.contains("10.96.0.10"), "{text}");
    assert!(!text.contains("10.96.0.9 ."), "{text}");
}
