//! Simulated nodes: each registers, watches its pods, says that they run and ends those that are deleted, from an
//! address of its own.

use crate::client::{Client, address};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// As an agent sends it; who calls itself so is not kept as a writer of fields.
const AGENT: (&str, &str) = ("User-Agent", "coracle-agent/bench");
const STRATEGIC_PATCH: (&str, &str) = ("Content-Type", "application/strategic-merge-patch+json");
const JSON: (&str, &str) = ("Content-Type", "application/json");
/// An agent speaks so often.
const HEARTBEAT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// As many as a node takes.
const PODS_OF_NODE: &str = "110";

/// What the nodes have seen.
#[derive(Default)]
pub struct Tally {
    /// Pods that came, were said to run where nodes run them, and have not gone since.
    pub pods: AtomicUsize,
    /// Events of all their watches.
    pub events: AtomicUsize,
    ended: AtomicBool,
    trouble: Mutex<Vec<String>>,
}

pub struct Kubelets {
    server: SocketAddr,
    nodes: usize,
    pub tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

impl Kubelets {
    /// `runs`: the nodes say that their pods run; else pods only come to them.
    pub fn start(server: SocketAddr, nodes: usize, runs: bool) -> Kubelets {
        let tally = Arc::new(Tally::default());
        let started = (0..nodes).map(|n| {
            let tally = tally.clone();
            thread::spawn(move || {
                if let Err(why) = live(server, n, runs, &tally)
                    && !tally.ended.load(Ordering::Relaxed)
                {
                    tally.trouble.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {why}", name(n)));
                }
            })
        });
        Kubelets { server, nodes, threads: started.collect(), tally }
    }

    /// Until so many pods are there.
    pub fn until(&self, pods: usize, patience: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let trouble = self.tally.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let there = self.tally.pods.load(Ordering::Relaxed);
            match () {
                () if !trouble.is_empty() => return Err(trouble.join("; ")),
                () if there == pods => return Ok(()),
                () if begun.elapsed() > patience => return Err(format!("{there} of {pods} pods are there")),
                () => thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Each renews its lease, as the kubelets of Kubernetes do, for so long.
    pub fn renew(&self, time: Duration) -> Result<(), String> {
        let begun = Instant::now();
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let mut client = Client::connect(self.server, address(self.nodes + 1))?;
        let mut made = false;
        while begun.elapsed() < time {
            let round = Instant::now();
            for n in 0..self.nodes {
                let renewed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
                let spec = json!({"holderIdentity": name(n), "leaseDurationSeconds": 40, "renewTime": renewed});
                let lease = json!({"metadata": {"name": name(n)}, "spec": spec}).to_string();
                match made {
                    false => client.call("POST", path, &[AGENT, JSON], lease.as_bytes())?,
                    true => client.call(
                        "PATCH",
                        &format!("{path}/{}", name(n)),
                        &[AGENT, STRATEGIC_PATCH],
                        lease.as_bytes(),
                    )?,
                };
                thread::sleep((HEARTBEAT / self.nodes as u32 * (n as u32 + 1)).saturating_sub(round.elapsed()));
            }
            made = true;
        }
        Ok(())
    }

    /// After the master's end, which ends their watches.
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }

    /// What their watches meet from now on is no trouble.
    pub fn end(&self) {
        self.tally.ended.store(true, Ordering::Relaxed);
    }
}

fn name(n: usize) -> String {
    format!("n{n:02}")
}

fn live(server: SocketAddr, n: usize, runs: bool, tally: &Tally) -> Result<(), String> {
    let from = address(n + 1);
    let mut calls = Client::connect(server, from)?;
    calls.call("POST", "/api/v1/nodes", &[AGENT, JSON], node(n).to_string().as_bytes())?;
    let mut watch = Client::connect(server, from)?;
    watch.watch(&format!("/api/v1/pods?watch=1&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3D{}", name(n)))?;
    let mut given = 0;
    while let Some(line) = watch.event().map_err(|e| e.to_string())? {
        let event: Value = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
        if event["type"] == "BOOKMARK" {
            continue;
        }
        tally.events.fetch_add(1, Ordering::Relaxed);
        let (pod, kind) = (&event["object"], event["type"].as_str().unwrap_or_default());
        let text = |part: &str| pod["metadata"][part].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"));
        let met = if runs { pod["status"]["phase"] == "Running" } else { kind == "MODIFIED" };
        match (kind, pod["metadata"]["deletionTimestamp"].is_null()) {
            ("ERROR", _) => return Err(event.to_string()),
            ("DELETED", _) => drop(tally.pods.fetch_sub(1, Ordering::Relaxed)),
            (_, false) => {
                let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": text("uid")}}).to_string();
                // It may have gone by itself.
                let _ = calls.call("DELETE", &path, &[AGENT, JSON], options.as_bytes());
            }
            (_, true) if !met => {
                if runs {
                    given += 1;
                    let status = json!({"metadata": {"uid": text("uid")}, "status": status(pod, n, given)}).to_string();
                    calls.call("PATCH", &format!("{path}/status"), &[AGENT, STRATEGIC_PATCH], status.as_bytes())?;
                }
                tally.pods.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
    Err("the watch ended".to_owned())
}

fn node(n: usize) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let size = json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": PODS_OF_NODE});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let conditions = [
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        condition("Ready", "True", "KubeletReady"),
    ];
    let labels = json!({"kubernetes.io/hostname": name(n), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    let addresses = json!([{"type": "InternalIP", "address": host(n)}, {"type": "Hostname", "address": name(n)}]);
    json!({
        "metadata": {"name": name(n), "labels": labels},
        "status": {"capacity": size, "allocatable": size, "conditions": conditions, "addresses": addresses},
    })
}

fn host(n: usize) -> String {
    format!("192.0.2.{}", n + 1)
}

/// `given`: how many addresses its node has given away.
fn status(pod: &Value, n: usize, given: usize) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let holds = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"].map(holds);
    let ip = format!("10.{}.{}.{}", 100 + n, given / 250, given % 250 + 1);
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        let id = pod["metadata"]["uid"].as_str().unwrap_or_default().replace('-', "").repeat(2);
        json!({
            "name": container["name"], "image": container["image"],
            "imageID": format!("docker-pullable://{}@sha256:{id}", "image"),
            "containerID": format!("docker://{id}"), "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        })
    });
    json!({
        "phase": "Running", "conditions": conditions, "hostIP": host(n), "hostIPs": [{"ip": host(n)}], "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": now, "containerStatuses": containers.collect::<Vec<_>>(),
    })
}
