//! A controller that the master does not know is one file, this one, and one row.

use super::bed::{Bed, key};
use coracle_api::meta::{Key, Resource, Revision};
use coracle_master::control::{
    Cluster, Controller, Controllers, Decision, Follow, Gate, Intent, Look, ObservedChange, Rest, Step, View,
};
use coracle_master::control::{all, itself, wakes};
use coracle_master::store::Stored;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Labels secrets that have been there for a minute and have a pod of the same name.
fn labels() -> Controller {
    Controller::new("labels", all::<SecretView>, decide)
        .follows(Follow::view::<SecretView>(itself))
        .follows(Follow::pods(namesake))
}

struct SecretView {
    revision: Revision,
    /// The uptime at which it was first seen.
    came: Duration,
    document: Stored,
}

impl View for SecretView {
    const OF: &'static [Resource] = &[Resource::core("secrets")];

    fn read(stored: &Stored, was: Option<&SecretView>, uptime: Duration) -> Option<SecretView> {
        Some(SecretView {
            revision: stored.revision,
            came: was.map_or(uptime, |was| was.came),
            document: stored.clone(),
        })
    }
}

fn namesake(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    vec![Key { resource: Resource::core("secrets"), ..change.key.clone() }]
}

fn decide(look: &Look<'_>) -> Decision {
    let Some(secret) = look.cluster.get::<SecretView>(look.key) else { return Decision::default() };
    let pod = Key { resource: Resource::core("pods"), ..look.key.clone() };
    if look.cluster.pod(&pod).is_none() || secret.document.labels.get("old").is_some() {
        return Decision::default();
    }
    let due = secret.came + MINUTE;
    if look.now.uptime < due {
        return Decision::later(due);
    }
    let mut object: Value = serde_json::from_slice(&secret.document.json).expect("JSON");
    object["metadata"]["labels"]["old"] = "true".into();
    Decision::of(vec![Intent::Update { key: look.key.clone(), seen: secret.revision, object }])
}

#[test]
fn a_made_up_controller_is_a_row() {
    let mut bed = Bed::new(1, false);
    let secret = |name: &str| json!({"metadata": {"name": name}, "type": "Opaque"});
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let labelled = |bed: &Bed| -> Vec<String> {
        let secrets = bed.objects("secrets").into_iter();
        secrets.filter(|(_, secret)| secret["metadata"]["labels"]["old"] == "true").map(|(key, _)| key.name).collect()
    };
    bed.create("secrets", secret("a"));
    bed.create("secrets", secret("alone"));
    bed.create("pods", pod("a"));
    let gate = Gate::new(Arc::new(bed.registry()));
    let mut step = Step::new(bed.store().clone(), gate, Controllers::of(vec![labels()]), wakes(), bed.now());
    let began = bed.now().uptime;
    // What the store held at the start.
    assert_eq!((step.step(bed.now()), labelled(&bed)), (Rest::Until(Some(began + MINUTE)), vec![]));
    bed.pass(30);
    bed.create("secrets", secret("b"));
    bed.create("pods", pod("b"));
    // A change does not make it younger.
    bed.change("secrets", "a", |secret| secret["stringData"] = json!({"x": "y"}));
    assert_eq!((step.step(bed.now()), labelled(&bed)), (Rest::Until(Some(began + MINUTE)), vec![]));
    bed.pass(30);
    assert_eq!(step.step(bed.now()), Rest::Until(Some(began + MINUTE + MINUTE / 2)));
    assert_eq!(labelled(&bed), ["a"]);
    bed.pass(30);
    assert_eq!((step.step(bed.now()), labelled(&bed)), (Rest::Until(None), vec!["a".to_owned(), "b".to_owned()]));
    // Its pod comes late: an event of another kind than its own.
    bed.create("pods", pod("alone"));
    step.step(bed.now());
    assert_eq!(labelled(&bed), ["a", "alone", "b"]);
    // The full pass finds nothing to do.
    let keys: Vec<Key> = step.all().into_iter().map(|owner| owner.key).collect();
    assert_eq!(keys, ["a", "alone", "b"].map(|name| key("secrets", name)));
    assert!(step.all().iter().all(|owner| step.decide(owner, bed.now()) == Decision::default()));
}
