//! What becomes of a decision about a pod: writes, events and conditions. PURE.
//!
//! Why no node takes a pod is worded where it is found: in `filters`, `volumes`, `spread`, `relations` and `preempt`;
//! `mod` counts them.

use super::super::cluster::Cluster;
use super::super::controller::Now;
use super::super::evictions::doomed;
use super::super::intent::{About, EventDraft, Intent};
use super::super::storage::view::{BY_CONTROLLER, ClaimView, SELECTED_NODE, VolumeView, claim_ref};
use super::super::view::{PodView, document};
use super::ask::Ask;
use super::preempt::REASON;
use super::volumes::Grant;
use coracle_api::meta::Key;
use coracle_api::strategy::qos;
use serde_json::{Value, json};

/// The source of the events.
const SOURCE: &str = "default-scheduler";

pub struct Words<'w, 'a> {
    pub now: Now,
    pub ask: &'w Ask<'a>,
}

impl Words<'_, '_> {
    fn about(&self) -> About {
        About::pod(self.ask.key, self.ask.pod)
    }

    pub fn bound(&self, node: &str) -> [Intent; 2] {
        let Key { namespace, name, .. } = self.ask.key;
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        let bind = Intent::Bind { key: self.ask.key.clone(), seen: self.ask.pod.revision, node: node.to_owned() };
        [bind, Intent::Tell(EventDraft::normal(SOURCE, self.about(), "Scheduled", message).doing("Binding"))]
    }

    /// Nominates the node that is being prepared for the pod.
    pub fn nominated(&self, node: &str) -> Option<Intent> {
        let stands = self.ask.pod.unbound.as_ref().is_some_and(|unbound| unbound.nominated == node);
        let mut status = self.status();
        status["nominatedNodeName"] = node.into();
        (!stands).then(|| self.write(status))
    }

    /// Says why a pod waits, unless the pod's status already says this. `nominated`: the nominated node; empty: none.
    pub fn waits(&self, why: String, nominated: &str) -> Vec<Intent> {
        let unbound = self.ask.pod.unbound.as_ref();
        let is_known = unbound.and_then(|pod| pod.unscheduled.as_ref()) == Some(&why);
        if is_known && unbound.is_some_and(|pod| pod.nominated == nominated) {
            return Vec::new();
        }
        let mut status = self.status();
        let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why, "lastProbeTime": null,
            "lastTransitionTime": self.now.wall.to_string(),
        });
        if self.ask.pod.generation > 0 {
            condition["observedGeneration"] = self.ask.pod.generation.into();
        }
        match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
            Some(stands) => {
                // The time of a condition that did not change its status stays.
                if stands["status"] == "False" {
                    condition["lastTransitionTime"] = stands["lastTransitionTime"].clone();
                }
                *stands = condition;
            }
            None => conditions.push(condition),
        }
        status["conditions"] = conditions.into();
        match status.as_object_mut() {
            Some(fields) if nominated.is_empty() => drop(fields.remove("nominatedNodeName")),
            _ => status["nominatedNodeName"] = nominated.into(),
        }
        let tale = EventDraft::warning(SOURCE, self.about(), "FailedScheduling", why).doing("Scheduling");
        vec![self.write(status), Intent::Tell(tale)]
    }

    pub fn preempted(&self, key: &Key, pod: &PodView, node: &str) -> [Intent; 2] {
        let why = "default-scheduler: preempting to accommodate a higher priority pod";
        let status = doomed(&document(&pod.document), pod.generation, REASON, why, self.now.wall);
        let message = format!("Preempted by pod {} on node {node}", self.ask.pod.uid);
        let tale = EventDraft::normal(SOURCE, About::pod(key, pod), "Preempted", message).doing("Preempting");
        [Intent::Disrupt { key: key.clone(), seen: pod.revision, status }, Intent::Tell(tale)]
    }

    /// Keeps a volume for a claim, or says where one is to be made.
    pub fn granted(&self, cluster: &Cluster, grant: &Grant, node: &str) -> Option<Intent> {
        match grant {
            Grant::Volume { claim, volume } => {
                let (wish, view) = (cluster.get::<ClaimView>(claim)?, cluster.get::<VolumeView>(volume)?);
                if view.claim.is_some() {
                    return None;
                }
                let mut object = document(&view.document);
                object["metadata"]["annotations"][BY_CONTROLLER] = "yes".into();
                object["spec"]["claimRef"] = claim_ref(claim, wish);
                Some(Intent::Update { key: volume.clone(), seen: view.revision, object })
            }
            Grant::Made { claim } => {
                let view = cluster.get::<ClaimView>(claim).filter(|view| view.node.is_empty())?;
                let mut object = document(&view.document);
                object["metadata"]["annotations"][SELECTED_NODE] = node.into();
                Some(Intent::Update { key: claim.clone(), seen: view.revision, object })
            }
        }
    }

    fn status(&self) -> Value {
        status_of(&document(&self.ask.pod.document))
    }

    fn write(&self, status: Value) -> Intent {
        Intent::Status { key: self.ask.key.clone(), seen: self.ask.pod.revision, status }
    }
}

/// A status is kept only in memory: after a restart of the master a pod's status begins as a new pod's status.
fn status_of(pod: &Value) -> Value {
    let status = &pod["status"];
    if status["phase"].is_string() {
        return status.clone();
    }
    let mut begun = json!({"phase": "Pending", "qosClass": qos::class(pod)});
    for (field, value) in status.as_object().into_iter().flatten() {
        begun[field] = value.clone();
    }
    begun
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_was_lost_begins_anew() {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        for (status, expected) in [
            (json!(null), json!({"phase": "Pending", "qosClass": "Burstable"})),
            (
                json!({"nominatedNodeName": "n"}),
                json!({"phase": "Pending", "qosClass": "Burstable", "nominatedNodeName": "n"}),
            ),
            (
                json!({"phase": "Pending", "qosClass": "BestEffort"}),
                json!({"phase": "Pending", "qosClass": "BestEffort"}),
            ),
        ] {
            assert_eq!(status_of(&json!({"spec": spec, "status": status})), expected);
        }
    }
}
