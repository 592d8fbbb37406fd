//! What holds at every moment of a history, and what holds once the faults have ended.

use std::collections::{BTreeMap, BTreeSet};

use coracle_master::control::Intent;
use serde_json::Value;

use super::story::{NAMES, Story};

/// What was seen before, for what may only grow.
#[derive(Debug, Default)]
pub struct Seen {
    /// Before the controllers worked: the ready pods of `web`, by uid, with their nodes.
    ready: BTreeMap<String, String>,
    /// The nodes that were ready then.
    nodes: BTreeSet<String>,
    /// Pods of `db`, by uid.
    known: BTreeSet<String>,
    /// Pods of `once` that have succeeded at some time, by uid.
    succeeded: BTreeSet<String>,
    /// What the job has counted.
    counted: u64,
}

impl Seen {
    /// The master has forgotten what is volatile.
    pub fn forget(&mut self) {
        self.ready.clear();
    }
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

fn meta<'a>(of: &'a Value, field: &str) -> &'a str {
    text(&of["metadata"], field)
}

fn condition<'a>(of: &'a Value, kind: &str) -> &'a str {
    let conditions = of["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|one| one["type"] == kind).map(|one| text(one, "status")).next().unwrap_or_default()
}

fn is_deleted(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Failed" | "Succeeded")
}

fn of<'a>(pods: &'a [Value], app: &'a str) -> impl Iterator<Item = &'a Value> {
    pods.iter().filter(move |pod| pod["metadata"]["labels"]["app"] == app)
}

fn ready(pods: &[Value], app: &str) -> BTreeMap<String, String> {
    let ready = of(pods, app).filter(|pod| !is_deleted(pod) && !is_over(pod) && condition(pod, "Ready") == "True");
    ready.map(|pod| (meta(pod, "uid").to_owned(), text(&pod["spec"], "nodeName").to_owned())).collect()
}

fn ready_nodes(story: &Story) -> BTreeSet<String> {
    story
        .master
        .stored("nodes")
        .iter()
        .filter(|node| condition(node, "Ready") == "True")
        .map(|node| meta(node, "name").to_owned())
        .collect()
}

pub fn before(story: &mut Story) {
    if story.asked.web.is_some() {
        story.seen.ready = ready(&story.master.stored("pods"), "web");
        story.seen.nodes = ready_nodes(story);
    }
}

/// What the controllers took away, they might.
pub fn after(story: &mut Story) {
    let Some(web) = &story.asked.web else { return };
    let (pods, nodes) = (story.master.stored("pods"), ready_nodes(story));
    let now = ready(&pods, "web");
    let gone = story.seen.ready.iter().filter(|(uid, node)| !now.contains_key(*uid) && nodes.contains(*node)).count();
    let needed = web.replicas - web.unavailable.max(u64::from(web.surge == 0)).min(web.replicas);
    if gone > 0 && nodes == story.seen.nodes && (now.len() as u64) < needed {
        let wrong = format!("{gone} ready pods of web were taken away, {} are left, and {needed} are needed", now.len());
        story.wrongs.push(wrong);
    }
}

pub fn always(story: &mut Story) {
    let mut wrongs = Vec::new();
    one_of_each_name(story, &mut wrongs);
    if story.master.is_up() {
        let pods = story.master.stored("pods");
        no_more_than_asked(story, &mut wrongs);
        in_order(story, &pods, &mut wrongs);
        volumes_are_bound_once(story, &mut wrongs);
        jobs_count_once(story, &pods, &mut wrongs);
    }
    story.wrongs.extend(wrongs);
}

/// Of a StatefulSet's pod one instance runs in the cluster, whatever the master believes.
fn one_of_each_name(story: &Story, wrongs: &mut Vec<String>) {
    if story.lost_count {
        return;
    }
    let mut running: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for host in &story.hosts {
        for (_, name, uid) in host.running().into_iter().filter(|(_, name, _)| name.starts_with("db-")) {
            running.entry(name).or_default().insert(uid);
        }
    }
    let twice = running.iter().filter(|(_, uids)| uids.len() > 1);
    wrongs.extend(twice.map(|(name, uids)| format!("{name} runs more than once: {uids:?}")));
}

fn no_more_than_asked(story: &Story, wrongs: &mut Vec<String>) {
    let Some(web) = &story.asked.web else { return };
    let sets = story.master.list("/apis/apps/v1/namespaces/default/replicasets?labelSelector=app%3Dweb");
    let size: u64 = sets.iter().filter_map(|set| set["spec"]["replicas"].as_u64()).sum();
    if size > web.replicas + web.surge {
        wrongs.push(format!("web: {size} pods, and {} + {} may be", web.replicas, web.surge));
    }
}

/// A new pod of an ordered StatefulSet has all before it ready.
fn in_order(story: &mut Story, pods: &[Value], wrongs: &mut Vec<String>) {
    let Some(db) = &story.asked.db else { return };
    let nth = |pod: &Value| meta(pod, "name").strip_prefix("db-").and_then(|nth| nth.parse::<u64>().ok());
    let there: BTreeMap<u64, &Value> = of(pods, "db").filter_map(|pod| Some((nth(pod)?, pod))).collect();
    for (nth, pod) in &there {
        let new = story.seen.known.insert(meta(pod, "uid").to_owned());
        let before = (0..*nth).all(|one| there.get(&one).is_some_and(|pod| condition(pod, "Ready") == "True"));
        if new && db.ordered && !before {
            wrongs.push(format!("db-{nth} came before its turn"));
        }
    }
}

fn volumes_are_bound_once(story: &Story, wrongs: &mut Vec<String>) {
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for claim in story.master.stored("persistentvolumeclaims").iter() {
        let volume = text(&claim["spec"], "volumeName").to_owned();
        if volume.is_empty() {
            continue;
        }
        if let Some(other) = holders.insert(volume.clone(), meta(claim, "name").to_owned()) {
            wrongs.push(format!("volume {volume} is bound to {other} and to {}", meta(claim, "name")));
        }
    }
}

fn jobs_count_once(story: &mut Story, pods: &[Value], wrongs: &mut Vec<String>) {
    if !story.asked.kinds.contains("once") {
        return;
    }
    let done = of(pods, "once").filter(|pod| text(&pod["status"], "phase") == "Succeeded");
    story.seen.succeeded.extend(done.map(|pod| meta(pod, "uid").to_owned()));
    let Some(job) = story.master.get("/apis/batch/v1/namespaces/default/jobs/once") else { return };
    let counted = job["status"]["succeeded"].as_u64().unwrap_or(0);
    let there = story.seen.succeeded.len() as u64;
    if counted > there || counted > story.asked.completions || counted < story.seen.counted {
        let (asked, was) = (story.asked.completions, story.seen.counted);
        wrongs.push(format!("once counts {counted} after {was}; {there} have succeeded, and {asked} are asked for"));
    }
    story.seen.counted = counted;
}

pub fn settled(story: &mut Story) {
    let mut wrongs = Vec::new();
    let nodes = ready_nodes(story);
    for name in NAMES.iter().filter(|name| !nodes.contains(**name)) {
        wrongs.push(format!("node {name} is not ready"));
    }
    let pods = story.master.stored("pods");
    hosts_run_what_the_master_shows(story, &pods, &mut wrongs);
    for kind in story.asked.kinds.clone() {
        is_as_asked(story, kind, &pods, &mut wrongs);
    }
    nothing_is_left_to_do(story, &mut wrongs);
    story.wrongs.extend(wrongs);
}

fn hosts_run_what_the_master_shows(story: &Story, pods: &[Value], wrongs: &mut Vec<String>) {
    let mut running = BTreeMap::new();
    for host in &story.hosts {
        running.extend(host.running().into_iter().map(|(_, name, uid)| (uid, (host.name, name))));
    }
    for pod in pods {
        let (name, node) = (meta(pod, "name"), text(&pod["spec"], "nodeName"));
        let runs = running.remove(meta(pod, "uid"));
        let phase = text(&pod["status"], "phase");
        match (&runs, phase) {
            _ if is_deleted(pod) => wrongs.push(format!("{name} is never gone")),
            (Some((host, _)), "Running") if *host == node => {}
            (None, "Succeeded" | "Failed") => {}
            _ => wrongs.push(format!("{name} is {phase} on {node:?} and runs at {runs:?}: {}", pod["status"])),
        }
    }
    wrongs.extend(running.iter().map(|(uid, at)| format!("{uid} runs at {at:?}, and no pod says so")));
}

fn is_as_asked(story: &Story, kind: &str, pods: &[Value], wrongs: &mut Vec<String>) {
    let get = |path: &str| story.master.get(&format!("/apis/{path}/{kind}")).unwrap_or_default();
    let mut expect = |object: &Value, fields: &[&str], expected: u64| {
        for field in fields {
            if object["status"][field].as_u64().unwrap_or(0) != expected {
                wrongs.push(format!("{kind}: {field} is not {expected}: {}", object["status"]));
            }
        }
    };
    match kind {
        "web" | "app" => {
            let deployment = get("apps/v1/namespaces/default/deployments");
            let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(99);
            expect(&deployment, &["replicas", "updatedReplicas", "availableReplicas"], replicas);
            if kind == "web" {
                serves(story, pods, wrongs);
            }
        }
        "db" => {
            let set = get("apps/v1/namespaces/default/statefulsets");
            expect(&set, &["replicas", "readyReplicas", "updatedReplicas"], set["spec"]["replicas"].as_u64().unwrap_or(99));
        }
        "each" => {
            let set = get("apps/v1/namespaces/default/daemonsets");
            expect(&set, &["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"], NAMES.len() as u64);
        }
        "once" => {
            let job = get("batch/v1/namespaces/default/jobs");
            expect(&job, &["succeeded"], story.asked.completions);
            if condition(&job, "Complete") != "True" {
                wrongs.push(format!("once is not complete: {}", job["status"]));
            }
        }
        "doomed" => {
            let job = get("batch/v1/namespaces/default/jobs");
            if condition(&job, "Failed") != "True" {
                wrongs.push(format!("doomed has not failed: {}", job["status"]));
            }
        }
        _ => {
            let tick = get("batch/v1/namespaces/default/cronjobs");
            if tick["status"]["active"].as_array().is_some_and(|active| !active.is_empty()) {
                wrongs.push(format!("tick is never done: {}", tick["status"]));
            }
        }
    }
}

/// The service has all ready pods behind it, and nothing else.
fn serves(story: &Story, pods: &[Value], wrongs: &mut Vec<String>) {
    let ready = ready(pods, "web");
    let addresses = of(pods, "web").filter(|pod| ready.contains_key(meta(pod, "uid")));
    let expected: BTreeSet<String> = addresses.map(|pod| text(&pod["status"], "podIP").to_owned()).collect();
    let slices =
        story.master.list("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb");
    let spots = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let found: BTreeSet<String> = spots
        .filter(|spot| spot["conditions"]["ready"] == true)
        .filter_map(|spot| spot["addresses"][0].as_str().map(str::to_owned))
        .collect();
    if found != expected {
        wrongs.push(format!("web is served by {found:?} and not by {expected:?}"));
    }
}

/// The full pass, over what the controllers know, and over what those of a new master would see.
fn nothing_is_left_to_do(story: &Story, wrongs: &mut Vec<String>) {
    let newcomer = story.master.newcomer();
    for step in [story.master.controllers(), &newcomer] {
        for owner in step.all() {
            // Who comes now did not see which nodes were deleted and which never were.
            if owner.controller == "nodes" && !step.cluster().nodes.contains_key(&owner.key.name) {
                continue;
            }
            let mut left = step.decide(&owner, story.master.now()).intents;
            // Who comes now tells what somebody before has told.
            left.retain(|intent| !matches!(intent, Intent::Announce(_)));
            if owner.controller == "scheduler" {
                left.retain(|intent| !matches!(intent, Intent::Status { .. } | Intent::Tell(_)));
            }
            if !left.is_empty() {
                wrongs.push(format!("{owner} is not finished: {left:?}"));
            }
        }
    }
}
