//! The course of an update of one pod, in the form in which it is kept on disk: a kill of the agent or a power cut in
//! the middle changes nothing about its end. PURE.
//!
//!     Trying: the pod is replaced by one of the newer images
//!        │  ready for a moment: the record goes            │ not ready within the deadline
//!        ▼                                                  ▼
//!      (none)                                   Back: the pod is replaced by one of the images before
//!                                                           │ ready, or its deadline is over
//!                                                           ▼
//!                                               Held: the pod stays with the images before

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::facts::naming::Source;
use crate::facts::update::{PinnedImage, PodUpdate};
use crate::facts::wanted::Wanted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Trying,
    Back,
    Held,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub source: String,
    pub namespace: String,
    pub name: String,
    pub stage: Stage,
    /// The smallest attempt number of the sandbox that the stage asks for.
    pub sandbox: u32,
    /// How long each stage may take. After a restart of the agent the time begins anew: the clock may not be set yet.
    pub deadline_seconds: u64,
    /// By container.
    pub containers: BTreeMap<String, Exchange>,
    /// Why the newer images were given up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The images of one container, by the engine's ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub reference: String,
    pub old: String,
    pub new: String,
}

/// By uid.
pub type Records = BTreeMap<String, Record>;

impl Record {
    /// What the plan is asked for.
    pub fn asks(&self) -> PodUpdate {
        let image = |exchange: &Exchange| PinnedImage {
            reference: exchange.reference.clone(),
            id: self.id_of(exchange).to_owned(),
        };
        let images = self.containers.iter().map(|(name, exchange)| (name.clone(), image(exchange))).collect();
        PodUpdate { sandbox: self.sandbox, images }
    }

    /// The image that the stage asks for.
    pub fn id_of<'a>(&self, exchange: &'a Exchange) -> &'a str {
        match self.stage {
            Stage::Trying => &exchange.new,
            Stage::Back | Stage::Held => &exchange.old,
        }
    }

    /// `sandbox`: the newest attempt number of the pod's sandboxes.
    pub fn go_back(&mut self, why: &str, sandbox: u32) {
        self.stage = Stage::Back;
        self.sandbox = self.sandbox.max(sandbox).saturating_add(1);
        why.clone_into(&mut self.why);
    }

    /// Whether the pod still asks for the images that the update is about.
    pub fn fits(&self, wanted: &Wanted) -> bool {
        self.containers
            .iter()
            .all(|(name, exchange)| wanted.member(name).is_some_and(|member| member.spec.image == exchange.reference))
    }

    pub fn source(&self) -> Option<Source> {
        Source::parse(&self.source)
    }

    /// Images that may be gone back to.
    pub fn kept(&self) -> impl Iterator<Item = &String> {
        self.containers.values().map(|exchange| &exchange.old)
    }

    /// Whether these are the very images that were given up.
    pub fn gave_up(&self, new: &BTreeMap<String, Exchange>) -> bool {
        let same = |(name, exchange): (&String, &Exchange)| {
            self.containers.get(name).is_some_and(|known| known.new == exchange.new)
        };
        self.stage != Stage::Trying && new.iter().all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Record {
        let exchange = Exchange { reference: "x:1".into(), old: "sha256:a".into(), new: "sha256:b".into() };
        Record {
            source: "file".into(),
            namespace: "default".into(),
            name: "web".into(),
            stage: Stage::Trying,
            sandbox: 2,
            deadline_seconds: 300,
            containers: BTreeMap::from([("c".to_owned(), exchange)]),
            why: String::new(),
        }
    }

    #[test]
    fn the_plan_is_asked_for_the_newer_image_and_then_for_the_one_before() {
        let mut record = record();
        let asks = record.asks();
        assert_eq!((asks.sandbox, asks.image_of("c", "x:1")), (2, Some("sha256:b")));
        assert_eq!(asks.image_of("c", "x:2"), None, "the pod was edited");
        record.go_back("it is not ready", 2);
        let asks = record.asks();
        assert_eq!((asks.sandbox, asks.image_of("c", "x:1")), (3, Some("sha256:a")));
        record.stage = Stage::Held;
        assert_eq!(record.asks(), asks);
        assert!(record.gave_up(&record.containers.clone()));
        let mut newer = record.containers.clone();
        newer.get_mut("c").unwrap().new = "sha256:c".into();
        assert!(!record.gave_up(&newer));
    }

    #[test]
    fn the_form_on_disk() {
        let text = serde_json::to_string(&record()).unwrap();
        let expected = json!({"source": "file", "namespace": "default", "name": "web", "stage": "trying", "sandbox": 2,
            "deadlineSeconds": 300, "containers": {"c": {"reference": "x:1", "old": "sha256:a", "new": "sha256:b"}}});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record());
    }
}
