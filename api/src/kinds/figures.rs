//! Metrics of nodes and pods: clients only read these objects.

use super::kind::{Kind, Verb};
use super::row::Group;
use crate::strategy;
use std::borrow::Cow;

const METRICS: Group = Group { name: "metrics.k8s.io", version: "v1beta1", package: "metrics" };

pub fn rows() -> Vec<Kind> {
    vec![figures("nodes", "", "NodeMetrics").of_cluster(), figures("pods", "", "PodMetrics")]
}

fn figures(plural: &'static str, singular: &'static str, kind: &'static str) -> Kind {
    Kind {
        verbs: Cow::Borrowed(&[Verb::Get, Verb::List]),
        read_from_nodes: true,
        fate: None,
        ..METRICS.row(plural, singular, kind, &strategy::REVIEW)
    }
}
