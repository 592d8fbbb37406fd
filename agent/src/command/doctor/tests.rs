use super::*;

fn well() -> Readings {
    let engine = Engine {
        version: "docker 20.10".to_owned(),
        root: "/var/lib/docker".to_owned(),
        cgroup_driver: "systemd".to_owned(),
        storage_driver: "overlay2".to_owned(),
        live_restore: true,
        memory_limit: true,
        cpu_quota: true,
        pids_limit: true,
    };
    let docker =
        Chain { table: "ip filter".to_owned(), name: "FORWARD".to_owned(), hook: "forward".to_owned(), drops: false };
    Readings {
        root: true,
        engine_at: "unix:///var/run/docker.sock".to_owned(),
        engine: Ok(engine),
        agent_answers: false,
        disks: vec![("/d".to_owned(), Some(Disk { bytes: 100, free: 50, files: 100, files_free: 50 }))],
        data_dir: None,
        manifest_dir: "/m".to_owned(),
        manifests_writable_by: None,
        manifest_problems: Vec::new(),
        pids_max: Some(1024),
        wall_ms: CLOCK_MS_MIN,
        listen: "127.0.0.1:10250".parse().unwrap(),
        listening: vec!["127.0.0.1:22".parse().unwrap(), "192.168.1.7:10250".parse().unwrap()],
        listening_udp: Vec::new(),
        dns: None,
        host_ports: Vec::new(),
        controllers: ["cpu", "memory", "pids"].map(str::to_owned).to_vec(),
        overlay: true,
        ip_forward: Some(true),
        bridges_are_seen: true,
        routes_open: Vec::new(),
        wires_guarded: Some(true),
        nft: Ok(vec![docker]),
        ip: Ok(()),
        master: MasterHere::Unnamed,
        node: "shop-pc".to_owned(),
        former: Vec::new(),
    }
}

/// Of a host where only this is otherwise: the one finding that is not good.
fn check(change: impl Fn(&mut Readings), about: &str, level: Severity, word: &str) {
    let mut host = well();
    change(&mut host);
    let all = judge(&host);
    let bad: Vec<&Finding> = all.iter().filter(|one| one.level != Severity::Good).collect();
    let [one] = bad.as_slice() else { panic!("{word}: {bad:?}") };
    assert_eq!((one.about, one.level), (about, level), "{one:?}");
    assert!(one.says.contains(word) && !one.mend.is_empty(), "{one:?}");
    assert_eq!(report(&all).well, level == Severity::Warning);
}

fn engine_of(host: &mut Readings) -> &mut Engine {
    host.engine.as_mut().unwrap()
}

#[test]
fn a_good_host_has_nothing_but_good() {
    let all = judge(&well());
    assert!(all.iter().all(|one| one.level == Severity::Good && one.mend.is_empty()), "{all:?}");
    for about in ["engine", "cgroups", "disk", "clock", "ports", "kernel", "firewall", "master"] {
        assert!(all.iter().any(|one| one.about == about), "{about} is told, also where it is well");
    }
    assert!(report(&all).well);
}

#[test]
fn each_check_is_made_true() {
    use Severity::{Problem, Warning};
    check(|host| host.root = false, "user", Warning, "not root");
    check(|host| host.former.push("vm".to_owned()), "node", Warning, "was node vm before");
    check(|host| host.engine = Err("refused".to_owned()), "engine", Problem, "does not answer: refused");
    check(|host| engine_of(host).storage_driver = "vfs".to_owned(), "engine", Warning, "vfs");
    check(|host| engine_of(host).live_restore = false, "engine", Warning, "live-restore");
    check(|host| engine_of(host).memory_limit = false, "cgroups", Problem, "memory");
    check(|host| host.controllers.retain(|one| one != "memory"), "cgroups", Problem, "memory");
    check(|host| engine_of(host).cpu_quota = false, "cgroups", Warning, "CPU");
    check(|host| engine_of(host).pids_limit = false, "cgroups", Warning, "processes");
    let disk = |free, files_free| vec![("/d".to_owned(), Some(Disk { bytes: 100, free, files: 100, files_free }))];
    check(|host| host.disks = disk(4, 50), "disk", Problem, "/d: 4 % is free: new images are refused");
    check(|host| host.disks = disk(50, 4), "disk", Problem, "4 % of its inodes");
    check(|host| host.disks = disk(14, 50), "disk", Warning, "14 %");
    check(|host| host.disks = vec![("/d".to_owned(), None)], "disk", Warning, "cannot be looked at");
    check(|host| host.data_dir = Some("/d is open".to_owned()), "data directory", Problem, "/d is open");
    check(|host| host.manifests_writable_by = Some("everybody".to_owned()), "manifests", Problem, "everybody");
    check(|host| host.manifest_problems = vec!["a.yaml: no".to_owned()], "manifests", Problem, "a.yaml");
    check(|host| host.pids_max = None, "cgroups", Warning, "fork bomb");
    check(|host| host.wall_ms = 0, "clock", Warning, "before this program");
    check(|host| host.listening.push("0.0.0.0:10250".parse().unwrap()), "ports", Problem, "10250 is taken");
    check(|host| host.listening.push(host.listen), "ports", Problem, "10250 is taken");
    check(|host| host.overlay = false, "kernel", Warning, "overlay");
    check(|host| host.ip_forward = Some(false), "kernel", Problem, "forwards no packets");
    check(|host| host.bridges_are_seen = false, "kernel", Warning, "between pods");
    let open = |host: &mut Readings| host.routes_open = vec!["net.ipv6.conf.coracle0.accept_ra=0".to_owned()];
    check(open, "kernel", Problem, "can change routes");
    check(|host| host.wires_guarded = Some(false), "kernel", Warning, "addresses of others");
    check(|host| host.nft = Err("not found".to_owned()), "firewall", Problem, "nft cannot be run");
    check(|host| host.ip = Err("not found".to_owned()), "firewall", Problem, "ip cannot be run");
    let chain_of = |table: &str, hook: &str| Chain {
        table: table.to_owned(),
        name: "F".to_owned(),
        hook: hook.to_owned(),
        drops: true,
    };
    let chain = |hook: &str| chain_of("inet firewalld", hook);
    check(|host| host.nft = Ok(vec![chain_of("ip filter", "input")]), "firewall", Warning, "table ip filter, chain F");
    let runs = |host: &mut Readings| {
        host.agent_answers = true;
        host.nft = Ok(vec![chain_of("ip filter", "forward")]);
    };
    check(runs, "firewall", Problem, "table ip filter, chain F");
    check(|host| host.nft = Ok(vec![chain("forward")]), "firewall", Problem, "table inet firewalld, chain F");
    check(|host| host.nft = Ok(vec![chain("input")]), "firewall", Warning, "names and node ports");
    check(
        |host| host.master = MasterHere::Silent { at: "/m.sock".to_owned(), why: "gone".to_owned() },
        "master",
        Problem,
        "/m.sock does not answer: gone",
    );
}

#[test]
fn an_agent_without_a_master_is_whole() {
    let at = || "/m.sock".to_owned();
    for master in [MasterHere::Unnamed, MasterHere::NotInstalled { at: at() }, MasterHere::Answers { at: at() }] {
        let all = judge(&Readings { master: master.clone(), ..well() });
        assert!(all.iter().all(|one| one.level == Severity::Good), "{master:?}: {all:?}");
        assert!(all.iter().any(|one| one.about == "master"), "{master:?}");
    }
}

/// The agent has its ports also while its engine does not answer, and nobody knows which pods run.
#[test]
fn a_stopped_engine_is_the_one_problem() {
    let check = |dns: &[&str]| {
        let mut host = well();
        host.engine = Err("refused".to_owned());
        (host.agent_answers, host.dns) = (true, Some("10.96.0.10".parse().unwrap()));
        host.listening.extend([host.listen, "0.0.0.0:80".parse().unwrap()]);
        host.listening.extend(dns.iter().map(|text| text.parse::<SocketAddr>().unwrap()));
        host.listening_udp.extend(dns.iter().map(|text| text.parse::<SocketAddr>().unwrap()));
        let (protocol, host_ip) = ("tcp".to_owned(), String::new());
        let wanted =
            HostPort { pod: "default/web".to_owned(), port: 80, protocol, host_ip, by_rule: false, runs: false };
        host.host_ports = vec![wanted];
        let bad: Vec<_> = judge(&host).into_iter().filter(|one| one.level != Severity::Good).collect();
        assert_eq!(bad.iter().map(|one| one.about).collect::<Vec<_>>(), ["engine"], "{bad:?}");
    };
    check(&["10.96.0.10:53"]);
    check(&[]);
}

#[test]
fn an_agent_that_answers_has_its_port() {
    let mut host = well();
    host.agent_answers = true;
    host.listening.push(host.listen);
    assert!(report(&judge(&host)).well);
}

/// What ufw drops of IPv6 is no pod's; what iptables drops is opened by the agent when it runs, or has been opened.
#[test]
fn chains_that_are_in_nobodys_way() {
    for (table, hook, drops) in
        [("ip6 filter", "input", true), ("ip filter", "forward", true), ("ip filter", "input", false)]
    {
        let mut host = well();
        host.nft = Ok(vec![Chain { table: table.to_owned(), name: "X".to_owned(), hook: hook.to_owned(), drops }]);
        assert!(judge(&host).iter().all(|one| one.level == Severity::Good), "{table} {hook}");
    }
}

#[test]
fn names_are_answered_on_their_port() {
    let socket = |text: &str| text.parse::<SocketAddr>().unwrap();
    let dns = |agent: bool, sockets: &[&str]| {
        let mut host = well();
        host.agent_answers = agent;
        host.dns = Some("10.96.0.10".parse().unwrap());
        host.listening.extend(sockets.iter().map(|text| socket(text)));
        host.listening_udp.extend(sockets.iter().map(|text| socket(text)));
        let bad: Vec<String> =
            judge(&host).into_iter().filter(|one| one.level != Severity::Good).map(|one| one.says).collect();
        bad.join(", ")
    };
    assert_eq!(dns(true, &["10.96.0.10:53", "0.0.0.0:53"]), "");
    assert_eq!(dns(false, &["127.0.0.53:53"]), "");
    assert_eq!(dns(false, &["0.0.0.0:53"]), "port 53 is taken on every address: pods get no names at 10.96.0.10:53");
    assert_eq!(dns(true, &["[::]:53"]), "port 53 is taken on every address: pods get no names at 10.96.0.10:53");
    assert_eq!(dns(false, &["10.96.0.10:53"]), "10.96.0.10:53 is taken, and not by this agent");
    assert_eq!(dns(true, &[]), "the agent runs, and nobody answers pods' questions for names at 10.96.0.10:53");
}

#[test]
fn ports_that_pods_ask_for() {
    let check = |wanted: HostPort, listens: &str, expected: Option<Severity>| {
        let mut host = well();
        let sockets = if wanted.protocol == "udp" { &mut host.listening_udp } else { &mut host.listening };
        sockets.push(listens.parse().unwrap());
        host.host_ports = vec![wanted.clone()];
        let bad: Vec<Finding> = judge(&host).into_iter().filter(|one| one.level != Severity::Good).collect();
        assert_eq!(bad.first().map(|one| one.level), expected, "{wanted:?} {listens}");
        assert!(bad.iter().all(|one| one.says.contains("default/web") && one.mend.contains(":80`")), "{bad:?}");
    };
    let (pod, protocol, host_ip) = ("default/web".to_owned(), "tcp".to_owned(), String::new());
    let wanted = HostPort { pod, port: 80, protocol, host_ip, by_rule: false, runs: false };
    check(wanted.clone(), "0.0.0.0:80", Some(Severity::Problem));
    check(wanted.clone(), "127.0.0.1:81", None);
    check(HostPort { runs: true, ..wanted.clone() }, "0.0.0.0:80", None);
    check(HostPort { by_rule: true, runs: true, ..wanted.clone() }, "0.0.0.0:80", Some(Severity::Warning));
    check(HostPort { host_ip: "192.168.1.7".to_owned(), ..wanted.clone() }, "127.0.0.1:80", None);
    check(HostPort { protocol: "udp".to_owned(), ..wanted }, "[::]:80", Some(Severity::Problem));
}
