//! The scheduler: where pods go, why they wait, and who makes room.

use super::super::intent::Memo;
use super::*;

const IN_VAIN: &str = ". no new claims to deallocate, preemption: ";

fn check(objects: &[(&'static str, Value)], expected: &[&str]) {
    assert_eq!(scheduled(objects), expected, "{objects:?}");
}

/// Why it waits on one node where nobody can help.
fn unresolvable(pod: &str, why: &str) -> String {
    let nowhere = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    format!("{pod}: 0/1 nodes are available: 1 {why}{IN_VAIN}{nowhere}")
}

/// Why it waits on one node where nobody less important stands.
fn no_victim(pod: &str, why: &str) -> String {
    let nowhere = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    format!("{pod}: 0/1 nodes are available: 1 {why}{IN_VAIN}{nowhere}")
}

fn on(node: &str, mut more: Value) -> Value {
    merge(&mut more, json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}}));
    more
}

#[test]
fn nodes_that_take_a_pod() {
    let none = || json!({});
    let one = |more: Value, asks: Value, expected: &str| check(&[node("n1", more), pod("a", asks)], &[expected]);
    check(&[pod("a", none())], &["a: no nodes available to schedule pods"]);
    one(none(), none(), "a -> n1");
    one(none(), json!({"spec": {"resources": {"requests": {"cpu": "3"}}}}), &unresolvable("a", "Insufficient cpu"));
    one(none(), json!({"spec": {"overhead": {"cpu": "3"}}}), &unresolvable("a", "Insufficient cpu"));
    let init = json!({"name": "i", "image": "i", "resources": {"requests": {"cpu": "2500m"}}});
    one(none(), json!({"spec": {"initContainers": [init]}}), &unresolvable("a", "Insufficient cpu"));
    let card = json!({"spec": {"resources": {"requests": {"example.com/card": "1"}}}});
    one(none(), card.clone(), &unresolvable("a", "Insufficient example.com/card"));
    one(json!({"status": {"allocatable": {"example.com/card": "2"}}}), card, "a -> n1");
    one(json!({"spec": {"unschedulable": true}}), none(), &unresolvable("a", "node(s) were unschedulable"));
    one(
        none(),
        json!({"spec": {"nodeSelector": {"zone": "n2"}}}),
        &unresolvable("a", "node(s) didn't match Pod's node affinity/selector"),
    );
    // Nobody knows anything of a node that has not said how it is.
    one(json!({"status": {"conditions": []}}), none(), &unresolvable("a", "node(s) were not ready"));
    let mut silent = node("n1", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    silent.1["status"].as_object_mut().expect("a status").remove("allocatable");
    check(&[silent, pod("a", none())], &[&unresolvable("a", "node(s) were not ready")]);
    let tainted = || json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    one(tainted(), none(), &unresolvable("a", "node(s) had untolerated taint(s)"));
    for toleration in
        [json!({"operator": "Exists"}), json!({"key": "k", "value": "v"}), json!({"key": "k", "operator": "Exists"})]
    {
        one(tainted(), json!({"spec": {"tolerations": [toleration]}}), "a -> n1");
    }
    let taken = no_victim("b", "node(s) didn't have free ports for the requested pod ports");
    check(
        &[node("n1", none()), pod("a", host_port(8000)), pod("b", host_port(8000)), pod("c", host_port(8001))],
        &["a -> n1", &taken, "c -> n1"],
    );
}

#[test]
fn what_is_taken() {
    let none = || json!({});
    let small = |name: &str| node(name, json!({"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "1"}}}));
    check(&[small("n1"), pod("a", none()), pod("b", none())], &["a -> n1", &no_victim("b", "Too many pods")]);
    let full = no_victim("a", "Insufficient cpu");
    check(&[node("n1", none()), pod("z", on("n1", asking("1500m", "1Mi"))), pod("a", asking("600m", "1Mi"))], &[&full]);
    // One that is being deleted still stands there; one that has ended does not.
    let mut ended = on("n1", asking("2", "1Mi"));
    merge(&mut ended, json!({"status": {"phase": "Succeeded"}}));
    check(&[node("n1", none()), pod("z", ended), pod("a", asking("600m", "1Mi"))], &["a -> n1"]);
    let gated = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
    check(&[node("n1", none()), pod("a", gated)], &[]);
    check(&[node("n1", none()), pod("a", json!({"spec": {"schedulerName": "mine"}}))], &[]);
}

#[test]
fn the_best_of_several() {
    let none = || json!({});
    let two = |more: Value| [node("n1", none()), node("n2", more)];
    let mut objects = two(none()).to_vec();
    objects.extend([pod("a", none()), pod("b", none()), pod("c", none())]);
    check(&objects, &["a -> n1", "b -> n2", "c -> n1"]);
    let [one, other] = two(none());
    check(&[one, other, pod("z", on("n1", asking("1500m", "1Mi"))), pod("a", none())], &["a -> n2"]);
    let [one, other] = two(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    let wishes = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}});
    check(&[one, other, pod("a", json!({"spec": {"affinity": wishes}}))], &["a -> n2"]);
    let dislike = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    check(&[node("n1", dislike), node("n2", none()), pod("a", none())], &["a -> n2"]);
}

#[test]
fn pods_near_and_far() {
    let none = || json!({});
    let rule = |kind: &str, app: &str| {
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}});
        json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    };
    let standing = || pod("z", on("n2", json!({"metadata": {"labels": {"app": "db"}}})));
    check(&[node("n1", none()), node("n2", none()), standing(), pod("a", rule("podAffinity", "db"))], &["a -> n2"]);
    check(&[node("n1", none()), node("n2", none()), standing(), pod("a", rule("podAntiAffinity", "db"))], &["a -> n1"]);
    check(
        &[node("n1", none()), pod("a", rule("podAffinity", "none"))],
        &[&unresolvable("a", "node(s) didn't match pod affinity rules")],
    );
    // The first of a group that wants its own.
    check(&[node("n1", none()), pod("a", rule("podAffinity", "web"))], &["a -> n1"]);
    // Who stands may want others far.
    let alone = on("n1", rule("podAntiAffinity", "web"));
    let kept = no_victim("a", "node(s) didn't satisfy existing pods anti-affinity rules");
    check(&[node("n1", none()), pod("z", alone), pod("a", none())], &[&kept]);
    let spread = |skew: i64| {
        let constraint = json!({"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        json!({"spec": {"topologySpreadConstraints": [constraint], "nodeSelector": {"zone": "n1"}}})
    };
    let one = |skew| [node("n1", none()), pod("z", on("n1", none())), pod("a", spread(skew))];
    check(&one(1), &["a -> n1"]);
    let key = json!({
        "spec": {
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        },
    });
    let lacks = unresolvable("a", "node(s) didn't match pod topology spread constraints (missing required label)");
    check(&[node("n1", none()), pod("a", key)], &[&lacks]);
}

/// Who goes, on which node, and what the pod that waits says.
#[test]
fn others_make_room() {
    let important = |mut more: Value| {
        merge(&mut more, json!({"spec": {"priority": 1000}}));
        more
    };
    let preempted = |objects: &[(&'static str, Value)]| {
        let decision = decide(&cluster(objects), "scheduler", schedule::key(), at(MINUTE));
        let line = |intent: &Intent| match intent {
            Intent::Disrupt { key, .. } => Some(format!("{} goes", key.name)),
            Intent::Status { key, status, .. } => Some(format!(
                "{} on {}: {}",
                key.name,
                status["nominatedNodeName"].as_str().unwrap_or("none"),
                status["conditions"][0]["message"].as_str().unwrap_or_default()
            )),
            _ => None,
        };
        decision.intents.iter().filter_map(line).collect::<Vec<String>>()
    };
    let n1 = || node("n1", json!({}));
    let high = || pod("high", important(asking("1500m", "1Mi")));
    let mut middle = on("n1", asking("1", "1Mi"));
    merge(&mut middle, json!({"spec": {"priority": 10}}));
    let low = || pod("low", on("n1", asking("1", "1Mi")));
    // As few and as little as possible: both must go for 1500m of 2 cpus, the lower one alone for 1.
    let short = "high on n1: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(preempted(&[n1(), pod("mid", middle.clone()), low(), high()]), ["mid goes", "low goes", short]);
    let less = pod("high", important(asking("1", "1Mi")));
    assert_eq!(preempted(&[n1(), pod("mid", middle), low(), less.clone()]), ["low goes", short]);
    let mut never = less;
    merge(&mut never.1, json!({"spec": {"preemptionPolicy": "Never"}}));
    let full = pod("low", on("n1", asking("2", "1Mi")));
    let why = format!(
        "high on none: 0/1 nodes are available: 1 Insufficient cpu{IN_VAIN}not eligible due to preemptionPolicy=Never."
    );
    assert_eq!(preempted(&[n1(), full.clone(), never]), [why]);
    // Who waits for a node that is made free keeps others of no more importance off it.
    let mut waits = pod("high", important(asking("2", "1Mi")));
    merge(&mut waits.1, json!({"status": {"nominatedNodeName": "n1"}}));
    let kept = no_victim("b", "Insufficient cpu").replace("b:", "b on none:");
    let said = preempted(&[n1(), waits, pod("b", asking("1", "1Mi"))]);
    assert!(said.contains(&kept) || said.is_empty(), "{said:?}");
    // A node where fewer go.
    let three = [
        n1(),
        node("n2", json!({})),
        low(),
        pod("low2", on("n1", asking("1", "1Mi"))),
        pod("one", on("n2", asking("2", "1Mi"))),
    ];
    let mut objects = three.to_vec();
    objects.push(pod("high", important(asking("2", "1Mi"))));
    assert_eq!(preempted(&objects), ["one goes", "high on n2: 0/2 nodes are available: 2 Insufficient cpu."]);
}

fn look(cluster: &Cluster, memo: Option<&Memo>, uptime: Duration) -> Decision {
    let controllers = Controllers::builtin();
    let owner = controllers.owner("scheduler", schedule::key()).expect("a row");
    let (now, refusal, contents, memory) = (at(uptime), None, None, None);
    (controllers.row(&owner).decide)(&Look { cluster, key: &owner.key, now, refusal, contents, memory, memo })
}

fn put(cluster: &mut Cluster, (plural, object): (&'static str, Value), revision: u64) {
    let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
    cluster.apply(&event(plural, revision, Some(object), &name), MINUTE);
}

/// A pod that found no place is looked at again when something has happened that may help it, and not before.
#[test]
fn nobody_is_tried_in_vain() {
    let mut cluster =
        cluster(&[node("n1", json!({})), pod("z", on("n1", asking("1500m", "1Mi"))), pod("a", asking("1", "1Mi"))]);
    let first = look(&cluster, None, MINUTE);
    assert_eq!(first.intents.len(), 2, "{first:?}");
    // A heartbeat, and a pod that comes.
    put(&mut cluster, node("n1", json!({"metadata": {"annotations": {"x": "y"}}})), 10);
    put(&mut cluster, pod("y", on("n1", json!({}))), 11);
    let second = look(&cluster, first.memo.as_ref(), MINUTE);
    assert!(second.intents.is_empty(), "{second:?}");
    cluster.apply(&event("pods", 12, None, "z"), MINUTE);
    let third = look(&cluster, second.memo.as_ref(), MINUTE);
    assert!(matches!(&third.intents[0], Intent::Bind { node, .. } if node == "n1"), "{third:?}");
    assert!(third.memo.is_none());
}

/// Each of fifty nodes that come together may help; a pod that was refused again and again waits for the next second,
/// unless it was changed itself.
#[test]
fn who_is_refused_again_and_again_waits_for_a_second() {
    let tainted =
        |value: &str| node("n1", json!({"spec": {"taints": [{"key": "k", "value": value, "effect": "NoSchedule"}]}}));
    let mut cluster = cluster(&[tainted("v0"), pod("a", json!({}))]);
    let mut decision = look(&cluster, None, MINUTE);
    for revision in 10..12 {
        put(&mut cluster, tainted(&format!("v{revision}")), revision);
        decision = look(&cluster, decision.memo.as_ref(), MINUTE);
        assert_eq!(decision.wake_at, None);
    }
    put(&mut cluster, node("n1", json!({})), 12);
    let waits = look(&cluster, decision.memo.as_ref(), MINUTE);
    assert!(waits.intents.is_empty(), "{waits:?}");
    let next = MINUTE + Duration::from_secs(1);
    assert_eq!(waits.wake_at, Some(next));
    let bound = |decision: &Decision| matches!(&decision.intents[..], [Intent::Bind { node, .. }, ..] if node == "n1");
    assert!(bound(&look(&cluster, waits.memo.as_ref(), next)));
    put(&mut cluster, pod("a", json!({"metadata": {"labels": {"b": "c"}}})), 13);
    assert!(bound(&look(&cluster, waits.memo.as_ref(), MINUTE)));
}
