//! What is to be done about the pods of a DaemonSet. PURE.

use super::super::intent::{Decision, Intent};
use super::super::replicas::{self, BURST_MAX, Pod};
use super::daemons::{Daemons, GENERATION, HASH};
use super::placing;
use serde_json::Value;
use std::time::Duration;

/// What is to be done about its pods.
#[derive(Default)]
pub struct Work<'c> {
    /// Told before anything is done.
    pub tales: Vec<Intent>,
    /// The names of nodes.
    pub create: Vec<String>,
    pub delete: Vec<Pod<'c>>,
    pub wake_at: Option<Duration>,
    /// What is known of failed pods from now on.
    pub memory: Option<Value>,
}

impl Work<'_> {
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    pub fn into_decision(self, daemons: &Daemons<'_>, document: &Value) -> Decision {
        let (key, template) = (daemons.key, &daemons.set.template);
        let mut intents = self.tales;
        for node in self.create.iter().take(BURST_MAX) {
            intents.extend(replicas::make(key, template, pod(daemons, document, node)));
        }
        for pod in self.delete.into_iter().take(BURST_MAX) {
            intents.extend(replicas::delete(key, template, pod));
        }
        Decision { wake_at: self.wake_at, memory: self.memory, ..Decision::of(intents) }
    }
}

/// A new pod for a node.
fn pod(daemons: &Daemons<'_>, document: &Value, node: &str) -> Value {
    let mut pod = replicas::of_template(daemons.key, &daemons.set.template, &document["spec"]["template"]);
    if let Some(generation) = &daemons.set.template_generation {
        pod["metadata"]["labels"][GENERATION] = generation.as_str().into();
    }
    pod["metadata"]["labels"][HASH] = daemons.hash.as_str().into();
    placing::bind(&mut pod["spec"], node);
    pod
}
