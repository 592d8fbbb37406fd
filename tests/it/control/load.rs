//! What one change costs: the keys looked at and the writes are those of the workload that is changed, however much
//! stands beside it.
//!
//!     CORACLE_DEPLOYMENTS=500       beside so many; with --nocapture the figures are printed

use super::bed::Bed;
use coracle_master::control::Effort;
use serde_json::{Value, json};
use std::time::Duration;

/// So many deployments of ten pods, on fifty nodes: enough to tell what grows with the cluster.
const DEPLOYMENTS: u64 = 40;
const REPLICAS: u64 = 10;
const NODES: usize = 50;
const CHANGED: &str = "web-0001";
/// Seconds in which all is done: less than a node may be silent.
const ROUNDS: u64 = 20;

#[test]
fn one_change_costs_what_its_workload_is() {
    let many = std::env::var("CORACLE_DEPLOYMENTS").map_or(DEPLOYMENTS, |text| text.parse().expect("a number"));
    let (small, of_small) = cost(2);
    let (large, of_large) = cost(many);
    println!("2 deployments: {small:?}, {of_small:?} of CPU; {many} deployments: {large:?}, {of_large:?} of CPU");
    assert!(small.intents > 0 && small.looks > 0, "{small:?}");
    // Which of the pods are seen together differs by a few: looks of the scheduler, of slices, of nodes.
    let alike = |small: u64, large: u64| large <= small + small / 5;
    assert!(alike(small.looks, large.looks), "{small:?} beside one deployment, {large:?} beside {many}");
    assert!(alike(small.intents, large.intents), "{small:?} beside one deployment, {large:?} beside {many}");
}

/// One image is changed, and all is rolled out.
fn cost(deployments: u64) -> (Effort, Duration) {
    let mut bed = Bed::new(1, false);
    bed.healthy = true;
    bed.roomy = true;
    bed.speaking.extend((0..NODES).map(|nth| format!("n{nth:02}")));
    for nth in 0..deployments {
        let name = format!("web-{nth:04}");
        assert!(bed.create("deployments", deployment(&name)) && bed.create("services", service(&name)));
        assert!(bed.create("poddisruptionbudgets", budget(&name)));
    }
    bed.work(3 * ROUNDS);
    let pods = bed.objects("pods");
    assert_eq!(pods.len() as u64, deployments * REPLICAS);
    assert!(pods.iter().all(|(_, pod)| !pod["spec"]["nodeName"].is_null()), "all have a node");
    let before = bed.controllers().effort();
    bed.change("deployments", CHANGED, |web| web["spec"]["template"]["spec"]["containers"][0]["image"] = "a:2".into());
    let took = bed.work(ROUNDS);
    let after = bed.controllers().effort();
    let new = |(_, pod): &&(_, Value)| pod["spec"]["containers"][0]["image"] == "a:2";
    assert_eq!(bed.objects("pods").iter().filter(new).count() as u64, REPLICAS);
    let (looks, intents) = (after.looks - before.looks, after.intents - before.intents);
    (Effort { looks, intents, ..after }, took)
}

fn deployment(name: &str) -> Value {
    let container = json!({"name": "c", "image": "a:1", "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}});
    let template = json!({"metadata": {"labels": {"app": name, "tier": "web"}}, "spec": {"containers": [container]}});
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

/// Without an address: the range of the bed is small.
fn service(name: &str) -> Value {
    let spec = json!({"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn budget(name: &str) -> Value {
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}
