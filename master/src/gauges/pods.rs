//! `kube_pod_*`. PURE.

use super::text::{Label, Text, sanitized, seconds, truth, unit};
use crate::problems::objects::PodLook;
use crate::problems::objects::{ContainerLook, Objects};
use coracle_api::pod::{ContainerStateTerminated, ContainerStatus, ResourceList};
use coracle_api::quantity::Quantity;

const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Unknown", "Running"];
/// Reasons of a pod's end that kube-state-metrics tells.
const REASONS: [&str; 5] = ["Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"];

pub fn write(objects: &Objects, text: &mut Text) {
    let pods = &objects.pods;
    of_pods(pods, text);
    of_containers(pods, text);
    let mut amounts = |name: &'static str, help: &str, of: fn(&ContainerLook) -> &ResourceList| {
        text.family(name, "gauge", help);
        for pod in pods {
            pod.spec.containers.iter().for_each(|one| resources(pod, (&one.name, of(one)), text));
        }
    };
    let help = "The number of requested request resource by a container.";
    amounts("kube_pod_container_resource_requests", help, |one| &one.resources.requests);
    let help = "The number of requested limit resource by a container.";
    amounts("kube_pod_container_resource_limits", help, |one| &one.resources.limits);
}

/// The labels of a pod.
fn labels(pod: &PodLook) -> [Label<'_>; 3] {
    let metadata = &pod.metadata;
    [("namespace", metadata.namespace.as_str()), ("pod", metadata.name.as_str()), ("uid", metadata.uid.as_str())]
}

fn and<'l, const N: usize>(pod: &'l PodLook, more: [Label<'l>; N]) -> Vec<Label<'l>> {
    labels(pod).into_iter().chain(more).collect()
}

fn of_pods(pods: &[PodLook], text: &mut Text) {
    text.family("kube_pod_info", "gauge", "Information about pod.");
    pods.iter().for_each(|pod| info(pod, text));
    text.family("kube_pod_owner", "gauge", "Information about the Pod's owner.");
    pods.iter().for_each(|pod| text.owners(&labels(pod), &pod.metadata));
    text.family("kube_pod_created", "gauge", "Unix creation timestamp");
    pods.iter().for_each(|pod| text.known(&labels(pod), seconds(pod.metadata.creation_timestamp)));
    text.family("kube_pod_start_time", "gauge", "Start time in unix timestamp for a pod.");
    pods.iter().for_each(|pod| text.known(&labels(pod), seconds(pod.status.start_time)));
    text.family("kube_pod_deletion_timestamp", "gauge", "Unix deletion timestamp");
    pods.iter().for_each(|pod| text.known(&labels(pod), seconds(pod.metadata.deletion_timestamp)));
    text.family("kube_pod_status_phase", "gauge", "The pods current phase.");
    for pod in pods.iter().filter(|pod| !pod.status.phase.is_empty()) {
        text.phases(&labels(pod), &PHASES, &pod.status.phase);
    }
    for (name, help, kind) in [
        ("kube_pod_status_ready", "Describes whether the pod is ready to serve requests.", "Ready"),
        ("kube_pod_status_scheduled", "Describes the status of the scheduling process for the pod.", "PodScheduled"),
    ] {
        text.family(name, "gauge", help);
        for pod in pods {
            let said = pod.status.conditions.iter().filter(|condition| condition.kind == kind);
            said.for_each(|condition| text.condition(&labels(pod), ("condition", &condition.status)));
        }
    }
    text.family("kube_pod_status_unschedulable", "gauge", "Describes the unschedulable status for the pod.");
    let unplaced = |pod: &&PodLook| {
        let said = pod.status.condition("PodScheduled");
        said.is_some_and(|said| said.status == "False" && said.reason == "Unschedulable")
    };
    pods.iter().filter(unplaced).for_each(|pod| text.line(&labels(pod), 1.0));
    text.family("kube_pod_status_reason", "gauge", "The pod status reasons");
    for pod in pods {
        let said = REASONS.iter().filter(|reason| pod.status.reason == **reason);
        said.for_each(|reason| text.line(&and(pod, [("reason", reason)]), 1.0));
    }
}

fn info(pod: &PodLook, text: &mut Text) {
    let (spec, status, owner) = (&pod.spec, &pod.status, pod.metadata.controller());
    let of_host = if spec.host_network { "true" } else { "false" };
    let more = [
        ("host_ip", status.host_ip.as_str()),
        ("pod_ip", &status.pod_ip),
        ("node", &spec.node_name),
        ("created_by_kind", owner.map_or("", |owner| owner.kind.as_str())),
        ("created_by_name", owner.map_or("", |owner| owner.name.as_str())),
        ("priority_class", &spec.priority_class_name),
        ("host_network", of_host),
    ];
    text.line(&and(pod, more), 1.0);
}

/// A value of a container's status, with more labels than its name. None: nothing is told.
type Told<'s> = Option<(Option<Label<'s>>, f64)>;

fn of_containers(pods: &[PodLook], text: &mut Text) {
    text.family("kube_pod_container_info", "gauge", "Information about a container in a pod.");
    each(pods, text, |pod, one, text| {
        let spec = pod.spec.containers.iter().find(|spec| spec.name == one.name);
        let more = [
            ("container", one.name.as_str()),
            ("image_spec", spec.map_or("", |spec| spec.image.as_str())),
            ("image", &one.image),
            ("image_id", &one.image_id),
            ("container_id", &one.container_id),
        ];
        text.line(&and(pod, more), 1.0);
    });
    type Value = fn(&ContainerStatus) -> Told<'_>;
    let mut family = |name: &'static str, kind: &str, help: &str, value: Value| {
        text.family(name, kind, help);
        each(pods, text, |pod, one, text| {
            if let Some((more, value)) = value(one) {
                let labels: Vec<Label<'_>> =
                    and(pod, [("container", one.name.as_str())]).into_iter().chain(more).collect();
                text.line(&labels, value);
            }
        });
    };
    let help = "The number of container restarts per container.";
    family("kube_pod_container_status_restarts_total", "counter", help, |one| {
        Some((None, f64::from(one.restart_count)))
    });
    let help = "Describes whether the containers readiness check succeeded.";
    family("kube_pod_container_status_ready", "gauge", help, |one| Some((None, truth(one.ready))));
    let help = "Describes whether the container is currently in running state.";
    family("kube_pod_container_status_running", "gauge", help, |one| Some((None, truth(one.state.running.is_some()))));
    let help = "Describes whether the container is currently in waiting state.";
    family("kube_pod_container_status_waiting", "gauge", help, |one| Some((None, truth(one.state.waiting.is_some()))));
    let help = "Describes the reason the container is currently in waiting state.";
    family("kube_pod_container_status_waiting_reason", "gauge", help, |one| {
        one.state.waiting.as_ref().map(|waiting| (Some(("reason", waiting.reason.as_str())), 1.0))
    });
    let help = "Describes whether the container is currently in terminated state.";
    family("kube_pod_container_status_terminated", "gauge", help, |one| {
        Some((None, truth(one.state.terminated.is_some())))
    });
    let help = "Describes the reason the container is currently in terminated state.";
    family("kube_pod_container_status_terminated_reason", "gauge", help, |one| {
        one.state.terminated.as_ref().map(reason)
    });
    let help = "Describes the last reason the container was in terminated state.";
    family("kube_pod_container_status_last_terminated_reason", "gauge", help, |one| {
        one.last_state.terminated.as_ref().map(reason)
    });
    let help = "Describes the exit code for the last container in terminated state.";
    family("kube_pod_container_status_last_terminated_exitcode", "gauge", help, |one| {
        one.last_state.terminated.as_ref().map(|ended| (None, f64::from(ended.exit_code)))
    });
}

fn reason(ended: &ContainerStateTerminated) -> (Option<Label<'_>>, f64) {
    (Some(("reason", ended.reason.as_str())), 1.0)
}

fn each<'p>(pods: &'p [PodLook], text: &mut Text, write: impl Fn(&'p PodLook, &'p ContainerStatus, &mut Text)) {
    for pod in pods {
        pod.status.container_statuses.iter().for_each(|one| write(pod, one, text));
    }
}

fn resources(pod: &PodLook, (container, amounts): (&str, &ResourceList), text: &mut Text) {
    for (resource, value) in amounts {
        if let Some(unit) = unit(resource) {
            let node = pod.spec.node_name.as_str();
            let more = [("container", container), ("node", node), ("resource", &*sanitized(resource)), ("unit", unit)];
            text.line(&and(pod, more), amount(*value));
        }
    }
}

/// Thousandths count: half a core is 0.5.
pub fn amount(quantity: Quantity) -> f64 {
    if quantity.is_whole() { quantity.value() as f64 } else { quantity.milli() as f64 / 1000.0 }
}
