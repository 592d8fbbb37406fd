//! Restarts of pods by a person's command. PURE.
//!
//! A request is two numbers above the numbers that the pod's containers carry in their labels. So a request that is
//! carried out twice does nothing the second time, and an agent that was killed in the middle goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Containers of earlier rounds end, and start anew: see `plan::renewal`.
    pub round: u32,
    /// The sandboxes up to this attempt are replaced as well. None: the sandbox stays, and with it the pod's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<u32>,
}

impl Restart {
    pub fn replaces(&self, sandbox: u32) -> bool {
        self.sandbox.is_some_and(|last| sandbox <= last)
    }
}

/// By the pod's uid. At most as many as pods are wanted here.
pub type Restarts = BTreeMap<String, Restart>;
