//! PURE. Readings in Prometheus' text form, under the names that kubelets and cAdvisor give them.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use coracle_keeper::problem::{Problem, Severity, counts};

use super::claims::Claimed;
use super::probes::{ProbeResult, Tally};
use super::{Reading, RunningContainer, in_api};
use crate::facts::shown::Shown;
use crate::facts::usage::{Interface, Usage};
use crate::host::files::Disk;

const NANOSECONDS: f64 = 1e9;

/// Metric families in Prometheus' text form.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display, at_ms: Option<i64>) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = write!(self.0, " {value}");
        if let Some(at_ms) = at_ms {
            let _ = write!(self.0, " {at_ms}");
        }
        self.0.push('\n');
    }
}

/// A metric of a group: the name, the kind, the help text and the function for the value.
type Figure = (&'static str, &'static str, &'static str, fn(&Usage) -> f64);

/// Metrics of `/metrics/resource`, for containers, pods and the node.
const RESOURCES: [Figure; 3] = [
    ("cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in core-seconds", |usage| {
        usage.cpu_ns as f64 / NANOSECONDS
    }),
    ("memory_working_set_bytes", "gauge", "Current working set in bytes", |usage| usage.working_set as f64),
    ("swap_usage_bytes", "gauge", "Current amount of swap usage in bytes", |usage| usage.swap as f64),
];

pub fn resource(reading: &Reading) -> String {
    let mut text = Text::default();
    let at = Some(reading.wall_ms);
    let members = || reading.containers.iter().filter(|(subject, _)| !subject.is_sandbox());
    for (name, kind, help, figure) in RESOURCES {
        let of = format!("container_{name}");
        text.family(&of, kind, help);
        for (subject, usage) in members() {
            text.line(&of, &labels(subject), figure(usage), at);
        }
    }
    text.family("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds");
    for (subject, _) in members() {
        text.line("container_start_time_seconds", &labels(subject), subject.started_ms as f64 / 1000.0, at);
    }
    for (name, kind, help, figure) in RESOURCES {
        let of = format!("node_{name}");
        if let Some(host) = &reading.host {
            text.family(&of, kind, help);
            text.line(&of, &[], figure(host), at);
        }
    }
    for (name, kind, help, figure) in RESOURCES {
        let of = format!("pod_{name}");
        text.family(&of, kind, help);
        for pod in reading.containers.chunk_by(|(a, _), (b, _)| a.uid == b.uid) {
            let (subject, sum) = (&pod[0].0, pod.iter().map(|(_, usage)| figure(usage)).sum::<f64>());
            text.line(&of, &[("namespace", &subject.namespace), ("pod", &subject.pod)], sum, at);
        }
    }
    text.family(
        "resource_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    text.line("resource_scrape_error", &[], u8::from(reading.host.is_none()), None);
    text.0
}

fn labels(subject: &RunningContainer) -> [(&str, &str); 3] {
    [("container", &subject.container), ("namespace", &subject.namespace), ("pod", &subject.pod)]
}

/// The metrics of `/metrics/cadvisor` that host dashboards read.
const GROUPS: [Figure; 7] = [
    ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", |usage| {
        usage.cpu_ns as f64 / NANOSECONDS
    }),
    (
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        |usage| usage.memory as f64,
    ),
    ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", |usage| usage.working_set as f64),
    ("container_memory_rss", "gauge", "Size of RSS in bytes.", |usage| usage.rss as f64),
    ("container_memory_cache", "gauge", "Number of bytes of page cache memory.", |usage| usage.cache as f64),
    ("container_memory_swap", "gauge", "Container swap usage in bytes.", |usage| usage.swap as f64),
    ("container_memory_failures_total", "counter", "Cumulative count of memory allocation failures.", |usage| {
        usage.page_faults as f64
    }),
];

/// Metrics of groups with a limit of processor time.
const THROTTLES: [Figure; 3] = [
    ("container_cpu_cfs_periods_total", "counter", "Number of elapsed enforcement period intervals.", |usage| {
        usage.throttle.periods as f64
    }),
    ("container_cpu_cfs_throttled_periods_total", "counter", "Number of throttled period intervals.", |usage| {
        usage.throttle.held_periods as f64
    }),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "counter",
        "Total time duration the container has been throttled.",
        |usage| usage.throttle.held_ns as f64 / NANOSECONDS,
    ),
];

/// The limits that a group has.
const LIMITS: [Figure; 3] = [
    ("container_spec_memory_limit_bytes", "gauge", "Memory limit for the container.", |usage| {
        usage.limits.memory as f64
    }),
    ("container_spec_cpu_quota", "gauge", "CPU quota of the container.", |usage| usage.limits.cpu_quota as f64),
    ("container_spec_cpu_period", "gauge", "CPU period of the container.", |usage| usage.limits.cpu_period as f64),
];

/// Of all disks together: the label `device` is empty.
const DISKS: [Figure; 4] = [
    ("container_fs_reads_total", "counter", "Cumulative count of reads completed", |usage| usage.io.reads as f64),
    ("container_fs_reads_bytes_total", "counter", "Cumulative count of bytes read", |usage| usage.io.read_bytes as f64),
    ("container_fs_writes_total", "counter", "Cumulative count of writes completed", |usage| usage.io.writes as f64),
    ("container_fs_writes_bytes_total", "counter", "Cumulative count of bytes written", |usage| {
        usage.io.written_bytes as f64
    }),
];

type Carried = (&'static str, &'static str, fn(&Interface) -> u64);

const NETWORKS: [Carried; 4] = [
    ("container_network_receive_bytes_total", "Cumulative count of bytes received", |interface| interface.received),
    ("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving", |interface| {
        interface.receive_errors
    }),
    ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", |interface| interface.sent),
    (
        "container_network_transmit_errors_total",
        "Cumulative count of errors encountered while transmitting",
        |interface| interface.send_errors,
    ),
];

/// Writes `figures` of each group for which `tells` is true.
fn groups(
    text: &mut Text,
    reading: &Reading,
    figures: &[Figure],
    more: &[(&str, &str)],
    tells: impl Fn(&Usage) -> bool,
) {
    for (name, kind, help, figure) in figures {
        text.family(name, kind, help);
        for (subject, usage) in reading.containers.iter().filter(|(_, usage)| tells(usage)) {
            text.line(name, &[&group(subject)[..], more].concat(), figure(usage), Some(reading.wall_ms));
        }
    }
}

/// The file system of the agent's data, which is the root's on most hosts.
fn disk(text: &mut Text, reading: &Reading) {
    let Some(disk) = reading.disk else { return };
    let labels = [("device", reading.device.as_str()), ("id", "/")];
    let figures = [
        (
            "container_fs_limit_bytes",
            "Number of bytes that can be consumed by the container on this filesystem.",
            disk.bytes,
        ),
        (
            "container_fs_usage_bytes",
            "Number of bytes that are consumed by the container on this filesystem.",
            disk.used(),
        ),
        ("container_fs_inodes_total", "Number of Inodes", disk.files),
        ("container_fs_inodes_free", "Number of available Inodes", disk.files_free),
    ];
    for (name, help, figure) in figures {
        text.family(name, "gauge", help);
        text.line(name, &labels, figure, Some(reading.wall_ms));
    }
}

pub fn cadvisor(reading: &Reading, cores: u64, memory_bytes: u64) -> String {
    let mut text = Text::default();
    let at = Some(reading.wall_ms);
    for (name, kind, help, figure) in GROUPS {
        text.family(name, kind, help);
        for (subject, usage) in &reading.containers {
            let own = group(subject);
            let mut labels = own.to_vec();
            match name {
                "container_cpu_usage_seconds_total" => labels.push(("cpu", "total")),
                "container_memory_failures_total" => {
                    labels.extend([("failure_type", "pgfault"), ("scope", "container")])
                }
                _ => {}
            }
            text.line(name, &labels, figure(usage), at);
        }
        if let Some(host) = reading.host.as_ref().filter(|_| !name.ends_with("failures_total")) {
            let cpu =
                if name.starts_with("container_cpu") { &[("cpu", "total"), ("id", "/")][..] } else { &[("id", "/")] };
            text.line(name, cpu, figure(host), at);
        }
    }
    groups(&mut text, reading, &THROTTLES, &[], |usage| usage.limits.cpu_quota > 0);
    groups(&mut text, reading, &LIMITS[..1], &[], |_| true);
    groups(&mut text, reading, &LIMITS[1..], &[], |usage| usage.limits.cpu_quota > 0);
    groups(&mut text, reading, &DISKS, &[("device", "")], |_| true);
    disk(&mut text, reading);
    text.family("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.");
    for (subject, _) in &reading.containers {
        text.line("container_start_time_seconds", &group(subject), subject.started_ms as f64 / 1000.0, at);
    }
    for (name, help, figure) in NETWORKS {
        text.family(name, "counter", help);
        for (id, interfaces) in &reading.networks {
            let Some((subject, _)) = reading.containers.iter().find(|(subject, _)| subject.id == *id) else { continue };
            for interface in interfaces {
                let labels = [&group(subject)[..], &[("interface", interface.name.as_str())]].concat();
                text.line(name, &labels, figure(interface), at);
            }
        }
    }
    text.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.");
    text.line("machine_cpu_cores", &[], cores, None);
    text.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.");
    text.line("machine_memory_bytes", &[], memory_bytes, None);
    text.0
}

fn group(subject: &RunningContainer) -> [(&str, &str); 6] {
    [
        ("container", &subject.container),
        ("id", &subject.id),
        ("image", &subject.image),
        ("name", &subject.name),
        ("namespace", &subject.namespace),
        ("pod", &subject.pod),
    ]
}

type OfVolume = (&'static str, &'static str, fn(&Disk) -> u64);

const VOLUMES: [OfVolume; 6] = [
    ("kubelet_volume_stats_available_bytes", "Number of available bytes in the volume", |disk| disk.free),
    ("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume", |disk| disk.bytes),
    ("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume", |disk| disk.files),
    ("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume", |disk| disk.files_free),
    ("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume", Disk::files_used),
    ("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume", Disk::used),
];

/// A claim that several pods mount is there once.
fn volumes(text: &mut Text, volumes: &[(Claimed, Disk)]) {
    let by_claim: BTreeMap<_, _> =
        volumes.iter().map(|(of, disk)| ((of.namespace.as_str(), of.claim.as_str()), disk)).collect();
    for (name, help, figure) in VOLUMES.iter().filter(|_| !by_claim.is_empty()) {
        text.family(name, "gauge", help);
        for ((namespace, claim), disk) in &by_claim {
            text.line(name, &[("namespace", namespace), ("persistentvolumeclaim", claim)], figure(disk), None);
        }
    }
}

/// Metrics of `/metrics`: the agent itself, and the claims that pods mount. `process`: the agent's processor time in
/// seconds, resident bytes and open file descriptors.
pub fn agent(shown: &Shown, node_name: &str, process: Option<(f64, u64, u64)>, claims: &[(Claimed, Disk)]) -> String {
    let mut text = Text::default();
    let running = |sandbox: bool| {
        let runs = shown.world.containers.iter().filter(|seen| seen.lives());
        let tags = runs.filter_map(|seen| crate::facts::naming::Tag::read(&seen.name, &seen.labels));
        tags.filter(|tag| tag.is_sandbox() == sandbox).count()
    };
    text.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.");
    text.line("kubelet_node_name", &[("node", node_name)], 1, None);
    text.family("kubelet_running_pods", "gauge", "Number of pods that have a running pod sandbox");
    text.line("kubelet_running_pods", &[], running(true), None);
    text.family("kubelet_running_containers", "gauge", "Number of containers currently running");
    text.line("kubelet_running_containers", &[("container_state", "running")], running(false), None);
    text.family("kubelet_desired_pods", "gauge", "The number of pods the kubelet is being instructed to run.");
    text.line("kubelet_desired_pods", &[], shown.desired.pods.len(), None);
    text.family("coracle_engine_up", "gauge", "Whether the container engine answers.");
    text.line("coracle_engine_up", &[], u8::from(shown.looked && shown.engine_trouble.is_none()), None);
    if let Some((seconds, memory, descriptors)) = process {
        text.family("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.");
        text.line("process_cpu_seconds_total", &[], seconds, None);
        text.family("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
        text.line("process_resident_memory_bytes", &[], memory, None);
        text.family("process_open_fds", "gauge", "Number of open file descriptors.");
        text.line("process_open_fds", &[], descriptors, None);
    }
    volumes(&mut text, claims);
    text.0
}

/// Problems and warnings of this node, of which `status` has the words. A sum over no series is nothing, so each
/// severity has a series.
pub fn problems(problems: &[Problem]) -> String {
    const NAME: &str = "coracle_problems";
    let mut text = Text::default();
    text.family(NAME, "gauge", "Problems (something asked for is missing) and warnings of this node by reason.");
    let counts = counts(problems);
    for severity in [Severity::Problem, Severity::Warning] {
        let mut own = counts.iter().filter(|((of, _), _)| *of == severity).peekable();
        if own.peek().is_none() {
            text.line(NAME, &[("severity", severity.name()), ("reason", "")], 0, None);
        }
        for ((_, reason), count) in own {
            text.line(NAME, &[("severity", severity.name()), ("reason", reason)], count, None);
        }
    }
    text.0
}

/// `/metrics/probes`
pub fn probes(tallies: &[Tally], node_name: &str) -> String {
    const NAME: &str = "prober_probe_total";
    let mut text = Text::default();
    text.family(
        NAME,
        "counter",
        "Cumulative number of a liveness, readiness or startup probe for a container by result.",
    );
    for Tally { pod, container, kind, counts } in tallies {
        let name = in_api(pod, node_name);
        for (found, count) in ProbeResult::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0) {
            let labels = [
                ("container", container.as_str()),
                ("namespace", &pod.namespace),
                ("pod", &name),
                ("pod_uid", &pod.uid),
                ("probe_type", kind.name()),
                ("result", found.name()),
            ];
            text.line(NAME, &labels, count, None);
        }
    }
    text.0
}

#[cfg(test)]
mod tests {
    use super::super::probes::Tallies;
    use super::*;
    use crate::facts::checks::ProbeKind;
    use crate::facts::naming::{PodName, Source};
    use crate::facts::usage::{GroupLimits, Io, Throttle};
    use tokio::time::Instant;

    fn reading() -> Reading {
        let subject = |id: &str, container: &str| RunningContainer {
            id: id.into(),
            namespace: "default".into(),
            pod: "p".into(),
            uid: "u".into(),
            container: container.into(),
            name: format!("k8s_{container}"),
            image: "busybox".into(),
            started_ms: 1500,
        };
        let usage = Usage {
            cpu_ns: 2_500_000_000,
            working_set: 4096,
            throttle: Throttle { periods: 9, held_periods: 3, held_ns: 1_500_000_000 },
            io: Io { reads: 1, read_bytes: 10, writes: 2, written_bytes: 20 },
            limits: GroupLimits { memory: 0, cpu_quota: 50_000, cpu_period: 100_000 },
            ..Usage::default()
        };
        let eth0 = Interface { name: "eth0".into(), received: 7, ..Interface::default() };
        Reading {
            at: Instant::now(),
            wall_ms: 9000,
            host: Some(usage),
            disk: Some(Disk { bytes: 100, free: 40, files: 9, files_free: 4 }),
            device: "/dev/sda1".into(),
            containers: vec![
                (subject("s", "POD"), Usage { limits: GroupLimits::default(), ..usage }),
                (subject("c", "web"), usage),
            ],
            networks: vec![("s".into(), vec![eth0])],
            volumes: Vec::new(),
        }
    }

    #[test]
    fn problems_are_counted() {
        let problem = |reason: &str| Problem::new(reason, Default::default(), "no");
        let text = problems(&[problem("ImageMissing"), problem("DiskLow").warning(), problem("ImageMissing")]);
        for line in [
            "coracle_problems{severity=\"problem\",reason=\"ImageMissing\"} 2",
            "coracle_problems{severity=\"warning\",reason=\"DiskLow\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(problems(&[]).contains("coracle_problems{severity=\"problem\",reason=\"\"} 0"));
    }

    #[test]
    fn figures_under_their_names() {
        let text = resource(&reading());
        for line in [
            "container_cpu_usage_seconds_total{container=\"web\",namespace=\"default\",pod=\"p\"} 2.5 9000",
            "container_start_time_seconds{container=\"web\",namespace=\"default\",pod=\"p\"} 1.5 9000",
            "node_memory_working_set_bytes 4096 9000",
            "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"p\"} 5 9000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        let text = cadvisor(&reading(), 4, 1024);
        for line in [
            "container_network_receive_bytes_total{container=\"POD\",id=\"s\",image=\"busybox\",name=\"k8s_POD\",\
             namespace=\"default\",pod=\"p\",interface=\"eth0\"} 7 9000",
            "container_cpu_usage_seconds_total{cpu=\"total\",id=\"/\"} 2.5 9000",
            "machine_cpu_cores 4",
            "container_fs_usage_bytes{device=\"/dev/sda1\",id=\"/\"} 60 9000",
            "container_cpu_cfs_throttled_seconds_total{container=\"web\",id=\"c\",image=\"busybox\",name=\"k8s_web\",\
             namespace=\"default\",pod=\"p\"} 1.5 9000",
            "container_fs_writes_bytes_total{container=\"web\",id=\"c\",image=\"busybox\",name=\"k8s_web\",\
             namespace=\"default\",pod=\"p\",device=\"\"} 20 9000",
            "container_spec_cpu_quota{container=\"web\",id=\"c\",image=\"busybox\",name=\"k8s_web\",\
             namespace=\"default\",pod=\"p\"} 50000 9000",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        // A container without a limit is never held up by one.
        assert!(!text.lines().any(|line| line.starts_with("container_cpu_cfs") && line.contains("POD")));
    }

    #[test]
    fn a_claim_of_several_pods_is_there_once() {
        let of = |uid: &str, claim: &str| Claimed {
            uid: uid.into(),
            namespace: "n".into(),
            volume: "v".into(),
            claim: claim.into(),
            directory: "/srv".into(),
        };
        let disk = Disk { bytes: 100, free: 40, files: 9, files_free: 4 };
        let text = agent(
            &Shown::default(),
            "n1",
            None,
            &[(of("u", "c"), disk), (of("other", "c"), disk), (of("u", "d"), disk)],
        );
        let used: Vec<&str> = text.lines().filter(|line| line.starts_with("kubelet_volume_stats_used_bytes")).collect();
        let line = |claim: &str| {
            format!("kubelet_volume_stats_used_bytes{{namespace=\"n\",persistentvolumeclaim=\"{claim}\"}} 60")
        };
        assert_eq!(used, [line("c"), line("d")]);
        assert!(!agent(&Shown::default(), "n1", None, &[]).contains("volume"));
    }

    #[test]
    fn probes_by_what_came_of_them() {
        let pod = |source| PodName { source, namespace: "default".into(), name: "p".into(), uid: "u".into() };
        let tallies = Tallies::default();
        for found in [ProbeResult::Passed, ProbeResult::Failed, ProbeResult::Passed] {
            tallies.count(&pod(Source::File), "c", ProbeKind::Readiness, found);
        }
        let labels = "container=\"c\",namespace=\"default\",pod=\"p-n1\",pod_uid=\"u\",probe_type=\"Readiness\"";
        let text = probes(&tallies.all(), "n1");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                format!("prober_probe_total{{{labels},result=\"successful\"}} 2"),
                format!("prober_probe_total{{{labels},result=\"failed\"}} 1")
            ]
        );
        tallies.keep(|uid| uid != "u");
        assert_eq!(tallies.all(), []);
    }
}
