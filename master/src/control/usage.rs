//! The number of a node's pods and their summed requests. PURE.

use super::view::PodView;
use std::collections::BTreeMap;

/// The number of a node's pods and their summed requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUsage {
    pub pods: i64,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    /// The same for scores: a pod without a request counts with a small default.
    pub scored_cpu_milli: i64,
    pub scored_memory_bytes: i64,
    /// Ephemeral storage, huge pages, extended resources.
    pub others: BTreeMap<String, i64>,
}

impl NodeUsage {
    pub fn add(&mut self, pod: &PodView) {
        self.change(pod, 1);
    }

    pub fn remove(&mut self, pod: &PodView) {
        self.change(pod, -1);
    }

    fn change(&mut self, pod: &PodView, sign: i64) {
        let changed = |of: i64, by: i64| of.saturating_add(by.saturating_mul(sign));
        self.pods = changed(self.pods, 1);
        self.cpu_milli = changed(self.cpu_milli, pod.cpu_milli);
        self.memory_bytes = changed(self.memory_bytes, pod.memory_bytes);
        self.scored_cpu_milli = changed(self.scored_cpu_milli, pod.scored_cpu_milli);
        self.scored_memory_bytes = changed(self.scored_memory_bytes, pod.scored_memory_bytes);
        for (name, amount) in &pod.others {
            let of = self.others.entry(name.clone()).or_default();
            *of = changed(*of, *amount);
            if *of == 0 {
                self.others.remove(name);
            }
        }
    }
}
