//! The routing of changes: kinds of other groups that are called like ours concern nobody.

use super::*;
use coracle_api::labels::LabelSet;
use std::sync::Arc;

/// Endpoints of the core's `web` outlive a `services.serving.knative.dev` of that name, whatever becomes of it.
#[test]
fn a_foreign_kind_of_the_same_plural_concerns_nobody() {
    let managed = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let standing = ("endpoints", json!({"metadata": {"name": "web", "labels": managed}}));
    let (controllers, mut cluster) = (Controllers::builtin(), cluster(&[service(json!({})), standing]));
    let group = "serving.knative.dev";
    for plural in
        ["services", "pods", "nodes", "replicationcontrollers", "endpoints", "namespaces", "resourcequotas", "events"]
    {
        let resource = Resource { group: group.into(), plural: plural.into() };
        assert!(!controllers.followed(&resource)(&Key { resource: resource.clone(), ..key("services", "web") }));
        let key = Arc::new(Key { resource, ..key("services", "web") });
        // It has an owner, so the controllers hear of it.
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}]);
        let object = json!({"metadata": {"name": "web", "uid": "foreign", "ownerReferences": owner}}).to_string();
        let stored = Stored::new(key.clone(), Revision(8), object.into(), LabelSet::default());
        for (revision, new) in [(8, Some(stored)), (9, None)] {
            let gone = new.is_none();
            let before = cluster.apply(
                &Event { revision: Revision(revision), key: key.clone(), old: None, new, renewed: false },
                MINUTE,
            );
            let concerned = controllers.concerned(&cluster, &key, gone, &before);
            let all: Vec<&str> = concerned.iter().map(|owner| owner.controller).collect();
            assert!(all.iter().all(|controller| *controller == "garbage"), "{key}: {concerned:?}");
        }
    }
    assert!(cluster.damaged.is_empty() && cluster.nodes.is_empty());
    for owner in controllers.all(&cluster).iter().filter(|owner| owner.controller == "endpoints") {
        assert_eq!(owner.key, key("services", "web"));
        let decision = decide(&cluster, "endpoints", owner.key.clone(), at(MINUTE));
        assert!(!decision.intents.iter().any(|intent| matches!(intent, Intent::Delete { .. })), "{decision:?}");
    }
}
