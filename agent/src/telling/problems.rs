//! What is wrong with this node: the engine, the node's pressures and disks, files, the master's refusals, and pods.
//! PURE.
//!
//! `status`, systemd's line, `/problems`, the metrics and `notify` show these problems and nothing else.
//!
//!     Shown, Beside -> node: engine, pressures, disks, files -> Vec<Problem>
//!                   -> pod: its end, its waits -> container: failures, images, probes

mod container;
mod pod;

use coracle_api::meta::Time;
use coracle_keeper::problem::{self, Problem, Subject};
use serde_json::Value;

use crate::facts::naming::{PodName, Source};
use crate::facts::seen;
use crate::facts::shown::{LastLines, Shown};
use crate::facts::strain::LowDisk;
use crate::telling::node::conditions;

/// The facts beside `Shown` that problems are made of.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    pub node_name: &'a str,
    /// Why the engine does not answer, as its heartbeat says it.
    pub engine: Option<&'a str>,
    /// Sentences on files of the agent's own that could not be written.
    pub unkept: &'a [String],
    /// Sentences on requests that the master refuses.
    pub refused: &'a [String],
    /// Of updates of images.
    pub updates: &'a [Problem],
    pub last_lines: &'a LastLines,
    /// The wall clock. A problem that begins or ends with time alone is judged by it.
    pub now_ms: i64,
}

/// All problems and warnings of this node, problems first.
pub fn problems(shown: &Shown, beside: &Beside<'_>) -> Vec<Problem> {
    let mut all = of_node(shown, beside);
    all.extend(shown.desired.problems.iter().cloned());
    all.extend(beside.updates.iter().cloned());
    all.extend(of_pods(shown, beside));
    problem::sort(&mut all);
    all
}

/// When the problems change though nothing happens, in milliseconds of the wall clock: the grace of a pod that ends is
/// over, or a container has run long enough to be well.
pub fn changes_at_ms(shown: &Shown, now_ms: i64) -> Option<i64> {
    let pods = seen::group(&shown.world.containers);
    let ends = shown.desired.pods.values().filter_map(|wanted| pod::overdue_ms(wanted));
    let well = pods.values().flat_map(|pod| &pod.runs).filter_map(container::well_ms);
    ends.chain(well).filter(|at_ms| *at_ms > now_ms).min()
}

/// The reason of a pod to wait that is not in its status: a kubelet reports the reason only in events.
pub fn note<'a>(shown: &'a Shown, uid: &str) -> Option<&'a str> {
    shown.waits.get(uid)?.notes.values().map(|waiting| waiting.message.as_str()).find(|message| !message.is_empty())
}

fn of_node(shown: &Shown, beside: &Beside<'_>) -> Vec<Problem> {
    let name = beside.node_name;
    let node = || Subject::new("node", "", name);
    let mut all: Vec<Problem> = engine(shown, beside).into_iter().collect();
    let held = conditions(None, &shown.world.strain.short).into_iter().filter(|one| one.holds && one.kind != "Ready");
    all.extend(held.map(|one| {
        let (what, advice) = pressure(one.kind);
        Problem { why: one.message, advice, ..Problem::new(one.kind, node(), what) }
    }));
    all.extend(shown.world.strain.low.iter().map(low_disk));
    let sentences = |reason: &'static str, kind: &'static str, what: &'static str, texts: &[String]| -> Vec<Problem> {
        let subject = || Subject::new(kind, "", name);
        texts.iter().map(|why| Problem { why: why.clone(), ..Problem::new(reason, subject(), what) }).collect()
    };
    let left = shown.world.memory.left();
    all.extend(sentences("VolumesLeft", "node", "volumes of pods that ended cannot be removed", &left));
    all.extend(sentences("FileUnwritten", "node", "a file of the agent cannot be written", beside.unkept));
    all.extend(sentences("MasterRefuses", "node", "the agent may not do its work at the master", beside.refused));
    all.extend(shown.desired.former.iter().map(|former| former_name(name, former)));
    all
}

fn engine(shown: &Shown, beside: &Beside<'_>) -> Option<Problem> {
    let trouble = shown.engine_trouble.as_ref();
    let why = trouble.map(|(text, _)| text.clone()).or_else(|| beside.engine.map(str::to_owned));
    if why.is_none() && shown.looked {
        return None;
    }
    let what = match (&why, shown.looked) {
        (None, _) => "it was not reached yet",
        (Some(_), false) => "it does not answer, and nothing is known of the pods",
        (Some(_), true) => "it does not answer; the pods are shown as they were before",
    };
    Some(Problem {
        why: why.unwrap_or_default(),
        advice: "systemctl status docker; coracle doctor looks for the cause".to_owned(),
        since: trouble.and_then(|(_, since_ms)| time(*since_ms)),
        ..Problem::new("EngineDown", Subject::new("engine", "", ""), what)
    })
}

/// The effect of a pressure on pods, and advice.
fn pressure(kind: &str) -> (String, String) {
    let (effect, advice) = match kind {
        "DiskPressure" => (
            "the master's new pods are refused, and some that run may be evicted",
            "docker system df and du -xh / | sort -h | tail show what takes the disk",
        ),
        "MemoryPressure" => (
            "the master's new pods that ask for no memory are refused, and some that run may be evicted",
            "ps -eo rss,comm --sort=-rss | head shows who takes it",
        ),
        "PIDPressure" => (
            "the master's new pods are refused, and some that run may be evicted",
            "ps -eo nlwp,comm --sort=-nlwp | head shows who has the most threads",
        ),
        _ => ("the master's new pods may be refused", ""),
    };
    let lasts = "the pressure holds for a minute after the host has enough again";
    let advice = if advice.is_empty() { lasts.to_owned() } else { format!("{advice}; {lasts}") };
    (format!("{kind}: {effect}"), advice)
}

fn low_disk(low: &LowDisk) -> Problem {
    let of = if low.inodes { "its inodes" } else { "it" };
    let problem = Problem::new(
        "DiskLow",
        Subject::new("disk", "", &low.path),
        format!("about {} % of {of} are free", low.percent),
    );
    Problem {
        why: "below 5 % the agent frees images, then evicts pods".to_owned(),
        advice: "docker system df; journalctl --vacuum-size=100M; du -xh / | sort -h | tail".to_owned(),
        ..problem.warning()
    }
}

/// A host whose node had another name before.
fn former_name(name: &str, former: &str) -> Problem {
    Problem {
        why: format!("this host was node {former} before, and is {name} now: the pods of node {former} end here"),
        advice: format!("kubectl delete node {former}; node-name = {former} in agent.conf is the way back"),
        ..Problem::new("FormerName", Subject::new("node", "", former), "its pods stay in the API")
    }
}

fn of_pods(shown: &Shown, beside: &Beside<'_>) -> Vec<Problem> {
    let pods = seen::group(&shown.world.containers);
    let none = Vec::new();
    let cases = shown.desired.pods.iter().map(|(uid, wanted)| PodCase {
        shown,
        beside,
        wanted,
        status: shown.statuses.get(uid).unwrap_or(&Value::Null),
        waits: shown.waits.get(uid),
        runs: pods.get(uid).map_or(&none, |pod| &pod.runs),
    });
    cases.flat_map(|case| pod::problems(&case)).collect()
}

/// A pod with its facts.
struct PodCase<'a> {
    shown: &'a Shown,
    beside: &'a Beside<'a>,
    wanted: &'a crate::facts::wanted::Wanted,
    status: &'a Value,
    waits: Option<&'a crate::facts::waiting::Waits>,
    runs: &'a Vec<seen::Run<'a>>,
}

impl PodCase<'_> {
    fn problem(&self, reason: &str, what: impl Into<String>) -> Problem {
        let PodName { namespace, name, .. } = &self.wanted.name;
        Problem { since: self.unready_since(), ..Problem::new(reason, Subject::new("pod", namespace, name), what) }
    }

    /// Since when the pod is not ready.
    fn unready_since(&self) -> Option<String> {
        let mut conditions = self.status["conditions"].as_array()?.iter();
        let ready = conditions.find(|one| one["type"] == "Ready" && one["status"] != "True")?;
        ready["lastTransitionTime"].as_str().map(str::to_owned)
    }

    /// The command that shows the log of a container; `previous`: of the start before.
    fn logs(&self, container: &str, previous: bool) -> String {
        let PodName { namespace, name, .. } = &self.wanted.name;
        let previous = if previous { " -p" } else { "" };
        let namespace = if namespace == "default" { String::new() } else { format!(" -n {namespace}") };
        let container = if self.wanted.members().count() > 1 { format!(" -c {container}") } else { String::new() };
        format!("coracle logs{previous}{namespace}{container} {name}")
    }

    /// Where the pod is edited.
    fn edit(&self) -> String {
        let PodName { namespace, name, uid, source } = &self.wanted.name;
        match source {
            Source::Master => format!("kubectl -n {namespace} describe pod {name}"),
            Source::File => match self.shown.desired.files.of.get(uid) {
                Some(file) => format!("the pod stands in the manifest file {file}"),
                None => "the pod stands in a manifest file".to_owned(),
            },
        }
    }
}

/// As documents show it. None: no time of a calendar.
fn time(wall_ms: i64) -> Option<String> {
    Time::from_seconds(wall_ms.div_euclid(1000)).map(|time| time.to_string())
}

#[cfg(test)]
mod tests;
