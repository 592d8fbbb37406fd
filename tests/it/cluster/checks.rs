//! What holds at every moment of a history, and what holds once the faults have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coracle_master::control::Intent;
use serde_json::Value;

use super::moves::Before;
use super::story::{NAMES, Story};
use crate::follow::Followed;

/// What was seen before, for what may only grow.
#[derive(Default)]
pub struct Seen {
    /// Pods of `web` that were ready at some time, by uid.
    pub once_ready: BTreeSet<String>,
    /// What was so before the controllers worked.
    pub before: Before,
    /// Pods of `web` that were ready when the controllers had worked, less those that were evicted since, by uid.
    pub budgeted: BTreeSet<String>,
    /// Pods that were on a node already, by uid.
    pub bound: BTreeSet<String>,
    /// Pods of `db`, by uid.
    pub known: BTreeSet<String>,
    /// Pods of `once` that have succeeded at some time, by uid.
    succeeded: BTreeSet<String>,
    /// What the job has counted.
    counted: u64,
    /// Since when each host has been silent while all others spoke.
    alone: BTreeMap<&'static str, Duration>,
    /// Since when pods have been on nodes that are not there.
    strays: BTreeMap<String, Duration>,
    /// All that a watcher has heard of pods.
    followed: Followed,
    /// The revision at which services were looked at.
    pub served_at: u64,
}

pub fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

pub fn meta<'a>(of: &'a Value, field: &str) -> &'a str {
    text(&of["metadata"], field)
}

pub fn condition<'a>(of: &'a Value, kind: &str) -> &'a str {
    let conditions = of["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|one| one["type"] == kind).map(|one| text(one, "status")).next().unwrap_or_default()
}

pub fn is_deleted(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

pub fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Failed" | "Succeeded")
}

pub fn of<'a>(pods: &'a [Value], app: &'a str) -> impl Iterator<Item = &'a Value> {
    pods.iter().filter(move |pod| pod["metadata"]["labels"]["app"] == app)
}

pub fn ready(pods: &[Value], app: &str) -> BTreeMap<String, String> {
    let ready = of(pods, app).filter(|pod| !is_deleted(pod) && !is_over(pod) && condition(pod, "Ready") == "True");
    ready.map(|pod| (meta(pod, "uid").to_owned(), text(&pod["spec"], "nodeName").to_owned())).collect()
}

pub fn node_names(story: &Story, which: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    story.master.stored("nodes").iter().filter(|node| which(node)).map(|node| meta(node, "name").to_owned()).collect()
}

/// Those of which nothing bad is known: of a node that has not spoken since the master started its pods may run. One
/// that has only just come back may lose pods whose time was up.
pub fn trusted_nodes(story: &Story) -> BTreeSet<String> {
    node_names(story, |node| matches!(condition(node, "Ready"), "True" | "") && !has_taint(node, "NoExecute"))
}

fn has_taint(node: &Value, effect: &str) -> bool {
    node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["effect"] == effect))
}

pub fn ready_nodes(story: &Story) -> BTreeSet<String> {
    node_names(story, |node| condition(node, "Ready") == "True")
}

/// Those that take pods.
pub fn open_nodes(story: &Story) -> BTreeSet<String> {
    // The other taints are borne for a while by every pod.
    node_names(story, |node| node["spec"]["unschedulable"] != true && !has_taint(node, "NoSchedule"))
}

/// An eviction was allowed: the budget is kept, as far as it was counted. What hosts have said since then is not, as in
/// Kubernetes.
pub fn evicted(story: &mut Story, pods: &[Value], name: &str) {
    let Some(web) = &story.asked.web else { return };
    let ready = story.seen.budgeted.len();
    let was_ready =
        of(pods, "web").any(|pod| meta(pod, "name") == name && story.seen.budgeted.remove(meta(pod, "uid")));
    if was_ready && (ready as u64) < web.replicas {
        let wrong = format!("{name} was evicted: {ready} pods of web were ready, and {} have to be", web.replicas - 1);
        story.wrongs.push(wrong);
    }
}

/// A node that says nothing is not ready, and while the others speak, one of them ready, its pods are given up: where
/// no node is ready the fault is likely elsewhere.
pub fn silent_nodes(story: &mut Story) {
    const NOTICED: Duration = Duration::from_secs(75);
    const GIVEN_UP: Duration = Duration::from_secs(450);
    const SPEAKS: Duration = Duration::from_secs(30);
    let now = story.master.clocks.passed();
    let silence = |heard_at: Duration| now.saturating_sub(heard_at.max(story.master.started));
    let pods = story.master.stored("pods");
    let mut wrongs = Vec::new();
    for host in &story.hosts {
        let silent = silence(host.heard_at.get());
        if silent > NOTICED && ready_nodes(story).contains(host.name) {
            wrongs.push(format!("{} has said nothing for {} s, and is ready", host.name, silent.as_secs()));
        }
        let mut others = story.hosts.iter().filter(|other| other.name != host.name);
        let none_ready = ready_nodes(story).is_empty();
        if silent < SPEAKS || none_ready || others.any(|other| silence(other.heard_at.get()) > SPEAKS) {
            story.seen.alone.remove(host.name);
            continue;
        }
        let since = *story.seen.alone.entry(host.name).or_insert(now);
        let stays = |pod: &&Value| {
            text(&pod["spec"], "nodeName") == host.name
                && pod["metadata"]["labels"]["app"] != "each"
                && !is_deleted(pod)
                && !is_over(pod)
        };
        if now - since > GIVEN_UP
            && let Some(pod) = pods.iter().find(stays)
        {
            wrongs.push(format!(
                "{} has been away for {} s, and {} stays",
                host.name,
                silent.as_secs(),
                meta(pod, "name")
            ));
        }
    }
    story.wrongs.extend(wrongs);
}

/// The pods of a node that is not there are given up.
pub fn nodes_that_are_gone(story: &mut Story) {
    const GIVEN_UP: Duration = Duration::from_secs(120);
    let now = story.master.clocks.passed();
    let (pods, nodes) = (story.master.stored("pods"), node_names(story, |_| true));
    let there =
        |pod: &&Value| text(&pod["spec"], "nodeName").is_empty() || nodes.contains(text(&pod["spec"], "nodeName"));
    let strays: BTreeSet<String> =
        pods.iter().filter(|pod| !there(pod)).map(|pod| meta(pod, "name").to_owned()).collect();
    story.seen.strays.retain(|name, _| strays.contains(name));
    for name in strays {
        let since = *story.seen.strays.entry(name.clone()).or_insert(now);
        if now.saturating_sub(since.max(story.master.started)) > GIVEN_UP {
            story.wrongs.push(format!("{name} stays on a node that is gone"));
        }
    }
}

/// What was heard of each pod follows on what was heard before.
pub fn follow(story: &mut Story, pods: &[Value]) {
    story.seen.followed.gaps = true;
    for pod in pods {
        story.wrongs.extend(story.seen.followed.take(pod));
    }
}

pub fn always(story: &mut Story) {
    let mut wrongs = Vec::new();
    one_of_each_name(story, &mut wrongs);
    if story.master.is_up() {
        let pods = story.master.stored("pods");
        no_more_than_asked(story, &mut wrongs);
        volumes_are_bound_once(story, &mut wrongs);
        jobs_count_once(story, &pods, &mut wrongs);
        one_at_a_time(story, &pods, &mut wrongs);
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

/// `Forbid` of a cron job, and `Recreate` of a Deployment.
fn one_at_a_time(story: &Story, pods: &[Value], wrongs: &mut Vec<String>) {
    if story.asked.kinds.contains("tick") && story.asked.forbids {
        let jobs = story.master.list("/apis/batch/v1/namespaces/default/jobs");
        let ours = jobs.iter().filter(|job| meta(job, "name").starts_with("tick-") && !is_deleted(job));
        let going: Vec<&str> =
            ours.filter(|job| job["status"]["completionTime"].is_null()).map(|job| meta(job, "name")).collect();
        if going.len() > 1 {
            wrongs.push(format!("tick has more than one job: {going:?}"));
        }
    }
    if story.asked.kinds.contains("app") && story.asked.recreated && !story.mixed {
        let there = of(pods, "app").filter(|pod| !is_over(pod));
        let revisions: BTreeSet<&str> =
            there.map(|pod| text(&pod["metadata"]["labels"], "pod-template-hash")).collect();
        if revisions.len() > 1 {
            wrongs.push(format!("app has pods of more than one revision: {revisions:?}"));
        }
    }
}

/// Whatever has owners has one that is there.
fn owners_are_there(story: &Story, pods: &[Value], wrongs: &mut Vec<String>) {
    let lists = [
        "apps/v1/replicasets",
        "apps/v1/statefulsets",
        "apps/v1/daemonsets",
        "batch/v1/jobs",
        "batch/v1/cronjobs",
        "apps/v1/deployments",
    ];
    let others: Vec<Value> = lists.iter().flat_map(|list| story.master.list(&format!("/apis/{list}"))).collect();
    let uids: BTreeSet<&str> = others.iter().map(|object| meta(object, "uid")).collect();
    for object in pods.iter().chain(&others) {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        for owner in owners.filter(|owner| !uids.contains(text(owner, "uid"))) {
            wrongs.push(format!("{} belongs to {} that is not there", meta(object, "name"), owner["name"]));
        }
    }
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
    owners_are_there(story, &pods, &mut wrongs);
    // What is over nobody takes on.
    let unowned = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"].is_null() && !is_over(pod));
    wrongs.extend(unowned.map(|pod| format!("{} belongs to nobody", meta(pod, "name"))));
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
        "web" | "app" | "vip" | "apart" => {
            let deployment = get("apps/v1/namespaces/default/deployments");
            let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(99);
            expect(&deployment, &["replicas", "updatedReplicas", "availableReplicas"], replicas);
            if kind == "web" {
                serves(story, pods, wrongs);
            }
        }
        "db" => {
            let set = get("apps/v1/namespaces/default/statefulsets");
            expect(
                &set,
                &["replicas", "readyReplicas", "updatedReplicas"],
                set["spec"]["replicas"].as_u64().unwrap_or(99),
            );
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
        "room" => {
            if story.master.get("/api/v1/namespaces/room").is_some() {
                wrongs.push("namespace room is never gone".to_owned());
            }
        }
        "brief" => {
            let job = get("batch/v1/namespaces/default/jobs");
            if !job.is_null() {
                wrongs.push(format!("brief was to go, and stays: {}", job["status"]));
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
            let jobs = story.master.list("/apis/batch/v1/namespaces/default/jobs");
            let kept = jobs.iter().filter(|job| meta(job, "name").starts_with("tick-")).count();
            if kept > 4 {
                wrongs.push(format!("{kept} ended jobs of tick are kept"));
            }
        }
    }
}

/// The service has all ready pods behind it, and nothing else.
fn serves(story: &Story, pods: &[Value], wrongs: &mut Vec<String>) {
    let ready = ready(pods, "web");
    let addresses = of(pods, "web").filter(|pod| ready.contains_key(meta(pod, "uid")));
    let expected: BTreeSet<String> = addresses.map(|pod| text(&pod["status"], "podIP").to_owned()).collect();
    let slices = story.master.list(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb",
    );
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
