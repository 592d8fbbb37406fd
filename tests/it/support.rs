//! SUPPORT.md is made from the tables that the programs go by, so it cannot say anything else than they do.
//!
//!     CORACLE_SUPPORT=write     writes it anew

use coracle_api::fields::{TABLE, Verdict};
use coracle_api::kinds::{Kind, Kinds, Verb};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

const HEAD: &str = "\
# What is supported

Made from the kind table (`api/src/kinds`) and the agent's field table (`api/src/fields.rs`); a test holds it to them.

In short: pods, workloads, services, configuration, claims, quotas, autoscalers, budgets, roles and certificate requests act.
Ingress, NetworkPolicy, admission webhooks and policies, CSI and resource claims (DRA) are stored and nothing more. CustomResourceDefinitions
and APIServices cannot be made. Of a pod, nearly every field is acted on: refused are volumes of CSI, clouds and images, raw devices,
resource claims, user namespaces, SCTP and Windows. What else differs stands in [docs/differences.md](docs/differences.md), and what that
means for charts.

## Kinds

The last column says what becomes of an object of the kind:

- **acts**: a controller, the scheduler, an agent or the API does what it says; who, stands behind.
- **stored**: it is decoded, defaulted, checked, patched, watched and printed by the rules of Kubernetes, and that is all. Where
  Kubernetes itself would act on it, whoever writes one is warned.
- **answered**: a question. The answer is made when somebody asks, and nothing is stored.
- **absent**: 404. These kinds stand in a list of their own below.

A verb that a kind does not have, such as the creation of a CustomResourceDefinition, is answered with 405 (`MethodNotAllowed`).

Verbs are letters: **c**reate, **g**et, **l**ist, **w**atch, **u**pdate, **p**atch, **d**elete, delete **a**ll (a collection). The
parts of a kind are its subresources; \"before v1\" is its name in v1beta1 to v1beta3.

| kind | in | short | verbs | parts | before v1 | what becomes of it |
| --- | --- | --- | --- | --- | --- | --- |
";
/// Every kind that is no question and that something acts on or that is only for its readers: the word, and who or why.
const OUTCOMES: &[(&str, &str)] = &[
    ("v1 Binding", "acts: the pod gets its node"),
    ("v1 ComponentStatus", "answered: the master is asked how its parts are"),
    ("v1 ConfigMap", "acts: the agent gives it to pods as variables and files"),
    ("v1 Endpoints", "acts: made for services; those that people make become slices"),
    ("v1 Event", "stored: for its readers, as in Kubernetes"),
    ("v1 LimitRange", "acts: the API defaults and refuses new pods and claims by it"),
    ("v1 Namespace", "acts: the API makes nothing outside of one; its end ends what it holds"),
    ("v1 Node", "acts: the scheduler places pods on it"),
    ("v1 PersistentVolume", "acts: controllers bind it, the agent mounts it"),
    ("v1 PersistentVolumeClaim", "acts: controllers bind it, the agent mounts it"),
    ("v1 Pod", "acts: the scheduler places it, an agent runs it"),
    ("v1 PodTemplate", "stored: for its readers, as in Kubernetes"),
    ("v1 ReplicationController", "acts: a controller makes its pods"),
    ("v1 ResourceQuota", "acts: the API refuses what exceeds it"),
    ("v1 Secret", "acts: the agent gives it to pods and pulls images with it"),
    ("v1 Service", "acts: agents balance it and answer its name"),
    ("v1 ServiceAccount", "acts: its tokens and pull secrets are given to pods"),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition", "answered: the list is empty, and none can be made yet"),
    ("apiregistration.k8s.io/v1 APIService", "answered: the list is empty, and none can be made yet"),
    ("apps/v1 ControllerRevision", "acts: StatefulSets and DaemonSets go back to it"),
    ("apps/v1 DaemonSet", "acts: a controller makes its pods"),
    ("apps/v1 Deployment", "acts: a controller makes its ReplicaSets"),
    ("apps/v1 ReplicaSet", "acts: a controller makes its pods"),
    ("apps/v1 StatefulSet", "acts: a controller makes its pods and claims"),
    ("autoscaling/v1 HorizontalPodAutoscaler", "acts: the same objects as those of autoscaling/v2"),
    ("autoscaling/v2 HorizontalPodAutoscaler", "acts: a controller scales by cpu and memory"),
    ("batch/v1 CronJob", "acts: a controller makes its Jobs"),
    ("batch/v1 Job", "acts: a controller makes its pods"),
    (
        "certificates.k8s.io/v1 CertificateSigningRequest",
        "acts: nodes are approved by rule, and what is approved for a signer of Kubernetes is signed",
    ),
    (
        "coordination.k8s.io/v1 Lease",
        "acts: an agent's own is the sign of life of its node; others are for those who hold them",
    ),
    ("discovery.k8s.io/v1 EndpointSlice", "acts: agents send the connections of services there"),
    ("events.k8s.io/v1 Event", "stored: the same objects as those of v1"),
    ("flowcontrol.apiserver.k8s.io/v1 FlowSchema", "acts: the API finds the priority level of a request by it"),
    (
        "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration",
        "acts: the API gives its requests places by its shares",
    ),
    ("metrics.k8s.io/v1beta1 NodeMetrics", "answered: the agents are asked"),
    ("metrics.k8s.io/v1beta1 PodMetrics", "answered: the agents are asked"),
    ("networking.k8s.io/v1 IPAddress", "stored: a controller makes one for each address of a service, for its readers"),
    ("networking.k8s.io/v1 ServiceCIDR", "acts: services get addresses out of it"),
    ("node.k8s.io/v1 RuntimeClass", "acts: the API adds its overhead and node selector, the agent takes its handler"),
    ("policy/v1 PodDisruptionBudget", "acts: evictions and preemption keep to it"),
    ("rbac.authorization.k8s.io/v1 ClusterRole", "acts: the API allows what it says to whom it is bound"),
    ("rbac.authorization.k8s.io/v1 ClusterRoleBinding", "acts: the API allows its subjects what the role says"),
    ("rbac.authorization.k8s.io/v1 Role", "acts: the API allows what it says to whom it is bound"),
    ("rbac.authorization.k8s.io/v1 RoleBinding", "acts: the API allows its subjects what the role says"),
    ("scheduling.k8s.io/v1 PriorityClass", "acts: the API gives pods its priority"),
    ("storage.k8s.io/v1 CSINode", "acts: the scheduler keeps to its limits of volumes"),
    ("storage.k8s.io/v1 StorageClass", "acts: claims get their volumes by it"),
];
/// Kinds of Kubernetes 1.36 that are in no table here.
const ABSENT: &[(&str, &[&str])] = &[
    ("apiserverinternal.k8s.io", &["StorageVersion"]),
    ("certificates.k8s.io", &["ClusterTrustBundle", "PodCertificateRequest"]),
    ("coordination.k8s.io", &["LeaseCandidate"]),
    ("resource.k8s.io", &["DeviceTaintRule", "ResourcePoolStatusRequest"]),
    ("scheduling.k8s.io", &["PodGroup", "Workload"]),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];
const ABSENT_HEAD: &str = "
## Kinds that are absent

Kubernetes 1.36 has these as alpha or beta kinds, most of them off by default. They answer 404, and so do alpha and beta versions of
the kinds above, kinds of CustomResourceDefinitions, and what Kubernetes itself has given up (PodSecurityPolicy, `extensions/v1beta1`).

| group | kinds |
| --- | --- |
";
const FIELDS: &str = "
## Fields of a pod

What the agent does about each field of a pod's spec; a row covers all below it that has no row of its own: `volumes[]` means every other
kind of volume, `valueFrom` every other source. **Harmless**: the agent need not act on it; who does, or why nobody has to, stands behind.
A pod that asks for a **refused** one is not started: whoever writes it is warned at once, and its status, event and log name the field.

| field | what becomes of it |
| --- | --- |
";

fn letters(verbs: &[Verb]) -> String {
    let letter = |verb: &Verb| match verb {
        Verb::Create => 'c',
        Verb::Get => 'g',
        Verb::List => 'l',
        Verb::Watch => 'w',
        Verb::Update => 'u',
        Verb::Patch => 'p',
        Verb::Delete => 'd',
        Verb::DeleteCollection => 'a',
    };
    "cglwupda".chars().filter(|c| verbs.iter().any(|verb| letter(verb) == *c)).collect()
}

fn name(kind: &Kind) -> String {
    format!("{} {}", kind.api_version(), kind.kind)
}

fn outcome(kind: &Kind) -> &'static str {
    match kind {
        kind if kind.answer.is_some() => "answered",
        kind if kind.idle => "stored: nothing acts on it yet",
        kind => {
            let row = OUTCOMES.iter().find(|(known, _)| *known == name(kind));
            row.unwrap_or_else(|| panic!("{}: OUTCOMES says who acts on it", name(kind))).1
        }
    }
}

fn row(kind: &Kind) -> String {
    let parts: Vec<String> =
        kind.subresources.iter().map(|part| format!("{} ({})", part.name, letters(&part.verbs))).collect();
    let old = kind.old.as_ref().map_or("", |old| if old.plural.is_empty() { "v1beta3 alone" } else { &old.plural });
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        name(kind),
        if kind.namespaced { "namespace" } else { "cluster" },
        kind.short_names.join(", "),
        letters(&kind.verbs),
        parts.join(", "),
        old,
        outcome(kind)
    )
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Acted => "acted on".to_owned(),
        Verdict::Harmless(why) => format!("harmless: {why}"),
        Verdict::Refused(why) => format!("refused: {why}"),
        Verdict::Only(values, why) => format!("acted on: {}; any other value is refused: {why}", values.join(", ")),
        Verdict::Keys(keys) => format!("acted on: {}; any other key is refused", keys.join(", ")),
    }
}

fn text() -> String {
    let kinds = Kinds::builtin();
    let mut rows: Vec<&Kind> = kinds.iter().collect();
    rows.sort_by(|a, b| (&a.resource.group, &a.version, &a.kind).cmp(&(&b.resource.group, &b.version, &b.kind)));
    let mut text = HEAD.to_owned();
    text.extend(rows.into_iter().map(row));
    text.push_str(ABSENT_HEAD);
    for (group, kinds) in ABSENT {
        writeln!(text, "| {group} | {} |", kinds.join(", ")).unwrap();
    }
    text.push_str(FIELDS);
    for (field, said) in TABLE {
        writeln!(text, "| `{field}` | {} |", verdict(said)).unwrap();
    }
    text
}

#[test]
fn what_is_said_to_be_supported_is() {
    made("CORACLE_SUPPORT", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../SUPPORT.md"), &text());
}

/// Asserts that a file is what is made of the tables; `variable=write` in the environment writes it anew.
pub fn made(variable: &str, path: &Path, wanted: &str) {
    if env::var(variable).is_ok_and(|value| value == "write") {
        fs::write(path, wanted).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    let path = path.display();
    assert!(found == wanted, "{path} is not what the tables say ({differs:?}); {variable}=write makes it anew");
}

#[test]
fn outcomes_are_those_of_kinds_that_have_them() {
    let kinds = Kinds::builtin();
    for (known, outcome) in OUTCOMES {
        let kind = kinds.iter().find(|kind| name(kind) == *known);
        let says_itself = kind.is_some_and(|kind| kind.idle || kind.answer.is_some());
        assert!(
            kind.is_some() && !says_itself,
            "OUTCOMES says of {known} {outcome:?}: there is no such kind, or its own row says it"
        );
        assert!(
            ["acts: ", "stored: ", "answered: "].iter().any(|word| outcome.starts_with(word)),
            "{known}: {outcome}"
        );
    }
    for (group, absent) in ABSENT {
        let there: Vec<_> = kinds
            .iter()
            .filter(|kind| kind.resource.group == *group && absent.contains(&&*kind.kind))
            .map(name)
            .collect();
        assert!(there.is_empty(), "ABSENT lists what is there: {there:?}");
    }
}
