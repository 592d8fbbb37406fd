//! What nodes and pods use of processor and memory, the largest first. PURE.

use std::cmp::Reverse;

use coracle_schema::Quantity;
use serde_json::{Value, json};

use super::report::Report;
use super::rows::columns;
use crate::config::SortBy;
use crate::facts::naming::mirrored_name;

const MIB: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    pub name: String,
    pub milli_cpu: u64,
    pub bytes: u64,
    /// Milli-CPUs and bytes that there are. None: not known.
    pub of: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub nodes: Vec<Used>,
    pub pods: Vec<Used>,
}

/// From the agent's `/usage` and `/node`. A pod of a file goes by its own name.
pub fn of_agent(usage: &Value, node: &Value, file_pods: &Value) -> Figures {
    let name = node["name"].as_str().unwrap_or_default();
    let (milli_cpu, bytes) = amounts(&usage["node"]["usage"]);
    let of = node["cpus"].as_u64().zip(node["memoryBytes"].as_u64()).map(|(cpus, bytes)| (cpus * 1000, bytes));
    let nodes = vec![Used { name: name.to_owned(), milli_cpu, bytes, of }];
    let is_file = |namespace: &str, own: &str| {
        let mut items = file_pods["items"].as_array().into_iter().flatten();
        items.any(|pod| {
            let meta = &pod["metadata"];
            crate::inside::named::is_of_file(pod) && meta["namespace"] == namespace && meta["name"] == own
        })
    };
    let pods = usage["pods"].as_array().into_iter().flatten().map(|pod| {
        let (namespace, called) = (text(&pod["namespace"]), text(&pod["name"]));
        let own = mirrored_name(called, name).filter(|own| is_file(namespace, own));
        let shown = own.map_or_else(|| format!("{namespace}/{called}"), |own| format!("{namespace}/{own} (file)"));
        sum(shown, &pod["containers"])
    });
    Figures { nodes, pods: pods.collect() }
}

/// From the master's lists of NodeMetrics and PodMetrics.
pub fn of_master(nodes: &Value, pods: &Value) -> Figures {
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    let node = |node: &Value| {
        let (milli_cpu, bytes) = amounts(&node["usage"]);
        Used { name: text(&node["metadata"]["name"]).to_owned(), milli_cpu, bytes, of: None }
    };
    let pod = |pod: &Value| {
        let meta = &pod["metadata"];
        sum(format!("{}/{}", text(&meta["namespace"]), text(&meta["name"])), &pod["containers"])
    };
    Figures { nodes: items(nodes).iter().map(node).collect(), pods: items(pods).iter().map(pod).collect() }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn sum(name: String, containers: &Value) -> Used {
    let each = containers.as_array().into_iter().flatten().map(|one| amounts(&one["usage"]));
    let (milli_cpu, bytes) = each.fold((0, 0), |(cpu, bytes), (more_cpu, more)| (cpu + more_cpu, bytes + more));
    Used { name, milli_cpu, bytes, of: None }
}

/// Milli-CPUs and bytes.
fn amounts(usage: &Value) -> (u64, u64) {
    let of = |field: &str| usage[field].as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO);
    let amount = |number: i64| u64::try_from(number).unwrap_or(0);
    (amount(of("cpu").milli()), amount(of("memory").value()))
}

pub fn report(figures: &Figures, by: SortBy) -> Report {
    let sorted = |list: &[Used]| {
        let mut list = list.to_vec();
        list.sort_by_key(|one| {
            let amount = if by == SortBy::Cpu { one.milli_cpu } else { one.bytes };
            (Reverse(amount), one.name.clone())
        });
        list
    };
    let (nodes, pods) = (sorted(&figures.nodes), sorted(&figures.pods));
    let cells = |one: &Used| {
        let share = |part: u64, whole: u64| format!(" ({} %)", part.saturating_mul(100) / whole.max(1));
        let (cpu, memory) =
            one.of.map_or_else(Default::default, |(cpu, bytes)| (share(one.milli_cpu, cpu), share(one.bytes, bytes)));
        vec![one.name.clone(), format!("{}m{cpu}", one.milli_cpu), format!("{} MiB{memory}", one.bytes / MIB)]
    };
    let table = |head: &str, list: &[Used]| {
        let head = vec![head.to_owned(), "CPU".to_owned(), "MEMORY".to_owned()];
        columns(&std::iter::once(head).chain(list.iter().map(cells)).collect::<Vec<_>>())
    };
    let mut lines = table("NODE", &nodes);
    lines.push(String::new());
    lines.extend(table("POD", &pods));
    let document = |list: &[Used]| -> Value {
        list.iter().map(|one| json!({"name": one.name, "cpuMilli": one.milli_cpu, "memoryBytes": one.bytes})).collect()
    };
    Report { lines, document: json!({"nodes": document(&nodes), "pods": document(&pods)}), well: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::CONFIG_SOURCE;

    #[test]
    fn the_largest_first() {
        let usage = |cpu: &str, memory: &str| json!({"usage": {"cpu": cpu, "memory": memory}});
        let pod =
            |name: &str, containers: &[Value]| json!({"namespace": "default", "name": name, "containers": containers});
        let file = json!({"metadata": {"namespace": "default", "name": "b", "annotations": {CONFIG_SOURCE: "file"}}});
        let figures = of_agent(
            &json!({
                "node": usage("1500000000n", "1048576Ki"),
                "pods": [
                    pod("a", &[usage("1000000n", "2048Ki"), usage("1000000n", "2048Ki")]),
                    pod("b-n1", &[usage("30000000n", "1024Ki")]),
                    pod("c-n1", &[usage("2000000n", "0Ki")]),
                ],
            }),
            &json!({"name": "n1", "cpus": 2, "memoryBytes": 2_u64 << 30}),
            &json!({"items": [file]}),
        );
        let lines = |by: SortBy| report(&figures, by).lines;
        assert_eq!(
            lines(SortBy::Cpu),
            [
                "NODE  CPU           MEMORY",
                "n1    1500m (75 %)  1024 MiB (50 %)",
                "",
                "POD               CPU  MEMORY",
                "default/b (file)  30m  1 MiB",
                "default/a         2m   4 MiB",
                "default/c-n1      2m   0 MiB",
            ]
        );
        assert_eq!(lines(SortBy::Memory)[4], "default/a         2m   4 MiB");
        assert_eq!(report(&figures, SortBy::Cpu).document["pods"][0]["memoryBytes"], 1_048_576);
    }

    #[test]
    fn by_the_master() {
        let nodes = json!({"items": [{"metadata": {"name": "n1"}, "usage": {"cpu": "250m", "memory": "10Mi"}}]});
        let containers = json!([{"name": "c", "usage": {"cpu": "1", "memory": "1Gi"}}]);
        let pods = json!({"items": [{"metadata": {"namespace": "d", "name": "p"}, "containers": containers}]});
        let lines = report(&of_master(&nodes, &pods), SortBy::Cpu).lines;
        assert_eq!(
            lines,
            ["NODE  CPU   MEMORY", "n1    250m  10 MiB", "", "POD  CPU    MEMORY", "d/p  1000m  1024 MiB"]
        );
    }
}
