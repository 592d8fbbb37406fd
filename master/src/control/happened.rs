//! What has happened lately that a pod on no node may have waited for. PURE.

use super::view::{NodeView, PodView};
use std::collections::VecDeque;

/// The number of remembered happenings. A pod that missed a forgotten happening is looked at in any case.
const LENGTH_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    NodeCame(String),
    /// A node's uid, labels, cordon or resources have changed; changed taints are `NodeTaints`.
    NodeChanged(String),
    NodeTaints(String),
    /// A node is gone.
    NodeLeft,
    /// A pod has left its node, or ended.
    PodLeft,
    /// A pod has got a node, or other labels there.
    PodCame,
    /// The balancer has released a service's ports on nodes.
    PortsLeft,
    /// Something about claims, volumes, classes.
    Storage,
}

/// The last happenings, each with its number.
#[derive(Default)]
pub struct Happened {
    last: VecDeque<Happening>,
    /// How many there were.
    pub count: u64,
}

impl Happened {
    pub fn note(&mut self, happening: Happening) {
        if self.last.len() == LENGTH_MAX {
            self.last.pop_front();
        }
        self.last.push_back(happening);
        self.count += 1;
    }

    /// Notes a change of a node that may matter to waiting pods.
    pub fn of_node(&mut self, name: &str, was: Option<&NodeView>, is: Option<&NodeView>) {
        match (was, is) {
            (None, Some(_)) => self.note(Happening::NodeCame(name.to_owned())),
            (Some(_), None) => self.note(Happening::NodeLeft),
            (Some(was), Some(is)) => {
                if was.taints != is.taints {
                    self.note(Happening::NodeTaints(name.to_owned()));
                } else if was.uid != is.uid || !same(was, is) {
                    self.note(Happening::NodeChanged(name.to_owned()));
                }
            }
            (None, None) => {}
        }
    }

    pub fn of_pod(&mut self, was: Option<&PodView>, is: Option<&PodView>) {
        let stands = |pod: Option<&PodView>| pod.is_some_and(|pod| !pod.node.is_empty() && !pod.terminal());
        match (stands(was), stands(is)) {
            (true, false) => self.note(Happening::PodLeft),
            (false, true) => self.note(Happening::PodCame),
            (true, true) => {
                let (Some(was), Some(is)) = (was, is) else { return };
                if was.uid != is.uid || was.labels() != is.labels() {
                    self.note(Happening::PodCame);
                }
                if (was.cpu_milli, was.memory_bytes) != (is.cpu_milli, is.memory_bytes) {
                    self.note(Happening::PodLeft);
                }
            }
            (false, false) => {}
        }
    }

    /// `None`: too much has happened since.
    pub fn since(&self, count: u64) -> Option<impl Iterator<Item = &Happening>> {
        let missed = usize::try_from(self.count - count).ok().filter(|missed| *missed <= self.last.len())?;
        Some(self.last.iter().skip(self.last.len() - missed))
    }
}

fn same(was: &NodeView, is: &NodeView) -> bool {
    was.labels == is.labels
        && was.unschedulable == is.unschedulable
        && was.ready.is_empty() == is.ready.is_empty()
        && (was.cpu_milli, was.memory_bytes, was.pods_max, &was.others)
            == (is.cpu_milli, is.memory_bytes, is.pods_max, &is.others)
}
