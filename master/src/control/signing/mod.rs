//! CertificateSigningRequests: approves what nodes may have, has signed what is approved, marks what no signer takes,
//! and deletes old requests. PURE.
//!
//!     request -> approve (rules: the requester may create `nodeclient` or `selfnodeclient`) -> sign -> an hour -> gone
//!
//! The rules are those of Kubernetes: its approver, its signers and its cleaner look at the same fields. One is added:
//! a join token gets no certificate of a node that stands, for it would take the node over. A person may approve it.

mod rules;

use self::rules::{Usages, approval, fault};
use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{About, Decision, EventDraft, Intent, Memo, Refusal};
use super::shelf::View;
use super::since::{Now, Since, earlier};
use super::view::{node_key, of_group, read};
use crate::cluster_keys::request::{self, CertificateRequest};
use crate::cluster_keys::tokens::TokenList;
use crate::cluster_keys::{certificate, pem};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision, Time};
use coracle_http::Identity;
use coracle_schema::base64;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub const REQUESTS: Resource = of_group("certificates.k8s.io", "certificatesigningrequests");
/// What decides whether a requester may have a certificate without a person's look.
pub const RIGHTS: &[Resource] = &[
    of_group("rbac.authorization.k8s.io", "clusterroles"),
    of_group("rbac.authorization.k8s.io", "clusterrolebindings"),
];

/// The group of hosts that join, and what its subgroups begin with.
const JOINERS: &str = "system:bootstrappers";
const JOINERS_PREFIX: &str = "system:bootstrappers:";

const HOUR: Duration = Duration::from_secs(3600);
/// As long as Kubernetes keeps requests that were decided, and requests that nobody looks at.
const DECIDED_LIFE: Duration = HOUR;
const PENDING_LIFE: Duration = Duration::from_secs(24 * 3600);
/// A request that waits for its signer has no end.
const FOR_EVER: Duration = Duration::MAX;

/// The part of a request that is looked at again.
#[derive(Clone, Debug)]
pub struct SigningRequestView {
    revision: Revision,
    uid: String,
    created: Option<Time>,
    known: Since,
    approved: Option<Decided>,
    denied: Option<Decided>,
    failed: Option<Decided>,
    conditions: usize,
    issued: bool,
    /// The end of the issued certificate.
    ends: Option<Time>,
    document: Stored,
}

/// A condition: when it was written, by the object and by uptime.
#[derive(Clone, Copy, Debug)]
struct Decided {
    at: Option<Time>,
    since: Since,
}

impl Decided {
    /// How long until it is so old. `None`: it is.
    fn left(self, life: Duration, now: Now) -> Option<Duration> {
        Some(life.saturating_sub(self.since.elapsed(self.at, now))).filter(|left| !left.is_zero())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SigningRequest {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    /// In Base64: PEM.
    request: String,
    signer_name: String,
    expiration_seconds: Option<i64>,
    usages: Vec<String>,
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    certificate: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_update_time: Option<Time>,
}

impl View for SigningRequestView {
    const OF: &'static [Resource] = &[REQUESTS];

    fn read(stored: &Stored, was: Option<&SigningRequestView>, uptime: Duration) -> Option<SigningRequestView> {
        let SigningRequest { metadata, status, .. } = read(stored)?;
        // A new request with this name keeps nothing from the old request.
        let was = was.filter(|was| was.uid == metadata.uid);
        let decided = |kind: &str, before: Option<Decided>| {
            let condition = status.conditions.iter().find(|one| one.kind == kind && one.status == "True")?;
            let since = Since::of(before.map(|before| before.since), was.is_some(), uptime);
            Some(Decided { at: condition.last_update_time, since })
        };
        Some(SigningRequestView {
            revision: stored.revision,
            created: metadata.creation_timestamp,
            known: Since::of(was.map(|was| was.known), false, uptime),
            approved: decided("Approved", was.and_then(|was| was.approved)),
            denied: decided("Denied", was.and_then(|was| was.denied)),
            failed: decided("Failed", was.and_then(|was| was.failed)),
            conditions: status.conditions.len(),
            issued: !status.certificate.is_empty(),
            ends: ends(&status.certificate),
            uid: metadata.uid,
            document: stored.clone(),
        })
    }
}

/// The end of a certificate that is PEM in Base64.
fn ends(certificate: &str) -> Option<Time> {
    let text = String::from_utf8(base64::decode(certificate).ok()?).ok()?;
    let certificate = certificate::parse(&pem::unpem(certificate::LABEL, &text)?).ok()?;
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Time::from_seconds(i64::try_from(end.as_secs()).ok()?)
}

pub fn decide(look: &Look<'_>) -> Decision {
    let Some(view) = look.cluster.get::<SigningRequestView>(look.key) else { return Decision::default() };
    match view.left(look.now) {
        None => {
            let (key, seen) = (look.key.clone(), view.revision);
            Decision::of(vec![Intent::Delete { key, seen, at_once: false }])
        }
        left => {
            let mut decision = act(look, view);
            decision.wake_at = left.filter(|left| *left < FOR_EVER).map(|left| look.now.uptime.saturating_add(left));
            decision
        }
    }
}

impl SigningRequestView {
    /// How long until it is to be deleted. `None`: now.
    fn left(&self, now: Now) -> Option<Duration> {
        let mut left = Some(FOR_EVER);
        if self.conditions == 0 {
            let created = Decided { at: self.created, since: self.known };
            left = earlier(left, Some(created.left(PENDING_LIFE, now)?));
        }
        for decided in [self.denied, self.failed, self.approved.filter(|_| self.issued)].into_iter().flatten() {
            left = earlier(left, Some(decided.left(DECIDED_LIFE, now)?));
        }
        let has_ended = self.ends.is_some_and(|end| end < now.wall);
        left.filter(|_| !(self.issued && self.approved.is_some() && has_ended))
    }
}

fn act(look: &Look<'_>, view: &SigningRequestView) -> Decision {
    if view.issued || view.denied.is_some() || view.failed.is_some() {
        return Decision::default();
    }
    let Some(SigningRequest { spec, .. }) = read::<SigningRequest>(&view.document) else { return Decision::default() };
    let pem = base64::decode(&spec.request).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let request = match request::parse(&pem) {
        Ok(request) => request,
        Err(why) => {
            let why = format!("unable to parse csr {:?}: {why}", look.key.name);
            return Decision { trouble: Some(Refusal::from(why)), ..Decision::default() };
        }
    };
    match view.approved {
        None => approve(look, view, &spec, &request),
        Some(_) => sign(look, view, spec, (&request, pem)),
    }
}

fn approve(look: &Look<'_>, view: &SigningRequestView, spec: &Spec, request: &CertificateRequest) -> Decision {
    let Some(may) = &look.cluster.settings.may_request else { return Decision::default() };
    let identity = Identity {
        user: spec.username.clone(),
        uid: spec.uid.clone(),
        groups: spec.groups.clone(),
        extra: spec.extra.clone(),
        credential: None,
    };
    let found = approval(&spec.signer_name, &spec.username, request, Usages::of(&spec.usages));
    let Some((_, message)) = found.into_iter().find(|(subresource, _)| may(&identity, subresource)) else {
        return Decision::default();
    };
    if let Some(node) = node_taken_over(look.cluster, spec, request) {
        let is_told = look.remembered::<bool>();
        let tell = (!is_told).then(|| not_approved(look.key, view, &node));
        return Decision { memo: Some(Memo::of(true)), ..Decision::of(tell.into_iter().collect()) };
    }
    let condition = json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
    Decision::of(vec![Intent::Approve { key: look.key.clone(), seen: view.revision, condition }])
}

/// The standing node whose certificate a host that joins asks for. An unreadable Node stands.
fn node_taken_over(cluster: &Cluster, spec: &Spec, request: &CertificateRequest) -> Option<String> {
    let is_of_joiners = |group: &String| group == JOINERS || group.starts_with(JOINERS_PREFIX);
    if TokenList::bootstrap_id(&spec.username).is_none() && !spec.groups.iter().any(is_of_joiners) {
        return None;
    }
    let name = request.common_name().strip_prefix(rules::NODE_PREFIX)?.to_owned();
    let stands = cluster.nodes.contains_key(&name) || cluster.damaged.contains(&node_key(&name));
    stands.then_some(name)
}

fn not_approved(key: &Key, view: &SigningRequestView, node: &str) -> Intent {
    let kind = ("certificates.k8s.io/v1", "CertificateSigningRequest");
    let about = About::new(kind, key, &view.uid, view.revision);
    let message = format!(
        "node {node} stands, and a join token asks for its certificate: not approved by rule. If the host joins again, \
         run `kubectl certificate approve {}`, or delete the Node",
        key.name
    );
    Intent::Announce(EventDraft::warning("certificate-controller", about, "NodeStands", message))
}

fn sign(
    look: &Look<'_>,
    view: &SigningRequestView,
    spec: Spec,
    (request, pem): (&CertificateRequest, String),
) -> Decision {
    let (key, seen) = (look.key.clone(), view.revision);
    let intent = match fault(&spec.signer_name, request, Usages::of(&spec.usages)) {
        // Another program signs it.
        None => return Decision::default(),
        Some(Ok(())) => {
            let life = spec.expiration_seconds.and_then(|life| u64::try_from(life).ok()).map(Duration::from_secs);
            Intent::Sign { key, seen, request: pem, usages: spec.usages, life }
        }
        Some(Err(why)) => {
            let mut status = super::view::document(&view.document)["status"].take();
            add_condition(&mut status, failed(&why, look.now.wall));
            Intent::Status { key, seen, status }
        }
    };
    Decision::of(vec![intent])
}

/// The condition of a request that its signer does not sign.
pub fn failed(why: &str, now: Time) -> Value {
    let now = now.to_string();
    json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
        "lastUpdateTime": now, "lastTransitionTime": now})
}

pub fn add_condition(status: &mut Value, condition: Value) {
    match status["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => status["conditions"] = json!([condition]),
    }
}

/// A Node that goes frees its name for hosts that join.
pub fn by_node(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    if change.gone { by_rights(cluster, change) } else { Vec::new() }
}

/// A change of rights concerns every request that nobody has decided.
pub fn by_rights(cluster: &Cluster, _: &ObservedChange<'_>) -> Vec<Key> {
    let pending = cluster.all::<SigningRequestView>().filter(|(_, view)| view.conditions == 0);
    pending.map(|(key, _)| key.clone()).collect()
}
