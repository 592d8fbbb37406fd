//! PURE. Readings as documents: the kubelet's summary, and the usage from which the master makes `metrics.k8s.io`.

use coracle_api::meta::Time;
use serde_json::{Map, Value, json};

use super::{Rates, RunningContainer};
use crate::facts::usage::{Interface, Usage};
use crate::host::files::Disk;

/// `stats.k8s.io` v1alpha1.
pub fn summary(node_name: &str, rates: &Rates) -> Value {
    let (now, time) = (&rates.now, time(rates.now.wall_ms));
    let mut node = json!({ "nodeName": node_name });
    if let Some(host) = &now.host {
        node["cpu"] = cpu(rates, rates.before.host.as_ref(), host, &time);
        node["memory"] = memory(host, &time);
        node["swap"] = json!({ "time": time, "swapUsageBytes": host.swap });
    }
    if let Some(disk) = now.disk {
        let fs = file_system(&disk, &time);
        node["fs"] = fs.clone();
        node["runtime"] = json!({ "imageFs": fs });
    }
    let pods: Vec<Value> = pods(rates).map(|pod| pod_stats(rates, pod, &time)).collect();
    json!({ "node": node, "pods": pods })
}

fn pod_stats(rates: &Rates, pod: &[(RunningContainer, Usage)], time: &str) -> Value {
    let of = &pod[0].0;
    let mut stats = json!({ "podRef": { "name": of.pod, "namespace": of.namespace, "uid": of.uid } });
    let started = pod.iter().map(|(subject, _)| subject.started_ms).min().unwrap_or_default();
    stats["startTime"] = self::time(started).into();
    let containers = pod.iter().filter(|(subject, _)| !subject.is_sandbox()).map(|(subject, usage)| {
        json!({
            "name": subject.container, "startTime": self::time(subject.started_ms),
            "cpu": cpu(rates, rates.before.of(&subject.id), usage, time), "memory": memory(usage, time),
            "swap": { "time": time, "swapUsageBytes": usage.swap },
        })
    });
    stats["containers"] = containers.collect();
    let nanoseconds: u64 = pod.iter().map(|(subject, usage)| rates.cpu(rates.before.of(&subject.id), usage)).sum();
    let sum = |figure: fn(&Usage) -> u64| pod.iter().map(|(_, usage)| figure(usage)).sum::<u64>();
    stats["cpu"] =
        json!({ "time": time, "usageNanoCores": nanoseconds, "usageCoreNanoSeconds": sum(|usage| usage.cpu_ns) });
    let whole = Usage {
        memory: sum(|usage| usage.memory),
        working_set: sum(|usage| usage.working_set),
        rss: sum(|usage| usage.rss),
        page_faults: sum(|usage| usage.page_faults),
        major_page_faults: sum(|usage| usage.major_page_faults),
        ..Usage::default()
    };
    stats["memory"] = memory(&whole, time);
    let sandbox = pod.iter().find(|(subject, _)| subject.is_sandbox());
    let carried = sandbox.and_then(|(subject, _)| rates.now.networks.iter().find(|(id, _)| *id == subject.id));
    if let Some((_, interfaces)) = carried.filter(|(_, interfaces)| !interfaces.is_empty()) {
        stats["network"] = network(interfaces, time);
    }
    let volumes = rates.now.volumes.iter().filter(|(claimed, _)| claimed.uid == of.uid);
    let volumes: Vec<Value> = volumes
        .map(|(claimed, disk)| {
            let mut volume = file_system(disk, time);
            volume["name"] = claimed.volume.as_str().into();
            volume["pvcRef"] = json!({ "name": claimed.claim, "namespace": claimed.namespace });
            volume
        })
        .collect();
    if !volumes.is_empty() {
        stats["volume"] = volumes.into();
    }
    stats
}

fn file_system(disk: &Disk, time: &str) -> Value {
    json!({
        "time": time, "availableBytes": disk.free, "capacityBytes": disk.bytes, "usedBytes": disk.used(),
        "inodesFree": disk.files_free, "inodes": disk.files, "inodesUsed": disk.files_used(),
    })
}

fn network(interfaces: &[Interface], time: &str) -> Value {
    let figures = |interface: &Interface| {
        json!({
            "name": interface.name, "rxBytes": interface.received, "rxErrors": interface.receive_errors,
            "txBytes": interface.sent, "txErrors": interface.send_errors,
        })
    };
    let main = interfaces.iter().find(|interface| interface.name == "eth0").unwrap_or(&interfaces[0]);
    let mut network = figures(main);
    network["time"] = time.into();
    network["interfaces"] = interfaces.iter().map(figures).collect();
    network
}

fn cpu(rates: &Rates, before: Option<&Usage>, now: &Usage, time: &str) -> Value {
    json!({ "time": time, "usageNanoCores": rates.cpu(before, now), "usageCoreNanoSeconds": now.cpu_ns })
}

fn memory(usage: &Usage, time: &str) -> Value {
    json!({
        "time": time, "usageBytes": usage.memory, "workingSetBytes": usage.working_set, "rssBytes": usage.rss,
        "pageFaults": usage.page_faults, "majorPageFaults": usage.major_page_faults,
    })
}

/// The rates and working sets of which the master makes NodeMetrics and PodMetrics.
pub fn usage(node_name: &str, rates: &Rates) -> Value {
    let quantities =
        |nanocores: u64, bytes: u64| json!({ "cpu": format!("{nanocores}n"), "memory": format!("{}Ki", bytes / 1024) });
    let window = format!("{:.3}s", rates.window().as_secs_f64());
    let mut whole = Map::from_iter([
        ("timestamp".to_owned(), time(rates.now.wall_ms).into()),
        ("window".to_owned(), window.into()),
    ]);
    if let Some(host) = &rates.now.host {
        let usage = quantities(rates.cpu(rates.before.host.as_ref(), host), host.working_set);
        whole.insert("node".to_owned(), json!({ "name": node_name, "usage": usage }));
    }
    let pods = pods(rates).map(|pod| {
        let containers = pod.iter().filter(|(subject, _)| !subject.is_sandbox()).map(|(subject, usage)| {
            let nanocores = rates.cpu(rates.before.of(&subject.id), usage);
            json!({ "name": subject.container, "usage": quantities(nanocores, usage.working_set) })
        });
        json!({ "namespace": pod[0].0.namespace, "name": pod[0].0.pod, "containers": containers.collect::<Vec<_>>() })
    });
    whole.insert("pods".to_owned(), pods.filter(|pod| pod["containers"] != json!([])).collect());
    whole.into()
}

/// The containers of each pod: the reading has containers of a pod side by side.
fn pods(rates: &Rates) -> impl Iterator<Item = &[(RunningContainer, Usage)]> {
    rates.now.containers.chunk_by(|(a, _), (b, _)| a.uid == b.uid)
}

fn time(ms: i64) -> String {
    Time::from_seconds(ms / 1000).map(|time| time.to_string()).unwrap_or_default()
}
