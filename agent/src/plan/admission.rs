//! Does this node take a pod at all? Asked once, before anything of it is made, in the kubelet's order and words. PURE.
//!
//! A pod of the master that does not fit fails for good: its controller, or the user who made the pod, makes a new pod.
//! A pod of a file has no controller: the pod waits, and the agent decides again whenever something changes.

use std::collections::{BTreeMap, BTreeSet};

use coracle_api::node::Taint;
use coracle_api::placement;
use coracle_api::strategy::{amounts, qos};

use super::allocation;
use super::rules::Rule;
use crate::facts::engine::Publish;
use crate::facts::memory::Memory;
use crate::facts::naming::Source;
use crate::facts::ports::{host_ports, overlap};
use crate::facts::round::PodPlan;
use crate::facts::seen::Run;
use crate::facts::strain::{Short, Strain};
use crate::facts::waiting::{Dismissal, WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::plan::case::Case;
use crate::spec::security;

/// The resources that every node has.
const COUNTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Pods that a node takes.
pub const PODS_MAX: i64 = 110;
/// What is asked of labels is answered for good only so long after a pod was heard of: who labels a node and then makes
/// a pod for it is heard on two ways, of which either may be the faster one.
const LABELS_SETTLE_MS: i64 = 500;

/// From here on a pod is part of the system, and leaves for nobody.
const CRITICAL_PRIORITY_MIN: i32 = 2_000_000_000;

/// The resources and host ports that the admitted pods take on this node.
pub struct NodeCapacity<'a> {
    case: Case<'a>,
    pods: i64,
    amounts: qos::Amounts,
    /// What each takes, by uid.
    taken: BTreeMap<String, qos::Amounts>,
    ports: Vec<Publish>,
}

/// The answer to one pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Taken,
    /// Not before this moment.
    Later(i64),
    Dismissed(Dismissal),
}

impl<'a> NodeCapacity<'a> {
    /// Counts the pods admitted before: these pods keep their resources, even if the node has changed.
    pub fn of(case: Case<'a>, is_here: impl Fn(&str) -> bool) -> NodeCapacity<'a> {
        let mut room =
            NodeCapacity { case, pods: 0, amounts: qos::Amounts::new(), taken: BTreeMap::new(), ports: Vec::new() };
        for wanted in case.desired.pods.values().filter(|wanted| !wanted.pod.status.terminal()) {
            if is_here(&wanted.name.uid) || case.world.memory.admissions.get(&wanted.name.uid) == Some(&None) {
                let given = case.world.memory.allocations.get(&wanted.name.uid);
                match given.and_then(|given| allocation::with(wanted, given)) {
                    Some(has) => room.take(&has),
                    None => room.take(wanted),
                }
            }
        }
        room
    }

    /// Whether a pod may start, and if not, what its status says. An admitted pod keeps its place from now on.
    pub fn ask(&mut self, part: &mut PodPlan, wanted: &Wanted, runs: &[Run<'_>]) -> Answer {
        let memory = &self.case.world.memory;
        match memory.admissions.get(&wanted.name.uid) {
            Some(None) => return Answer::Taken,
            Some(Some(dismissal)) => return Answer::Dismissed(dismissal.clone()),
            None if !runs.is_empty() || wanted.pod.status.terminal() => return Answer::Taken,
            None => {}
        }
        let answer = self.answer(memory, wanted);
        match &answer {
            Answer::Taken => {
                self.take(wanted);
                part.admission = Some(None);
            }
            Answer::Later(at_ms) => part.wake_at(*at_ms),
            Answer::Dismissed(dismissal) if wanted.name.source == Source::Master => {
                part.admission = Some(Some(dismissal.clone()))
            }
            Answer::Dismissed(_) => {}
        }
        answer
    }

    fn take(&mut self, wanted: &Wanted) {
        self.pods += 1;
        let asked = asked(wanted);
        qos::add_all(&mut self.amounts, &asked);
        self.taken.insert(wanted.name.uid.clone(), asked);
        self.ports.extend(host_ports(&wanted.pod.spec));
    }

    /// Resizes an admitted pod. None: the pod has the new amounts. Some: the reason why not.
    pub fn grow(&mut self, wanted: &Wanted, has: &Wanted) -> Option<String> {
        let uid = &wanted.name.uid;
        let mut others = qos::Amounts::new();
        self.taken
            .iter()
            .filter(|(other, _)| *other != uid)
            .for_each(|(_, amounts)| qos::add_all(&mut others, amounts));
        // Who asks for less, or for as much, has it.
        let (now, before) = (asked(wanted), asked(has));
        let more =
            now.iter().filter(|(name, sum)| before.get(*name).is_none_or(|before| before.amount() < sum.amount()));
        let more: qos::Amounts = more.map(|(name, sum)| (name.clone(), *sum)).collect();
        let short = self.short_of(&more, &others).map(|Why(_, text)| text);
        let taken = if short.is_some() { before } else { now };
        qos::add_all(&mut others, &taken);
        self.amounts = others;
        self.taken.insert(uid.clone(), taken);
        short
    }

    fn answer(&self, memory: &Memory, wanted: &Wanted) -> Answer {
        let from_master = wanted.name.source == Source::Master;
        let dismissed = |Why(reason, text): Why| Answer::Dismissed(Dismissal::rejected(reason, text));
        // Pods of files may set any sysctl: only root can write the files.
        let node = &self.case.world.node;
        let refused = |refusal: Option<security::SecurityRefusal>| {
            refusal.map(|refusal| Why(refusal.reason.to_owned(), refusal.message))
        };
        let sysctl = || refused(security::forbidden_sysctl(wanted, node));
        let strained =
            || refusal(&self.case.world.strain, wanted).filter(|_| self.case.rules.hold(Rule::StrainKeepsPodsOut));
        if let Some(dismissal) = from_master.then(strained).flatten() {
            return Answer::Dismissed(dismissal);
        }
        // What nobody here enforces no pod may rely on, wherever it comes from.
        let strict = || refused(security::strict_groups(wanted));
        let unconfined = || refused(security::unconfined(wanted, node));
        let early = from_master.then(|| sysctl().or_else(|| system(wanted))).flatten().or_else(strict);
        if let Some(why) = early.or_else(|| self.short(wanted)) {
            return dismissed(why);
        }
        if !from_master {
            return unconfined().map_or(Answer::Taken, dismissed);
        }
        if let Some(said) = &self.case.desired.node
            && !placement::suits(&wanted.document["spec"], &self.case.world.node.name, &said.labels)
        {
            let heard_ms = memory.heard.get(&wanted.name.uid).map_or(self.case.now.mono_ms, |heard| heard.at_ms);
            let settled_ms = heard_ms.saturating_add(LABELS_SETTLE_MS);
            if self.case.now.mono_ms < settled_ms {
                return Answer::Later(settled_ms);
            }
            return dismissed(predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
        }
        let wants = host_ports(&wanted.pod.spec);
        let taken = |port: &Publish| {
            let same = |other: &&Publish| (other.host_port, &other.protocol) == (port.host_port, &port.protocol);
            self.ports.iter().filter(same).any(|other| overlap(&other.host_ip, &port.host_ip))
        };
        if wants.iter().any(taken) {
            return dismissed(predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
        }
        let taints = self.case.desired.node.as_ref().map(|said| said.taints.as_slice()).unwrap_or_default();
        if placement::untolerated(taints, &wanted.pod.spec.tolerations, &["NoExecute"]).is_some() {
            return dismissed(predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
        }
        unconfined().map_or(Answer::Taken, dismissed)
    }

    /// The resource that is insufficient: the first in the kubelet's order.
    fn short(&self, wanted: &Wanted) -> Option<Why> {
        few("pods", 1, self.pods, PODS_MAX).or_else(|| self.short_of(&asked(wanted), &self.amounts))
    }

    fn short_of(&self, asked: &qos::Amounts, used: &qos::Amounts) -> Option<Why> {
        let node = &self.case.world.node;
        let amount = |of: &qos::Amounts, name: &str| of.get(name).map(|sum| sum.amount()).unwrap_or_default();
        // A node that does not know its capacity accepts any request.
        let known = |of: u64| i64::try_from(of).ok().filter(|of| *of > 0);
        let bytes =
            |name: &str, of: u64| few(name, amount(asked, name).value(), amount(used, name).value(), known(of)?);
        let cpu = || few("cpu", amount(asked, "cpu").milli(), amount(used, "cpu").milli(), known(node.cpu_milli)?);
        let others = || {
            let said = self.case.desired.node.as_ref().map(|said| &said.extended);
            asked.iter().filter(|(name, _)| !COUNTED.contains(&name.as_str())).find_map(|(name, sum)| {
                let has = said.and_then(|said| said.get(name)).map(|amount| amount.value());
                // Unknown extended resources are not checked: other programs count them. The node counts huge pages
                // itself.
                let pages = || node.huge_pages.get(name).and_then(|bytes| i64::try_from(*bytes).ok()).unwrap_or(0);
                let of = if amounts::is_extended(name) { has? } else { pages() };
                few(name, sum.amount().value(), amount(used, name).value(), of)
            })
        };
        cpu()
            .or_else(|| bytes("memory", node.memory_bytes.saturating_sub(node.huge_pages.values().sum())))
            .or_else(|| bytes("ephemeral-storage", node.disk_bytes))
            .or_else(others)
    }
}

fn few(name: &str, asked: i64, used: i64, of: i64) -> Option<Why> {
    let text = format!("Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {of}");
    (asked > 0 && asked > of.saturating_sub(used)).then(|| Why(format!("OutOf{name}"), text))
}

/// The resources that a pod takes: its requests plus its overhead.
fn asked(wanted: &Wanted) -> qos::Amounts {
    let spec = &wanted.document["spec"];
    let mut all = qos::of_pod(spec, "requests");
    qos::add_all(&mut all, &qos::amounts(&spec["overhead"]));
    all
}

/// Reason and message of an event.
struct Why(String, String);

fn predicate(name: &str, text: &str) -> Why {
    Why(name.to_owned(), format!("Predicate {name} failed: {text}"))
}

/// Refuses a pod whose label or `os` field names another system than Linux.
fn system(wanted: &Wanted) -> Option<Why> {
    let other = |system: Option<&str>| system.is_some_and(|system| system != "linux");
    if other(wanted.pod.metadata.labels.get("kubernetes.io/os").map(String::as_str)) {
        let text = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(Why("PodOSSelectorNodeLabelDoesNotMatch".to_owned(), text.to_owned()));
    }
    let field = wanted.document["spec"]["os"]["name"].as_str();
    let text = "Failed to admit pod as the OS field doesn't match node OS";
    other(field).then(|| Why("PodOSNotSupported".to_owned(), text.to_owned()))
}

/// A pod of a file that does not fit waits with the words that another pod would have failed with.
pub fn waiting(dismissal: &Dismissal) -> Waiting {
    Waiting::new(WaitReason::DoesNotFit, dismissal.event.clone())
}

/// Whether a pod may be evicted, for its own usage or for other pods. A pod of a file may not: no controller would
/// replace the pod.
pub fn leaves(wanted: &Wanted) -> bool {
    wanted.name.source == Source::Master && !is_critical(wanted)
}

fn is_critical(wanted: &Wanted) -> bool {
    wanted.pod.spec.priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY_MIN)
}

/// Why a node that is short of something does not take a new pod. Without memory only pods are turned away that ask for
/// none.
pub fn refusal(strain: &Strain, wanted: &Wanted) -> Option<Dismissal> {
    if strain.short.is_empty() || is_critical(wanted) {
        return None;
    }
    if strain.short == BTreeSet::from([Short::Memory]) {
        let (key, effect) = ("node.kubernetes.io/memory-pressure".to_owned(), "NoSchedule".to_owned());
        let taint = Taint { key, effect, ..Taint::default() };
        let bears = wanted.pod.spec.tolerations.iter().any(|one| placement::tolerates(one, &taint));
        if qos::class(&wanted.document) != "BestEffort" || bears {
            return None;
        }
    }
    let conditions: Vec<&str> = strain.short.iter().map(|short| short.condition()).collect();
    Some(Dismissal::rejected("Evicted", format!("The node had condition: [{}]. ", conditions.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::backoff::Now;
    use crate::facts::desired::Desired;
    use crate::facts::memory::FirstWanted;
    use crate::facts::node_said::NodeSaid;
    use crate::facts::world::{Node, World};
    use crate::plan::Rules;
    use coracle_api::quantity::Quantity;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn pod(source: Source, uid: &str, spec: Value) -> Wanted {
        Wanted::new(source, json!({"metadata": {"namespace": "d", "name": uid, "uid": uid}, "spec": spec})).unwrap()
    }

    fn asks(name: &str, amount: &str) -> Value {
        json!({"containers": [{"name": "c", "resources": {"requests": {name: amount}}}]})
    }

    /// On a node of 2 cores and 1 GiB on which one pod stands, which asks for 500m and port 80.
    fn ask(source: Source, mono_ms: i64, spec: Value) -> Answer {
        let spec_of_first = json!({"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "500m"}},
                "ports": [{"containerPort": 80, "hostPort": 80}]}]});
        let first = pod(Source::Master, "first", spec_of_first);
        let wanted = pod(source, "u", spec);
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        let taints = vec![Taint { key: "k".into(), effect: "NoExecute".into(), ..Taint::default() }];
        let extended = BTreeMap::from([("example.com/gpu".to_owned(), Quantity::from_value(1))]);
        let node = Some(Arc::new(NodeSaid { labels, taints, extended }));
        let desired = Desired { pods: [("first".to_owned(), Arc::new(first))].into(), node, ..Desired::default() };
        let node = Node { name: "n1".into(), cpu_milli: 2000, memory_bytes: 1 << 30, ..Node::default() };
        let mut world = World { node, ..World::default() };
        world.memory.heard.insert("u".to_owned(), FirstWanted::default());
        let case = Case { desired: &desired, world: &world, now: Now { wall_ms: 0, mono_ms }, rules: Rules::default() };
        let mut room = NodeCapacity::of(case, |uid| uid == "first");
        room.ask(&mut PodPlan::default(), &wanted, &[])
    }

    fn check(mut spec: Value, expected: Option<(&str, &str)>) {
        if spec.get("tolerations").is_none() {
            spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        }
        let found = match ask(Source::Master, LABELS_SETTLE_MS, spec.clone()) {
            Answer::Dismissed(dismissal) => {
                assert_eq!(dismissal.message, format!("Pod was rejected: {}", dismissal.event));
                Some((dismissal.reason, dismissal.event))
            }
            Answer::Taken => None,
            Answer::Later(_) => panic!("{spec}"),
        };
        assert_eq!(found.as_ref().map(|(reason, text)| (reason.as_str(), text.as_str())), expected, "{spec}");
    }

    #[test]
    fn what_there_is_too_little_of() {
        let short = |reason, text| Some((reason, text));
        check(asks("cpu", "1500m"), None);
        check(
            asks("cpu", "1501m"),
            short("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1501, used: 500, capacity: 2000"),
        );
        check(asks("memory", "1Gi"), None);
        let text = "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824";
        check(asks("memory", "2Gi"), short("OutOfmemory", text));
        // Nobody knows how large the disk is.
        check(asks("ephemeral-storage", "1Ti"), None);
        check(asks("example.com/other", "1"), None);
        check(asks("example.com/gpu", "1"), None);
        let text = "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1";
        check(asks("example.com/gpu", "2"), short("OutOfexample.com/gpu", text));
        let text = "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0";
        check(asks("hugepages-2Mi", "2Mi"), short("OutOfhugepages-2Mi", text));
        let mut whole = asks("cpu", "1");
        whole["overhead"] = json!({"cpu": "600m"});
        check(
            whole,
            short("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1600, used: 500, capacity: 2000"),
        );
    }

    #[test]
    fn who_grows_asks_for_room_beside_the_others() {
        let of = |uid: &str, cpu: &str| pod(Source::Master, uid, asks("cpu", cpu));
        let desired = Desired {
            pods: [("a".to_owned(), Arc::new(of("a", "500m"))), ("b".to_owned(), Arc::new(of("b", "1")))].into(),
            ..Desired::default()
        };
        let world = World { node: Node { cpu_milli: 2000, ..Node::default() }, ..World::default() };
        let case =
            Case { desired: &desired, world: &world, now: Now { wall_ms: 0, mono_ms: 0 }, rules: Rules::default() };
        let mut room = NodeCapacity::of(case, |_| true);
        assert_eq!(room.grow(&of("a", "1"), &of("a", "500m")), None);
        let text = "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000";
        assert_eq!(room.grow(&of("a", "1001m"), &of("a", "1")).as_deref(), Some(text));
        // Pod b shrinks and frees 500m.
        assert_eq!(room.grow(&of("b", "500m"), &of("b", "1")), None);
        assert_eq!(room.grow(&of("a", "1001m"), &of("a", "1")), None);
    }

    #[test]
    fn large_pages_are_counted() {
        let desired = Desired::default();
        let huge_pages = [("hugepages-2Mi".to_owned(), 4 << 20)].into();
        let node = Node { memory_bytes: 10 << 20, huge_pages, ..Node::default() };
        let world = World { node, ..World::default() };
        let case =
            Case { desired: &desired, world: &world, now: Now { wall_ms: 0, mono_ms: 0 }, rules: Rules::default() };
        let mut room = NodeCapacity::of(case, |_| false);
        let mut taken = |uid: &str, name: &str, amount: &str| {
            matches!(room.ask(&mut PodPlan::default(), &pod(Source::File, uid, asks(name, amount)), &[]), Answer::Taken)
        };
        assert!(
            taken("a", "hugepages-2Mi", "2Mi")
                && !taken("b", "hugepages-2Mi", "4Mi")
                && taken("c", "hugepages-2Mi", "2Mi")
        );
        assert!(!taken("d", "hugepages-2Mi", "2Mi") && !taken("e", "memory", "7Mi") && taken("f", "memory", "6Mi"));
    }

    #[test]
    fn what_does_not_suit() {
        let affinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        check(json!({"nodeSelector": {"disk": "ssd"}}), None);
        check(json!({"nodeSelector": {"disk": "hdd"}}), Some(("NodeAffinity", affinity)));
        let port =
            |port: u16| json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": port}]}]});
        check(port(81), None);
        let text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        check(port(80), Some(("NodePorts", text)));
        let text = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        check(json!({"tolerations": []}), Some(("TaintToleration", text)));
        let text = "Failed to admit pod as the OS field doesn't match node OS";
        check(json!({"os": {"name": "windows"}}), Some(("PodOSNotSupported", text)));
        let sysctl = |name: &str, host: bool| {
            json!({
                "hostNetwork": host, "securityContext": {"sysctls": [{"name": name, "value": "1"}]},
            })
        };
        check(sysctl("net.ipv4.tcp_syncookies", false), None);
        check(sysctl("net/ipv4/tcp_syncookies", false), None);
        let text = "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled";
        check(sysctl("net.ipv4.tcp_syncookies", true), Some(("SysctlForbidden", text)));
        check(
            sysctl("kernel.msgmax", false),
            Some(("SysctlForbidden", "forbidden sysctl: \"kernel.msgmax\" not allowlisted")),
        );
    }

    /// A pod of a file waits with the same words as one of the master fails with.
    #[test]
    fn what_nobody_here_enforces() {
        let armor =
            json!({"containers": [{"name": "c", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}]});
        let strict = json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}});
        let (bears, all) = (
            json!([{"key": "k", "operator": "Exists"}]),
            [(armor, "Cannot enforce AppArmor"), (strict, "Policy=Strict is not")],
        );
        for (mut spec, words) in all {
            spec["tolerations"] = bears.clone();
            for source in [Source::Master, Source::File] {
                let Answer::Dismissed(dismissal) = ask(source, LABELS_SETTLE_MS, spec.clone()) else {
                    panic!("{source} {spec}")
                };
                assert!(dismissal.event.contains(words), "{dismissal:?}");
                assert!(waiting(&dismissal).message.contains(words));
            }
        }
        let unconfined =
            json!({"containers": [{"name": "c", "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}]});
        assert_eq!(ask(Source::File, 0, unconfined), Answer::Taken);
    }

    #[test]
    fn labels_settle_first() {
        let spec = json!({"nodeSelector": {"disk": "hdd"}});
        assert_eq!(ask(Source::Master, 0, spec.clone()), Answer::Later(LABELS_SETTLE_MS));
        assert_eq!(ask(Source::File, 0, spec), Answer::Taken);
    }

    fn check_short(source: Source, short: &[Short], spec: Value, expected: Option<&str>) {
        let document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec});
        let wanted = Wanted::new(source, document).unwrap();
        let strain = Strain { short: short.iter().copied().collect(), ..Strain::default() };
        let found = refusal(&strain, &wanted);
        assert_eq!(found.as_ref().map(|found| found.event.as_str()), expected, "{short:?} {spec}");
    }

    #[test]
    fn who_is_taken_by_a_node_that_is_short() {
        let (memory, disk) =
            (Some("The node had condition: [MemoryPressure]. "), Some("The node had condition: [DiskPressure]. "));
        let asks = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Mi"}}}]});
        let bears = json!({"tolerations": [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]});
        check_short(Source::Master, &[], json!({}), None);
        check_short(Source::Master, &[Short::Memory], json!({}), memory);
        check_short(Source::Master, &[Short::Memory], asks.clone(), None);
        check_short(Source::Master, &[Short::Memory], bears.clone(), None);
        check_short(Source::Master, &[Short::Disk], asks, disk);
        check_short(Source::Master, &[Short::Disk], json!({"priority": 2_000_000_000}), None);
        check_short(
            Source::Master,
            &[Short::Memory, Short::Disk],
            bears,
            Some("The node had condition: [MemoryPressure DiskPressure]. "),
        );
    }
}
