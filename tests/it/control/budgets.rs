//! Disruption budgets in the histories: clients that ask for them, and who evicts by them, as `serve` does.

use super::bed::{Bed, key};
use super::checks::{matches, ready, text};
use super::{APPS, a_pod};
use coracle_api::meta::Key;
use coracle_api::strategy::eviction::{self, EvictionVerdict as Verdict};
use coracle_master::prepare::Part;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const KIND: &str = "poddisruptionbudgets";
const NAMES: [&str; 3] = ["few", "half", "both"];

/// Somebody wants a budget, another one, or none any more.
pub fn ask(bed: &mut Bed) {
    let (name, app) = (bed.random.pick(&NAMES), bed.random.pick(&APPS));
    let mut spec = match bed.random.below(5) {
        0 => return bed.delete(KIND, name, None),
        1 => json!({"minAvailable": "50%"}),
        2 => json!({"maxUnavailable": bed.random.below(2)}),
        3 => json!({"maxUnavailable": "30%"}),
        _ => json!({"minAvailable": bed.random.below(4)}),
    };
    spec["selector"] = json!({"matchLabels": {"app": app}});
    if !bed.create(KIND, json!({"metadata": {"name": name}, "spec": spec})) {
        bed.change(KIND, name, |budget| budget["spec"] = spec);
    }
}

/// Who evicts may die when he has counted; the pod is awaited for a while then.
pub fn evict_one(bed: &mut Bed) {
    let dies = bed.random.chance(4);
    if let Some(pod) = a_pod(bed) {
        evict(bed, &pod, dies);
    }
}

fn evict(bed: &mut Bed, pod: &Key, dies: bool) {
    let Ok(Some(stored)) = bed.store().get(pod) else { return };
    // A budget that cannot be read may guard the pod.
    if !bed.damaged(KIND).is_empty() {
        return;
    }
    let object = serde_json::from_slice(&stored.json).expect("JSON");
    let budgets: Vec<Value> = bed.objects(KIND).into_iter().map(|(_, budget)| budget).collect();
    match eviction::judge(&object, &budgets, bed.now().wall) {
        Verdict::Goes { .. } => {}
        Verdict::Counted(after) => {
            bed.tell(&format!("{} has one disruption less", after["metadata"]["name"]));
            let budget = key(KIND, text(&after["metadata"], "name"));
            bed.update(&budget, Part::Status, |budget| budget["status"] = after["status"].clone());
            if dies {
                return;
            }
        }
        Verdict::Refused { .. } | Verdict::Forbidden { .. } | Verdict::TooManyBudgets => return,
    }
    bed.bare.remove(&pod.name);
    bed.delete("pods", &pod.name, None);
}

/// Everybody is evicted who may be, while no controller counts: no budget has less than it asks for, or than it had.
pub fn drain(bed: &mut Bed) {
    let before: BTreeMap<Key, i64> =
        bed.objects(KIND).into_iter().map(|(key, budget)| (key, healthy(bed, &budget))).collect();
    for (pod, _) in bed.objects("pods") {
        evict(bed, &pod, false);
    }
    for (key, budget) in bed.objects(KIND) {
        let (was, is) = (before[&key], healthy(bed, &budget));
        let wanted = budget["status"]["desiredHealthy"].as_i64().unwrap_or_default();
        let guards_alone = bed
            .objects(KIND)
            .iter()
            .filter(|(_, other)| other["spec"]["selector"] == budget["spec"]["selector"])
            .count()
            == 1;
        assert!(is >= wanted.min(was), "{key} asks for {wanted}, had {was} and has {is}");
        // What is allowed is done, but for pods that never get ready, which may go first.
        let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
        assert!(!guards_alone || allowed == 0 || is == 0, "{key} allows {allowed} more of {is}");
    }
}

fn guarded(bed: &Bed, budget: &Value) -> Vec<(Key, Value)> {
    let selector = &budget["spec"]["selector"]["matchLabels"];
    bed.objects("pods").into_iter().filter(|(_, pod)| matches(selector, pod)).collect()
}

fn healthy(bed: &Bed, budget: &Value) -> i64 {
    let stays = |pod: &Value| ready(pod) == "True" && pod["metadata"]["deletionTimestamp"].is_null();
    guarded(bed, budget).iter().filter(|(_, pod)| stays(pod)).count() as i64
}

/// What every budget says of itself, when it is quiet.
pub fn counted(bed: &Bed) {
    for (key, budget) in bed.objects(KIND) {
        let (status, number) = (&budget["status"], |field: &str| budget["status"][field].as_i64());
        assert!(status["disruptedPods"].is_null(), "{key} still awaits pods: {status}");
        let Some((pods, wanted)) = asked(bed, &budget) else {
            assert_eq!(number("disruptionsAllowed"), Some(0), "{key} cannot be counted, and allows something");
            continue;
        };
        let healthy = healthy(bed, &budget);
        let allowed = if pods > 0 { (healthy - wanted).max(0) } else { 0 };
        let said = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"].map(number);
        assert_eq!(said, [pods, wanted, healthy, allowed].map(Some), "{key}: {}", budget["spec"]);
        assert_eq!(status["observedGeneration"], budget["metadata"]["generation"], "{key}");
    }
}

/// How many pods it is about, and how many of them are to be healthy; None: nobody knows.
fn asked(bed: &Bed, budget: &Value) -> Option<(i64, i64)> {
    if !bed.damaged("pods").is_empty() {
        return None;
    }
    let (guarded, spec) = (guarded(bed, budget), &budget["spec"]);
    if let Some(least) = spec["minAvailable"].as_i64() {
        return Some((guarded.len() as i64, least));
    }
    let controllers = bed.objects("replicationcontrollers");
    let mut owners = BTreeMap::new();
    for (_, pod) in &guarded {
        let all = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        for owner in all.filter(|owner| owner["controller"] == true) {
            let (_, controller) =
                controllers.iter().find(|(_, controller)| controller["metadata"]["uid"] == owner["uid"])?;
            owners.insert(text(owner, "uid").to_owned(), controller["spec"]["replicas"].as_i64().unwrap_or(1));
        }
    }
    let pods: i64 = owners.values().sum();
    let of = |value: &Value| match value.as_str().and_then(|text| text.trim_end_matches('%').parse::<i64>().ok()) {
        Some(share) => (share * pods + 99) / 100,
        None => value.as_i64().unwrap_or_default(),
    };
    let wanted = if spec["maxUnavailable"].is_null() {
        of(&spec["minAvailable"])
    } else {
        (pods - of(&spec["maxUnavailable"])).max(0)
    };
    Some((pods, wanted))
}
