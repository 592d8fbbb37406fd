//! A node's status updates of an ended pod: a final phase stays. Any other client may change a final phase, as in
//! Kubernetes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use coracle_api::meta::Resource;
use coracle_api::strategy::pod_status;
use coracle_http::Answer;
use serde_json::Value;

use super::options::WriteOptions;
use super::warn;
use crate::call::Call;
use crate::prepare::{Part, Standing};
use crate::store::Stored;

/// Pods whose nodes were found to go on: each has one line of the log. Beyond so many all are told anew.
const TOLD_MAX: usize = 1000;

/// By uid.
#[derive(Default)]
pub struct Told(Mutex<BTreeSet<String>>);

impl Told {
    /// Warns whoever is answered, and writes one line a pod, however often its node tries.
    pub fn answered(&self, answer: &mut Answer, stored: &Stored, warning: Option<String>) {
        let Some(warning) = warning else { return };
        warn(answer, std::slice::from_ref(&warning));
        let pod: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
        let (meta, text) = (&pod["metadata"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let mut told = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(text(&meta["uid"])) {
            let (namespace, name, node) =
                (text(&meta["namespace"]), text(&meta["name"]), text(&pod["spec"]["nodeName"]));
            log::warn!("pod {namespace}/{name}, as node {node} says it: {warning}");
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }
}

/// Puts back the final phase that a node's status would leave. Returns the warning for the node.
pub fn keep(
    call: &Call,
    part: Part,
    wish: &WriteOptions,
    old: Option<Standing<'_>>,
    new: &mut Value,
) -> Option<String> {
    let of_node = part == Part::Status && call.kind.resource == Resource::core("pods") && wish.of_node(call);
    pod_status::keep_end(new, old.filter(|_| of_node)?.object)
}
