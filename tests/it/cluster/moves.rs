//! What the controllers did in one go: what is so before they work is held against what is so after.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::checks::{condition, is_deleted, is_over, meta, of, open_nodes, ready, text, trusted_nodes};
use super::story::Story;

#[derive(Debug, Default)]
pub struct Before {
    /// Pods of `web` that were ready and ran, with their nodes.
    web: BTreeMap<String, String>,
    /// Those that somebody had given up: who does it says so first, and deletes them then, whatever comes between.
    given_up: BTreeSet<String>,
    /// Those of `each`, and of `db`.
    each: BTreeMap<String, String>,
    db: BTreeMap<String, String>,
    /// The numbers of those of `db`.
    db_ready: BTreeSet<u64>,
    /// The nodes of which nothing bad was known, and those that took pods.
    nodes: BTreeSet<String>,
    open: BTreeSet<String>,
}

/// Pods of `web` that run and were ready, whatever the master remembers of that; and those that it believes to be so.
fn serving(story: &mut Story) -> BTreeMap<String, String> {
    let pods = story.master.stored("pods");
    story.seen.once_ready.extend(ready(&pods, "web").into_keys());
    let running: BTreeSet<String> = story.hosts.iter().flat_map(|host| host.running()).map(|(_, _, uid)| uid).collect();
    let serves = |pod: &&Value| {
        let uid = meta(pod, "uid");
        let ready = condition(pod, "Ready") != "False";
        !is_deleted(pod) && !is_over(pod) && ready && running.contains(uid) && story.seen.once_ready.contains(uid)
    };
    let serving = of(&pods, "web")
        .filter(serves)
        .map(|pod| (meta(pod, "uid").to_owned(), text(&pod["spec"], "nodeName").to_owned()));
    serving.chain(ready(&pods, "web")).collect()
}

fn nth_of_db(pod: &Value) -> Option<u64> {
    meta(pod, "name").strip_prefix("db-")?.parse().ok()
}

pub fn before(story: &mut Story) {
    let pods = story.master.stored("pods");
    let web = if story.asked.web.is_some() { serving(story) } else { BTreeMap::new() };
    let given_up = of(&pods, "web").filter(|pod| condition(pod, "DisruptionTarget") == "True");
    let given_up = given_up.map(|pod| meta(pod, "uid").to_owned()).collect();
    let (each, db) = (ready(&pods, "each"), ready(&pods, "db"));
    let db_ready = of(&pods, "db").filter(|pod| db.contains_key(meta(pod, "uid"))).filter_map(nth_of_db).collect();
    story.seen.before =
        Before { web, given_up, each, db, db_ready, nodes: trusted_nodes(story), open: open_nodes(story) };
}

pub fn after(story: &mut Story) {
    let mut wrongs = Vec::new();
    enough_is_left(story, &mut wrongs);
    they_come_in_order(story, &mut wrongs);
    one_goes_at_a_time(story, &mut wrongs);
    nodes_take_what_fits(story, &mut wrongs);
    only_ready_pods_serve(story, &mut wrongs);
    story.wrongs.extend(wrongs);
    story.seen.budgeted = ready(&story.master.stored("pods"), "web").into_keys().collect();
}

/// What the controllers took away, they might, by what they knew: what a lost node ran counted as well.
fn enough_is_left(story: &mut Story, wrongs: &mut Vec<String>) {
    let nodes = trusted_nodes(story);
    if story.asked.web.is_none() || nodes != story.seen.before.nodes {
        return;
    }
    let now = serving(story);
    let Some(web) = &story.asked.web else { return };
    let Before { web: was, given_up, .. } = &story.seen.before;
    let taken = |(uid, node): &(&String, &String)| !now.contains_key(*uid) && nodes.contains(*node);
    let gone = was.iter().filter(taken).filter(|(uid, _)| !given_up.contains(*uid)).count();
    let left = now.len().max(was.len() - gone) as u64;
    let needed = web.replicas - web.unavailable.max(u64::from(web.surge == 0)).min(web.replicas);
    if gone > 0 && left < needed {
        wrongs.push(format!("{gone} ready pods of web were taken away, {left} are left, and {needed} are needed"));
    }
}

/// A new pod of an ordered StatefulSet had all before it ready when it was made: what their hosts say once it is there
/// nobody could know.
fn they_come_in_order(story: &mut Story, wrongs: &mut Vec<String>) {
    let Some(db) = &story.asked.db else { return };
    for pod in of(&story.master.stored("pods"), "db") {
        let Some(nth) = nth_of_db(pod) else { continue };
        let new = story.seen.known.insert(meta(pod, "uid").to_owned());
        if new && db.ordered && !(0..nth).all(|one| story.seen.before.db_ready.contains(&one)) {
            wrongs.push(format!("db-{nth} came before its turn"));
        }
    }
}

/// Of a DaemonSet one good pod may be missing, and a StatefulSet is updated pod by pod.
fn one_goes_at_a_time(story: &Story, wrongs: &mut Vec<String>) {
    let (nodes, before) = (trusted_nodes(story), &story.seen.before);
    if nodes != before.nodes {
        return;
    }
    let pods = story.master.stored("pods");
    let sets = story.master.stored_of("apps", "statefulsets");
    let replicas = sets.first().and_then(|set| set["spec"]["replicas"].as_u64()).unwrap_or(0);
    let kept = |pod: &Value| nth_of_db(pod).is_some_and(|nth| nth < replicas);
    for (app, was) in [("each", &before.each), ("db", &before.db)] {
        let there = of(&pods, app).filter(|pod| was.get(meta(pod, "uid")).is_some_and(|node| nodes.contains(node)));
        let leave = there.filter(|pod| is_deleted(pod) && (app == "each" || kept(pod))).count();
        if leave > 1 {
            wrongs.push(format!("{leave} good pods of {app} were taken away at once"));
        }
    }
}

/// A node that is cordoned or tainted gets no pods of the scheduler, and none more than it has room for.
fn nodes_take_what_fits(story: &mut Story, wrongs: &mut Vec<String>) {
    let (pods, open) = (story.master.stored("pods"), open_nodes(story));
    let milli = |pod: &Value| match pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str() {
        None => 0,
        Some("3") => 3000,
        Some(cpu) => cpu.trim_end_matches('m').parse().expect("milli"),
    };
    for pod in pods.iter().filter(|pod| !text(&pod["spec"], "nodeName").is_empty() && !is_over(pod)) {
        let (name, node) = (meta(pod, "name"), text(&pod["spec"], "nodeName"));
        if !story.seen.bound.insert(meta(pod, "uid").to_owned()) || pod["metadata"]["labels"]["app"] == "each" {
            continue;
        }
        // One that opens meanwhile may take it at once.
        if !story.seen.before.open.contains(node) && !open.contains(node) {
            let nodes = story.master.stored("nodes");
            let at = nodes.iter().find(|one| meta(one, "name") == node).map(|node| node["spec"].to_string());
            wrongs.push(format!("{name} was put on {node}, which takes no pods: {at:?}"));
        }
        let app = &pod["metadata"]["labels"]["app"];
        let near = pods.iter().filter(|other| text(&other["spec"], "nodeName") == node && !is_over(other));
        if *app == "apart" && near.filter(|other| other["metadata"]["labels"]["app"] == "apart").count() > 1 {
            wrongs.push(format!("{name} was put on {node} beside one that it is to be apart from"));
        }
        let others = pods.iter().filter(|other| text(&other["spec"], "nodeName") == node && !is_over(other));
        let asked: u64 = others.map(milli).sum();
        if asked > 4000 {
            let nodes = story.master.stored("nodes");
            let room = nodes
                .iter()
                .find(|one| meta(one, "name") == node)
                .map(|node| node["status"]["allocatable"].to_string());
            let there =
                pods.iter().filter(|other| text(&other["spec"], "nodeName") == node).map(|other| meta(other, "name"));
            let there: Vec<&str> = there.collect();
            wrongs.push(format!(
                "{name} was put on {node}, of which {asked} m are asked then by {there:?}; it has {room:?}"
            ));
        }
    }
}

/// Nothing is sent to a pod that is known not to be ready.
fn only_ready_pods_serve(story: &mut Story, wrongs: &mut Vec<String>) {
    let revision = story.master.revision();
    if story.asked.web.is_none() || story.seen.served_at == revision {
        return;
    }
    story.seen.served_at = revision;
    let (pods, slices) = (story.master.stored("pods"), story.master.stored_of("discovery.k8s.io", "endpointslices"));
    let unready: BTreeSet<&str> =
        of(&pods, "web").filter(|pod| condition(pod, "Ready") == "False").map(|pod| meta(pod, "uid")).collect();
    let spots = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    for spot in spots.filter(|spot| spot["conditions"]["ready"] == true) {
        if unready.contains(text(&spot["targetRef"], "uid")) {
            wrongs.push(format!("web is served by {}, which is not ready", spot["targetRef"]["name"]));
        }
    }
}
