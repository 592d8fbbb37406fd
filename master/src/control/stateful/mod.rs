//! StatefulSets: pods with numbers, each with its claims. They come in order, from the lowest number up, and go from
//! the highest down; `Parallel` makes and deletes them at once. An update goes from the highest number down to the
//! partition, one pod at a time. PURE.

mod identity;
mod order;
mod retention;
mod seen;
mod status;
mod view;

pub use identity::{by_claim, by_pod};
pub use view::{OwnedClaimView, StatefulSetView};

use super::cluster::Cluster;
use super::controller::Look;
use super::intent::{Decision, Doing, EventDraft, Intent, Refusal};
use super::replicas::{self, Pod};
use super::revisions::{self, Present, REVISIONS};
use super::template;
use super::view::{PODS, document};
use coracle_api::meta::Key;
use seen::Seen;
use serde_json::{Value, json};

pub fn decide(look: &Look<'_>) -> Decision {
    let (cluster, key) = (look.cluster, look.key);
    let Some(set) = cluster.get::<StatefulSetView>(key) else { return Decision::default() };
    let mut intents = Vec::new();
    let revisions = revisions::claim(cluster, key, &set.template, &mut intents);
    let pods =
        replicas::claim_of(cluster, key, &set.template, &|pod| identity::ordinal(key, pod).is_some(), &mut intents);
    if !intents.is_empty() {
        return Decision::of(intents);
    }
    let document = document(&set.template.document);
    let data = revisions::data(&document["spec"]["template"]);
    let collisions = set.status.collision_count.unwrap_or_default();
    let hash = |collisions: i32| hash(&data, collisions);
    let identity = template::identity(&data["spec"]["template"]);
    let (update, collisions) = match revisions::present(cluster, key, &revisions, identity, collisions, hash) {
        Present::Stands(update) => (update, collisions),
        Present::Needs(intent) => return Decision::of(vec![*intent]),
        // Garbage collection decides about a set that is being deleted: no revision is made.
        Present::Missing { .. } if set.template.deleting => return Decision::default(),
        Present::Missing { name, hash, collisions } => {
            let number = revisions::next_number(&revisions);
            let made = revision(key, set, &document, (name, hash), (data, number));
            let count = (collisions > 0).then(|| status::collided(key, set, collisions));
            return Decision::of([Some(made), count].into_iter().flatten().collect());
        }
    };
    let current = revisions.iter().find(|(key, _)| key.name == set.status.current_revision).copied().unwrap_or(update);
    let (kept, condemned) =
        pods.all().filter_map(|pod| Some((identity::ordinal(key, pod.0)?, pod))).partition(|(nth, _)| set.wants(*nth));
    let seen = Seen { cluster, now: look.now, key, set, kept, condemned, current, update, collisions };
    let mut decision = order::next(&seen);
    decision.intents.extend(revisions::clean_up(&revisions, set.history, |(key, _)| {
        let of_pod = |(_, pod): Pod<'_>| pod.labels().get(identity::REVISION) == Some(&key.name);
        key.name == current.0.name || key.name == update.0.name || seen.pods().any(of_pod)
    }));
    decision
}

/// Of the data as Kubernetes writes it, and of how often a name was taken: the same template has the same hash there.
fn hash(data: &Value, collisions: i32) -> String {
    // Go writes JSON that can stand in HTML.
    let escaped =
        [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")];
    let data = escaped.iter().fold(data.to_string(), |text, (letter, escape)| text.replace(letter, escape));
    let collisions = collisions.to_string();
    template::encoded(template::fnv1_32(data.as_bytes().iter().chain(collisions.as_bytes())))
}

fn revision(
    key: &Key,
    set: &StatefulSetView,
    document: &Value,
    (name, hash): (String, String),
    (data, number): (Value, i64),
) -> Intent {
    let mut labels = document["spec"]["template"]["metadata"]["labels"].clone();
    labels["controller.kubernetes.io/hash"] = hash.into();
    let mut object = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [set.template.reference(key)]},
        "data": data,
        "revision": number,
    });
    if !document["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"] = document["metadata"]["annotations"].clone();
    }
    Intent::Create { resource: REVISIONS, namespace: key.namespace.clone(), object }
}

/// What could not be done for a pod of the set.
pub fn refused(cluster: &Cluster, key: &Key, refusal: &Refusal) -> Option<EventDraft> {
    let parent = &cluster.get::<StatefulSetView>(key)?.template;
    let why = &refusal.why;
    let (reason, words) = match &refusal.doing {
        Doing::Making(resource, pod) if *resource == PODS => {
            ("FailedCreate", format!("Create Pod {pod} in StatefulSet {} failed error: {why}", key.name))
        }
        Doing::Making(resource, claim) if *resource == view::CLAIMS => {
            let nth = claim.rsplit('-').next().unwrap_or_default();
            (
                "FailedCreate",
                format!(
                    "Create Claim {claim} for Pod {}-{nth} in StatefulSet {} failed error: {why}",
                    key.name, key.name
                ),
            )
        }
        Doing::Deleting(pod) if pod.resource == PODS => {
            ("FailedDelete", format!("Delete Pod {} in StatefulSet {} failed error: {why}", pod.name, key.name))
        }
        _ => return None,
    };
    Some(parent.warn(key, reason, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_kubernetes() {
        let container = json!({
            "name": "c", "image": "fake:1", "imagePullPolicy": "IfNotPresent", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        });
        let template = json!({
            "metadata": {"annotations": {"fake/ready-after": "600ms"}, "labels": {"app": "web"}},
            "spec": {
                "containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
        });
        assert_eq!(hash(&revisions::data(&template), 0), "5d95f98fb");
        assert_ne!(hash(&revisions::data(&template), 1), "5d95f98fb");
    }
}
