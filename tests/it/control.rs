//! The controllers against random histories: clients, agents, silences, restarts that lose what is volatile, damaged
//! files. Then quiet, and everything is as it was asked for, and stays so.
//!
//!     CORACLE_SEED=17        this history alone
//!     CORACLE_HISTORIES=5000 so many

mod bed;
mod budgets;
mod checks;
mod load;
mod made_up;
mod rollouts;

use bed::{Bed, Random, ZONE};
use coracle_api::meta::Key;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Histories of an ordinary run, in this order of seeds.
const HISTORIES: u64 = 400;
const OPERATIONS_MAX: u64 = 40;
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CONTROLLERS: [&str; 4] = ["web", "web-2", "Old_Web", "db"];
const SERVICES: [&str; 3] = ["web", "db", "named"];
const APPS: [&str; 3] = ["web", "db", "other"];

#[test]
fn random_histories_settle() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("CORACLE_SEED") {
        return history(seed, true);
    }
    let histories = number("CORACLE_HISTORIES").unwrap_or(HISTORIES);
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= histories {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| history(seed, false))).is_err() {
                next.store(histories, Ordering::Relaxed);
                panic!("run this history alone: CORACLE_SEED={seed} make some WORDS=control::");
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().expect("a history failed; its seed stands above");
        }
    });
}

/// More wakes than the queue holds: what was left out is read from the store.
#[test]
fn a_full_queue_loses_nothing() {
    let mut bed = Bed::new(1, false);
    bed.speaking.insert("n1".to_owned());
    bed.agents();
    bed.step();
    for _ in 0..30_000 {
        bed.controllers().wakes().hear(&bed::key("nodes", "n1"));
    }
    make_controller(&mut bed);
    make_service(&mut bed);
    bed.settle();
    checks::all_is_well(&bed, true);
    assert!(!bed.objects("services").is_empty() && !bed.objects("replicationcontrollers").is_empty());
}

#[test]
fn a_bound_pod_gets_the_zone_of_its_node() {
    let mut bed = Bed::new(1, false);
    bed.speaking.insert("n1".to_owned());
    bed.agents();
    bed.create("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    bed.settle();
    let pods = bed.objects("pods");
    assert!(
        pods.iter().any(|(_, pod)| pod["spec"]["nodeName"] == "n1" && pod["metadata"]["labels"][ZONE] == "n1"),
        "{pods:?}"
    );
}

fn history(seed: u64, verbose: bool) {
    let mut bed = Bed::new(seed, verbose);
    for _ in 0..10 + bed.random.below(OPERATIONS_MAX - 10) {
        operation(&mut bed);
    }
    bed.settle();
    checks::all_is_well(&bed, false);
    bed.heal(&NODES);
    bed.settle();
    checks::all_is_well(&bed, true);
    // A restart that loses all that is volatile changes nothing, and what beats writes nothing.
    let before = checks::picture(&bed);
    bed.crash();
    for seconds in [0, 20] {
        // The controllers are up before any agent has spoken.
        bed.pass(seconds);
        bed.step();
    }
    bed.settle();
    checks::all_is_well(&bed, true);
    assert_eq!(checks::picture(&bed), before, "a restart changed something");
    let revision = bed.store().revision();
    bed.settle();
    assert_eq!(bed.store().revision(), revision, "a converged cluster writes nothing");
    for _ in 0..3 {
        budgets::ask(&mut bed);
    }
    bed.settle();
    checks::all_is_well(&bed, true);
    budgets::drain(&mut bed);
    bed.settle();
    checks::all_is_well(&bed, true);
}

fn operation(bed: &mut Bed) {
    let what = bed.random.below(31);
    match what {
        0..3 => make_controller(bed),
        3..5 => {
            let replicas = bed.random.below(5);
            let name = bed.random.pick(&CONTROLLERS);
            bed.change("replicationcontrollers", name, |controller| controller["spec"]["replicas"] = replicas.into());
        }
        5 => {
            let name = bed.random.pick(&CONTROLLERS);
            if bed.random.chance(2) {
                bed.change("replicationcontrollers", name, |rc| {
                    rc["metadata"]["finalizers"] = json!(["foregroundDeletion"])
                });
            }
            bed.delete("replicationcontrollers", name, None);
        }
        6..8 => make_pod(bed),
        8..10 => {
            if let Some(key) = a_pod(bed) {
                let grace = bed.random.chance(3).then_some(0);
                bed.bare.remove(&key.name);
                bed.delete("pods", &key.name, grace);
            }
        }
        10 => {
            if let Some(key) = a_pod(bed).filter(|key| !key.name.starts_with("bare")) {
                let app = bed.random.pick(&APPS);
                bed.change("pods", &key.name, |pod| pod["metadata"]["labels"] = json!({"app": app}));
            }
        }
        11..14 => make_service(bed),
        14 => {
            let name = bed.random.pick(&SERVICES);
            bed.delete("services", name, None);
            if bed.random.chance(2) {
                make_service(bed);
            }
        }
        15 => {
            let name = bed.random.pick(&SERVICES);
            let by_hand = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]);
            bed.create("endpoints", json!({"metadata": {"name": name}, "subsets": by_hand}));
        }
        16..19 => {
            let node = bed.random.pick(&NODES);
            bed.speaking.insert(node.to_owned());
        }
        19 => {
            let node = bed.random.pick(&NODES);
            bed.silence(node);
        }
        20 => {
            let node = bed.random.pick(&NODES);
            bed.delete_node(node);
        }
        21 => {
            let (node, cordoned) = (bed.random.pick(&NODES), bed.random.chance(2));
            bed.change("nodes", node, |node| node["spec"]["unschedulable"] = cordoned.into());
        }
        22 => {
            // The agent gives a pod up.
            if let Some(key) = a_pod(bed).filter(|key| !key.name.starts_with("bare")) {
                bed.fail(&key);
            }
        }
        23 => bed.crash(),
        24 => bed.crash_with_damage(),
        25..27 => budgets::ask(bed),
        27..29 => budgets::evict_one(bed),
        _ => {
            let seconds = bed.random.below(60);
            bed.pass(seconds);
        }
    }
    if bed.random.chance(2) {
        bed.agents();
    }
    for _ in 0..bed.random.below(3) {
        bed.step();
    }
}

fn make_controller(bed: &mut Bed) {
    let (name, app, replicas) = (bed.random.pick(&CONTROLLERS), bed.random.pick(&APPS), bed.random.below(5));
    let container = container(bed);
    let template = json!({
        "metadata": {"labels": {"app": app, "tier": "x"}, "annotations": {"coracle.dev/creation-token": "one"},
            "name": "Manifest_Id"},
        "spec": {"containers": [container]},
    });
    let selector = if bed.random.chance(2) { json!({"app": app}) } else { json!({"app": app, "tier": "x"}) };
    bed.create(
        "replicationcontrollers",
        json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}),
    );
}

fn container(bed: &mut Bed) -> Value {
    let mut container =
        json!({"name": "c", "image": "i", "ports": [{"name": "www", "containerPort": 80 + bed.random.below(2)}]});
    if bed.random.chance(4) {
        container["ports"][0]["hostPort"] = (8000 + bed.random.below(2)).into();
    }
    if bed.random.chance(4) {
        container["resources"] = json!({"requests": {"cpu": "300m", "memory": "64Mi"}});
    }
    container
}

fn make_pod(bed: &mut Bed) {
    let container = container(bed);
    let nth = bed.random.below(4);
    let mut pod = json!({
        "metadata": {"name": format!("bare-{nth}"), "labels": {"app": "bare"}}, "spec": {"containers": [container]},
    });
    match bed.random.below(6) {
        // For a controller to adopt.
        0 | 1 => pod["metadata"] = json!({"name": format!("free-{nth}"), "labels": {"app": bed.random.pick(&APPS)}}),
        // Put by hand on a node that may not be there yet.
        2 => {
            pod["spec"]["nodeName"] = bed.random.pick(&NODES).into();
            pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        3 => pod["spec"]["nodeSelector"] = json!({"zone": bed.random.pick(&NODES)}),
        _ => {}
    }
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // A pod of a node that does not come is given up.
    let doomed = !pod["spec"]["nodeName"].is_null();
    if bed.create("pods", pod) && name.starts_with("bare") && !doomed {
        bed.bare.insert(name);
    }
}

fn make_service(bed: &mut Bed) {
    let name = bed.random.pick(&SERVICES);
    let app = bed.random.pick(&APPS);
    let target = if name == "named" { json!("www") } else { json!(80) };
    let mut spec = json!({"ports": [{"port": 80, "targetPort": target}], "selector": {"app": app}});
    match bed.random.below(6) {
        0 => {
            spec.as_object_mut().expect("an object").remove("selector");
        }
        1 => spec = json!({"type": "ExternalName", "externalName": "example.org", "selector": {"app": app}}),
        _ => {}
    }
    if !bed.create("services", json!({"metadata": {"name": name}, "spec": spec})) {
        bed.change("services", name, |service| service["spec"]["selector"] = json!({"app": app}));
    }
}

fn a_pod(bed: &mut Bed) -> Option<Key> {
    let pods: Vec<Key> = bed.objects("pods").into_iter().map(|(key, _)| key).collect();
    (!pods.is_empty()).then(|| pods[bed.random.below(pods.len() as u64) as usize].clone())
}

impl Random {
    /// One in `n`.
    fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick(&mut self, all: &[&'static str]) -> &'static str {
        all[self.below(all.len() as u64) as usize]
    }
}
