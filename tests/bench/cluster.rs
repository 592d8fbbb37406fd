//! The master of a cluster: fifty simulated nodes, and what a change costs where much stands beside it.
//!
//! CLUSTER_DEPLOYMENTS, CLUSTER_WAIT_S: other numbers than those of the promise.

use crate::bed::{Bed, Engine, MASTER};
use crate::client::{Client, address};
use crate::kubelets::Kubelets;
use crate::process::{Usage, cpu_us, pss_kb};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const NODES: usize = 50;
const DEPLOYMENTS: usize = 500;
const REPLICAS: usize = 10;
const CHANGED: &str = "web-0001";
const CHANGES: usize = 7;
/// That wait for a node.
const PENDING: usize = 1000;
const QUIET: Duration = Duration::from_secs(60);
/// What a start leaves to do is done by then.
const SETTLES: Duration = Duration::from_secs(45);
/// The store tells watchers that come back of the last five minutes, and holds them so long.
const WAIT_S: usize = 330;
/// What comes of a change once it is rolled out: slices, events, the last counts.
const LATER: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(1200);
/// Nodes that say nothing for an hour are well: an idle minute is one of the master alone.
const GRACE: [&str; 2] = ["--node-monitor-grace", "60m"];
const JSON: (&str, &str) = ("Content-Type", "application/json");
const MERGE_PATCH: (&str, &str) = ("Content-Type", "application/merge-patch+json");
const WORKLOADS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const AIM_KB: u64 = 30_000;
const AIM_OF_HUNDRED_MS: f64 = 50.0;

/// Fifty nodes of one master.
struct Cluster<'a> {
    bed: Bed<'a>,
    kubelets: Kubelets,
    client: Client,
}

impl<'a> Cluster<'a> {
    fn start(engine: &'a Engine, test: &str, nodes: usize, runs: bool) -> Result<Cluster<'a>, String> {
        // Both sides of some hundred connections.
        coracle_http::system::granted();
        let mut bed = Bed::new(engine, test);
        bed.start_master_with(&GRACE);
        let client = Client::connect(server(), address(0))?;
        Ok(Cluster { bed, kubelets: Kubelets::start(server(), nodes, runs), client })
    }

    fn cpu_ms(&self) -> Result<f64, String> {
        Ok(cpu_us(self.bed.master_pid())? as f64 / 1e3)
    }

    fn revision(&mut self) -> Result<u64, String> {
        let text = self.client.get("/api/v1/namespaces?limit=1", "application/json")?;
        let list: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        list["metadata"]["resourceVersion"].as_str().and_then(|n| n.parse().ok()).ok_or_else(|| list.to_string())
    }

    fn end(mut self) {
        self.kubelets.end();
        self.bed.stop_master();
        self.kubelets.join();
        self.bed.clean();
    }
}

fn server() -> SocketAddr {
    MASTER.parse().expect("an address")
}

/// 5,000 pods of 500 deployments with their services: until they run, at rest, and one image changed; then the same
/// change alone.
pub fn large(engine: &Engine) -> Result<String, String> {
    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (deployments, wait_s) = (number("CLUSTER_DEPLOYMENTS", DEPLOYMENTS), number("CLUSTER_WAIT_S", WAIT_S));
    let mut cluster = Cluster::start(engine, "bench-cluster", NODES, true)?;
    std::thread::sleep(SETTLES);
    let idle = pss_kb(cluster.bed.master_pid())?;
    let pods = deployments * REPLICAS;
    let (begun, before) = (Instant::now(), cluster.cpu_ms()?);
    fill(&mut cluster, deployments)?;
    let (took, cpu) = (begun.elapsed().as_secs_f64(), cluster.cpu_ms()? - before);
    std::thread::sleep(Duration::from_secs(wait_s as u64));
    let memory = pss_kb(cluster.bed.master_pid())?;
    let json = cluster.client.get(PODS, "application/json")?.len() as f64 / 1e6;
    std::thread::sleep(LATER);
    let alone = quiet(&cluster, || {
        std::thread::sleep(QUIET);
        Ok(())
    })?;
    let renewed = quiet(&cluster, || cluster.kubelets.renew(QUIET))?;
    let of_large = changes(&mut cluster)?;
    cluster.end();
    let mut cluster = Cluster::start(engine, "bench-cluster-small", NODES, true)?;
    fill(&mut cluster, 2)?;
    std::thread::sleep(LATER);
    let of_small = changes(&mut cluster)?;
    cluster.end();
    let verdict = if memory <= AIM_KB { "met" } else { "MISSED" };
    let mut text = format!(
        "  {pods} pods of {deployments} deployments on {NODES} nodes run after {took:.1} s; the master: {:.1} s of CPU \
         = {:.2} ms a pod\n  PSS: with {NODES} nodes {idle} kB, with the pods ({json:.1} MB of JSON) {memory} kB; aim \
         {AIM_KB}: {verdict}\n  a quiet minute: {alone}\n  a minute in which each node renews its lease: {renewed}\n",
        cpu / 1e3,
        cpu / pods as f64,
    );
    for (what, large, small) in [
        ("ms of CPU", of_large.cpu_ms, of_small.cpu_ms),
        ("writes", of_large.writes, of_small.writes),
        ("events at the nodes", of_large.events, of_small.events),
    ] {
        text += &format!(
            "  one image changed: {large:.1} {what} = {:.2} x the same beside one deployment ({small:.1})\n",
            large / small
        );
    }
    Ok(text)
}

fn fill(cluster: &mut Cluster, deployments: usize) -> Result<(), String> {
    for n in 0..deployments {
        let name = format!("web-{n:04}");
        cluster.client.post("/api/v1/namespaces/default/services", service(&name).to_string().as_bytes())?;
        cluster.client.post(WORKLOADS, deployment(&name).to_string().as_bytes())?;
    }
    cluster.kubelets.until(deployments * REPLICAS, PATIENCE)
}

/// What a minute of this takes.
fn quiet(cluster: &Cluster, minute: impl FnOnce() -> Result<(), String>) -> Result<String, String> {
    let (before, cpu) = (Usage::of(cluster.bed.master_pid())?, cluster.cpu_ms()?);
    minute()?;
    let (after, cpu) = (Usage::of(cluster.bed.master_pid())?, cluster.cpu_ms()? - cpu);
    Ok(format!(
        "{cpu:.1} ms of CPU, {} wake-ups, {} bytes written",
        after.wakes.saturating_sub(before.wakes),
        after.written - before.written
    ))
}

struct Cost {
    cpu_ms: f64,
    writes: f64,
    events: f64,
}

/// The median of some changes of one image, each until all is rolled out.
fn changes(cluster: &mut Cluster) -> Result<Cost, String> {
    let (mut cpu, mut writes, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..CHANGES {
        let before = (cluster.cpu_ms()?, cluster.revision()?, cluster.kubelets.tally.events.load(Ordering::Relaxed));
        let mut watch = Client::connect(server(), address(0))?;
        watch.watch(&format!("{WORKLOADS}?watch=1&fieldSelector=metadata.name%3D{CHANGED}"))?;
        let image =
            json!({"spec": {"template": {"spec": {"containers": [container(&format!("a:{}", n + 2))]}}}}).to_string();
        let answer =
            cluster.client.call("PATCH", &format!("{WORKLOADS}/{CHANGED}"), &[MERGE_PATCH], image.as_bytes())?;
        let changed: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
        while let Some(line) = watch.event().map_err(|e| e.to_string())? {
            let event: Value = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
            if done(&event["object"], &changed["metadata"]["generation"]) {
                break;
            }
        }
        std::thread::sleep(LATER);
        cpu.push(cluster.cpu_ms()? - before.0);
        writes.push((cluster.revision()? - before.1) as f64);
        events.push((cluster.kubelets.tally.events.load(Ordering::Relaxed) - before.2) as f64);
    }
    Ok(Cost { cpu_ms: crate::median(cpu), writes: crate::median(writes), events: crate::median(events) })
}

fn done(deployment: &Value, generation: &Value) -> bool {
    let status = &deployment["status"];
    let all = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[*count] == REPLICAS);
    all && status["observedGeneration"] == *generation
}

/// Pods that are made while fifty nodes are there, beside as many that no scheduler looks at; and pods that wait for
/// the first node.
pub fn scheduling(engine: &Engine) -> Result<String, String> {
    let mut text = String::new();
    let mut cluster = Cluster::start(engine, "bench-scheduling", NODES, false)?;
    std::thread::sleep(LATER);
    let mut cost = |scheduler: &str, bound: usize| -> Result<(f64, u64), String> {
        let before = (cluster.cpu_ms()?, cluster.revision()?);
        pending(&mut cluster.client, scheduler)?;
        cluster.kubelets.until(bound, PATIENCE)?;
        std::thread::sleep(LATER);
        Ok((cluster.cpu_ms()? - before.0, cluster.revision()? - before.1))
    };
    let (made, scheduled) = (cost("nobody", 0)?, cost("default-scheduler", PENDING)?);
    cluster.end();
    text += &line(
        "over 50 nodes, as they are made (beyond what making them takes)",
        (scheduled.0 - made.0, scheduled.1 - made.1),
    );
    let mut cluster = Cluster::start(engine, "bench-waiting", 0, false)?;
    pending(&mut cluster.client, "default-scheduler")?;
    std::thread::sleep(LATER);
    let before = (cluster.cpu_ms()?, cluster.revision()?);
    cluster.kubelets = Kubelets::start(server(), NODES, false);
    cluster.kubelets.until(PENDING, PATIENCE)?;
    std::thread::sleep(LATER);
    text += &line(
        "that wait for 50 nodes, which come all at once (their registration too)",
        (cluster.cpu_ms()? - before.0, cluster.revision()? - before.1),
    );
    cluster.end();
    Ok(text)
}

fn line(what: &str, (ms, writes): (f64, u64)) -> String {
    let hundred = ms * 100.0 / PENDING as f64;
    let verdict = if hundred <= AIM_OF_HUNDRED_MS { "met" } else { "MISSED" };
    format!(
        "  {PENDING} pods {what}: {hundred:.1} ms of CPU a hundred, {writes} writes; aim {AIM_OF_HUNDRED_MS}: \
         {verdict}\n"
    )
}

fn pending(client: &mut Client, scheduler: &str) -> Result<(), String> {
    for n in 0..PENDING {
        let spec = json!({"schedulerName": scheduler, "containers": [container("a:1")]});
        let pod =
            json!({"metadata": {"name": format!("{scheduler}-{n}"), "labels": {"app": "a"}}, "spec": spec}).to_string();
        client.call("POST", PODS, &[JSON], pod.as_bytes())?;
    }
    Ok(())
}

fn container(image: &str) -> Value {
    json!({"name": "c", "image": image, "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}})
}

fn deployment(name: &str) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": name, "tier": "web"}}, "spec": {"containers": [container("a:1")]}});
    json!({
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
}
