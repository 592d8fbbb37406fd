//! A pod as controllers see it. PURE.

use super::*;

impl View for Box<PodView> {
    const OF: &'static [Resource] = &[PODS];

    fn is_orphan(&self) -> bool {
        self.owner.is_none()
    }

    fn read(stored: &Stored, was: Option<&Box<PodView>>, uptime: Duration) -> Option<Box<PodView>> {
        pod(stored, was.map(|was| &**was), uptime).map(Box::new)
    }
}

fn pod(stored: &Stored, was: Option<&PodView>, uptime: Duration) -> Option<PodView> {
    let pod: Pod = read(stored)?;
    // A new pod with this name keeps nothing from the old pod.
    let was = was.filter(|was| was.uid == pod.metadata.uid);
    let job = Tracked::read(&pod, was.and_then(|was| was.job.as_deref()), was.is_some(), uptime).map(Box::new);
    let ready = pod.status.condition("Ready");
    let scheduled = pod.status.condition("PodScheduled").filter(|condition| condition.status == "False");
    let doomed =
        pod.status.condition(eviction::DISRUPTED).filter(|one| one.status == "True" && one.reason != BY_ITS_AGENT);
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let unbound = pod.spec.node_name.is_empty().then(|| Unbound {
        default_scheduler: matches!(pod.spec.scheduler_name.as_str(), "" | "default-scheduler"),
        gated: !pod.spec.scheduling_gates.is_empty(),
        unscheduled: scheduled.map(|condition| condition.message.clone()),
        nominated: pod.status.nominated_node_name.clone(),
    });
    Some(PodView {
        revision: stored.revision,
        job,
        generation: pod.metadata.generation,
        created: pod.metadata.creation_timestamp,
        owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
        owner_name: pod.metadata.controller().map(|owner| owner.name.as_str()).unwrap_or_default().into(),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ending: pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0),
        deletion_cost: pod
            .metadata
            .annotations
            .get(DELETION_COST)
            .and_then(|cost| cost.parse().ok())
            .unwrap_or_default(),
        doomed: doomed.and_then(|condition| condition.last_transition_time),
        came: was.map_or(uptime, |was| was.came),
        ready_at: was.filter(|was| was.ready == Some(true)).map_or(uptime, |was| was.ready_at),
        uid: pod.metadata.uid,
        unbound: unbound.map(Box::new),
        ready: ready.map(|condition| condition.status == "True"),
        ready_since: ready.and_then(|condition| condition.last_transition_time),
        restarts: pod
            .status
            .container_statuses
            .iter()
            .map(|status| i64::from(status.restart_count))
            .max()
            .unwrap_or_default(),
        evicted: pod.status.phase == "Failed" && pod.status.reason == "Evicted",
        phase: PHASES.into_iter().find(|known| *known == pod.status.phase).unwrap_or_default(),
        ip: pod.status.pod_ip,
        host_ports: ports.clone().filter(|port| port.host_port > 0).map(host_port).collect(),
        ports: ports
            .filter(|port| !port.name.is_empty())
            .map(|port| (port.name.clone(), port.container_port, protocol(&port.protocol)))
            .collect(),
        cpu_milli: requested(&pod.spec, "cpu", 0, Quantity::milli),
        memory_bytes: requested(&pod.spec, "memory", 0, Quantity::value),
        scored_cpu_milli: requested(&pod.spec, "cpu", LITTLE_CPU_MILLI, Quantity::milli),
        scored_memory_bytes: requested(&pod.spec, "memory", LITTLE_MEMORY_BYTES, Quantity::value),
        others: others(&pod.spec),
        priority: pod.spec.priority.unwrap_or_default(),
        started: pod.status.start_time,
        related: pod
            .spec
            .affinity
            .as_ref()
            .is_some_and(|affinity| affinity.pod_affinity.is_object() || affinity.pod_anti_affinity.is_object()),
        claims: pod
            .spec
            .volumes
            .iter()
            .any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()),
        node: pod.spec.node_name,
        document: stored.clone(),
    })
}

fn host_port(port: &ContainerPort) -> HostPort {
    HostPort { port: port.host_port, protocol: protocol(&port.protocol), ip: port.host_ip.clone() }
}

/// What a container counts for in scores that asks for nothing.
const LITTLE_CPU_MILLI: i64 = 100;
const LITTLE_MEMORY_BYTES: i64 = 200 << 20;

/// The request of the pod as a whole; else the sum over its containers, or the most that an init container needs if
/// this is more. A limit without a request counts as a request. The pod's overhead is added. `unsaid`: the request of
/// a container without requests and limits.
fn requested(spec: &PodSpec, name: &str, unsaid: i64, amount: impl Fn(Quantity) -> i64) -> i64 {
    let of = |resources: &ResourceList| resources.get(name).copied().map(|one| amount(one).max(0));
    let asked = |one: &Container| of(&one.resources.requests).or_else(|| of(&one.resources.limits)).unwrap_or(unsaid);
    let whole = of(&spec.resources.requests).or_else(|| of(&spec.resources.limits));
    let (mut beside, mut most) = (0i64, 0i64);
    for container in &spec.init_containers {
        let one = asked(container);
        most = most.max(beside.saturating_add(one));
        // A sidecar keeps running beside all later containers.
        if container.restart_policy == "Always" {
            beside = beside.saturating_add(one);
        }
    }
    let together = spec.containers.iter().fold(beside, |sum, one| sum.saturating_add(asked(one)));
    whole.unwrap_or_else(|| together.max(most)).saturating_add(of(&spec.overhead).unwrap_or_default())
}

/// Ephemeral storage, huge pages, extended resources.
fn others(spec: &PodSpec) -> Box<[(String, i64)]> {
    let lists = spec.init_containers.iter().chain(&spec.containers).map(|one| &one.resources).chain([&spec.resources]);
    let named = lists
        .flat_map(|resources| resources.requests.keys().chain(resources.limits.keys()))
        .chain(spec.overhead.keys());
    let mut names: Vec<&String> = named.filter(|name| !matches!(name.as_str(), "cpu" | "memory" | "pods")).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| (name.clone(), requested(spec, name, 0, Quantity::value)))
        .filter(|(_, amount)| *amount > 0)
        .collect()
}
