//! Under which name each controller acts, and whether the rights of the name allow what the controller wants. PURE.
//!
//! A row of the table of controllers does the work of one or more controllers of Kubernetes. A write is made under the
//! first of their names that may make it, by the roles that this program was built with.

use super::intent::{Doing, Intent, Refusal};
use crate::authorize::{Attributes, Authorizer, OWN_PARTS, identity_of};
use crate::commit::MASTER;
use coracle_api::meta::{Key, Resource};
use coracle_http::Identity;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// By row of the table of controllers. None: what kube-apiserver does itself, with its own rights.
const NAMES: &[(&str, &[&str])] = &[
    ("replication", &["replication-controller"]),
    ("jobs", &["job-controller"]),
    ("job pods", &["job-controller"]),
    ("cron jobs", &["cronjob-controller"]),
    ("ended jobs", &["ttl-after-finished-controller"]),
    ("deployments", &["deployment-controller"]),
    ("statefulsets", &["statefulset-controller"]),
    ("daemonsets", &["daemon-set-controller"]),
    ("scheduler", &["kube-scheduler"]),
    ("ephemeral", &["ephemeral-volume-controller"]),
    ("volumes", &["persistent-volume-binder"]),
    ("claims", &["persistent-volume-binder"]),
    // The service of the API, its endpoints, and the range of service addresses.
    ("own", &[]),
    ("addresses", &[]),
    ("ranges", &["service-cidrs-controller"]),
    ("balancer", &["service-controller"]),
    ("endpoints", &["endpoint-controller", "endpointslice-controller"]),
    // The Lease of a node that is gone falls to the collector of what nobody owns.
    ("nodes", &["node-controller", "generic-garbage-collector"]),
    ("expulsion", &["node-controller"]),
    ("evictions", &["node-controller"]),
    ("namespaces", &["namespace-controller", "service-account-controller", "root-ca-cert-publisher"]),
    ("token secrets", &["kube-controller-manager"]),
    ("quotas", &["resourcequota-controller"]),
    // Their end: in Kubernetes etcd forgets them.
    ("events", &[]),
    ("pod garbage", &["pod-garbage-collector"]),
    ("unplaced", &["pod-garbage-collector"]),
    ("garbage", &["generic-garbage-collector"]),
    ("budgets", &["disruption-controller"]),
    ("autoscalers", &["horizontal-pod-autoscaler"]),
    ("roles", &["clusterrole-aggregation-controller"]),
    ("signing requests", &["certificate-controller"]),
    ("node certificates", &["certificate-controller"]),
    ("disruption", &["disruption-controller"]),
];
/// The row that does the work of two controllers, each for the objects of its own kind.
const OF_SETS: (&str, &str, &[&str]) = ("replication", "replicasets", &["replicaset-controller"]);

static IDENTITIES: LazyLock<BTreeMap<&str, Identity>> = LazyLock::new(|| {
    let names = NAMES.iter().map(|(_, names)| *names).chain([OF_SETS.2]);
    names.flatten().map(|name| (*name, identity_of(name))).collect()
});

/// A controller with the key that it has looked at.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    pub controller: &'a str,
    /// The kind of the key.
    pub of: &'a Resource,
}

impl Actor<'_> {
    /// The identities under which the controller may act.
    fn identities(self) -> impl Iterator<Item = &'static Identity> {
        let row = NAMES.iter().find(|(row, _)| *row == self.controller);
        let (with, plural, of_sets) = OF_SETS;
        let names = match row {
            Some(_) if self.controller == with && self.of.plural == plural => of_sets,
            Some((_, names)) => names,
            // Of a test's own table: every row of this program's table has a row here.
            None => &[],
        };
        let master = names.is_empty().then_some(&*MASTER);
        names.iter().filter_map(|name| IDENTITIES.get(name)).chain(master)
    }

    /// The identity that tells events.
    pub fn teller(self) -> &'static Identity {
        self.identities().next().unwrap_or(&MASTER)
    }

    /// The identity that makes a write. `Err`: none of the controller's names has the right.
    pub fn writer(self, intent: &Intent) -> Result<&'static Identity, Refusal> {
        let needed = needed(intent);
        let may = |identity: &&Identity| {
            let allowed = |any: &Vec<Attributes>| any.iter().any(|one| OWN_PARTS.authorize(one, identity).allows());
            needed.iter().all(allowed)
        };
        self.identities().find(may).ok_or_else(|| {
            let asked: Vec<String> = needed.iter().flatten().map(|one| one.cannot(self.teller(), "")).collect();
            let why = format!(
                "the controller {:?} has no right to what it wants, which is a fault of this program: {}",
                self.controller,
                asked.join(", ")
            );
            Refusal { doing: Doing::Unrighted, ..Refusal::from(why) }
        })
    }
}

/// The rights that an intent needs: all of the lists, and of each list any.
fn needed(intent: &Intent) -> Vec<Vec<Attributes>> {
    let ask = |verb: &str, key: &Key, part: &str| {
        Attributes::resource(verb, &key.resource, part, (&key.namespace, &key.name))
    };
    // A write in this program is no patch and no PUT: either right is enough.
    let change = |key: &Key, part: &str| vec![ask("update", key, part), ask("patch", key, part)];
    let delete = |key: &Key| vec![ask("delete", key, "")];
    match intent {
        Intent::Create { resource, namespace, .. } => {
            vec![vec![Attributes::resource("create", resource, "", (namespace, ""))]]
        }
        // Autoscalers change the number of replicas through the scale of an object.
        Intent::Update { key, .. } => vec![[change(key, ""), vec![ask("update", key, "scale")]].concat()],
        Intent::Status { key, .. } | Intent::Note { key, .. } | Intent::Sign { key, .. } => vec![change(key, "status")],
        Intent::Bind { key, .. } => vec![vec![ask("create", key, "binding")]],
        Intent::Emptied { key, .. } => vec![change(key, "finalize")],
        Intent::Delete { key, .. } | Intent::Collect { key, .. } | Intent::Release { key, finalizer: None, .. } => {
            vec![delete(key)]
        }
        Intent::Disrupt { key, .. } => vec![change(key, "status"), delete(key)],
        Intent::Disown { key, .. } | Intent::Release { key, .. } => vec![change(key, "")],
        Intent::Approve { key, .. } => vec![change(key, "approval")],
        Intent::Then(next) => needed(next),
        // The certificates are files of the master; an event is said about what was done.
        Intent::Revoke { .. } | Intent::Settle { .. } | Intent::Tell(_) | Intent::Announce(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Controllers;
    use super::*;
    use coracle_api::meta::Revision;
    use serde_json::Value;

    #[test]
    fn every_controller_has_a_name() {
        let rows = Controllers::builtin();
        let known: Vec<&str> = NAMES.iter().map(|(row, _)| *row).collect();
        assert_eq!(rows.names(), known, "a row of the table of controllers and a row here");
        for (row, names) in NAMES {
            for name in *names {
                let roles = crate::authorize::bootstrap::objects();
                let user = &IDENTITIES[name].user;
                let account = user.strip_prefix("system:serviceaccount:kube-system:").unwrap_or(user);
                let subject = |one: &Value| one["name"] == *account;
                let bound = roles
                    .iter()
                    .any(|one| one.object["subjects"].as_array().is_some_and(|all| all.iter().any(subject)));
                assert!(bound, "{row}: {name} is bound to no role of every cluster");
            }
        }
    }

    #[test]
    fn a_controller_acts_under_the_name_that_may() {
        let key = |group: &'static str, plural: &'static str| Key {
            resource: Resource { group: group.into(), plural: plural.into() },
            namespace: "ns".to_owned(),
            name: "x".to_owned(),
        };
        let update = |key: Key| Intent::Update { key, seen: Revision(1), object: Value::Null };
        let check = |controller: &str, of: &Key, intent: &Intent, expected: Option<&str>| {
            let writer = Actor { controller, of: &of.resource }.writer(intent);
            let user = writer.as_ref().map(|identity| identity.user.as_str());
            let user = user.map(|user| user.strip_prefix("system:serviceaccount:kube-system:").unwrap_or(user)).ok();
            assert_eq!(user, expected, "{controller} {intent:?} {writer:?}");
        };
        let (service, endpoints, slices) =
            (key("", "services"), key("", "endpoints"), key("discovery.k8s.io", "endpointslices"));
        check("endpoints", &service, &update(endpoints), Some("endpoint-controller"));
        check("endpoints", &service, &update(slices), Some("endpointslice-controller"));
        check("endpoints", &service, &update(key("", "secrets")), None);
        let pod = Intent::Create { resource: Resource::core("pods"), namespace: "ns".to_owned(), object: Value::Null };
        check("replication", &key("", "replicationcontrollers"), &pod, Some("replication-controller"));
        check("replication", &key("apps", "replicasets"), &pod, Some("replicaset-controller"));
        let bind = Intent::Bind { key: key("", "pods"), seen: Revision(1), node: "n".to_owned() };
        check("scheduler", &key("", "pods"), &bind, Some("system:kube-scheduler"));
        check("replication", &key("", "replicationcontrollers"), &bind, None);
        check(
            "autoscalers",
            &key("autoscaling", "horizontalpodautoscalers"),
            &update(key("apps", "deployments")),
            Some("horizontal-pod-autoscaler"),
        );
        check("own", &service, &update(service.clone()), Some("system:apiserver"));
    }
}
