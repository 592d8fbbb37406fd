//! The `oom_score_adj` of a container by its pod's QoS class: which processes the kernel kills first. PURE.

use coracle_api::pod::{Container, PodSpec};
use coracle_api::strategy::qos;

use crate::facts::wanted::Wanted;
use crate::facts::world::Node;

/// Without its sandbox a pod has no network.
const SANDBOX: i64 = -998;
const LAST: i64 = -997;
const FIRST: i64 = 1000;
/// The score of a Burstable container: above all Guaranteed ones, below all BestEffort ones.
const BETWEEN: (i64, i64) = (FIRST + LAST, FIRST - 1);

pub fn of_sandbox(node: &Node) -> i64 {
    granted(node, SANDBOX)
}

/// By what the container asks for when it is made: a resize changes nothing, as for a kubelet.
pub fn of_container(node: &Node, wanted: &Wanted, container: &Container) -> i64 {
    let spec = &wanted.pod.spec;
    let score = match qos::class(&wanted.document) {
        _ if spec.priority_class_name == "system-node-critical" => LAST,
        "Guaranteed" => LAST,
        "BestEffort" => FIRST,
        _ => burstable(node, spec, container),
    };
    granted(node, score)
}

/// A larger request, as a share of the host's memory, gives a lower score.
fn burstable(node: &Node, spec: &PodSpec, container: &Container) -> i64 {
    let capacity = i64::try_from(node.memory_bytes).unwrap_or(i64::MAX).max(1);
    let share = share_of_the_rest(spec);
    let score = |bytes: i64| {
        FIRST - i64::try_from(1000 * i128::from(bytes.saturating_add(share)) / i128::from(capacity)).unwrap_or(FIRST)
    };
    let mut found = score(requested(container));
    if spec.init_containers.iter().any(|init| init.name == container.name && is_sidecar(init)) {
        // A sidecar scores no higher than the main container with the smallest request: the kernel must not kill a
        // sidecar before the containers that use the sidecar.
        found = found.min(score(spec.containers.iter().map(requested).min().unwrap_or(0)));
    }
    found.clamp(BETWEEN.0, BETWEEN.1)
}

/// The pod-level request beyond the sum of the containers' requests, divided among the containers.
fn share_of_the_rest(spec: &PodSpec) -> i64 {
    let whole = spec.resources.requests.get("memory").map_or(0, |amount| amount.value());
    if whole == 0 {
        return 0;
    }
    let (mut sidecars, mut starting) = (0_i64, 0_i64);
    for init in &spec.init_containers {
        if is_sidecar(init) {
            sidecars = sidecars.saturating_add(requested(init));
        } else {
            starting = starting.max(sidecars.saturating_add(requested(init)));
        }
    }
    let running = spec.containers.iter().map(requested).fold(sidecars, i64::saturating_add);
    let count = i64::try_from(spec.containers.len() + spec.init_containers.len()).unwrap_or(i64::MAX).max(1);
    (whole - running.max(starting)) / count
}

fn requested(container: &Container) -> i64 {
    let of = &container.resources;
    of.requests.get("memory").or_else(|| of.limits.get("memory")).map_or(0, |amount| amount.value())
}

fn is_sidecar(init: &Container) -> bool {
    init.restart_policy == "Always"
}

/// An engine without CAP_SYS_RESOURCE, as in a container, starts nothing that is to be spared.
fn granted(node: &Node, score: i64) -> i64 {
    if node.spares_processes { score } else { score.max(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::{Value, json};

    #[test]
    fn scores_are_a_kubelets() {
        let of = |spec: Value, spares_processes: bool| {
            let document = json!({"metadata": {"namespace": "default", "name": "p", "uid": "1"}, "spec": spec});
            let wanted = Wanted::new(Source::File, document).unwrap();
            let node = Node { memory_bytes: 8 << 30, spares_processes, ..Node::default() };
            wanted.members().map(|member| of_container(&node, &wanted, member.spec)).collect::<Vec<_>>()
        };
        let asks = |name: &str, amount: &str| {
            json!({
                "name": name, "image": "i", "resources": {"requests": {"memory": amount}},
            })
        };
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = json!({"name": "c", "image": "i", "resources": {"requests": full, "limits": full}});
        let plain = json!({"name": "c", "image": "i"});
        let sidecar = |amount: &str| {
            let mut one = asks("s", amount);
            one["restartPolicy"] = "Always".into();
            one
        };
        for (spec, scores) in [
            (json!({"containers": [guaranteed]}), vec![-997]),
            (json!({"containers": [plain]}), vec![1000]),
            (json!({"containers": [plain], "priorityClassName": "system-node-critical"}), vec![-997]),
            (json!({"containers": [asks("a", "4Gi"), asks("b", "8Mi"), asks("c", "8Gi")]}), vec![500, 999, 3]),
            // A limit is a request where there is none.
            (
                json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "2Gi"}}}]}),
                vec![750],
            ),
            (
                json!({"initContainers": [sidecar("0")], "containers": [asks("a", "4Gi"), asks("b", "2Gi")]}),
                vec![750, 500, 750],
            ),
            // 4 GiB of the pod are nobody's: half of them each.
            (
                json!({"resources": {"requests": {"memory": "6Gi"}}, "containers": [asks("a", "2Gi"), plain]}),
                vec![500, 750],
            ),
        ] {
            assert_eq!(of(spec.clone(), true), scores, "{spec}");
            let without: Vec<i64> = scores.iter().map(|score| *score.max(&0)).collect();
            assert_eq!(of(spec.clone(), false), without, "{spec}");
        }
    }
}
