//! Ranks pods for eviction: those over their own limits, and, under pressure, all others in the kubelet's order. PURE.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coracle_api::quantity::Sum;
use coracle_api::strategy::qos;

use crate::facts::members::MemberKind;
use crate::facts::strain::Short;
use crate::facts::thresholds::{Level, Signal, Threshold};
use crate::facts::wanted::Wanted;
use crate::host::tree::TreeSize;

/// A pod with less than one part in `HELPS_PART` of the missing disk bytes or files is not evicted for the disk.
const HELPS_PART: u64 = 100;

/// The usage of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub memory: u64,
    /// The container's own layer, and the container's log.
    pub disk: TreeSize,
    pub processes: u64,
}

/// The usage of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTaken {
    /// By name.
    pub containers: BTreeMap<String, Taken>,
    /// Its empty directories on the disk, by name.
    pub volumes: BTreeMap<String, TreeSize>,
    /// The files that its containers share or leave to the agent: hosts, hostname, resolv.conf, termination messages.
    pub mounted: TreeSize,
}

/// Where pods' directories are, and where the engine keeps what is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    One,
    Two,
}

impl PodTaken {
    fn memory(&self) -> u64 {
        self.containers.values().fold(0, |sum, taken| sum.saturating_add(taken.memory))
    }

    fn volumes(&self) -> TreeSize {
        self.volumes.values().fold(self.mounted, |sum, size| sum.and(*size))
    }

    fn layers(&self) -> TreeSize {
        self.containers.values().fold(TreeSize::default(), |sum, taken| sum.and(taken.disk))
    }

    fn disk(&self) -> u64 {
        self.volumes().and(self.layers()).bytes
    }
}

/// The volumes and containers of a pod that must be measured because they are limited: most pods have none, and cost
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Names of empty directories.
    pub volumes: Vec<String>,
    pub containers: bool,
    /// Their files are counted, too.
    pub files: bool,
}

impl Measures {
    pub fn of(wanted: &Wanted) -> Option<Measures> {
        let containers = limit_of_pod(wanted).is_some();
        let volumes =
            empty_dirs(wanted).filter(|(_, limit)| containers || limit.is_some()).map(|(name, _)| name.to_owned());
        let measures = Measures { volumes: volumes.collect(), containers, files: false };
        (measures != Measures::default()).then_some(measures)
    }

    /// The measures for the order of eviction.
    pub fn all(wanted: &Wanted) -> Measures {
        let volumes = empty_dirs(wanted).map(|(name, _)| name.to_owned()).collect();
        Measures { volumes, containers: true, files: false }
    }
}

/// Those on the disk: of one in memory the kernel keeps the limit itself.
fn empty_dirs(wanted: &Wanted) -> impl Iterator<Item = (&str, Option<Sum>)> {
    let volumes = wanted.document["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| {
        let empty =
            volume["emptyDir"].as_object().filter(|empty| empty.get("medium").is_none_or(|medium| medium == ""))?;
        let limit = empty.get("sizeLimit").and_then(|limit| Sum::of_text(limit.as_str()?));
        Some((volume["name"].as_str()?, limit.filter(|limit| limit.amount().value() > 0)))
    })
}

fn limit_of_pod(wanted: &Wanted) -> Option<qos::Amounts> {
    let limits = qos::of_containers(&wanted.document["spec"], "limits");
    limits.contains_key("ephemeral-storage").then_some(limits)
}

/// The message for the pod's status about the first exceeded limit.
pub fn over(wanted: &Wanted, taken: &PodTaken) -> Option<String> {
    let above = |used: u64, limit: Sum| i64::try_from(used).unwrap_or(i64::MAX) > limit.amount().value();
    for (name, limit) in empty_dirs(wanted) {
        if let (Some(limit), Some(used)) = (limit, taken.volumes.get(name))
            && above(used.bytes, limit)
        {
            return Some(format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". "));
        }
    }
    let whole = limit_of_pod(wanted)?["ephemeral-storage"];
    if above(taken.disk(), whole) {
        return Some(format!("Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "));
    }
    let mains = wanted.members().filter(|member| member.kind == MemberKind::Main);
    let limited = mains.filter_map(|member| {
        let limits = qos::amounts(&wanted.document_of(&member)["resources"]["limits"]);
        let limit = limits.get("ephemeral-storage").copied().filter(|limit| limit.amount().value() != 0)?;
        Some((&member.spec.name, limit, taken.containers.get(&member.spec.name)?))
    });
    let mut too_much = limited.filter(|(_, limit, taken)| above(taken.disk.bytes, *limit));
    too_much
        .next()
        .map(|(name, limit, _)| format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". "))
}

/// The first threshold that is met: memory before the disk.
pub fn met(thresholds: &[Threshold], levels: &BTreeMap<Signal, Level>) -> Vec<(Threshold, Level)> {
    let level = |threshold: &Threshold| levels.get(&threshold.signal).copied();
    thresholds.iter().filter_map(|one| Some((*one, level(one).filter(|level| one.is_met(*level))?))).collect()
}

/// The pod to evict first: a pod over its requests, then a pod of lower priority, then the pod furthest over its
/// requests.
///
/// A pod with next to no usage of the short resource stays: its end would free next to nothing. All pods stay if they
/// together take less of a disk than is missing: then other data fills the disk.
pub fn victim<'a>(
    (threshold, level): (Threshold, Level),
    disks: Disks,
    candidates: &'a [(&Wanted, PodTaken)],
) -> Option<&'a (&'a Wanted, PodTaken)> {
    let signal = threshold.signal;
    let used = |taken: &PodTaken| used(signal, disks, taken);
    let of_disk = signal.short() == Short::Disk;
    let missing = threshold.least(level.capacity).saturating_sub(level.available);
    let all = candidates.iter().fold(0_u64, |sum, (_, taken)| sum.saturating_add(used(taken)));
    if of_disk && all < missing {
        return None;
    }
    let least = if of_disk { (missing / HELPS_PART).max(1) } else { 1 };
    candidates.iter().filter(|(_, taken)| used(taken) >= least).min_by_key(|(wanted, taken)| {
        let (used, asked) = (i64::try_from(used(taken)).unwrap_or(i64::MAX), asked(signal, wanted));
        // Nobody asks for processes.
        let modest = signal != Signal::Processes && used <= asked;
        (modest, wanted.pod.spec.priority.unwrap_or(0), Reverse(used.saturating_sub(asked)), wanted.name.clone())
    })
}

/// The amount of the short resource that the end of a pod would free.
fn used(signal: Signal, disks: Disks, taken: &PodTaken) -> u64 {
    let place = |own: TreeSize, other: TreeSize| if disks == Disks::One { own.and(other) } else { own };
    match signal {
        Signal::Memory => taken.memory(),
        Signal::Processes => taken.containers.values().fold(0, |sum, taken| sum.saturating_add(taken.processes)),
        Signal::NodeDisk => place(taken.volumes(), taken.layers()).bytes,
        Signal::NodeFiles => place(taken.volumes(), taken.layers()).files,
        Signal::ImageDisk => place(taken.layers(), taken.volumes()).bytes,
        Signal::ImageFiles => place(taken.layers(), taken.volumes()).files,
    }
}

fn asked(signal: Signal, wanted: &Wanted) -> i64 {
    let resource = match signal {
        Signal::Memory => "memory",
        Signal::Processes => return 0,
        Signal::NodeFiles | Signal::ImageFiles => return 0,
        Signal::NodeDisk | Signal::ImageDisk => "ephemeral-storage",
    };
    let requests = qos::of_pod(&wanted.document["spec"], "requests");
    requests.get(resource).map_or(0, |sum| sum.amount().value())
}

/// The message in the status of an evicted pod.
pub fn message((threshold, level): (Threshold, Level), (wanted, taken): &(&Wanted, PodTaken)) -> String {
    let resource = threshold.signal.resource();
    let (least, available) = (threshold.least(level.capacity), level.available);
    let counted = ["inodes", "pids"].contains(&resource);
    let amount = |amount: u64| if counted { amount.to_string() } else { binary(amount) };
    let mut text = format!("The node was low on resource: {resource}. ");
    text += &format!("Threshold quantity: {}, available: {}. ", amount(least), amount(available));
    if counted {
        return text;
    }
    for member in wanted.members().filter(|member| member.kind != MemberKind::Ephemeral) {
        let Some(own) = taken.containers.get(&member.spec.name) else { continue };
        let used = if threshold.signal == Signal::Memory { own.memory } else { own.disk.bytes };
        let request = qos::amounts(&wanted.document_of(&member)["resources"]["requests"]).get(resource).copied();
        let asked = request.map_or(0, |sum| sum.amount().value());
        if i64::try_from(used).unwrap_or(i64::MAX) > asked {
            let request = request.map_or_else(|| "0".to_owned(), |sum| sum.to_string());
            let (name, used) = (&member.spec.name, binary(used));
            text += &format!(
                "Container {name} was using {used}, request is {request}, has larger consumption of {resource}. "
            );
        }
    }
    text
}

/// Bytes as Kubernetes writes an amount that nobody wrote before: `5Mi`, but 5242881.
fn binary(mut amount: u64) -> String {
    let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while amount > 0 && amount.is_multiple_of(1024) {
        let Some(next) = units.next() else { break };
        (amount, unit) = (amount / 1024, next);
    }
    format!("{amount}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use crate::facts::thresholds::Amount;
    use serde_json::{Value, json};

    fn pod(name: &str, spec: Value) -> Wanted {
        Wanted::new(Source::Master, json!({"metadata": {"namespace": "d", "name": name, "uid": name}, "spec": spec}))
            .unwrap()
    }

    fn size(bytes: u64) -> TreeSize {
        TreeSize { bytes, files: bytes >> 12 }
    }

    fn taken(containers: &[(&str, u64, u64)], volumes: &[(&str, u64)]) -> PodTaken {
        let containers = containers.iter().map(|(name, memory, disk)| {
            ((*name).to_owned(), Taken { memory: *memory, disk: size(*disk), processes: 0 })
        });
        let volumes = volumes.iter().map(|(name, used)| ((*name).to_owned(), size(*used)));
        PodTaken { containers: containers.collect(), volumes: volumes.collect(), ..PodTaken::default() }
    }

    #[test]
    fn who_takes_more_than_he_may() {
        let limit = |amount: &str| json!({"limits": {"ephemeral-storage": amount}});
        let spec = json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "w", "emptyDir": {}}],
            "containers": [{"name": "c"}]});
        let check = |spec: &Value, taken: PodTaken, expected: Option<&str>| {
            assert_eq!(over(&pod("p", spec.clone()), &taken).as_deref(), expected, "{taken:?}");
        };
        check(&spec, taken(&[], &[("v", 1 << 20), ("w", 9 << 20)]), None);
        let text = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
        check(&spec, taken(&[], &[("v", (1 << 20) + 1)]), Some(text));
        let spec = json!({"volumes": [{"name": "w", "emptyDir": {}}],
            "containers": [{"name": "c", "resources": limit("1Mi")}, {"name": "d", "resources": limit("3Mi")}]});
        check(&spec, taken(&[("c", 0, 1 << 20), ("d", 0, 1 << 20)], &[("w", 2 << 20)]), None);
        let text = "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ";
        check(&spec, taken(&[("c", 0, 1 << 20), ("d", 0, 1 << 20)], &[("w", (2 << 20) + 1)]), Some(text));
        let mounted = |bytes| PodTaken { mounted: size(bytes), ..taken(&[("c", 0, 1 << 20)], &[("w", 1 << 20)]) };
        check(&spec, mounted(2 << 20), None);
        check(&spec, mounted((2 << 20) + 1), Some(text));
        let text = "Container c exceeded its local ephemeral storage limit \"1Mi\". ";
        check(&spec, taken(&[("c", 0, 2 << 20)], &[]), Some(text));
    }

    #[test]
    fn what_has_no_limit_is_not_measured() {
        let check = |spec: Value, volumes: &[&str], containers: bool| {
            let found = Measures::of(&pod("p", spec)).unwrap_or_default();
            assert_eq!(
                (found.volumes.iter().map(String::as_str).collect::<Vec<_>>(), found.containers),
                (volumes.to_vec(), containers)
            );
        };
        let volumes = json!([{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "w", "emptyDir": {}},
            {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]);
        check(json!({"volumes": [{"name": "w", "emptyDir": {}}], "containers": [{"name": "c"}]}), &[], false);
        check(json!({"volumes": volumes, "containers": [{"name": "c"}]}), &["v"], false);
        let limits = json!({"limits": {"ephemeral-storage": "1Mi"}});
        check(json!({"volumes": volumes, "containers": [{"name": "c", "resources": limits}]}), &["v", "w"], true);
    }

    const SHORT_OF_MEMORY: (Threshold, Level) = (
        Threshold { signal: Signal::Memory, amount: Amount::Of(100 << 20) },
        Level { available: 50 << 20, capacity: 1 << 30 },
    );

    #[test]
    fn who_leaves_first() {
        let spec = |request: &str, priority: i64| {
            json!({
                "priority": priority, "containers": [{"name": "c", "resources": {"requests": {"memory": request}}}],
            })
        };
        let (modest, greedy) = (pod("modest", spec("2Gi", 0)), pod("greedy", spec("1Gi", 0)));
        let (greedier, dear) = (pod("greedier", spec("512Mi", 0)), pod("dear", spec("0", 100)));
        let using = |amount: u64| taken(&[("c", amount, 0)], &[]);
        let mut all = vec![
            (&modest, using(2 << 30)),
            (&dear, using(8 << 30)),
            (&greedy, using((1 << 30) + 5)),
            (&greedier, using(1 << 30)),
        ];
        for expected in ["greedier", "greedy", "dear", "modest"] {
            let found = victim(SHORT_OF_MEMORY, Disks::One, &all).map(|(wanted, _)| wanted.name.name.clone());
            assert_eq!(found.as_deref(), Some(expected));
            all.retain(|(wanted, _)| wanted.name.name != expected);
        }
    }

    /// A disk of 100 MiB of which 5 are to be free: 1 is missing.
    #[test]
    fn who_frees_nothing_does_not_leave() {
        let spec = |priority: i64| json!({"priority": priority, "containers": [{"name": "c"}]});
        let (hog, cheap, layer) = (pod("hog", spec(10)), pod("cheap", spec(0)), pod("layer", spec(10)));
        let level = Level { available: 4 << 20, capacity: 100 << 20 };
        let check = |signal, disks, all: &[(&Wanted, PodTaken)], expected: Option<&str>| {
            let threshold = Threshold { signal, amount: Amount::Of(5 << 20) };
            let found = victim((threshold, level), disks, all).map(|(wanted, _)| wanted.name.name.as_str());
            assert_eq!(found, expected, "{signal:?} {disks:?} {all:?}");
        };
        let little = || (&cheap, taken(&[("c", 0, 4096)], &[("v", 4096)]));
        let much = || (&hog, taken(&[], &[("v", 20 << 20)]));
        let layered = || (&layer, taken(&[("c", 0, 30 << 20)], &[]));
        check(Signal::NodeDisk, Disks::One, &[little(), much()], Some("hog"));
        check(Signal::NodeDisk, Disks::One, &[little()], None);
        check(Signal::NodeDisk, Disks::One, &[little(), much(), layered()], Some("layer"));
        check(Signal::NodeDisk, Disks::Two, &[little(), much(), layered()], Some("hog"));
        check(Signal::NodeDisk, Disks::Two, &[little(), layered()], None);
        check(Signal::ImageDisk, Disks::Two, &[little(), much(), layered()], Some("layer"));
        check(Signal::ImageDisk, Disks::Two, &[little(), much()], None);
        let beyond = TreeSize { bytes: u64::MAX, files: u64::MAX };
        let deep = PodTaken { volumes: [("v".to_owned(), beyond)].into(), ..PodTaken::default() };
        check(Signal::NodeDisk, Disks::One, &[little(), much(), (&layer, deep.clone()), (&layer, deep)], Some("layer"));
        check(Signal::Memory, Disks::One, &[little()], None);
        check(Signal::Processes, Disks::One, &[much()], None);
    }

    /// By priority, then by their number.
    #[test]
    fn who_leaves_first_for_want_of_processes() {
        let of = |count: u64| PodTaken {
            containers: [("c".to_owned(), Taken { processes: count, ..Taken::default() })].into(),
            ..PodTaken::default()
        };
        let spec = |priority: i64| json!({"priority": priority, "containers": [{"name": "c"}]});
        let (quiet, dear, forks) = (pod("quiet", spec(0)), pod("dear", spec(100)), pod("forks", spec(0)));
        let threshold = Threshold { signal: Signal::Processes, amount: Amount::Share(5_000) };
        let level = Level { available: 1638, capacity: 32_780 };
        let mut all = vec![(&quiet, of(1)), (&dear, of(9000)), (&forks, of(700))];
        for expected in ["forks", "quiet", "dear"] {
            let found = victim((threshold, level), Disks::One, &all).map(|(wanted, _)| wanted.name.name.as_str());
            assert_eq!(found, Some(expected));
            all.retain(|(wanted, _)| wanted.name.name != expected);
        }
        let text = message((threshold, level), &(&forks, of(700)));
        assert_eq!(text, "The node was low on resource: pids. Threshold quantity: 1639, available: 1638. ");
    }

    #[test]
    fn what_is_said_of_it() {
        let threshold = Threshold { signal: Signal::Memory, amount: Amount::Of(100 << 20) };
        let level = Level { available: (50 << 20) + 1, capacity: 1 << 30 };
        assert_eq!(met(&[threshold], &BTreeMap::from([(Signal::Memory, level)])), [(threshold, level)]);
        let spec = json!({
            "containers": [{"name": "c", "resources": {"requests": {"memory": "1Mi"}}}, {"name": "d"}, {"name": "e"}],
        });
        let wanted = pod("p", spec);
        let text =
            message((threshold, level), &(&wanted, taken(&[("c", 3 << 20, 0), ("d", 4097, 0), ("e", 0, 0)], &[])));
        let expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52428801. \
            Container c was using 3Mi, request is 1Mi, has larger consumption of memory. \
            Container d was using 4097, request is 0, has larger consumption of memory. ";
        assert_eq!(text, expected);
    }
}
