//! Deployments and StatefulSets through random histories: templates change, rollouts rest and go on, pods are deleted,
//! the master dies. At every step no more pods than there may be, none missing that the controllers need not have
//! deleted, and StatefulSets in order; then quiet, and all is as it was asked for.

use super::NODES;
use super::bed::{Bed, key};
use coracle_api::meta::Key;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Histories, in this order of seeds.
const HISTORIES: u64 = 60;
const OPERATIONS: u64 = 25;
const IMAGES: [&str; 3] = ["a:1", "a:2", "a:3"];
const WEB: &str = "web";
const DB: &str = "db";

#[test]
fn rollouts_keep_their_bounds() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("CORACLE_SEED") {
        return history(seed, true);
    }
    for seed in 0..number("CORACLE_HISTORIES").unwrap_or(HISTORIES) {
        let done = std::panic::catch_unwind(|| history(seed, false));
        assert!(done.is_ok(), "run this history alone: CORACLE_SEED={seed} make some WORDS=rollouts");
    }
}

/// What was asked for.
struct Asked {
    replicas: i64,
    surge: i64,
    unavailable: i64,
    ordered: bool,
}

fn history(seed: u64, verbose: bool) {
    let mut bed = Bed::new(seed, verbose);
    bed.healthy = true;
    bed.speaking.extend(NODES.map(str::to_owned));
    let asked = ask(&mut bed);
    let mut seen = Seen::default();
    for _ in 0..OPERATIONS {
        operation(&mut bed, &mut seen);
        for _ in 0..bed.random.below(6) {
            step(&mut bed, &asked, &mut seen);
        }
    }
    bed.change("deployments", WEB, |web| web["spec"]["paused"] = false.into());
    bed.settle();
    is_rolled_out(&bed, &asked);
    let revision = bed.store().revision();
    bed.settle();
    assert_eq!(bed.store().revision(), revision, "a converged cluster writes nothing");
    bed.crash();
    bed.settle();
    is_rolled_out(&bed, &asked);
}

fn ask(bed: &mut Bed) -> Asked {
    let replicas = 1 + bed.random.below(5) as i64;
    let (surge, unavailable) = [(1, 0), (0, 1), (2, 1), (3, 0)][bed.random.below(4) as usize];
    let unavailable = unavailable.min(replicas);
    let ordered = bed.random.below(3) > 0;
    let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let spec =
        |app: &str| json!({"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app)});
    let mut web = json!({"metadata": {"name": WEB}, "spec": spec(WEB)});
    web["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    bed.create("deployments", web);
    let mut db = json!({"metadata": {"name": DB}, "spec": spec(DB)});
    db["spec"]["podManagementPolicy"] = if ordered { "OrderedReady" } else { "Parallel" }.into();
    bed.create("statefulsets", db);
    Asked { replicas, surge, unavailable, ordered }
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": IMAGES[0]}]}})
}

fn operation(bed: &mut Bed, seen: &mut Seen) {
    let image = IMAGES[bed.random.below(3) as usize];
    let set = |object: &mut Value| object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    match bed.random.below(10) {
        0..3 => bed.change("deployments", WEB, set),
        3..5 => bed.change("statefulsets", DB, set),
        5 => bed.change("deployments", WEB, |web| {
            let paused = web["spec"]["paused"] == true;
            web["spec"]["paused"] = (!paused).into();
        }),
        6 => {
            let pods = bed.objects("pods");
            if !pods.is_empty() {
                let at = bed.random.below(pods.len() as u64) as usize;
                bed.delete("pods", &pods[at].0.name, None);
            }
        }
        7 => {
            bed.crash();
            // What was ready is not known any more.
            seen.ready.clear();
        }
        _ => bed.pass(5),
    }
}

/// How the cluster was after the last step.
#[derive(Default)]
struct Seen {
    /// The uids of ready pods of the Deployment.
    ready: BTreeSet<String>,
    /// The uids of all pods of the StatefulSet.
    known: BTreeSet<String>,
}

fn step(bed: &mut Bed, asked: &Asked, seen: &mut Seen) {
    bed.agents();
    seen.ready = ready(bed, WEB);
    let before = seen.ready.len() as i64;
    bed.step();
    let sizes = |set: &(Key, Value)| set.1["spec"]["replicas"].as_i64().unwrap_or_default();
    let size: i64 = bed.objects("replicasets").iter().map(sizes).sum();
    assert!(size <= asked.replicas + asked.surge, "{size} pods, and {} + {} may be", asked.replicas, asked.surge);
    let after = ready(bed, WEB).len() as i64;
    let needed = asked.replicas - asked.unavailable.max(i64::from(asked.surge == 0));
    assert!(after >= before || after >= needed, "{before} pods were ready, {after} are, and {needed} are needed");
    in_order(bed, asked, seen);
}

/// Ready pods that nobody deletes.
fn ready(bed: &Bed, app: &str) -> BTreeSet<String> {
    let pods =
        bed.objects("pods").into_iter().map(|(_, pod)| pod).filter(|pod| pod["metadata"]["labels"]["app"] == *app);
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        pod["metadata"]["deletionTimestamp"].is_null()
            && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    pods.filter(is_ready).map(|pod| uid(&pod)).collect()
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// A new pod of the StatefulSet has all before it ready.
fn in_order(bed: &Bed, asked: &Asked, seen: &mut Seen) {
    let pods: BTreeMap<i64, Value> = bed
        .objects("pods")
        .into_iter()
        .filter_map(|(key, pod)| {
            let nth = key.name.strip_prefix("db-")?.parse().ok()?;
            Some((nth, pod))
        })
        .collect();
    let ready = ready(bed, DB);
    for (nth, pod) in &pods {
        assert!(*nth < asked.replicas, "db-{nth} was not asked for");
        let new = seen.known.insert(uid(pod));
        let before = (0..*nth).all(|one| pods.get(&one).is_some_and(|pod| ready.contains(&uid(pod))));
        assert!(!new || before || !asked.ordered, "db-{nth} came before its turn");
    }
}

fn is_rolled_out(bed: &Bed, asked: &Asked) {
    let one = |plural: &'static str, name: &str| {
        let found = bed.store().get(&key(plural, name)).expect("no damage").expect("an object");
        serde_json::from_slice::<Value>(&found.json).expect("JSON")
    };
    let image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let web = one("deployments", WEB);
    for (key, set) in bed.objects("replicasets") {
        let expected = if image(&set) == image(&web) { asked.replicas } else { 0 };
        assert_eq!(set["spec"]["replicas"], expected, "{key}");
    }
    let status = &web["status"];
    for field in ["replicas", "updatedReplicas", "availableReplicas"] {
        assert_eq!(status[field], asked.replicas, "{field} of {status}");
    }
    let done = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .any(|one| one["reason"] == "NewReplicaSetAvailable");
    assert!(done, "{status}");
    let db = one("statefulsets", DB);
    assert_eq!(db["status"]["updatedReplicas"], asked.replicas, "{}", db["status"]);
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    for (key, pod) in bed.objects("pods").iter().filter(|(key, _)| key.name.starts_with("db-")) {
        assert_eq!(pod["spec"]["containers"][0]["image"], image(&db), "{key}");
    }
}
