//! Pods that have ended, and leases of nodes that are gone.

use super::super::nodes::ABSENCE_MAX;
use super::super::pod_garbage::{self, ENDED_MAX};
use super::super::view::{LEASES, NODE_LEASES, PODS};
use super::*;

fn deleted(decision: Decision) -> Vec<String> {
    let name = |intent: Intent| match intent {
        Intent::Delete { key, .. } => key.name,
        other => panic!("{other:?}"),
    };
    decision.intents.into_iter().map(name).collect()
}

#[test]
fn the_oldest_pods_that_have_ended_go() {
    let ended = |nth: usize, phase: &str| {
        let created = format!("2027-01-01T{:02}:{:02}:00Z", nth / 60, nth % 60);
        pod(&format!("p{nth:04}"), json!({"metadata": {"creationTimestamp": created}, "status": {"phase": phase}}))
    };
    let decided = |cluster: &Cluster| deleted(decide(cluster, "pod garbage", pod_garbage::key(), at(MINUTE)));
    let mut objects: Vec<_> = (0..ENDED_MAX).map(|nth| ended(nth, "Succeeded")).collect();
    assert!(decided(&cluster(&objects)).is_empty(), "so many may be there");
    objects.push(ended(ENDED_MAX, "Failed"));
    objects.push(ended(ENDED_MAX + 1, "Failed"));
    objects.push(ended(ENDED_MAX + 2, "Running"));
    let mut full = cluster(&objects);
    assert_eq!(decided(&full), ["p0000", "p0001"]);
    // One that goes already is none too many, and one that begins anew is none that has ended.
    let (_, mut going) = ended(0, "Succeeded");
    merge(&mut going, json!({"metadata": {"deletionTimestamp": "2027-01-02T00:00:00Z"}}));
    full.apply(&event("pods", 9000, Some(going), "p0000"), MINUTE);
    assert_eq!(decided(&full), ["p0001"]);
    full.apply(&event("pods", 9001, None, "p0001"), MINUTE);
    assert!(decided(&full).is_empty());
    assert!(full.pod(&Key { resource: PODS, namespace: "default".into(), name: "p0002".into() }).is_some());
}

#[test]
fn a_lease_goes_some_time_after_its_node() {
    let lease = Arc::new(Key { resource: LEASES, namespace: NODE_LEASES.to_owned(), name: "n".to_owned() });
    let put = |cluster: &mut Cluster, revision: u64, uptime: Duration| {
        let document = json!({"metadata": {"namespace": NODE_LEASES, "name": "n"}});
        let stored = Stored::new(lease.clone(), Revision(revision), document.to_string().into(), Default::default());
        let event =
            Event { revision: Revision(revision), key: lease.clone(), old: None, new: Some(stored), renewed: false };
        cluster.apply(&event, uptime);
    };
    let look = |cluster: &Cluster, uptime: Duration| decide(cluster, "nodes", node_key("n"), at(uptime));
    let mut with_node = cluster(&[node("n", json!({}))]);
    put(&mut with_node, 100, MINUTE);
    assert!(look(&with_node, MINUTE).intents.iter().all(|intent| !matches!(intent, Intent::Delete { .. })));
    let mut without = empty();
    put(&mut without, 1, MINUTE);
    let first = look(&without, MINUTE);
    assert_eq!((first.intents.len(), first.wake_at), (0, Some(MINUTE + ABSENCE_MAX)), "its node may register yet");
    // Somebody renews it.
    put(&mut without, 2, MINUTE + ABSENCE_MAX);
    assert_eq!(look(&without, MINUTE + ABSENCE_MAX).wake_at, Some(MINUTE + ABSENCE_MAX * 2));
    assert_eq!(deleted(look(&without, MINUTE + ABSENCE_MAX * 2)), ["n"]);
    assert!(
        Controllers::builtin().all(&without).iter().any(|owner| owner.controller == "nodes" && owner.key.name == "n")
    );
    without.damaged.insert(node_key("n"));
    assert!(look(&without, MINUTE + ABSENCE_MAX * 2).intents.is_empty(), "a node that cannot be read is there");
}
