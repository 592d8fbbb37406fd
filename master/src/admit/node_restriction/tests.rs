use super::super::tests::{Objects, ask_as};
use super::super::{AdmissionOperation, judge, mutate};
use super::*;
use coracle_http::Identity;
use serde_json::json;

fn node(name: &str) -> Identity {
    let groups = vec!["system:nodes".to_owned(), "system:authenticated".to_owned()];
    Identity { user: format!("system:node:{name}"), groups, ..Identity::default() }
}

fn cluster() -> Objects {
    let pod = |name: &str, node: &str| {
        json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
            "spec": {"nodeName": node, "serviceAccountName": "default", "volumes": [
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
                {"name": "d", "csi": {"driver": "driver"}}]}})
    };
    let driver = Resource { group: "storage.k8s.io".into(), plural: "csidrivers".into() };
    Objects::default()
        .with(Resource::core("nodes"), json!({"metadata": {"name": "n1", "uid": "u1"}}))
        .with(Resource::core("pods"), pod("a", "n1"))
        .with(Resource::core("pods"), pod("b", "n2"))
        .with(driver, json!({"metadata": {"name": "driver"}, "spec": {"tokenRequests": [{"audience": "of-driver"}]}}))
}

/// The refusal of a change by node n1; empty if there is none.
fn refusal(text: &str, operation: AdmissionOperation, (name, old, object): (&str, Option<&Value>, &Value)) -> String {
    let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
    let subresource =
        ["", "status", "eviction", "token", "resize"].into_iter().find(|known| *known == subresource).expect("known");
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let resource = Resource { group: group.to_owned().into(), plural: plural.to_owned().into() };
    let judged = ask_as(&cluster(), &node("n1"), (&resource, subresource), (operation, name, old), |request| {
        let rows = RESOURCES.contains(&text);
        assert!(rows, "{text} has a row");
        restrict(request, object)
    });
    match judged {
        Ok(()) => String::new(),
        Err(Refusal::Forbidden(why)) => why,
        Err(other) => format!("{other:?}"),
    }
}

fn mirror(change: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({"metadata": {"name": "m", "annotations": {MIRROR: "x"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}});
    change(&mut pod);
    pod
}

#[test]
fn mirror_pods_are_made_by_nodes_alone() {
    let plain = json!({"metadata": {"name": "m"}, "spec": {"containers": [{"name": "c"}]}});
    let who = |user: &str, groups: &[&str]| Identity {
        user: user.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    };
    let why = "only a node can create mirror pods, of the pods that it runs from its own files";
    for (identity, expected) in [
        (node("n1"), ""),
        (who("system:admin", &["system:masters"]), ""),
        (who("eve", &["system:authenticated"]), why),
        (who("system:node:n1", &["system:authenticated"]), why),
        (who("system:serviceaccount:kube-system:replicaset-controller", &["system:serviceaccounts"]), why),
    ] {
        let judge = |pod: &Value| {
            let about = (&Resource::core("pods"), "");
            ask_as(&cluster(), &identity, about, (Create, "", None), |request| restrict(request, pod))
        };
        let expected = if expected.is_empty() { Ok(()) } else { Err(Refusal::from(expected.to_owned())) };
        assert_eq!(judge(&mirror(|_| {})), expected, "{}", identity.user);
        if identity.user != "system:node:n1" || expected.is_err() {
            assert_eq!(judge(&plain), Ok(()), "{}", identity.user);
        }
    }
}

#[test]
fn pods_that_a_node_makes() {
    let owner = |pod: &mut Value, field: &str, value: Value| pod["metadata"]["ownerReferences"][0][field] = value;
    type Edit<'a> = &'a dyn Fn(&mut Value);
    let table: &[(Edit<'_>, &str)] = &[
        (&|_| {}, ""),
        (
            &|pod| pod["metadata"]["annotations"] = json!({}),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
        ),
        (
            &|pod| pod["spec"]["nodeName"] = json!("n2"),
            "node \"n1\" can only create pods with spec.nodeName set to itself",
        ),
        (
            &|pod| pod["metadata"]["ownerReferences"] = json!([]),
            "node \"n1\" can only create pods with an owner reference set to itself",
        ),
        (
            &|pod| pod["metadata"]["ownerReferences"] = json!([{}, {}]),
            "node \"n1\" can only create pods with a single owner reference set to itself",
        ),
        (
            &|pod| owner(pod, "name", json!("n2")),
            "node \"n1\" can only create pods with an owner reference set to itself",
        ),
        (
            &|pod| owner(pod, "controller", json!(false)),
            "node \"n1\" can only create pods with a controller owner reference set to itself",
        ),
        (
            &|pod| owner(pod, "blockOwnerDeletion", json!(true)),
            "node \"n1\" must not set blockOwnerDeletion on an owner reference",
        ),
        (&|pod| owner(pod, "uid", json!("u0")), "node n1 UID mismatch: expected u0 got u1"),
        (
            &|pod| pod["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "c"}}]),
            "node \"n1\" can not create pods that reference configmaps",
        ),
        (
            &|pod| pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            "node \"n1\" can not create pods that reference persistentvolumeclaims",
        ),
        (
            &|pod| pod["spec"]["resourceClaims"] = json!([{"name": "r", "resourceClaimName": "x"}]),
            "node \"n1\" can not create pods that reference resourceclaims",
        ),
    ];
    for (change, expected) in table {
        let pod = mirror(change);
        assert_eq!(refusal("pods", Create, ("", None, &pod)), *expected, "{pod}");
    }
}

#[test]
fn pods_of_a_node() {
    let pod = |node: &str| json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeName": node}});
    let (own, foreign) = (pod("n1"), pod("n2"));
    let null = Value::Null;
    let delete = |old| refusal("pods", Delete, ("p", old, &null));
    assert_eq!(delete(Some(&own)), "");
    assert_eq!(delete(Some(&foreign)), "node \"n1\" can only delete pods with spec.nodeName set to itself");
    assert_eq!(delete(None), "node \"n1\" can only delete pods that can be read");
    let why = "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods";
    assert_eq!(refusal("pods", Update, ("p", Some(&own), &own)), why);
    let why = "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed";
    assert_eq!(refusal("pods/resize", Update, ("p", Some(&own), &own)), why);
    let status = |old: &Value, change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        refusal("pods/status", Update, ("p", Some(old), &new))
    };
    assert_eq!(status(&own, &|pod| pod["status"] = json!({"phase": "Running"})), "");
    assert_eq!(
        status(&foreign, &|_| {}),
        "node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
    );
    let why = "node \"n1\" cannot update labels through pod status";
    assert_eq!(status(&own, &|pod| pod["metadata"]["labels"] = json!({"a": "c"})), why);
    assert_eq!(status(&own, &|pod| pod["metadata"]["ownerReferences"] = json!([{"name": "x"}])), "");
    let why = "node \"n1\" cannot update resource claim statues";
    assert_eq!(status(&own, &|pod| pod["status"] = json!({"resourceClaimStatuses": [{"name": "x"}]})), why);
    let evict = |name: &str| refusal("pods/eviction", Create, (name, None, &null));
    assert_eq!(evict("a"), "");
    assert_eq!(evict("b"), "node n1 can only evict pods with spec.nodeName set to itself");
    assert!(evict("c").starts_with("Missing"), "{}", evict("c"));
}

#[test]
fn the_node_itself() {
    let object = |labels: Value| json!({"metadata": {"name": "n1", "labels": labels}});
    let create = |object: &Value| refusal("nodes", Create, ("", None, object));
    assert_eq!(create(&object(json!({"kubernetes.io/hostname": "n1", "example.com/a": "b"}))), "");
    let mut tainted = object(json!({}));
    tainted["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}]);
    assert_eq!(create(&tainted), "", "taints are its own when it comes");
    assert_eq!(
        create(&object(json!({"kubernetes.io/foo": "1"}))),
        "node \"n1\" is not allowed to set the following labels: kubernetes.io/foo"
    );
    assert_eq!(create(&json!({"metadata": {"name": "n8"}})), "node \"n1\" is not allowed to modify node \"n8\"");
    assert_eq!(create(&json!({"metadata": {"generateName": "n1"}})), "node \"n1\" is not allowed to modify node \"\"");
    let old = object(json!({"node-restriction.kubernetes.io/x": "1"}));
    let update = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        ["nodes", "nodes/status"].map(|text| refusal(text, Update, ("n1", Some(&old), &new)))
    };
    let is = |found: [String; 2], expected: &str| assert_eq!(found, [expected, expected]);
    is(update(&|node| node["status"] = json!({"phase": "Running"})), "");
    is(update(&|node| node["metadata"]["annotations"] = json!({"a": "b"})), "");
    is(update(&|node| node["spec"] = json!({"unschedulable": true})), "");
    is(update(&|node| node["spec"] = json!({"taints": []})), "");
    is(
        update(&|node| node["spec"] = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]})),
        "node \"n1\" is not allowed to modify taints",
    );
    is(
        update(&|node| node["metadata"]["ownerReferences"] = json!([{"name": "x"}])),
        "node \"n1\" is not allowed to modify ownerReferences",
    );
    is(
        update(&|node| node["metadata"]["labels"] = json!({})),
        "is not allowed to modify labels: node-restriction.kubernetes.io/x",
    );
    for (label, fine) in [
        ("example.com/x", true),
        ("plain", true),
        ("node.kubernetes.io/foo", true),
        ("a.kubelet.kubernetes.io/foo", true),
        ("topology.kubernetes.io/zone", true),
        ("failure-domain.beta.kubernetes.io/zone", true),
        ("beta.kubernetes.io/instance-type", true),
        ("kubernetes.io/os", true),
        ("kubernetes.io/foo", false),
        ("node-role.kubernetes.io/worker", false),
        ("a.node-restriction.kubernetes.io/x", false),
        ("k8s.io/x", false),
        ("foo.k8s.io/x", false),
        ("notk8s.io/x", true),
    ] {
        let found = update(&|node| node["metadata"]["labels"][label] = json!("v"));
        is(found, &if fine { String::new() } else { format!("is not allowed to modify labels: {label}") });
    }
    let other = refusal("nodes/status", Update, ("n2", Some(&json!({})), &json!({})));
    assert_eq!(other, "node \"n1\" is not allowed to modify node \"n2\"");
}

#[test]
fn what_else_a_node_writes() {
    let claim = json!({"spec": {"volumeName": "v"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    let status = |change: &dyn Fn(&mut Value)| {
        let mut new = claim.clone();
        change(&mut new);
        refusal("persistentvolumeclaims/status", Update, ("c", Some(&claim), &new))
    };
    assert_eq!(status(&|claim| claim["status"]["capacity"]["storage"] = json!("2Gi")), "");
    let why = "node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: status";
    assert_eq!(status(&|claim| claim["status"]["phase"] = json!("Lost")), why);
    let why = "may only update PVC status";
    assert_eq!(refusal("persistentvolumeclaims", Create, ("", None, &claim)), why);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let csi = |name: &str| refusal("csinodes.storage.k8s.io", Create, ("", None, &named(name)));
    assert_eq!(csi("n1"), "");
    assert_eq!(csi("n2"), "can only access CSINode with the same name as the requesting node");
    let lease = refusal("leases.coordination.k8s.io", Create, ("", None, &named("n1")));
    assert_eq!(lease, "can only access leases in the \"kube-node-lease\" system namespace");
    let slice = |node: &str| {
        let slice = json!({"spec": {"nodeName": node}});
        refusal("resourceslices.resource.k8s.io", Create, ("", None, &slice))
    };
    assert_eq!(slice("n1"), "");
    assert_eq!(slice("n2"), "can only create ResourceSlice with the same NodeName as the requesting node");
}

#[test]
fn volumes_on_a_node() {
    let volume = |host: &str| {
        json!({"metadata": {"finalizers": ["a", "b"], "resourceVersion": "7"}, "spec": {"nodeAffinity": {"required":
            {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]}}}})
    };
    let check = |old: Value, change: &dyn Fn(&mut Value), expected: &str| {
        let mut new = old.clone();
        change(&mut new);
        assert_eq!(refusal("persistentvolumes", Update, ("v", Some(&old), &new)), expected, "{old}");
    };
    check(volume("n1"), &|volume| volume["metadata"]["finalizers"] = json!(["b"]), "");
    let why = "node \"n1\" can only update volumes whose node affinity is for itself alone";
    check(volume("n2"), &|volume| volume["metadata"]["finalizers"] = json!([]), why);
    check(json!({"spec": {}}), &|_| {}, why);
    let why = "node \"n1\" can only remove finalizers of volumes";
    check(volume("n1"), &|volume| volume["metadata"]["finalizers"] = json!(["a", "b", "c"]), why);
    check(volume("n1"), &|volume| volume["spec"]["claimRef"] = json!({"name": "x"}), why);
}

#[test]
fn tokens_that_a_node_asks_for() {
    let token = |bound: Value, audiences: Value| {
        let token = json!({"spec": {"boundObjectRef": bound, "audiences": audiences}});
        let core = Resource::core("serviceaccounts");
        let nothing =
            |_: &crate::authorize::Attributes, _: &Identity| crate::authorize::Decision::NoOpinion(String::new());
        let judged = ask_as(&cluster(), &node("n1"), (&core, "token"), (Create, "default", None), |request| {
            let mut request = request.clone();
            request.authorizer = &nothing;
            restrict(&request, &token)
        });
        match judged {
            Ok(()) => String::new(),
            Err(Refusal::Forbidden(why)) => why,
            Err(other) => format!("{other:?}"),
        }
    };
    let bound = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    assert_eq!(token(bound("a", "uid-a"), json!(["vault"])), "");
    assert_eq!(token(bound("a", "uid-a"), json!(["of-driver"])), "");
    assert_eq!(token(Value::Null, json!([])), "node requested token not bound to a pod");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "x"});
    assert_eq!(token(secret, json!([])), "node requested token not bound to a pod");
    assert_eq!(token(bound("a", ""), json!([])), "node requested token with a pod binding without a uid");
    assert_eq!(
        token(bound("b", "uid-b"), json!([])),
        "node requested token bound to a pod scheduled on a different node"
    );
    let why = "the UID in the bound object reference (x) does not match the UID in record. The object might have been \
               deleted and then recreated";
    assert_eq!(token(bound("a", "x"), json!([])), why);
    let unknown = |audience: &str| {
        format!(
            "audience {audience:?} not found in pod spec volume, system:node:n1 is not authorized to request tokens \
             for this audience"
        )
    };
    assert_eq!(token(bound("a", "uid-a"), json!([])), unknown(""));
    assert_eq!(token(bound("a", "uid-a"), json!(["x"])), unknown("x"));
    assert_eq!(token(bound("a", "uid-a"), json!(["x", "vault"])), "node may only request 0 or 1 audiences");
    assert!(token(bound("gone", "uid"), json!([])).starts_with("Missing"));
}

#[test]
fn only_nodes_are_restricted() {
    let pods = Resource::core("pods");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n2"}});
    for (identity, expected) in [
        (Identity::administrator(), Ok(())),
        (Identity::default(), Ok(())),
        (node(""), Err("could not determine node from user \"system:node:\"".to_owned().into())),
    ] {
        let judged = ask_as(&cluster(), &identity, (&pods, "status"), (Update, "p", Some(&pod)), |request| {
            let mut object = pod.clone();
            mutate(request, &mut object).and_then(|()| judge(request, &object))
        });
        assert_eq!(judged, expected, "{}", identity.user);
    }
}
