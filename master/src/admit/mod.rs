//! Admission: the fields of a written object that other objects set, and the limits that other objects impose. Priority
//! classes, runtime classes, storage and ingress classes, service accounts and their secrets, limit ranges, quotas, the
//! levels of Pod Security, what a node may write, who may approve and sign.
//! PURE. Only `ClusterView` reads stored objects.
//!
//! `ADMISSION` lists all rules. `commit` asks `mutate` in the draft of a change, after the defaults of the type, and
//! `judge` when it settles the change, after the rules of the kind. A deletion is judged before anything else.
//!
//! Everything is looked up in one moment and written in another. Two rules have to hold until the write, so `commit`
//! takes a lock for them: the namespace of a new object stays (`home`), and no quota is exceeded (`ledger`). All other
//! rules are as true as they were when the objects were looked up, as in Kubernetes.

mod certificates;
mod classes;
mod event_rate;
mod external_ips;
mod limits;
mod node_restriction;
mod pod;
mod pod_security;
pub mod quota;
mod remarks;
mod request;
pub mod roles;
mod secrets;
mod token_volume;

pub use event_rate::{EventBuckets, EventCount, EventKeys, TooManyEvents};
pub use remarks::{Refusal, Remarks};
pub use request::{AdmissionOperation, AdmissionOptions, AdmissionRequest, ClusterView};

use coracle_api::meta::Resource;
use coracle_api::strategy::{CLIENT_SIGNER, namespace, pod_defaults, system_classes, wants_masters};
use coracle_http::Identity;
use serde_json::{Value, json};
use std::sync::Arc;

const RANGES: Resource = Resource::core("limitranges");
pub const QUOTAS: Resource = Resource::core("resourcequotas");
const PRIORITY_CLASSES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");
const RUNTIME_CLASSES: (&str, &str) = ("node.k8s.io", "runtimeclasses");
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What is listed at every write of some kind: to be kept as documents between two changes.
pub fn lists() -> [Resource; 5] {
    [RANGES, QUOTAS, resource(PRIORITY_CLASSES), resource(classes::STORAGE_CLASSES), resource(classes::INGRESS_CLASSES)]
}

use AdmissionOperation::{Create, Delete, Update};

/// A rule of admission.
struct AdmissionRow {
    /// The admission plugin of Kubernetes that has the rule, or `REGISTRY`.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the order of the rows with Kubernetes"))]
    plugin: &'static str,
    /// `pods`, `pods/resize`, `priorityclasses.scheduling.k8s.io`.
    resources: &'static [&'static str],
    operations: &'static [AdmissionOperation],
    phase: Phase,
}

/// `Err`: why the change is forbidden. The document of a deletion is null.
enum Phase {
    Mutate(fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), String>),
    Judge(fn(&AdmissionRequest<'_>, &Value) -> Result<(), String>),
    /// It runs among those that mutate, and changes nothing.
    JudgeEarly(fn(&AdmissionRequest<'_>, &Value) -> Result<(), Refusal>),
    /// With a refusal of another kind than "forbidden".
    JudgeLate(fn(&AdmissionRequest<'_>, &Value) -> Result<(), Refusal>),
}

use Phase::{Judge, JudgeEarly, JudgeLate, Mutate};

/// Not a plugin: in Kubernetes the storage of the kind has the rule. It runs after all plugins.
const REGISTRY: &str = "";

const fn row(
    plugin: &'static str,
    resources: &'static [&'static str],
    operations: &'static [AdmissionOperation],
    phase: Phase,
) -> AdmissionRow {
    AdmissionRow { plugin, resources, operations, phase }
}

/// All rules, in the order in which Kubernetes runs its plugins. All that mutate come before all that judge.
/// StorageObjectInUseProtection is no row: a claim or a volume gets its finalizer from the strategy of its kind, also
/// where a person puts the file into the store's directory.
const ADMISSION: &[AdmissionRow] = &[
    row("NamespaceLifecycle", &["namespaces"], &[Delete], Judge(|request, _| immortal(request))),
    row("LimitRanger", &["pods"], &[Create], Mutate(|request, pod| Ok(limits::complete(&ranges(request)?, pod)))),
    row("LimitRanger", &["pods"], &[Create], Judge(|request, pod| limits::judge_pod(&ranges(request)?, pod))),
    row(
        "LimitRanger",
        &["pods", "pods/resize"],
        &[Update],
        Judge(|request, pod| match is_resized(request, pod) {
            true => limits::judge_pod(&ranges(request)?, pod),
            false => Ok(()),
        }),
    ),
    row(
        "LimitRanger",
        &["persistentvolumeclaims"],
        &[Create, Update],
        Judge(|request, claim| limits::judge_claim(&ranges(request)?, claim)),
    ),
    row(
        "ServiceAccount",
        &["pods"],
        &[Create],
        Mutate(|request, pod| pod::account(request.view, request.namespace, request.suffix, pod)),
    ),
    row("ServiceAccount", &["pods/ephemeralcontainers"], &[Update], Judge(pod::added_containers)),
    row("NodeRestriction", node_restriction::RESOURCES, &[Create, Update], JudgeEarly(node_restriction::restrict)),
    row("NodeRestriction", node_restriction::RESOURCES, &[Delete], JudgeLate(node_restriction::restrict)),
    row("TaintNodesByCondition", &["nodes"], &[Create], Mutate(|_, node| Ok(taint(node)))),
    row("PodSecurity", &["namespaces"], &[Create, Update], JudgeLate(pod_security::namespace)),
    row("PodSecurity", pod_security::PODS, &[Create, Update], JudgeLate(pod_security::pod)),
    row("PodSecurity", pod_security::WORKLOADS, &[Create, Update], JudgeLate(pod_security::workload)),
    row("Priority", &["pods"], &[Create], Mutate(|request, pod| pod::priority(request.view, pod))),
    row(
        "Priority",
        &["priorityclasses.scheduling.k8s.io"],
        &[Create, Update],
        Judge(|request, class| pod::one_default(request.view, class)),
    ),
    row(
        "DefaultTolerationSeconds",
        &["pods"],
        &[Create],
        Mutate(|_, pod| Ok(pod_defaults::patience(&mut pod["spec"]))),
    ),
    // Early: a later moment may be repeated, and an event counts once.
    row("EventRateLimit", &["events"], &[Create, Update], JudgeEarly(few_events)),
    row(
        "DefaultStorageClass",
        &["persistentvolumeclaims"],
        &[Create],
        Mutate(|request, claim| classes::storage(request.view, claim)),
    ),
    row(
        "PersistentVolumeClaimResize",
        &["persistentvolumeclaims"],
        &[Update],
        Judge(|request, claim| classes::growth(request.view, claim, request.old.unwrap_or(&Value::Null))),
    ),
    row("RuntimeClass", &["pods"], &[Create], Mutate(|request, pod| pod::runtime(request.view, pod))),
    row("RuntimeClass", &["pods"], &[Create], Judge(|request, pod| pod::overhead(request.view, pod))),
    row(
        "CertificateApproval",
        &["certificatesigningrequests.certificates.k8s.io/approval"],
        &[Update],
        Judge(|request, _| certificates::approval(request)),
    ),
    row(
        "CertificateSigning",
        &["certificatesigningrequests.certificates.k8s.io/status"],
        &[Update],
        Judge(certificates::signing),
    ),
    row(
        "CertificateSubjectRestriction",
        &["certificatesigningrequests.certificates.k8s.io"],
        &[Create],
        Judge(|_, request| no_masters(request)),
    ),
    row(
        "DefaultIngressClass",
        &["ingresses.networking.k8s.io"],
        &[Create],
        Mutate(|request, ingress| classes::ingress(request.view, ingress)),
    ),
    row(
        "DenyServiceExternalIPs",
        &["services"],
        &[Create, Update],
        Judge(|request, service| match request.options.deny_service_external_ips {
            true => external_ips::judge(service, request.old),
            false => Ok(()),
        }),
    ),
    row("PodTopologyLabels", &["pods"], &[Create], Mutate(|request, pod| Ok(pod::place(request.view, pod)))),
    row(
        "PodResizeValidator",
        &["pods", "pods/resize"],
        &[Update],
        Judge(|request, pod| match is_resized(request, pod) {
            true => pod::fits_its_node(request.view, pod),
            false => Ok(()),
        }),
    ),
    row("ResourceQuota", &["pods"], &[Create], Judge(quota_knows)),
    row(
        REGISTRY,
        &["certificatesigningrequests.certificates.k8s.io"],
        &[Create],
        Mutate(|request, signing| Ok(sign(request.identity, signing))),
    ),
    row(REGISTRY, &["priorityclasses.scheduling.k8s.io"], &[Delete], Judge(|request, _| of_the_system(request))),
];

/// Other objects, and the identity of the client, set fields of the document.
pub fn mutate(request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Refusal> {
    ADMISSION.iter().filter(|row| row.concerns(request)).try_for_each(|row| match row.phase {
        Mutate(mutate) => Ok(mutate(request, object)?),
        JudgeEarly(judge) => judge(request, object),
        Judge(_) | JudgeLate(_) => Ok(()),
    })
}

/// Whether other objects forbid the change.
pub fn judge(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Refusal> {
    ADMISSION.iter().filter(|row| row.concerns(request)).try_for_each(|row| match row.phase {
        Mutate(_) | JudgeEarly(_) => Ok(()),
        Judge(judge) => Ok(judge(request, object)?),
        JudgeLate(judge) => judge(request, object),
    })
}

impl AdmissionRow {
    fn concerns(&self, request: &AdmissionRequest<'_>) -> bool {
        let Resource { group, plural } = &request.kind.resource;
        let named = |text: &str| {
            let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
            (resource.split_once('.').unwrap_or((resource, "")), subresource) == ((plural, group), request.subresource)
        };
        self.operations.contains(&request.operation) && self.resources.iter().any(|text| named(text))
    }
}

fn ranges(request: &AdmissionRequest<'_>) -> Result<Arc<Vec<Value>>, String> {
    request.view.list(&RANGES, Some(request.namespace))
}

/// Refuses an event of a source that has said too much. The clock and the buckets are the registry's.
fn few_events(request: &AdmissionRequest<'_>, event: &Value) -> Result<(), Refusal> {
    let Some(count) = request.events else { return Ok(()) };
    let keys = EventKeys::of(request.namespace, request.identity, event);
    count(&keys).map_err(|TooManyEvents { why, retry_after_s }| Refusal::TooMany {
        why: format!("Too many requests: {why}"),
        retry_after_s,
    })
}

/// The namespaces of every cluster stay, also where nobody can read them.
fn immortal(request: &AdmissionRequest<'_>) -> Result<(), String> {
    match namespace::PROTECTED.contains(&request.name) {
        true => Err("this namespace may not be deleted".to_owned()),
        false => Ok(()),
    }
}

fn of_the_system(request: &AdmissionRequest<'_>) -> Result<(), String> {
    let own = system_classes().iter().any(|class| class["metadata"]["name"] == request.name);
    match request.old {
        Some(_) if own => Err("this is a system priority class and cannot be deleted".to_owned()),
        _ => Ok(()),
    }
}

/// Whether a pod asks for more or less than before.
fn is_resized(request: &AdmissionRequest<'_>, pod: &Value) -> bool {
    request.old.is_some_and(|old| pod::is_resized(pod, old))
}

fn no_masters(request: &Value) -> Result<(), String> {
    match wants_masters(request) {
        true => Err(format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed")),
        false => Ok(()),
    }
}

/// Whether a pod says all that a quota needs in order to count it.
fn quota_knows(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), String> {
    let quotas = request.view.list(&QUOTAS, Some(request.namespace))?;
    quotas.iter().try_for_each(|quota| quota::unsaid(quota, request.kind, pod))
}

fn resource((group, plural): (&'static str, &'static str)) -> Resource {
    Resource { group: group.into(), plural: plural.into() }
}

/// The identity of the client replaces the requester fields of a CertificateSigningRequest.
fn sign(identity: &Identity, request: &mut Value) {
    request["spec"]["username"] = identity.user.as_str().into();
    for (field, said) in [
        ("uid", (!identity.uid.is_empty()).then(|| json!(identity.uid))),
        ("groups", (!identity.groups.is_empty()).then(|| json!(identity.groups))),
        ("extra", (!identity.extra.is_empty()).then(|| json!(identity.extra))),
    ] {
        match (said, request["spec"].as_object_mut()) {
            (Some(said), _) => request["spec"][field] = said,
            (None, Some(spec)) => drop(spec.remove(field)),
            (None, None) => {}
        }
    }
}

/// Nobody has said yet that a new node is ready: the node controller takes this away when somebody does.
fn taint(node: &mut Value) {
    let spec = &mut node["spec"];
    let ours = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    match spec["taints"].as_array_mut() {
        Some(taints) if taints.iter().any(ours) => {}
        Some(taints) => taints.push(taint),
        None => spec["taints"] = json!([taint]),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::authorize::AllowAll;
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::Key;
    use std::collections::BTreeMap;

    /// Objects as they are given.
    #[derive(Default)]
    pub struct Objects(pub BTreeMap<Key, Value>);

    impl Objects {
        pub fn with(mut self, resource: Resource, object: Value) -> Objects {
            let said = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            self.0.insert(Key { resource, namespace: said("namespace"), name: said("name") }, object);
            self
        }
    }

    impl ClusterView for Objects {
        fn get(&self, key: &Key) -> Result<Option<Value>, String> {
            Ok(self.0.get(key).cloned())
        }

        fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Arc<Vec<Value>>, String> {
            let held =
                |key: &&Key| key.resource == *resource && namespace.is_none_or(|namespace| key.namespace == namespace);
            let objects = self.0.iter().filter(|(key, _)| held(key)).map(|(_, object)| object.clone());
            Ok(Arc::new(objects.collect()))
        }
    }

    /// The plugins of Kubernetes 1.36 that have rows, in the order of Kubernetes. Kubernetes asks webhooks before the
    /// quotas. The storage of a kind comes last.
    const PLUGINS: [&str; 21] = [
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "EventRateLimit",
        "DefaultStorageClass",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DenyServiceExternalIPs",
        "PodTopologyLabels",
        "PodResizeValidator",
        "ResourceQuota",
        REGISTRY,
    ];

    #[test]
    fn the_rows_stand_in_the_order_of_kubernetes() {
        let mut plugins: Vec<&str> = ADMISSION.iter().map(|row| row.plugin).collect();
        plugins.dedup();
        assert_eq!(plugins, PLUGINS);
    }

    /// A row of a resource that nobody serves would never be asked.
    #[test]
    fn every_row_names_a_resource() {
        let kinds = Kinds::builtin();
        for text in ADMISSION.iter().flat_map(|row| row.resources) {
            let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            let kind = kinds.row(&Resource { group: group.into(), plural: plural.into() });
            let kind = kind.unwrap_or_else(|| panic!("{text}: no such kind"));
            assert!(subresource.is_empty() || kind.subresource(subresource).is_some(), "{text}: no such subresource");
        }
    }

    /// A request for admission about an object in namespace `ns`.
    pub fn ask<T>(
        view: &dyn ClusterView,
        about: (&Resource, &'static str),
        change: (AdmissionOperation, &str, Option<&Value>),
        then: impl FnOnce(&AdmissionRequest<'_>) -> T,
    ) -> T {
        ask_as(view, &Identity::default(), about, change, then)
    }

    /// The same by somebody. The authorizer allows everything.
    pub fn ask_as<T>(
        view: &dyn ClusterView,
        identity: &Identity,
        (resource, subresource): (&Resource, &'static str),
        (operation, name, old): (AdmissionOperation, &str, Option<&Value>),
        then: impl FnOnce(&AdmissionRequest<'_>) -> T,
    ) -> T {
        let kind = Kinds::builtin().row(resource).expect("a row");
        then(&AdmissionRequest {
            view,
            authorizer: &AllowAll,
            kind: &kind,
            subresource,
            operation,
            namespace: "ns",
            name,
            old,
            identity,
            suffix: None,
            events: None,
            options: AdmissionOptions::default(),
            remarks: &Remarks::default(),
        })
    }

    #[test]
    fn the_rows_of_a_request() {
        let check =
            |resource: (&'static str, &'static str), subresource, operation, mutates: &[&str], judges: &[&str]| {
                let resource = super::resource(resource);
                ask(&Objects::default(), (&resource, subresource), (operation, "", None), |request| {
                    let plugins = |mutating: bool| -> Vec<&str> {
                        let rows = ADMISSION.iter().filter(|row| row.concerns(request));
                        let early = |row: &&AdmissionRow| matches!(row.phase, Mutate(_) | JudgeEarly(_));
                        rows.filter(|row| early(row) == mutating).map(|row| row.plugin).collect()
                    };
                    assert_eq!(plugins(true), mutates, "{operation:?} {resource:?} {subresource:?}");
                    assert_eq!(plugins(false), judges, "{operation:?} {resource:?} {subresource:?}");
                });
            };
        let (pods, claims, classes) = (("", "pods"), ("", "persistentvolumeclaims"), PRIORITY_CLASSES);
        let signing = ("certificates.k8s.io", "certificatesigningrequests");
        let new_pod = [
            "LimitRanger",
            "ServiceAccount",
            "NodeRestriction",
            "Priority",
            "DefaultTolerationSeconds",
            "RuntimeClass",
            "PodTopologyLabels",
        ];
        let node = ["NodeRestriction"];
        check(pods, "", Create, &new_pod, &["LimitRanger", "PodSecurity", "RuntimeClass", "ResourceQuota"]);
        check(pods, "", Update, &node, &["LimitRanger", "PodSecurity", "PodResizeValidator"]);
        check(pods, "resize", Update, &node, &["LimitRanger", "PodSecurity", "PodResizeValidator"]);
        check(pods, "status", Update, &node, &[]);
        check(pods, "eviction", Create, &node, &[]);
        check(pods, "ephemeralcontainers", Update, &node, &["ServiceAccount", "PodSecurity"]);
        check(pods, "", Delete, &[], &node);
        check(claims, "", Create, &["NodeRestriction", "DefaultStorageClass"], &["LimitRanger"]);
        check(claims, "", Update, &node, &["LimitRanger", "PersistentVolumeClaimResize"]);
        check(claims, "status", Update, &node, &[]);
        check(("", "persistentvolumes"), "", Update, &node, &[]);
        check(("", "serviceaccounts"), "token", Create, &node, &[]);
        check(("apps", "deployments"), "", Create, &[], &["PodSecurity"]);
        check(("apps", "deployments"), "status", Update, &[], &[]);
        check(("", "services"), "", Create, &[], &["DenyServiceExternalIPs"]);
        check(("", "services"), "status", Update, &[], &[]);
        check(("", "events"), "", Create, &["EventRateLimit"], &[]);
        check(classes, "", Create, &[], &["Priority"]);
        check(classes, "", Update, &[], &["Priority"]);
        check(classes, "", Delete, &[], &[REGISTRY]);
        check(("", "namespaces"), "", Delete, &[], &["NamespaceLifecycle"]);
        check(("", "namespaces"), "", Create, &[], &["PodSecurity"]);
        check(("", "namespaces"), "", Update, &[], &["PodSecurity"]);
        check(("", "nodes"), "", Create, &["NodeRestriction", "TaintNodesByCondition"], &[]);
        check(("", "nodes"), "", Update, &node, &[]);
        check(("", "nodes"), "status", Update, &node, &[]);
        check(("", "nodes"), "", Delete, &[], &node);
        check(("networking.k8s.io", "ingresses"), "", Create, &["DefaultIngressClass"], &[]);
        check(signing, "", Create, &["NodeRestriction", REGISTRY], &["CertificateSubjectRestriction"]);
        check(signing, "approval", Update, &[], &["CertificateApproval"]);
        check(signing, "status", Update, &[], &["CertificateSigning"]);
        check(("", "configmaps"), "", Create, &[], &[]);
    }

    #[test]
    fn deletions_that_are_forbidden() {
        let (namespaces, classes) = (Resource::core("namespaces"), resource(PRIORITY_CLASSES));
        let stays = Err(Refusal::from("this namespace may not be deleted".to_owned()));
        let own = Err(Refusal::from("this is a system priority class and cannot be deleted".to_owned()));
        let object = json!({});
        for (resource, name, old, expected) in [
            (&namespaces, "default", Some(&object), stays.clone()),
            (&namespaces, "kube-system", Some(&object), stays.clone()),
            // Nobody can read it.
            (&namespaces, "kube-system", None, stays),
            (&namespaces, "a", Some(&object), Ok(())),
            (&classes, "system-node-critical", Some(&object), own),
            (&classes, "system-node-critical", None, Ok(())),
            (&classes, "high", Some(&object), Ok(())),
        ] {
            let judged =
                ask(&Objects::default(), (resource, ""), (Delete, name, old), |request| judge(request, &Value::Null));
            assert_eq!(judged, expected, "{resource:?} {name}");
        }
    }

    /// The tolerations of every pod stand before the tolerations of the runtime class, as in Kubernetes.
    #[test]
    fn the_order_of_tolerations() {
        let class = json!({"metadata": {"name": "vm"}, "scheduling": {"tolerations": [{"key": "vm"}]}});
        let account = json!({"metadata": {"name": "default", "namespace": "ns"}});
        let view =
            Objects::default().with(resource(RUNTIME_CLASSES), class).with(Resource::core("serviceaccounts"), account);
        let mut pod = json!({"metadata": {}, "spec": {"runtimeClassName": "vm", "containers": []}});
        let mutated =
            ask(&view, (&Resource::core("pods"), ""), (Create, "", None), |request| mutate(request, &mut pod));
        assert_eq!(mutated, Ok(()));
        let tolerations = pod["spec"]["tolerations"].as_array().expect("a list");
        let keys: Vec<&str> = tolerations.iter().filter_map(|toleration| toleration["key"].as_str()).collect();
        assert_eq!(keys, [NOT_READY, "node.kubernetes.io/unreachable", "vm"]);
    }

    #[test]
    fn a_new_node_is_not_ready() {
        for (spec, expected) in [
            (json!({}), json!([{"key": NOT_READY, "effect": "NoSchedule"}])),
            (json!({"taints": [{"key": "k"}]}), json!([{"key": "k"}, {"key": NOT_READY, "effect": "NoSchedule"}])),
            (
                json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}),
                json!([{"key": NOT_READY, "effect": "NoSchedule"}]),
            ),
        ] {
            let mut node = json!({"spec": spec});
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], expected);
        }
    }
}
